/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dup.c: the MPI_Comm_dup family on stream communicators: the copy has the stream too. On others
 * they go straight to MPI.
 */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <utlist.h>

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

/*
 * ---- without blocking: a generalised request whose polls take the steps ----
 *
 * MPI polls a request only in calls that name it, so each poll takes the steps of all duplications
 * that are under way: processes may complete several of them in different orders. A process must be
 * in such a call for the others to get on.
 */

struct idup {
	struct mpix_agree agree;
	MPI_Request request; /* the program's */
	MPI_Request dup;     /* MPI's, until the copy has been made */
	MPI_Comm *newcomm;   /* the program's; written by MPI when dup ends at the latest */
	/* Holds processes and stream while the parent may be freed; under an id that nobody uses.
	 */
	struct stmpi_comm *parent;
	int rc;
	/* Under the mutex: */
	struct idup *next; /* under way */
	uint64_t round;	   /* the newest in which steps were taken */
	int is_busy;	   /* a thread is taking them */
};

/* Guards the list. No MPI call is made under it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct idup *under_way;
static uint64_t newest_round;

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

/* Take steps. 1 when the last is done. */
static int advance(struct idup *d)
{
	int flag, rc;

	if (d->dup != MPI_REQUEST_NULL) {
		d->rc = PMPI_Test(&d->dup, &flag, MPI_STATUS_IGNORE);
		if (d->rc == MPI_SUCCESS && !flag)
			return 0;
		d->agree.comm = *d->newcomm;
	}
	if (d->rc != MPI_SUCCESS)
		return 1;
	rc = mpix_agree_step(&d->agree);
	if (rc == 0)
		return 0;
	if (rc < 0)
		d->rc = -rc;
	else if (d->agree.all != INT_MAX)
		d->rc = d->agree.error != 0 ? mpix_class(d->agree.error) : MPI_ERR_OTHER;
	return 1;
}

/* One whose steps nobody takes, and that had none in this round; marked busy. */
static struct idup *next_idle(uint64_t round)
{
	struct idup *d;

	pthread_mutex_lock(&mutex);
	for (d = under_way; d != NULL; d = d->next)
		if (!d->is_busy && d->round != round)
			break;
	if (d != NULL) {
		d->is_busy = 1;
		d->round = round;
	}
	pthread_mutex_unlock(&mutex);
	return d;
}

static void advance_all(void)
{
	struct idup *d;
	uint64_t round;

	pthread_mutex_lock(&mutex);
	round = ++newest_round;
	pthread_mutex_unlock(&mutex);
	while ((d = next_idle(round)) != NULL) {
		MPI_Request request = d->request;
		int has_ended = advance(d);

		pthread_mutex_lock(&mutex);
		d->is_busy = 0;
		if (has_ended)
			LL_DELETE(under_way, d);
		pthread_mutex_unlock(&mutex);
		/* From here on another thread may free d. */
		if (has_ended)
			PMPI_Grequest_complete(request);
	}
}

static int idup_poll(void *state, MPI_Status *status)
{
	(void)state;
	(void)status;
	advance_all();
	return MPI_SUCCESS;
}

static int idup_wait(int count, void **states, double timeout, MPI_Status *status)
{
	(void)count;
	(void)states;
	(void)timeout;
	(void)status;
	advance_all();
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
	pthread_mutex_lock(&mutex);
	LL_PREPEND(under_way, d);
	pthread_mutex_unlock(&mutex);
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
