/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c: the generalised requests that stand for our operations.
 *
 * The Wait and Test families are ours and complete these requests without telling MPI: the request
 * returns to the pool with its handle and serves the next operation. Only where MPI is asked behind
 * our back (a tool, a Fortran program) its callbacks below make progress and complete it in MPI.
 *
 * MPICH 4.0 has room for about 260 000 requests and aborts beyond. So a program with very many
 * pending requests gets real ones up to half of that; the rest are numbers of ours, which all calls
 * that come here know and MPI does not.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "mpix_int.h"
#include "stmpi.h"

struct mpix_map mpix_reqs;
_Atomic uint32_t mpix_req_count;

#define CHUNK 64

/* Handles that MPI does not know: of its kind "predefined request", of which it numbers a few. */
#define REAL_MAX    131072u
#define UNREAL_MARK 0x6c800000u
#define UNREAL_MASK 0xff800000u

struct chunk {
	struct chunk *next;
	struct mpix_req reqs[CHUNK];
};

/* Guards the pools and the map's writers. No MPI call is made under it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct mpix_req *pool;	/* with a handle, by next */
static struct mpix_req *blanks; /* without one */
static struct chunk *chunks;
static uint32_t n_unreal;
static uint32_t live; /* requests that the program holds, or that are being made */

/* Under the mutex. */
static struct mpix_req *take(struct mpix_req **list)
{
	struct mpix_req *req = *list;

	*list = req->next;
	live++;
	return req;
}

/* Under the mutex. */
static void give(struct mpix_req **list, struct mpix_req *req)
{
	req->op = NULL;
	req->next = *list;
	*list = req;
	live--;
}

/* Under the mutex. */
static void add_blanks(void)
{
	struct chunk *chunk = calloc(1, sizeof(*chunk));

	if (chunk == NULL)
		return;
	chunk->next = chunks;
	chunks = chunk;
	for (int i = 0; i < CHUNK; i++) {
		chunk->reqs[i].handle = MPI_REQUEST_NULL;
		chunk->reqs[i].next = blanks;
		blanks = &chunk->reqs[i];
	}
}

static int is_real(const struct mpix_req *req)
{
	return ((uint32_t)req->handle & UNREAL_MASK) != UNREAL_MARK;
}

void mpix_req_tell(struct mpix_req *req)
{
	if (is_real(req) && stmpi_op_is_done(req->op) && !atomic_exchange(&req->is_complete, 1))
		PMPI_Grequest_complete(req->handle);
}

/* ---- what MPI calls ---- */

static int req_query(void *state, MPI_Status *status)
{
	struct mpix_req *req = state;
	struct stmpi_result result;

	mpix_status_empty(status);
	if (req->op == NULL || !stmpi_op_is_done(req->op))
		return MPI_SUCCESS;
	stmpi_op_result(req->op, &result);
	mpix_status_set(status, &result);
	return result.error == 0 ? MPI_SUCCESS : mpix_result_code("a request", &result);
}

/* MPI gives the handle up: it may mean another request from here on. */
static int req_free(void *state)
{
	struct mpix_req *req = state;
	struct stmpi_op *op = req->op;

	pthread_mutex_lock(&mutex);
	mpix_map_remove(&mpix_reqs, mpix_key(req->handle));
	atomic_fetch_sub_explicit(&mpix_req_count, 1, memory_order_relaxed);
	req->handle = MPI_REQUEST_NULL;
	give(&blanks, req);
	pthread_mutex_unlock(&mutex);
	stmpi_op_free(op);
	return MPI_SUCCESS;
}

/* What has begun ends as usual: MPI lets a cancel fail. */
static int req_cancel(void *state, int complete)
{
	(void)state;
	(void)complete;
	return MPI_SUCCESS;
}

static int req_poll(void *state, MPI_Status *status)
{
	struct mpix_req *req = state;

	(void)status;
	if (req->op == NULL)
		return MPI_ERR_REQUEST;
	stmpi_engine_poll();
	mpix_req_tell(req);
	return MPI_SUCCESS;
}

static int req_wait(int count, void **states, double timeout, MPI_Status *status)
{
	(void)timeout;
	for (int i = 0; i < count; i++) {
		int rc = req_poll(states[i], status);

		if (rc != MPI_SUCCESS)
			return rc;
	}
	sched_yield();
	return MPI_SUCCESS;
}

/* ---- what the layer calls ---- */

/* Enter a request under its handle. 0 or -STMPI_ENOMEM. */
static int enter(struct mpix_req *req)
{
	MPI_Request handle = req->handle;
	int ret;

	pthread_mutex_lock(&mutex);
	ret = mpix_map_insert(&mpix_reqs, mpix_key(handle), req);
	if (ret == 0)
		atomic_fetch_add_explicit(&mpix_req_count, 1, memory_order_relaxed);
	else
		give(&blanks, req);
	pthread_mutex_unlock(&mutex);
	return ret;
}

