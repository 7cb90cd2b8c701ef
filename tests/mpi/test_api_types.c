/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks: 2 */
/*
 * test_api_types.c: counts and datatypes: every predefined type, derived types that are contiguous
 * and such that are not, types freed after the enqueue, zero sizes, MPI_PROC_NULL, large counts,
 * MPI_Get_count.
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

static int rank, peer;
static any_stream_t host;
static MPI_Comm comm;

/* Send n elements to the peer and back, from enqueued to ordinary calls; expect `bytes` of them to
 * arrive. */
static void round_trip(MPI_Datatype type, int n, int bytes)
{
	unsigned char out[512], in[512], expected[512];
	MPI_Status status;
	int count = -1;
	MPI_Count elements = -1;

	CHECK(bytes <= 512);
	for (int i = 0; i < 512; i++) {
		out[i] = (unsigned char)(i * 7 + rank);
		expected[i] = i < bytes ? (unsigned char)(i * 7 + peer) : 0xee;
	}
	memset(in, 0xee, sizeof(in));
	if (rank == 0) {
		CHECK(MPIX_Send_enqueue(out, n, type, peer, 1, comm) == MPI_SUCCESS);
		CHECK(MPIX_Recv_enqueue(in, n, type, peer, 2, comm, &status) == MPI_SUCCESS);
		CHECK(any_stream_synchronize(host) == 0);
	} else {
		CHECK(MPI_Recv(in, n, type, peer, 1, comm, &status) == MPI_SUCCESS);
		CHECK(MPI_Send(out, n, type, peer, 2, comm) == MPI_SUCCESS);
	}
	CHECK(memcmp(in, expected, sizeof(in)) == 0);
	MPI_Get_count(&status, type, &count);
	CHECK(count == (bytes == 0 ? 0 : n)); /* MPI counts no elements of size 0 */
	MPI_Get_elements_x(&status, MPI_BYTE, &elements);
	CHECK(elements == bytes);
}

static void predefined(void)
{
	static const MPI_Datatype types[] = {
		MPI_CHAR,
		MPI_SIGNED_CHAR,
		MPI_UNSIGNED_CHAR,
		MPI_BYTE,
		MPI_WCHAR,
		MPI_SHORT,
		MPI_UNSIGNED_SHORT,
		MPI_INT,
		MPI_UNSIGNED,
		MPI_LONG,
		MPI_UNSIGNED_LONG,
		MPI_LONG_LONG,
		MPI_FLOAT,
		MPI_DOUBLE,
		MPI_LONG_DOUBLE,
		MPI_INT8_T,
		MPI_INT16_T,
		MPI_INT32_T,
		MPI_INT64_T,
		MPI_UINT8_T,
		MPI_UINT16_T,
		MPI_UINT32_T,
		MPI_UINT64_T,
		MPI_C_BOOL,
		MPI_C_FLOAT_COMPLEX,
		MPI_C_DOUBLE_COMPLEX,
		MPI_C_LONG_DOUBLE_COMPLEX,
		MPI_AINT,
		MPI_OFFSET,
		MPI_COUNT,
		MPI_PACKED,
		MPI_2INT,
		MPI_FLOAT_INT,
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		int size;

		MPI_Type_size(types[i], &size);
		round_trip(types[i], 5, 5 * size);
		round_trip(types[i], 5, 5 * size); /* now from the table */
	}
	round_trip(MPI_INT, 0, 0);
}

