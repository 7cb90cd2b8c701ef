/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * orphans.c [ROUNDS]: requests that are given up before their stream reaches the operation, which
 * then needs its peer to end: nothing is kept of them. orphans.c timeout: with STMPI_WATCHDOG=1 the
 * watchdog ends one whose peer never comes.
 */
#include "kit.h"

enum {
	BATCH = 100,
	BYTES = 40000, /* announced, on every rail */
};

static unsigned char *buf[BATCH];

/* Rank 0 sends and gives its requests up behind a gate; rank 1 receives. */
static void rounds(struct kit *k, int n)
{
	static uint64_t gate;
	MPI_Request r;

	for (int i = 0; i < n; i++) {
		if (kit_rank == 0)
			kit_gate(k, &gate);
		for (int j = 0; j < BATCH; j++) {
			if (kit_rank == 1) {
				kit_recv(k, buf[j], BYTES, 0, 0);
				continue;
			}
			kit_fill(buf[j], 16, (uint64_t)(i * BATCH + j));
			KIT(MPIX_Isend_enqueue(buf[j], BYTES, MPI_BYTE, 1, 0, k->comm, &r) ==
			    MPI_SUCCESS);
			KIT(MPI_Request_free(&r) == MPI_SUCCESS && r == MPI_REQUEST_NULL);
		}
		if (kit_rank == 0)
			kit_gate_open(&gate);
		kit_sync(k);
		MPI_Barrier(MPI_COMM_WORLD); /* the buffers are free */
		for (int j = 0; j < BATCH && kit_rank == 1; j++)
			KIT(kit_check(buf[j], 16, (uint64_t)(i * BATCH + j)));
	}
}

/* The same by ordinary calls: the rail may have no room yet when the request is given up. */
static void ordinary(struct kit *k)
{
	MPI_Request r;

	for (int j = 0; j < BATCH; j++) {
		kit_fill(buf[j], BYTES, (uint64_t)j + 7);
		if (kit_rank == 0) {
			KIT(MPI_Issend(buf[j], j % 2 ? BYTES : 8, MPI_BYTE, 1, j, k->comm, &r) ==
			    MPI_SUCCESS);
			KIT(MPI_Request_free(&r) == MPI_SUCCESS);
		}
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (int j = BATCH; j-- > 0 && kit_rank == 1;) {
		memset(buf[j], 0, BYTES);
		KIT(MPI_Recv(buf[j], BYTES, MPI_BYTE, 0, j, k->comm, MPI_STATUS_IGNORE) ==
		    MPI_SUCCESS);
		KIT(kit_check(buf[j], j % 2 ? BYTES : 8, (uint64_t)j + 7));
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Nobody receives; rank 0 lives on. */
static void timeout(struct kit *k)
{
	static uint64_t gate;
	MPI_Request r;

	if (kit_rank == 0) {
		kit_gate(k, &gate);
		KIT(MPIX_Isend_enqueue(buf[0], BYTES, MPI_BYTE, 1, 1000, k->comm, &r) ==
		    MPI_SUCCESS);
		KIT(MPI_Request_free(&r) == MPI_SUCCESS);
		kit_gate_open(&gate);
		kit_sync(k);
	}
	kit_sleep(3000);
}

int main(int argc, char **argv)
{
	struct kit k;
	int files, n, is_timeout;
	long rss;

	kit_init(&argc, &argv);
	is_timeout = argc > 1 && strcmp(argv[1], "timeout") == 0;
	n = is_timeout ? 0 : argc > 1 ? atoi(argv[1]) : 200;
	for (int j = 0; j < BATCH; j++) {
		buf[j] = calloc(1, BYTES);
		KIT(buf[j] != NULL);
		memset(buf[j], 1, BYTES);
	}
	kit_open(&k, MPI_COMM_WORLD);
	rounds(&k, 30);
	ordinary(&k);
	kit_sleep(200); /* what is open for the set-up of a channel only is closed by then */
	rss = kit_rss_kib();
	files = kit_files();
	rounds(&k, n);
	if (is_timeout)
		timeout(&k);
	ordinary(&k);
	printf("rank %d: resident memory %+ld KiB after %d requests\n", kit_rank,
	       kit_rss_kib() - rss, BATCH * n);
	KIT(kit_rss_kib() - rss < 3 * 1024);
	KIT(kit_files() <= files);
	kit_close(&k);
	for (int j = 0; j < BATCH; j++)
		free(buf[j]);
	return kit_end();
}
