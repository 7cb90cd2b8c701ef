/* SPDX-License-Identifier: BSD-3-Clause */
/* driver_graph.c: the driver API: captures and graphs. Edges carry no data: ports are not
 * simulated. */
#include <stdlib.h>
#include <string.h>

#include "entry.h"

static struct graph *graph_get(CUgraph handle)
{
	return handle_get(HANDLE_GRAPH, handle);
}

static struct node *node_get(CUgraphNode handle)
{
	return handle_get(HANDLE_NODE, handle);
}

static struct exec *exec_get(CUgraphExec handle)
{
	return handle_get(HANDLE_EXEC, handle);
}

/* The caller frees *out. */
static CUresult nodes_of(const CUgraphNode *handles, size_t count, struct node ***out)
{
	*out = NULL;
	if (count && !handles)
		return CUDA_ERROR_INVALID_VALUE;
	*out = sim_alloc(count * sizeof(**out));
	for (size_t i = 0; i < count; i++) {
		(*out)[i] = node_get(handles[i]);
		if (!(*out)[i]) {
			free(*out);
			*out = NULL;
			return CUDA_ERROR_INVALID_HANDLE;
		}
	}
	return CUDA_SUCCESS;
}

/* ---- capture ---- */

static CUresult begin(CUstream handle, CUstreamCaptureMode mode)
{
	struct stream *s;

	TRY(stream_get(handle, &s));
	return capture_begin(s, mode, NULL);
}
PAIR(cuStreamBeginCapture_v2, _ptsz, (CUstream hStream, CUstreamCaptureMode mode),
     begin(STREAM(hStream), mode))

static CUresult begin_to_graph(CUstream handle, CUgraph graph, const CUgraphNode *deps,
			       size_t count, CUstreamCaptureMode mode)
{
	struct node **nodes;
	struct stream *s;
	CUresult e;

	TRY(stream_get(handle, &s));
	if (!graph_get(graph))
		return CUDA_ERROR_INVALID_VALUE;
	TRY(nodes_of(deps, count, &nodes));
	e = capture_begin(s, mode, graph_get(graph));
	if (e == CUDA_SUCCESS)
		e = capture_set_tips(s, nodes, (unsigned)count, false);
	free(nodes);
	return e;
}
PAIR(cuStreamBeginCaptureToGraph, _ptsz,
     (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
      const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode),
     ((void)dependencyData,
      begin_to_graph(STREAM(hStream), hGraph, dependencies, numDependencies, mode)))

static CUresult end(CUstream handle, CUgraph *out)
{
	struct graph *g;
	struct stream *s;
	CUresult e;

	TRY(stream_get(handle, &s));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	e = capture_end(s, &g);
	*out = e == CUDA_SUCCESS ? g->handle : NULL;
	return e;
}
PAIR(cuStreamEndCapture, _ptsz, (CUstream hStream, CUgraph *phGraph), end(STREAM(hStream), phGraph))

static CUstreamCaptureStatus status_of(const struct stream *s)
{
	return !s->capture		? CU_STREAM_CAPTURE_STATUS_NONE
	       : s->capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					: CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* DA: on the legacy stream while a blocking one is captured an error, that leaves the capture
 * valid. */
static CUresult is_capturing(CUstream handle, CUstreamCaptureStatus *out)
{
	struct stream *s;

	TRY(stream_get(handle, &s));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->is_legacy && capture_is_blocking(s->ctx))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*out = status_of(s);
	return CUDA_SUCCESS;
}
PAIR(cuStreamIsCapturing, _ptsz, (CUstream hStream, CUstreamCaptureStatus *captureStatus),
     is_capturing(STREAM(hStream), captureStatus))

