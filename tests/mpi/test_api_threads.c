/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks: 2 */
/*
 * test_api_threads.c: MPI_THREAD_MULTIPLE: threads with a stream each, and threads that share a
 * communicator, use every kind of call at once.
 */
#include <mpi.h>
#include <mpix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "any_stream.h"
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
/* gcc takes MPI_STATUSES_IGNORE of MPICH 4.0 for an array that is too short. */
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: rank %d: failed: %s\n", __FILE__, __LINE__, rank,  \
				#x);                                                               \
			MPI_Abort(MPI_COMM_WORLD, 1);                                              \
		}                                                                                  \
	} while (0)

enum {
	THREADS = 4,
	ROUNDS = 200
};

static int rank, peer;
static MPI_Comm shared, parents[THREADS];

static void own_stream(int id)
{
	MPI_Comm comm, dup;
	any_stream_t host;
	MPIX_Stream stream;
	MPI_Info info;

	CHECK(any_stream_create(&host) == 0);
	MPI_Info_create(&info);
	MPI_Info_set(info, "type", any_stream_type());
	MPIX_Info_set_hex(info, "value", &host, sizeof(host));
	CHECK(MPIX_Stream_create(info, &stream) == MPI_SUCCESS);
	MPI_Info_free(&info);
	/* At the same time on other parents: the agreements must not meet. */
	CHECK(MPIX_Stream_comm_create(parents[id], stream, &comm) == MPI_SUCCESS);
	CHECK(MPI_Comm_dup(comm, &dup) == MPI_SUCCESS);
	for (int i = 0; i < ROUNDS; i++) {
		MPI_Comm c = i % 2 ? comm : dup;
		int in[2] = {-1, -1}, out[2] = {1000 * id + i, 1000 * id + i + 1};
		MPI_Request requests[2];
		MPI_Status statuses[2];

		MPIX_Irecv_enqueue(&in[0], 1, MPI_INT, peer, 1, c, &requests[0]);
		MPIX_Isend_enqueue(&out[0], 1, MPI_INT, peer, 1, c, &requests[1]);
		MPIX_Waitall_enqueue(2, requests, statuses);
		MPIX_Irecv_enqueue(&in[1], 1, MPI_INT, peer, MPI_ANY_TAG, c, &requests[0]);
		MPIX_Isend_enqueue(&out[1], 1, MPI_INT, peer, 2, c, &requests[1]);
		MPI_Waitall(2, requests, statuses);
		CHECK(any_stream_synchronize(host) == 0);
		CHECK(in[0] == out[0] && in[1] == out[1]);
	}
	MPI_Comm_free(&comm);
	MPI_Comm_free(&dup);
	MPIX_Stream_free(&stream);
	any_stream_destroy(host);
}

/* Ordinary calls on one communicator, told apart by tags. */
static void shared_comm(int id)
{
	for (int i = 0; i < ROUNDS; i++) {
		int in[3] = {-1, -1, -1}, out = 1000 * id + i, index, flag = 0;
		MPI_Request requests[3];
		MPI_Status status;

		MPI_Irecv(&in[0], 1, MPI_INT, peer, 10 + id, shared, &requests[0]);
		MPI_Irecv(&in[1], 1, MPI_INT, peer, 20 + id, MPI_COMM_WORLD, &requests[1]);
		MPI_Isend(&out, 1, MPI_INT, peer, 10 + id, shared, &requests[2]);
		MPI_Send(&out, 1, MPI_INT, peer, 20 + id, MPI_COMM_WORLD);
		if (i % 3 == 0)
			MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
		for (int k = 0; k < 3 && i % 3 == 1; k++)
			MPI_Waitany(3, requests, &index, &status);
		while (i % 3 == 2 && !flag)
			MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE);
		MPI_Sendrecv(&out, 1, MPI_INT, peer, 30 + id, &in[2], 1, MPI_INT, peer, 30 + id,
			     shared, &status);
		CHECK(in[0] == out && in[1] == out && in[2] == out);
	}
}

static void *thread_main(void *arg)
{
	int id = *(int *)arg;

	own_stream(id);
	shared_comm(id);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	int ids[THREADS], provided;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	if (provided < MPI_THREAD_MULTIPLE) {
		printf("skipped: this MPI has no MPI_THREAD_MULTIPLE\n");
		MPI_Finalize();
		return 77;
	}
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	peer = 1 - rank;
	CHECK(MPIX_Stream_comm_create(MPI_COMM_WORLD, MPIX_STREAM_NULL, &shared) == MPI_SUCCESS);
	for (int i = 0; i < THREADS; i++) {
		ids[i] = i;
		MPI_Comm_dup(MPI_COMM_WORLD, &parents[i]);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, thread_main, &ids[i]) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		MPI_Comm_free(&parents[i]);
	MPI_Comm_free(&shared);
	MPI_Finalize();
	if (rank == 0)
		printf("ok\n");
	return 0;
}
