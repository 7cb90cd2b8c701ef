/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.c: a hardware queue of a device: a thread that runs what was issued, in that order, one
 * after the other. Streams that share a queue therefore block one another, as they do where a
 * device has fewer queues than a program has streams.
 *
 * Why that cannot hang by itself: what an operation waits for was issued before it, on whichever
 * queue. Only waits for memory can refer to something that is issued later.
 */
#include <errno.h>
#include <signal.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "sim.h"

struct op {
	struct op *next;
	struct context *ctx;
	struct work work;
	unsigned after_count;
	struct point after[];
};

static struct queue *queues[DEVICES_MAX][QUEUES_MAX];

int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void sim_sleep_ns(long ns)
{
	struct timespec t = {ns / 1000000000, ns % 1000000000};

	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

/* splitmix64 */
uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Two cores must do for two ranks and their queues: what does not come at once is waited for
 * without the CPU. */
void pause_turn(struct pause *p)
{
	p->turns++;
	if (p->turns < 16)
		__builtin_ia32_pause();
	else if (p->turns < 2000)
		sched_yield();
	else
		sim_sleep_ns(p->turns < 3000 ? 20000 : 200000);
}

bool may_wait(struct pause *p, struct context *ctx, const struct queue *q, const char *what,
	      const void *address)
{
	int64_t now;

	pause_turn(p);
	if (atomic_load_explicit(&ctx->is_dead, memory_order_relaxed) ||
	    atomic_load_explicit(&ctx->error, memory_order_relaxed) != CUDA_SUCCESS)
		return false;
	if (sim_config.limit_s == 0 || p->turns % 256)
		return true;
	now = now_ns();
	if (p->since_ns == 0)
		p->since_ns = now;
	if (now - p->since_ns < (int64_t)sim_config.limit_s * 1000000000)
		return true;
	sim_say("device %d, queue %d: still waiting after %lu s (--limit): %s at %p", q->device,
		q->index, sim_config.limit_s, what, address);
	context_fault(ctx, CUDA_ERROR_LAUNCH_TIMEOUT, "a wait was over its limit");
	return false;
}

static bool is_done(const struct queue *q, uint64_t seq)
{
	return atomic_load_explicit(&q->done, memory_order_acquire) >= seq; /* finish */
}

bool point_is_done(struct point p)
{
	return !p.queue || is_done(p.queue, p.seq);
}

static void sleep_until_done(struct point p)
{
	pthread_mutex_lock(&p.queue->lock);
	while (!point_is_done(p)) {
		if (p.seq < p.queue->wanted)
			p.queue->wanted = p.seq;
		pthread_cond_wait(&p.queue->has_done, &p.queue->lock);
	}
	pthread_mutex_unlock(&p.queue->lock);
}

static void wait_unlocked(struct point p)
{
	for (unsigned i = 0; i < 500 && !point_is_done(p); i++)
		if (i < 50)
			__builtin_ia32_pause();
		else
			sched_yield();
	if (!point_is_done(p))
		sleep_until_done(p);
}

void point_wait(struct point p)
{
	if (point_is_done(p))
		return;
	sim_unlock();
	wait_unlocked(p);
	sim_lock();
}

/* --delay-us: before the work and before its end is seen, so that neither can be relied upon. */
static void delay(struct queue *q)
{
	if (sim_config.delay_us)
		sim_sleep_ns((long)(random_next(&q->random) % (sim_config.delay_us * 1000 + 1)));
}

static void finish(struct queue *q, uint64_t seq)
{
	/* Under the lock, as the waiter's look: either sees the other. Who waits for more than this
	 * sleeps on. */
	pthread_mutex_lock(&q->lock);
	atomic_store_explicit(&q->done, seq, memory_order_release); /* is_done */
	if (q->wanted <= seq) {
		q->wanted = UINT64_MAX;
		pthread_cond_broadcast(&q->has_done);
	}
	pthread_mutex_unlock(&q->lock);
}

static struct op *next_op(struct queue *q)
{
	struct op *op;
	bool is_locked = false;

	/* A while without the CPU's sleep: most programs issue again soon. */
	for (unsigned i = 0; i < 200; i++) {
		pthread_mutex_lock(&q->lock);
		is_locked = true;
		if (q->head)
			break;
		pthread_mutex_unlock(&q->lock);
		is_locked = false;
		sched_yield();
	}
	if (!is_locked)
		pthread_mutex_lock(&q->lock);
	while (!q->head)
		pthread_cond_wait(&q->has_work, &q->lock);
	op = q->head;
	q->head = op->next;
	if (!q->head)
		q->tail = NULL;
	pthread_mutex_unlock(&q->lock);
	return op;
}

static void *run(void *arg)
{
	struct queue *q = arg;

	for (uint64_t seq = 1;; seq++) {
		struct op *op = next_op(q);

		for (unsigned i = 0; i < op->after_count; i++)
			wait_unlocked(op->after[i]);
		delay(q);
		work_run(&op->work, op->ctx, q);
		delay(q);
		work_release(&op->work);
		free(op);
		finish(q, seq);
	}
	return NULL;
}

struct queue *queue_get(int device, unsigned index)
{
	struct queue *q = queues[device][index];

	if (q)
		return q;
	q = queues[device][index] = sim_alloc(sizeof(*q));
	q->device = device;
	q->index = (int)index;
	q->random = sim_config.seed * 1000003 + (uint64_t)device * 131 + index;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->has_work, NULL);
	pthread_cond_init(&q->has_done, NULL);
	q->wanted = UINT64_MAX;
	return q;
}

static void start(struct queue *q)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&q->thread, NULL, run, q) != 0) {
		sim_say("no thread for a hardware queue");
		_Exit(1);
	}
	pthread_detach(q->thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	q->is_started = true;
}

uint64_t queue_issue(struct queue *q, struct context *ctx, struct work *work,
		     const struct point *after, unsigned after_count)
{
	struct op *op = sim_alloc(sizeof(*op) + after_count * sizeof(*after));

	op->ctx = ctx;
	op->work = *work;
	for (unsigned i = 0; i < after_count; i++)
		if (after[i].queue != q && !point_is_done(after[i]))
			op->after[op->after_count++] = after[i];
	if (!q->is_started)
		start(q);
	pthread_mutex_lock(&q->lock);
	if (q->tail)
		q->tail->next = op;
	else
		q->head = op;
	q->tail = op;
	pthread_cond_signal(&q->has_work);
	pthread_mutex_unlock(&q->lock);
	return ++q->issued;
}
