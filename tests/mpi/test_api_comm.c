/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks: 2 */
/*
 * test_api_comm.c: stream communicators as objects: what inherits the stream and what does not,
 * attributes, collectives, many at once, frees in every order.
 */
#include <mpi.h>
#include <mpix.h>
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

static int rank, peer;
static int copies, deletes;

static MPIX_Stream make_stream(any_stream_t host)
{
	MPIX_Stream stream;
	MPI_Info info;

	MPI_Info_create(&info);
	MPI_Info_set(info, "type", any_stream_type());
	MPIX_Info_set_hex(info, "value", &host, sizeof(host));
	CHECK(MPIX_Stream_create(info, &stream) == MPI_SUCCESS);
	MPI_Info_free(&info);
	return stream;
}

static MPIX_Stream stream_of(MPI_Comm comm)
{
	MPIX_Stream stream = 1;

	CHECK(MPIX_Comm_get_stream(comm, 0, &stream) == MPI_SUCCESS);
	return stream;
}

/* Exchange a number with the peer by enqueued calls. */
static void exchange(any_stream_t host, MPI_Comm comm, int number)
{
	MPI_Request requests[2];
	int in = -1, out = number + rank;

	CHECK(MPIX_Irecv_enqueue(&in, 1, MPI_INT, peer, 5, comm, &requests[0]) == MPI_SUCCESS);
	CHECK(MPIX_Isend_enqueue(&out, 1, MPI_INT, peer, 5, comm, &requests[1]) == MPI_SUCCESS);
	CHECK(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	CHECK(any_stream_synchronize(host) == 0);
	CHECK(in == number + peer);
}

static void inherit(any_stream_t host, MPIX_Stream stream, MPI_Comm comm)
{
	MPI_Comm dup, dup_info, idup, idup_info, split, dup_of_dup;
	MPI_Request requests[2];
	MPIX_Stream none = 1;

	CHECK(stream_of(comm) == stream && stream_of(MPI_COMM_WORLD) == MPIX_STREAM_NULL);
	CHECK(MPIX_Comm_get_stream(comm, 1, &none) == MPI_SUCCESS && none == MPIX_STREAM_NULL);
	CHECK(MPI_Comm_dup(comm, &dup) == MPI_SUCCESS);
	CHECK(MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &dup_info) == MPI_SUCCESS);
	CHECK(MPI_Comm_idup(comm, &idup, &requests[0]) == MPI_SUCCESS);
	CHECK(MPI_Comm_idup_with_info(comm, MPI_INFO_NULL, &idup_info, &requests[1]) ==
	      MPI_SUCCESS);
	CHECK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	CHECK(MPI_Comm_split(comm, 0, rank, &split) == MPI_SUCCESS);
	CHECK(MPI_Comm_dup(dup, &dup_of_dup) == MPI_SUCCESS);
	CHECK(stream_of(dup) == stream && stream_of(dup_info) == stream);
	CHECK(stream_of(idup) == stream && stream_of(idup_info) == stream);
	CHECK(stream_of(dup_of_dup) == stream && stream_of(split) == MPIX_STREAM_NULL);
	exchange(host, dup, 10);
	exchange(host, dup_info, 20);
	exchange(host, idup, 30);
	exchange(host, idup_info, 35);
	exchange(host, dup_of_dup, 40);
	exchange(host, comm, 50);
	MPI_Comm_free(&dup_of_dup);
	MPI_Comm_free(&split);
	MPI_Comm_free(&idup);
	MPI_Comm_free(&idup_info);
	MPI_Comm_free(&dup_info);
	MPI_Comm_free(&dup);
}

/* Two idups at once, completed in another order on the other rank, the parent freed in between. */
static void idup_order(any_stream_t host, MPIX_Stream stream)
{
	MPI_Comm parent[2], copy[2];
	MPI_Request requests[2];
	int flag = 0;

	for (int i = 0; i < 2; i++)
		CHECK(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &parent[i]) == MPI_SUCCESS);
	for (int i = 0; i < 2; i++)
		MPI_Comm_idup(parent[rank ^ i], &copy[rank ^ i], &requests[rank ^ i]);
	MPI_Comm_free(&parent[1]);
	while (!flag)
		MPI_Test(&requests[rank], &flag, MPI_STATUS_IGNORE);
	MPI_Wait(&requests[1 - rank], MPI_STATUS_IGNORE);
	for (int i = 0; i < 2; i++) {
		CHECK(stream_of(copy[i]) == stream);
		exchange(host, copy[i], 60 + i);
		MPI_Comm_free(&copy[i]);
	}
	MPI_Comm_free(&parent[0]);
}

