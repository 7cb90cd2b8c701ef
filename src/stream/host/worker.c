/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.c: the thread that runs a host stream's entries in order. Hot. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stream/host/host_int.h"
#include "util/backoff.h"
#include "util/clock.h"
#include "util/error.h"

/* Looks at an empty queue before the worker sleeps: some 30 us. */
#define IDLE_LOOKS 1500u

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- progress while waiting ---- */

/* The core's hook is one constant table; it stays callable for ever, but is called only while a
 * port lives. */
static const struct stmpi_stream_hook *_Atomic hook;
static _Atomic uint32_t ports;

void host_hook_add(const struct stmpi_stream_hook *h)
{
	atomic_store_explicit(&hook, h, memory_order_relaxed);
	atomic_fetch_add_explicit(&ports, 1, memory_order_release); /* partner: host_wait_word */
}

void host_hook_remove(void)
{
	atomic_fetch_sub_explicit(&ports, 1, memory_order_relaxed);
}

void host_wait_word(const uint64_t *word, uint64_t value)
{
	struct stmpi_backoff b = {0, 0, 0};
	const struct stmpi_stream_hook *h;

	while (!stmpi_word_reached(word, value)) {
		h = NULL;
		if (stmpi_likely(atomic_load_explicit(&ports, memory_order_acquire) != 0))
			h = atomic_load_explicit(&hook,
						 memory_order_relaxed); /* ordered by ports */
		if (h != NULL && h->poll() > 0)
			stmpi_backoff_reset(&b);
		else if (stmpi_unlikely(stmpi_backoff_pause(&b)) && h != NULL)
			h->idle();
	}
}

/* ---- entries ---- */

void host_mark_put(struct host_mark *mark)
{
	/* Acquire-release: the last one sees all use of the others. */
	if (mark != NULL && atomic_fetch_sub_explicit(&mark->refs, 1, memory_order_acq_rel) == 1)
		free(mark);
}

static void record(struct host_mark *mark)
{
	mark->time_ns = stmpi_clock_ns();
	stmpi_word_store(&mark->reached, 1);
	host_mark_put(mark);
}

static void notify(_Atomic uint32_t *word)
{
	/* The waiter may return, and its stack be reused, before the wake: a wake of nobody is
	 * harmless. */
	atomic_store_explicit(word, 1, memory_order_release); /* partner: host_notify_wait */
	futex_wake(word);
}

void host_notify_wait(_Atomic uint32_t *word)
{
	while (atomic_load_explicit(word, memory_order_acquire) == 0) /* partner: notify */
		futex_wait(word, 0);
}

/* Returns 0 when the worker must end. */
static inline int run(const struct host_entry *e)
{
	const struct host_port *port;

	switch ((enum host_entry_kind)e->kind) {
	case HOST_DOORBELL:
		stmpi_word_store(e->a, e->b);
		port = e->c;
		port->hook->doorbell(port->arg);
		break;
	case HOST_FIRE:
		port = e->c;
		port->hook->fire(port->arg, e->a, e->b);
		break;
	case HOST_WRITE:
		stmpi_word_store(e->a, e->b);
		break;
	case HOST_WAIT:
		if (!stmpi_word_reached(e->a, e->b))
			host_wait_word(e->a, e->b);
		break;
	case HOST_COPY:
		if (e->b != 0)
			memcpy(e->a, e->c, e->b);
		break;
	case HOST_LAUNCH:
		e->fn((void *)(uintptr_t)e->c);
		break;
	case HOST_RECORD:
		record(e->a);
		break;
	case HOST_UNMARK:
		host_mark_put(e->a);
		break;
	case HOST_NOTIFY:
		break; /* after the entry has been counted, see worker_main */
	case HOST_DETACH:
		free(e->a);
		break;
	case HOST_EXIT:
		return 0;
	}
	return 1;
}

static int is_empty(struct stmpi_host_stream *s)
{
	return stmpi_spscq_peek(&s->q) == NULL;
}

/*
 * Wait until the queue is not empty. Sleeping: the worker stores is_asleep, then looks at the
 * queue; a producer publishes, then looks at is_asleep (host_worker_wake). Both orders are seq_cst,
 * so one of them sees the other.
 */
static void wait_for_work(struct stmpi_host_stream *s)
{
	for (uint32_t i = 0; i < IDLE_LOOKS; i++) {
		if (!is_empty(s))
			return;
		stmpi_cpu_relax();
	}
	atomic_store(&s->is_asleep, 1);
	atomic_thread_fence(memory_order_seq_cst);
	while (is_empty(s) && atomic_load(&s->is_asleep) == 1)
		futex_wait(&s->is_asleep, 1);
	atomic_store(&s->is_asleep, 0);
}

void host_worker_wake(struct stmpi_host_stream *s)
{
	atomic_thread_fence(memory_order_seq_cst); /* after the publish; partner: wait_for_work */
	if (stmpi_unlikely(atomic_load_explicit(&s->is_asleep, memory_order_relaxed) == 1)) {
		atomic_store(&s->is_asleep, 0);
		futex_wake(&s->is_asleep);
	}
}

static void *worker_main(void *arg)
{
	struct stmpi_host_stream *s = arg;
	struct host_entry *e;
	uint64_t done = 0;
	void *waiter;

	for (;;) {
		e = stmpi_spscq_peek(&s->q);
		if (stmpi_unlikely(e == NULL)) {
			wait_for_work(s);
			continue;
		}
		if (stmpi_unlikely(!run(e)))
			break;
		waiter = stmpi_unlikely(e->kind == HOST_NOTIFY) ? e->a : NULL;
		stmpi_spscq_pop(&s->q);
		/* Release: who sees the count sees the entry's effects. Partner: query and
		 * synchronize. */
		atomic_store_explicit(&s->done, ++done, memory_order_release);
		if (stmpi_unlikely(waiter != NULL))
			notify(waiter);
	}
	/* Nobody has a reference any more, but who queued HOST_EXIT may still be inside the mutex.
	 */
	pthread_mutex_lock(&s->mutex);
	pthread_mutex_unlock(&s->mutex);
	stmpi_spscq_fini(&s->q);
	pthread_mutex_destroy(&s->mutex);
	free(s);
	return NULL;
}

int host_worker_start(struct stmpi_host_stream *s)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* Signals are the program's: its handlers must not run on our thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&s->worker, &attr, worker_main, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (err != 0)
		return stmpi_error_set(STMPI_ENOMEM, "cannot start a stream's worker thread: %s",
				       strerror(err));
	pthread_setname_np(s->worker, "stmpi-stream");
	return 0;
}
