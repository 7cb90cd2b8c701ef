/* SPDX-License-Identifier: BSD-3-Clause */
/* enqueue.c: the calls that queue operations on a stream. Warm: no call of MPI, no malloc in the
 * usual case. */
#include <stdlib.h>

#include "mpix_int.h"
#include "stmpi.h"
#include "util/error.h"

#define FEW 64 /* requests of one call that need no memory from the heap */

/* The communicator is no stream communicator, or has no stream here: say which. */
static int no_stream(const char *func, MPI_Comm comm, struct mpix_comm *c)
{
	int rank, rc;

	if (comm == MPI_COMM_NULL)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_COMM,
				 "%s: invalid argument comm = MPI_COMM_NULL", func);
	rc = mpix_start(func);
	if (rc != MPI_SUCCESS)
		return rc;
	if (c == NULL) {
		/* A handle that is no communicator at all is reported by MPI. */
		rc = PMPI_Comm_rank(comm, &rank);
		if (rc != MPI_SUCCESS)
			return rc;
		return mpix_fail(comm, MPI_ERR_OTHER,
				 "%s: invalid argument comm = 0x%08x: not a stream communicator",
				 func, (unsigned int)comm);
	}
	if (c->stream == NULL)
		return mpix_fail(
			comm, MPI_ERR_OTHER,
			"%s: invalid argument comm = 0x%08x: its stream in this process is "
			"MPIX_STREAM_NULL, not a stream that can be enqueued on",
			func, (unsigned int)comm);
	return mpix_fail(
		comm, MPI_ERR_OTHER,
		"%s: invalid argument comm = 0x%08x: its stream 0x%08x is a general stream (no "
		"info \"type\"), not a stream that can be enqueued on",
		func, (unsigned int)comm, (unsigned int)c->stream_handle);
}

/* An earlier failure of the stream that nobody was told of: MPI_SUCCESS or the error, raised. */
static int sticky_error(const char *func, MPI_Comm comm, struct stmpi_stream *stream)
{
	int error = stmpi_stream_take_error(stream);

	if (stmpi_likely(error == 0))
		return MPI_SUCCESS;
	return mpix_fail(
		comm, mpix_class(error),
		"%s: an earlier operation on this stream failed: %s (nothing was enqueued)", func,
		stmpi_strerror(error));
}

/* Everything before the core is called. */
static int prepare(const char *func, enum stmpi_op_kind kind, const void *buf, MPI_Count count,
		   MPI_Datatype type, int peer, int tag, MPI_Comm comm, struct mpix_comm **c,
		   struct stmpi_op_args *args)
{
	int rc;

	*c = mpix_comm_find(comm);
	if (stmpi_unlikely(*c == NULL || !(*c)->can_enqueue))
		return no_stream(func, comm, *c);
	rc = mpix_args(func, *c, kind, buf, count, type, peer, tag, args);
	if (stmpi_unlikely(rc != MPI_SUCCESS))
		return rc;
	return sticky_error(func, comm, (*c)->stream);
}

static int blocking(const char *func, enum stmpi_op_kind kind, const void *buf, MPI_Count count,
		    MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Status *status)
{
	struct stmpi_op_args args;
	struct mpix_comm *c;
	int rc;

	rc = prepare(func, kind, buf, count, type, peer, tag, comm, &c, &args);
	if (rc != MPI_SUCCESS)
		return rc;
	rc = stmpi_op_enqueue_blocking(&args, status == MPI_STATUS_IGNORE ? NULL : status);
	if (stmpi_unlikely(rc != 0))
		return mpix_fail(comm, mpix_class(rc), "%s: %s", func, stmpi_error_text());
	return MPI_SUCCESS;
}