/* Use a derived type, then free it before the stream gets to it. */
static void contiguous(MPI_Datatype type, int n)
{
	int size, out[64], in[64];
	MPI_Request requests[2];
	MPI_Datatype copy;
	uint64_t *gate = calloc(1, sizeof(*gate));

	MPI_Type_commit(&type);
	MPI_Type_size(type, &size);
	CHECK(n * size <= (int)sizeof(in));
	round_trip(type, n, n * size);
	round_trip(type, n, n * size);
	MPI_Type_dup(type, &copy);
	round_trip(copy, n, n * size);
	for (int i = 0; i < 64; i++) {
		out[i] = i + rank;
		in[i] = -1;
	}
	CHECK(any_stream_wait_value64(host, gate, 1) == 0);
	CHECK(MPIX_Irecv_enqueue(in, n, copy, peer, 3, comm, &requests[0]) == MPI_SUCCESS);
	CHECK(MPIX_Isend_enqueue(out, n, type, peer, 3, comm, &requests[1]) == MPI_SUCCESS);
	CHECK(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	MPI_Type_free(&type);
	MPI_Type_free(&copy);
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	CHECK(any_stream_synchronize(host) == 0);
	for (int i = 0; i < 64; i++)
		CHECK(in[i] == (i < n * size / 4 ? i + peer : -1));
	free(gate);
}

static void not_contiguous(MPI_Datatype type)
{
	int class, rc, x[64] = {0};

	MPI_Type_commit(&type);
	for (int i = 0; i < 2; i++) {
		rc = MPIX_Send_enqueue(x, 1, type, peer, 3, comm);
		MPI_Error_class(rc, &class);
		CHECK(class == MPI_ERR_TYPE);
	}
	MPI_Type_free(&type);
}

static void derived(void)
{
	int ones[4] = {1, 1, 1, 1}, growing[3] = {0, 1, 2}, pairs[2] = {0, 2}, back[2] = {1, 0};
	int lengths[2] = {2, 1}, sizes[2] = {2, 3}, parts[2] = {2, 2}, starts[2] = {0, 0};
	MPI_Aint bytes[3] = {0, 4, 8}, disps[2] = {0, 8}, far[2] = {0, 16};
	MPI_Datatype mixed[2] = {MPI_INT, MPI_FLOAT}, three[2] = {MPI_INT, MPI_DOUBLE};
	MPI_Datatype type, inner;

	MPI_Type_contiguous(3, MPI_INT, &type);
	contiguous(type, 4);
	MPI_Type_contiguous_c(3, MPI_INT, &type);
	contiguous(type, 4);
	MPI_Type_contiguous(0, MPI_INT, &type);
	contiguous(type, 4);
	MPI_Type_vector(3, 2, 2, MPI_INT, &type);
	contiguous(type, 2);
	MPI_Type_vector(1, 2, 7, MPI_INT, &type);
	contiguous(type, 2);
	MPI_Type_vector_c(3, 2, 2, MPI_INT, &type);
	contiguous(type, 2);
	MPI_Type_vector(3, 2, 3, MPI_INT, &type);
	not_contiguous(type);
	MPI_Type_vector_c(3, 2, 3, MPI_INT, &type);
	not_contiguous(type);
	MPI_Type_create_hvector(3, 1, 4, MPI_INT, &type);
	contiguous(type, 2);
	MPI_Type_create_hvector(3, 1, 8, MPI_INT, &type);
	not_contiguous(type);
	MPI_Type_indexed(3, ones, growing, MPI_INT, &type);
	contiguous(type, 2);
	MPI_Type_indexed(2, ones, pairs, MPI_INT, &type);
	not_contiguous(type);
	MPI_Type_indexed(2, ones, back, MPI_INT, &type); /* right place, wrong order */
	not_contiguous(type);
	MPI_Type_indexed(2, lengths, pairs, MPI_INT, &type);
	contiguous(type, 2);
	MPI_Type_create_hindexed(3, ones, bytes, MPI_INT, &type);
	contiguous(type, 2);
	MPI_Type_create_indexed_block(3, 1, growing, MPI_INT, &type);
	contiguous(type, 2);
	MPI_Type_create_hindexed_block(3, 1, bytes, MPI_INT, &type);
	contiguous(type, 2);
	MPI_Type_create_struct(2, lengths, disps, mixed, &type);
	contiguous(type, 3);
	MPI_Type_create_struct(2, lengths, far, three, &type);
	not_contiguous(type);
	MPI_Type_create_resized(MPI_INT, 0, 8, &type);
	not_contiguous(type);
	MPI_Type_create_resized(MPI_INT, 0, 4, &type);
	contiguous(type, 3);
	MPI_Type_create_subarray(2, sizes, sizes, starts, MPI_ORDER_C, MPI_INT, &type);
	contiguous(type, 2);
	MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
	not_contiguous(type);
	MPI_Type_contiguous(2, MPI_SHORT, &inner);
	MPI_Type_vector(2, 3, 3, inner, &type);
	MPI_Type_free(&inner);
	contiguous(type, 2);
	MPI_Type_contiguous(2, MPI_SHORT_INT, &type);
	not_contiguous(type);
}

/* A type handle that comes back with another meaning is not taken for the old one. */
static void reused(void)
{
	for (int i = 1; i < 6; i++) {
		MPI_Datatype type;

		MPI_Type_contiguous(i, MPI_INT, &type);
		MPI_Type_commit(&type);
		round_trip(type, 2, 8 * i);
		MPI_Type_free(&type);
		MPI_Type_vector(2, 1, i + 1, MPI_INT, &type);
		not_contiguous(type);
	}
}

static void proc_null(void)
{
	MPI_Request requests[2];
	MPI_Status statuses[3];
	int x = 3, count;

	memset(statuses, 0xff, sizeof(statuses));
	CHECK(MPIX_Send_enqueue(&x, 1, MPI_INT, MPI_PROC_NULL, 0, comm) == MPI_SUCCESS);
	CHECK(MPIX_Recv_enqueue(&x, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &statuses[0]) ==
	      MPI_SUCCESS);
	CHECK(MPIX_Irecv_enqueue(&x, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[0]) ==
	      MPI_SUCCESS);
	CHECK(MPIX_Wait_enqueue(&requests[0], &statuses[1]) == MPI_SUCCESS);
	CHECK(any_stream_synchronize(host) == 0);
	CHECK(MPI_Recv(&x, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &statuses[2]) == MPI_SUCCESS);
	for (int i = 0; i < 3; i++) {
		MPI_Get_count(&statuses[i], MPI_INT, &count);
		CHECK(statuses[i].MPI_SOURCE == MPI_PROC_NULL &&
		      statuses[i].MPI_TAG == MPI_ANY_TAG);
		CHECK(count == 0);
	}
	CHECK(MPI_Send(&x, 1, MPI_INT, MPI_PROC_NULL, 0, comm) == MPI_SUCCESS);
	CHECK(MPI_Isend(&x, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[0]) == MPI_SUCCESS);
	CHECK(MPI_Irecv(&x, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[1]) == MPI_SUCCESS);
	CHECK(MPI_Waitall(2, requests, statuses) == MPI_SUCCESS);
	CHECK(statuses[1].MPI_SOURCE == MPI_PROC_NULL && statuses[1].MPI_TAG == MPI_ANY_TAG);
	CHECK(MPI_Probe(MPI_PROC_NULL, 0, comm, &statuses[0]) == MPI_SUCCESS);
	CHECK(statuses[0].MPI_SOURCE == MPI_PROC_NULL);
	CHECK(x == 3);
}

/* Shorter than posted, cut, and of zero bytes with a NULL buffer. */
static void lengths(void)
{
	int in[4] = {-1, -1, -1, -1}, out[4] = {1, 2, 3, 4}, count, class, rc;
	MPI_Status status;

	MPIX_Send_enqueue(NULL, 0, MPI_INT, peer, 1, comm);
	MPIX_Recv_enqueue(NULL, 0, MPI_INT, peer, 1, comm, &status);
	MPIX_Send_enqueue(out, 2, MPI_INT, peer, 2, comm);
	CHECK(any_stream_synchronize(host) == 0);
	MPI_Get_count(&status, MPI_INT, &count);
	CHECK(count == 0);
	MPIX_Recv_enqueue(in, 4, MPI_INT, peer, 2, comm, &status);
	CHECK(any_stream_synchronize(host) == 0);
	MPI_Get_count(&status, MPI_INT, &count);
	CHECK(count == 2 && in[1] == 2 && in[2] == -1);

	/* With a status the error is there, and only there. */
	in[3] = -1;
	MPIX_Send_enqueue(out, 4, MPI_INT, peer, 3, comm);
	MPIX_Recv_enqueue(in, 3, MPI_INT, peer, 3, comm, &status);
	CHECK(any_stream_synchronize(host) == 0);
	CHECK(status.MPI_ERROR == MPI_ERR_TRUNCATE && in[2] == 3 && in[3] == -1);
	CHECK(MPIX_Send_enqueue(out, 4, MPI_INT, MPI_PROC_NULL, 3, comm) == MPI_SUCCESS);
	/* Without one the next call that enqueues tells, once. */
	MPIX_Send_enqueue(out, 4, MPI_INT, peer, 3, comm);
	MPIX_Recv_enqueue(in, 3, MPI_INT, peer, 3, comm, MPI_STATUS_IGNORE);
	CHECK(any_stream_synchronize(host) == 0);
	rc = MPIX_Send_enqueue(out, 4, MPI_INT, MPI_PROC_NULL, 3, comm);
	MPI_Error_class(rc, &class);
	CHECK(class == MPI_ERR_TRUNCATE && in[3] == -1);
	CHECK(MPIX_Send_enqueue(out, 4, MPI_INT, MPI_PROC_NULL, 3, comm) == MPI_SUCCESS);
	/* An ordinary receive returns it. */
	MPI_Send(out, 4, MPI_INT, rank, 4, comm);
	rc = MPI_Recv(in, 1, MPI_INT, rank, 4, comm, &status);
	MPI_Error_class(rc, &class);
	CHECK(class == MPI_ERR_TRUNCATE && in[1] == 2);
}

/* One message through the large-count calls; with STMPI_TEST_LARGE set more than 2 GiB. */
static void large(void)
{
	MPI_Count n = getenv("STMPI_TEST_LARGE") != NULL ? ((MPI_Count)1 << 31) + 8 : 3000000, got;
	char *buf = malloc((size_t)n);
	MPI_Request request;
	MPI_Status status;

	CHECK(buf != NULL);
	if (rank == 0) {
		memset(buf, 3, (size_t)n);
		buf[n - 1] = 4;
		CHECK(MPIX_Send_enqueue_c(buf, n, MPI_BYTE, 1, 1, comm) == MPI_SUCCESS);
		CHECK(MPIX_Irecv_enqueue_c(buf, n, MPI_BYTE, 1, 2, comm, &request) == MPI_SUCCESS);
		CHECK(MPIX_Wait_enqueue(&request, &status) == MPI_SUCCESS);
		CHECK(any_stream_synchronize(host) == 0);
		CHECK(buf[0] == 3 && buf[n - 2] == 5 && buf[n - 1] == 4);
	} else {
		memset(buf, 0, (size_t)n);
		CHECK(MPIX_Recv_enqueue_c(buf, n, MPI_BYTE, 0, 1, comm, &status) == MPI_SUCCESS);
		CHECK(any_stream_synchronize(host) == 0);
		CHECK(buf[0] == 3 && buf[n - 2] == 3 && buf[n - 1] == 4);
		buf[n - 2] = 5;
		CHECK(MPIX_Isend_enqueue_c(buf, n, MPI_BYTE, 0, 2, comm, &request) == MPI_SUCCESS);
		CHECK(MPIX_Waitall_enqueue(1, &request, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
		CHECK(any_stream_synchronize(host) == 0);
	}
	MPI_Get_count_c(&status, MPI_BYTE, &got);
	CHECK(got == n);
	free(buf);
}

int main(int argc, char **argv)
{
	MPIX_Stream stream;
	MPI_Info info;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	peer = 1 - rank;
	CHECK(any_stream_create(&host) == 0);
	MPI_Info_create(&info);
	MPI_Info_set(info, "type", any_stream_type());
	MPIX_Info_set_hex(info, "value", &host, sizeof(host));
	CHECK(MPIX_Stream_create(info, &stream) == MPI_SUCCESS);
	MPI_Info_free(&info);
	CHECK(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm) == MPI_SUCCESS);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	predefined();
	derived();
	reused();
	proc_null();
	lengths();
	large();
	MPI_Comm_free(&comm);
	MPIX_Stream_free(&stream);
	any_stream_destroy(host);
	MPI_Finalize();
	if (rank == 0)
		printf("ok\n");
	return 0;
}
