/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.c: streams, and the order between the legacy default stream and the others of its context.
 */
#include <stdlib.h>

#include "sim.h"

static uint64_t last_id;

static struct stream *stream_new(struct context *ctx, unsigned flags, int priority)
{
	struct stream *s = sim_alloc(sizeof(*s));

	s->ctx = ctx;
	s->flags = flags;
	s->priority = priority;
	s->id = ++last_id;
	s->queue = queue_get(ctx->device, ctx->streams_made++ % (unsigned)sim_config.queues);
	return s;
}

static void stream_free(struct stream *s)
{
	capture_stream_ends(s);
	free(s->tips);
	free(s->told);
	free(s);
}

CUresult stream_create(struct context *ctx, unsigned flags, int priority, struct stream **out)
{
	if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	/* The documentation: a priority outside the range becomes its nearest end. */
	priority = priority > STREAM_PRIORITY_LEAST	 ? STREAM_PRIORITY_LEAST
		   : priority < STREAM_PRIORITY_GREATEST ? STREAM_PRIORITY_GREATEST
							 : priority;
	*out = stream_new(ctx, flags, priority);
	(*out)->handle = handle_new(HANDLE_STREAM, *out);
	return CUDA_SUCCESS;
}

/* ---- the default streams ---- */

struct own {
	struct stream *stream;
	struct own *next;
};
static _Thread_local struct own *own_streams;
static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

static void end_of_thread(void *unused)
{
	(void)unused;
	sim_lock();
	while (own_streams) {
		struct own *o = own_streams;

		own_streams = o->next;
		stream_free(o->stream);
		free(o);
	}
	sim_unlock();
}

static void make_key(void)
{
	pthread_key_create(&thread_end, end_of_thread);
}

static struct stream *per_thread(struct context *ctx)
{
	struct own *o = own_streams;

	while (o && o->stream->ctx != ctx)
		o = o->next;
	if (o)
		return o->stream;
	pthread_once(&thread_end_once, make_key);
	o = sim_alloc(sizeof(*o));
	o->stream = stream_new(ctx, 0, 0);
	o->stream->handle = CU_STREAM_PER_THREAD;
	o->stream->is_per_thread = true;
	o->next = own_streams;
	own_streams = o;
	pthread_setspecific(thread_end, o);
	return o->stream;
}

static struct stream *legacy(struct context *ctx)
{
	if (!ctx->legacy) {
		ctx->legacy = stream_new(ctx, 0, 0);
		ctx->legacy->handle = CU_STREAM_LEGACY;
		ctx->legacy->is_legacy = true;
	}
	return ctx->legacy;
}

CUresult stream_get(CUstream handle, struct stream **out)
{
	struct context *ctx = context_current();

	if (handle == CU_STREAM_LEGACY)
		*out = legacy(ctx);
	else if (handle == CU_STREAM_PER_THREAD)
		*out = per_thread(ctx);
	else
		*out = handle_get(HANDLE_STREAM, handle);
	if (!*out)
		return CUDA_ERROR_INVALID_HANDLE;
	return atomic_load(&(*out)->ctx->is_dead) ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUresult stream_get_current(CUstream handle, struct stream **out)
{
	CUresult e = stream_get(handle, out);

	if (e == CUDA_SUCCESS && (*out)->ctx != context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	return e;
}

/* Returns at once; what was issued is still run. The legacy and per-thread streams cannot be
 * destroyed. */
CUresult stream_destroy(struct stream *s)
{
	if (s->is_legacy || s->is_per_thread)
		return CUDA_ERROR_INVALID_HANDLE;
	handle_drop(s->handle);
	stream_free(s);
	return CUDA_SUCCESS;
}

/* ---- work ---- */

CUresult stream_submit(struct stream *s, struct work *w)
{
	CUresult e;

	if (s->capture)
		return capture_add(s, w);
	e = s->is_legacy ? capture_allows_legacy(s->ctx) : CUDA_SUCCESS;
	if (e != CUDA_SUCCESS) {
		work_release(w);
		return e;
	}
	return stream_issue(s, w, NULL, 0);
}

/* The legacy stream's work comes after all that was issued to blocking streams, and theirs after
 * its. */
CUresult stream_issue(struct stream *s, struct work *w, const struct point *after,
		      unsigned after_count)
{
	struct context *ctx = s->ctx;
	const bool is_blocking = !(s->flags & CU_STREAM_NON_BLOCKING);
	struct point *points = sim_alloc((after_count + sim_config.queues + 1) * sizeof(*points));
	unsigned n = 0;

	while (n < after_count) {
		points[n] = after[n];
		n++;
	}
	for (unsigned i = 0; s->is_legacy && i < sim_config.queues; i++)
		if (ctx->blocking_last[i])
			points[n++] =
				(struct point){queue_get(ctx->device, i), ctx->blocking_last[i]};
	if (!s->is_legacy && is_blocking && ctx->legacy_last.queue)
		points[n++] = ctx->legacy_last;
	s->last = queue_issue(s->queue, ctx, w, points, n);
	free(points);
	ctx->last[s->queue->index] = s->last;
	if (s->is_legacy)
		ctx->legacy_last = stream_point(s);
	else if (is_blocking)
		ctx->blocking_last[s->queue->index] = s->last;
	return CUDA_SUCCESS;
}

struct point stream_point(const struct stream *s)
{
	return (struct point){s->last ? s->queue : NULL, s->last};
}

/* What a synchronisation with the stream is for: on the legacy stream, the blocking ones too. */
static unsigned points_of(const struct stream *s, struct point *out)
{
	unsigned n = 0;

	out[n++] = stream_point(s);
	for (unsigned i = 0; s->is_legacy && i < sim_config.queues; i++)
		if (s->ctx->blocking_last[i])
			out[n++] = (struct point){queue_get(s->ctx->device, i),
						  s->ctx->blocking_last[i]};
	return n;
}

CUresult stream_query(struct stream *s)
{
	struct point points[QUEUES_MAX + 1];
	unsigned n = points_of(s, points);

	for (unsigned i = 0; i < n; i++)
		if (!point_is_done(points[i]))
			return CUDA_ERROR_NOT_READY;
	return (CUresult)atomic_load(&s->ctx->error);
}

/* Another thread may destroy the stream meanwhile. */
CUresult stream_wait(struct stream *s)
{
	struct context *ctx = s->ctx;
	struct point points[QUEUES_MAX + 1];
	unsigned n = points_of(s, points);

	for (unsigned i = 0; i < n; i++)
		point_wait(points[i]);
	pool_synchronized(ctx->device);
	return (CUresult)atomic_load(&ctx->error);
}

CUresult stream_wait_event(struct stream *s, struct event *e)
{
	struct work w = {.kind = WORK_NOTHING};

	if (s->capture || e->capture)
		return capture_wait(s, e);
	if (e->shared) {
		w.kind = WORK_WAIT_SHARED;
		w.shared.word = &e->shared->done;
		w.shared.value = atomic_load(&e->shared->issued);
		return stream_issue(s, &w, NULL, 0);
	}
	if (!e->mark)
		return CUDA_SUCCESS;
	return stream_issue(s, &w, &e->mark->point, 1);
}
