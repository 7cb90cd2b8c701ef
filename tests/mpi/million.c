/* SPDX-License-Identifier: BSD-3-Clause */
/* million.c: a million operations pending behind one gate on each side drain in order. */
#include "kit.h"

int main(int argc, char **argv)
{
	const int n = 1000000;
	static uint64_t gate;
	struct kit k;
	uint64_t *v;

	kit_init(&argc, &argv);
	kit_open(&k, MPI_COMM_WORLD);
	v = calloc((size_t)n, sizeof(*v));
	KIT(v != NULL);
	kit_gate(&k, &gate);
	for (int i = 0; i < n; i++) {
		v[i] = kit_rank == 0 ? (uint64_t)i * 3 : 0;
		if (kit_rank == 0)
			kit_send(&k, &v[i], 8, 1, 0);
		else
			kit_recv(&k, &v[i], 8, 0, 0);
	}
	KIT(kit_rank == 0 || v[0] == 0);
	kit_gate_open(&gate);
	kit_sync(&k);
	for (int i = 0; i < n; i++)
		KIT(v[i] == (uint64_t)i * 3);
	free(v);
	kit_close(&k);
	return kit_end();
}