static int nonblocking(const char *func, enum stmpi_op_kind kind, const void *buf, MPI_Count count,
		       MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
	struct stmpi_op_args args;
	struct mpix_comm *c;
	struct mpix_req *req;
	int rc;

	rc = prepare(func, kind, buf, count, type, peer, tag, comm, &c, &args);
	if (rc != MPI_SUCCESS)
		return rc;
	if (request == NULL)
		return mpix_fail(comm, MPI_ERR_ARG, "%s: invalid argument request = NULL", func);
	rc = mpix_req_get(func, c, &req);
	if (rc != MPI_SUCCESS)
		return rc;
	rc = stmpi_op_enqueue(&args, &req->op);
	if (stmpi_unlikely(rc != 0)) {
		mpix_req_put(req);
		return mpix_fail(comm, mpix_class(rc), "%s: %s", func, stmpi_error_text());
	}
	*request = req->handle;
	return MPI_SUCCESS;
}

int MPIX_Send_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
		      MPI_Comm comm)
{
	return blocking("MPIX_Send_enqueue", STMPI_OP_SEND, buf, count, datatype, dest, tag, comm,
			MPI_STATUS_IGNORE);
}

int MPIX_Send_enqueue_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
			MPI_Comm comm)
{
	return blocking("MPIX_Send_enqueue_c", STMPI_OP_SEND, buf, count, datatype, dest, tag, comm,
			MPI_STATUS_IGNORE);
}

int MPIX_Recv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag,
		      MPI_Comm comm, MPI_Status *status)
{
	return blocking("MPIX_Recv_enqueue", STMPI_OP_RECV, buf, count, datatype, source, tag, comm,
			status);
}

int MPIX_Recv_enqueue_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
			MPI_Comm comm, MPI_Status *status)
{
	return blocking("MPIX_Recv_enqueue_c", STMPI_OP_RECV, buf, count, datatype, source, tag,
			comm, status);
}

int MPIX_Isend_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
		       MPI_Comm comm, MPI_Request *request)
{
	return nonblocking("MPIX_Isend_enqueue", STMPI_OP_SEND, buf, count, datatype, dest, tag,
			   comm, request);
}

int MPIX_Isend_enqueue_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
			 MPI_Comm comm, MPI_Request *request)
{
	return nonblocking("MPIX_Isend_enqueue_c", STMPI_OP_SEND, buf, count, datatype, dest, tag,
			   comm, request);
}

int MPIX_Irecv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag,
		       MPI_Comm comm, MPI_Request *request)
{
	return nonblocking("MPIX_Irecv_enqueue", STMPI_OP_RECV, buf, count, datatype, source, tag,
			   comm, request);
}

int MPIX_Irecv_enqueue_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
			 MPI_Comm comm, MPI_Request *request)
{
	return nonblocking("MPIX_Irecv_enqueue_c", STMPI_OP_RECV, buf, count, datatype, source, tag,
			   comm, request);
}

/* ---- waits ---- */

/* The requests of one call, without the null ones. */
struct wait_list {
	int n;
	struct mpix_req **reqs;
	struct stmpi_op **ops;
	void **statuses;
	struct mpix_req *few_reqs[FEW];
	struct stmpi_op *few_ops[FEW];
	void *few_statuses[FEW];
	void *memory;
};

static int list_open(struct wait_list *l, int count)
{
	l->n = 0;
	l->reqs = l->few_reqs;
	l->ops = l->few_ops;
	l->statuses = l->few_statuses;
	l->memory = NULL;
	if (count <= FEW)
		return 0;
	l->memory = malloc((size_t)count * 3 * sizeof(void *));
	if (l->memory == NULL)
		return -STMPI_ENOMEM;
	l->reqs = l->memory;
	l->ops = (struct stmpi_op **)(l->reqs + count);
	l->statuses = (void **)(l->ops + count);
	return 0;
}

static int bad_request(const char *func, MPI_Request request, int index, const char *why)
{
	struct mpix_req *req = mpix_req_find(request);
	MPI_Comm comm = req != NULL && req->op != NULL ? mpix_req_comm(req) : MPI_COMM_NULL;

	if (index < 0)
		return mpix_fail(comm, MPI_ERR_REQUEST, "%s: invalid argument request = 0x%08x: %s",
				 func, (unsigned int)request, why);
	return mpix_fail(comm, MPI_ERR_REQUEST,
			 "%s: invalid argument array_of_requests[%d] = 0x%08x: %s", func, index,
			 (unsigned int)request, why);
}

