/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/spscq.h"

#include <stdlib.h>

#include "stmpi.h"

#define CHUNK_BYTES 4096

static struct stmpi_spscq_chunk *chunk_get(struct stmpi_spscq *q)
{
	/* Partner: stmpi_spscq_advance. */
	struct stmpi_spscq_chunk *c =
		atomic_exchange_explicit(&q->spare, NULL, memory_order_acq_rel);

	if (c == NULL)
		c = malloc(sizeof(*c) + (size_t)q->chunk_records * q->record_bytes);
	return c;
}

int stmpi_spscq_init(struct stmpi_spscq *q, size_t record_bytes)
{
	q->record_bytes = (uint32_t)record_bytes;
	q->chunk_records =
		(uint32_t)((CHUNK_BYTES - sizeof(struct stmpi_spscq_chunk)) / record_bytes);
	atomic_init(&q->spare, NULL);
	atomic_init(&q->pushed, 0);
	q->tail_used = q->head_used = 0;
	q->popped = q->pushed_seen = 0;
	q->tail = q->head = chunk_get(q);
	if (q->head == NULL)
		return -STMPI_ENOMEM;
	q->head->next = NULL;
	q->head->prev = NULL;
	return 0;
}

void stmpi_spscq_fini(struct stmpi_spscq *q)
{
	struct stmpi_spscq_chunk *c = q->head, *next;

	/* `next` of the tail chunk is NULL or a reserved, unused successor; both end the walk
	 * rightly. */
	for (; c != NULL; c = next) {
		next = c->next;
		free(c);
	}
	free(atomic_load(&q->spare));
	q->head = q->tail = NULL;
}

void *stmpi_spscq_reserve(struct stmpi_spscq *q)
{
	struct stmpi_spscq_chunk *c;

	if (stmpi_unlikely(q->tail_used == q->chunk_records)) {
		c = q->tail->next; /* left by an unreserve */
		if (c == NULL) {
			c = chunk_get(q);
			if (c == NULL)
				return NULL;
			c->next = NULL;
			c->prev = q->tail;
			q->tail->next = c;
		}
		q->tail = c;
		q->tail_used = 0;
	}
	return (char *)q->tail->records + (size_t)q->tail_used++ * q->record_bytes;
}

void stmpi_spscq_unreserve(struct stmpi_spscq *q, uint32_t records)
{
	while (records-- > 0) {
		if (q->tail_used == 0) {
			/* The chunk before still holds reserved records, so the consumer has not
			 * freed it. */
			q->tail = q->tail->prev;
			q->tail_used = q->chunk_records;
		}
		q->tail_used--;
	}
}

void stmpi_spscq_advance(struct stmpi_spscq *q)
{
	struct stmpi_spscq_chunk *done = q->head;

	/* A record in the next chunk is published, so the link was written before. */
	q->head = done->next;
	q->head_used = 0;
	/* Partner: chunk_get. */
	free(atomic_exchange_explicit(&q->spare, done, memory_order_acq_rel));
}
