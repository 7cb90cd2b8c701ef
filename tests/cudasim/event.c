/* SPDX-License-Identifier: BSD-3-Clause */
/* event.c: events. What a call refers to is the recording at the time of the call: a mark, that
 * outlives the event. Events between processes are two counters in a file that both map. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

enum {
	EVENT_MAGIC = 0x43535645
};

struct event_handle {
	uint32_t magic;
	int32_t pid, fd;
};

struct event *event_get(CUevent handle)
{
	return handle_get(HANDLE_EVENT, handle);
}

void mark_put(struct mark *m)
{
	if (m && atomic_fetch_sub(&m->refs, 1) == 1)
		free(m);
}

static struct event *event_new(struct context *ctx, unsigned flags)
{
	struct event *e = sim_alloc(sizeof(*e));

	e->ctx = ctx;
	e->flags = flags;
	e->fd = -1;
	e->handle = handle_new(HANDLE_EVENT, e);
	return e;
}

static CUresult map_shared(struct event *e)
{
	void *p = mmap(NULL, sizeof(*e->shared), PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, 0);

	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->shared = p;
	return CUDA_SUCCESS;
}

CUresult event_create(struct context *ctx, unsigned flags, struct event **out)
{
	const unsigned known =
		CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

	if (flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	if ((flags & CU_EVENT_INTERPROCESS) && !has(CAP_IPC))
		return CUDA_ERROR_NOT_SUPPORTED;
	*out = event_new(ctx, flags);
	if (!(flags & CU_EVENT_INTERPROCESS))
		return CUDA_SUCCESS;
	(*out)->fd = memfd_create("cudasim-event", MFD_CLOEXEC);
	if ((*out)->fd >= 0 && ftruncate((*out)->fd, sizeof(struct event_shared)) == 0 &&
	    map_shared(*out) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	event_destroy(*out);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The documentation: the call returns at once, and what was recorded still happens. The mapping of
 * an event between processes stays: a queue may still advance it. */
void event_destroy(struct event *e)
{
	handle_drop(e->handle);
	mark_put(e->mark);
	if (e->fd >= 0)
		close(e->fd);
	free(e->tips);
	free(e);
}

CUresult event_record(struct event *e, struct stream *s)
{
	if (e->ctx != s->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->capture)
		return capture_record(e, s);
	if (s->is_legacy) {
		CUresult error = capture_allows_legacy(s->ctx);

		if (error != CUDA_SUCCESS)
			return error;
	}
	e->capture = NULL;
	return event_issue_record(e, s);
}

struct mark *event_new_mark(struct event *e)
{
	struct mark *m = sim_alloc(sizeof(*m));

	atomic_store(&m->refs, 2); /* the event's and the queue's */
	m->shared = e->shared;
	if (e->shared)
		m->shared_count = atomic_fetch_add(&e->shared->issued, 1) + 1;
	mark_put(e->mark);
	e->mark = m;
	return m;
}

CUresult event_issue_record(struct event *e, struct stream *s)
{
	struct work w = {.kind = WORK_RECORD, .record.mark = event_new_mark(e)};
	CUresult error = stream_issue(s, &w, NULL, 0);

	e->mark->point = stream_point(s);
	return error;
}

/* The documentation: an event that was last recorded in a capture can be neither queried nor waited
 * for. */
static CUresult refuse_captured(const struct event *e)
{
	if (!e->capture)
		return CUDA_SUCCESS;
	if (capture_is_live(e->capture, e->capture_id))
		capture_invalidate(e->capture);
	return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult event_query(struct event *e)
{
	CUresult error = refuse_captured(e);
	bool is_done;

	if (error != CUDA_SUCCESS)
		return error;
	if (e->shared)
		is_done = atomic_load(&e->shared->done) >= atomic_load(&e->shared->issued);
	else
		is_done = !e->mark || point_is_done(e->mark->point);
	return is_done ? (CUresult)atomic_load(&e->ctx->error) : CUDA_ERROR_NOT_READY;
}

static void wait_shared(const struct event *e, struct context *ctx)
{
	const uint64_t value = atomic_load(&e->shared->issued);
	struct event_shared *shared = e->shared;
	struct pause p = {0};

	sim_unlock();
	while (atomic_load(&shared->done) < value && !atomic_load(&ctx->is_dead) &&
	       atomic_load(&ctx->error) == CUDA_SUCCESS)
		pause_turn(&p);
	sim_lock();
}

CUresult event_wait(struct event *e)
{
	struct context *ctx = e->ctx;
	CUresult error = refuse_captured(e);

	if (error != CUDA_SUCCESS)
		return error;
	if (e->shared)
		wait_shared(e, ctx);
	else if (e->mark)
		point_wait(e->mark->point);
	pool_synchronized(ctx->device);
	return (CUresult)atomic_load(&ctx->error);
}

CUresult event_elapsed(float *ms, struct event *start, struct event *end)
{
	if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || !start->mark || !end->mark ||
	    start->ctx != end->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!point_is_done(start->mark->point) || !point_is_done(end->mark->point))
		return CUDA_ERROR_NOT_READY;
	*ms = (float)(atomic_load(&end->mark->time_ns) - atomic_load(&start->mark->time_ns)) / 1e6f;
	return CUDA_SUCCESS;
}

CUresult event_export(struct event *e, CUipcEventHandle *out)
{
	struct event_handle h = {EVENT_MAGIC, getpid(), e->fd};

	if (!has(CAP_IPC))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!e->shared || e->fd < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	memset(out, 0, sizeof(*out));
	memcpy(out, &h, sizeof(h));
	return CUDA_SUCCESS;
}

CUresult event_import(struct context *ctx, const CUipcEventHandle *in, struct event **out)
{
	struct event_handle h;
	char path[64];

	memcpy(&h, in, sizeof(h));
	if (!has(CAP_IPC))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (h.magic != EVENT_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (h.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	*out = event_new(ctx, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", h.pid, h.fd);
	(*out)->fd = open(path, O_RDWR | O_CLOEXEC);
	if ((*out)->fd >= 0 && map_shared(*out) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	sim_say("an IPC event of process %d cannot be opened: %s", h.pid, strerror(errno));
	event_destroy(*out);
	return CUDA_ERROR_INVALID_VALUE;
}