/* What is wrong with a request, beside the ones in the list; NULL when nothing is. */
static const char *check_request(const struct wait_list *l, struct mpix_req *req)
{
	if (req == NULL || req->op == NULL || stmpi_op_stream(req->op) == NULL)
		return "not a request of MPIX_Isend_enqueue or MPIX_Irecv_enqueue";
	if (req->mark)
		return "the same request twice";
	if (l->n > 0 && stmpi_op_stream(req->op) != stmpi_op_stream(l->ops[0]))
		return "its stream is another one than that of the requests before it";
	return NULL;
}

/* Fill the list in; is_one: for error texts. MPI_SUCCESS or an error that has been raised. */
static int collect(const char *func, struct wait_list *l, int count, const MPI_Request *requests,
		   MPI_Status *statuses, int is_one)
{
	const char *why = NULL;
	int i;

	for (i = 0; i < count; i++) {
		struct mpix_req *req;

		if (requests[i] == MPI_REQUEST_NULL)
			continue;
		req = mpix_req_find(requests[i]);
		why = check_request(l, req);
		if (why != NULL)
			break;
		req->mark = 1;
		l->reqs[l->n] = req;
		l->ops[l->n] = req->op;
		l->statuses[l->n] = statuses == MPI_STATUSES_IGNORE ? NULL : &statuses[i];
		l->n++;
	}
	for (int k = 0; k < l->n; k++)
		l->reqs[k]->mark = 0;
	return why == NULL ? MPI_SUCCESS : bad_request(func, requests[i], is_one ? -1 : i, why);
}

static int enqueue_waits(const char *func, struct wait_list *l)
{
	MPI_Comm comm = mpix_req_comm(l->reqs[0]);
	int rc;

	rc = sticky_error(func, comm, stmpi_op_stream(l->ops[0]));
	if (rc != MPI_SUCCESS)
		return rc;
	rc = stmpi_op_enqueue_wait(l->ops, l->n, l->statuses);
	if (rc != 0)
		return mpix_fail(comm, mpix_class(rc), "%s: %s", func, stmpi_error_text());
	for (int i = 0; i < l->n; i++)
		mpix_req_put(l->reqs[i]);
	return MPI_SUCCESS;
}

static int wait_enqueue(const char *func, int count, MPI_Request *requests, MPI_Status *statuses,
			int is_one)
{
	struct wait_list l;
	int rc;

	if (list_open(&l, count) != 0)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_NO_MEM, "%s: no memory for %d requests",
				 func, count);
	rc = collect(func, &l, count, requests, statuses, is_one);
	if (rc == MPI_SUCCESS && l.n > 0)
		rc = enqueue_waits(func, &l);
	free(l.memory);
	if (rc != MPI_SUCCESS)
		return rc;
	for (int i = 0; i < count; i++) {
		if (requests[i] == MPI_REQUEST_NULL && statuses != MPI_STATUSES_IGNORE)
			mpix_status_empty(&statuses[i]);
		requests[i] = MPI_REQUEST_NULL;
	}
	return MPI_SUCCESS;
}

int MPIX_Wait_enqueue(MPI_Request *request, MPI_Status *status)
{
	if (request == NULL)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_ARG,
				 "MPIX_Wait_enqueue: invalid argument request = NULL");
	return wait_enqueue("MPIX_Wait_enqueue", 1, request, status, 1);
}

int MPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[], MPI_Status *array_of_statuses)
{
	static const char func[] = "MPIX_Waitall_enqueue";

	if (count < 0)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_COUNT,
				 "%s: invalid argument count = %d: it must not be negative", func,
				 count);
	if (array_of_requests == NULL && count > 0)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_ARG,
				 "%s: invalid argument array_of_requests = NULL with count = %d",
				 func, count);
	return wait_enqueue(func, count, array_of_requests, array_of_statuses, 0);
}
