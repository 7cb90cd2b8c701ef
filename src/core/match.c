/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/match.h"

#include <stddef.h>
#include <utlist.h>

#include "core/core.h"
#include "util/compiler.h"

static unsigned int kind_of(int32_t source, int32_t tag)
{
	return (source == STMPI_ANY_SOURCE ? 1u : 0u) | (tag == STMPI_ANY_TAG ? 2u : 0u);
}

static uint32_t bucket_of(uint32_t ctx, int32_t source, int32_t tag)
{
	/* Odd 64-bit multipliers; the upper bits of the product are well mixed. */
	uint64_t h = (uint64_t)ctx * 0x9e3779b97f4a7c15u;

	h = (h ^ (uint32_t)source) * 0xbf58476d1ce4e5b9u;
	h = (h ^ (uint32_t)tag) * 0x94d049bb133111ebu;
	return (uint32_t)(h >> 40) & (STMPI_MATCH_BUCKETS - 1);
}

void stmpi_match_post(struct stmpi_match *m, struct stmpi_match_recv *recv)
{
	struct stmpi_match_recv **head = &m->posted[bucket_of(recv->ctx, recv->source, recv->tag)];

	recv->seq = m->seq++;
	m->posted_count[kind_of(recv->source, recv->tag)]++;
	DL_APPEND(*head, recv);
}

void stmpi_match_unpost(struct stmpi_match *m, struct stmpi_match_recv *recv)
{
	struct stmpi_match_recv **head = &m->posted[bucket_of(recv->ctx, recv->source, recv->tag)];

	m->posted_count[kind_of(recv->source, recv->tag)]--;
	DL_DELETE(*head, recv);
}

static struct stmpi_match_recv *first_posted(struct stmpi_match *m, uint32_t ctx, int32_t source,
					     int32_t tag)
{
	struct stmpi_match_recv *r = m->posted[bucket_of(ctx, source, tag)];

	while (r != NULL && (r->tag != tag || r->source != source || r->ctx != ctx))
		r = r->next;
	return r;
}

struct stmpi_match_recv *stmpi_match_arrive(struct stmpi_match *m, uint32_t ctx, int32_t source,
					    int32_t tag)
{
	struct stmpi_match_recv *best = NULL, *r;

	for (unsigned int k = 0; k < STMPI_MATCH_KINDS; k++) {
		if (m->posted_count[k] == 0)
			continue;
		r = first_posted(m, ctx, k & 1u ? STMPI_ANY_SOURCE : source,
				 k & 2u ? STMPI_ANY_TAG : tag);
		if (r != NULL && (best == NULL || r->seq < best->seq))
			best = r;
	}
	if (best != NULL)
		stmpi_match_unpost(m, best);
	return best;
}

static struct stmpi_match_msg **message_list(struct stmpi_match *m, unsigned int kind, uint32_t ctx,
					     int32_t source, int32_t tag)
{
	return &m->messages[kind][bucket_of(ctx, kind & 1u ? STMPI_ANY_SOURCE : source,
					    kind & 2u ? STMPI_ANY_TAG : tag)];
}

void stmpi_match_keep(struct stmpi_match *m, struct stmpi_match_msg *msg)
{
	for (unsigned int k = 0; k < STMPI_MATCH_KINDS; k++) {
		struct stmpi_match_msg **head = message_list(m, k, msg->ctx, msg->source, msg->tag);

		DL_APPEND2(*head, msg, link[k].prev, link[k].next);
	}
	m->message_count++;
}

struct stmpi_match_msg *stmpi_match_find(struct stmpi_match *m, uint32_t ctx, int32_t source,
					 int32_t tag)
{
	unsigned int k = kind_of(source, tag);
	struct stmpi_match_msg *msg;

	if (m->message_count == 0)
		return NULL;
	msg = *message_list(m, k, ctx, source, tag);
	while (msg != NULL && (msg->ctx != ctx || (!(k & 1u) && msg->source != source) ||
			       (!(k & 2u) && msg->tag != tag)))
		msg = msg->link[k].next;
	return msg;
}

void stmpi_match_drop(struct stmpi_match *m, struct stmpi_match_msg *msg)
{
	for (unsigned int k = 0; k < STMPI_MATCH_KINDS; k++) {
		struct stmpi_match_msg **head = message_list(m, k, msg->ctx, msg->source, msg->tag);

		DL_DELETE2(*head, msg, link[k].prev, link[k].next);
	}
	m->message_count--;
}
