/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph.c: graphs and their launches. A launch issues each node to a queue, after those that it
 * depends on: a chain stays on one queue, branches go to others, drawn at random, so that no order
 * can be relied upon but the graph's own.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct graph *graph_new(void)
{
	struct graph *g = sim_alloc(sizeof(*g));

	g->handle = handle_new(HANDLE_GRAPH, g);
	return g;
}

static void node_free(struct node *n)
{
	handle_drop(n->handle);
	work_release(&n->work);
	free(n->deps);
	free(n);
}

void graph_free(struct graph *g)
{
	if (!g)
		return;
	for (unsigned i = 0; i < g->node_count; i++)
		node_free(g->nodes[i]);
	handle_drop(g->handle);
	free(g->nodes);
	free(g);
}

CUresult graph_depend(struct node *to, struct node *from, bool is_add)
{
	unsigned i = 0;

	if (to->graph != from->graph || to == from)
		return CUDA_ERROR_INVALID_VALUE;
	while (i < to->dep_count && to->deps[i] != from)
		i++;
	if (is_add == (i < to->dep_count)) /* there already, or not there */
		return CUDA_ERROR_INVALID_VALUE;
	if (is_add) {
		to->deps = sim_grow(to->deps, to->dep_count, sizeof(struct node *));
		to->deps[to->dep_count++] = from;
	} else {
		to->deps[i] = to->deps[--to->dep_count];
	}
	return CUDA_SUCCESS;
}

/* Takes the work. What memory it uses is looked up again at each launch. */
CUresult graph_add(struct graph *g, CUgraphNodeType type, struct work *w, struct node *const *deps,
		   unsigned dep_count, struct node **out)
{
	struct node *n = sim_alloc(sizeof(*n));
	CUresult e = CUDA_SUCCESS;

	n->type = type;
	n->graph = g;
	n->is_enabled = true;
	work_copy(&n->work, w);
	work_release(w);
	for (unsigned i = 0; i < dep_count && e == CUDA_SUCCESS; i++)
		e = graph_depend(n, deps[i], true);
	if (e != CUDA_SUCCESS) {
		node_free(n);
		return e;
	}
	n->handle = handle_new(HANDLE_NODE, n);
	n->index = g->node_count;
	g->nodes = sim_grow(g->nodes, g->node_count, sizeof(struct node *));
	g->nodes[g->node_count++] = n;
	*out = n;
	return CUDA_SUCCESS;
}

CUresult graph_remove(struct node *n)
{
	struct graph *g = n->graph;

	for (unsigned i = 0; i < g->node_count; i++)
		if (g->nodes[i] != n)
			graph_depend(g->nodes[i], n, false);
	g->node_count--;
	memmove(&g->nodes[n->index], &g->nodes[n->index + 1],
		(g->node_count - n->index) * sizeof(struct node *));
	for (unsigned i = n->index; i < g->node_count; i++)
		g->nodes[i]->index = i;
	node_free(n);
	return CUDA_SUCCESS;
}

struct graph *graph_clone(const struct graph *g)
{
	struct graph *copy = graph_new();

	copy->ctx = g->ctx;
	for (unsigned i = 0; i < g->node_count; i++) {
		struct work w;
		struct node *n;

		work_copy(&w, &g->nodes[i]->work);
		graph_add(copy, g->nodes[i]->type, &w, NULL, 0, &n);
		n->is_enabled = g->nodes[i]->is_enabled;
		n->from_handle = g->nodes[i]->handle;
	}
	for (unsigned i = 0; i < g->node_count; i++)
		for (unsigned d = 0; d < g->nodes[i]->dep_count; d++)
			graph_depend(copy->nodes[i], copy->nodes[g->nodes[i]->deps[d]->index],
				     true);
	return copy;
}

/* ---- order ---- */

/* 0: not seen, 1: its dependencies are being looked at, 2: in the order. False: a cycle. */
static bool visit(struct node *n, char *state, struct node **order, unsigned *count)
{
	if (state[n->index] == 2)
		return true;
	if (state[n->index] == 1)
		return false;
	state[n->index] = 1;
	for (unsigned i = 0; i < n->dep_count; i++)
		if (!visit(n->deps[i], state, order, count))
			return false;
	state[n->index] = 2;
	order[(*count)++] = n;
	return true;
}

