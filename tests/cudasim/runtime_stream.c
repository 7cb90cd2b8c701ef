/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime_stream.c: the runtime API: streams, events, host functions, captures. */
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

PAIR(cudaStreamSetAttribute, _ptsz,
     (cudaStream_t hStream, cudaLaunchAttributeID attr, const cudaLaunchAttributeValue *value),
     cuStreamSetAttribute(STREAM(hStream), (CUstreamAttrID)attr, (const CUstreamAttrValue *)value))
PAIR(cudaStreamGetAttribute, _ptsz,
     (cudaStream_t hStream, cudaLaunchAttributeID attr, cudaLaunchAttributeValue *value_out),
     cuStreamGetAttribute(STREAM(hStream), (CUstreamAttrID)attr, (CUstreamAttrValue *)value_out))
PAIR(cudaStreamCopyAttributes, _ptsz, (cudaStream_t dst, cudaStream_t src),
     cuStreamCopyAttributes(STREAM(dst), STREAM(src)))

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
