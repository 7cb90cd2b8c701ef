/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c: the token, the poll round, and the progress thread.
 *
 * The token is a word that a thread takes by compare-and-swap; its holder alone touches rails,
 * matching and triggers. Nobody sleeps for it: a thread that only wants progress to be made, and
 * finds it held, has what it wants, except that the holder may have looked before the thread's
 * doorbell was written. So it leaves a mark (2), and the holder, giving the token back by exchange,
 * sees the mark and looks again.
 *
 * Who drives: a host stream's worker while it waits, a thread that waits in an MPI call, and else
 * the progress thread, which stays asleep while the round counter shows that others are at it. A
 * stream without a thread of ours writes its doorbell word and nothing else: the round sees it.
 * Hot.
 */
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/core_int.h"
#include "util/backoff.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"
#include "util/params.h"
#include "util/topo.h"

#define E (&stmpi_engine)

#define TICK_NS	    10000000u /* one engine tick */
#define LOOK_TICKS  5u	      /* dead peers are looked for every 50 ms */
#define WATCH_TICKS 50u	      /* the watchdog looks twice a second */

/* The progress thread's longest sleep while a doorbell may be written that nobody tells it of. */
#define DOORBELL_SLEEP_NS 50000u

/* ---- the token ---- */

int stmpi_token_try(void)
{
	uint32_t free_ = 0;

	/* A plain look first: a failing compare-and-swap would pull the line from its holder. */
	if (atomic_load_explicit(&E->token, memory_order_relaxed) != 0)
		return 0;
	/* Acquire: sees all that the last holder did. Partner: the exchange in stmpi_token_release.
	 */
	return atomic_compare_exchange_strong_explicit(&E->token, &free_, 1, memory_order_acquire,
						       memory_order_relaxed);
}

void stmpi_token_lock(void)
{
	struct stmpi_backoff b = {0, 0, 0};

	while (!stmpi_token_try())
		stmpi_backoff_pause(&b);
}

/* Give it back; 1 when somebody left a mark meanwhile. */
static int give_back(void)
{
	/* Release: partner stmpi_token_try. An exchange, so that a mark is never overwritten
	 * unseen. */
	return atomic_exchange_explicit(&E->token, 0, memory_order_acq_rel) == 2;
}

/* Make sure that a round of polling begins after this call began. */
static void ensure_round(void)
{
	uint32_t held;

	for (;;) {
		if (stmpi_token_try()) {
			stmpi_progress_poll_locked();
			if (!give_back())
				return;
			continue;
		}
		held = 1;
		/* Release: the holder that sees the mark sees the doorbell. Partner: give_back's
		 * acquire. */
		if (atomic_compare_exchange_strong_explicit(
			    &E->token, &held, 2, memory_order_release, memory_order_relaxed) ||
		    held == 2)
			return;
	}
}

void stmpi_token_release(void)
{
	if (stmpi_unlikely(give_back()))
		ensure_round();
}

/* ---- one round ---- */

