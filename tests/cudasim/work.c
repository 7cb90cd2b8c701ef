/* SPDX-License-Identifier: BSD-3-Clause */
/* work.c: what a stream can be given, and how a queue's thread runs it. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static void *copy_of(const void *p, size_t bytes)
{
	void *copy;

	if (!p)
		return NULL;
	copy = sim_alloc(bytes);
	return memcpy(copy, p, bytes);
}

void work_copy(struct work *to, const struct work *from)
{
	*to = *from;
	to->uses = NULL;
	to->use_count = 0;
	switch (from->kind) {
	case WORK_COPY:
		to->copy.staged = copy_of(from->copy.staged, from->copy.width);
		break;
	case WORK_BATCH:
		to->batch.items =
			copy_of(from->batch.items, from->batch.count * sizeof(*from->batch.items));
		break;
	case WORK_KERNEL:
		to->kernel.arguments =
			copy_of(from->kernel.arguments, from->kernel.function->argument_bytes);
		break;
	case WORK_CHILD:
		to->child = graph_clone(from->child);
		break;
	default:
		break;
	}
}

void work_use(struct work *w, struct range *r)
{
	if (!r)
		return;
	w->uses = sim_grow(w->uses, w->use_count, sizeof(struct range *));
	w->uses[w->use_count++] = r;
	atomic_fetch_add(&r->refs, 1);
}

void work_release(struct work *w)
{
	switch (w->kind) {
	case WORK_COPY:
		free(w->copy.staged);
		break;
	case WORK_BATCH:
		free(w->batch.items);
		break;
	case WORK_KERNEL:
		free(w->kernel.arguments);
		break;
	case WORK_CHILD:
		graph_free(w->child);
		break;
	default:
		break;
	}
	for (unsigned i = 0; i < w->use_count; i++)
		memory_put(w->uses[i]);
	free(w->uses);
	w->uses = NULL;
	w->use_count = 0;
	w->kind = WORK_NOTHING;
}

/* ---- running ---- */

static void run_copy(const struct copy *c)
{
	char *dst = memory_cpu(c->dst);
	const char *src = c->staged ? c->staged : memory_cpu(c->src);

	for (size_t z = 0; z < c->depth; z++)
		for (size_t y = 0; y < c->height; y++)
			memmove(dst + z * c->dst_slice + y * c->dst_pitch,
				src + z * c->src_slice + y * c->src_pitch, c->width);
}

static void run_set(const struct set *s)
{
	char *row = memory_cpu(s->dst);

	for (size_t y = 0; y < s->height; y++, row += s->pitch)
		if (s->element_bytes == 1)
			memset(row, (int)s->value, s->width);
		else
			for (size_t x = 0; x < s->width; x += s->element_bytes)
				memcpy(row + x, &s->value, s->element_bytes); /* little endian */
}

/* Of pools: before the stream has reached the allocation, or after its free. Of other processes:
 * after the owner's. */
static bool uses_are_live(const struct work *w, struct context *ctx)
{
	for (unsigned i = 0; i < w->use_count; i++) {
		const struct range *r = w->uses[i];

		if (atomic_load(&r->is_live) && !(r->kind == MEM_IPC && ipc_is_gone(r)))
			continue;
		context_fault(
			ctx, CUDA_ERROR_ILLEGAL_ADDRESS,
			"work in a stream touches memory before its allocation or after its free");
		return false;
	}
	return true;
}

static void run_host(void *arg)
{
	struct work *w = arg;

	w->host.fn(w->host.data);
}

struct callback_call {
	struct work *work;
	CUresult status;
};

static void run_callback(void *arg)
{
	struct callback_call *c = arg;

	c->work->callback.fn(c->work->callback.stream, c->status, c->work->callback.data);
}

static void run_record(const struct mark *m)
{
	struct event_shared *shared = m->shared;
	uint64_t done;

	if (!shared)
		return;
	done = atomic_load(&shared->done);
	while (done < m->shared_count &&
	       !atomic_compare_exchange_weak(&shared->done, &done, m->shared_count))
		;
}

static void wait_shared(const struct work *w, struct context *ctx, struct queue *q)
{
	struct pause p = {0};

	while (atomic_load(w->shared.word) < w->shared.value &&
	       may_wait(&p, ctx, q, "for an event of another process", NULL))
		;
}

/* Even when the context is lost: others wait for these. */
static bool run_always(struct work *w, CUresult status)
{
	struct callback_call call = {w, status};

	switch (w->kind) {
	case WORK_RECORD:
		atomic_store(&w->record.mark->time_ns, now_ns());
		run_record(w->record.mark);
		mark_put(w->record.mark);
		return true;
	case WORK_CALLBACK:
		callback_run(run_callback, &call);
		return true;
	case WORK_LIVE:
		atomic_store(&w->range->is_live, true);
		return true;
	case WORK_DEAD:
		atomic_store(&w->range->is_live, false);
		return true;
	default:
		return false;
	}
}

void work_run(struct work *w, struct context *ctx, struct queue *q)
{
	const bool is_dead = atomic_load(&ctx->is_dead);
	const CUresult status =
		is_dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : (CUresult)atomic_load(&ctx->error);

	if (run_always(w, status) || status != CUDA_SUCCESS || !uses_are_live(w, ctx))
		return;
	switch (w->kind) {
	case WORK_COPY:
		run_copy(&w->copy);
		break;
	case WORK_SET:
		run_set(&w->set);
		break;
	case WORK_BATCH:
		memop_run(w, ctx, q);
		break;
	case WORK_KERNEL:
		kernel_run(w, ctx, q);
		break;
	case WORK_HOST:
		callback_run(run_host, w);
		break;
	case WORK_WAIT_SHARED:
		wait_shared(w, ctx, q);
		break;
	default:
		break;
	}
}