/* The same tag on two communicators at once: messages do not cross. */
static void apart(any_stream_t host, MPI_Comm comm)
{
	int a = -1, b = -1, out_a = 1 + rank, out_b = 11 + rank;
	MPI_Request requests[4];
	MPI_Comm dup;

	MPI_Comm_dup(comm, &dup);
	MPIX_Irecv_enqueue(&a, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]);
	MPIX_Irecv_enqueue(&b, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, dup, &requests[1]);
	MPIX_Isend_enqueue(&out_b, 1, MPI_INT, peer, 0, dup, &requests[2]);
	MPIX_Isend_enqueue(&out_a, 1, MPI_INT, peer, 0, comm, &requests[3]);
	MPIX_Waitall_enqueue(4, requests, MPI_STATUSES_IGNORE);
	CHECK(any_stream_synchronize(host) == 0);
	CHECK(a == 1 + peer && b == 11 + peer);
	MPI_Comm_free(&dup);
}

static int copy_attribute(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
	(void)comm;
	(void)keyval;
	(void)extra;
	copies++;
	*(void **)out = in;
	*flag = 1;
	return MPI_SUCCESS;
}

static int delete_attribute(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm;
	(void)keyval;
	(void)value;
	(void)extra;
	deletes++;
	return MPI_SUCCESS;
}

static void attributes(MPIX_Stream stream)
{
	int keyval, flag, value = 3, *got;
	MPI_Comm parent, comm, dup;

	MPI_Comm_create_keyval(copy_attribute, delete_attribute, &keyval, NULL);
	MPI_Comm_dup(MPI_COMM_WORLD, &parent);
	MPI_Comm_set_attr(parent, keyval, &value);
	CHECK(MPIX_Stream_comm_create(parent, stream, &comm) == MPI_SUCCESS && copies == 1);
	CHECK(MPI_Comm_dup(comm, &dup) == MPI_SUCCESS && copies == 2);
	MPI_Comm_get_attr(dup, keyval, &got, &flag);
	CHECK(flag && got == &value);
	MPI_Comm_free(&parent);
	MPI_Comm_free(&dup);
	MPI_Comm_free(&comm);
	CHECK(deletes == 3);
	MPI_Comm_free_keyval(&keyval);
}

static void collectives(MPI_Comm comm)
{
	int sum, one = 1 + rank, all[2];
	MPI_Request request;

	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
	CHECK(sum == 3);
	MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, comm);
	CHECK(all[0] == 1 && all[1] == 2);
	MPI_Ibarrier(comm, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* What is freed between enqueue and synchronise, in every order; the gate holds the operations
 * back. */
static void free_orders(void)
{
	for (int order = 0; order < 6; order++) {
		static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
						 {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
		any_stream_t host, control;
		any_event_t done;
		MPIX_Stream stream;
		MPI_Comm comm;
		uint64_t gate = 0;
		int in = -1, out = 70 + order + rank;
		MPI_Request request;

		CHECK(any_stream_create(&host) == 0 && any_stream_create(&control) == 0);
		CHECK(any_event_create(&done) == 0);
		stream = make_stream(host);
		CHECK(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm) == MPI_SUCCESS);
		CHECK(any_stream_wait_value64(host, &gate, 1) == 0);
		MPIX_Irecv_enqueue(&in, 1, MPI_INT, peer, 1, comm, &request);
		MPIX_Send_enqueue(&out, 1, MPI_INT, peer, 1, comm);
		MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE);
		CHECK(any_event_record(done, host) == 0);
		for (int i = 0; i < 3; i++) {
			if (orders[order][i] == 0)
				MPI_Comm_free(&comm);
			else if (orders[order][i] == 1)
				MPIX_Stream_free(&stream);
			else
				CHECK(any_stream_destroy(host) == 0);
		}
		CHECK(in == -1);
		CHECK(any_stream_write_value64(control, &gate, 1) == 0);
		CHECK(any_event_synchronize(done) == 0);
		CHECK(in == 70 + order + peer);
		any_event_destroy(done);
		any_stream_destroy(control);
	}
}

