/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c: the Wait and Test families on lists that hold requests of ours, of the MPI's, and null
 * ones.
 *
 * Where there are no requests of ours they go straight to MPI. Else a list is split in two;
 * one round looks at both halves. Test makes one round, after one round of our progress; Wait makes
 * rounds until the answer is yes.
 */
#include <limits.h>
#include <stdlib.h>

#include "mpix_int.h"
#include "stmpi.h"

#define FEW 64

/* A list, split. */
struct set {
	const char *func;
	int n;
	MPI_Request *requests; /* the program's */
	MPI_Status *statuses;  /* the program's; may be ignored */

	struct mpix_req **mine; /* by place in requests; NULL for others */
	int n_mine;		/* not completed yet */
	MPI_Request *others;	/* in order, without null ones */
	int *place;		/* of others in requests */
	int n_others;
	MPI_Status *other_statuses;

	int (*ready)(struct set *s); /* one round of a wait: 1 when there is an answer */
	uint32_t rounds;

	/* answers */
	int others_done;     /* all: all others are complete; any, some: no active one is left */
	int index;	     /* any */
	int *indices, count; /* some */
	int failed;	     /* a request ended with an error, which is in its status */
	int in_status;	     /* one of the others did */
	int code;	     /* the error of the one that any completed */
	int rc;		     /* an error of MPI itself; it has been raised */

	void *memory;
	struct mpix_req *few_mine[FEW];
	MPI_Request few_others[FEW];
	int few_place[FEW];
	MPI_Status few_statuses[FEW];
};

static int set_memory(struct set *s, int n)
{
	s->mine = s->few_mine;
	s->others = s->few_others;
	s->place = s->few_place;
	s->other_statuses = s->few_statuses;
	s->memory = NULL;
	if (n <= FEW)
		return 0;
	s->memory = malloc((size_t)n * (sizeof(*s->mine) + sizeof(*s->other_statuses) +
					sizeof(*s->others) + sizeof(*s->place)));
	if (s->memory == NULL)
		return -STMPI_ENOMEM;
	s->mine = s->memory;
	s->other_statuses = (MPI_Status *)(s->mine + n);
	s->others = (MPI_Request *)(s->other_statuses + n);
	s->place = (int *)(s->others + n);
	return 0;
}

/* Split. MPI_SUCCESS or an error that has been raised. */
static int set_open(struct set *s, const char *func, int n, MPI_Request *requests,
		    MPI_Status *statuses)
{
	if (set_memory(s, n) != 0)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_NO_MEM, "%s: no memory for %d requests",
				 func, n);
	s->func = func;
	s->n = n;
	s->requests = requests;
	s->statuses = statuses;
	s->n_mine = 0;
	s->n_others = 0;
	s->others_done = 0;
	s->index = MPI_UNDEFINED;
	s->count = 0;
	s->failed = 0;
	s->in_status = 0;
	s->code = MPI_SUCCESS;
	s->rc = MPI_SUCCESS;
	for (int i = 0; i < n; i++) {
		s->mine[i] = NULL;
		if (requests[i] == MPI_REQUEST_NULL)
			continue;
		s->mine[i] = mpix_req_find(requests[i]);
		if (s->mine[i] != NULL && s->mine[i]->op == NULL) {
			free(s->memory);
			return mpix_req_stale(func, requests[i]);
		}
		if (s->mine[i] != NULL) {
			s->n_mine++;
			continue;
		}
		s->others[s->n_others] = requests[i];
		s->place[s->n_others++] = i;
	}
	s->others_done = s->n_others == 0;
	return MPI_SUCCESS;
}

static MPI_Status *status_at(const struct set *s, int i)
{
	return s->statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &s->statuses[i];
}

/* All but MPI_ERROR, see note_code. */
static void copy_status(MPI_Status *to, const MPI_Status *from)
{
	int error;

	if (to == MPI_STATUS_IGNORE)
		return;
	error = to->MPI_ERROR;
	*to = *from;
	to->MPI_ERROR = error;
}