int stmpi_progress_poll_locked(void)
{
	struct stmpi_stream *s;
	int events = 0;

	/* One writer at a time: no read-modify-write needed. A hint for the progress thread. */
	atomic_store_explicit(&E->polls, atomic_load_explicit(&E->polls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	/* Streams are added whole in front (partner: make in stream.c) and never leave the list. */
	for (s = atomic_load_explicit(&E->streams, memory_order_acquire); s != NULL; s = s->next) {
		if (atomic_load_explicit(&s->is_open, memory_order_acquire))
			events += stmpi_trigger_set(s->trigger, stmpi_word_load(s->doorbell));
	}
	if (E->shm != NULL)
		events += E->shm->ops->poll(E->shm);
	if (E->ofi != NULL)
		events += E->ofi->ops->poll(E->ofi);
	if (stmpi_unlikely(E->busy != NULL || E->reads != NULL))
		events += stmpi_proto_push();
	if (stmpi_unlikely(E->orphans != NULL))
		stmpi_op_scan_orphans();
	return events;
}

int stmpi_engine_poll(void)
{
	int events;

	if (!stmpi_token_try())
		return 0;
	events = stmpi_progress_poll_locked();
	stmpi_token_release();
	return events;
}

/* Look at one stream's doorbell, with the token, and give that back. 1 when all that the stream has
 * reached has begun. */
static int look_at(struct stmpi_stream *s)
{
	int has_begun = 1;

	/* The engine ends under the token: then the stream's trigger and word are gone. */
	if (stmpi_likely(atomic_load_explicit(&E->is_up, memory_order_relaxed))) {
		(void)stmpi_trigger_set(s->trigger, stmpi_word_load(s->doorbell));
		has_begun = !stmpi_trigger_is_blocked(s->trigger);
	}
	stmpi_token_release();
	return has_begun;
}

/*
 * The stream's worker has just written this stream's doorbell. It does not go on before its
 * operations have begun: what comes after them by the program's order, on another stream that waits
 * for an event of this one or in another thread, must come after them on the wire too. An armed
 * send that finds no room (its gate is shut) has not begun: a plain send would overtake it. The
 * room comes with the network's progress alone, which is driven here.
 */
static void doorbell(void *arg)
{
	struct stmpi_backoff b = {0, 0, 0};

	for (;;) {
		if (stmpi_likely(stmpi_token_try())) {
			if (stmpi_likely(look_at(arg)))
				return;
			(void)stmpi_engine_poll();
		} else if (!atomic_load_explicit(&E->is_up, memory_order_relaxed)) {
			return; /* taken for good: the engine has ended under a stream in use */
		}
		stmpi_backoff_pause(&b);
	}
}

/* The stream's worker has come to a send that may be armed. Nobody of ours is needed if it is. */
static void fire(void *arg, void *work, uint64_t ticket)
{
	struct stmpi_stream *s = arg;
	int is_fired = stmpi_trigger_fire(s->trigger, work);

	stmpi_word_store(s->doorbell, ticket);
	if (stmpi_unlikely(!is_fired))
		doorbell(s);
	else if (stmpi_likely(stmpi_token_try()))
		(void)look_at(s); /* it may have left already */
}

/* ---- slow checks ---- */

struct watch {
	uint32_t now;
	int expired;
};

static void watch_one(struct stmpi_op *op, void *arg)
{
	struct watch *w = arg;
	uint8_t state =
		atomic_load_explicit(&op->state, memory_order_relaxed); /* under the token */

	if (state == STMPI_STATE_QUEUED || state == STMPI_STATE_DONE || stmpi_op_is_done(op))
		return;
	if (stmpi_ticks_between(op->started_tick, w->now) < E->watchdog_ticks)
		return;
	if (w->expired++ == 0) {
		stmpi_log(
			STMPI_LOG_ERROR,
			"watchdog: operations made no progress for %lld s; they end with an error",
			(long long)stmpi_param_int(STMPI_PARAM_WATCHDOG));
		stmpi_engine_dump(stderr);
	}
	(void)stmpi_proto_abandon(op, STMPI_ETIMEDOUT);
}

/* Move the rough clock on, and tell it. It has no partner: relaxed. */
static uint32_t move_tick(void)
{
	uint32_t now = (uint32_t)((stmpi_clock_ns() - E->start_ns) / TICK_NS);
	uint32_t tick = atomic_load_explicit(&E->tick, memory_order_relaxed);

	while (stmpi_ticks_between(tick, now) > 0) {
		if (atomic_compare_exchange_weak_explicit(
			    &E->tick, &tick, now, memory_order_relaxed, memory_order_relaxed))
			return now;
	}
	return tick;
}

static void look_around(void)
{
	uint32_t now = move_tick();
	uint32_t asked = stmpi_dump_requests();
	struct watch w = {now, 0};

	if (!stmpi_token_try())
		return;
	if (E->shm != NULL)
		E->shm->ops->idle(E->shm);
	if (E->ofi != NULL)
		E->ofi->ops->idle(E->ofi);
	if (stmpi_ticks_between(E->look_tick, now) >= LOOK_TICKS) {
		E->look_tick = now;
		stmpi_proc_look();
	}
	if (stmpi_unlikely(asked != E->dumps_asked)) {
		E->dumps_asked = asked;
		stmpi_engine_dump(stderr);
	}
	if (E->watchdog_ticks != 0 && stmpi_ticks_between(E->watch_tick, now) >= WATCH_TICKS) {
		E->watch_tick = now;
		stmpi_op_for_each(watch_one, &w);
	}
	stmpi_token_release();
}

const struct stmpi_stream_hook stmpi_progress_hook = {
	.doorbell = doorbell,
	.fire = fire,
	.poll = stmpi_engine_poll,
	.idle = look_around,
};

int stmpi_engine_wait(int (*ready)(void *arg), void *arg)
{
	struct stmpi_backoff b = {0, 0, 0};
	uint32_t begin = atomic_load_explicit(&E->tick, memory_order_relaxed); /* a rough clock */

	while (!ready(arg)) {
		if (stmpi_engine_poll() > 0) {
			stmpi_backoff_reset(&b);
		} else if (stmpi_backoff_pause(&b)) {
			look_around();
			/* Behind the watchdog's look at operations, which ends what waits for one.
			 */
			if (E->watchdog_ticks != 0 &&
			    stmpi_ticks_between(
				    begin, atomic_load_explicit(&E->tick, memory_order_relaxed)) >
				    E->watchdog_ticks + 2 * WATCH_TICKS)
				return stmpi_error_set(
					STMPI_ETIMEDOUT, "ended by the watchdog after %lld s",
					(long long)stmpi_param_int(STMPI_PARAM_WATCHDOG));
		}
	}
	return 0;
}

/* ---- the progress thread ---- */

static int has_pending(void)
{
	struct stmpi_stream *s;
	/* Counters of single writers, read for a hint: relaxed. */
	uint64_t n = atomic_load_explicit(&E->pool.taken, memory_order_relaxed) -
		     atomic_load_explicit(&E->pool.given, memory_order_relaxed);

	for (s = atomic_load_explicit(&E->streams, memory_order_acquire); s != NULL && n == 0;
	     s = s->next)
		n = atomic_load_explicit(&s->pool.taken, memory_order_relaxed) -
		    atomic_load_explicit(&s->pool.given, memory_order_relaxed);
	return n != 0;
}

/* Has a stream without a thread of ours still to come to something? */
static int awaits_doorbell(void)
{
	struct stmpi_stream *s;

	for (s = atomic_load_explicit(&E->streams, memory_order_acquire); s != NULL; s = s->next) {
		/* A hint: `ops` may be changing under us, so the words alone are looked at. Host
		 * streams ring by themselves and lose nothing. */
		if (atomic_load_explicit(&s->is_open, memory_order_relaxed) &&
		    stmpi_word_load(s->doorbell) !=
			    atomic_load_explicit(&s->rung, memory_order_relaxed))
			return 1;
	}
	return 0;
}

/*
 * Nap, but not over a beginning. The thread stores `naps`, then looks at what is pending; who
 * enqueues counts its operation, then looks at `naps`. Both orders are seq_cst, so one sees the
 * other.
 */
static void nap(uint32_t ns, int was_pending)
{
	struct timespec ts = {0, (long)ns};

	atomic_store(&E->naps, 1);
	atomic_thread_fence(memory_order_seq_cst);
	if (was_pending || !has_pending())
		syscall(SYS_futex, &E->naps, FUTEX_WAIT_PRIVATE, 1, &ts, NULL, 0);
	atomic_store(&E->naps, 0);
}

void stmpi_progress_wake(void)
{
	atomic_thread_fence(memory_order_seq_cst); /* partner: nap */
	if (stmpi_likely(atomic_load_explicit(&E->naps, memory_order_relaxed) == 0))
		return;
	atomic_store(&E->naps, 0);
	syscall(SYS_futex, &E->naps, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/*
 * Nothing of ours is pending, but peers may want something (a channel to be found, a connection to
 * be taken), and a provider with manual progress may still hold packets that it has accepted: look
 * a few times per nap.
 */
static void look_for_others(void)
{
	for (uint32_t i = 0; i < (E->ofi != NULL ? 32u : 1u); i++)
		stmpi_engine_poll();
}

/*
 * Adaptive: asleep 1 ms at a time while others drive or nothing is pending (10 ms after a quiet
 * second); when operations are pending and nobody drives, poll: share the core, then sleep up to
 * 1 ms.
 */
static void adaptive(void)
{
	struct stmpi_backoff b = {0, 0, 0};
	uint64_t polls = 0, now;
	uint32_t quiet = 0;

	while (!atomic_load_explicit(&E->stop, memory_order_relaxed)) {
		int is_pending = has_pending();

		now = atomic_load_explicit(&E->polls, memory_order_relaxed);
		if (is_pending && now == polls) {
			int events = stmpi_engine_poll();

			/* Before the pause: what others do during it is what counts. */
			polls = atomic_load_explicit(&E->polls, memory_order_relaxed);
			if (events > 0)
				stmpi_backoff_reset(&b);
			else if (stmpi_backoff_share(&b)) {
				look_around();
				/* The next sleep is twice as long. */
				if (b.sleep_ns > DOORBELL_SLEEP_NS / 2 && awaits_doorbell())
					b.sleep_ns = DOORBELL_SLEEP_NS / 2;
			}
			quiet = 0;
		} else {
			/* With others driving, a round missed by chance must not begin a new spin.
			 */
			if (!is_pending)
				stmpi_backoff_reset(&b);
			quiet = is_pending || now != polls ? 0 : quiet + 1;
			polls = now;
			nap(quiet > 1000 ? 10000000 : 1000000, is_pending);
			look_around();
			if (!is_pending) {
				now = atomic_load_explicit(&E->polls, memory_order_relaxed);
				look_for_others();
				polls +=
					atomic_load_explicit(&E->polls, memory_order_relaxed) - now;
			}
		}
	}
}

static void spin(void)
{
	uint32_t rounds = 0;

	while (!atomic_load_explicit(&E->stop, memory_order_relaxed)) {
		if (stmpi_engine_poll() == 0)
			stmpi_cpu_relax();
		if (++rounds % 1024 == 0) /* some 100 us: nobody else on this core starves */
			sched_yield();
		if (rounds % 65536 == 0)
			look_around();
	}
}

static void *progress_main(void *arg)
{
	(void)arg;
	if (stmpi_param_choice(STMPI_PARAM_PROGRESS) == STMPI_PROGRESS_SPIN)
		spin();
	else
		adaptive();
	return NULL;
}

static void place(pthread_t thread)
{
	int64_t cpu = stmpi_param_int(STMPI_PARAM_PROGRESS_CPU);
	cpu_set_t set;

	if (cpu < 0)
		cpu = stmpi_topo_progress_cpu();
	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	CPU_ZERO(&set);
	CPU_SET((int)cpu, &set);
	if (pthread_setaffinity_np(thread, sizeof(set), &set) != 0)
		stmpi_log(STMPI_LOG_WARN, "the progress thread cannot run on core %lld",
			  (long long)cpu);
}

int stmpi_progress_start(void)
{
	sigset_t all, before;
	int err;

	if (stmpi_param_choice(STMPI_PARAM_PROGRESS) == STMPI_PROGRESS_NONE)
		return 0;
	/* Signals are the program's: its handlers must not run on our thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&E->thread, NULL, progress_main, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err != 0)
		return stmpi_error_set(STMPI_ENOMEM, "cannot start the progress thread: %s",
				       strerror(err));
	pthread_setname_np(E->thread, "stmpi-progress");
	place(E->thread);
	E->has_thread = 1;
	return 0;
}

void stmpi_progress_stop(void)
{
	if (!E->has_thread)
		return;
	atomic_store(&E->stop, 1);
	pthread_join(E->thread, NULL);
	E->has_thread = 0;
}
