/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h: the one clock of the library, monotonic nanoseconds. */
#ifndef STMPI_UTIL_CLOCK_H
#define STMPI_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t stmpi_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
