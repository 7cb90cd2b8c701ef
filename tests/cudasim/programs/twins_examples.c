/* SPDX-License-Identifier: BSD-3-Clause */
/* twins_examples.c: the twins of the kernels of examples/, for simrun --twins. */
#include "cudasim_twin.h"

CUDASIM_TWIN(ring_add_own, sizeof(long *), sizeof(long *), sizeof(int), sizeof(int))
{
	long *right = launch->at(launch, *(void **)arguments[0]);
	const long *left = launch->at(launch, *(void **)arguments[1]);
	const int rank = *(int *)arguments[2], count = *(int *)arguments[3];

	for (int i = 0; i < count; i++)
		right[i] = left[i] + rank + i;
}

CUDASIM_TWIN(ring_add_up, sizeof(long *), sizeof(long *), sizeof(int))
{
	long *sum = launch->at(launch, *(void **)arguments[0]);
	const long *left = launch->at(launch, *(void **)arguments[1]);
	const int count = *(int *)arguments[2];

	for (int i = 0; i < count; i++)
		sum[i] += left[i];
}

CUDASIM_TWIN(halo_step, sizeof(int *), sizeof(int *), sizeof(int), sizeof(int))
{
	int *next = launch->at(launch, *(void **)arguments[0]);
	const int *now = launch->at(launch, *(void **)arguments[1]);
	const int rows = *(int *)arguments[2], width = *(int *)arguments[3];

	for (int y = 1; y <= rows; y++) {
		for (int x = 0; x < width; x++) {
			const int *at = now + (size_t)y * (size_t)width + x;
			int rim = x == 0 || x == width - 1;

			next[(size_t)y * (size_t)width + (size_t)x] =
				rim ? *at : (at[-width] + at[width] + at[-1] + at[1]) / 4;
		}
	}
}
