/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op.c: operations: their memory, how they are queued on a stream, how they end.
 * Hot: stmpi_op_complete, stmpi_op_release. Warm: the enqueue calls (one mutex, pooled memory).
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/core_int.h"
#include "util/error.h"

#define E (&stmpi_engine)

/* ---- memory ---- */

static int pool_grow(struct stmpi_op_pool *pool)
{
	struct stmpi_op_chunk *chunk;
	uint32_t first;
	int ret;

	pthread_mutex_lock(&E->mutex);
	ret = stmpi_flags_alloc(&E->flags, STMPI_OP_CHUNK, &first);
	pthread_mutex_unlock(&E->mutex);
	if (ret != 0)
		return ret;
	chunk = calloc(1, sizeof(*chunk));
	if (chunk == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for %u more operations",
				       STMPI_OP_CHUNK);
	for (uint32_t i = STMPI_OP_CHUNK; i-- > 0;) {
		struct stmpi_op *op = &chunk->ops[i];

		op->word_index = first + i;
		op->word = &E->flags.words[first + i];
		op->pool = pool;
		op->next = pool->local;
		pool->local = op;
	}
	chunk->next =
		atomic_load_explicit(&pool->chunks, memory_order_relaxed); /* only we write it */
	atomic_store_explicit(&pool->chunks, chunk, memory_order_release); /* partner: for_each */
	return 0;
}

struct stmpi_op *stmpi_op_alloc(struct stmpi_op_pool *pool)
{
	struct stmpi_op *op = pool->local;

