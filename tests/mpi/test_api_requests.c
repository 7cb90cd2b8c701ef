/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks: 2 */
/*
 * test_api_requests.c: requests of a stream communicator are MPI requests: all Wait and Test calls,
 * on lists mixed with requests of MPI_COMM_WORLD, null and inactive persistent ones; statuses,
 * errors in statuses, cancel, free.
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

enum {
	MIXED = 8,
	MANY = 200
};

static int rank, peer;

/* A list: 0,4 stream receives; 1,5 world receives; 2 null; 3 inactive persistent; 6 stream send; 7
 * world send. */
struct list {
	MPI_Request requests[MIXED];
	MPI_Status statuses[MIXED];
	int in[MIXED], out[MIXED];
	MPI_Request persistent;
};

static void list_start(struct list *l, MPI_Comm comm)
{
	memset(l->statuses, 0x5a, sizeof(l->statuses));
	for (int i = 0; i < MIXED; i++) {
		l->in[i] = -1;
		l->out[i] = 100 * rank + i;
		l->requests[i] = MPI_REQUEST_NULL;
	}
	MPI_Irecv(&l->in[0], 1, MPI_INT, peer, 0, comm, &l->requests[0]);
	MPI_Irecv(&l->in[1], 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &l->requests[1]);
	MPI_Send_init(&l->out[3], 1, MPI_INT, peer, 3, MPI_COMM_WORLD, &l->persistent);
	l->requests[3] = l->persistent;
	MPI_Irecv(&l->in[4], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &l->requests[4]);
	MPI_Irecv(&l->in[5], 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &l->requests[5]);
	MPI_Isend(&l->out[0], 1, MPI_INT, peer, 0, comm, &l->requests[6]);
	MPI_Isend(&l->out[1], 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &l->requests[7]);
}

/* What completes 4 and 5. */
static void list_feed(struct list *l, MPI_Comm comm)
{
	MPI_Send(&l->out[4], 1, MPI_INT, peer, 4, comm);
	MPI_Send(&l->out[5], 1, MPI_INT, peer, 5, MPI_COMM_WORLD);
}

static void check_status(const MPI_Status *status, int source, int tag, int count)
{
	int n, flag;

	MPI_Get_count(status, MPI_INT, &n);
	MPI_Test_cancelled(status, &flag);
	CHECK(status->MPI_SOURCE == source && status->MPI_TAG == tag && n == count && !flag);
}

static void list_check(struct list *l)
{
	static const int received[] = {0, 1, 4, 5};

	for (int k = 0; k < 4; k++) {
		CHECK(l->in[received[k]] == 100 * peer + received[k]);
		CHECK(l->requests[received[k]] == MPI_REQUEST_NULL);
	}
	CHECK(l->requests[2] == MPI_REQUEST_NULL && l->requests[6] == MPI_REQUEST_NULL);
	CHECK(l->requests[7] == MPI_REQUEST_NULL);
	CHECK(l->requests[3] == l->persistent);
	MPI_Request_free(&l->persistent);
}

