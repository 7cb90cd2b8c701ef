/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trigger.h: works that wait for a counter. A trigger is a counter that only grows, and works that
 * each start when it has reached their threshold, in queue order.
 *
 * One interface; software triggers (trigger_sw.c) keep the descriptors in a list and post them when
 * stmpi_trigger_ops.set passes their threshold.
 */
#ifndef STMPI_NET_TRIGGER_H
#define STMPI_NET_TRIGGER_H

#include <stdint.h>

#include "net/net.h"

struct stmpi_trigger;

struct stmpi_trigger_ops {
	const char *name; /* "software" */

	/* 0 or -STMPI_ENOMEM. */
	int (*create)(struct stmpi_trigger **trigger);

	/*
	 * Works still queued are handed back: fn(work, -STMPI_ECANCELED) for each, in order. NULL
	 * is allowed. No other call on the trigger may be running or follow.
	 */
	void (*destroy)(struct stmpi_trigger *trigger);

	/*
	 * Let work start when the counter reaches threshold (compared wrap-safe as signed 64-bit
	 * difference). Thresholds of one trigger never fall: -STMPI_EINVAL otherwise.
	 * -STMPI_ENOMEM. A threshold already reached starts the work at the next set, not inside
	 * this call. May run at the same time as set, but one queue call at a time.
	 */
	int (*queue)(struct stmpi_trigger *trigger, uint64_t threshold, struct stmpi_work *work);

	/*
	 * The counter is now value (never falls). Start, in order, all works it has reached. A work
	 * that the rail has no room for (-STMPI_EAGAIN) keeps its place and those behind it: set
	 * with the same value tries again. A post that fails ends the work with that status.
	 * Returns the number of works started. Under the token.
	 */
	int (*set)(struct stmpi_trigger *trigger, uint64_t value);

	/* Works started, but for want of room not yet posted: 1 when any. Cheap. */
	int (*is_blocked)(const struct stmpi_trigger *trigger);
};

extern const struct stmpi_trigger_ops stmpi_trigger_software_ops;

#endif
