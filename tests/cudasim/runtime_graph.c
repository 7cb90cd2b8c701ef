/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime_graph.c: the runtime API: graphs. */
#include "runtime.h"

CALL(cudaGraphCreate, (cudaGraph_t * pGraph, unsigned int flags), cuGraphCreate(pGraph, flags))
CALL(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph))
CALL(cudaGraphClone, (cudaGraph_t * pGraphClone, cudaGraph_t originalGraph),
     cuGraphClone(pGraphClone, originalGraph))
CALL(cudaGraphInstantiate,
     (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
     cuGraphInstantiate(pGraphExec, graph, flags))
CALL(cudaGraphInstantiateWithFlags,
     (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
     cuGraphInstantiateWithFlags(pGraphExec, graph, flags))
CALL(cudaGraphExecDestroy, (cudaGraphExec_t graphExec), cuGraphExecDestroy(graphExec))
PAIR(cudaGraphLaunch, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream),
     cuGraphLaunch(graphExec, STREAM(stream)))
PAIR(cudaGraphUpload, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream),
     cuGraphUpload(graphExec, STREAM(stream)))
CALL(cudaGraphExecUpdate,
     (cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, cudaGraphExecUpdateResultInfo *resultInfo),
     cuGraphExecUpdate(hGraphExec, hGraph, (CUgraphExecUpdateResultInfo *)resultInfo))
CALL(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes),
     cuGraphGetNodes(graph, nodes, numNodes))
CALL(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t *pRootNodes, size_t *pNumRootNodes),
     cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes))
CALL(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType *pType),
     cuGraphNodeGetType(node, (CUgraphNodeType *)pType))
CALL(cudaGraphDestroyNode, (cudaGraphNode_t node), cuGraphDestroyNode(node))
CALL(cudaGraphAddEmptyNode,
     (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
      size_t numDependencies),
     cuGraphAddEmptyNode(pGraphNode, graph, pDependencies, numDependencies))
CALL(cudaGraphAddHostNode,
     (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
      size_t numDependencies, const struct cudaHostNodeParams *pNodeParams),
     cuGraphAddHostNode(pGraphNode, graph, pDependencies, numDependencies,
			(const CUDA_HOST_NODE_PARAMS *)pNodeParams))
CALL(cudaGraphAddChildGraphNode,
     (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
      size_t numDependencies, cudaGraph_t childGraph),
     cuGraphAddChildGraphNode(pGraphNode, graph, pDependencies, numDependencies, childGraph))
CALL(cudaGraphAddDependencies,
     (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
      const cudaGraphEdgeData *edgeData, size_t numDependencies),
     ((void)edgeData, cuGraphAddDependencies(graph, from, to, NULL, numDependencies)))

PAIR(cudaGraphInstantiateWithParams, _ptsz,
     (cudaGraphExec_t * pGraphExec, cudaGraph_t graph,
      cudaGraphInstantiateParams *instantiateParams),
     (cuGraphInstantiateWithParams(pGraphExec, graph,
				   (CUDA_GRAPH_INSTANTIATE_PARAMS *)instantiateParams)))
CALL(cudaGraphExecGetFlags, (cudaGraphExec_t graphExec, unsigned long long *flags),
     cuGraphExecGetFlags(graphExec, (cuuint64_t *)flags))
CALL(cudaGraphRemoveDependencies,
     (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
      const cudaGraphEdgeData *edgeData, size_t numDependencies),
     ((void)edgeData, cuGraphRemoveDependencies(graph, from, to, NULL, numDependencies)))
CALL(cudaGraphGetEdges,
     (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edgeData,
      size_t *numEdges),
     ((void)edgeData, cuGraphGetEdges(graph, from, to, NULL, numEdges)))
CALL(cudaGraphNodeGetDependencies,
     (cudaGraphNode_t node, cudaGraphNode_t *pDependencies, cudaGraphEdgeData *edgeData,
      size_t *pNumDependencies),
     ((void)edgeData, cuGraphNodeGetDependencies(node, pDependencies, NULL, pNumDependencies)))
CALL(cudaGraphNodeGetDependentNodes,
     (cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes, cudaGraphEdgeData *edgeData,
      size_t *pNumDependentNodes),
     ((void)edgeData,
      cuGraphNodeGetDependentNodes(node, pDependentNodes, NULL, pNumDependentNodes)))
CALL(cudaGraphNodeFindInClone,
     (cudaGraphNode_t * pNode, cudaGraphNode_t originalNode, cudaGraph_t clonedGraph),
     cuGraphNodeFindInClone(pNode, originalNode, clonedGraph))
CALL(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t *pGraph),
     cuGraphChildGraphNodeGetGraph(node, pGraph))
CALL(cudaGraphNodeSetEnabled,
     (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled),
     cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled))
CALL(cudaGraphNodeGetEnabled,
     (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int *isEnabled),
     cuGraphNodeGetEnabled(hGraphExec, hNode, isEnabled))
CALL(cudaGraphAddEventRecordNode,
     (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
      size_t numDependencies, cudaEvent_t event),
     cuGraphAddEventRecordNode(pGraphNode, graph, pDependencies, numDependencies, event))
CALL(cudaGraphAddEventWaitNode,
     (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
      size_t numDependencies, cudaEvent_t event),
     cuGraphAddEventWaitNode(pGraphNode, graph, pDependencies, numDependencies, event))
