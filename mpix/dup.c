/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dup.c: the MPI_Comm_dup family on stream communicators: the copy has the stream too. On others
 * they go straight to MPI.
 */
#include <limits.h>
#include <sched.h>
#include <stdlib.h>

#include "mpix_int.h"
#include "stmpi.h"
#include "util/error.h"

static void prepare(struct mpix_agree *a, const struct mpix_comm *c)
{
	*a = (struct mpix_agree){
		.stream_handle = c->stream_handle,
		.stream = c->stream,
		.parent = c->core,
	};
}

static int failed(const char *func, MPI_Comm comm, const struct mpix_agree *a)
{
	if (a->error != 0)
		return mpix_fail(comm, mpix_class(a->error), "%s: %s", func, stmpi_error_text());
	return mpix_fail(comm, MPI_ERR_OTHER, "%s: process %d failed", func, a->all);
}

/* The duplicate has been made: give it the stream. */
static int inherit(const char *func, struct mpix_comm *c, MPI_Comm *newcomm)
{
	struct mpix_agree a;
	int rc;

	prepare(&a, c);
	a.comm = *newcomm;
	rc = mpix_agree_run(&a);
	if (rc == MPI_SUCCESS && a.all == INT_MAX)
		return MPI_SUCCESS;
	PMPI_Comm_free(newcomm);
	return rc != MPI_SUCCESS ? rc : failed(func, c->handle, &a);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm)
{
	struct mpix_comm *c = mpix_comm_find(comm);
	int rc = PMPI_Comm_dup(comm, newcomm);

	if (c == NULL || rc != MPI_SUCCESS)
		return rc;
	return inherit("MPI_Comm_dup", c, newcomm);
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm)
{
	struct mpix_comm *c = mpix_comm_find(comm);
	int rc = PMPI_Comm_dup_with_info(comm, info, newcomm);

	if (c == NULL || rc != MPI_SUCCESS)
		return rc;
	return inherit("MPI_Comm_dup_with_info", c, newcomm);
}

/* ---- without blocking: a generalised request whose polls take the steps ---- */

struct idup {
	struct mpix_agree agree;
	MPI_Request request; /* the program's */
	MPI_Request dup;     /* MPI's, until the copy has been made */
	MPI_Comm *newcomm;   /* the program's; written by MPI when dup ends at the latest */
	/* Holds processes and stream while the parent may be freed; under an id that nobody uses.
	 */
	struct stmpi_comm *parent;
	int rc;
	int is_complete;
};

static int idup_query(void *state, MPI_Status *status)
{
	struct idup *d = state;

	mpix_status_empty(status);
	return d->rc;
}

static int idup_free(void *state)
{
	struct idup *d = state;

	stmpi_comm_put(d->parent);
	free(d);
	return MPI_SUCCESS;
}

static int idup_cancel(void *state, int complete)
{
	(void)state;
	(void)complete;
	return MPI_SUCCESS;
}

/* Take steps; when the last is done complete the request. */
static void idup_advance(struct idup *d)
{
	int flag, rc;

	if (d->is_complete)
		return;
	if (d->dup != MPI_REQUEST_NULL) {
		d->rc = PMPI_Test(&d->dup, &flag, MPI_STATUS_IGNORE);
		if (d->rc == MPI_SUCCESS && !flag)
			return;
		d->agree.comm = *d->newcomm;
	}
	if (d->rc == MPI_SUCCESS) {
		rc = mpix_agree_step(&d->agree);
		if (rc == 0)
			return;
		if (rc < 0)
			d->rc = -rc;
		else if (d->agree.all != INT_MAX)
			d->rc = d->agree.error != 0 ? mpix_class(d->agree.error) : MPI_ERR_OTHER;
	}
	d->is_complete = 1;
	PMPI_Grequest_complete(d->request);
}

static int idup_poll(void *state, MPI_Status *status)
{
	(void)status;
	idup_advance(state);
	return MPI_SUCCESS;
}

static int idup_wait(int count, void **states, double timeout, MPI_Status *status)
{
	(void)timeout;
	(void)status;
	for (int i = 0; i < count; i++)
		idup_advance(states[i]);
	sched_yield();
	return MPI_SUCCESS;
}

/* MPI has been asked for a duplicate with request *dup: put ours around it. */
static int idup(const char *func, struct mpix_comm *c, MPI_Comm *newcomm, MPI_Request dup,
		MPI_Request *request)
{
	struct idup *d = calloc(1, sizeof(*d));
	int rc;

	if (d == NULL ||
	    stmpi_comm_dup(c->core, stmpi_context_propose(), c->stream, &d->parent) != 0) {
		free(d);
		PMPI_Wait(&dup, MPI_STATUS_IGNORE);
		return mpix_fail(c->handle, MPI_ERR_NO_MEM, "%s: no memory", func);
	}
	prepare(&d->agree, c);
	d->agree.parent = d->parent;
	d->dup = dup;
	d->newcomm = newcomm;
	rc = PMPIX_Grequest_start(idup_query, idup_free, idup_cancel, idup_poll, idup_wait, d,
				  &d->request);
	if (rc != MPI_SUCCESS) {
		idup_free(d);
		PMPI_Wait(&dup, MPI_STATUS_IGNORE);
		return rc;
	}
	*request = d->request;
	return MPI_SUCCESS;
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);
	MPI_Request dup;
	int rc;

	if (c == NULL)
		return PMPI_Comm_idup(comm, newcomm, request);
	rc = PMPI_Comm_idup(comm, newcomm, &dup);
	return rc != MPI_SUCCESS ? rc : idup("MPI_Comm_idup", c, newcomm, dup, request);
}

int MPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm, MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);
	MPI_Request dup;
	int rc;

	if (c == NULL)
		return PMPI_Comm_idup_with_info(comm, info, newcomm, request);
	rc = PMPI_Comm_idup_with_info(comm, info, newcomm, &dup);
	return rc != MPI_SUCCESS ? rc : idup("MPI_Comm_idup_with_info", c, newcomm, dup, request);
}
