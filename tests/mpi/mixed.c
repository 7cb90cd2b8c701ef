/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mixed.c: enqueued operations match ordinary calls, both ways, and a rank without a stream uses
 * ordinary calls only. Also: synchronous sends end with the match and not before; probes;
 * collectives in between; other communicators.
 */
#include "kit.h"

static const size_t sizes[] = {0, 8, 4096, 4097, 200000};

#define SIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

/* Rank 0 sends in every ordinary way, rank 1 receives by its stream. */
static void ordinary_to_stream(MPI_Comm comm, struct kit *k)
{
	for (int i = 0; i < SIZES; i++) {
		unsigned char *b = malloc(sizes[i] + 1);
		int n = (int)sizes[i];
		MPI_Request r;

		for (int way = 0; way < 5; way++) {
			kit_fill(b, sizes[i], kit_rank ? 77 : (uint64_t)(way + i));
			if (kit_rank == 1) {
				kit_recv(k, b, sizes[i], 0, way);
				kit_sync(k);
				KIT(kit_check(b, sizes[i], (uint64_t)(way + i)));
			} else if (way == 0) {
				KIT(MPI_Send(b, n, MPI_BYTE, 1, way, comm) == MPI_SUCCESS);
			} else if (way == 1) {
				KIT(MPI_Ssend(b, n, MPI_BYTE, 1, way, comm) == MPI_SUCCESS);
			} else if (way == 2) {
				KIT(MPI_Isend(b, n, MPI_BYTE, 1, way, comm, &r) == MPI_SUCCESS);
				KIT(MPI_Wait(&r, MPI_STATUS_IGNORE) == MPI_SUCCESS);
			} else if (way == 3) {
				KIT(MPI_Issend(b, n, MPI_BYTE, 1, way, comm, &r) == MPI_SUCCESS);
				KIT(MPI_Wait(&r, MPI_STATUS_IGNORE) == MPI_SUCCESS);
			} else {
				KIT(MPI_Sendrecv(b, n, MPI_BYTE, 1, way, NULL, 0, MPI_BYTE,
						 MPI_PROC_NULL, 0, comm,
						 MPI_STATUS_IGNORE) == MPI_SUCCESS);
			}
		}
		free(b);
	}
}

/* Rank 1 sends by its stream, rank 0 receives in every ordinary way. */
static void stream_to_ordinary(MPI_Comm comm, struct kit *k)
{
	for (int i = 0; i < SIZES; i++) {
		unsigned char *b = malloc(sizes[i] + 1);
		int n = (int)sizes[i], flag = 0, count;
		MPI_Status status;
		MPI_Request r;

		for (int way = 0; way < 5; way++) {
			kit_fill(b, sizes[i], kit_rank == 0 ? 77 : (uint64_t)(way + i));
			if (kit_rank == 1) {
				kit_send(k, b, sizes[i], 0, way);
				kit_sync(k);
				continue;
			}
			if (way == 0) {
				KIT(MPI_Recv(b, n, MPI_BYTE, 1, way, comm, &status) == MPI_SUCCESS);
			} else if (way == 1) {
				KIT(MPI_Irecv(b, n, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
					      &r) == MPI_SUCCESS);
				while (!flag)
					KIT(MPI_Test(&r, &flag, &status) == MPI_SUCCESS);
			} else if (way == 2) {
				KIT(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status) ==
				    MPI_SUCCESS);
				MPI_Get_count(&status, MPI_BYTE, &count);
				KIT(count == n && status.MPI_SOURCE == 1 && status.MPI_TAG == way);
				KIT(MPI_Recv(b, count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
					     comm, &status) == MPI_SUCCESS);
			} else if (way == 3) {
				for (flag = 0; !flag;)
					KIT(MPI_Iprobe(1, way, comm, &flag, &status) ==
					    MPI_SUCCESS);
				KIT(MPI_Recv(b, n, MPI_BYTE, 1, way, comm, &status) == MPI_SUCCESS);
			} else {
				KIT(MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, b, n,
						 MPI_BYTE, 1, way, comm, &status) == MPI_SUCCESS);
			}
			MPI_Get_count(&status, MPI_BYTE, &count);
			KIT(count == n && status.MPI_SOURCE == 1 && status.MPI_TAG == way);
			KIT(kit_check(b, sizes[i], (uint64_t)(way + i)));
		}
		free(b);
	}
}

/* A synchronous send does not end before its receive is reached by the stream, which is held by a
 * gate. */
