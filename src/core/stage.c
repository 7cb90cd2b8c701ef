/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage.c: memory that both the CPU and a stream's device reach: completion words made known to the
 * device, and the packets through which device memory is sent and received.
 *
 * A packet belongs to its stream for ever and is only used by operations of that stream, which
 * write it by a copy in the stream's order, or by a message that cannot start before the stream has
 * come by. So a packet is free for the next operation as soon as the wait for its own is queued
 * (stmpi_stage_free), long before that has ended: a stream that waits for each message needs one
 * packet, however many are enqueued. Operations that no stream waits for give theirs back when they
 * are released (stmpi_stage_put).
 *
 * stmpi_stage_get and _free: under the stream's mutex. stmpi_stage_put: under the token. Hot.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/core_int.h"
#include "util/error.h"

#define E (&stmpi_engine)

/* Completion words are made known to the device in blocks, so that an operation rarely costs a call
 * for it: 1 MiB, which is 131 072 operations at once. */
#define BLOCK_WORDS (1u << 17)

/* Packets of the smallest size come in blocks of this many. */
#define SMALL_COUNT 16u
#define SMALL_BYTES ((size_t)1 << STMPI_STAGE_MIN)

struct stmpi_stage_block {
	void *mem;
	size_t bytes;
	struct stmpi_stage_block *next;
	struct stmpi_stage packets[];
};

int stmpi_stage_map_words(struct stmpi_stream *s)
{
	const size_t bytes = BLOCK_WORDS * sizeof(uint64_t);
	uint32_t used;
	int ret = 0;

	if (s->ops == NULL)
		return 0;
	pthread_mutex_lock(&E->mutex);
	used = E->flags.used;
	pthread_mutex_unlock(&E->mutex);
	while (ret == 0 && s->words_mapped < used) {
		ret = s->ops->map(s->port, E->flags.words + s->words_mapped, bytes);
		if (ret == 0)
			s->words_mapped += BLOCK_WORDS;
	}
	return ret;
}

/* ---- packets ---- */

static unsigned class_of(size_t bytes)
{
	unsigned bits = bytes <= 1 ? 0 : 64u - (unsigned)__builtin_clzll(bytes - 1);

	return bits <= STMPI_STAGE_MIN ? 0 : bits - STMPI_STAGE_MIN;
}

static int grow(struct stmpi_stream *s, unsigned class)
{
	size_t each = SMALL_BYTES << class;
	unsigned count = class == 0 ? SMALL_COUNT : 1;
	struct stmpi_stage_block *b = calloc(1, sizeof(*b) + count * sizeof(b->packets[0]));
	int ret;

	if (b == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a packet of %zu bytes", each);
	/* Ordinary memory that is then registered, so that peers and network cards reach it as they
	 * reach any other. */
	b->bytes = each * count;
	b->mem = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->mem == MAP_FAILED) {
		free(b);
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a packet of %zu bytes", each);
	}
	ret = s->ops->map(s->port, b->mem, b->bytes);
	if (ret != 0) {
		munmap(b->mem, b->bytes);
		free(b);
		return ret;
	}
	for (unsigned i = 0; i < count; i++) {
		struct stmpi_stage *p = &b->packets[i];

		p->mem = (char *)b->mem + i * each;
		p->class = class;
		p->next = s->stages.local[class];
		s->stages.local[class] = p;
	}
	b->next = s->stages.blocks;
	s->stages.blocks = b;
	return 0;
}

/* Take over what was given back. */
static void collect(struct stmpi_stage_pool *pool)
{
	/* Acquire: partner stmpi_stage_put. */
	struct stmpi_stage *p = atomic_exchange_explicit(&pool->returned, NULL,
							 memory_order_acquire),
			   *next;

	for (; p != NULL; p = next) {
		next = p->next;
		p->next = pool->local[p->class];
		pool->local[p->class] = p;
	}
}

int stmpi_stage_get(struct stmpi_stream *s, size_t bytes, struct stmpi_stage **packet)
{
	unsigned class = class_of(bytes);
	struct stmpi_stage *p;
	int ret;

	if (class >= STMPI_STAGE_CLASSES)
		return stmpi_error_set(STMPI_ENOMEM, "%zu bytes of device memory are too many",
				       bytes);
	if (s->stages.local[class] == NULL)
		collect(&s->stages);
	if (s->stages.local[class] == NULL) {
		ret = grow(s, class);
		if (ret != 0)
			return ret;
	}
	p = s->stages.local[class];
	s->stages.local[class] = p->next;
	*packet = p;
	return 0;
}

void stmpi_stage_put(struct stmpi_stream *s, struct stmpi_stage *packet)
{
	struct stmpi_stage *head = atomic_load_explicit(&s->stages.returned, memory_order_relaxed);

	/* Under the token, so one at a time puts; the owner takes all: no ABA. Release: partner
	 * collect. */
	do {
		packet->next = head;
	} while (!atomic_compare_exchange_weak_explicit(
		&s->stages.returned, &head, packet, memory_order_release, memory_order_relaxed));
}

void stmpi_stage_free(struct stmpi_stream *s, struct stmpi_stage *packet)
{
	packet->next = s->stages.local[packet->class];
	s->stages.local[packet->class] = packet;
}

int stmpi_stage_open(struct stmpi_stream *s)
{
	struct stmpi_stage_block *b;
	int ret;

	s->words_mapped = 0;
	ret = stmpi_stage_map_words(s);
	/* Packets of an earlier life: mapped still, but if the context that did it has ended. */
	for (b = s->stages.blocks; b != NULL && ret == 0; b = b->next)
		ret = s->ops->map(s->port, b->mem, b->bytes);
	/* What must be asked of the driver is asked now, not on the path of a message. */
	if (ret == 0 && s->stages.blocks == NULL && (s->ops->caps & STMPI_STREAM_CAP_DEVICE_MEM))
		ret = grow(s, 0);
	return ret;
}

void stmpi_stage_forget(struct stmpi_stream *s)
{
	atomic_store(&s->stages.returned, NULL);
	memset(s->stages.local, 0, sizeof(s->stages.local));
}

void stmpi_stage_fini(struct stmpi_stream *s)
{
	struct stmpi_stage_block *b = s->stages.blocks, *next;

	for (; b != NULL; b = next) {
		next = b->next;
		munmap(b->mem, b->bytes);
		free(b);
	}
	s->stages.blocks = NULL;
	stmpi_stage_forget(s);
}