/*
 * The code of the i-th status, in order. MPI wants MPI_ERROR set in all statuses when one of the
 * requests failed, else in none: so nothing is written before the first failure.
 */
static void note_code(struct set *s, int i, int code)
{
	if (code != MPI_SUCCESS && !s->failed) {
		s->failed = 1;
		for (int k = 0; k < i && s->statuses != MPI_STATUSES_IGNORE; k++)
			s->statuses[k].MPI_ERROR = MPI_SUCCESS;
	}
	if (s->failed && s->statuses != MPI_STATUSES_IGNORE)
		s->statuses[i].MPI_ERROR = code;
}

static int is_done(const struct mpix_req *req)
{
	return req != NULL && req->op != NULL && stmpi_op_is_done(req->op);
}

/* Complete one of ours. Its code, not raised. */
static int finish(struct set *s, int i, MPI_Status *status)
{
	struct stmpi_result result;

	s->requests[i] = MPI_REQUEST_NULL;
	if (s->mine[i]->op == NULL) {
		/* The same request twice in the list, which MPI forbids. */
		s->mine[i] = NULL;
		s->n_mine--;
		mpix_status_empty(status);
		return MPI_SUCCESS;
	}
	mpix_req_finish(s->mine[i], &result);
	s->mine[i] = NULL;
	s->n_mine--;
	mpix_status_set(status, &result);
	return mpix_result_code(s->func, &result);
}

/* Whose error handler hears of errors in the list: that of the first of ours. */
static MPI_Comm set_comm(const struct set *s)
{
	for (int i = 0; i < s->n; i++)
		if (s->mine[i] != NULL)
			return mpix_req_comm(s->mine[i]);
	return MPI_COMM_NULL;
}

static int round_of(void *arg)
{
	struct set *s = arg;

	if (s->ready(s))
		return 1;
	mpix_mpi_tick(&s->rounds);
	return 0;
}

/* Rounds until ready; a watchdog that ended one of ours has made it ready. */
static void until(int (*ready)(struct set *s), struct set *s)
{
	s->ready = ready;
	s->rounds = 0;
	while (stmpi_engine_wait(round_of, s) != 0)
		;
}

/* One round of a Test. */
static int once(int (*ready)(struct set *s), struct set *s)
{
	stmpi_engine_poll();
	if (ready(s))
		return 1;
	mpix_mpi_progress();
	return 0;
}

/* ---- all ---- */

static int all_ready(struct set *s)
{
	int flag, rc, class;

	for (int i = 0; i < s->n; i++)
		if (s->mine[i] != NULL && !is_done(s->mine[i])) {
			/* Complete nothing, but let MPI make progress: our peer may wait for it. */
			if (!s->others_done)
				mpix_mpi_progress();
			return 0;
		}
	if (s->others_done)
		return 1;
	rc = PMPI_Testall(s->n_others, s->others, &flag, s->other_statuses);
	if (rc != MPI_SUCCESS) {
		PMPI_Error_class(rc, &class);
		s->in_status = class == MPI_ERR_IN_STATUS;
		s->rc = rc;
		s->others_done = 1;
		return 1;
	}
	s->others_done = flag;
	return flag;
}

/* All are done: give the answers. */
static int all_finish(struct set *s)
{
	MPI_Comm comm = set_comm(s);
	int k = 0;

	if (s->rc != MPI_SUCCESS && !s->in_status)
		return s->rc;
	for (int i = 0; i < s->n; i++) {
		MPI_Status *status = status_at(s, i);
		int code = MPI_SUCCESS;

		if (s->mine[i] != NULL) {
			code = finish(s, i, status);
		} else if (k < s->n_others && s->place[k] == i) {
			s->requests[i] = s->others[k];
			copy_status(status, &s->other_statuses[k]);
			if (s->in_status)
				code = s->other_statuses[k].MPI_ERROR;
			k++;
		} else {
			mpix_status_empty(status);
		}
		note_code(s, i, code);
	}
	/* Where MPI has found errors it has told a handler already. */
	if (s->in_status)
		return s->rc;
	return s->failed ? mpix_raise(comm, MPI_ERR_IN_STATUS) : MPI_SUCCESS;
}

