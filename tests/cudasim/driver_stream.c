/* SPDX-License-Identifier: BSD-3-Clause */
/* driver_stream.c: the driver API: streams, events, memory operations, host functions, modules and
 * launches. */
#include <string.h>

#include "entry.h"

/* ---- streams ---- */

static CUresult create(CUstream *out, unsigned flags, int priority)
{
	struct stream *s;

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(stream_create(context_current(), flags, priority, &s));
	*out = s->handle;
	return CUDA_SUCCESS;
}

ENTRY cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	ENTER(cuStreamCreate);
	return create(phStream, Flags, 0);
}

ENTRY cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	ENTER(cuStreamCreateWithPriority);
	return create(phStream, flags, priority);
}

ENTRY cuStreamDestroy_v2(CUstream hStream)
{
	struct stream *s;

	ENTER(cuStreamDestroy_v2);
	if (!hStream)
		return CUDA_ERROR_INVALID_HANDLE;
	TRY(stream_get(hStream, &s));
	return stream_destroy(s);
}

static CUresult query(CUstream handle)
{
	struct stream *s;

	TRY(stream_get(handle, &s));
	TRY(capture_allows_sync(s));
	return stream_query(s);
}
PAIR(cuStreamQuery, _ptsz, (CUstream hStream), query(STREAM(hStream)))

static CUresult synchronize(CUstream handle)
{
	struct stream *s;

	TRY(stream_get(handle, &s));
	TRY(capture_allows_sync(s));
	return stream_wait(s);
}
PAIR(cuStreamSynchronize, _ptsz, (CUstream hStream), synchronize(STREAM(hStream)))

static CUresult get_priority(CUstream handle, int *out)
{
	struct stream *s;

	TRY(stream_get(handle, &s));
	*out = s->priority;
	return CUDA_SUCCESS;
}
PAIR(cuStreamGetPriority, _ptsz, (CUstream hStream, int *priority),
     get_priority(STREAM(hStream), priority))

static CUresult get_flags(CUstream handle, unsigned *out)
{
	struct stream *s;

	TRY(stream_get(handle, &s));
	*out = s->flags;
	return CUDA_SUCCESS;
}
PAIR(cuStreamGetFlags, _ptsz, (CUstream hStream, unsigned int *flags),
     get_flags(STREAM(hStream), flags))

static CUresult get_id(CUstream handle, unsigned long long *out)
{
	struct stream *s;

	TRY(stream_get(handle, &s));
	*out = s->id;
	return CUDA_SUCCESS;
}
PAIR(cuStreamGetId, _ptsz, (CUstream hStream, unsigned long long *streamId),
     get_id(STREAM(hStream), streamId))

static CUresult get_device(CUstream handle, CUdevice *out)
{
	struct stream *s;

	TRY(stream_get(handle, &s));
	*out = s->ctx->device;
	return CUDA_SUCCESS;
}
PAIR(cuStreamGetDevice, _ptsz, (CUstream hStream, CUdevice *device),
     get_device(STREAM(hStream), device))

/* A stream tells its context without one that is current; the default streams are the current
 * one's. */
static CUresult get_context(CUstream handle, CUcontext *out)
{
	struct stream *s;

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if ((uintptr_t)handle <= 2 && !context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	TRY(stream_get(handle, &s));
	*out = s->ctx->handle;
	return CUDA_SUCCESS;
}
PAIR_FOR(cuStreamGetCtx, _ptsz, NEEDS_INIT, (CUstream hStream, CUcontext *pctx),
	 get_context(STREAM(hStream), pctx))

static CUresult get_context_v2(CUstream handle, CUcontext *out, CUgreenCtx *green)
{
	if (green)
		*green = NULL;
	return get_context(handle, out);
}
PAIR_FOR(cuStreamGetCtx_v2, _ptsz, NEEDS_INIT,
	 (CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx),
	 get_context_v2(STREAM(hStream), pCtx, pGreenCtx))

static CUresult wait_event(CUstream handle, CUevent hEvent, unsigned flags)
{
	struct event *e = event_get(hEvent);
	struct stream *s;

	TRY(stream_get(handle, &s));
	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CU_EVENT_WAIT_EXTERNAL) {
		struct work w = {.kind = WORK_WAIT_EVENT, .record.event = hEvent};

		return s->capture ? capture_add(s, &w) : CUDA_ERROR_INVALID_VALUE;
	}
	if (s->is_legacy)
		TRY(capture_allows_legacy(s->ctx));
	return stream_wait_event(s, e);
}
PAIR(cuStreamWaitEvent, _ptsz, (CUstream hStream, CUevent hEvent, unsigned int Flags),
     wait_event(STREAM(hStream), hEvent, Flags))

/* Managed memory is always reachable here. */
static CUresult attach(CUstream handle)
{
	struct stream *s;

	return stream_get(handle, &s);
}
PAIR(cuStreamAttachMemAsync, _ptsz,
     (CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags),
     ((void)dptr, (void)length, (void)flags, attach(STREAM(hStream))))

/* Attributes are hints for a device's caches and schedulers: accepted, and without effect. */
static CUresult set_attribute(CUstream handle, const CUstreamAttrValue *value)
{
	struct stream *s;

	return value ? stream_get(handle, &s) : CUDA_ERROR_INVALID_VALUE;
}
PAIR(cuStreamSetAttribute, _ptsz,
     (CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value),
     ((void)attr, set_attribute(STREAM(hStream), value)))

static CUresult get_attribute(CUstream handle, CUstreamAttrID attr, CUstreamAttrValue *value)
{
	struct stream *s;

	TRY(stream_get(handle, &s));
	memset(value, 0, sizeof(*value));
	if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		value->priority = s->priority;
	return CUDA_SUCCESS;
}
PAIR(cuStreamGetAttribute, _ptsz,
     (CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out),
     get_attribute(STREAM(hStream), attr, value_out))

