/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/backoff.h"

#include <sched.h>
#include <time.h>

#include "util/clock.h"

/*
 * Yielding lasts 2 ms: long enough for a peer that shares the core to answer, short enough that a
 * silent receive costs little. Then sleeps double from 20 us to 1 ms: a waiter costs about 1 % of a
 * core.
 */
#define YIELD_NS     2000000u
#define SLEEP_MIN_NS 20000u
#define SLEEP_MAX_NS 1000000u

void stmpi_backoff_slow(struct stmpi_backoff *b)
{
	uint64_t now = stmpi_clock_ns();
	struct timespec ts = {0, 0};

	if (b->since_ns == 0)
		b->since_ns = now;
	if (now - b->since_ns < YIELD_NS) {
		sched_yield();
		return;
	}
	b->sleep_ns = b->sleep_ns == 0 ? SLEEP_MIN_NS : b->sleep_ns * 2;
	if (b->sleep_ns > SLEEP_MAX_NS)
		b->sleep_ns = SLEEP_MAX_NS;
	ts.tv_nsec = (long)b->sleep_ns;
	nanosleep(&ts, NULL);
}
