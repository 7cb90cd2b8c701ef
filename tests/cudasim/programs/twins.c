/* SPDX-License-Identifier: BSD-3-Clause */
/* twins.c: the twins of kernel.cu's kernels, for simrun --twins. */
#include "cudasim_twin.h"

CUDASIM_TWIN(saxpy, sizeof(int), sizeof(float), sizeof(float *), sizeof(float *))
{
	const int n = *(int *)arguments[0];
	const float a = *(float *)arguments[1], *x = launch->at(launch, *(void **)arguments[2]);
	float *y = launch->at(launch, *(void **)arguments[3]);

	for (int i = 0; i < n; i++)
		y[i] += a * x[i];
}

CUDASIM_TWIN(count, sizeof(int), sizeof(int *))
{
	int *to = launch->at(launch, *(void **)arguments[1]);

	*to += *(int *)arguments[0] * (int)(launch->grid[0] * launch->block[0]);
}
