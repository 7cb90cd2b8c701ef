/* SPDX-License-Identifier: BSD-3-Clause */
/* trigger.c: triggers: a list of descriptors, the next ones armed where the rail can. Hot. */
#include "net/trigger.h"

#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/spscq.h"

struct record {
	uint64_t threshold;
	struct stmpi_work *work;
};

/*
 * Who fires. `rung` is the newest shot that the stream has passed, `fired` the newest that the
 * line's counters know. The stream's thread fires only while both are equal, so while nobody else
 * has anything to fire. When it may not (a counter is not free yet, the gate is shut) it leaves the
 * shot, and from then on the token's holder fires what set finds reached, until it has caught up;
 * then it is the stream's turn again. `fired` passes the turn: stored with release, loaded with
 * acquire.
 */
struct stmpi_trigger {
	struct stmpi_spscq q;
	uint64_t newest; /* producer: threshold of the newest work */
	int has_newest;	 /* producer */
	/* Under the token. */
	int is_blocked; /* the head has been reached but cannot start for want of room */
	struct stmpi_spscq_cursor cursor; /* the first work that is not armed */
	uint64_t spilled_shot;		  /* the newest that has been counted as spilled */
	uint64_t reached;		  /* shot of the newest work that set has started */
	struct stmpi_line *line;	  /* NULL: software only; constant once set */
	/* The stream's thread. */
	STMPI_CACHE_ALIGNED uint64_t rung;
	/* Both, in turn. */
	_Atomic uint64_t fired;
};

struct stmpi_trigger_stats stmpi_trigger_stats;

static inline struct stmpi_net_work *net_of(struct stmpi_work *work)
{
	return stmpi_container_of(work, struct stmpi_net_work, work);
}

/* The work as one that can be armed, or NULL. */
static inline struct stmpi_net_work *armable(struct stmpi_work *work)
{
	if (work->kind != STMPI_WORK_SEND || net_of(work)->armed.shot == 0)
		return NULL;
	return net_of(work);
}

int stmpi_trigger_create(struct stmpi_trigger **trigger)
{
	struct stmpi_trigger *t;
	int ret;

	if (posix_memalign((void **)&t, STMPI_CACHE_LINE, sizeof(*t)) != 0)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a trigger");
	memset(t, 0, sizeof(*t));
	ret = stmpi_spscq_init(&t->q, sizeof(struct record));
	if (ret != 0) {
		free(t);
		return ret;
	}
	*trigger = t;
	return 0;
}

int stmpi_trigger_defer(struct stmpi_trigger *t, struct stmpi_rail *rail, uint64_t first,
			int stream_calls)
{
	if (t->line != NULL || rail == NULL || rail->defer == NULL)
		return 0;
	t->rung = t->reached = t->spilled_shot = first - 1;
	atomic_store_explicit(&t->fired, first - 1, memory_order_relaxed); /* nobody reads it yet */
	return rail->defer->open(rail, first, stream_calls, &t->line);
}

void stmpi_trigger_destroy(struct stmpi_trigger *t)
{
	struct record *r;

	if (t == NULL)
		return;
	if (t->line != NULL)
		t->line->ops->close(t->line);
	while ((r = stmpi_spscq_peek(&t->q)) != NULL) {
		struct stmpi_work *work = r->work;

		stmpi_spscq_pop(&t->q);
		work->fn(work, -STMPI_ECANCELED);
	}
	stmpi_spscq_fini(&t->q);
	free(t);
}

int stmpi_trigger_queue(struct stmpi_trigger *t, uint64_t threshold, struct stmpi_work *work)
{
	struct record *r;

	if (stmpi_unlikely(t->has_newest && (int64_t)(threshold - t->newest) < 0))
		return stmpi_error_set(STMPI_EINVAL, "threshold %llu is below an earlier one, %llu",
				       (unsigned long long)threshold,
				       (unsigned long long)t->newest);
	r = stmpi_spscq_reserve(&t->q);
	if (stmpi_unlikely(r == NULL))
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a triggered work");
	r->threshold = threshold;
	r->work = work;
	t->newest = threshold;
	t->has_newest = 1;
	stmpi_spscq_publish(&t->q, 1);
	return 0;
}

/* ---- arming ---- */

static void count_spilled(struct stmpi_trigger *t, const struct stmpi_net_work *w)
{
	if ((int64_t)(w->armed.shot - t->spilled_shot) <= 0)
		return;
	t->spilled_shot = w->armed.shot;
	stmpi_trigger_stats.spilled++;
}

int stmpi_trigger_arm(struct stmpi_trigger *t)
{
	struct record *r;
	int armed = 0;

	if (t->line == NULL)
		return 0;
	while ((r = stmpi_spscq_look(&t->q, &t->cursor)) != NULL) {
		struct stmpi_net_work *w = armable(r->work);

		if (w != NULL && w->armed.state == STMPI_ARMED_NOT) {
			/* Acquire: the owner's last writes. Partner: the owner's store. */
			if (!atomic_load_explicit(&w->armed.may_arm, memory_order_acquire))
				break;
			/* The stream has passed it: set starts it, and nothing may overtake it. */
			if (t->line->ops->arm(
				    t->line, w,
				    atomic_load_explicit(&t->fired, memory_order_acquire)) != 0) {
				count_spilled(t, w);
				break;
			}
			w->armed.state = STMPI_ARMED_QUEUED;
			if (w->armed.shot == t->spilled_shot)
				stmpi_trigger_stats.refilled++;
			armed++;
		} else if (w == NULL && r->work->kind != STMPI_WORK_CALL) {
			break; /* a plain post, which must not be overtaken */
		}
		stmpi_spscq_step(&t->cursor);
	}
	return armed;
}

