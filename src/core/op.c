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

/* Let the device of the stream that owns the pool reach its new words. */
static int map_words(struct stmpi_op_pool *pool)
{
	if (pool == &E->pool)
		return 0;
	return stmpi_stage_map_words(stmpi_container_of(pool, struct stmpi_stream, pool));
}

static int pool_grow(struct stmpi_op_pool *pool)
{
	struct stmpi_op_chunk *chunk;
	uint32_t first;
	int ret;

	pthread_mutex_lock(&E->mutex);
	ret = stmpi_flags_alloc(&E->flags, STMPI_OP_CHUNK, &first);
	pthread_mutex_unlock(&E->mutex);
	if (ret == 0)
		ret = map_words(pool);
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
	if (op->stage != NULL)
		stmpi_stage_put(comm->stream, op->stage);
	op->stage = NULL;
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
	if (stmpi_unlikely(op->status != NULL))
		memcpy(op->status, op->image, E->attr.status_bytes);
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

/* A staged receive that no stream was told to wait for: its data is still in the packet. */
static void land(struct stmpi_op *op)
{
	struct stmpi_stream *s = op->comm->stream;

	if (op->kind != STMPI_OP_RECV || op->is_landed)
		return;
	op->is_landed = 1;
	if (op->result.bytes > 0 &&
	    s->ops->move_now(s->port, op->user_buf, op->buf, op->result.bytes) != 0)
		op->result.error = STMPI_ENODEV;
}

void stmpi_op_result(struct stmpi_op *op, struct stmpi_result *result)
{
	if (stmpi_unlikely(op->stage != NULL))
		land(op);
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

/* The stream has passed the wait and asks for the status. */
static void tell(struct stmpi_work *work, int status)
{
	struct stmpi_op *op = stmpi_container_of(work, struct stmpi_op, tell);

	if (status != 0 || op->tell_to == NULL || !stmpi_op_is_done(op))
		return;
	memcpy(op->tell_to, op->image, E->attr.status_bytes);
	op->tell_to = NULL;
	stmpi_word_store(op->word, op->gen + 1); /* partner: the stream's second wait */
}

static void fill(struct stmpi_op *op, const struct stmpi_op_args *args, struct stmpi_stream *stream)
{
	struct stmpi_comm *comm = args->comm;

	op->start.kind = op->retire.kind = op->tell.kind = STMPI_WORK_CALL;
	op->start.fn = start;
	op->retire.fn = retire;
	op->tell.fn = tell;
	op->gen += 2;
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
	op->stage = NULL;
	op->status = NULL;
	op->tell_to = NULL;
	op->is_landed = 0;
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

/* Is the buffer memory that only the stream's device reaches? */
static int is_device(struct stmpi_stream *s, const struct stmpi_op_args *args)
{
	return (s->ops->caps & STMPI_STREAM_CAP_DEVICE_MEM) && args->bytes > 0 &&
	       args->peer != STMPI_PROC_NULL &&
	       s->ops->mem_kind(s->port, args->buf) == STMPI_MEM_DEVICE;
}

/* The same for an ordinary call, which makes the copies itself: this one, and land. */
static int stage_now(struct stmpi_stream *s, const struct stmpi_op_args *args,
		     struct stmpi_stage **packet)
{
	int ret;

	pthread_mutex_lock(&s->mutex);
	ret = stmpi_stage_get(s, args->bytes, packet);
	pthread_mutex_unlock(&s->mutex);
	if (ret != 0 || args->kind == STMPI_OP_RECV)
		return ret;
	/* Not under the mutex: it waits for the device. */
	ret = s->ops->move_now(s->port, (*packet)->mem, args->buf, args->bytes);
	if (ret != 0) {
		pthread_mutex_lock(&s->mutex);
		stmpi_stage_free(s, *packet);
		pthread_mutex_unlock(&s->mutex);
	}
	return ret;
}

int stmpi_op_start(const struct stmpi_op_args *args, struct stmpi_op **op)
{
	struct stmpi_stream *s = args->comm->stream;
	struct stmpi_stage *packet = NULL;
	struct stmpi_op *new;
	int ret = 0;

	if (s != NULL && s->ops != NULL && is_device(s, args))
		ret = stage_now(s, args, &packet);
	if (stmpi_unlikely(ret != 0))
		return ret;
	stmpi_token_lock();
	/* What its stream has come to before this call comes before it. */
	if (s != NULL && s->ops != NULL && !stmpi_stream_drives(s))
		(void)stmpi_trigger_set(s->trigger, stmpi_word_load(s->doorbell));
	new = stmpi_op_alloc(&E->pool);
	if (new == NULL) {
		if (packet != NULL)
			stmpi_stage_put(s, packet);
		stmpi_token_release();
		return -STMPI_ENOMEM;
	}
	fill(new, args, NULL);
	if (stmpi_unlikely(packet != NULL)) {
		new->stage = packet;
		new->user_buf = new->buf;
		new->buf = packet->mem;
	}
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
	       stmpi_stream_drives(s);
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
	stmpi_word_store(op->word, op->gen); /* nothing is pending */
}

/* Give entries to the stream, the newest ticket among them, and see that somebody looks. */
static int give(struct stmpi_stream *s, const struct stmpi_memop *m, int n)
{
	int ret = s->ops->batch(s->port, m, n);

	if (stmpi_unlikely(ret != 0))
		return ret;
	/* Read where the engine ends. */
	atomic_store_explicit(&s->rung, stmpi_stream_ticket(s), memory_order_release);
	if (!stmpi_stream_drives(s))
		stmpi_progress_wake();
	return 0;
}

/*
 * Device memory is sent and received through a packet. A receive's packet begins as a copy of its
 * buffer, for how much of it the message will fill is not known when the copy back is queued: so
 * that copy writes the bytes behind the message with what they were.
 */
static int stage(struct stmpi_stream *s, struct stmpi_op *op, const struct stmpi_op_args *args)
{
	int ret;

	if (stmpi_likely(!is_device(s, args)))
		return 0;
	ret = stmpi_stage_get(s, op->bytes, &op->stage);
	if (ret != 0)
		return ret;
	op->user_buf = op->buf;
	op->buf = op->stage->mem;
	return 0;
}

static struct stmpi_memop stage_in(const struct stmpi_op *op)
{
	return (struct stmpi_memop){STMPI_MEMOP_MOVE, op->buf, op->bytes, op->user_buf};
}

static struct stmpi_memop stage_out(const struct stmpi_op *op)
{
	return (struct stmpi_memop){STMPI_MEMOP_MOVE, op->user_buf, op->bytes, op->buf};
}

/* The wait's last entry: data of a staged receive to where it belongs. */
static int add_landing(struct stmpi_stream *s, struct stmpi_op *op, struct stmpi_memop *m)
{
	if (stmpi_likely(op->stage == NULL) || op->kind != STMPI_OP_RECV)
		return 0;
	*m = stage_out(op);
	op->is_landed = 1;
	s->has_trailing = 1;
	return 1;
}

/* Its wait is queued, so whatever is queued from here on comes after its end: the packet is free
 * for that. Only while nobody else can release the operation. */
static void free_stage(struct stmpi_stream *s, struct stmpi_op *op)
{
	if (stmpi_likely(op->stage == NULL))
		return;
	stmpi_stage_free(s, op->stage);
	op->stage = NULL;
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
	ret = stage(s, op, args);
	if (stmpi_unlikely(ret != 0)) {
		unalloc(&s->pool, op);
		return ret;
	}
	if (can_be_armed(s, op)) {
		stmpi_proto_make_armable(op, ++s->shots);
		begin = &op->net.work;
	}
	ret = stmpi_trigger_queue(s->trigger, stmpi_stream_ticket(s) + 1, begin);
	if (ret != 0) {
		s->shots -= begin == &op->net.work;
		free_stage(s, op);
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
	struct stmpi_memop m[2];
	int n = 0, ret;

	pthread_mutex_lock(&s->mutex);
	ret = s->ops->check(s->port);
	if (ret == 0)
		ret = queue_op(s, args, op);
	if (ret == 0) {
		if (stmpi_unlikely((*op)->stage != NULL))
			m[n++] = stage_in(*op);
		m[n++] = begin_of(s, *op);
		ret = give(s, m, n);
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
	struct stmpi_memop m[6];
	struct stmpi_op *op;
	uint64_t end;
	int n = 0, ret;

	pthread_mutex_lock(&s->mutex);
	ret = s->ops->check(s->port);
	if (ret == 0)
		ret = queue_op(s, args, &op);
	if (ret != 0)
		goto out;
	end = stmpi_stream_ticket(s) + 1;
	if (status == NULL) {
		op->flags = 0; /* not rung yet: still ours */
		atomic_store_explicit(&op->untold, 1, memory_order_relaxed);
	}
	if (stmpi_unlikely(op->stage != NULL))
		m[n++] = stage_in(op);
	m[n++] = begin_of(s, op);
	m[n++] = (struct stmpi_memop){STMPI_MEMOP_WAIT, op->word, op->gen, NULL};
	if (status != NULL && (s->ops->caps & STMPI_STREAM_CAP_COPIES_HOST))
		m[n++] = (struct stmpi_memop){STMPI_MEMOP_COPY, status, E->attr.status_bytes,
					      op->image};
	else
		op->status = status; /* the stream stands before the wait when it is written */
	m[n++] = (struct stmpi_memop){STMPI_MEMOP_WRITE, s->doorbell, end, NULL};
	n += add_landing(s, op, &m[n]);
	ret = stmpi_trigger_queue(s->trigger, end, &op->retire);
	if (ret != 0) {
		drop(op);
		goto out;
	}
	take_ticket(s);
	free_stage(s, op); /* before it is rung */
	ret = give(s, m, n);
	if (ret == 0) {
		let_arm(s, op);
	} else {
		drop(op);
		op->start.fn = skip; /* retire, which stays queued, gives it back */
	}
out:
	pthread_mutex_unlock(&s->mutex);
	return ret;
}

/* The entries of one enqueue_wait, and where they come to an end. */
struct wait_entries {
	struct stmpi_memop few[48], *m;
	int n;
	int tells; /* operations whose status the engine tells */
};

/* Entries for a wait: at most three for each operation, and two. */
static int entries_open(struct wait_entries *w, int n)
{
	w->m = w->few;
	w->n = 0;
	w->tells = 0;
	if ((size_t)n * 3 + 2 <= stmpi_array_len(w->few))
		return 0;
	w->m = malloc(((size_t)n * 3 + 2) * sizeof(*w->m));
	if (w->m == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory to wait for %d operations", n);
	return 0;
}

static void add_wait(struct stmpi_stream *s, struct wait_entries *w, struct stmpi_op *op,
		     void *status)
{
	w->m[w->n++] = (struct stmpi_memop){STMPI_MEMOP_WAIT, op->word, op->gen, NULL};
	if (status == NULL) {
		atomic_store(&op->untold, 1); /* seq_cst; partner: stmpi_op_complete */
		if (stmpi_op_is_done(op))
			stick(op);
	} else if (s->ops->caps & STMPI_STREAM_CAP_COPIES_HOST) {
		w->m[w->n++] = (struct stmpi_memop){STMPI_MEMOP_COPY, status, E->attr.status_bytes,
						    op->image};
	} else {
		w->tells++;
	}
}

/*
 * A stream that cannot copy to any memory rings when it has passed the waits, and waits again until
 * the engine has written the statuses. Not earlier: what is queued before the wait may still read
 * them.
 */
static int add_tells(struct stmpi_stream *s, struct wait_entries *w, struct stmpi_op *const *ops,
		     int n, void *const *statuses)
{
	uint64_t ticket = stmpi_stream_ticket(s) + 1;
	int ret;

	w->m[w->n++] = (struct stmpi_memop){STMPI_MEMOP_DOORBELL, s->doorbell, ticket, NULL};
	for (int i = 0; i < n; i++) {
		if (statuses[i] == NULL)
			continue;
		ret = stmpi_trigger_queue(s->trigger, ticket, &ops[i]->tell);
		if (ret != 0)
			return ret; /* those queued find their operation not told of, or over */
		w->m[w->n++] =
			(struct stmpi_memop){STMPI_MEMOP_WAIT, ops[i]->word, ops[i]->gen + 1, NULL};
	}
	/* Only now: a `tell` whose operation has none does nothing. */
	for (int i = 0; i < n; i++)
		ops[i]->tell_to = statuses[i];
	take_ticket(s);
	return 0;
}

/* Queue the waits, and behind them the retirement of n operations. */
static int queue_waits(struct stmpi_stream *s, struct stmpi_op *const *ops, int n,
		       struct wait_entries *w)
{
	uint64_t ticket = stmpi_stream_ticket(s) + 1;
	int ret;

	w->m[w->n++] = (struct stmpi_memop){STMPI_MEMOP_WRITE, s->doorbell, ticket, NULL};
	for (int i = 0; i < n; i++)
		w->n += add_landing(s, ops[i], &w->m[w->n]);
	/*
	 * The stream first: when it refuses, nothing has happened. It may write the doorbell before
	 * the works are queued; the next look at the trigger starts them.
	 */
	take_ticket(s);
	ret = give(s, w->m, w->n);
	if (ret != 0)
		return ret;
	for (int i = 0; i < n; i++) {
		free_stage(s, ops[i]);
		/* Without memory here the operation stays until the engine ends; its wait is whole.
		 */
		(void)stmpi_trigger_queue(s->trigger, ticket, &ops[i]->retire);
	}
	return 0;
}

/* The stream has refused: the operations stay the caller's. */
static void undo_waits(struct stmpi_op *const *ops, int n)
{
	for (int i = 0; i < n; i++) {
		ops[i]->tell_to = NULL;
		ops[i]->is_landed = 0;
		atomic_store(&ops[i]->untold, 0);
	}
}

int stmpi_op_enqueue_wait(struct stmpi_op *const *ops, int n, void *const *statuses)
{
	struct wait_entries w;
	struct stmpi_stream *s;
	int ret;

	if (n == 0)
		return 0;
	s = ops[0]->stream;
	ret = entries_open(&w, n);
	if (ret != 0)
		return ret;
	pthread_mutex_lock(&s->mutex);
	ret = s->ops->check(s->port);
	if (ret == 0) {
		for (int i = 0; i < n; i++)
			add_wait(s, &w, ops[i], statuses != NULL ? statuses[i] : NULL);
		if (stmpi_unlikely(w.tells > 0))
			ret = add_tells(s, &w, ops, n, statuses);
		if (ret == 0)
			ret = queue_waits(s, ops, n, &w);
		if (stmpi_unlikely(ret != 0))
			undo_waits(ops, n);
	}
	pthread_mutex_unlock(&s->mutex);
	if (w.m != w.few)
		free(w.m);
	return ret;
}

void stmpi_stream_flush(struct stmpi_stream *s)
{
	struct stmpi_memop m;

	pthread_mutex_lock(&s->mutex);
	if (s->has_trailing) {
		m = (struct stmpi_memop){STMPI_MEMOP_WRITE, s->doorbell, take_ticket(s), NULL};
		/* A stream that has been destroyed refuses: then its packets are not used again. */
		if (give(s, &m, 1) == 0)
			s->has_trailing = 0;
	}
	pthread_mutex_unlock(&s->mutex);
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
