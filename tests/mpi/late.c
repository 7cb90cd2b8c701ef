/* SPDX-License-Identifier: BSD-3-Clause */
/* late.c: the other side comes two seconds late, once as sender and once as receiver; small and
 * large messages. */
#include "kit.h"

int main(int argc, char **argv)
{
	static const size_t sizes[] = {8, 100000};
	struct kit k;

	kit_init(&argc, &argv);
	kit_open(&k, MPI_COMM_WORLD);
	for (int late = 0; late < 2; late++) {
		unsigned char *b[2];

		if (kit_rank == late)
			kit_sleep(2000);
		for (int i = 0; i < 2; i++) {
			b[i] = malloc(sizes[i]);
			kit_fill(b[i], sizes[i], kit_rank ? 99 : (uint64_t)i);
			if (kit_rank == 0)
				kit_send(&k, b[i], sizes[i], 1, i);
			else
				kit_recv(&k, b[i], sizes[i], 0, i);
		}
		kit_sync(&k);
		for (int i = 0; i < 2; i++) {
			KIT(kit_check(b[i], sizes[i], (uint64_t)i));
			free(b[i]);
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
	kit_close(&k);
	return kit_end();
}