static CUresult info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
		     const CUgraphNode **deps, size_t *count)
{
	struct stream *s;

	TRY(stream_get(handle, &s));
	TRY(is_capturing(handle, status));
	if (!s->capture)
		return CUDA_SUCCESS;
	if (id)
		*id = s->capture->id;
	if (graph)
		*graph = s->capture->graph->handle;
	if (count)
		*count = s->tip_count;
	if (!deps)
		return CUDA_SUCCESS;
	free(s->told);
	s->told = sim_alloc(s->tip_count * sizeof(*s->told));
	for (unsigned i = 0; i < s->tip_count; i++)
		s->told[i] = s->tips[i]->handle;
	*deps = s->told;
	return CUDA_SUCCESS;
}
PAIR(cuStreamGetCaptureInfo, _ptsz,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out),
     info(STREAM(hStream), captureStatus_out, id_out, NULL, NULL, NULL))
PAIR(cuStreamGetCaptureInfo_v2, _ptsz,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
      CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out),
     info(STREAM(hStream), captureStatus_out, id_out, graph_out, dependencies_out,
	  numDependencies_out))
PAIR(cuStreamGetCaptureInfo_v3, _ptsz,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
      CUgraph *graph_out, const CUgraphNode **dependencies_out,
      const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
     (edgeData_out ? (void)(*edgeData_out = NULL) : (void)0,
      info(STREAM(hStream), captureStatus_out, id_out, graph_out, dependencies_out,
	   numDependencies_out)))

static CUresult update(CUstream handle, const CUgraphNode *deps, size_t count, unsigned flags)
{
	struct node **nodes;
	struct stream *s;
	CUresult e;

	TRY(stream_get(handle, &s));
	if (!s->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(nodes_of(deps, count, &nodes));
	e = capture_set_tips(s, nodes, (unsigned)count,
			     flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
	free(nodes);
	return e;
}
PAIR(cuStreamUpdateCaptureDependencies, _ptsz,
     (CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, unsigned int flags),
     update(STREAM(hStream), dependencies, numDependencies, flags))
PAIR(cuStreamUpdateCaptureDependencies_v2, _ptsz,
     (CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
      size_t numDependencies, unsigned int flags),
     ((void)dependencyData, update(STREAM(hStream), dependencies, numDependencies, flags)))

/* ---- graphs and their nodes ---- */

ENTRY cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	ENTER_INIT(cuGraphCreate);
	if (!phGraph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = graph_new()->handle;
	return CUDA_SUCCESS;
}

ENTRY cuGraphDestroy(CUgraph hGraph)
{
	ENTER_INIT(cuGraphDestroy);
	if (!graph_get(hGraph))
		return CUDA_ERROR_INVALID_VALUE;
	graph_free(graph_get(hGraph));
	return CUDA_SUCCESS;
}

ENTRY cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	ENTER_INIT(cuGraphClone);
	if (!phGraphClone || !graph_get(originalGraph))
		return CUDA_ERROR_INVALID_VALUE;
	*phGraphClone = graph_clone(graph_get(originalGraph))->handle;
	return CUDA_SUCCESS;
}

ENTRY cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)
{
	const struct graph *g;

	ENTER_INIT(cuGraphNodeFindInClone);
	g = graph_get(hClonedGraph);
	for (unsigned i = 0; g && phNode && i < g->node_count; i++)
		if (g->nodes[i]->from_handle == hOriginalNode) {
			*phNode = g->nodes[i]->handle;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

/* Takes the work. */
static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t count,
		    CUgraphNodeType type, struct work *w)
{
	struct graph *g = graph_get(graph);
	struct node **nodes = NULL, *n;
	CUresult e = out && g ? nodes_of(deps, count, &nodes) : CUDA_ERROR_INVALID_VALUE;

	if (e == CUDA_SUCCESS)
		e = graph_add(g, type, w, nodes, (unsigned)count, &n);
	else
		work_release(w);
	free(nodes);
	if (e == CUDA_SUCCESS)
		*out = n->handle;
	return e;
}

static CUresult kernel_work(const CUDA_KERNEL_NODE_PARAMS *p, struct work *w)
{
	struct function *f =
		p ? handle_get(HANDLE_FUNCTION, p->func ? (void *)p->func : (void *)p->kern) : NULL;

	if (!f)
		return CUDA_ERROR_INVALID_VALUE;
	return kernel_prepare(w, f, (const unsigned[3]){p->gridDimX, p->gridDimY, p->gridDimZ},
			      (const unsigned[3]){p->blockDimX, p->blockDimY, p->blockDimZ},
			      p->sharedMemBytes, p->kernelParams, p->extra);
}

static CUresult copy_work(const CUDA_MEMCPY3D *p, struct work *w)
{
	enum side dst, src;

	*w = (struct work){.kind = WORK_COPY};
	return copy_from_3d(p, &w->copy, &dst, &src);
}

static CUresult set_work(const CUDA_MEMSET_NODE_PARAMS *p, struct work *w)
{
	if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
		return CUDA_ERROR_INVALID_VALUE;
	*w = (struct work){.kind = WORK_SET,
			   .set = {p->dst, p->width * p->elementSize, p->height, p->pitch, p->value,
				   p->elementSize}};
	return CUDA_SUCCESS;
}

static CUresult host_work(const CUDA_HOST_NODE_PARAMS *p, struct work *w)
{
	if (!p || !p->fn)
		return CUDA_ERROR_INVALID_VALUE;
	*w = (struct work){.kind = WORK_HOST, .host = {p->fn, p->userData}};
	return CUDA_SUCCESS;
}

static CUresult batch_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct work *w)
{
	if (!has(CAP_MEMOPS))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!p || !p->paramArray || p->count == 0 || p->count > 256 || p->flags)
		return CUDA_ERROR_INVALID_VALUE;
	*w = (struct work){.kind = WORK_BATCH, .batch.count = p->count};
	w->batch.items = sim_alloc(p->count * sizeof(*p->paramArray));
	memcpy(w->batch.items, p->paramArray, p->count * sizeof(*p->paramArray));
	return CUDA_SUCCESS;
}