int MPI_Waitall(int count, MPI_Request array_of_requests[], MPI_Status *array_of_statuses)
{
	struct set s;
	int rc;

	if (mpix_req_none() || count <= 0)
		return PMPI_Waitall(count, array_of_requests, array_of_statuses);
	rc = set_open(&s, "MPI_Waitall", count, array_of_requests, array_of_statuses);
	if (rc != MPI_SUCCESS)
		return rc;
	if (s.n_mine == 0) {
		free(s.memory);
		return PMPI_Waitall(count, array_of_requests, array_of_statuses);
	}
	if (s.n_others > 0)
		until(all_ready, &s);
	else
		for (int i = 0; i < count; i++)
			if (s.mine[i] != NULL)
				mpix_op_wait(s.mine[i]->op);
	rc = all_finish(&s);
	free(s.memory);
	return rc;
}

int MPI_Testall(int count, MPI_Request array_of_requests[], int *flag,
		MPI_Status *array_of_statuses)
{
	struct set s;
	int rc;

	if (mpix_req_none() || count <= 0)
		return PMPI_Testall(count, array_of_requests, flag, array_of_statuses);
	rc = set_open(&s, "MPI_Testall", count, array_of_requests, array_of_statuses);
	if (rc != MPI_SUCCESS)
		return rc;
	if (s.n_mine == 0) {
		free(s.memory);
		return PMPI_Testall(count, array_of_requests, flag, array_of_statuses);
	}
	*flag = once(all_ready, &s);
	if (*flag)
		rc = all_finish(&s);
	free(s.memory);
	return rc;
}

/* ---- any ---- */

/* s->statuses is one status here. 1: s->index says which, MPI_UNDEFINED when no active request is
 * left. */
static int any_ready(struct set *s)
{
	int flag = 0, k;

	for (int i = 0; i < s->n; i++)
		if (is_done(s->mine[i])) {
			MPI_Comm comm = mpix_req_comm(s->mine[i]);

			s->index = i;
			s->code = finish(s, i, s->statuses);
			if (s->code != MPI_SUCCESS)
				mpix_raise(comm, s->code);
			return 1;
		}
	if (s->others_done)
		return s->n_mine == 0;
	s->rc = PMPI_Testany(s->n_others, s->others, &k, &flag, s->statuses);
	if (s->rc == MPI_SUCCESS && !flag)
		return 0;
	if (k == MPI_UNDEFINED && s->rc == MPI_SUCCESS) {
		/* Only inactive ones: they will not become active while we are here. */
		s->others_done = 1;
		return s->n_mine == 0;
	}
	if (k >= 0 && k < s->n_others) {
		s->index = s->place[k];
		s->requests[s->index] = s->others[k];
	}
	return 1;
}

static int any_result(struct set *s, int *index)
{
	*index = s->index;
	free(s->memory);
	if (s->index == MPI_UNDEFINED && s->rc == MPI_SUCCESS)
		mpix_status_empty(s->statuses);
	return s->rc != MPI_SUCCESS ? s->rc : s->code;
}

int MPI_Waitany(int count, MPI_Request array_of_requests[], int *indx, MPI_Status *status)
{
	struct set s;
	int rc;

	if (mpix_req_none() || count <= 0)
		return PMPI_Waitany(count, array_of_requests, indx, status);
	rc = set_open(&s, "MPI_Waitany", count, array_of_requests, status);
	if (rc != MPI_SUCCESS)
		return rc;
	if (s.n_mine == 0) {
		free(s.memory);
		return PMPI_Waitany(count, array_of_requests, indx, status);
	}
	until(any_ready, &s);
	return any_result(&s, indx);
}

int MPI_Testany(int count, MPI_Request array_of_requests[], int *indx, int *flag,
		MPI_Status *status)
{
	struct set s;
	int rc;

	if (mpix_req_none() || count <= 0)
		return PMPI_Testany(count, array_of_requests, indx, flag, status);
	rc = set_open(&s, "MPI_Testany", count, array_of_requests, status);
	if (rc != MPI_SUCCESS)
		return rc;
	if (s.n_mine == 0) {
		free(s.memory);
		return PMPI_Testany(count, array_of_requests, indx, flag, status);
	}
	*flag = once(any_ready, &s);
	if (!*flag) {
		free(s.memory);
		*indx = MPI_UNDEFINED;
		return MPI_SUCCESS;
	}
	return any_result(&s, indx);
}

