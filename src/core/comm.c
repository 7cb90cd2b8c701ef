/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c: communicators and context ids. Cold. */
#include <stdlib.h>
#include <string.h>

#include "core/core_int.h"
#include "util/error.h"

#define E (&stmpi_engine)

uint32_t stmpi_context_propose(void)
{
	return atomic_fetch_add(&E->next_ctx, 1);
}

/*
 * Reserve ctx. A reserved id is never free again, in this process: an agreement that fails
 * elsewhere costs one id, and two agreements at once, in two threads, cannot end on the same one.
 */
int stmpi_context_is_free(uint32_t ctx)
{
	unsigned char *used;
	int is_free = 0;

	pthread_mutex_lock(&E->mutex);
	if (ctx >= E->ctx_bits) {
		uint32_t bits = (ctx + 1024) / 1024 * 1024 + 1024;

		used = realloc(E->ctx_used, bits / 8);
		if (used == NULL)
			goto out;
		memset(used + E->ctx_bits / 8, 0, (bits - E->ctx_bits) / 8);
		E->ctx_used = used;
		E->ctx_bits = bits;
	}
	is_free = !(E->ctx_used[ctx / 8] & (1u << ctx % 8));
	E->ctx_used[ctx / 8] |= (unsigned char)(1u << ctx % 8);
	if (atomic_load(&E->next_ctx) <= ctx)
		atomic_store(&E->next_ctx, ctx + 1);
out:
	pthread_mutex_unlock(&E->mutex);
	return is_free;
}

static struct stmpi_comm *alloc(uint32_t ctx, int rank, int ranks, struct stmpi_stream *stream)
{
	struct stmpi_comm *comm;

	comm = calloc(1, sizeof(*comm) + (size_t)ranks * sizeof(comm->procs[0]));
	if (comm == NULL)
		return NULL;
	comm->ctx = ctx;
	comm->rank = rank;
	comm->ranks = ranks;
	comm->stream = stream;
	return comm;
}

/* The stream's trigger may arm works in the rail of its peers that can. Under the token. */
static int defer(struct stmpi_comm *c)
{
	struct stmpi_stream *s = c->stream;
	int ret = 0;

	if (s == NULL || s->ops == NULL || !(s->ops->caps & STMPI_STREAM_CAP_DRIVES_PROGRESS))
		return 0;
	for (int r = 0; r < c->ranks && ret == 0; r++)
		ret = stmpi_trigger_defer(s->trigger, c->procs[r]->rail, 1, 1);
	return ret;
}

int stmpi_comm_create(uint32_t ctx, int rank, int ranks, const void *addresses,
		      struct stmpi_stream *stream, struct stmpi_comm **comm)
{
	struct stmpi_comm *c = alloc(ctx, rank, ranks, stream);
	int ret = 0;

	if (c == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a communicator of %d ranks",
				       ranks);
	stmpi_token_lock();
	for (int r = 0; r < ranks && ret == 0; r++)
		ret = stmpi_proc_get((const char *)addresses + (size_t)r * STMPI_ADDRESS_BYTES,
				     &c->procs[r]);
	if (ret == 0)
		ret = defer(c);
	stmpi_token_release();
	if (ret != 0) {
		free(c);
		return ret;
	}
	if (stream != NULL)
		stmpi_stream_get(stream);
	*comm = c;
	return 0;
}

int stmpi_comm_dup(const struct stmpi_comm *comm, uint32_t ctx, struct stmpi_stream *stream,
		   struct stmpi_comm **copy)
{
	struct stmpi_comm *c = alloc(ctx, comm->rank, comm->ranks, stream);
	int ret;

	if (c == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a communicator of %d ranks",
				       comm->ranks);
	memcpy(c->procs, comm->procs, (size_t)comm->ranks * sizeof(c->procs[0]));
	stmpi_token_lock();
	ret = defer(c);
	stmpi_token_release();
	if (ret != 0) {
		free(c);
		return ret;
	}
	if (stream != NULL)
		stmpi_stream_get(stream);
	*copy = c;
	return 0;
}

/* Under the token. */
void stmpi_comm_free_if_unused(struct stmpi_comm *comm)
{
	struct stmpi_stream *stream = comm->stream;

	/* Nothing can be enqueued on a dropped communicator, and its owner's enqueues came before
	 * the drop. */
	if (!comm->is_dropped ||
	    comm->given !=
		    comm->started + atomic_load_explicit(&comm->queued, memory_order_relaxed))
		return;
	free(comm);
	stmpi_stream_put(stream);
}

void stmpi_comm_put(struct stmpi_comm *comm)
{
	if (comm == NULL)
		return;
	if (comm->stream != NULL)
		stmpi_stream_flush(comm->stream);
	stmpi_token_lock();
	comm->is_dropped = 1;
	stmpi_comm_free_if_unused(comm);
	stmpi_token_release();
}

struct stmpi_stream *stmpi_comm_stream(const struct stmpi_comm *comm)
{
	return comm->stream;
}

int stmpi_comm_rank(const struct stmpi_comm *comm)
{
	return comm->rank;
}

int stmpi_comm_ranks(const struct stmpi_comm *comm)
{
	return comm->ranks;
}
