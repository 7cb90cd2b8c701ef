/* SPDX-License-Identifier: BSD-3-Clause */
/* context.c: contexts: primary ones, counted by who retains them, and those that programs make. */
#include <stdlib.h>

#include "sim.h"

static struct context *primaries[DEVICES_MAX];
static uint64_t last_id;

struct context *context_get(CUcontext handle)
{
	return handle_get(HANDLE_CONTEXT, handle);
}

/* The struct stays for ever: work that is still queued, and threads that have it current, point to
 * it. */
CUresult context_create(int device, unsigned flags, struct context **out)
{
	struct context *ctx = sim_alloc(sizeof(*ctx));

	if (memory_init() != CUDA_SUCCESS) {
		free(ctx);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	ctx->device = device;
	ctx->flags = flags;
	ctx->id = ++last_id;
	ctx->handle = handle_new(HANDLE_CONTEXT, ctx);
	calls_count_context(device);
	*out = ctx;
	return CUDA_SUCCESS;
}

/* What was queued is cancelled: a wait that nobody fulfils must not hold up the end. */
void context_destroy(struct context *ctx)
{
	struct point points[QUEUES_MAX];
	unsigned n = context_points(ctx, points);

	atomic_store(&ctx->is_dead, true);
	handle_drop(ctx->handle);
	for (unsigned i = 0; i < n; i++)
		point_wait(points[i]);
	while (ctx->modules)
		module_unload(ctx->modules);
	if (ctx->is_primary)
		primaries[ctx->device] = NULL;
}

struct context *context_primary(int device)
{
	return primaries[device];
}

void context_fault(struct context *ctx, CUresult error, const char *why)
{
	int none = CUDA_SUCCESS;

	if (atomic_compare_exchange_strong(&ctx->error, &none, (int)error))
		sim_say("device %d: the context is lost, error %d: %s", ctx->device, (int)error,
			why);
}

unsigned context_points(const struct context *ctx, struct point *out)
{
	unsigned n = 0;

	for (unsigned i = 0; i < sim_config.queues; i++)
		if (ctx->last[i])
			out[n++] = (struct point){queue_get(ctx->device, i), ctx->last[i]};
	return n;
}

CUresult context_wait(struct context *ctx)
{
	struct point points[QUEUES_MAX];
	unsigned n = context_points(ctx, points);

	for (unsigned i = 0; i < n; i++)
		point_wait(points[i]);
	return (CUresult)atomic_load(&ctx->error);
}

/* ---- driver_context.c's primary contexts ---- */

CUresult context_primary_retain(int device, struct context **out)
{
	struct context *ctx = primaries[device];

	if (!ctx) {
		CUresult e = context_create(device, 0, &ctx);

		if (e != CUDA_SUCCESS)
			return e;
		ctx->is_primary = true;
		primaries[device] = ctx;
	}
	ctx->primary_refs++;
	*out = ctx;
	return CUDA_SUCCESS;
}

/* ---- the stack of the thread ---- */

enum {
	STACK_MAX = 64
};
static _Thread_local struct context *stack[STACK_MAX];
static _Thread_local unsigned depth;

struct context *context_current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

CUresult context_push(struct context *ctx)
{
	if (depth == STACK_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = ctx;
	return CUDA_SUCCESS;
}

struct context *context_pop(void)
{
	return depth ? stack[--depth] : NULL;
}

/* Replaces the top; NULL takes it away. */
CUresult context_set(struct context *ctx)
{
	if (depth)
		depth--;
	return ctx ? context_push(ctx) : CUDA_SUCCESS;
}
