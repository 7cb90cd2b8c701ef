/* SPDX-License-Identifier: BSD-3-Clause */
/* levels.c LEVEL: messages pass under MPI_Init_thread with any level, and under plain MPI_Init
 * (level "init"). */
#include "kit.h"

int main(int argc, char **argv)
{
	static const char *const names[] = {"single", "funneled", "serialized", "multiple"};
	static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
				     MPI_THREAD_MULTIPLE};
	uint64_t v = 0;
	int provided;
	struct kit k;

	if (argc != 2)
		return 2;
	if (strcmp(argv[1], "init") == 0)
		MPI_Init(&argc, &argv);
	for (int i = 0; i < 4; i++) {
		if (strcmp(argv[1], names[i]) == 0)
			MPI_Init_thread(&argc, &argv, levels[i], &provided);
	}
	MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
	kit_open(&k, MPI_COMM_WORLD);
	for (uint64_t i = 0; i < 1000; i++) {
		if (kit_rank == 0) {
			v = i;
			kit_send(&k, &v, 8, 1, 0);
			kit_recv(&k, &v, 8, 1, 0);
			kit_sync(&k);
			KIT(v == i + 1);
		} else {
			kit_recv(&k, &v, 8, 0, 0);
			kit_sync(&k);
			v++;
			kit_send(&k, &v, 8, 0, 0);
		}
	}
	kit_close(&k);
	return kit_end();
}