CALL(cudaGraphHostNodeSetParams,
     (cudaGraphNode_t node, const struct cudaHostNodeParams *pNodeParams),
     cuGraphHostNodeSetParams(node, (const CUDA_HOST_NODE_PARAMS *)pNodeParams))
CALL(cudaGraphExecHostNodeSetParams,
     (cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
      const struct cudaHostNodeParams *pNodeParams),
     cuGraphExecHostNodeSetParams(hGraphExec, node, (const CUDA_HOST_NODE_PARAMS *)pNodeParams))

/* ---- nodes whose parameters the runtime says in other words ---- */

static CUDA_MEMSET_NODE_PARAMS set_params(const struct cudaMemsetParams *p)
{
	return (CUDA_MEMSET_NODE_PARAMS){.dst = (CUdeviceptr)p->dst,
					 .pitch = p->pitch,
					 .value = p->value,
					 .elementSize = p->elementSize,
					 .width = p->width,
					 .height = p->height};
}

static CUDA_MEMCPY3D copy_params(void *dst, const void *src, size_t bytes)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
			       .srcDevice = (CUdeviceptr)src,
			       .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
			       .dstDevice = (CUdeviceptr)dst,
			       .WidthInBytes = bytes,
			       .Height = 1,
			       .Depth = 1};
}

static CUresult kernel_params(const struct cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS *out)
{
	*out = (CUDA_KERNEL_NODE_PARAMS){.gridDimX = p->gridDim.x,
					 .gridDimY = p->gridDim.y,
					 .gridDimZ = p->gridDim.z,
					 .blockDimX = p->blockDim.x,
					 .blockDimY = p->blockDim.y,
					 .blockDimZ = p->blockDim.z,
					 .sharedMemBytes = p->sharedMemBytes,
					 .kernelParams = p->kernelParams,
					 .extra = p->extra};
	return runtime_function(p->func, &out->func);
}

static CUresult add_memset(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *deps,
			   size_t count, const struct cudaMemsetParams *p)
{
	const CUDA_MEMSET_NODE_PARAMS params = set_params(p);
	CUcontext ctx;

	TRY(cuCtxGetCurrent(&ctx));
	return cuGraphAddMemsetNode(out, graph, deps, count, &params, ctx);
}
CALL(cudaGraphAddMemsetNode,
     (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
      size_t numDependencies, const struct cudaMemsetParams *pMemsetParams),
     add_memset(pGraphNode, graph, pDependencies, numDependencies, pMemsetParams))

static CUresult set_memset(cudaGraphExec_t exec, cudaGraphNode_t node,
			   const struct cudaMemsetParams *p)
{
	const CUDA_MEMSET_NODE_PARAMS params = set_params(p);
	CUcontext ctx;

	TRY(cuCtxGetCurrent(&ctx));
	return cuGraphExecMemsetNodeSetParams(exec, node, &params, ctx);
}
CALL(cudaGraphExecMemsetNodeSetParams,
     (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const struct cudaMemsetParams *pNodeParams),
     set_memset(hGraphExec, node, pNodeParams))

static CUresult add_memcpy(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *deps,
			   size_t count, void *dst, const void *src, size_t bytes)
{
	const CUDA_MEMCPY3D params = copy_params(dst, src, bytes);
	CUcontext ctx;

	TRY(cuCtxGetCurrent(&ctx));
	return cuGraphAddMemcpyNode(out, graph, deps, count, &params, ctx);
}
CALL(cudaGraphAddMemcpyNode1D,
     (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
      size_t numDependencies, void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
     ((void)kind, add_memcpy(pGraphNode, graph, pDependencies, numDependencies, dst, src, count)))

static CUresult set_memcpy(cudaGraphExec_t exec, cudaGraphNode_t node, void *dst, const void *src,
			   size_t bytes)
{
	const CUDA_MEMCPY3D params = copy_params(dst, src, bytes);
	CUcontext ctx;

	TRY(cuCtxGetCurrent(&ctx));
	return cuGraphExecMemcpyNodeSetParams(exec, node, &params, ctx);
}
CALL(cudaGraphExecMemcpyNodeSetParams1D,
     (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void *dst, const void *src, size_t count,
      enum cudaMemcpyKind kind),
     ((void)kind, set_memcpy(hGraphExec, node, dst, src, count)))

static CUresult add_kernel(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *deps,
			   size_t count, const struct cudaKernelNodeParams *p)
{
	CUDA_KERNEL_NODE_PARAMS params;

	TRY(kernel_params(p, &params));
	return cuGraphAddKernelNode(out, graph, deps, count, &params);
}
CALL(cudaGraphAddKernelNode,
     (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
      size_t numDependencies, const struct cudaKernelNodeParams *pNodeParams),
     add_kernel(pGraphNode, graph, pDependencies, numDependencies, pNodeParams))

static CUresult set_kernel(cudaGraphExec_t exec, cudaGraphNode_t node,
			   const struct cudaKernelNodeParams *p)
{
	CUDA_KERNEL_NODE_PARAMS params;

	TRY(kernel_params(p, &params));
	return cuGraphExecKernelNodeSetParams(exec, node, &params);
}
CALL(cudaGraphExecKernelNodeSetParams,
     (cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
      const struct cudaKernelNodeParams *pNodeParams),
     set_kernel(hGraphExec, node, pNodeParams))
