/* SPDX-License-Identifier: BSD-3-Clause */
/* memop.c: stream memory operations: writes of a word, and waits for one, at most 256 in a batch.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum {
	BATCH_MAX = 256
};

static bool is_wait(const CUstreamBatchMemOpParams *p)
{
	return p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
	       p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static bool is_write(const CUstreamBatchMemOpParams *p)
{
	return p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
	       p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static bool is_64(const CUstreamBatchMemOpParams *p)
{
	return p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
	       p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static CUresult flags_check(const CUstreamBatchMemOpParams *p)
{
	if (is_write(p))
		return p->writeValue.flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER
			       ? CUDA_ERROR_INVALID_VALUE
			       : CUDA_SUCCESS;
	/* No simulated device can flush remote writes, as its attribute says. */
	if (p->waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (p->waitValue.flags > CU_STREAM_WAIT_VALUE_NOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->waitValue.flags == CU_STREAM_WAIT_VALUE_NOR && !has(CAP_WAIT_NOR))
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

/* Aligned, in memory that the device may reach by its own means: not managed, not of the host
 * alone. */
static CUresult item_check(struct context *ctx, struct work *w, const CUstreamBatchMemOpParams *p)
{
	const size_t bytes = is_64(p) ? 8 : 4;
	const uintptr_t address = is_wait(p) ? p->waitValue.address : p->writeValue.address;
	struct range *r;
	CUresult e;

	if (p->operation == CU_STREAM_MEM_OP_BARRIER)
		return p->memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	if (p->operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!is_wait(p) && !is_write(p))
		return CUDA_ERROR_INVALID_VALUE;
	if (is_64(p) && !has(CAP_MEMOPS64))
		return CUDA_ERROR_NOT_SUPPORTED;
	e = flags_check(p);
	if (e != CUDA_SUCCESS)
		return e;
	if (address % bytes)
		return CUDA_ERROR_INVALID_VALUE;
	e = memory_reach(ctx, address, bytes, is_write(p), &r);
	if (e == CUDA_SUCCESS && r->kind == MEM_MANAGED)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		work_use(w, r);
	return e;
}

CUresult memop_check(struct context *ctx, struct work *w)
{
	for (unsigned i = 0; i < w->batch.count; i++) {
		CUresult e = item_check(ctx, w, &w->batch.items[i]);

		if (e != CUDA_SUCCESS)
			return e;
	}
	return CUDA_SUCCESS;
}

CUresult memop_submit(struct stream *s, unsigned count, const CUstreamBatchMemOpParams *items,
		      unsigned flags)
{
	struct work w = {.kind = WORK_BATCH};
	CUresult e;

	if (!has(CAP_MEMOPS))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!items || count == 0 || count > BATCH_MAX || flags)
		return CUDA_ERROR_INVALID_VALUE;
	w.batch.count = count;
	w.batch.items = sim_alloc(count * sizeof(*items));
	memcpy(w.batch.items, items, count * sizeof(*items));
	e = memop_check(s->ctx, &w);
	if (e == CUDA_SUCCESS)
		return stream_submit(s, &w);
	work_release(&w);
	return e;
}

/* ---- running ---- */

static bool is_fulfilled(const CUstreamBatchMemOpParams *p)
{
	const void *word = memory_cpu(p->waitValue.address);
	const bool is_wide = is_64(p);
	const uint64_t want = is_wide ? p->waitValue.value64 : p->waitValue.value;
	const uint64_t have = is_wide ? atomic_load((const atomic_uint_fast64_t *)word)
				      : atomic_load((const _Atomic uint32_t *)word);

	switch (p->waitValue.flags) {
	case CU_STREAM_WAIT_VALUE_EQ:
		return have == want;
	case CU_STREAM_WAIT_VALUE_AND:
		return (have & want) != 0;
	case CU_STREAM_WAIT_VALUE_NOR:
		return (is_wide ? ~(have | want) : (uint32_t) ~(have | want)) != 0;
	default: /* GEQ, cyclic */
		return is_wide ? (int64_t)(have - want) >= 0
			       : (int32_t)(uint32_t)(have - want) >= 0;
	}
}

void memop_run(struct work *w, struct context *ctx, struct queue *q)
{
	for (unsigned i = 0; i < w->batch.count; i++) {
		const CUstreamBatchMemOpParams *p = &w->batch.items[i];
		struct pause pause = {0};

		if (p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
			atomic_store((atomic_uint_fast64_t *)memory_cpu(p->writeValue.address),
				     p->writeValue.value64);
		else if (p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
			atomic_store((_Atomic uint32_t *)memory_cpu(p->writeValue.address),
				     p->writeValue.value);
		else if (is_wait(p))
			while (!is_fulfilled(p))
				if (!may_wait(&pause, ctx, q, "for a word",
					      (void *)p->waitValue.address))
					return;
	}
}