/* A node of each kind: added to a graph, and its parameters changed in an executable one. */
#define ADD_NODE(name, type, params_type, make)                                                    \
	ENTRY name(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,      \
		   size_t numDependencies, const params_type *nodeParams)                          \
	{                                                                                          \
		struct work w;                                                                     \
		ENTER(name);                                                                       \
		TRY(make(nodeParams, &w));                                                         \
		return add(phGraphNode, hGraph, dependencies, numDependencies, type, &w);          \
	}

static CUresult replace(struct node *n, CUgraphNodeType type, struct work *w)
{
	if (!n || n->type != type) {
		work_release(w);
		return CUDA_ERROR_INVALID_VALUE;
	}
	work_release(&n->work);
	n->work = *w;
	return CUDA_SUCCESS;
}

#define SET_NODE(name, type, params_type, make)                                                    \
	ENTRY name(CUgraphNode hNode, const params_type *nodeParams)                               \
	{                                                                                          \
		struct work w;                                                                     \
		ENTER(name);                                                                       \
		TRY(make(nodeParams, &w));                                                         \
		return replace(node_get(hNode), type, &w);                                         \
	}

static CUresult replace_in(CUgraphExec handle, CUgraphNode node, CUgraphNodeType type,
			   struct work *w)
{
	struct exec *x = exec_get(handle);

	return replace(x ? exec_node(x, node) : NULL, type, w);
}

#define SET_EXEC(name, type, params_type, make)                                                    \
	ENTRY name(CUgraphExec hGraphExec, CUgraphNode hNode, const params_type *nodeParams)       \
	{                                                                                          \
		struct work w;                                                                     \
		ENTER(name);                                                                       \
		TRY(make(nodeParams, &w));                                                         \
		return replace_in(hGraphExec, hNode, type, &w);                                    \
	}

ADD_NODE(cuGraphAddKernelNode_v2, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS, kernel_work)
ADD_NODE(cuGraphAddHostNode, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS, host_work)
ADD_NODE(cuGraphAddBatchMemOpNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CUDA_BATCH_MEM_OP_NODE_PARAMS,
	 batch_work)
SET_NODE(cuGraphKernelNodeSetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS,
	 kernel_work)
SET_NODE(cuGraphHostNodeSetParams, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS, host_work)
SET_NODE(cuGraphMemcpyNodeSetParams, CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D, copy_work)
SET_NODE(cuGraphMemsetNodeSetParams, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS, set_work)
SET_NODE(cuGraphBatchMemOpNodeSetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
	 CUDA_BATCH_MEM_OP_NODE_PARAMS, batch_work)
SET_EXEC(cuGraphExecKernelNodeSetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS,
	 kernel_work)
SET_EXEC(cuGraphExecHostNodeSetParams, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS, host_work)
SET_EXEC(cuGraphExecBatchMemOpNodeSetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
	 CUDA_BATCH_MEM_OP_NODE_PARAMS, batch_work)

ENTRY cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			   const CUgraphNode *dependencies, size_t numDependencies,
			   const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	struct work w;

	ENTER(cuGraphAddMemcpyNode);
	(void)ctx;
	TRY(copy_work(copyParams, &w));
	return add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEMCPY,
		   &w);
}

ENTRY cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			   const CUgraphNode *dependencies, size_t numDependencies,
			   const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	struct work w;

	ENTER(cuGraphAddMemsetNode);
	(void)ctx;
	TRY(set_work(memsetParams, &w));
	return add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEMSET,
		   &w);
}

ENTRY cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
				     const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	struct work w;

	ENTER(cuGraphExecMemcpyNodeSetParams);
	(void)ctx;
	TRY(copy_work(copyParams, &w));
	return replace_in(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMCPY, &w);
}

ENTRY cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
				     const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	struct work w;

	ENTER(cuGraphExecMemsetNodeSetParams);
	(void)ctx;
	TRY(set_work(memsetParams, &w));
	return replace_in(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMSET, &w);
}

ENTRY cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			  size_t numDependencies)
{
	struct work w = {.kind = WORK_NOTHING};

	ENTER_INIT(cuGraphAddEmptyNode);
	return add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_EMPTY,
		   &w);
}

ENTRY cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				const CUgraphNode *dependencies, size_t numDependencies,
				CUevent event)
{
	struct work w = {.kind = WORK_RECORD, .record.event = event};

	ENTER_INIT(cuGraphAddEventRecordNode);
	if (!event_get(event))
		return CUDA_ERROR_INVALID_VALUE;
	return add(phGraphNode, hGraph, dependencies, numDependencies,
		   CU_GRAPH_NODE_TYPE_EVENT_RECORD, &w);
}

ENTRY cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			      const CUgraphNode *dependencies, size_t numDependencies,
			      CUevent event)
{
	struct work w = {.kind = WORK_WAIT_EVENT, .record.event = event};

	ENTER_INIT(cuGraphAddEventWaitNode);
	if (!event_get(event))
		return CUDA_ERROR_INVALID_VALUE;
	return add(phGraphNode, hGraph, dependencies, numDependencies,
		   CU_GRAPH_NODE_TYPE_WAIT_EVENT, &w);
}

ENTRY cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			       const CUgraphNode *dependencies, size_t numDependencies,
			       CUgraph childGraph)
{
	struct work w = {.kind = WORK_CHILD};

	ENTER_INIT(cuGraphAddChildGraphNode);
	if (!graph_get(childGraph))
		return CUDA_ERROR_INVALID_VALUE;
	w.child = graph_clone(graph_get(childGraph));
	return add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_GRAPH,
		   &w);
}

ENTRY cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	const struct node *n;

	ENTER_INIT(cuGraphChildGraphNodeGetGraph);
	n = node_get(hNode);
	if (!n || !phGraph || n->type != CU_GRAPH_NODE_TYPE_GRAPH)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = n->work.child->handle;
	return CUDA_SUCCESS;
}