/* ---- some ---- */

static void some_add(struct set *s, int i, int code)
{
	note_code(s, s->count, code);
	s->indices[s->count++] = i;
}

/* The others' part: append what MPI completed. */
static int some_others(struct set *s)
{
	int *found =
		s->indices + s->count; /* MPI's numbers first, ours when they are copied down */
	int n, class;

	s->rc = PMPI_Testsome(s->n_others, s->others, &n, found, s->other_statuses);
	if (s->rc != MPI_SUCCESS) {
		PMPI_Error_class(s->rc, &class);
		s->in_status = class == MPI_ERR_IN_STATUS;
		if (!s->in_status)
			return 1;
	}
	if (n == MPI_UNDEFINED) {
		s->others_done = 1;
		return s->n_mine == 0 || s->count > 0;
	}
	for (int i = 0; i < n; i++) {
		int k = found[i], place = s->place[k];

		s->requests[place] = s->others[k];
		copy_status(status_at(s, s->count), &s->other_statuses[i]);
		some_add(s, place, s->in_status ? s->other_statuses[i].MPI_ERROR : MPI_SUCCESS);
	}
	return s->count > 0;
}

static int some_ready(struct set *s)
{
	for (int i = 0; i < s->n; i++)
		if (is_done(s->mine[i]))
			some_add(s, i, finish(s, i, status_at(s, s->count)));
	if (!s->others_done)
		return some_others(s);
	return s->n_mine == 0 || s->count > 0;
}

static int some_result(struct set *s, MPI_Comm comm, int *outcount, int is_ready)
{
	free(s->memory);
	*outcount = s->count;
	/* Nothing found, nothing left to find. */
	if (is_ready && s->count == 0)
		*outcount = MPI_UNDEFINED;
	if (s->rc != MPI_SUCCESS)
		return s->rc;
	return s->failed ? mpix_raise(comm, MPI_ERR_IN_STATUS) : MPI_SUCCESS;
}

int MPI_Waitsome(int incount, MPI_Request array_of_requests[], int *outcount,
		 int array_of_indices[], MPI_Status *array_of_statuses)
{
	struct set s;
	MPI_Comm comm;
	int rc;

	if (mpix_req_none() || incount <= 0)
		return PMPI_Waitsome(incount, array_of_requests, outcount, array_of_indices,
				     array_of_statuses);
	rc = set_open(&s, "MPI_Waitsome", incount, array_of_requests, array_of_statuses);
	if (rc != MPI_SUCCESS)
		return rc;
	if (s.n_mine == 0) {
		free(s.memory);
		return PMPI_Waitsome(incount, array_of_requests, outcount, array_of_indices,
				     array_of_statuses);
	}
	s.indices = array_of_indices;
	comm = set_comm(&s);
	until(some_ready, &s);
	return some_result(&s, comm, outcount, 1);
}

int MPI_Testsome(int incount, MPI_Request array_of_requests[], int *outcount,
		 int array_of_indices[], MPI_Status *array_of_statuses)
{
	struct set s;
	MPI_Comm comm;
	int rc, is_ready;

	if (mpix_req_none() || incount <= 0)
		return PMPI_Testsome(incount, array_of_requests, outcount, array_of_indices,
				     array_of_statuses);
	rc = set_open(&s, "MPI_Testsome", incount, array_of_requests, array_of_statuses);
	if (rc != MPI_SUCCESS)
		return rc;
	if (s.n_mine == 0) {
		free(s.memory);
		return PMPI_Testsome(incount, array_of_requests, outcount, array_of_indices,
				     array_of_statuses);
	}
	s.indices = array_of_indices;
	comm = set_comm(&s);
	is_ready = once(some_ready, &s);
	return some_result(&s, comm, outcount, is_ready);
}