/* ---- firing ---- */

int stmpi_trigger_fire(struct stmpi_trigger *t, struct stmpi_net_work *w)
{
	struct stmpi_net_armed *a = &w->armed;
	/* Acquire and release: who armed it has filled the packet's head; who finds PASSED leaves
	 * src alone. Partner: the compare-and-swap in the rail's arm. */
	uint64_t stage =
		atomic_exchange_explicit(&a->stage, STMPI_STAGE_PASSED, memory_order_acq_rel);
	uint64_t before = t->rung;
	int is_fired = 0;

	if (stmpi_unlikely(t->line == NULL))
		return 0;
	if (stage > STMPI_STAGE_WHOLE)
		memcpy((void *)(uintptr_t)stage, w->src, w->bytes);
	/* See struct stmpi_trigger. The gate: a message that found no room earlier in the program's
	 * order was counted before the stream came here. */
	if (stmpi_likely(atomic_load_explicit(&t->fired, memory_order_acquire) == before &&
			 atomic_load_explicit(a->gate, memory_order_acquire) == 0 &&
			 (int64_t)(atomic_load_explicit(&t->line->ready, memory_order_acquire) -
				   a->shot) >= 0)) {
		t->line->ops->fire(t->line, before, a->shot);
		atomic_store_explicit(&t->fired, a->shot, memory_order_release);
		is_fired = stage != STMPI_STAGE_OPEN;
	}
	t->rung = a->shot;
	return is_fired;
}

/* In the stream's place: fire up to shot, which set has found reached. 1 when it is done. */
static int catch_up(struct stmpi_trigger *t, uint64_t shot)
{
	uint64_t fired = atomic_load_explicit(&t->fired, memory_order_acquire);

	if ((int64_t)(fired - shot) >= 0)
		return 1;
	/* One stretch after another: each needs its counter free. */
	while (fired != shot) {
		uint64_t ready, to;

		if (!t->line->ops->make_ready(t->line, fired + 1, fired))
			return 0;
		ready = atomic_load_explicit(&t->line->ready, memory_order_relaxed); /* our own */
		to = (int64_t)(ready - shot) < 0 ? ready : shot;
		t->line->ops->fire(t->line, fired, to);
		fired = to;
		atomic_store_explicit(&t->fired, fired, memory_order_release);
	}
	return 1;
}

/* Start an armable work that has been reached. 0: it must wait. */
static int start_armable(struct stmpi_trigger *t, struct stmpi_net_work *w)
{
	struct stmpi_net_armed *a = &w->armed;

	if (stmpi_likely(a->state == STMPI_ARMED_QUEUED)) {
		if ((int64_t)(atomic_load_explicit(&t->fired, memory_order_acquire) - a->shot) <
			    0 &&
		    (atomic_load_explicit(a->gate, memory_order_acquire) != 0 ||
		     !catch_up(t, a->shot)))
			return 0;
		stmpi_spscq_pop(&t->q);
		t->reached = a->shot;
		a->state = STMPI_ARMED_FIRED;
		t->line->ops->fly(t->line, w);
		return 1;
	}
	stmpi_spscq_pop(&t->q);
	/* One that its owner has dropped is never fired by the stream, so it moves nothing. */
	if (atomic_load_explicit(&a->may_arm, memory_order_relaxed))
		t->reached = a->shot;
	stmpi_trigger_stats.late++;
	w->work.fn(&w->work, STMPI_WORK_LATE);
	return 1;
}

int stmpi_trigger_set(struct stmpi_trigger *t, uint64_t value)
{
	struct record *r;
	int started = 0;

	t->is_blocked = 0;
	while ((r = stmpi_spscq_peek(&t->q)) != NULL && (int64_t)(value - r->threshold) >= 0) {
		struct stmpi_work *work = r->work;
		struct stmpi_net_work *w;
		int ret;

		if (stmpi_likely(work->kind == STMPI_WORK_CALL)) {
			/* Popped first: fn may give the work back to be queued again. */
			stmpi_spscq_pop(&t->q);
			work->fn(work, 0);
		} else if ((w = armable(work)) != NULL) {
			if (!start_armable(t, w)) {
				t->is_blocked = 1;
				break;
			}
		} else {
			w = net_of(work);
			ret = w->rail->ops->post(w->rail, w);
			if (ret == -STMPI_EAGAIN) {
				t->is_blocked = 1;
				break;
			}
			stmpi_spscq_pop(&t->q);
			if (ret <= 0)
				work->fn(work, ret);
		}
		started++;
	}
	if (t->line != NULL) {
		(void)catch_up(t, t->reached);
		started += stmpi_trigger_arm(t);
	}
	return started;
}

int stmpi_trigger_is_blocked(const struct stmpi_trigger *t)
{
	return t->is_blocked;
}
