/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agree.c: how the processes of a new stream communicator agree on its context id and enter it
 * together.
 *
 * Each proposes an id, the largest is tried; where it is in use the round is repeated with newer
 * ones. The last reduction is also the barrier that the core asks for: nobody ends before all have
 * entered.
 */
#include <limits.h>

#include "mpix_int.h"

enum {
	STEP_PROPOSE,
	STEP_TRY,
	STEP_ENTER,
	STEP_END
};

static int reduce(struct mpix_agree *a, const void *in, void *out, MPI_Datatype type, MPI_Op op)
{
	return PMPI_Iallreduce(in, out, 1, type, op, a->comm, &a->pending);
}

static int enter(struct mpix_agree *a, int rank, int ranks)
{
	struct stmpi_comm *core;
	int ret;

	if (a->parent != NULL)
		ret = stmpi_comm_dup(a->parent, a->context, a->stream, &core);
	else
		ret = stmpi_comm_create(a->context, rank, ranks, a->addresses, a->stream, &core);
	if (ret != 0)
		return ret;
	ret = mpix_comm_enter(a->comm, core, a->stream_handle);
	if (ret != 0)
		stmpi_comm_put(core);
	return ret;
}

/* Begin the work of a step. MPI's code. */
static int begin(struct mpix_agree *a)
{
	int rank, ranks;

	switch (a->step) {
	case STEP_PROPOSE:
		a->proposal = stmpi_context_propose();
		return reduce(a, &a->proposal, &a->context, MPI_UINT32_T, MPI_MAX);
	case STEP_TRY:
		a->mine = stmpi_context_is_free(a->context);
		return reduce(a, &a->mine, &a->all, MPI_INT, MPI_MIN);
	default:
		PMPI_Comm_rank(a->comm, &rank);
		PMPI_Comm_size(a->comm, &ranks);
		a->error = enter(a, rank, ranks);
		a->mine = a->error == 0 ? INT_MAX : rank;
		return reduce(a, &a->mine, &a->all, MPI_INT, MPI_MIN);
	}
}

int mpix_agree_step(struct mpix_agree *a)
{
	int flag = 1, rc;

	while (a->step != STEP_END) {
		if (!a->is_begun) {
			rc = begin(a);
			if (rc != MPI_SUCCESS)
				return -rc;
			a->is_begun = 1;
		}
		rc = PMPI_Test(&a->pending, &flag, MPI_STATUS_IGNORE);
		if (rc != MPI_SUCCESS)
			return -rc;
		if (!flag)
			return 0;
		a->is_begun = 0;
		/* An id in use somewhere: again. */
		a->step = a->step == STEP_TRY && !a->all ? STEP_PROPOSE : a->step + 1;
	}
	return 1;
}

int mpix_agree_run(struct mpix_agree *a)
{
	int rc;

	/* PMPI_Wait makes the request null, on which the next PMPI_Test succeeds. */
	while ((rc = mpix_agree_step(a)) == 0)
		PMPI_Wait(&a->pending, MPI_STATUS_IGNORE);
	return rc < 0 ? -rc : MPI_SUCCESS;
}
