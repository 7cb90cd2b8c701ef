/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.c: stream communicators. Each is a duplicate of its parent, so collectives work on it as on
 * any; what makes it ours is an entry in a map, which point-to-point calls look up, and an
 * attribute, whose deletion tells that the communicator is freed.
 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpix_int.h"
#include "stmpi.h"
#include "util/error.h"

struct mpix_map mpix_comms;
_Atomic uint32_t mpix_comm_count;

/* Guards the map's writers and the lists. No MPI call is made under it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct mpix_comm *unused;  /* by next */
static struct mpix_comm *all[64]; /* every one ever made, in chunks of growing size */
static int n_chunks;

/* Under the mutex: memory for more. A chunk is twice as long as the one before. */
static int grow(void)
{
	size_t n = (size_t)8 << n_chunks;
	struct mpix_comm *chunk;

	if (n_chunks == 24)
		return -STMPI_ENOMEM;
	chunk = calloc(n, sizeof(*chunk));
	if (chunk == NULL)
		return -STMPI_ENOMEM;
	for (size_t i = 0; i < n; i++) {
		chunk[i].handle = MPI_COMM_NULL;
		chunk[i].next = unused;
		unused = &chunk[i];
	}
	all[n_chunks++] = chunk;
	return 0;
}

static int tag_ub(void)
{
	void *value;
	int flag = 0;

	PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
	return flag ? *(int *)value : 32767;
}

int mpix_comm_enter(MPI_Comm handle, struct stmpi_comm *core, MPIX_Stream stream)
{
	int ub = tag_ub();
	struct mpix_comm *c = NULL;

	pthread_mutex_lock(&mutex);
	if (unused == NULL && grow() != 0)
		goto out;
	c = unused;
	c->core = core;
	c->stream = stmpi_comm_stream(core);
	c->stream_handle = stream;
	c->can_enqueue = c->stream != NULL && stmpi_stream_can_enqueue(c->stream);
	c->rank = stmpi_comm_rank(core);
	c->ranks = stmpi_comm_ranks(core);
	c->tag_ub = ub;
	c->generation++;
	c->handle = handle;
	if (mpix_map_insert(&mpix_comms, mpix_key(handle), c) != 0) {
		c->handle = MPI_COMM_NULL;
		c = NULL;
		goto out;
	}
	unused = c->next;
	atomic_fetch_add(&mpix_comm_count, 1);
out:
	pthread_mutex_unlock(&mutex);
	if (c == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a stream communicator");
	if (PMPI_Comm_set_attr(handle, mpix_comm_keyval, c) != MPI_SUCCESS) {
		c->core = NULL; /* stays the caller's */
		mpix_comm_deleted(handle, mpix_comm_keyval, c, NULL);
		return stmpi_error_set(STMPI_ENOMEM, "MPI cannot keep an attribute");
	}
	return 0;
}

/* Its operations that are under way keep what they need in the core. */
int mpix_comm_deleted(MPI_Comm comm, int keyval, void *value, void *extra)
{
	struct mpix_comm *c = value;
	struct stmpi_comm *core = NULL;

	(void)keyval;
	(void)extra;
	pthread_mutex_lock(&mutex);
	/* Not when MPI_Finalize ended it before. */
	if (mpix_map_find(&mpix_comms, mpix_key(comm)) == c) {
		mpix_map_remove(&mpix_comms, mpix_key(comm));
		core = c->core;
		c->core = NULL;
		c->handle = MPI_COMM_NULL;
		c->next = unused;
		unused = c;
		atomic_fetch_sub(&mpix_comm_count, 1);
	}
	pthread_mutex_unlock(&mutex);
	stmpi_comm_put(core);
	return MPI_SUCCESS;
}

void mpix_comm_fini(void)
{
	for (int k = 0; k < n_chunks; k++) {
		for (size_t i = 0; i < (size_t)8 << k; i++)
			stmpi_comm_put(all[k][i].core);
		free(all[k]);
	}
	n_chunks = 0;
	unused = NULL;
	atomic_store(&mpix_comm_count, 0);
	mpix_map_clear(&mpix_comms);
}

/* ---- making one ---- */

/* What a process tells the others when it fails. */
struct failure {
	int class;
	int rank; /* whose; -1: all found the same */
	char text[MPI_MAX_ERROR_STRING];
};

static void failure_set(struct failure *f, int class, const char *text)
{
	f->class = class;
	f->rank = -1;
	snprintf(f->text, sizeof(f->text), "%s", text);
}

/*
 * Has any process failed so far? f->class is 0 where it has not. Collective: afterwards *f is the
 * same everywhere, 0 or what the lowest failed rank says. MPI's code.
 */
static int share_failure(MPI_Comm comm, struct failure *f)
{
	int rank, mine, first, rc;

	PMPI_Comm_rank(comm, &rank);
	mine = f->class == MPI_SUCCESS ? INT_MAX : rank;
	rc = PMPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm);
	if (rc != MPI_SUCCESS || first == INT_MAX)
		return rc;
	f->rank = first;
	return PMPI_Bcast(f, sizeof(*f), MPI_BYTE, first, comm);
}

