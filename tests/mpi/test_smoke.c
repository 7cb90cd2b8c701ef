/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks: 2 */
/*
 * test_smoke.c: the whole road once: a host stream, a stream communicator, blocking and nonblocking
 * enqueued messages in both directions, waits and statuses, an ordinary call on the other side.
 */
#include <mpi.h>
#include <mpix.h>
#include <stdio.h>
#include <stdlib.h>
#include "any_stream.h"
#include <string.h>

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: rank %d: failed: %s\n", __FILE__, __LINE__, rank,  \
				#x);                                                               \
			MPI_Abort(MPI_COMM_WORLD, 1);                                              \
		}                                                                                  \
	} while (0)

static int rank;

static MPIX_Stream make_stream(any_stream_t host)
{
	MPIX_Stream stream;
	MPI_Info info;

	MPI_Info_create(&info);
	MPI_Info_set(info, "type", any_stream_type());
	MPIX_Info_set_hex(info, "value", &host, sizeof(host));
	CHECK(MPIX_Stream_create(info, &stream) == MPI_SUCCESS);
	MPI_Info_free(&info);
	CHECK(stream != MPIX_STREAM_NULL);
	return stream;
}

static void blocking(any_stream_t host, MPI_Comm comm)
{
	int out[4] = {1, 2, 3, 4 + rank}, in[4] = {0}, count;
	MPI_Status status;

	memset(&status, 0xff, sizeof(status));
	if (rank == 0) {
		CHECK(MPIX_Send_enqueue(out, 4, MPI_INT, 1, 7, comm) == MPI_SUCCESS);
		CHECK(MPIX_Recv_enqueue(in, 4, MPI_INT, 1, 8, comm, &status) == MPI_SUCCESS);
	} else {
		CHECK(MPIX_Recv_enqueue(in, 4, MPI_INT, 0, 7, comm, &status) == MPI_SUCCESS);
		CHECK(MPIX_Send_enqueue(out, 4, MPI_INT, 0, 8, comm) == MPI_SUCCESS);
	}
	CHECK(any_stream_synchronize(host) == 0);
	CHECK(in[0] == 1 && in[3] == 4 + 1 - rank);
	CHECK(status.MPI_SOURCE == 1 - rank && status.MPI_TAG == 8 - rank);
	CHECK(status.MPI_ERROR == MPI_SUCCESS);
	MPI_Get_count(&status, MPI_INT, &count);
	CHECK(count == 4);
}

static void nonblocking(any_stream_t host, MPI_Comm comm)
{
	enum {
		N = 10
	};
	double out[N], in[N];
	MPI_Request requests[2 * N];
	MPI_Status statuses[2 * N], third;
	int count;

	for (int i = 0; i < N; i++) {
		out[i] = i + 100 * rank;
		in[i] = -1;
		CHECK(MPIX_Irecv_enqueue(&in[i], 1, MPI_DOUBLE, MPI_ANY_SOURCE, i, comm,
					 &requests[i]) == MPI_SUCCESS);
		CHECK(MPIX_Isend_enqueue(&out[i], 1, MPI_DOUBLE, 1 - rank, i, comm,
					 &requests[N + i]) == MPI_SUCCESS);
	}
	CHECK(MPIX_Wait_enqueue(&requests[3], &third) == MPI_SUCCESS);
	CHECK(requests[3] == MPI_REQUEST_NULL);
	CHECK(MPIX_Waitall_enqueue(2 * N, requests, statuses) == MPI_SUCCESS);
	for (int i = 0; i < 2 * N; i++)
		CHECK(requests[i] == MPI_REQUEST_NULL);
	CHECK(any_stream_synchronize(host) == 0);
	for (int i = 0; i < N; i++) {
		CHECK(in[i] == i + 100 * (1 - rank));
		if (i == 3) /* null in the second wait, which made its status there empty */
			statuses[i] = third;
		CHECK(statuses[i].MPI_SOURCE == 1 - rank && statuses[i].MPI_TAG == i);
		MPI_Get_count(&statuses[i], MPI_DOUBLE, &count);
		CHECK(count == 1);
	}
}

/* Rank 0 enqueues, rank 1 uses ordinary calls. */
static void mixed(any_stream_t host, MPI_Comm comm)
{
	char text[16] = "", back[16] = "";
	MPI_Status status;
	int count;

	if (rank == 0) {
		CHECK(MPIX_Send_enqueue("hello", 6, MPI_CHAR, 1, 1, comm) == MPI_SUCCESS);
		CHECK(MPIX_Recv_enqueue(back, sizeof(back), MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG,
					comm, &status) == MPI_SUCCESS);
		CHECK(any_stream_synchronize(host) == 0);
		CHECK(strcmp(back, "hello!") == 0 && status.MPI_TAG == 2);
	} else {
		CHECK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status) == MPI_SUCCESS);
		MPI_Get_count(&status, MPI_CHAR, &count);
		CHECK(count == 6 && status.MPI_SOURCE == 0 && status.MPI_TAG == 1);
		CHECK(MPI_Recv(text, count, MPI_CHAR, 0, 1, comm, MPI_STATUS_IGNORE) ==
		      MPI_SUCCESS);
		strcat(text, "!");
		CHECK(MPI_Send(text, 7, MPI_CHAR, 0, 2, comm) == MPI_SUCCESS);
	}
}

int main(int argc, char **argv)
{
	any_stream_t host;
	MPIX_Stream stream;
	MPI_Comm comm;
	int size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	CHECK(size == 2);
	CHECK(any_stream_create(&host) == 0);
	stream = make_stream(host);
	CHECK(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm) == MPI_SUCCESS);
	blocking(host, comm);
	nonblocking(host, comm);
	mixed(host, comm);
	MPI_Barrier(comm); /* collectives work on it too */
	MPI_Comm_free(&comm);
	MPIX_Stream_free(&stream);
	CHECK(stream == MPIX_STREAM_NULL);
	CHECK(any_stream_destroy(host) == 0);
	MPI_Finalize();
	if (rank == 0)
		printf("ok\n");
	return 0;
}
