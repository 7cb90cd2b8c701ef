/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks: 2 */
/*
 * test_api_errors.c: wrong arguments are errors of the right class, with a text that names argument
 * and value, through the communicator's error handler; and they change nothing.
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

static int rank;
static int handled; /* calls of the error handler */
static MPI_Comm handled_comm;
static int handled_code;

static void handler(MPI_Comm *comm, int *code, ...)
{
	handled++;
	handled_comm = *comm;
	handled_code = *code;
}

/* The call returned code: of this class, with these words in its text, once through the handler of
 * comm. */
static void expect(int line, int code, int class, MPI_Comm comm, const char *word1,
		   const char *word2)
{
	char text[MPI_MAX_ERROR_STRING + 1] = "";
	int got = -1, length, same = MPI_UNEQUAL;

	MPI_Error_class(code, &got);
	MPI_Error_string(code, text, &length);
	if (handled == 1)
		MPI_Comm_compare(comm, handled_comm, &same);
	if (got != class || strstr(text, word1) == NULL || strstr(text, word2) == NULL ||
	    handled != 1 || handled_code != code || same != MPI_IDENT) {
		fprintf(stderr,
			"%s:%d: rank %d: class %d (expected %d), text \"%s\" (expected \"%s\", "
			"\"%s\"), "
			"handled %d, right communicator %d\n",
			__FILE__, line, rank, got, class, text, word1, word2, handled,
			same == MPI_IDENT);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	handled = 0;
}

#define EXPECT(call, class, comm, word1, word2) expect(__LINE__, call, class, comm, word1, word2)

static MPI_Info make_info(const char *type, const void *value, int bytes)
{
	MPI_Info info;

	MPI_Info_create(&info);
	MPI_Info_set(info, "type", type);
	if (value != NULL)
		MPIX_Info_set_hex(info, "value", value, bytes);
	return info;
}

static void create_errors(any_stream_t host)
{
	const char *type = any_stream_type();
	MPIX_Stream stream = MPIX_STREAM_NULL;
	char long_type[1000];
	void *no_stream = &stream;
	MPI_Info info;

	info = make_info("no_such_stream_t", &host, sizeof(host));
	EXPECT(MPIX_Stream_create(info, &stream), MPI_ERR_OTHER, MPI_COMM_SELF, "type",
	       "no_such_stream_t");
	MPI_Info_free(&info);
	memset(long_type, 'x', sizeof(long_type) - 1); /* more than a text has room for */
	long_type[sizeof(long_type) - 1] = '\0';
	info = make_info(long_type, &host, sizeof(host));
	EXPECT(MPIX_Stream_create(info, &stream), MPI_ERR_OTHER, MPI_COMM_SELF, "type", "xxxxxxxx");
	MPI_Info_free(&info);
	if (!any_stream_is_cuda()) { /* without a device, or a context: no stream of CUDA's */
		void *null = NULL;

		info = make_info("cudaStream_t", &null, sizeof(null));
		EXPECT(MPIX_Stream_create(info, &stream), MPI_ERR_OTHER, MPI_COMM_SELF, "type",
		       "CUDA");
		MPI_Info_free(&info);
	}
	info = make_info(type, NULL, 0);
	EXPECT(MPIX_Stream_create(info, &stream), MPI_ERR_OTHER, MPI_COMM_SELF, "value", "missing");
	MPI_Info_set(info, "value", "12x4");
	EXPECT(MPIX_Stream_create(info, &stream), MPI_ERR_OTHER, MPI_COMM_SELF, "value", "12x4");
	MPI_Info_set(info, "value", "123");
	EXPECT(MPIX_Stream_create(info, &stream), MPI_ERR_OTHER, MPI_COMM_SELF, "value", "\"123\"");
	MPI_Info_set(info, "value", "1234");
	EXPECT(MPIX_Stream_create(info, &stream), MPI_ERR_OTHER, MPI_COMM_SELF, "value", "1234");
	MPI_Info_free(&info);
	info = make_info(type, &no_stream, sizeof(no_stream));
	EXPECT(MPIX_Stream_create(info, &stream), MPI_ERR_OTHER, MPI_COMM_SELF, "value", type);
	EXPECT(MPIX_Stream_create(info, NULL), MPI_ERR_ARG, MPI_COMM_SELF, "stream", "NULL");
	CHECK(stream == MPIX_STREAM_NULL);
	EXPECT(MPIX_Info_set_hex(info, "value", NULL, 8), MPI_ERR_ARG, MPI_COMM_SELF, "value",
	       "NULL");
	EXPECT(MPIX_Info_set_hex(info, "value", &host, -3), MPI_ERR_INFO_VALUE, MPI_COMM_SELF,
	       "value_size", "-3");
	EXPECT(MPIX_Info_set_hex(info, "value", &host, 5000), MPI_ERR_INFO_VALUE, MPI_COMM_SELF,
	       "value_size", "5000");
	MPI_Info_free(&info);
}

static void stream_errors(MPIX_Stream *good)
{
	MPIX_Stream freed, stream = MPIX_STREAM_NULL;
	char value[16];
	MPI_Comm comm;

	EXPECT(MPIX_Stream_free(&stream), MPIX_ERR_STREAM, MPI_COMM_SELF, "stream",
	       "MPIX_STREAM_NULL");
	stream = 0x123;
	EXPECT(MPIX_Stream_free(&stream), MPIX_ERR_STREAM, MPI_COMM_SELF, "stream", "0x00000123");
	EXPECT(MPIX_Stream_free(NULL), MPI_ERR_ARG, MPI_COMM_SELF, "stream", "NULL");

	CHECK(MPIX_Stream_create(MPI_INFO_NULL, &stream) == MPI_SUCCESS);
	freed = stream;
	CHECK(MPIX_Stream_free(&stream) == MPI_SUCCESS);
	stream = freed;
	snprintf(value, sizeof(value), "0x%08x", (unsigned int)freed);
	EXPECT(MPIX_Stream_free(&stream), MPIX_ERR_STREAM, MPI_COMM_SELF, "stream", value);
	/* One rank has a bad stream: all fail, nobody hangs. */
	EXPECT(MPIX_Stream_comm_create(MPI_COMM_WORLD, rank == 1 ? freed : *good, &comm),
	       MPIX_ERR_STREAM, MPI_COMM_WORLD, "process 1", "stream");
	EXPECT(MPIX_Stream_comm_create(MPI_COMM_NULL, *good, &comm), MPI_ERR_COMM, MPI_COMM_SELF,
	       "comm", "MPI_COMM_NULL");
	EXPECT(MPIX_Stream_comm_create(MPI_COMM_WORLD, *good, NULL), MPI_ERR_ARG, MPI_COMM_WORLD,
	       "newcomm", "NULL");
}

static void intercomm_error(MPIX_Stream stream)
{
	MPI_Comm inter, comm;

	MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 3, &inter);
	EXPECT(MPIX_Stream_comm_create(inter, stream, &comm), MPI_ERR_COMM, inter, "comm",
	       "intercommunicator");
	MPI_Comm_free(&inter);
}