/* All nodes, each after those it depends on; NULL if that cannot be. */
static struct node **ordered(const struct graph *g)
{
	struct node **order = sim_alloc(g->node_count * sizeof(*order));
	char *state = sim_alloc(g->node_count);
	unsigned count = 0;
	bool ok = true;

	for (unsigned i = 0; i < g->node_count && ok; i++)
		ok = visit(g->nodes[i], state, order, &count);
	free(state);
	if (ok)
		return order;
	free(order);
	return NULL;
}

bool graph_has_cycle(const struct graph *g)
{
	struct node **order = ordered(g);

	free(order);
	return !order;
}

/* ---- executable graphs ---- */

CUresult exec_create(struct context *ctx, struct graph *g, unsigned long long flags,
		     struct exec **out)
{
	struct exec *x;

	if (graph_has_cycle(g))
		return CUDA_ERROR_INVALID_VALUE;
	x = sim_alloc(sizeof(*x));
	x->ctx = ctx;
	x->flags = flags;
	x->graph = graph_clone(g);
	x->random = sim_config.seed;
	x->handle = handle_new(HANDLE_EXEC, x);
	*out = x;
	return CUDA_SUCCESS;
}

/* A launch that is still under way has copies of all that it needs. */
void exec_free(struct exec *x)
{
	handle_drop(x->handle);
	graph_free(x->graph);
	free(x);
}

struct node *exec_node(struct exec *x, CUgraphNode handle)
{
	for (unsigned i = 0; i < x->graph->node_count; i++)
		if (x->graph->nodes[i]->from_handle == handle)
			return x->graph->nodes[i];
	return NULL;
}

static bool same_deps(const struct node *a, const struct node *b)
{
	unsigned found = 0;

	if (a->dep_count != b->dep_count)
		return false;
	for (unsigned i = 0; i < a->dep_count; i++)
		for (unsigned k = 0; k < b->dep_count; k++)
			found += a->deps[i]->index == b->deps[k]->index;
	return found == a->dep_count;
}

CUresult exec_update(struct exec *x, struct graph *g, CUgraphExecUpdateResultInfo *info)
{
	info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
	info->errorNode = NULL;
	info->errorFromNode = NULL;
	if (x->graph->node_count != g->node_count)
		info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	for (unsigned i = 0; i < g->node_count && info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS;
	     i++) {
		if (x->graph->nodes[i]->type != g->nodes[i]->type)
			info->result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
		else if (!same_deps(x->graph->nodes[i], g->nodes[i]))
			info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
			info->errorNode = g->nodes[i]->handle;
	}
	if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	for (unsigned i = 0; i < g->node_count; i++) {
		work_release(&x->graph->nodes[i]->work);
		work_copy(&x->graph->nodes[i]->work, &g->nodes[i]->work);
	}
	return CUDA_SUCCESS;
}

/* ---- launch ---- */

struct launch {
	struct exec *exec;
	struct stream *stream;
	struct context *ctx;
};

