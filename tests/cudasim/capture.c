/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.c: streams whose work becomes a graph. A call that is not allowed while a capture goes on
 * returns an error, and the capture is then invalid: it ends with an error, whatever else is done.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static struct capture *captures;
static uint64_t last_id;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool capture_is_live(const struct capture *c, uint64_t id)
{
	for (const struct capture *l = captures; l; l = l->next)
		if (l == c)
			return l->id == id;
	return false;
}

void capture_invalidate(struct capture *c)
{
	c->is_invalid = true;
}

static CUresult refuse(struct capture *c, CUresult e)
{
	capture_invalidate(c);
	return e;
}

/* ---- what others may do meanwhile ---- */

/* By the modes of the captures and of the calling thread (cuThreadExchangeStreamCaptureMode). */
static bool prohibits(const struct capture *c)
{
	if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (pthread_equal(c->thread, pthread_self()))
		return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult capture_allows_unsafe(void)
{
	CUresult e = CUDA_SUCCESS;

	for (struct capture *c = captures; c; c = c->next)
		if (prohibits(c))
			e = refuse(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return e;
}

static bool has_blocking_stream(const struct capture *c, const struct context *ctx)
{
	for (unsigned i = 0; i < c->stream_count; i++)
		if (c->streams[i]->ctx == ctx && !(c->streams[i]->flags & CU_STREAM_NON_BLOCKING))
			return true;
	return false;
}

bool capture_is_blocking(const struct context *ctx)
{
	for (const struct capture *c = captures; c; c = c->next)
		if (has_blocking_stream(c, ctx))
			return true;
	return false;
}

CUresult capture_allows_legacy(struct context *ctx)
{
	CUresult e = CUDA_SUCCESS;

	for (struct capture *c = captures; c; c = c->next)
		if (has_blocking_stream(c, ctx))
			e = refuse(c, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	return e;
}

CUresult capture_allows_context_sync(struct context *ctx)
{
	CUresult e = CUDA_SUCCESS;

	for (struct capture *c = captures; c; c = c->next)
		for (unsigned i = 0; i < c->stream_count; i++)
			if (c->streams[i]->ctx == ctx)
				e = refuse(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return e;
}

CUresult capture_allows_sync(struct stream *s)
{
	if (s->capture)
		return refuse(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return s->is_legacy ? capture_allows_legacy(s->ctx) : CUDA_SUCCESS;
}

CUresult capture_mode_exchange(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode old = thread_mode;

	if ((unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	thread_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

/* ---- the streams of a capture ---- */

static void add_tip(struct stream *s, struct node *n)
{
	for (unsigned i = 0; i < s->tip_count; i++)
		if (s->tips[i] == n)
			return;
	s->tips = sim_grow(s->tips, s->tip_count, sizeof(struct node *));
	s->tips[s->tip_count++] = n;
}

static void clear_tips(struct stream *s)
{
	free(s->tips);
	s->tips = NULL;
	s->tip_count = 0;
}

CUresult capture_set_tips(struct stream *s, struct node *const *nodes, unsigned count, bool is_add)
{
	if (!is_add)
		clear_tips(s);
	for (unsigned i = 0; i < count; i++)
		add_tip(s, nodes[i]);
	return CUDA_SUCCESS;
}

static void join(struct capture *c, struct stream *s)
{
	s->capture = c;
	c->streams = sim_grow(c->streams, c->stream_count, sizeof(struct stream *));
	c->streams[c->stream_count++] = s;
}

void capture_stream_ends(struct stream *s)
{
	struct capture *c = s->capture;

	if (!c)
		return;
	capture_invalidate(c);
	for (unsigned i = 0; i < c->stream_count; i++)
		if (c->streams[i] == s) {
			c->streams[i] = c->streams[--c->stream_count];
			break;
		}
	clear_tips(s);
	s->capture = NULL;
	if (c->origin == s)
		c->origin = NULL;
}

static const CUgraphNodeType node_types[] = {
	[WORK_NOTHING] = CU_GRAPH_NODE_TYPE_EMPTY,
	[WORK_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
	[WORK_SET] = CU_GRAPH_NODE_TYPE_MEMSET,
	[WORK_BATCH] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
	[WORK_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
	[WORK_HOST] = CU_GRAPH_NODE_TYPE_HOST,
	[WORK_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
	[WORK_LIVE] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
	[WORK_DEAD] = CU_GRAPH_NODE_TYPE_MEM_FREE,
	[WORK_CHILD] = CU_GRAPH_NODE_TYPE_GRAPH,
	[WORK_WAIT_EVENT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
};

CUresult capture_add(struct stream *s, struct work *w)
{
	struct capture *c = s->capture;
	struct node *n;
	CUresult e;

	if (c->is_invalid || w->kind == WORK_CALLBACK) {
		e = c->is_invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
				  : refuse(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		work_release(w);
		return e;
	}
	e = graph_add(c->graph, node_types[w->kind], w, s->tips, s->tip_count, &n);
	if (e != CUDA_SUCCESS)
		return refuse(c, e);
	clear_tips(s);
	add_tip(s, n);
	return CUDA_SUCCESS;
}

CUresult capture_record(struct event *e, struct stream *s)
{
	if (s->capture->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	free(e->tips);
	e->tips = sim_alloc(s->tip_count * sizeof(struct node *));
	if (s->tip_count)
		memcpy(e->tips, s->tips, s->tip_count * sizeof(struct node *));
	e->tip_count = s->tip_count;
	e->capture = s->capture;
	e->capture_id = s->capture->id;
	return CUDA_SUCCESS;
}

CUresult capture_wait(struct stream *s, struct event *e)
{
	struct capture *c =
		e->capture && capture_is_live(e->capture, e->capture_id) ? e->capture : NULL;

	if (s->capture && s->capture->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!c && e->capture)
		return s->capture ? refuse(s->capture, CUDA_ERROR_CAPTURED_EVENT)
				  : CUDA_ERROR_CAPTURED_EVENT;
	if (!c) /* an event of work that is not captured */
		return e->mark || e->shared
			       ? refuse(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
			       : CUDA_SUCCESS;
	if (c->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (s->is_legacy)
		return refuse(c, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	if (s->capture && s->capture != c) {
		capture_invalidate(s->capture);
		return refuse(c, CUDA_ERROR_STREAM_CAPTURE_MERGE);
	}
	if (!s->capture)
		join(c, s);
	return capture_set_tips(s, e->tips, e->tip_count, true);
}

/* ---- begin and end ---- */

CUresult capture_begin(struct stream *s, CUstreamCaptureMode mode, struct graph *into)
{
	struct capture *c;

	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->is_legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (s->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	c = sim_alloc(sizeof(*c));
	c->id = ++last_id;
	c->mode = mode;
	c->thread = pthread_self();
	c->origin = s;
	c->is_users = into != NULL;
	c->graph = into ? into : graph_new();
	c->graph->ctx = s->ctx;
	c->next = captures;
	captures = c;
	join(c, s);
	return CUDA_SUCCESS;
}

static void mark_before(const struct node *n, bool *seen)
{
	if (seen[n->index])
		return;
	seen[n->index] = true;
	for (unsigned i = 0; i < n->dep_count; i++)
		mark_before(n->deps[i], seen);
}

/* Whether all that other streams were given comes before the origin's end. */
static bool is_joined(const struct capture *c)
{
	bool *seen = sim_alloc(c->graph->node_count * sizeof(*seen)), joined = true;

	for (unsigned i = 0; i < c->origin->tip_count; i++)
		mark_before(c->origin->tips[i], seen);
	for (unsigned i = 0; i < c->stream_count; i++)
		for (unsigned t = 0; t < c->streams[i]->tip_count; t++)
			joined = joined && seen[c->streams[i]->tips[t]->index];
	free(seen);
	return joined;
}

static void finish(struct capture *c)
{
	struct capture **at = &captures;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	for (unsigned i = 0; i < c->stream_count; i++) {
		clear_tips(c->streams[i]);
		c->streams[i]->capture = NULL;
	}
	free(c->streams);
	free(c);
}

CUresult capture_end(struct stream *s, struct graph **out)
{
	struct capture *c = s->capture;
	CUresult e = CUDA_SUCCESS;

	*out = NULL;
	if (!c)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (c->origin != s)
		return refuse(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
		return refuse(c, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	if (c->is_invalid)
		e = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!is_joined(c))
		e = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	if (e == CUDA_SUCCESS)
		*out = c->graph;
	else if (!c->is_users)
		graph_free(c->graph);
	finish(c);
	return e;
}