/* Handles and context ids are used again and again. */
static void many(any_stream_t host)
{
	MPI_Comm comms[20];
	MPIX_Stream old = MPIX_STREAM_NULL;

	for (int round = 0; round < 10; round++) {
		MPIX_Stream stream = make_stream(host);

		CHECK(stream != old);
		old = stream;
		for (int i = 0; i < 20; i++)
			CHECK(MPIX_Stream_comm_create(i % 2 ? comms[i - 1] : MPI_COMM_WORLD, stream,
						      &comms[i]) == MPI_SUCCESS);
		MPIX_Stream_free(&stream);
		for (int i = 0; i < 20; i++) {
			exchange(host, comms[i], 100 * i);
			MPI_Comm_free(&comms[i]);
		}
	}
}

/* A rank without a stream, a communicator of one, and one of the ranks in reverse. */
static void shapes(any_stream_t host, MPIX_Stream stream)
{
	MPI_Comm comm, self, reversed, plain;
	MPI_Request request;
	int in = -1, out = 5, r;

	CHECK(MPIX_Stream_comm_create(MPI_COMM_WORLD, rank == 0 ? stream : MPIX_STREAM_NULL,
				      &comm) == MPI_SUCCESS);
	CHECK(stream_of(comm) == (rank == 0 ? stream : MPIX_STREAM_NULL));
	if (rank == 0) {
		MPIX_Send_enqueue(&out, 1, MPI_INT, 1, 1, comm);
		CHECK(any_stream_synchronize(host) == 0);
	} else {
		MPI_Recv(&in, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
		CHECK(in == 5);
	}
	MPI_Comm_free(&comm);

	CHECK(MPIX_Stream_comm_create(MPI_COMM_SELF, stream, &self) == MPI_SUCCESS);
	in = -1;
	MPIX_Irecv_enqueue(&in, 1, MPI_INT, 0, 1, self, &request);
	MPIX_Send_enqueue(&out, 1, MPI_INT, 0, 1, self);
	MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE);
	CHECK(any_stream_synchronize(host) == 0 && in == 5);
	MPI_Comm_free(&self);

	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &plain);
	CHECK(MPIX_Stream_comm_create(plain, stream, &reversed) == MPI_SUCCESS);
	MPI_Comm_free(&plain);
	MPI_Comm_rank(reversed, &r);
	CHECK(r == 1 - rank);
	in = -1;
	if (r == 0) {
		MPIX_Send_enqueue(&out, 1, MPI_INT, 1, 1, reversed);
	} else {
		MPIX_Recv_enqueue(&in, 1, MPI_INT, 0, 1, reversed, MPI_STATUS_IGNORE);
	}
	CHECK(any_stream_synchronize(host) == 0);
	CHECK(r == 0 || in == 5);
	MPI_Comm_free(&reversed);
}

int main(int argc, char **argv)
{
	any_stream_t host;
	MPIX_Stream stream;
	MPI_Comm comm;
	int out = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	peer = 1 - rank;
	CHECK(any_stream_create(&host) == 0);
	stream = make_stream(host);
	CHECK(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm) == MPI_SUCCESS);
	inherit(host, stream, comm);
	idup_order(host, stream);
	apart(host, comm);
	attributes(stream);
	collectives(comm);
	free_orders();
	many(host);
	shapes(host, stream);
	/* MPI_Finalize drains what is still under way, and what was never freed is no harm. */
	if (rank == 0)
		MPIX_Send_enqueue(&out, 1, MPI_INT, 1, 9, comm);
	else
		MPIX_Recv_enqueue(&out, 1, MPI_INT, 0, 9, comm, MPI_STATUS_IGNORE);
	MPI_Finalize();
	CHECK(any_stream_query(host) == 0);
	any_stream_destroy(host);
	if (rank == 0)
		printf("ok\n");
	return 0;
}
