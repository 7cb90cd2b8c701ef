/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backoff.h: how every polling loop of the library waits: spin, then yield, then sleep.
 * A loop calls stmpi_backoff_pause after each fruitless look and stmpi_backoff_reset after a
 * fruitful one.
 */
#ifndef STMPI_UTIL_BACKOFF_H
#define STMPI_UTIL_BACKOFF_H

#include <stdint.h>

#include "util/compiler.h"

/* Owned by one waiting thread. Zero-initialise. */
struct stmpi_backoff {
	uint32_t rounds;   /* fruitless looks since the last reset */
	uint32_t sleep_ns; /* the next sleep, grows up to a bound */
	uint64_t since_ns; /* when yielding began, 0 before */
};

/* Looks with nothing between them, then looks with a PAUSE (tens of ns): some 50 us of waiting in
 * all. */
#define STMPI_BACKOFF_EAGER 300u
#define STMPI_BACKOFF_SPINS 1000u
/* Looks of a thread that polls for others, between two yields. */
#define STMPI_BACKOFF_SHARED 4u

/* Yield or sleep; the part of stmpi_backoff_pause that costs a system call. */
void stmpi_backoff_slow(struct stmpi_backoff *b);

static inline void stmpi_backoff_reset(struct stmpi_backoff *b)
{
	b->rounds = 0;
	b->since_ns = 0;
	b->sleep_ns = 0;
}

/* Returns 1 when the pause made a system call: time to look at slow things (watchdog, dead peers).
 */
static inline int stmpi_backoff_pause(struct stmpi_backoff *b)
{
	if (stmpi_likely(++b->rounds < STMPI_BACKOFF_SPINS)) {
		if (b->rounds > STMPI_BACKOFF_EAGER)
			stmpi_cpu_relax();
		return 0;
	}
	stmpi_backoff_slow(b);
	return 1;
}

/*
 * The same for a thread that polls for others, who may need this core before there is anything to
 * be found: no spinning before it yields. Measured with two ranks, each with such a thread and a
 * simulated device's, on two cores: half a round trip takes 8 us, and 90 us with the spin.
 */
static inline int stmpi_backoff_share(struct stmpi_backoff *b)
{
	if (stmpi_likely(++b->rounds % STMPI_BACKOFF_SHARED != 0))
		return 0;
	stmpi_backoff_slow(b);
	return b->sleep_ns != 0 || b->rounds % STMPI_BACKOFF_SPINS == 0;
}

#endif