ENTRY cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	const struct node *n;

	ENTER_INIT(cuGraphNodeGetType);
	n = node_get(hNode);
	if (!n || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = n->type;
	return CUDA_SUCCESS;
}

ENTRY cuGraphDestroyNode(CUgraphNode hNode)
{
	ENTER_INIT(cuGraphDestroyNode);
	return node_get(hNode) ? graph_remove(node_get(hNode)) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- edges ---- */

static CUresult depend(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count,
		       bool is_add)
{
	if (!graph_get(graph) || (count && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		struct node *f = node_get(from[i]), *t = node_get(to[i]);

		if (!f || !t || f->graph != graph_get(graph))
			return CUDA_ERROR_INVALID_VALUE;
		TRY(graph_depend(t, f, is_add));
	}
	return CUDA_SUCCESS;
}

ENTRY cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	ENTER_INIT(cuGraphAddDependencies_v2);
	(void)edgeData;
	return depend(hGraph, from, to, numDependencies, true);
}

ENTRY cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				   const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	ENTER_INIT(cuGraphRemoveDependencies_v2);
	(void)edgeData;
	return depend(hGraph, from, to, numDependencies, false);
}

/* The documentation: without an array, the count alone; with one, at most *count, the rest set to
 * NULL. */
struct list {
	CUgraphNode *nodes;
	size_t room, count;
};

static void list_add(struct list *l, const struct node *n)
{
	if (l->nodes && l->count < l->room)
		l->nodes[l->count] = n->handle;
	l->count++;
}

static CUresult list_end(const struct list *l, size_t *count)
{
	for (size_t i = l->count; l->nodes && i < l->room; i++)
		l->nodes[i] = NULL;
	*count = l->nodes && l->count > l->room ? l->room : l->count;
	return CUDA_SUCCESS;
}

static CUresult list_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count, bool is_roots)
{
	const struct graph *g = graph_get(graph);
	struct list l = {nodes, count && nodes ? *count : 0, 0};

	if (!g || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < g->node_count; i++)
		if (!is_roots || g->nodes[i]->dep_count == 0)
			list_add(&l, g->nodes[i]);
	return list_end(&l, count);
}

ENTRY cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	ENTER_INIT(cuGraphGetNodes);
	return list_nodes(hGraph, nodes, numNodes, false);
}

ENTRY cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	ENTER_INIT(cuGraphGetRootNodes);
	return list_nodes(hGraph, rootNodes, numRootNodes, true);
}

ENTRY cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
				    CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	const struct node *n;
	struct list l = {dependencies, numDependencies && dependencies ? *numDependencies : 0, 0};

	ENTER_INIT(cuGraphNodeGetDependencies_v2);
	(void)edgeData;
	n = node_get(hNode);
	if (!n || !numDependencies)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n->dep_count; i++)
		list_add(&l, n->deps[i]);
	return list_end(&l, numDependencies);
}

ENTRY cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
				      CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
	const struct node *n;
	struct list l = {dependentNodes,
			 numDependentNodes && dependentNodes ? *numDependentNodes : 0, 0};

	ENTER_INIT(cuGraphNodeGetDependentNodes_v2);
	(void)edgeData;
	n = node_get(hNode);
	if (!n || !numDependentNodes)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n->graph->node_count; i++)
		for (unsigned d = 0; d < n->graph->nodes[i]->dep_count; d++)
			if (n->graph->nodes[i]->deps[d] == n)
				list_add(&l, n->graph->nodes[i]);
	return list_end(&l, numDependentNodes);
}

ENTRY cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
			 CUgraphEdgeData *edgeData, size_t *numEdges)
{
	const struct graph *g;
	struct list f = {from, from && numEdges ? *numEdges : 0, 0},
		    t = {to, to && numEdges ? *numEdges : 0, 0};

	ENTER_INIT(cuGraphGetEdges_v2);
	(void)edgeData;
	g = graph_get(hGraph);
	if (!g || !numEdges || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < g->node_count; i++)
		for (unsigned d = 0; d < g->nodes[i]->dep_count; d++) {
			list_add(&f, g->nodes[i]->deps[d]);
			list_add(&t, g->nodes[i]);
		}
	list_end(&t, numEdges);
	return list_end(&f, numEdges);
}

