/* SPDX-License-Identifier: BSD-3-Clause */
/* driver_memory.c: the driver API: allocations of one call, host memory, pointer attributes, IPC
 * handles. */
#include <string.h>

#include "entry.h"

ENTRY cuMemGetInfo_v2(size_t *free, size_t *total)
{
	ENTER(cuMemGetInfo_v2);
	if (total)
		*total = device_memory_bytes;
	if (free)
		*free = device_memory_bytes - memory_in_use(context_current()->device);
	return CUDA_SUCCESS;
}

ENTRY cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	uintptr_t base;

	ENTER(cuMemAlloc_v2);
	TRY(capture_allows_unsafe());
	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(memory_alloc(context_current(), bytesize, &base));
	*dptr = base;
	return CUDA_SUCCESS;
}

ENTRY cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
			 unsigned int ElementSizeBytes)
{
	uintptr_t base;

	ENTER(cuMemAllocPitch_v2);
	TRY(capture_allows_unsafe());
	if (!dptr || !pPitch || !WidthInBytes || !Height ||
	    (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
		return CUDA_ERROR_INVALID_VALUE;
	*pPitch = (WidthInBytes + 511) / 512 * 512;
	TRY(memory_alloc(context_current(), *pPitch * Height, &base));
	*dptr = base;
	return CUDA_SUCCESS;
}

ENTRY cuMemFree_v2(CUdeviceptr dptr)
{
	ENTER(cuMemFree_v2);
	TRY(capture_allows_unsafe());
	return memory_free(dptr);
}

ENTRY cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	const struct range *r;

	ENTER(cuMemGetAddressRange_v2);
	r = memory_find(dptr);
	if (!r)
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = r->base;
	if (psize)
		*psize = r->bytes;
	return CUDA_SUCCESS;
}

/* ---- host and managed memory ---- */

static CUresult alloc_host(void **pp, size_t bytes, unsigned flags)
{
	const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
			       CU_MEMHOSTALLOC_WRITECOMBINED;

	TRY(capture_allows_unsafe());
	if (!pp || (flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	return memory_alloc_host(context_current(), bytes, flags, pp);
}

ENTRY cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	ENTER(cuMemAllocHost_v2);
	return alloc_host(pp, bytesize, 0);
}

ENTRY cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	ENTER(cuMemHostAlloc);
	return alloc_host(pp, bytesize, Flags);
}

ENTRY cuMemFreeHost(void *p)
{
	ENTER(cuMemFreeHost);
	TRY(capture_allows_unsafe());
	return memory_free_host(p);
}

/* With unified addressing, host memory that CUDA made has one address. */
ENTRY cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	ENTER(cuMemHostGetDevicePointer_v2);
	if (!pdptr || Flags || !memory_is_pinned(memory_find((uintptr_t)p)))
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = (uintptr_t)p;
	return CUDA_SUCCESS;
}

ENTRY cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	const struct range *r;

	ENTER(cuMemHostGetFlags);
	r = memory_find((uintptr_t)p);
	if (!pFlags || !r || r->kind != MEM_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	*pFlags = r->flags | CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}

ENTRY cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	ENTER(cuMemHostRegister_v2);
	TRY(capture_allows_unsafe());
	return memory_register(context_current(), p, bytesize, Flags);
}

ENTRY cuMemHostUnregister(void *p)
{
	ENTER(cuMemHostUnregister);
	TRY(capture_allows_unsafe());
	return memory_unregister(p);
}

ENTRY cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	uintptr_t base;

	ENTER(cuMemAllocManaged);
	TRY(capture_allows_unsafe());
	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(memory_alloc_managed(context_current(), bytesize, flags, &base));
	*dptr = base;
	return CUDA_SUCCESS;
}

ENTRY cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	struct range *r;

	ENTER(cuMemAdvise_v2);
	(void)advice;
	(void)location;
	TRY(memory_reach(NULL, devPtr, count, false, &r));
	return r->kind == MEM_MANAGED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult prefetch(CUdeviceptr address, size_t bytes, CUstream handle)
{
	struct work w = {.kind = WORK_NOTHING};
	struct stream *s;
	struct range *r;

	TRY(stream_get(handle, &s));
	TRY(memory_reach(NULL, address, bytes, false, &r));
	if (r->kind != MEM_MANAGED)
		return CUDA_ERROR_INVALID_VALUE;
	return stream_submit(s, &w);
}
PAIR(cuMemPrefetchAsync_v2, _ptsz,
     (CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
      CUstream hStream),
     ((void)location, (void)flags, prefetch(devPtr, count, STREAM(hStream))))

/* ---- pointers ---- */

ENTRY cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	ENTER_INIT(cuPointerGetAttribute);
	return memory_attribute(data, attribute, ptr);
}

/* The documentation: for a pointer that CUDA does not know, and for attributes that do not apply,
 * the values are set to nothing, and the call succeeds. */
static void no_attribute(void *data, CUpointer_attribute attribute)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		memset(data, 0, 8);
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = CU_DEVICE_INVALID;
		break;
	default:
		memset(data, 0, 4);
	}
}

ENTRY cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
			     void **data, CUdeviceptr ptr)
{
	ENTER_INIT(cuPointerGetAttributes);
	if (!attributes || !data || numAttributes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < numAttributes; i++) {
		CUresult e = memory_attribute(data[i], attributes[i], ptr);

		if (e == CUDA_ERROR_NOT_SUPPORTED)
			return e;
		if (e != CUDA_SUCCESS)
			no_attribute(data[i], attributes[i]);
	}
	return CUDA_SUCCESS;
}

ENTRY cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct range *r;

	ENTER(cuPointerSetAttribute);
	r = memory_find(ptr);
	if (!value || !memory_is_device(r) || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	r->sync_memops = *(const int *)value != 0;
	return CUDA_SUCCESS;
}

/* ---- IPC ---- */

ENTRY cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct range *r;

	ENTER(cuIpcGetMemHandle);
	r = memory_find(dptr);
	if (!pHandle || !r)
		return CUDA_ERROR_INVALID_VALUE;
	return ipc_export(r, pHandle);
}

ENTRY cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	uintptr_t base;

	ENTER(cuIpcOpenMemHandle_v2);
	if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(ipc_import(context_current(), &handle, &base));
	*pdptr = base;
	return CUDA_SUCCESS;
}

ENTRY cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	ENTER(cuIpcCloseMemHandle);
	return ipc_close(dptr);
}