static void synchronous(MPI_Comm comm, struct kit *k)
{
	static uint64_t gate;
	uint64_t v = 42;
	MPI_Request r;
	int flag = 0;

	if (kit_rank == 0) {
		KIT(MPI_Issend(&v, 8, MPI_BYTE, 1, 9, comm, &r) == MPI_SUCCESS);
		for (int i = 0; i < 50; i++) {
			KIT(MPI_Test(&r, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS);
			KIT(!flag);
			kit_sleep(2);
		}
		MPI_Barrier(MPI_COMM_WORLD);
		KIT(MPI_Wait(&r, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	} else {
		v = 0;
		kit_gate(k, &gate);
		kit_recv(k, &v, 8, 0, 9);
		MPI_Barrier(MPI_COMM_WORLD);
		KIT(v == 0);
		kit_gate_open(&gate);
		kit_sync(k);
		KIT(v == 42);
	}
}

/* A receive is pending while both ranks are in collectives of the same communicator. */
static void collectives(MPI_Comm comm, struct kit *k)
{
	uint64_t v = 0;
	int sum = 0, one = 1;

	if (kit_rank == 1)
		kit_recv(k, &v, 8, 0, 4);
	KIT(MPI_Barrier(comm) == MPI_SUCCESS);
	KIT(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == 2);
	if (kit_rank == 0) {
		v = 5;
		KIT(MPI_Send(&v, 8, MPI_BYTE, 1, 4, comm) == MPI_SUCCESS);
	}
	KIT(MPI_Barrier(comm) == MPI_SUCCESS);
	if (kit_rank == 1)
		kit_sync(k);
	KIT(v == 5);
}

/* Plain traffic on MPI_COMM_WORLD, and on a split of the stream communicator, which is an ordinary
 * one. */
static void others(MPI_Comm comm)
{
	MPI_Comm split;
	MPIX_Stream stream;
	int v = kit_rank, w = -1;

	KIT(MPI_Comm_split(comm, 0, 0, &split) == MPI_SUCCESS);
	KIT(MPIX_Comm_get_stream(split, 0, &stream) == MPI_SUCCESS && stream == MPIX_STREAM_NULL);
	KIT(MPI_Sendrecv(&v, 1, MPI_INT, !kit_rank, 1, &w, 1, MPI_INT, !kit_rank, 1, split,
			 MPI_STATUS_IGNORE) == MPI_SUCCESS);
	KIT(w == !kit_rank);
	MPI_Comm_free(&split);
	w = -1;
	KIT(MPI_Sendrecv(&v, 1, MPI_INT, !kit_rank, 1, &w, 1, MPI_INT, !kit_rank, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE) == MPI_SUCCESS);
	KIT(w == !kit_rank);
}

/*
 * Enqueued sends, a synchronise, ordinary sends, and again, of one tag, more than any window holds:
 * they come in the program's order, so none that the stream has reached may be overtaken.
 */
static void in_turns(struct kit *k, int block)
{
	enum {
		N = 600
	};
	static uint64_t v[N];
	static MPI_Request r[N];

	for (int i = 0; i < N; i++) {
		int is_plain = i / block % 2;

		if (kit_rank == 1) {
			KIT(MPI_Recv(&v[i], 8, MPI_BYTE, 0, 3, k->comm, MPI_STATUS_IGNORE) ==
			    MPI_SUCCESS);
			KIT(v[i] == (uint64_t)i);
			continue;
		}
		v[i] = (uint64_t)i;
		if (is_plain && i % block == 0)
			KIT(any_stream_synchronize(k->host) == 0);
		KIT((is_plain ? MPI_Isend(&v[i], 8, MPI_BYTE, 1, 3, k->comm, &r[i])
			      : MPIX_Isend_enqueue(&v[i], 8, MPI_BYTE, 1, 3, k->comm, &r[i])) ==
		    MPI_SUCCESS);
	}
	if (kit_rank == 0)
		KIT(MPI_Waitall(N, r, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
	struct kit k;

	kit_init(&argc, &argv);
	kit_open(&k, MPI_COMM_WORLD);
	/* First both ranks have a stream; then rank 0 has none. */
	for (int round = 0; round < 2; round++) {
		MPI_Comm comm;

		KIT(MPIX_Stream_comm_create(MPI_COMM_WORLD,
					    round == 1 && kit_rank == 0 ? MPIX_STREAM_NULL
									: k.stream,
					    &comm) == MPI_SUCCESS);
		struct kit here = {k.host, k.stream, comm};

		ordinary_to_stream(comm, &here);
		stream_to_ordinary(comm, &here);
		synchronous(comm, &here);
		collectives(comm, &here);
		others(comm);
		MPI_Comm_free(&comm);
	}
	for (int block = 1; block <= 32; block *= 4)
		in_turns(&k, block);
	kit_close(&k);
	return kit_end();
}
