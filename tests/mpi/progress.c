/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c: who drives when nobody calls: large sends of a rank that computes; both ranks on one
 * core; the caller's affinity is left alone.
 */
#include "kit.h"

#include <sched.h>

/* Rank 0 enqueues without a wait and then makes no call at all; rank 1 gets everything meanwhile.
 */
static void computing(struct kit *k)
{
	static unsigned char *b[20];
	static const size_t bytes = 500000;
	volatile uint64_t x = 0;
	MPI_Request r[20];
	double begin;

	for (int i = 0; i < 20; i++) {
		b[i] = malloc(bytes);
		kit_fill(b[i], bytes, kit_rank ? 50 : (uint64_t)i);
		if (kit_rank == 0)
			KIT(MPIX_Isend_enqueue(b[i], (int)bytes, MPI_BYTE, 1, i, k->comm, &r[i]) ==
			    MPI_SUCCESS);
		else
			kit_recv(k, b[i], bytes, 0, i);
	}
	if (kit_rank == 0) {
		for (begin = MPI_Wtime(); MPI_Wtime() - begin < 1;)
			x++;
		KIT(MPI_Waitall(20, r, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	} else {
		begin = MPI_Wtime();
		kit_sync(k);
		KIT(MPI_Wtime() - begin < 20);
		for (int i = 0; i < 20; i++)
			KIT(kit_check(b[i], bytes, (uint64_t)i));
	}
	for (int i = 0; i < 20; i++)
		free(b[i]);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void ping_pong(struct kit *k, int rounds)
{
	uint64_t v = 0;

	for (int i = 0; i < rounds; i++) {
		if (kit_rank == 0) {
			kit_send(k, &v, 8, 1, 0);
			kit_recv(k, &v, 8, 1, 0);
		} else {
			kit_recv(k, &v, 8, 0, 0);
			kit_send(k, &v, 8, 0, 0);
		}
	}
	kit_sync(k);
}

int main(int argc, char **argv)
{
	cpu_set_t before, after, one;
	struct kit k, l;

	kit_init(&argc, &argv);
	sched_getaffinity(0, sizeof(before), &before);
	kit_open(&k, MPI_COMM_WORLD);
	sched_getaffinity(0, sizeof(after), &after);
	KIT(CPU_EQUAL(&before, &after));
	computing(&k);
	kit_close(&k);

	/* Threads made from here on inherit one core, the same for both ranks. */
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one) == 0) {
		kit_open(&l, MPI_COMM_WORLD);
		ping_pong(&l, 300);
		kit_close(&l);
	}
	return kit_end();
}