/* What a launch has allocated must have been freed before the next, or be freed by it. */
static CUresult alloc_check(const struct exec *x, const struct range *r)
{
	if (r->is_allocated && !(x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult check(struct context *ctx, const struct exec *x, struct work *w)
{
	switch (w->kind) {
	case WORK_LIVE:
		return alloc_check(x, w->range);
	case WORK_COPY:
		return copy_check(ctx, w);
	case WORK_SET:
		return set_check(ctx, w);
	case WORK_BATCH:
		return memop_check(ctx, w);
	case WORK_RECORD:
	case WORK_WAIT_EVENT:
		return event_get(w->record.event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	default:
		return CUDA_SUCCESS;
	}
}

static CUresult check_all(struct context *ctx, const struct exec *x, const struct graph *g)
{
	CUresult e = CUDA_SUCCESS;

	for (unsigned i = 0; i < g->node_count && e == CUDA_SUCCESS; i++) {
		struct work w;

		if (g->nodes[i]->type == CU_GRAPH_NODE_TYPE_GRAPH) {
			e = check_all(ctx, x, g->nodes[i]->work.child);
			continue;
		}
		work_copy(&w, &g->nodes[i]->work);
		e = check(ctx, x, &w);
		work_release(&w);
	}
	return e;
}

static struct point issue(const struct launch *l, struct queue *q, struct work *w,
			  const struct point *after, unsigned count)
{
	struct point p = {q, queue_issue(q, l->ctx, w, after, count)};

	l->ctx->last[q->index] = p.seq;
	return p;
}

static struct point issue_graph(const struct launch *l, const struct graph *g, struct queue *q,
				struct point start);

static struct point issue_node(const struct launch *l, const struct node *n, struct queue *q,
			       struct point *after, unsigned count)
{
	struct work w = {.kind = WORK_NOTHING};
	struct event *event;
	struct point p;

	if (!n->is_enabled)
		return issue(l, q, &w, after, count);
	if (n->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return issue_graph(l, n->work.child, q, issue(l, q, &w, after, count));
	work_copy(&w, &n->work);
	check(l->ctx, l->exec, &w);
	if (w.kind == WORK_LIVE || w.kind == WORK_DEAD) {
		w.range->is_allocated = w.kind == WORK_LIVE;
		work_use(&w, w.range);
	}
	if (w.kind != WORK_RECORD && w.kind != WORK_WAIT_EVENT)
		return issue(l, q, &w, after, count);
	event = event_get(w.record.event);
	if (w.kind == WORK_WAIT_EVENT) {
		w.kind = WORK_NOTHING;
		if (event->mark)
			after[count++] = event->mark->point; /* room for one more is there */
		return issue(l, q, &w, after, count);
	}
	w.record.mark = event_new_mark(event);
	p = issue(l, q, &w, after, count);
	event->mark->point = p;
	event->capture = NULL;
	return p;
}

/* The queue of the first node that it depends on, unless another has gone on there. */
static struct queue *choose(const struct launch *l, const struct node *n, struct queue *first,
			    bool *is_taken, const struct point *points, bool *is_first_root)
{
	if (n->dep_count == 0 && *is_first_root) {
		*is_first_root = false;
		return first;
	}
	if (n->dep_count && !is_taken[n->deps[0]->index]) {
		is_taken[n->deps[0]->index] = true;
		return points[n->deps[0]->index].queue;
	}
	return queue_get(l->ctx->device,
			 (unsigned)(random_next(&l->exec->random) % sim_config.queues));
}

/* The point at which all of it is done, on queue q. */
static struct point issue_graph(const struct launch *l, const struct graph *g, struct queue *q,
				struct point start)
{
	struct node **order = ordered(g);
	struct point *points = sim_alloc((g->node_count + 1) * sizeof(*points));
	struct point *after = sim_alloc((g->node_count + 2) * sizeof(*after));
	bool *is_taken = sim_alloc(g->node_count * sizeof(*is_taken)), is_first_root = true;
	struct work end = {.kind = WORK_NOTHING};
	struct point p;

	for (unsigned i = 0; i < g->node_count; i++) {
		const struct node *n = order[i];
		struct queue *on = choose(l, n, q, is_taken, points, &is_first_root);
		unsigned count = 0;

		after[count++] = start;
		for (unsigned d = 0; d < n->dep_count; d++)
			after[count++] = points[n->deps[d]->index];
		points[n->index] = issue_node(l, n, on, after, count);
	}
	points[g->node_count] = start;
	p = issue(l, q, &end, points, g->node_count + 1);
	free(order);
	free(points);
	free(after);
	free(is_taken);
	return p;
}

CUresult exec_launch(struct exec *x, struct stream *s)
{
	const struct launch l = {x, s, s->ctx};
	struct work w = {.kind = WORK_NOTHING};
	struct point end;
	CUresult e;

	if (s->capture) {
		w.kind = WORK_CHILD;
		w.child = graph_clone(x->graph);
		return stream_submit(s, &w);
	}
	e = check_all(s->ctx, x, x->graph);
	if (e == CUDA_SUCCESS && s->is_legacy)
		e = capture_allows_legacy(s->ctx);
	if (e != CUDA_SUCCESS)
		return e;
	/* One launch of an executable graph after the other. */
	stream_issue(s, &w, &x->last, 1);
	end = issue_graph(&l, x->graph, s->queue, stream_point(s));
	e = stream_issue(s, &w, &end, 1);
	x->last = stream_point(s);
	return e;
}
