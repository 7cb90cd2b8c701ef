/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trigger.h: works that wait for a counter. A trigger is a counter that only grows, and works that
 * each start when it has reached their threshold, in queue order.
 *
 * Software triggers keep the descriptors in a list and start them when stmpi_trigger_set passes
 * their threshold. A trigger that has been given a rail with deferred work does the same for calls,
 * but arms the next SENDs in the network ahead of time, as many as there are credits for; the
 * stream fires those itself (stmpi_trigger_fire), and nobody of ours is needed. The works behind
 * them, the spill list, stay in the same list, in order, and are armed as credits come back. What
 * was not armed when the stream came by is handed to its owner to be posted.
 *
 * Order: works are armed in queue order, none over the head of one that is not armed; the stream
 * fires them in order; and one that is not armed is posted before any behind it is armed. So what
 * was armed never shows in the order of messages.
 */
#ifndef STMPI_NET_TRIGGER_H
#define STMPI_NET_TRIGGER_H

#include <stdint.h>

#include "net/net.h"

struct stmpi_trigger;

/* Over all triggers; under the token. */
struct stmpi_trigger_stats {
	uint64_t spilled;  /* armable works that found no credit at first */
	uint64_t refilled; /* of those: armed later */
	uint64_t late;	   /* armable works that were started by software */
};

extern struct stmpi_trigger_stats stmpi_trigger_stats;

/* 0 or -STMPI_ENOMEM. */
int stmpi_trigger_create(struct stmpi_trigger **trigger);

/*
 * Let the trigger arm its works in this rail, from shot `first` on. stream_calls: the stream has a
 * thread that calls stmpi_trigger_fire; else set fires in its place. Does nothing when the rail has
 * no deferred work, or when it has been done. Under the token, while nothing is queued that has a
 * shot. 0, -STMPI_ENOMEM, -STMPI_ENET.
 */
int stmpi_trigger_defer(struct stmpi_trigger *trigger, struct stmpi_rail *rail, uint64_t first,
			int stream_calls);

/*
 * Works still queued are handed back: fn(work, -STMPI_ECANCELED) for each, in order; armed ones are
 * made void first. NULL is allowed. No other call on the trigger may be running or follow.
 */
void stmpi_trigger_destroy(struct stmpi_trigger *trigger);

/*
 * Let work start when the counter reaches threshold (compared wrap-safe as signed 64-bit
 * difference). Thresholds of one trigger never fall: -STMPI_EINVAL otherwise. -STMPI_ENOMEM. A
 * threshold already reached starts the work at the next set, not inside this call. May run at the
 * same time as set, but one queue call at a time. A SEND with a shot may be armed from the moment
 * that its may_arm is set.
 */
int stmpi_trigger_queue(struct stmpi_trigger *trigger, uint64_t threshold, struct stmpi_work *work);

/* Arm what can be armed. Under the token; set does it too. Returns the number of works armed. */
int stmpi_trigger_arm(struct stmpi_trigger *trigger);

/*
 * The stream has reached this work: copy what has to be copied, and fire it. Called by the stream's
 * own thread for every work with a shot, in order, without the token, before the counter is seen to
 * have reached the work's threshold. 1: it was armed and is on its way. 0: set must be called. Hot.
 */
int stmpi_trigger_fire(struct stmpi_trigger *trigger, struct stmpi_net_work *work);

/*
 * The counter is now value (never falls). Start, in order, all works it has reached. A work that
 * the rail has no room for (-STMPI_EAGAIN) keeps its place and those behind it: set with the same
 * value tries again. A post that fails ends the work with that status. Returns the number of works
 * started. Under the token.
 */
int stmpi_trigger_set(struct stmpi_trigger *trigger, uint64_t value);

/* Works started, but for want of room not yet posted: 1 when any. Cheap. */
int stmpi_trigger_is_blocked(const struct stmpi_trigger *trigger);

#endif