static void list_check_statuses(const struct list *l)
{
	for (int i = 0; i < MIXED; i++) {
		if (i == 6 || i == 7)
			continue; /* sends */
		if (i == 2 || i == 3)
			check_status(&l->statuses[i], MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
		else
			check_status(&l->statuses[i], peer, i, 1);
		/* Not to be touched where nothing failed; a null request's status is empty. */
		CHECK(l->statuses[i].MPI_ERROR == 0x5a5a5a5a ||
		      l->statuses[i].MPI_ERROR == MPI_SUCCESS);
	}
}

static void waitall(MPI_Comm comm)
{
	struct list l;

	list_start(&l, comm);
	list_feed(&l, comm);
	CHECK(MPI_Waitall(MIXED, l.requests, l.statuses) == MPI_SUCCESS);
	list_check(&l);
	list_check_statuses(&l);
	list_start(&l, comm);
	list_feed(&l, comm);
	CHECK(MPI_Waitall(MIXED, l.requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	list_check(&l);
}

static void testall(MPI_Comm comm)
{
	MPI_Request before[MIXED];
	struct list l;
	int flag;

	list_start(&l, comm);
	memcpy(before, l.requests, sizeof(before));
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < 50; i++) {
		CHECK(MPI_Testall(MIXED, l.requests, &flag, l.statuses) == MPI_SUCCESS);
		CHECK(!flag && memcmp(before, l.requests, sizeof(before)) == 0);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	list_feed(&l, comm);
	do
		CHECK(MPI_Testall(MIXED, l.requests, &flag, l.statuses) == MPI_SUCCESS);
	while (!flag);
	list_check(&l);
	list_check_statuses(&l);
}

static void any(MPI_Comm comm, int is_wait)
{
	struct list l;
	MPI_Status status;
	int index, flag, seen[MIXED] = {0};

	list_start(&l, comm);
	list_feed(&l, comm);
	for (int k = 0; k < 6;) {
		if (is_wait) {
			CHECK(MPI_Waitany(MIXED, l.requests, &index, &status) == MPI_SUCCESS);
		} else {
			CHECK(MPI_Testany(MIXED, l.requests, &index, &flag, &status) ==
			      MPI_SUCCESS);
			if (!flag) {
				CHECK(index == MPI_UNDEFINED);
				continue;
			}
		}
		CHECK(index >= 0 && index < MIXED && !seen[index]);
		CHECK(l.requests[index] == MPI_REQUEST_NULL);
		if (index < 6)
			check_status(&status, peer, index, 1);
		seen[index] = 1;
		k++;
	}
	list_check(&l);
	/* Nothing active is left. */
	l.requests[3] = MPI_REQUEST_NULL;
	CHECK(MPI_Waitany(MIXED, l.requests, &index, &status) == MPI_SUCCESS);
	CHECK(index == MPI_UNDEFINED);
	check_status(&status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
}

static void some(MPI_Comm comm, int is_wait)
{
	struct list l;
	int n, indices[MIXED], seen[MIXED] = {0};

	list_start(&l, comm);
	list_feed(&l, comm);
	for (int k = 0; k < 6;) {
		if (is_wait)
			CHECK(MPI_Waitsome(MIXED, l.requests, &n, indices, l.statuses) ==
			      MPI_SUCCESS);
		else
			CHECK(MPI_Testsome(MIXED, l.requests, &n, indices, l.statuses) ==
			      MPI_SUCCESS);
		CHECK(n != MPI_UNDEFINED && (n > 0 || !is_wait));
		for (int i = 0; i < n; i++) {
			CHECK(indices[i] >= 0 && indices[i] < MIXED && !seen[indices[i]]);
			CHECK(l.requests[indices[i]] == MPI_REQUEST_NULL);
			if (indices[i] < 6)
				check_status(&l.statuses[i], peer, indices[i], 1);
			seen[indices[i]] = 1;
		}
		k += n;
	}
	list_check(&l);
	l.requests[3] = MPI_REQUEST_NULL;
	CHECK(MPI_Waitsome(MIXED, l.requests, &n, indices, l.statuses) == MPI_SUCCESS);
	CHECK(n == MPI_UNDEFINED);
}

static void wait_and_test(MPI_Comm comm)
{
	MPI_Request request, held;
	MPI_Status status;
	int in = -1, out = 100 + rank, flag;

	/* One that is held open, so that the calls below do not take the short way to MPI. */
	MPI_Irecv(&in, 1, MPI_INT, peer, 90, comm, &held);
	CHECK(MPI_Request_get_status(held, &flag, &status) == MPI_SUCCESS && !flag);
	CHECK(MPI_Test(&held, &flag, &status) == MPI_SUCCESS && !flag && held != MPI_REQUEST_NULL);
	request = MPI_REQUEST_NULL;
	CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
	check_status(&status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
	CHECK(MPI_Test(&request, &flag, &status) == MPI_SUCCESS && flag);
	/* A cancel may fail: the receive still works. */
	CHECK(MPI_Cancel(&held) == MPI_SUCCESS);
	MPI_Barrier(comm);
	MPI_Ssend(&out, 1, MPI_INT, peer, 90, comm);
	CHECK(in == -1 || in == 100 + peer);
	MPI_Wait(&held, &status);
	check_status(&status, peer, 90, 1);
	CHECK(held == MPI_REQUEST_NULL && in == 100 + peer);
}

/* Both ranks Ssend at once: needs the receives to make progress inside Ssend. */
static void get_status(MPI_Comm comm)
{
	MPI_Request request;
	MPI_Status status;
	int in = -1, out = 7, flag = 0;

	MPI_Irecv(&in, 1, MPI_INT, peer, 1, comm, &request);
	MPI_Ssend(&out, 1, MPI_INT, peer, 1, comm);
	while (!flag)
		MPI_Request_get_status(request, &flag, &status);
	check_status(&status, peer, 1, 1);
	CHECK(request != MPI_REQUEST_NULL && in == 7);
	MPI_Request_get_status(request, &flag, &status);
	CHECK(flag);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Truncation of one of several: MPI_ERR_IN_STATUS, the others are right. */
static void errors(MPI_Comm comm)
{
	MPI_Request requests[4];
	MPI_Status statuses[4], status;
	int in[4][2] = {{0}}, out[2] = {5, 6}, class, rc, index, n, indices[4];

	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	for (int round = 0; round < 2; round++) {
		memset(in, 0xff, sizeof(in));
		for (int i = 0; i < 3; i++)
			MPI_Irecv(in[i], i == 1 ? 1 : 2, MPI_INT, peer, i, comm, &requests[i]);
		MPI_Irecv(in[3], 2, MPI_INT, peer, 3, MPI_COMM_WORLD, &requests[3]);
		for (int i = 0; i < 3; i++)
			MPI_Send(out, 2, MPI_INT, peer, i, comm);
		MPI_Send(out, 2, MPI_INT, peer, 3, MPI_COMM_WORLD);
		rc = MPI_Waitall(round == 0 ? 3 : 4, requests, statuses);
		MPI_Error_class(rc, &class);
		CHECK(class == MPI_ERR_IN_STATUS);
		CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS && statuses[2].MPI_ERROR == MPI_SUCCESS);
		MPI_Error_class(statuses[1].MPI_ERROR, &class);
		CHECK(class == MPI_ERR_TRUNCATE);
		CHECK(in[0][1] == 6 && in[1][0] == 5 && in[1][1] == -1 && in[2][1] == 6);
		if (round == 0)
			MPI_Wait(&requests[3], MPI_STATUS_IGNORE);
		else
			CHECK(statuses[3].MPI_ERROR == MPI_SUCCESS);
		CHECK(in[3][1] == 6);
	}
	/* Alone, any, some. */
	for (int way = 0; way < 3; way++) {
		MPI_Irecv(in[0], 1, MPI_INT, peer, 0, comm, &requests[0]);
		MPI_Send(out, 2, MPI_INT, peer, 0, comm);
		if (way == 0) {
			rc = MPI_Wait(&requests[0], &status);
		} else if (way == 1) {
			rc = MPI_Waitany(1, requests, &index, &status);
			CHECK(index == 0);
		} else {
			rc = MPI_Waitsome(1, requests, &n, indices, statuses);
			CHECK(n == 1 && indices[0] == 0);
			MPI_Error_class(rc, &class);
			CHECK(class == MPI_ERR_IN_STATUS);
			rc = statuses[0].MPI_ERROR;
		}
		MPI_Error_class(rc, &class);
		CHECK(class == MPI_ERR_TRUNCATE && requests[0] == MPI_REQUEST_NULL);
	}
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

/* More than fits in the lists on the stack; completed by waits that see all of them. */
static void many(MPI_Comm comm)
{
	static MPI_Request requests[2 * MANY];
	static MPI_Status statuses[2 * MANY];
	static int in[MANY], out[MANY];
	MPI_Request world;
	int w = 0;

	for (int way = 0; way < 2; way++) {
		for (int i = 0; i < MANY; i++) {
			out[i] = i * (rank + 2);
			MPI_Irecv(&in[i], 1, MPI_INT, peer, i, comm, &requests[2 * i]);
			MPI_Isend(&out[i], 1, MPI_INT, peer, i, comm, &requests[2 * i + 1]);
		}
		if (way == 1) {
			MPI_Waitall(2 * MANY - 1, requests + 1, statuses + 1);
			MPI_Irecv(&w, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, &world);
			MPI_Send(&out[1], 1, MPI_INT, peer, 0, MPI_COMM_WORLD);
			requests[1] = world;
		}
		MPI_Waitall(2 * MANY, requests, statuses);
		for (int i = 0; i < MANY; i++)
			CHECK(in[i] == i * (peer + 2));
	}
	CHECK(w == peer + 2);
}

/* Requests of enqueued operations, completed or freed from the host. */
static void enqueued(any_stream_t host, MPI_Comm comm)
{
	MPI_Request requests[3];
	MPI_Status statuses[3];
	static int out[2]; /* nobody is told when the freed send has read it */
	int in[2] = {-1, -1}, world = -1;

	out[0] = 10 + rank;
	out[1] = 20 + rank;
	MPIX_Irecv_enqueue(&in[0], 1, MPI_INT, peer, 1, comm, &requests[0]);
	MPIX_Isend_enqueue(&out[0], 1, MPI_INT, peer, 1, comm, &requests[1]);
	MPI_Irecv(&world, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[2]);
	MPI_Send(&out[1], 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
	MPI_Waitall(3, requests, statuses);
	check_status(&statuses[0], peer, 1, 1);
	CHECK(in[0] == 10 + peer && world == 20 + peer);
	/* Freed: the send still happens. */
	MPIX_Irecv_enqueue(&in[1], 1, MPI_INT, peer, 2, comm, &requests[0]);
	MPIX_Isend_enqueue(&out[1], 1, MPI_INT, peer, 2, comm, &requests[1]);
	MPI_Request_free(&requests[1]);
	CHECK(requests[1] == MPI_REQUEST_NULL);
	MPI_Wait(&requests[0], &statuses[0]);
	check_status(&statuses[0], peer, 2, 1);
	CHECK(in[1] == 20 + peer);
	CHECK(any_stream_synchronize(host) == 0);
}

/* More pending requests than half of what MPICH 4.0 can number; completed on the stream and from
 * the host. */
static void very_many(any_stream_t host, MPI_Comm comm)
{
	enum {
		N = 140000,
		HALF = N / 2
	};
	MPI_Request *requests = malloc(N * sizeof(*requests));
	int *in = malloc(N * sizeof(*in)), *out = malloc(N * sizeof(*out));

	CHECK(requests != NULL && in != NULL && out != NULL);
	for (int i = 0; i < N; i++) {
		in[i] = -1;
		out[i] = i;
		if (rank == 0)
			MPIX_Isend_enqueue(&out[i], 1, MPI_INT, 1, 0, comm, &requests[i]);
		else
			MPIX_Irecv_enqueue(&in[i], 1, MPI_INT, 0, 0, comm, &requests[i]);
	}
	CHECK(MPIX_Waitall_enqueue(HALF, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	CHECK(MPI_Waitall(HALF, requests + HALF, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	CHECK(any_stream_synchronize(host) == 0);
	for (int i = 0; i < N; i++)
		CHECK(requests[i] == MPI_REQUEST_NULL && (rank == 0 || in[i] == i));
	free(requests);
	free(in);
	free(out);
}

/*
 * A call that waits for a message of the stream communicator makes progress for MPI's messages:
 * rank 1 sends its own only after a large one of MPI_COMM_WORLD has gone, which takes rank 0's
 * help.
 */
static void progress(MPI_Comm comm)
{
	enum {
		BIG = 1 << 20,
		WAYS = 8
	};
	int *big = malloc(BIG * sizeof(*big)), x = 0, index, n, indices[1], flag;
	MPI_Request world, request;
	MPI_Status status;

	CHECK(big != NULL);
	for (int way = 0; way < WAYS; way++) {
		big[BIG - 1] = rank == 0 ? -1 : way;
		if (rank == 1) {
			MPI_Ssend(big, BIG, MPI_INT, 0, way, MPI_COMM_WORLD);
			if (way == 1)
				MPI_Recv(&x, 1, MPI_INT, 0, way, comm, MPI_STATUS_IGNORE);
			else
				MPI_Send(&x, 1, MPI_INT, 0, way, comm);
			continue;
		}
		MPI_Irecv(big, BIG, MPI_INT, 1, way, MPI_COMM_WORLD, &world);
		if (way > 2)
			MPI_Irecv(&x, 1, MPI_INT, 1, way, comm, &request);
		switch (way) {
		case 0:
			MPI_Recv(&x, 1, MPI_INT, 1, way, comm, &status);
			break;
		case 1:
			MPI_Ssend(&x, 1, MPI_INT, 1, way, comm);
			break;
		case 2:
			MPI_Probe(1, way, comm, &status);
			MPI_Recv(&x, 1, MPI_INT, 1, way, comm, &status);
			break;
		case 3:
			MPI_Wait(&request, &status);
			break;
		case 4:
			MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
			break;
		case 5:
			MPI_Waitany(1, &request, &index, &status);
			break;
		case 6:
			MPI_Waitsome(1, &request, &n, indices, MPI_STATUSES_IGNORE);
			break;
		default:
			for (flag = 0; !flag;)
				MPI_Test(&request, &flag, &status);
		}
		MPI_Wait(&world, MPI_STATUS_IGNORE);
		CHECK(big[BIG - 1] == way);
	}
	free(big);
}

/* By way of PMPI, as a tool or a Fortran program comes: the requests are real ones. */
static void behind(MPI_Comm comm)
{
	MPI_Request requests[3];
	MPI_Status statuses[3];
	int in[3] = {-1, -1, -1}, out = 30 + rank, flag = 0;

	for (int i = 0; i < 2; i++)
		MPI_Irecv(&in[i], 1, MPI_INT, peer, i, comm, &requests[i]);
	MPI_Irecv(&in[2], 1, MPI_INT, peer, 2, MPI_COMM_WORLD, &requests[2]);
	for (int i = 0; i < 2; i++)
		MPI_Send(&out, 1, MPI_INT, peer, i, comm);
	MPI_Send(&out, 1, MPI_INT, peer, 2, MPI_COMM_WORLD);
	CHECK(PMPI_Waitall(3, requests, statuses) == MPI_SUCCESS);
	for (int i = 0; i < 3; i++) {
		CHECK(in[i] == 30 + peer && requests[i] == MPI_REQUEST_NULL);
		check_status(&statuses[i], peer, i, 1);
	}
	/* Completed in MPI by a test of a list that is not complete, then by our Wait. */
	MPI_Irecv(&in[0], 1, MPI_INT, peer, 0, comm, &requests[0]);
	MPI_Irecv(&in[1], 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[1]);
	MPI_Ssend(&out, 1, MPI_INT, peer, 0, comm);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < 100; i++)
		CHECK(PMPI_Testall(2, requests, &flag, statuses) == MPI_SUCCESS && !flag);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Send(&out, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
	CHECK(MPI_Wait(&requests[0], &statuses[0]) == MPI_SUCCESS);
	check_status(&statuses[0], peer, 0, 1);
	CHECK(requests[0] == MPI_REQUEST_NULL);
	MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
}

/* MPI 4.1's queries of lists. */
static void query_lists(MPI_Comm comm)
{
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
	MPI_Request requests[2];
	MPI_Status statuses[2];
	int in[2] = {-1, -1}, out = 40 + rank, flag = 0, index, n = 0, indices[2];

	MPI_Irecv(&in[0], 1, MPI_INT, peer, 0, comm, &requests[0]);
	MPI_Irecv(&in[1], 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[1]);
	MPI_Send(&out, 1, MPI_INT, peer, 0, comm);
	while (!flag)
		MPI_Request_get_status_any(2, requests, &index, &flag, statuses);
	CHECK(index == 0);
	check_status(&statuses[0], peer, 0, 1);
	while (n == 0)
		MPI_Request_get_status_some(2, requests, &n, indices, statuses);
	CHECK(n == 1 && indices[0] == 0);
	MPI_Barrier(comm);
	MPI_Send(&out, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
	flag = 0;
	while (!flag)
		MPI_Request_get_status_all(2, requests, &flag, statuses);
	check_status(&statuses[0], peer, 0, 1);
	check_status(&statuses[1], peer, 1, 1);
	MPI_Waitall(2, requests, statuses);
	check_status(&statuses[0], peer, 0, 1);
	CHECK(in[0] == 40 + peer && in[1] == 40 + peer);
#else
	(void)comm;
#endif
}

int main(int argc, char **argv)
{
	any_stream_t host;
	MPIX_Stream stream;
	MPI_Info info;
	MPI_Comm comm;

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
	for (int round = 0; round < 3; round++) {
		waitall(comm);
		testall(comm);
		any(comm, 1);
		any(comm, 0);
		some(comm, 1);
		some(comm, 0);
		wait_and_test(comm);
		get_status(comm);
		errors(comm);
		many(comm);
		enqueued(host, comm);
		behind(comm);
		query_lists(comm);
		progress(comm);
	}
	very_many(host, comm);
	waitall(comm);
	MPI_Comm_free(&comm);
	MPIX_Stream_free(&stream);
	any_stream_destroy(host);
	MPI_Finalize();
	if (rank == 0)
		printf("ok\n");
	return 0;
}
