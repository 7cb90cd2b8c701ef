/* SPDX-License-Identifier: BSD-3-Clause */
/* trigger_sw.c: software triggers: descriptors in a list, posted when the counter passes them. Hot.
 */
#include <stdlib.h>
#include <string.h>

#include "net/trigger.h"
#include "util/error.h"
#include "util/spscq.h"

struct record {
	uint64_t threshold;
	struct stmpi_work *work;
};

struct stmpi_trigger {
	struct stmpi_spscq q;
	uint64_t newest; /* producer: threshold of the newest work */
	int has_newest;	 /* producer */
	int is_blocked;	 /* consumer: the head has been reached but the rail had no room */
};

static int create(struct stmpi_trigger **trigger)
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

static void destroy(struct stmpi_trigger *t)
{
	struct record *r;

	if (t == NULL)
		return;
	while ((r = stmpi_spscq_peek(&t->q)) != NULL) {
		struct stmpi_work *work = r->work;

		stmpi_spscq_pop(&t->q);
		work->fn(work, -STMPI_ECANCELED);
	}
	stmpi_spscq_fini(&t->q);
	free(t);
}

static int queue(struct stmpi_trigger *t, uint64_t threshold, struct stmpi_work *work)
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

static int set(struct stmpi_trigger *t, uint64_t value)
{
	struct record *r;
	int started = 0;

	t->is_blocked = 0;
	while ((r = stmpi_spscq_peek(&t->q)) != NULL && (int64_t)(value - r->threshold) >= 0) {
		struct stmpi_work *work = r->work;
		int ret;

		if (stmpi_likely(work->kind == STMPI_WORK_CALL)) {
			/* Popped first: fn may give the work back to be queued again. */
			stmpi_spscq_pop(&t->q);
			work->fn(work, 0);
		} else {
			struct stmpi_net_work *w =
				stmpi_container_of(work, struct stmpi_net_work, work);

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
	return started;
}

static int is_blocked(const struct stmpi_trigger *t)
{
	return t->is_blocked;
}

const struct stmpi_trigger_ops stmpi_trigger_software_ops = {
	.name = "software",
	.create = create,
	.destroy = destroy,
	.queue = queue,
	.set = set,
	.is_blocked = is_blocked,
};