/* ---- executable graphs ---- */

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
	const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
					 CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
					 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
	struct graph *g = graph_get(graph);
	struct exec *x;

	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		return sim_missing("a graph that is launched from the device");
	if (!out || !g || (flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	TRY(exec_create(context_current(), g, flags, &x));
	*out = x->handle;
	return CUDA_SUCCESS;
}

ENTRY cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
				  unsigned long long flags)
{
	ENTER(cuGraphInstantiateWithFlags);
	return instantiate(phGraphExec, hGraph, flags);
}

static CUresult instantiate_with(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
	CUresult e;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	e = instantiate(out, graph, p->flags & ~(cuuint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
	p->hErrNode_out = NULL;
	p->result_out =
		e == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
	return e;
}
PAIR(cuGraphInstantiateWithParams, _ptsz,
     (CUgraphExec * phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
     instantiate_with(phGraphExec, hGraph, instantiateParams))

ENTRY cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	ENTER_INIT(cuGraphExecDestroy);
	if (!exec_get(hGraphExec))
		return CUDA_ERROR_INVALID_VALUE;
	exec_free(exec_get(hGraphExec));
	return CUDA_SUCCESS;
}

ENTRY cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
	ENTER_INIT(cuGraphExecGetFlags);
	if (!exec_get(hGraphExec) || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = exec_get(hGraphExec)->flags;
	return CUDA_SUCCESS;
}

ENTRY cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
			   CUgraphExecUpdateResultInfo *resultInfo)
{
	ENTER(cuGraphExecUpdate_v2);
	if (!exec_get(hGraphExec) || !graph_get(hGraph) || !resultInfo)
		return CUDA_ERROR_INVALID_VALUE;
	return exec_update(exec_get(hGraphExec), graph_get(hGraph), resultInfo);
}

static CUresult launch(CUgraphExec handle, CUstream stream)
{
	struct stream *s;

	TRY(stream_get(stream, &s));
	return exec_get(handle) ? exec_launch(exec_get(handle), s) : CUDA_ERROR_INVALID_VALUE;
}
PAIR(cuGraphLaunch, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
     launch(hGraphExec, STREAM(hStream)))

static CUresult upload(CUgraphExec handle, CUstream stream)
{
	struct work w = {.kind = WORK_NOTHING};
	struct stream *s;

	TRY(stream_get(stream, &s));
	return exec_get(handle) ? stream_submit(s, &w) : CUDA_ERROR_INVALID_VALUE;
}
PAIR(cuGraphUpload, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
     upload(hGraphExec, STREAM(hStream)))

static bool may_be_disabled(const struct node *n)
{
	return n && (n->type == CU_GRAPH_NODE_TYPE_KERNEL || n->type == CU_GRAPH_NODE_TYPE_MEMCPY ||
		     n->type == CU_GRAPH_NODE_TYPE_MEMSET);
}

ENTRY cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
	struct node *n;

	ENTER_INIT(cuGraphNodeSetEnabled);
	n = exec_get(hGraphExec) ? exec_node(exec_get(hGraphExec), hNode) : NULL;
	if (!may_be_disabled(n))
		return CUDA_ERROR_INVALID_VALUE;
	n->is_enabled = isEnabled != 0;
	return CUDA_SUCCESS;
}

ENTRY cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
	const struct node *n;

	ENTER_INIT(cuGraphNodeGetEnabled);
	n = exec_get(hGraphExec) ? exec_node(exec_get(hGraphExec), hNode) : NULL;
	if (!may_be_disabled(n) || !isEnabled)
		return CUDA_ERROR_INVALID_VALUE;
	*isEnabled = n->is_enabled;
	return CUDA_SUCCESS;
}