static CUresult copy_attributes(CUstream dst, CUstream src)
{
	struct stream *s;

	TRY(stream_get(src, &s));
	return stream_get(dst, &s);
}
PAIR(cuStreamCopyAttributes, _ptsz, (CUstream dst, CUstream src),
     copy_attributes(STREAM(dst), STREAM(src)))

/* ---- memory operations ---- */

static CUresult one_memop(CUstream handle, CUstreamBatchMemOpType type, CUdeviceptr address,
			  uint64_t value, unsigned flags)
{
	const CUstreamBatchMemOpParams item = {
		.waitValue = {
			.operation = type, .address = address, .value64 = value, .flags = flags}};
	struct stream *s;

	TRY(stream_get_current(handle, &s));
	return memop_submit(s, 1, &item, 0);
}

#define MEMOP(name, suffix, type, value_type)                                                      \
	PAIR(name, suffix,                                                                         \
	     (CUstream stream, CUdeviceptr addr, value_type value, unsigned int flags),            \
	     one_memop(STREAM(stream), type, addr, value, flags))

MEMOP(cuStreamWaitValue32_v2, _ptsz, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
MEMOP(cuStreamWaitValue64_v2, _ptsz, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)
MEMOP(cuStreamWriteValue32_v2, _ptsz, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
MEMOP(cuStreamWriteValue64_v2, _ptsz, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)

static CUresult batch(CUstream handle, unsigned count, const CUstreamBatchMemOpParams *items,
		      unsigned flags)
{
	struct stream *s;

	TRY(stream_get_current(handle, &s));
	return memop_submit(s, count, items, flags);
}
PAIR(cuStreamBatchMemOp_v2, _ptsz,
     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
      unsigned int flags),
     batch(STREAM(stream), count, paramArray, flags))

/* ---- host functions ---- */

static CUresult host_function(CUstream handle, CUhostFn fn, void *data)
{
	struct work w = {.kind = WORK_HOST, .host = {fn, data}};
	struct stream *s;

	TRY(stream_get(handle, &s));
	return fn ? stream_submit(s, &w) : CUDA_ERROR_INVALID_VALUE;
}
PAIR(cuLaunchHostFunc, _ptsz, (CUstream hStream, CUhostFn fn, void *userData),
     host_function(STREAM(hStream), fn, userData))

static CUresult add_callback(CUstream handle, CUstreamCallback fn, void *data, unsigned flags)
{
	struct work w = {.kind = WORK_CALLBACK, .callback = {fn, handle, data}};
	struct stream *s;

	TRY(stream_get(handle, &s));
	return fn && !flags ? stream_submit(s, &w) : CUDA_ERROR_INVALID_VALUE;
}
PAIR(cuStreamAddCallback, _ptsz,
     (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
     add_callback(STREAM(hStream), callback, userData, flags))

/* ---- events ---- */

ENTRY cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	struct event *e;

	ENTER(cuEventCreate);
	if (!phEvent)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(event_create(context_current(), Flags, &e));
	*phEvent = e->handle;
	return CUDA_SUCCESS;
}

#define EVENT(name, handle)                                                                        \
	struct event *name = event_get(handle);                                                    \
	if (!name)                                                                                 \
	return CUDA_ERROR_INVALID_HANDLE

ENTRY cuEventDestroy_v2(CUevent hEvent)
{
	ENTER(cuEventDestroy_v2);
	EVENT(e, hEvent);
	event_destroy(e);
	return CUDA_SUCCESS;
}

static CUresult record(CUevent hEvent, CUstream handle, unsigned flags)
{
	struct stream *s;
	EVENT(e, hEvent);

	TRY(stream_get(handle, &s));
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CU_EVENT_RECORD_EXTERNAL) {
		struct work w = {.kind = WORK_RECORD, .record.event = hEvent};

		return s->capture ? capture_add(s, &w) : CUDA_ERROR_INVALID_VALUE;
	}
	return event_record(e, s);
}
PAIR(cuEventRecord, _ptsz, (CUevent hEvent, CUstream hStream), record(hEvent, STREAM(hStream), 0))
PAIR(cuEventRecordWithFlags, _ptsz, (CUevent hEvent, CUstream hStream, unsigned int flags),
     record(hEvent, STREAM(hStream), flags))

ENTRY cuEventQuery(CUevent hEvent)
{
	ENTER(cuEventQuery);
	EVENT(e, hEvent);
	TRY(capture_allows_unsafe());
	return event_query(e);
}

ENTRY cuEventSynchronize(CUevent hEvent)
{
	ENTER(cuEventSynchronize);
	EVENT(e, hEvent);
	TRY(capture_allows_unsafe());
	return event_wait(e);
}

static CUresult elapsed(float *ms, CUevent start, CUevent end)
{
	EVENT(a, start);
	EVENT(b, end);

	return ms ? event_elapsed(ms, a, b) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	ENTER(cuEventElapsedTime);
	return elapsed(pMilliseconds, hStart, hEnd);
}

ENTRY cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	ENTER(cuEventElapsedTime_v2);
	return elapsed(pMilliseconds, hStart, hEnd);
}

ENTRY cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
	ENTER(cuIpcGetEventHandle);
	EVENT(e, event);
	return pHandle ? event_export(e, pHandle) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	struct event *e;

	ENTER(cuIpcOpenEventHandle);
	if (!phEvent)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(event_import(context_current(), &handle, &e));
	*phEvent = e->handle;
	return CUDA_SUCCESS;
}