/* A request without a handle; with one where MPI is not to give it. */
static struct mpix_req *take_blank(void)
{
	struct mpix_req *req = NULL;

	pthread_mutex_lock(&mutex);
	if (blanks == NULL)
		add_blanks();
	if (blanks != NULL) {
		req = take(&blanks);
		req->op = NULL;
		req->handle = MPI_REQUEST_NULL;
		if (atomic_load_explicit(&mpix_req_count, memory_order_relaxed) >= REAL_MAX)
			req->handle = (MPI_Request)(UNREAL_MARK | (n_unreal++ & ~UNREAL_MASK));
		atomic_store_explicit(&req->is_complete, 0, memory_order_relaxed);
	}
	pthread_mutex_unlock(&mutex);
	return req;
}

/* The pool is empty. */
static int make(const char *func, struct mpix_comm *c, struct mpix_req **out)
{
	struct mpix_req *req = take_blank();
	int rc;

	if (req == NULL)
		return mpix_fail(c->handle, MPI_ERR_NO_MEM, "%s: no memory for a request", func);
	if (is_real(req)) {
		rc = PMPIX_Grequest_start(req_query, req_free, req_cancel, req_poll, req_wait, req,
					  &req->handle);
		if (rc != MPI_SUCCESS) {
			pthread_mutex_lock(&mutex);
			give(&blanks, req);
			pthread_mutex_unlock(&mutex);
			return rc;
		}
	}
	/* Where that fails MPI keeps a request that nobody knows of: memory is out anyway. */
	if (enter(req) != 0)
		return mpix_fail(c->handle, MPI_ERR_NO_MEM, "%s: no memory for a request", func);
	*out = req;
	return MPI_SUCCESS;
}

int mpix_req_get(const char *func, struct mpix_comm *c, struct mpix_req **out)
{
	struct mpix_req *req = NULL;

	pthread_mutex_lock(&mutex);
	if (stmpi_likely(pool != NULL))
		req = take(&pool);
	pthread_mutex_unlock(&mutex);
	if (stmpi_unlikely(req == NULL)) {
		int rc = make(func, c, &req);

		if (rc != MPI_SUCCESS)
			return rc;
	}
	req->comm = c;
	req->comm_generation = c->generation;
	*out = req;
	return MPI_SUCCESS;
}

void mpix_req_put(struct mpix_req *req)
{
	MPI_Request handle = req->handle;

	/* Relaxed: set by a call of this thread, or by one that it has synchronised with. */
	if (stmpi_unlikely(atomic_load_explicit(&req->is_complete, memory_order_relaxed))) {
		req->op = NULL;
		PMPI_Request_free(&handle); /* calls req_free */
		return;
	}
	pthread_mutex_lock(&mutex);
	give(&pool, req);
	pthread_mutex_unlock(&mutex);
}

int mpix_req_stale(const char *func, MPI_Request request)
{
	return mpix_fail(
		MPI_COMM_NULL, MPI_ERR_REQUEST,
		"%s: invalid argument request = 0x%08x: it has been completed or freed before",
		func, (unsigned int)request);
}

MPI_Comm mpix_req_comm(const struct mpix_req *req)
{
	return req->comm->generation == req->comm_generation ? req->comm->handle : MPI_COMM_NULL;
}

void mpix_req_finish(struct mpix_req *req, struct stmpi_result *result)
{
	struct stmpi_op *op = req->op;

	stmpi_op_result(op, result);
	mpix_req_put(req);
	stmpi_op_free(op);
}

int mpix_result_code(const char *func, const struct stmpi_result *result)
{
	if (stmpi_likely(result->error == 0))
		return MPI_SUCCESS;
	return mpix_code(mpix_class(result->error), "%s: message of rank %d with tag %d: %s", func,
			 result->source, result->tag, stmpi_strerror(result->error));
}

void mpix_req_fini(void)
{
	struct mpix_req *req;

	/* Real ones go from the pool through req_free, which counts them as live before. */
	while (pool != NULL) {
		MPI_Request handle;

		pthread_mutex_lock(&mutex);
		req = take(&pool);
		handle = req->handle;
		if (!is_real(req))
			give(&blanks, req);
		pthread_mutex_unlock(&mutex);
		if (!is_real(req))
			continue;
		PMPI_Grequest_complete(handle);
		PMPI_Request_free(&handle);
	}
	/* Requests that the program never completed stay in MPI, which calls us no more: keep their
	 * memory. */
	if (live > 0)
		return;
	while (chunks != NULL) {
		struct chunk *next = chunks->next;

		free(chunks);
		chunks = next;
	}
	blanks = NULL;
	mpix_map_clear(&mpix_reqs);
}
