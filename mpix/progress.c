/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c: a call that waits for our operations makes progress for MPI's too, as MPI wants of
 * every call that blocks: the peer may be in a call of MPI that needs us before it comes to the
 * message that we wait for.
 */
#include "mpix_int.h"

struct waiter {
	const struct stmpi_op *op;
	uint32_t rounds;
};

/* A request that is complete only in the end: asking for its status is what makes MPI make
 * progress. */
static MPI_Request idle_request = MPI_REQUEST_NULL;

static int idle_query(void *state, MPI_Status *status)
{
	(void)state;
	mpix_status_empty(status);
	return MPI_SUCCESS;
}

static int idle_free(void *state)
{
	(void)state;
	return MPI_SUCCESS;
}

static int idle_cancel(void *state, int complete)
{
	(void)state;
	(void)complete;
	return MPI_SUCCESS;
}

int mpix_progress_init(void)
{
	return PMPI_Grequest_start(idle_query, idle_free, idle_cancel, NULL, &idle_request);
}

void mpix_progress_fini(void)
{
	PMPI_Grequest_complete(idle_request);
	PMPI_Request_free(&idle_request);
}

void mpix_mpi_progress(void)
{
	int flag;

	/* (A probe of a communicator of one process makes none in MPICH 4.0.) */
	PMPI_Request_get_status(idle_request, &flag, MPI_STATUS_IGNORE);
}

static int ready(void *arg)
{
	struct waiter *w = arg;

	if (stmpi_op_is_done(w->op))
		return 1;
	mpix_mpi_tick(&w->rounds);
	return 0;
}

void mpix_op_wait(struct stmpi_op *op)
{
	struct waiter w = {op, 0};

	/* A watchdog that ends the wait has ended the operation. */
	while (stmpi_engine_wait(ready, &w) != 0)
		;
}

int mpix_op_test(const struct stmpi_op *op)
{
	if (!stmpi_op_is_done(op)) {
		stmpi_engine_poll();
		if (!stmpi_op_is_done(op))
			mpix_mpi_progress();
	}
	return stmpi_op_is_done(op);
}
