/* SPDX-License-Identifier: BSD-3-Clause */
/* twins_kernels.c: the twins of the kernels of tests/gpu/kernels.cu, for simrun --twins. */
#include <time.h>

#include "cudasim_twin.h"

CUDASIM_TWIN(slow_fill, sizeof(void *), sizeof(int), sizeof(unsigned long long), sizeof(long long))
{
	unsigned long long *to = launch->at(launch, *(void **)arguments[0]);
	const int words = *(int *)arguments[1];
	const unsigned long long key = *(unsigned long long *)arguments[2];
	/* A tick of a nanosecond or so. */
	const struct timespec ticks = {0, *(long long *)arguments[3]};

	nanosleep(&ticks, NULL);
	for (int i = 0; i < words; i++)
		to[i] = key * 1000003 + (unsigned long long)i;
}

CUDASIM_TWIN(check_spoil, sizeof(void *), sizeof(int), sizeof(unsigned long long), sizeof(void *))
{
	unsigned long long *from = launch->at(launch, *(void **)arguments[0]);
	const int words = *(int *)arguments[1];
	const unsigned long long key = *(unsigned long long *)arguments[2];
	unsigned long long *wrong = launch->at(launch, *(void **)arguments[3]);

	for (int i = 0; i < words; i++) {
		*wrong += from[i] != key * 1000003 + (unsigned long long)i;
		from[i] = ~0ull;
	}
}