	if (op == NULL) {
		/* Partner: the release in stmpi_op_release. */
		op = atomic_exchange_explicit(&pool->returned, NULL, memory_order_acquire);
		pool->local = op;
		if (op == NULL && pool_grow(pool) != 0)
			return NULL;
		op = pool->local;
	}
	pool->local = op->next;
	/* Single writer; read by whoever counts pending operations, who needs no order. */
	atomic_store_explicit(&pool->taken,
			      atomic_load_explicit(&pool->taken, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	return op;
}

/* Undo the newest alloc; owner's lock. */
static void unalloc(struct stmpi_op_pool *pool, struct stmpi_op *op)
{
	atomic_store_explicit(&op->state, STMPI_STATE_FREE, memory_order_relaxed);
	op->next = pool->local;
	pool->local = op;
	atomic_store_explicit(&pool->taken,
			      atomic_load_explicit(&pool->taken, memory_order_relaxed) - 1,
			      memory_order_relaxed);
	atomic_fetch_sub(&op->comm->queued, 1);
}

static inline void return_op(struct stmpi_op_pool *pool, struct stmpi_op *op)
{
	op->next = pool->batch;
	/*
	 * Only we make `returned` non-NULL, only the owner makes it NULL again: no
	 * read-modify-write. The release's partner is stmpi_op_alloc; what has not been taken yet
	 * gathers in `batch`.
	 */
	if (atomic_load_explicit(&pool->returned, memory_order_relaxed) == NULL) {
		pool->batch = NULL;
		atomic_store_explicit(&pool->returned, op, memory_order_release);
	} else {
		pool->batch = op;
	}
}

/* Give the memory back. Under the token; the operation has ended and nobody looks at it any more.
 */
void stmpi_op_release(struct stmpi_op *op)
{
	struct stmpi_op_pool *pool = op->pool;
	struct stmpi_comm *comm = op->comm;

	if (op->mr != NULL)
		op->proc->rail->ops->dereg(op->proc->rail, op->mr);
	op->mr = NULL;
	op->comm = NULL;
	atomic_store_explicit(&op->state, STMPI_STATE_FREE, memory_order_relaxed);
	if (stmpi_likely(!(op->flags & STMPI_OP_F_SPENT)))
		return_op(pool, op);
	atomic_store_explicit(&pool->given,
			      atomic_load_explicit(&pool->given, memory_order_relaxed) + 1,
			      memory_order_release); /* partner: stmpi_engine_drain */
	E->stats.retired++;
	comm->given++;
	if (stmpi_unlikely(comm->is_dropped))
		stmpi_comm_free_if_unused(comm);
}

void stmpi_op_pool_fini(struct stmpi_op_pool *pool)
{
	struct stmpi_op_chunk *c = atomic_load(&pool->chunks), *next;

	for (; c != NULL; c = next) {
		next = c->next;
		free(c);
	}
	memset(pool, 0, sizeof(*pool));
}

static void for_each_in(struct stmpi_op_pool *pool, void (*fn)(struct stmpi_op *op, void *arg),
			void *arg)
{
	struct stmpi_op_chunk *c;

	/* Partner: pool_grow. */
	for (c = atomic_load_explicit(&pool->chunks, memory_order_acquire); c != NULL;
	     c = c->next) {
		for (uint32_t i = 0; i < STMPI_OP_CHUNK; i++) {
			/* A state above FREE was stored with release after the fields were
			 * (queue_op). */
			if (atomic_load_explicit(&c->ops[i].state, memory_order_acquire) !=
			    STMPI_STATE_FREE)
				fn(&c->ops[i], arg);
		}
	}
}

void stmpi_op_for_each(void (*fn)(struct stmpi_op *op, void *arg), void *arg)
{
	struct stmpi_stream *s;

	for_each_in(&E->pool, fn, arg);
	for (s = atomic_load(&E->streams); s != NULL; s = s->next)
		for_each_in(&s->pool, fn, arg);
}

/* ---- ends ---- */

static void stick(struct stmpi_op *op)
{
	int none = 0;

	if (op->stream != NULL && op->result.error != 0 && atomic_exchange(&op->untold, 0))
		atomic_compare_exchange_strong(&op->stream->error, &none, op->result.error);
}

void stmpi_op_complete(struct stmpi_op *op, int error)
{
	if (stmpi_unlikely(error != 0)) {
		op->result.error = error;
		E->stats.failed++;
	}
	if (op->flags & STMPI_OP_F_STATUS)
		E->attr.format_status(&op->result, op->image);
	atomic_store_explicit(&op->state, STMPI_STATE_DONE, memory_order_relaxed);
	/* Everything above, and the data, before the word. Partner: the stream's wait,
	 * stmpi_op_is_done. */
	stmpi_word_store(op->word, op->gen);
	/* After the word: enqueue_wait sets `untold` and then looks at the word, so one of us sees
	 * both. */
	if (stmpi_unlikely(op->result.error != 0)) {
		atomic_thread_fence(memory_order_seq_cst);
		stick(op);
	}
	if (op->flags & STMPI_OP_F_ORPHAN)
		stmpi_op_release(op);
}

static void retire(struct stmpi_work *work, int status)
{
	struct stmpi_op *op = stmpi_container_of(work, struct stmpi_op, retire);

	(void)status;
	stmpi_op_release(op);
}

/* A started operation that the peer ends by writing its word: nobody tells us, so look. */
void stmpi_op_scan_orphans(void)
{
	struct stmpi_op **p = &E->orphans, *op;

	while ((op = *p) != NULL) {
		if (!stmpi_op_is_done(op)) {
			p = &op->next;
			continue;
		}
		*p = op->next;
		stmpi_op_release(op);
	}
}

void stmpi_op_free(struct stmpi_op *op)
{
	uint8_t state;

	if (op == NULL)
		return;
	stmpi_token_lock();
	/* Under the token: a relaxed read of what only the token's holder writes. */
	state = atomic_load_explicit(&op->state, memory_order_relaxed);
	if (stmpi_op_is_done(op)) {
		stmpi_op_release(op);
	} else if (state == STMPI_STATE_RTS || state == STMPI_STATE_ACK) {
		op->flags |= STMPI_OP_F_ORPHAN;
		LL_PREPEND(E->orphans, op);
	} else {
		op->flags |= STMPI_OP_F_ORPHAN;
	}
	stmpi_token_release();
}

int stmpi_op_is_done(const struct stmpi_op *op)
{
	return stmpi_word_reached(op->word, op->gen);
}

void stmpi_op_result(const struct stmpi_op *op, struct stmpi_result *result)
{
	*result = op->result;
}

struct stmpi_stream *stmpi_op_stream(const struct stmpi_op *op)
{
	return op->stream;
}

void stmpi_op_set_user(struct stmpi_op *op, uint64_t user)
{
	op->user = user;
}

uint64_t stmpi_op_user(const struct stmpi_op *op)
{
	return op->user;
}

/* ---- beginnings ---- */

static void start(struct stmpi_work *work, int status)
{
	struct stmpi_op *op = stmpi_container_of(work, struct stmpi_op, start);

	op->started_tick = atomic_load_explicit(&E->tick, memory_order_relaxed); /* a rough clock */
	if (stmpi_unlikely(status != 0))
		stmpi_op_complete(op, -status);
	else
		stmpi_proto_start(op);
}

/* Queued on the trigger, but the stream had no memory for its doorbell: nobody knows of it. */
static void discard(struct stmpi_work *work, int status)
{
	struct stmpi_op *op = stmpi_container_of(work, struct stmpi_op, start);

	(void)status;
	stmpi_op_release(op);
}

static void skip(struct stmpi_work *work, int status)
{
	(void)work;
	(void)status;
}

static void fill(struct stmpi_op *op, const struct stmpi_op_args *args, struct stmpi_stream *stream)
{
	struct stmpi_comm *comm = args->comm;

	op->start.kind = op->retire.kind = STMPI_WORK_CALL;
	op->start.fn = start;
	op->retire.fn = retire;
	op->gen++;
	op->comm = comm;
	if (stream != NULL) /* under its mutex: one writer; see stmpi_comm_free_if_unused */
		atomic_store_explicit(&comm->queued,
				      atomic_load_explicit(&comm->queued, memory_order_relaxed) + 1,
				      memory_order_relaxed);
	else
		comm->started++;
	op->stream = stream;
	op->proc = args->peer >= 0 ? comm->procs[args->peer] : NULL;
	op->buf = args->buf;
	op->bytes = args->bytes;
	op->peer = args->peer;
	op->tag = args->tag;
	op->kind = (uint8_t)args->kind;
	op->is_armable = 0;
	op->flags = STMPI_OP_F_STATUS;
	atomic_store_explicit(&op->untold, 0, memory_order_relaxed);
	/* Until it is matched: what was asked for. */
	op->result = (struct stmpi_result){
		args->peer, args->peer == STMPI_PROC_NULL ? STMPI_ANY_TAG : args->tag, 0, 0};
	op->user = 0;
	op->next = NULL;
	/* A send that the peer ends has no completion here: its status is the good one from the
	 * start. */
	if (args->kind != STMPI_OP_RECV)
		memcpy(op->image, E->image_send, STMPI_STATUS_BYTES);
	/* Release: a dump that sees the state sees the fields. */
	atomic_store_explicit(&op->state, STMPI_STATE_QUEUED, memory_order_release);
}

int stmpi_op_start(const struct stmpi_op_args *args, struct stmpi_op **op)
{
	struct stmpi_op *new;

	stmpi_token_lock();
	new = stmpi_op_alloc(&E->pool);
	if (new == NULL) {
		stmpi_token_release();
		return -STMPI_ENOMEM;
	}
	fill(new, args, NULL);
	*op = new;
	start(&new->start, 0);
	stmpi_token_release();
	return 0;
}

/* ---- on a stream: all under the stream's mutex ---- */

static uint64_t take_ticket(struct stmpi_stream *s)
{
	uint64_t ticket = stmpi_stream_ticket(s) + 1;

	atomic_store_explicit(&s->ticket, ticket,
			      memory_order_relaxed); /* see stmpi_stream_ticket */
	return ticket;
}

/* A send whose rail may arm it, on a stream that then fires it. */
static int can_be_armed(const struct stmpi_stream *s, const struct stmpi_op *op)
{
	return op->kind != STMPI_OP_RECV && op->proc != NULL && op->proc->rail->defer != NULL &&
	       (s->ops->caps & STMPI_STREAM_CAP_DRIVES_PROGRESS);
}

/* The entry that begins the newest operation when the stream comes by. */
static struct stmpi_memop begin_of(struct stmpi_stream *s, struct stmpi_op *op)
{
	if (op->is_armable)
		return (struct stmpi_memop){STMPI_MEMOP_FIRE, &op->net, stmpi_stream_ticket(s),
					    NULL};
	return (struct stmpi_memop){STMPI_MEMOP_DOORBELL, s->doorbell, stmpi_stream_ticket(s),
				    NULL};
}

/* The stream has taken it: arm it, by us or by whoever has the token. */
static void let_arm(struct stmpi_stream *s, struct stmpi_op *op)
{
	if (!op->is_armable)
		return;
	/* Release: partner stmpi_trigger_arm. The operation is ours until the mutex is given back,
	 * whatever the stream has done since. */
	atomic_store_explicit(&op->net.armed.may_arm, 1, memory_order_release);
	if (stmpi_token_try()) {
		(void)stmpi_trigger_arm(s->trigger);
		stmpi_token_release();
	}
}

/* The stream has not taken it: when its turn comes it only gives its memory back. */
static void drop(struct stmpi_op *op)
{
	op->start.fn = discard;
}

/* Fill an operation and give it the next place on the stream's trigger. */
static int queue_op(struct stmpi_stream *s, const struct stmpi_op_args *args, struct stmpi_op **out)
{
	struct stmpi_op *op = stmpi_op_alloc(&s->pool);
	struct stmpi_work *begin;
	int ret;

	if (op == NULL)
		return -STMPI_ENOMEM;
	begin = &op->start;
	fill(op, args, s);
	if (can_be_armed(s, op)) {
		stmpi_proto_make_armable(op, ++s->shots);
		begin = &op->net.work;
	}
	ret = stmpi_trigger_queue(s->trigger, stmpi_stream_ticket(s) + 1, begin);
	if (ret != 0) {
		s->shots -= begin == &op->net.work;
		unalloc(&s->pool, op);
		return ret;
	}
	take_ticket(s);
	*out = op;
	return 0;
}

int stmpi_op_enqueue(const struct stmpi_op_args *args, struct stmpi_op **op)
{
	struct stmpi_stream *s = args->comm->stream;
	struct stmpi_memop ring;
	int ret;

	pthread_mutex_lock(&s->mutex);
	ret = queue_op(s, args, op);
	if (ret == 0) {
		ring = begin_of(s, *op);
		ret = s->ops->batch(s->port, &ring, 1);
		if (ret == 0)
			let_arm(s, *op);
		else
			drop(*op); /* not rung yet, so nobody reads it */
	}
	pthread_mutex_unlock(&s->mutex);
	return ret;
}

int stmpi_op_enqueue_blocking(const struct stmpi_op_args *args, void *status)
{
	struct stmpi_stream *s = args->comm->stream;
	struct stmpi_memop m[4];
	struct stmpi_op *op;
	uint64_t end;
	int n = 0, ret;

	pthread_mutex_lock(&s->mutex);
	ret = queue_op(s, args, &op);
	if (ret != 0)
		goto out;
	end = stmpi_stream_ticket(s) + 1;
	if (status == NULL) {
		op->flags = 0; /* not rung yet: still ours */
		atomic_store_explicit(&op->untold, 1, memory_order_relaxed);
	}
	m[n++] = begin_of(s, op);
	m[n++] = (struct stmpi_memop){STMPI_MEMOP_WAIT, op->word, op->gen, NULL};
	if (status != NULL)
		m[n++] = (struct stmpi_memop){STMPI_MEMOP_COPY, status, E->attr.status_bytes,
					      op->image};
	m[n++] = (struct stmpi_memop){STMPI_MEMOP_WRITE, s->doorbell, end, NULL};
	ret = stmpi_trigger_queue(s->trigger, end, &op->retire);
	if (ret != 0) {
		drop(op);
		goto out;
	}
	take_ticket(s);
	ret = s->ops->batch(s->port, m, n);
	if (ret == 0)
		let_arm(s, op);
	else
		op->start.fn = skip; /* retire, which stays queued, gives it back */
out:
	pthread_mutex_unlock(&s->mutex);
	return ret;
}

/* Queue the waits, and behind them the retirement of n operations. */
static int queue_waits(struct stmpi_stream *s, struct stmpi_op *const *ops, int n,
		       const struct stmpi_memop *m, int entries)
{
	uint64_t ticket;
	int ret;

	/*
	 * The stream first: when it refuses, nothing has happened. It may write the doorbell before
	 * the works are queued; the next look at the trigger starts them.
	 */
	ret = s->ops->batch(s->port, m, entries);
	if (ret != 0)
		return ret;
	ticket = take_ticket(s);
	for (int i = 0; i < n; i++) {
		/* Without memory here the operation stays until the engine ends; its wait is whole.
		 */
		(void)stmpi_trigger_queue(s->trigger, ticket, &ops[i]->retire);
	}
	return 0;
}

int stmpi_op_enqueue_wait(struct stmpi_op *const *ops, int n, void *const *statuses)
{
	struct stmpi_memop few[32], *m = few;
	struct stmpi_stream *s;
	int entries = 0, ret;

	if (n == 0)
		return 0;
	s = ops[0]->stream;
	if ((size_t)n * 2 + 1 > stmpi_array_len(few)) {
		m = malloc(((size_t)n * 2 + 1) * sizeof(*m));
		if (m == NULL)
			return stmpi_error_set(STMPI_ENOMEM, "no memory to wait for %d operations",
					       n);
	}
	pthread_mutex_lock(&s->mutex);
	for (int i = 0; i < n; i++) {
		void *status = statuses != NULL ? statuses[i] : NULL;

		m[entries++] =
			(struct stmpi_memop){STMPI_MEMOP_WAIT, ops[i]->word, ops[i]->gen, NULL};
		if (status != NULL) {
			m[entries++] = (struct stmpi_memop){STMPI_MEMOP_COPY, status,
							    E->attr.status_bytes, ops[i]->image};
			continue;
		}
		atomic_store(&ops[i]->untold, 1); /* seq_cst; partner: stmpi_op_complete */
		if (stmpi_op_is_done(ops[i]))
			stick(ops[i]);
	}
	m[entries++] = (struct stmpi_memop){STMPI_MEMOP_WRITE, s->doorbell,
					    stmpi_stream_ticket(s) + 1, NULL};
	ret = queue_waits(s, ops, n, m, entries);
	pthread_mutex_unlock(&s->mutex);
	if (m != few)
		free(m);
	return ret;
}

static int is_done(void *arg)
{
	return stmpi_op_is_done(arg);
}

void stmpi_op_wait(struct stmpi_op *op)
{
	/* The watchdog ends the operation itself; what it cannot end, the network will. */
	while (stmpi_engine_wait(is_done, op) != 0)
		;
}
