/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * finalize.c: MPI_Finalize at once after an enqueue behind slow work: the data still arrive, the
 * exit status is 0, though nothing was waited for or freed.
 */
#include "kit.h"

static unsigned char b[200000];

static void check(void *arg)
{
	if (!kit_check(b, sizeof(b), 3)) {
		fprintf(stderr, "the data did not arrive\n");
		_Exit(1);
	}
	puts(arg);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct kit k;

	kit_init(&argc, &argv);
	kit_open(&k, MPI_COMM_WORLD);
	if (kit_rank == 0) {
		kit_fill(b, sizeof(b), 3);
		kit_work(&k, 300);
		kit_send(&k, b, sizeof(b), 1, 0);
	} else {
		kit_recv(&k, b, sizeof(b), 0, 0);
		KIT(any_stream_launch(k.host, check, "ok finalize") == 0);
		kit_recv(&k, NULL, 0, MPI_PROC_NULL, 0);
	}
	MPI_Finalize();
	return 0;
}
