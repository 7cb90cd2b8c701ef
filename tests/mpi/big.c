/* SPDX-License-Identifier: BSD-3-Clause */
/* big.c: one message of more than 2 GiB by the _c form: the count, and the words around 2^31 and at
 * both ends. */
#include "kit.h"

#include <unistd.h>

int main(int argc, char **argv)
{
	const MPI_Count bytes = ((MPI_Count)1 << 31) + 64;
	const size_t at[] = {0, ((size_t)1 << 31) - 8, (size_t)1 << 31, ((size_t)1 << 31) + 56,
			     (size_t)1 << 30};
	MPI_Status status;
	MPI_Count count;
	struct kit k;
	unsigned char *b;
	uint64_t w;

	kit_init(&argc, &argv);
	if ((double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) < 6e9) {
		if (kit_rank == 0)
			printf("skip: less than 6 GB of memory are free\n");
		MPI_Finalize();
		return 77;
	}
	kit_open(&k, MPI_COMM_WORLD);
	b = calloc(1, (size_t)bytes);
	KIT(b != NULL);
	for (int i = 0; i < 5 && kit_rank == 0; i++) {
		w = 0x1122334455667788u + (uint64_t)i;
		memcpy(b + at[i], &w, 8);
	}
	if (kit_rank == 0)
		KIT(MPIX_Send_enqueue_c(b, bytes, MPI_BYTE, 1, 0, k.comm) == MPI_SUCCESS);
	else
		KIT(MPIX_Recv_enqueue_c(b, bytes, MPI_BYTE, 0, 0, k.comm, &status) == MPI_SUCCESS);
	kit_sync(&k);
	for (int i = 0; i < 5 && kit_rank == 1; i++) {
		memcpy(&w, b + at[i], 8);
		KIT(w == 0x1122334455667788u + (uint64_t)i);
	}
	if (kit_rank == 1) {
		MPI_Get_elements_x(&status, MPI_BYTE, &count);
		KIT(count == bytes);
	}
	free(b);
	kit_close(&k);
	return kit_end();
}