static void comm_errors(MPIX_Stream general)
{
	MPI_Comm none, of_general;
	MPIX_Stream stream;
	MPI_Request request = MPI_REQUEST_NULL;
	int x = 0;

	EXPECT(MPIX_Send_enqueue(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_OTHER,
	       MPI_COMM_WORLD, "comm", "not a stream communicator");
	EXPECT(MPIX_Irecv_enqueue(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_OTHER,
	       MPI_COMM_WORLD, "comm", "not a stream communicator");
	CHECK(request == MPI_REQUEST_NULL);
	EXPECT(MPIX_Send_enqueue(&x, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM, MPI_COMM_SELF,
	       "comm", "MPI_COMM_NULL");
	CHECK(MPIX_Stream_comm_create(MPI_COMM_WORLD, MPIX_STREAM_NULL, &none) == MPI_SUCCESS);
	EXPECT(MPIX_Recv_enqueue(&x, 1, MPI_INT, 0, 0, none, MPI_STATUS_IGNORE), MPI_ERR_OTHER,
	       none, "comm", "MPIX_STREAM_NULL");
	MPI_Comm_free(&none);
	CHECK(MPIX_Stream_comm_create(MPI_COMM_WORLD, general, &of_general) == MPI_SUCCESS);
	EXPECT(MPIX_Send_enqueue(&x, 1, MPI_INT, 0, 0, of_general), MPI_ERR_OTHER, of_general,
	       "comm", "general stream");
	EXPECT(MPIX_Comm_get_stream(of_general, -1, &stream), MPI_ERR_ARG, of_general, "idx", "-1");
	EXPECT(MPIX_Comm_get_stream(of_general, 0, NULL), MPI_ERR_ARG, of_general, "stream",
	       "NULL");
	MPI_Comm_free(&of_general);
	EXPECT(MPIX_Comm_get_stream(MPI_COMM_NULL, 0, &stream), MPI_ERR_COMM, MPI_COMM_SELF, "comm",
	       "MPI_COMM_NULL");
}

/* On a good stream communicator. */
static void argument_errors(MPI_Comm comm)
{
	MPI_Status *ignore = MPI_STATUS_IGNORE;
	MPI_Datatype uncommitted, gaps;
	MPI_Request request = MPI_REQUEST_NULL;
	int x[8] = {0}, tag_ub, flag, *value;
	char text[32];

	EXPECT(MPIX_Send_enqueue(x, -5, MPI_INT, 0, 0, comm), MPI_ERR_COUNT, comm, "count", "-5");
	EXPECT(MPIX_Recv_enqueue_c(x, -6, MPI_INT, 0, 0, comm, ignore), MPI_ERR_COUNT, comm,
	       "count", "-6");
	EXPECT(MPIX_Send_enqueue_c(x, (MPI_Count)1 << 62, MPI_DOUBLE, 0, 0, comm), MPI_ERR_COUNT,
	       comm, "count", "4611686018427387904");
	EXPECT(MPIX_Send_enqueue(x, 1, MPI_INT, 2, 0, comm), MPI_ERR_RANK, comm, "dest", "= 2");
	EXPECT(MPIX_Send_enqueue(x, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm), MPI_ERR_RANK, comm,
	       "dest", "= -2");
	EXPECT(MPIX_Irecv_enqueue(x, 1, MPI_INT, -7, 0, comm, &request), MPI_ERR_RANK, comm,
	       "source", "-7");
	EXPECT(MPIX_Send_enqueue(x, 1, MPI_INT, 0, -1, comm), MPI_ERR_TAG, comm, "tag", "-1");
	EXPECT(MPIX_Recv_enqueue(x, 1, MPI_INT, 0, -4, comm, ignore), MPI_ERR_TAG, comm, "tag",
	       "-4");
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
	tag_ub = *value;
	if (tag_ub < 0x7fffffff) {
		snprintf(text, sizeof(text), "%d", tag_ub + 1);
		EXPECT(MPIX_Isend_enqueue(x, 1, MPI_INT, 0, tag_ub + 1, comm, &request),
		       MPI_ERR_TAG, comm, "tag", text);
	}
	EXPECT(MPIX_Send_enqueue(NULL, 1, MPI_INT, 0, 0, comm), MPI_ERR_BUFFER, comm, "buf",
	       "NULL");
	EXPECT(MPIX_Send_enqueue(MPI_IN_PLACE, 1, MPI_INT, 0, 0, comm), MPI_ERR_BUFFER, comm, "buf",
	       "MPI_IN_PLACE");
	EXPECT(MPIX_Send_enqueue(x, 1, MPI_DATATYPE_NULL, 0, 0, comm), MPI_ERR_TYPE, comm,
	       "datatype", "0x0c000000");
	EXPECT(MPIX_Send_enqueue(x, 1, (MPI_Datatype)0x12345, 0, 0, comm), MPI_ERR_TYPE, comm,
	       "datatype", "0x00012345");
	MPI_Type_contiguous(2, MPI_INT, &uncommitted);
	EXPECT(MPIX_Send_enqueue(x, 1, uncommitted, 0, 0, comm), MPI_ERR_TYPE, comm, "datatype",
	       "not committed");
	MPI_Type_commit(&uncommitted);
	EXPECT(MPIX_Send_enqueue(x, 1, uncommitted, 5, 0, comm), MPI_ERR_RANK, comm, "dest", "5");
	MPI_Type_free(&uncommitted);
	MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
	MPI_Type_commit(&gaps);
	EXPECT(MPIX_Send_enqueue(x, 1, gaps, 0, 0, comm), MPI_ERR_TYPE, comm, "datatype",
	       "not contiguous");
	EXPECT(MPI_Send(x, 1, gaps, 0, 0, comm), MPI_ERR_TYPE, comm, "datatype", "not contiguous");
	MPI_Type_free(&gaps);
	EXPECT(MPIX_Send_enqueue(x, 1, MPI_DOUBLE_INT, 0, 0, comm), MPI_ERR_TYPE, comm, "datatype",
	       "not contiguous");
	EXPECT(MPIX_Isend_enqueue(x, 1, MPI_INT, 0, 0, comm, NULL), MPI_ERR_ARG, comm, "request",
	       "NULL");
	CHECK(request == MPI_REQUEST_NULL);
	/* Ordinary calls check the same. */
	EXPECT(MPI_Send(x, -5, MPI_INT, 0, 0, comm), MPI_ERR_COUNT, comm, "MPI_Send", "-5");
	EXPECT(MPI_Recv(x, 1, MPI_INT, 9, 0, comm, ignore), MPI_ERR_RANK, comm, "source", "9");
	EXPECT(MPI_Isend(x, 1, MPI_INT, 0, -2, comm, &request), MPI_ERR_TAG, comm, "tag", "-2");
	EXPECT(MPI_Irecv(NULL, 1, MPI_INT, 0, 0, comm, &request), MPI_ERR_BUFFER, comm, "buf",
	       "NULL");
	EXPECT(MPI_Sendrecv(x, 1, MPI_INT, 0, 0, x + 1, 1, MPI_INT, 4, 0, comm, ignore),
	       MPI_ERR_RANK, comm, "source", "4");
	EXPECT(MPI_Probe(5, 0, comm, ignore), MPI_ERR_RANK, comm, "source", "5");
	EXPECT(MPI_Iprobe(0, -9, comm, &flag, ignore), MPI_ERR_TAG, comm, "tag", "-9");
}

static void request_errors(MPI_Comm comm, MPI_Comm comm2, any_stream_t host, any_stream_t host2)
{
	MPI_Request requests[3], plain, copy, null = MPI_REQUEST_NULL;
	int x[4] = {0};

	EXPECT(MPIX_Wait_enqueue(NULL, MPI_STATUS_IGNORE), MPI_ERR_ARG, MPI_COMM_SELF, "request",
	       "NULL");
	EXPECT(MPIX_Waitall_enqueue(-2, requests, MPI_STATUSES_IGNORE), MPI_ERR_COUNT,
	       MPI_COMM_SELF, "count", "-2");
	EXPECT(MPIX_Waitall_enqueue(2, NULL, MPI_STATUSES_IGNORE), MPI_ERR_ARG, MPI_COMM_SELF,
	       "array_of_requests", "NULL");
	CHECK(MPIX_Wait_enqueue(&null, MPI_STATUS_IGNORE) == MPI_SUCCESS);

	/* A request of MPI. */
	MPI_Irecv(x, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &plain);
	copy = plain;
	EXPECT(MPIX_Wait_enqueue(&plain, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, MPI_COMM_SELF,
	       "request", "not a request of MPIX_Isend_enqueue");
	CHECK(plain == copy);
	MPI_Send(x, 1, MPI_INT, rank, 5, MPI_COMM_WORLD);
	MPI_Wait(&plain, MPI_STATUS_IGNORE);
	/* One of ours, but not enqueued. */
	MPI_Irecv(x, 1, MPI_INT, rank, 5, comm, &plain);
	EXPECT(MPIX_Wait_enqueue(&plain, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, comm, "request",
	       "not a request of MPIX_Isend_enqueue");
	MPI_Send(x, 1, MPI_INT, rank, 5, comm);
	MPI_Wait(&plain, MPI_STATUS_IGNORE);

	CHECK(MPIX_Irecv_enqueue(x, 1, MPI_INT, rank, 1, comm, &requests[0]) == MPI_SUCCESS);
	CHECK(MPIX_Irecv_enqueue(x + 1, 1, MPI_INT, rank, 1, comm2, &requests[1]) == MPI_SUCCESS);
	requests[2] = requests[0];
	/* Of two streams; twice the same; and nothing has changed. */
	copy = requests[1];
	EXPECT(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST, comm2,
	       "array_of_requests[1]", "stream");
	CHECK(requests[1] == copy);
	requests[1] = MPI_REQUEST_NULL;
	EXPECT(MPIX_Waitall_enqueue(3, requests, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST, comm,
	       "array_of_requests[2]", "twice");
	requests[1] = copy;
	copy = requests[0];
	CHECK(MPIX_Wait_enqueue(&requests[0], MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(MPIX_Wait_enqueue(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS);
	/* Waited for before. */
	EXPECT(MPIX_Wait_enqueue(&copy, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, MPI_COMM_SELF,
	       "request", "not a request of MPIX_Isend_enqueue");
	MPI_Send(x + 2, 1, MPI_INT, rank, 1, comm);
	MPI_Send(x + 2, 1, MPI_INT, rank, 1, comm2);
	CHECK(any_stream_synchronize(host) == 0);
	CHECK(any_stream_synchronize(host2) == 0);
}

/* A handle that is used after its request was completed: also when no other request of ours is
 * left. */
static void stale_errors(MPI_Comm comm)
{
	MPI_Request request, stale, held, list[2];
	MPI_Status status;
	int x = 0, in, flag, index, n, indices[2];

	for (int round = 0; round < 2; round++) {
		if (round == 1)
			MPI_Irecv(&in, 1, MPI_INT, rank, 2, comm, &held);
		MPI_Irecv(&in, 1, MPI_INT, rank, 1, comm, &request);
		stale = request;
		MPI_Send(&x, 1, MPI_INT, rank, 1, comm);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		list[0] = MPI_REQUEST_NULL;
		list[1] = stale;
		EXPECT(MPI_Wait(&stale, &status), MPI_ERR_REQUEST, MPI_COMM_SELF, "MPI_Wait",
		       "request");
		EXPECT(MPI_Test(&stale, &flag, &status), MPI_ERR_REQUEST, MPI_COMM_SELF, "MPI_Test",
		       "request");
		EXPECT(MPI_Request_get_status(stale, &flag, &status), MPI_ERR_REQUEST,
		       MPI_COMM_SELF, "MPI_Request_get_status", "request");
		EXPECT(MPI_Request_free(&stale), MPI_ERR_REQUEST, MPI_COMM_SELF, "MPI_Request_free",
		       "request");
		EXPECT(MPI_Waitall(2, list, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST, MPI_COMM_SELF,
		       "MPI_Waitall", "request");
		EXPECT(MPI_Testall(2, list, &flag, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
		       MPI_COMM_SELF, "MPI_Testall", "request");
		EXPECT(MPI_Waitany(2, list, &index, &status), MPI_ERR_REQUEST, MPI_COMM_SELF,
		       "MPI_Waitany", "request");
		EXPECT(MPI_Testsome(2, list, &n, indices, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
		       MPI_COMM_SELF, "MPI_Testsome", "request");
	}
	MPI_Send(&x, 1, MPI_INT, rank, 2, comm);
	MPI_Wait(&held, MPI_STATUS_IGNORE);
}

static void unsupported(MPI_Comm comm, MPIX_Stream stream)
{
	static const char not_yet[] = "not supported yet";
	MPI_Request request;
	MPI_Message message;
	int x = 0, flag;

	EXPECT(MPI_Bsend(&x, 1, MPI_INT, 0, 0, comm), MPI_ERR_UNSUPPORTED_OPERATION, comm,
	       "MPI_Bsend", not_yet);
	EXPECT(MPI_Ibsend(&x, 1, MPI_INT, 0, 0, comm, &request), MPI_ERR_UNSUPPORTED_OPERATION,
	       comm, "MPI_Ibsend", not_yet);
	EXPECT(MPI_Send_init(&x, 1, MPI_INT, 0, 0, comm, &request), MPI_ERR_UNSUPPORTED_OPERATION,
	       comm, "MPI_Send_init", not_yet);
	EXPECT(MPI_Recv_init(&x, 1, MPI_INT, 0, 0, comm, &request), MPI_ERR_UNSUPPORTED_OPERATION,
	       comm, "MPI_Recv_init", not_yet);
	EXPECT(MPI_Mprobe(0, 0, comm, &message, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION,
	       comm, "MPI_Mprobe", not_yet);
	EXPECT(MPI_Improbe(0, 0, comm, &flag, &message, MPI_STATUS_IGNORE),
	       MPI_ERR_UNSUPPORTED_OPERATION, comm, "MPI_Improbe", not_yet);
	EXPECT(MPI_Sendrecv_replace(&x, 1, MPI_INT, 0, 0, 0, 0, comm, MPI_STATUS_IGNORE),
	       MPI_ERR_UNSUPPORTED_OPERATION, comm, "MPI_Sendrecv_replace", not_yet);
#if MPICH_NUMVERSION >= 40100000
	EXPECT(MPIX_Stream_progress(stream), MPI_ERR_UNSUPPORTED_OPERATION, MPI_COMM_SELF,
	       "MPIX_Stream_progress", not_yet);
	EXPECT(MPIX_Start_progress_thread(stream), MPI_ERR_UNSUPPORTED_OPERATION, MPI_COMM_SELF,
	       "MPIX_Start_progress_thread", not_yet);
	EXPECT(MPIX_Stream_comm_create_multiplex(comm, 1, &stream, &comm),
	       MPI_ERR_UNSUPPORTED_OPERATION, comm, "MPIX_Stream_comm_create_multiplex", not_yet);
	EXPECT(MPIX_Stream_send(&x, 1, MPI_INT, 0, 0, comm, 0, 0), MPI_ERR_UNSUPPORTED_OPERATION,
	       comm, "MPIX_Stream_send", not_yet);
	EXPECT(MPIX_Allreduce_enqueue(MPI_IN_PLACE, &x, 1, MPI_INT, MPI_SUM, comm),
	       MPI_ERR_UNSUPPORTED_OPERATION, comm, "MPIX_Allreduce_enqueue", not_yet);
#else
	(void)stream;
#endif
}

/* After many errors the codes still have class and text. */
static void many(MPI_Comm comm)
{
	char text[32];
	int x = 0;

	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "= %d", -i - 3);
		EXPECT(MPIX_Send_enqueue(&x, 1, MPI_INT, -i - 3, 0, comm), MPI_ERR_RANK, comm,
		       "dest", text);
	}
}

static MPI_Comm stream_comm(any_stream_t host, MPIX_Stream *stream)
{
	MPI_Info info = make_info(any_stream_type(), &host, sizeof(host));
	MPI_Comm comm;

	CHECK(MPIX_Stream_create(info, stream) == MPI_SUCCESS);
	MPI_Info_free(&info);
	CHECK(MPIX_Stream_comm_create(MPI_COMM_WORLD, *stream, &comm) == MPI_SUCCESS);
	return comm;
}

/* The first use of the library in this process: from outside MPI's life. */
static void too_early(void)
{
	MPIX_Stream stream;
	int x = 0;

	CHECK(MPIX_Stream_create(MPI_INFO_NULL, &stream) != MPI_SUCCESS);
	CHECK(MPIX_Send_enqueue(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
}

int main(int argc, char **argv)
{
	any_stream_t host, host2;
	MPIX_Stream stream, stream2, general;
	MPI_Comm comm, comm2;
	MPI_Errhandler errhandler;

	too_early();
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_create_errhandler(handler, &errhandler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, errhandler);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, errhandler);
	CHECK(any_stream_create(&host) == 0);
	CHECK(any_stream_create(&host2) == 0);
	CHECK(MPIX_Stream_create(MPI_INFO_NULL, &general) == MPI_SUCCESS);
	create_errors(host);
	comm = stream_comm(host, &stream);
	comm2 = stream_comm(host2, &stream2);
	stream_errors(&stream);
	intercomm_error(stream);
	comm_errors(general);
	argument_errors(comm);
	request_errors(comm, comm2, host, host2);
	stale_errors(comm);
	unsupported(comm, stream);
	many(comm);
	CHECK(handled == 0);
	MPI_Comm_free(&comm);
	MPI_Comm_free(&comm2);
	MPIX_Stream_free(&stream);
	MPIX_Stream_free(&stream2);
	MPIX_Stream_free(&general);
	any_stream_destroy(host);
	any_stream_destroy(host2);
	MPI_Errhandler_free(&errhandler);
	MPI_Finalize();
	if (rank == 0)
		printf("ok\n");
	return 0;
}