/* Exchange addresses and look at them. Collective; *f is the same everywhere afterwards. */
static int exchange(MPI_Comm comm, int ranks, int init_error, int with_net, char *addresses,
		    int *need_net, struct failure *f)
{
	char mine[STMPI_ADDRESS_BYTES] = {0};
	int rc;

	stmpi_engine_address(mine, init_error, with_net);
	rc = PMPI_Allgather(mine, sizeof(mine), MPI_BYTE, addresses, sizeof(mine), MPI_BYTE, comm);
	if (rc != MPI_SUCCESS)
		return rc;
	if (stmpi_engine_check(addresses, ranks, need_net) != 0)
		failure_set(f, MPI_ERR_OTHER, stmpi_error_text());
	return MPI_SUCCESS;
}

/* With the addresses known and a duplicate made: become a stream communicator. */
static int agree(MPI_Comm comm, MPIX_Stream handle, struct stmpi_stream *stream,
		 const char *addresses, struct failure *f)
{
	struct mpix_agree a = {
		.comm = comm,
		.stream_handle = handle,
		.stream = stream,
		.addresses = addresses,
	};
	int rc = mpix_agree_run(&a);

	if (rc != MPI_SUCCESS || a.all == INT_MAX)
		return rc;
	if (a.error != 0)
		failure_set(f, mpix_class(a.error), stmpi_error_text());
	return share_failure(comm, f);
}

static int make(MPI_Comm comm, MPIX_Stream handle, struct failure *f)
{
	struct stmpi_stream *stream = NULL;
	int init_error, ranks, need_net = 0, rc;
	char *addresses;

	PMPI_Comm_size(comm, &ranks);
	init_error = mpix_engine_start();
	addresses = malloc((size_t)ranks * STMPI_ADDRESS_BYTES);
	if (addresses == NULL)
		failure_set(f, MPI_ERR_NO_MEM, "no memory for the addresses of all processes");
	else if (mpix_stream_lookup(handle, &stream) != 0)
		failure_set(f, MPIX_ERR_STREAM, stmpi_error_text());
	rc = share_failure(comm, f);
	if (rc != MPI_SUCCESS || f->class != MPI_SUCCESS)
		goto out;
	rc = exchange(comm, ranks, init_error, 0, addresses, &need_net, f);
	if (rc == MPI_SUCCESS && f->class == MPI_SUCCESS && need_net)
		rc = exchange(comm, ranks, init_error, 1, addresses, &need_net, f);
	if (rc == MPI_SUCCESS && f->class == MPI_SUCCESS)
		rc = agree(comm, handle, stream, addresses, f);
out:
	stmpi_stream_put(stream);
	free(addresses);
	return rc;
}

int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm)
{
	static const char func[] = "MPIX_Stream_comm_create";
	struct failure f = {.class = MPI_SUCCESS};
	int is_inter, rc;
	MPI_Comm dup;

	rc = mpix_start(func);
	if (rc != MPI_SUCCESS)
		return rc;
	if (comm == MPI_COMM_NULL)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_COMM,
				 "%s: invalid argument comm = MPI_COMM_NULL", func);
	rc = PMPI_Comm_test_inter(comm, &is_inter);
	if (rc != MPI_SUCCESS)
		return rc;
	if (is_inter)
		return mpix_fail(comm, MPI_ERR_COMM,
				 "%s: invalid argument comm = 0x%08x: an intercommunicator", func,
				 (unsigned int)comm);
	if (newcomm == NULL)
		return mpix_fail(comm, MPI_ERR_ARG, "%s: invalid argument newcomm = NULL", func);
	rc = PMPI_Comm_dup(comm, &dup);
	if (rc != MPI_SUCCESS)
		return rc;
	rc = make(dup, stream, &f);
	if (rc == MPI_SUCCESS && f.class == MPI_SUCCESS) {
		*newcomm = dup;
		return MPI_SUCCESS;
	}
	PMPI_Comm_free(&dup);
	if (rc != MPI_SUCCESS)
		return rc;
	if (f.rank < 0)
		return mpix_fail(comm, f.class, "%s: %s", func, f.text);
	return mpix_fail(comm, f.class, "%s: process %d: %s", func, f.rank, f.text);
}

int MPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream *stream)
{
	static const char func[] = "MPIX_Comm_get_stream";
	struct mpix_comm *c = mpix_comm_find(comm);
	int rank, rc;

	if (comm == MPI_COMM_NULL)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_COMM,
				 "%s: invalid argument comm = MPI_COMM_NULL", func);
	if (c == NULL) {
		rc = mpix_start(func);
		/* A handle that is no communicator is reported by MPI. */
		if (rc == MPI_SUCCESS)
			rc = PMPI_Comm_rank(comm, &rank);
		if (rc != MPI_SUCCESS)
			return rc;
	}
	if (stream == NULL)
		return mpix_fail(comm, MPI_ERR_ARG, "%s: invalid argument stream = NULL", func);
	if (idx < 0)
		return mpix_fail(comm, MPI_ERR_ARG,
				 "%s: invalid argument idx = %d: it must not be negative", func,
				 idx);
	*stream = c != NULL && idx == 0 ? c->stream_handle : MPIX_STREAM_NULL;
	return MPI_SUCCESS;
}
