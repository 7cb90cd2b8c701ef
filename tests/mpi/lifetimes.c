/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lifetimes.c: communicator, MPIX_Stream and host stream are freed in all six orders, requests
 * right after the enqueue, while everything still waits behind a gate; then the gate opens and all
 * data arrive.
 */
#include "kit.h"

#define MESSAGES 20

static void free_one(struct kit *k, int what)
{
	if (what == 0)
		KIT(MPI_Comm_free(&k->comm) == MPI_SUCCESS);
	else if (what == 1)
		KIT(MPIX_Stream_free(&k->stream) == MPI_SUCCESS);
	else
		KIT(any_stream_destroy(k->host) == 0);
}

static size_t size_of(int i)
{
	return i % 3 == 0 ? 8 : i % 3 == 1 ? 3000 : 100000;
}

static void done(void *arg)
{
	__atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
}

static void one(const int order[3])
{
	static unsigned char *buf[MESSAGES];
	static uint64_t gate;
	MPI_Request r[MESSAGES];
	MPI_Datatype type;
	struct kit k;
	int is_done = 0;

	kit_open(&k, MPI_COMM_WORLD);
	kit_gate(&k, &gate);
	for (int i = 0; i < MESSAGES; i++) {
		int n = (int)size_of(i);

		buf[i] = malloc((size_t)n);
		kit_fill(buf[i], (size_t)n, kit_rank ? 1000 : (uint64_t)i);
		MPI_Type_contiguous(n, MPI_BYTE, &type);
		MPI_Type_commit(&type);
		if (kit_rank == 0)
			KIT(MPIX_Isend_enqueue(buf[i], 1, type, 1, i, k.comm, &r[i]) ==
			    MPI_SUCCESS);
		else
			KIT(MPIX_Irecv_enqueue(buf[i], 1, type, 0, i, k.comm, &r[i]) ==
			    MPI_SUCCESS);
		MPI_Type_free(&type);
	}
	/* Half are waited for by the stream, half are given up. */
	KIT(MPIX_Waitall_enqueue(MESSAGES / 2, r, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	KIT(any_stream_launch(k.host, done, &is_done) == 0);
	for (int i = MESSAGES / 2; i < MESSAGES; i++)
		KIT(MPI_Request_free(&r[i]) == MPI_SUCCESS);
	for (int i = 0; i < 3; i++)
		free_one(&k, order[i]);
	kit_sleep(20);
	for (int i = 0; i < MESSAGES && kit_rank == 1; i++)
		KIT(kit_check(buf[i], size_of(i), 1000)); /* the gate holds */
	kit_gate_open(&gate);
	while (!__atomic_load_n(&is_done, __ATOMIC_ACQUIRE))
		kit_sleep(1);
	/* Those that were given up: nothing tells of them but their data. */
	for (int i = 0; i < MESSAGES; i++) {
		for (int ms = 0; kit_rank == 1 && !kit_check(buf[i], size_of(i), (uint64_t)i);
		     ms++) {
			KIT(ms < 20000);
			kit_sleep(1);
		}
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < MESSAGES; i++)
		free(buf[i]);
}

int main(int argc, char **argv)
{
	static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
					 {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	kit_init(&argc, &argv);
	for (int i = 0; i < 6; i++)
		one(orders[i]);
	return kit_end();
}
