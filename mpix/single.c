/* SPDX-License-Identifier: BSD-3-Clause */
/* single.c: the calls of MPI that take one request, and queries that complete none. */
#include "mpix_int.h"

static struct mpix_req *find(const MPI_Request *request)
{
	return mpix_req_none() || request == NULL ? NULL : mpix_req_find(*request);
}

static int complete(const char *func, struct mpix_req *req, MPI_Request *request,
		    MPI_Status *status)
{
	MPI_Comm comm = mpix_req_comm(req);
	struct stmpi_result result;
	int rc;

	mpix_req_finish(req, &result);
	*request = MPI_REQUEST_NULL;
	mpix_status_set(status, &result);
	rc = mpix_result_code(func, &result);
	return stmpi_likely(rc == MPI_SUCCESS) ? rc : mpix_raise(comm, rc);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	struct mpix_req *req = find(request);

	if (stmpi_likely(req == NULL))
		return PMPI_Wait(request, status);
	if (stmpi_unlikely(req->op == NULL))
		return mpix_req_stale("MPI_Wait", *request);
	mpix_op_wait(req->op);
	return complete("MPI_Wait", req, request, status);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	struct mpix_req *req = find(request);

	if (stmpi_likely(req == NULL))
		return PMPI_Test(request, flag, status);
	if (stmpi_unlikely(req->op == NULL))
		return mpix_req_stale("MPI_Test", *request);
	*flag = mpix_op_test(req->op);
	return *flag ? complete("MPI_Test", req, request, status) : MPI_SUCCESS;
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
	struct mpix_req *req = find(&request);
	struct stmpi_result result;

	if (stmpi_likely(req == NULL))
		return PMPI_Request_get_status(request, flag, status);
	if (stmpi_unlikely(req->op == NULL))
		return mpix_req_stale("MPI_Request_get_status", request);
	*flag = mpix_op_test(req->op);
	if (*flag) {
		stmpi_op_result(req->op, &result);
		mpix_status_set(status, &result);
	}
	return MPI_SUCCESS;
}

/* The operation goes on to its end by itself. */
int MPI_Request_free(MPI_Request *request)
{
	struct mpix_req *req = find(request);
	struct stmpi_op *op;

	if (stmpi_likely(req == NULL))
		return PMPI_Request_free(request);
	if (stmpi_unlikely(req->op == NULL))
		return mpix_req_stale("MPI_Request_free", *request);
	op = req->op;
	mpix_req_put(req);
	stmpi_op_free(op);
	*request = MPI_REQUEST_NULL;
	return MPI_SUCCESS;
}

/* MPI lets a cancel fail: the operation ends as usual, and its status says so. */
int MPI_Cancel(MPI_Request *request)
{
	struct mpix_req *req = find(request);

	if (stmpi_likely(req == NULL))
		return PMPI_Cancel(request);
	return req->op != NULL ? MPI_SUCCESS : mpix_req_stale("MPI_Cancel", *request);
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
/* Queries of lists, new in MPI 4.1: MPI answers, after it was told of those that are done. */
static void tell(int count, const MPI_Request *requests)
{
	if (mpix_req_none())
		return;
	stmpi_engine_poll();
	for (int i = 0; i < count; i++) {
		struct mpix_req *req = find(&requests[i]);

		if (req != NULL && req->op != NULL)
			mpix_req_tell(req);
	}
}

int MPI_Request_get_status_all(int count, const MPI_Request array_of_requests[], int *flag,
			       MPI_Status *array_of_statuses)
{
	tell(count, array_of_requests);
	return PMPI_Request_get_status_all(count, array_of_requests, flag, array_of_statuses);
}

int MPI_Request_get_status_any(int count, const MPI_Request array_of_requests[], int *indx,
			       int *flag, MPI_Status *status)
{
	tell(count, array_of_requests);
	return PMPI_Request_get_status_any(count, array_of_requests, indx, flag, status);
}

int MPI_Request_get_status_some(int incount, const MPI_Request array_of_requests[], int *outcount,
				int array_of_indices[], MPI_Status *array_of_statuses)
{
	tell(incount, array_of_requests);
	return PMPI_Request_get_status_some(incount, array_of_requests, outcount, array_of_indices,
					    array_of_statuses);
}
#endif
