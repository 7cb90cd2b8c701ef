/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.c: copies and sets: what their addresses may be, and when the call returns (the driver API's
 * "API synchronization behavior"): a copy to or between host memory that the device does not know
 * is complete when its call returns; one from such memory has been read; others are only queued by
 * the asynchronous calls, and by the synchronous ones between device memory.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum {
	STAGED_MAX = 65536
};

static size_t span(size_t width, size_t height, size_t depth, size_t pitch, size_t slice)
{
	return (depth - 1) * slice + (height - 1) * pitch + width;
}

/* NULL in *r for pageable memory. */
static CUresult side_check(uintptr_t address, size_t bytes, enum side side, bool is_write,
			   struct range **r)
{
	*r = memory_find(address);
	if (!*r && (side == SIDE_DEVICE || memory_window_of(address) >= 0))
		return CUDA_ERROR_INVALID_VALUE;
	if (!*r)
		return address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (side == SIDE_HOST && memory_is_device(*r)) {
		sim_undefined("a copy names %p, memory of the device, as host memory",
			      (void *)address);
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* Copies need no access between devices, but for memory that was mapped: NULL. */
	return memory_reach(NULL, address, bytes, is_write, r);
}

static CUresult copy_ranges(const struct copy *c, enum side dst_side, enum side src_side,
			    struct range **dst, struct range **src)
{
	CUresult e =
		side_check(c->dst, span(c->width, c->height, c->depth, c->dst_pitch, c->dst_slice),
			   dst_side, true, dst);

	if (e != CUDA_SUCCESS)
		return e;
	return side_check(c->src, span(c->width, c->height, c->depth, c->src_pitch, c->src_slice),
			  src_side, false, src);
}

CUresult copy_check(struct context *ctx, struct work *w)
{
	struct range *dst, *src;
	CUresult e = copy_ranges(&w->copy, SIDE_ANY, SIDE_ANY, &dst, &src);

	(void)ctx;
	if (e != CUDA_SUCCESS)
		return e;
	work_use(w, dst);
	work_use(w, src);
	return CUDA_SUCCESS;
}

static bool is_on_device(const struct range *r)
{
	return memory_is_device(r) || (r && r->kind == MEM_MANAGED);
}

static bool must_wait(const struct copy *c, const struct range *dst, const struct range *src,
		      bool is_async)
{
	if (!is_on_device(dst) && !is_on_device(src))
		return true;
	if (!dst || (!src && !c->staged))
		return true;
	if (is_async || (is_on_device(dst) && is_on_device(src)))
		return false;
	return !c->staged;
}

static void stage(struct copy *c)
{
	const char *src = (const char *)c->src;

	if (c->height != 1 || c->depth != 1 || c->width > STAGED_MAX)
		return;
	c->staged = sim_alloc(c->width);
	memcpy(c->staged, src, c->width);
}

CUresult copy_submit(struct stream *s, struct copy *c, enum side dst_side, enum side src_side,
		     bool is_async)
{
	struct work w = {.kind = WORK_COPY, .copy = *c};
	struct range *dst, *src;
	bool is_wait;
	CUresult e;

	if (!is_async && (e = capture_allows_unsafe()) != CUDA_SUCCESS)
		return e;
	if (c->width == 0 || c->height == 0 || c->depth == 0)
		return CUDA_SUCCESS;
	e = copy_ranges(c, dst_side, src_side, &dst, &src);
	if (e != CUDA_SUCCESS)
		return e;
	work_use(&w, dst);
	work_use(&w, src);
	if (s->capture)
		return stream_submit(s, &w);
	if (!src)
		stage(&w.copy);
	is_wait = must_wait(&w.copy, dst, src, is_async);
	e = stream_submit(s, &w);
	if (e == CUDA_SUCCESS && is_wait)
		e = stream_wait(s);
	return e;
}

/* ---- sets ---- */

static CUresult set_range(struct context *ctx, const struct set *s, struct range **r)
{
	if (s->dst % s->element_bytes || (s->height > 1 && s->pitch % s->element_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return memory_reach(ctx, s->dst, span(s->width, s->height, 1, s->pitch, 0), true, r);
}

CUresult set_check(struct context *ctx, struct work *w)
{
	struct range *r;
	CUresult e = set_range(ctx, &w->set, &r);

	if (e == CUDA_SUCCESS)
		work_use(w, r);
	return e;
}

/* The documentation: synchronous sets return before they are done, unless the memory is pinned host
 * memory. */
CUresult set_submit(struct stream *s, const struct set *set, bool is_async)
{
	struct work w = {.kind = WORK_SET, .set = *set};
	bool is_wait;
	CUresult e;

	if (!is_async && (e = capture_allows_unsafe()) != CUDA_SUCCESS)
		return e;
	if (set->width == 0 || set->height == 0)
		return CUDA_SUCCESS;
	e = set_check(s->ctx, &w);
	if (e != CUDA_SUCCESS)
		return e;
	is_wait = !is_async && memory_is_pinned(w.uses[0]) && !s->capture;
	e = stream_submit(s, &w);
	if (e == CUDA_SUCCESS && is_wait)
		e = stream_wait(s);
	return e;
}
