/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spscq.h: an unbounded queue of fixed-size records from one producer to one consumer.
 *
 * Chunks of records are linked; an emptied chunk goes back to the producer. Producer side: _push,
 * consumer side: _peek and _pop; several producers must hold a lock of their own around _push,
 * several consumers likewise. A push allocates once per chunk; peek and pop never do (hot path).
 */
#ifndef STMPI_UTIL_SPSCQ_H
#define STMPI_UTIL_SPSCQ_H

#include <stddef.h>
#include <stdint.h>

#include "util/compiler.h"

struct stmpi_spscq_chunk;

/*
 * Ordering: `pushed` is stored with release after the record (and the link to its chunk) is
 * written, and loaded with acquire before it is read. `spare` passes an emptied chunk back:
 * exchanged with acquire-release, so the producer's reuse comes after the consumer's last read.
 */
struct stmpi_spscq {
	/* producer */
	STMPI_CACHE_ALIGNED struct stmpi_spscq_chunk *tail;
	uint32_t tail_used; /* records written in tail */
	_Atomic uint64_t pushed;
	/* consumer */
	STMPI_CACHE_ALIGNED struct stmpi_spscq_chunk *head;
	uint32_t head_used; /* records consumed from head */
	uint64_t popped;
	uint64_t pushed_seen; /* the consumer's last look at `pushed` */
	/* both, rarely */
	STMPI_CACHE_ALIGNED struct stmpi_spscq_chunk *_Atomic spare;
	uint32_t record_bytes;	/* constant */
	uint32_t chunk_records; /* constant */
};

/* Prepare a queue of records of record_bytes (a multiple of 8). 0 or -STMPI_ENOMEM. */
int stmpi_spscq_init(struct stmpi_spscq *q, size_t record_bytes);

/* Free the memory. No thread may be using the queue; records left are dropped. */
void stmpi_spscq_fini(struct stmpi_spscq *q);

/* Reserve room for one record and return it, NULL when memory is out. Not visible before _publish.
 */
void *stmpi_spscq_reserve(struct stmpi_spscq *q);

/* Make all reserved records visible to the consumer. */
static inline void stmpi_spscq_publish(struct stmpi_spscq *q, uint32_t records)
{
	/* Only the producer writes it: a relaxed read of one's own store. Partner:
	 * stmpi_spscq_peek. */
	uint64_t n = atomic_load_explicit(&q->pushed, memory_order_relaxed);

	atomic_store_explicit(&q->pushed, n + records, memory_order_release);
}

/* Take back the newest reserved, unpublished records. */
void stmpi_spscq_unreserve(struct stmpi_spscq *q, uint32_t records);

/* Move to the next chunk; the part of _peek that is rare. */
void stmpi_spscq_advance(struct stmpi_spscq *q);

struct stmpi_spscq_chunk {
	struct stmpi_spscq_chunk *next; /* written by the producer before it publishes into next */
	struct stmpi_spscq_chunk *prev; /* producer only: for unreserve across the chunk's edge */
	uint64_t records[];
};

/* The oldest record, or NULL when none is published. It stays in the queue. */
static inline void *stmpi_spscq_peek(struct stmpi_spscq *q)
{
	if (q->popped == q->pushed_seen) {
		/* Partner: stmpi_spscq_publish. */
		q->pushed_seen = atomic_load_explicit(&q->pushed, memory_order_acquire);
		if (q->popped == q->pushed_seen)
			return NULL;
	}
	if (stmpi_unlikely(q->head_used == q->chunk_records))
		stmpi_spscq_advance(q);
	return (char *)q->head->records + (size_t)q->head_used * q->record_bytes;
}

/*
 * A second place of the consumer's, ahead of _peek: for looking at records before their turn.
 * Zeroed is a valid start.
 */
struct stmpi_spscq_cursor {
	struct stmpi_spscq_chunk *chunk;
	uint32_t used;
	uint64_t seq; /* records before it, popped ones included */
};

/* The record at the cursor, or NULL when none is published there. A cursor that _pop has passed
 * catches up. */
static inline void *stmpi_spscq_look(struct stmpi_spscq *q, struct stmpi_spscq_cursor *c)
{
	/* Not beyond the head: its chunk may have been given back since. */
	if (c->chunk == NULL || (int64_t)(c->seq - q->popped) <= 0)
		*c = (struct stmpi_spscq_cursor){q->head, q->head_used, q->popped};
	/* Partner: stmpi_spscq_publish. */
	if (c->seq == atomic_load_explicit(&q->pushed, memory_order_acquire))
		return NULL;
	if (stmpi_unlikely(c->used == q->chunk_records)) {
		c->chunk = c->chunk->next;
		c->used = 0;
	}
	return (char *)c->chunk->records + (size_t)c->used * q->record_bytes;
}

/* Step over the record that _look returned. */
static inline void stmpi_spscq_step(struct stmpi_spscq_cursor *c)
{
	c->used++;
	c->seq++;
}

/* Drop the record that _peek returned. */
static inline void stmpi_spscq_pop(struct stmpi_spscq *q)
{
	q->head_used++;
	q->popped++;
}

#endif
