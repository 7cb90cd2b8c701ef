/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.c: memory that is allocated and freed in the order of a stream. What was freed is given
 * again, at the same address: at once to the stream that freed it, to others when the free has been
 * reached. Beyond the pool's threshold it goes back at the next synchronisation.
 */
#include <stdlib.h>

#include "sim.h"

static struct pool *defaults[DEVICES_MAX], *currents[DEVICES_MAX];

static struct pool *pool_new(int device)
{
	struct pool *p = sim_alloc(sizeof(*p));

	p->device = device;
	p->handle = handle_new(HANDLE_POOL, p);
	p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
	return p;
}

struct pool *pool_default(int device)
{
	if (!defaults[device]) {
		defaults[device] = pool_new(device);
		defaults[device]->is_default = true;
	}
	return defaults[device];
}

struct pool *pool_current(int device)
{
	return currents[device] ? currents[device] : pool_default(device);
}

void pool_set_current(int device, struct pool *p)
{
	currents[device] = p;
}

struct pool *pool_create(int device)
{
	return pool_new(device);
}

/* Its memory in use stays until it is freed; what is cached goes. */
void pool_destroy(struct pool *p)
{
	for (int d = 0; d < DEVICES_MAX; d++)
		if (currents[d] == p)
			currents[d] = NULL;
	handle_drop(p->handle);
	pool_trim(p, 0);
}

static void forget(struct pool *p, unsigned i)
{
	p->cached[i] = p->cached[--p->cached_count];
}

void pool_trim(struct pool *p, size_t keep)
{
	for (unsigned i = 0; i < p->cached_count && p->reserved > keep;) {
		struct range *r = p->cached[i];

		if (!point_is_done(r->freed_at)) {
			i++;
			continue;
		}
		p->reserved -= r->reserved;
		memory_window_give(r->device, r->base, r->reserved);
		memory_remove(r);
		forget(p, i);
	}
}

static struct range *reuse(struct pool *p, const struct stream *s, size_t reserved)
{
	for (unsigned i = 0; i < p->cached_count; i++) {
		struct range *r = p->cached[i];

		if (r->reserved != reserved ||
		    (r->free_stream != s->handle && !point_is_done(r->freed_at)))
			continue;
		forget(p, i);
		return r;
	}
	return NULL;
}

static CUresult mark_in_stream(struct range *r, struct stream *s, enum work_kind kind)
{
	struct work w = {.kind = kind, .range = r};

	work_use(&w, r);
	return stream_issue(s, &w, NULL, 0);
}

/* ---- in captures: nodes. The address is the graph's for ever. ---- */

static CUresult graph_alloc(struct pool *p, struct stream *s, size_t bytes, size_t reserved,
			    uintptr_t *out)
{
	uintptr_t base = memory_window_take(p->device, reserved, 512);
	struct work w = {.kind = WORK_LIVE};

	if (!base)
		return CUDA_ERROR_OUT_OF_MEMORY;
	w.range = memory_add(base, bytes, MEM_POOL, p->device, s->ctx);
	w.range->is_graphs = true;
	w.range->pool = p;
	w.range->reserved = reserved;
	atomic_store(&w.range->is_live, false);
	*out = base;
	return stream_submit(s, &w);
}

/* In a capture or, of what a launch has left allocated, out of it. */
static CUresult graph_free_range(struct range *r, struct stream *s)
{
	struct work w = {.kind = WORK_DEAD, .range = r};

	if (s && s->capture)
		return stream_submit(s, &w);
	if (!r->is_allocated)
		return CUDA_ERROR_INVALID_VALUE;
	r->is_allocated = false;
	if (s)
		return mark_in_stream(r, s, WORK_DEAD);
	atomic_store(&r->is_live, false);
	return CUDA_SUCCESS;
}

CUresult pool_alloc(struct pool *p, struct stream *s, size_t bytes, uintptr_t *out)
{
	size_t reserved = (bytes + 511) / 512 * 512;
	struct range *old, *r;
	uintptr_t base;

	if (!has(CAP_POOLS))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->capture)
		return graph_alloc(p, s, bytes, reserved, out);
	old = reuse(p, s, reserved);
	base = old ? old->base : 0;
	if (!old) {
		if (memory_in_use(p->device) + reserved <= device_memory_bytes)
			base = memory_window_take(p->device, reserved, 512);
		if (!base)
			return CUDA_ERROR_OUT_OF_MEMORY;
		p->reserved += reserved;
	}
	if (p->reserved > p->reserved_high)
		p->reserved_high = p->reserved;
	r = memory_add(base, bytes, MEM_POOL, p->device, s->ctx);
	atomic_store(&r->is_live, false);
	r->reserved = reserved;
	r->pool = p;
	p->used += reserved;
	if (p->used > p->used_high)
		p->used_high = p->used;
	if (old)
		memory_remove(old);
	*out = base;
	return mark_in_stream(r, s, WORK_LIVE);
}

CUresult pool_free(struct range *r, struct stream *s)
{
	struct pool *p = r->pool;
	CUresult e = CUDA_SUCCESS;

	if (r->is_graphs)
		return graph_free_range(r, s);
	if (s && s->capture)
		return CUDA_ERROR_INVALID_VALUE; /* only what a graph allocates */
	r->is_freed = true;
	p->used -= r->reserved;
	if (s) {
		e = mark_in_stream(r, s, WORK_DEAD);
		r->freed_at = stream_point(s);
		r->free_stream = s->handle;
	} else {
		/* cuMemFree does not synchronise for such memory: the program has said that all
		 * accesses are over. */
		atomic_store(&r->is_live, false);
	}
	p->cached = sim_grow(p->cached, p->cached_count, sizeof(struct range *));
	p->cached[p->cached_count++] = r;
	return e;
}

void pool_synchronized(int device)
{
	if (defaults[device])
		pool_trim(defaults[device], defaults[device]->threshold);
	if (currents[device] && currents[device] != defaults[device])
		pool_trim(currents[device], currents[device]->threshold);
}
