/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime_stream.c: the runtime API: streams, events, host functions, captures and graphs. */
#include <string.h>

#include "runtime.h"

/* ---- streams ---- */

CALL(cudaStreamCreate, (cudaStream_t * pStream), cuStreamCreate(pStream, 0))
CALL(cudaStreamCreateWithFlags, (cudaStream_t * pStream, unsigned int flags),
     cuStreamCreate(pStream, flags))
CALL(cudaStreamCreateWithPriority, (cudaStream_t * pStream, unsigned int flags, int priority),
     cuStreamCreateWithPriority(pStream, flags, priority))
CALL(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy(stream))
PAIR(cudaStreamQuery, _ptsz, (cudaStream_t stream), cuStreamQuery(STREAM(stream)))
PAIR(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), cuStreamSynchronize(STREAM(stream)))
PAIR(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
     cuStreamWaitEvent(STREAM(stream), event, flags))
PAIR(cudaStreamGetFlags, _ptsz, (cudaStream_t hStream, unsigned int *flags),
     cuStreamGetFlags(STREAM(hStream), flags))
PAIR(cudaStreamGetPriority, _ptsz, (cudaStream_t hStream, int *priority),
     cuStreamGetPriority(STREAM(hStream), priority))
PAIR(cudaStreamGetId, _ptsz, (cudaStream_t hStream, unsigned long long *streamId),
     cuStreamGetId(STREAM(hStream), streamId))
PAIR(cudaStreamGetDevice, _ptsz, (cudaStream_t hStream, int *device),
     cuStreamGetDevice(STREAM(hStream), device))
PAIR(cudaStreamAddCallback, _ptsz,
     (cudaStream_t stream, cudaStreamCallback_t callback, void *userData, unsigned int flags),
     cuStreamAddCallback(STREAM(stream), (CUstreamCallback)callback, userData, flags))
PAIR(cudaStreamAttachMemAsync, _ptsz,
     (cudaStream_t stream, void *devPtr, size_t length, unsigned int flags),
     cuStreamAttachMemAsync(STREAM(stream), (CUdeviceptr)devPtr, length, flags))
PAIR(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t fn, void *userData),
     cuLaunchHostFunc(STREAM(stream), fn, userData))

/* ---- events ---- */

CALL(cudaEventCreate, (cudaEvent_t * event), cuEventCreate(event, 0))
CALL(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags),
     cuEventCreate(event, flags))
CALL(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy(event))
CALL(cudaEventQuery, (cudaEvent_t event), cuEventQuery(event))
CALL(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize(event))
CALL(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
     cuEventElapsedTime(ms, start, end))
PAIR(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream),
     cuEventRecord(event, STREAM(stream)))
PAIR(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
     cuEventRecordWithFlags(event, STREAM(stream), flags))

static CUresult open_event(cudaEvent_t *out, cudaIpcEventHandle_t handle)
{
	CUipcEventHandle h;

	memcpy(&h, &handle, sizeof(h));
	return cuIpcOpenEventHandle(out, h);
}
CALL(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event),
     cuIpcGetEventHandle((CUipcEventHandle *)handle, event))
CALL(cudaIpcOpenEventHandle, (cudaEvent_t * event, cudaIpcEventHandle_t handle),
     open_event(event, handle))

/* ---- captures ---- */

PAIR(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
     cuStreamBeginCapture(STREAM(stream), (CUstreamCaptureMode)mode))
PAIR(cudaStreamBeginCaptureToGraph, _ptsz,
     (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
      const cudaGraphEdgeData *dependencyData, size_t numDependencies,
      enum cudaStreamCaptureMode mode),
     ((void)dependencyData,
      cuStreamBeginCaptureToGraph(STREAM(stream), graph, dependencies, NULL, numDependencies,
				  (CUstreamCaptureMode)mode)))
PAIR(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t *pGraph),
     cuStreamEndCapture(STREAM(stream), pGraph))
PAIR(cudaStreamIsCapturing, _ptsz,
     (cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus),
     cuStreamIsCapturing(STREAM(stream), (CUstreamCaptureStatus *)pCaptureStatus))
PAIR(cudaStreamGetCaptureInfo, _ptsz,
     (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
      unsigned long long *id_out, cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out,
      const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out),
     cuStreamGetCaptureInfo(STREAM(stream), (CUstreamCaptureStatus *)captureStatus_out,
			    (cuuint64_t *)id_out, graph_out, dependencies_out,
			    (const CUgraphEdgeData **)edgeData_out, numDependencies_out))
PAIR(cudaStreamUpdateCaptureDependencies, _ptsz,
     (cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *dependencyData,
      size_t numDependencies, unsigned int flags),
     ((void)dependencyData, cuStreamUpdateCaptureDependencies(STREAM(stream), dependencies, NULL,
							      numDependencies, flags)))

/* ---- graphs ---- */

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

static CUresult add_memset(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *deps,
			   size_t count, const struct cudaMemsetParams *p)
{
	const CUDA_MEMSET_NODE_PARAMS params = {.dst = (CUdeviceptr)p->dst,
						.pitch = p->pitch,
						.value = p->value,
						.elementSize = p->elementSize,
						.width = p->width,
						.height = p->height};
	CUcontext ctx;

	TRY(cuCtxGetCurrent(&ctx));
	return cuGraphAddMemsetNode(out, graph, deps, count, &params, ctx);
}
CALL(cudaGraphAddMemsetNode,
     (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
      size_t numDependencies, const struct cudaMemsetParams *pMemsetParams),
     add_memset(pGraphNode, graph, pDependencies, numDependencies, pMemsetParams))

static CUresult add_memcpy(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *deps,
			   size_t count, void *dst, const void *src, size_t bytes)
{
	const CUDA_MEMCPY3D p = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
				 .srcDevice = (CUdeviceptr)src,
				 .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
				 .dstDevice = (CUdeviceptr)dst,
				 .WidthInBytes = bytes,
				 .Height = 1,
				 .Depth = 1};
	CUcontext ctx;

	TRY(cuCtxGetCurrent(&ctx));
	return cuGraphAddMemcpyNode(out, graph, deps, count, &p, ctx);
}
CALL(cudaGraphAddMemcpyNode1D,
     (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
      size_t numDependencies, void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
     ((void)kind, add_memcpy(pGraphNode, graph, pDependencies, numDependencies, dst, src, count)))

static CUresult add_kernel(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *deps,
			   size_t count, const struct cudaKernelNodeParams *p)
{
	CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = p->gridDim.x,
					  .gridDimY = p->gridDim.y,
					  .gridDimZ = p->gridDim.z,
					  .blockDimX = p->blockDim.x,
					  .blockDimY = p->blockDim.y,
					  .blockDimZ = p->blockDim.z,
					  .sharedMemBytes = p->sharedMemBytes,
					  .kernelParams = p->kernelParams,
					  .extra = p->extra};

	TRY(runtime_function(p->func, &params.func));
	return cuGraphAddKernelNode(out, graph, deps, count, &params);
}
CALL(cudaGraphAddKernelNode,
     (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
      size_t numDependencies, const struct cudaKernelNodeParams *pNodeParams),
     add_kernel(pGraphNode, graph, pDependencies, numDependencies, pNodeParams))
