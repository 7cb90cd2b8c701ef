/* SPDX-License-Identifier: BSD-3-Clause */
/* twins_stmpi.c: the twin of this library's own kernel (src/stream/cuda/kernels.ptx), which simrun
 * always gives to the device. */
#include <stdatomic.h>
#include <stdint.h>

#include "cudasim_twin.h"

static uint64_t argument(void *const *arguments, int i)
{
	return *(const uint64_t *)arguments[i];
}

struct word {
	uint64_t addr_and_wait, value;
};

/* Holds its hardware queue while it polls, as the kernel does. */
CUDASIM_TWIN(stmpi_words, sizeof(uint64_t), 32 * sizeof(struct word))
{
	const struct word *entries = arguments[1];

	for (uint64_t i = 0; i < argument(arguments, 0); i++) {
		const struct word *e = &entries[i];
		_Atomic uint64_t *word =
			launch->at(launch, (const void *)(e->addr_and_wait & ~(uint64_t)1));

		if (!(e->addr_and_wait & 1)) {
			atomic_store(word, e->value);
			continue;
		}
		while ((int64_t)(atomic_load(word) - e->value) < 0)
			if (!launch->pause(launch))
				return;
	}
}
