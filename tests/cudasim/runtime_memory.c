/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime_memory.c: the runtime API: memory, copies, sets, pools, IPC. */
#include <string.h>

#include "runtime.h"

static CUdeviceptr address(const void *p)
{
	return (CUdeviceptr)p;
}

/* ---- allocation ---- */

/* RA, cudaMalloc of no bytes: success and a null pointer. */
static CUresult allocate(void **out, size_t bytes)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	return bytes ? cuMemAlloc((CUdeviceptr *)out, bytes) : CUDA_SUCCESS;
}
CALL(cudaMalloc, (void **devPtr, size_t size), allocate(devPtr, size))
CALL(cudaFree, (void *devPtr), cuMemFree(address(devPtr)))
CALL(cudaMallocPitch, (void **devPtr, size_t *pitch, size_t width, size_t height),
     cuMemAllocPitch((CUdeviceptr *)devPtr, pitch, width, height, 4))

static CUresult allocate_host(void **out, size_t bytes, unsigned flags)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	return bytes ? cuMemHostAlloc(out, bytes, flags) : CUDA_SUCCESS;
}
CALL(cudaMallocHost, (void **ptr, size_t size), allocate_host(ptr, size, 0))
CALL(cudaHostAlloc, (void **pHost, size_t size, unsigned int flags),
     allocate_host(pHost, size, flags))
CALL(cudaFreeHost, (void *ptr), ptr ? cuMemFreeHost(ptr) : CUDA_SUCCESS)
CALL(cudaHostRegister, (void *ptr, size_t size, unsigned int flags),
     cuMemHostRegister(ptr, size, flags))
CALL(cudaHostUnregister, (void *ptr), cuMemHostUnregister(ptr))
CALL(cudaHostGetDevicePointer, (void **pDevice, void *pHost, unsigned int flags),
     cuMemHostGetDevicePointer((CUdeviceptr *)pDevice, pHost, flags))
CALL(cudaHostGetFlags, (unsigned int *pFlags, void *pHost), cuMemHostGetFlags(pFlags, pHost))
CALL(cudaMallocManaged, (void **devPtr, size_t size, unsigned int flags),
     cuMemAllocManaged((CUdeviceptr *)devPtr, size, flags))
CALL(cudaMemGetInfo, (size_t * free, size_t *total), cuMemGetInfo(free, total))

static CUmemLocation location_of(struct cudaMemLocation l)
{
	return (CUmemLocation){.type = (CUmemLocationType)l.type, .id = l.id};
}
CALL(cudaMemAdvise,
     (const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
      struct cudaMemLocation location),
     cuMemAdvise(address(devPtr), count, (CUmem_advise)advice, location_of(location)))
PAIR(cudaMemPrefetchAsync, _ptsz,
     (const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags,
      cudaStream_t stream),
     cuMemPrefetchAsync(address(devPtr), count, location_of(location), flags, STREAM(stream)))

PAIR(cudaMallocAsync, _ptsz, (void **devPtr, size_t size, cudaStream_t hStream),
     cuMemAllocAsync((CUdeviceptr *)devPtr, size, STREAM(hStream)))
PAIR(cudaFreeAsync, _ptsz, (void *devPtr, cudaStream_t hStream),
     cuMemFreeAsync(address(devPtr), STREAM(hStream)))
PAIR(cudaMallocFromPoolAsync, _ptsz,
     (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
     cuMemAllocFromPoolAsync((CUdeviceptr *)ptr, size, memPool, STREAM(stream)))
CALL(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * memPool, int device),
     cuDeviceGetDefaultMemPool(memPool, device))
CALL(cudaDeviceGetMemPool, (cudaMemPool_t * memPool, int device),
     cuDeviceGetMemPool(memPool, device))
CALL(cudaDeviceSetMemPool, (int device, cudaMemPool_t memPool), cuDeviceSetMemPool(device, memPool))
CALL(cudaMemPoolDestroy, (cudaMemPool_t memPool), cuMemPoolDestroy(memPool))
CALL(cudaMemPoolTrimTo, (cudaMemPool_t memPool, size_t minBytesToKeep),
     cuMemPoolTrimTo(memPool, minBytesToKeep))
CALL(cudaMemPoolSetAttribute, (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
     cuMemPoolSetAttribute(memPool, (CUmemPool_attribute)attr, value))
CALL(cudaMemPoolGetAttribute, (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
     cuMemPoolGetAttribute(memPool, (CUmemPool_attribute)attr, value))

static CUresult create_pool(cudaMemPool_t *out, const struct cudaMemPoolProps *p)
{
	const CUmemPoolProps props = {.allocType = (CUmemAllocationType)p->allocType,
				      .handleTypes = (CUmemAllocationHandleType)p->handleTypes,
				      .location = location_of(p->location)};

	return cuMemPoolCreate(out, &props);
}
CALL(cudaMemPoolCreate, (cudaMemPool_t * memPool, const struct cudaMemPoolProps *poolProps),
     create_pool(memPool, poolProps))

/* ---- copies ---- */

/* These have no declaration in a program's cuda.h. */
CUresult CUDAAPI cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr dst, const void *src, size_t bytes);
CUresult CUDAAPI cuMemcpyDtoH_v2_ptds(void *dst, CUdeviceptr src, size_t bytes);
CUresult CUDAAPI cuMemcpyDtoD_v2_ptds(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult CUDAAPI cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *p);
CUresult CUDAAPI cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *p);
CUresult CUDAAPI cuMemsetD8_v2_ptds(CUdeviceptr dst, unsigned char value, size_t bytes);
CUresult CUDAAPI cuMemsetD2D8_v2_ptds(CUdeviceptr dst, size_t pitch, unsigned char value,
				      size_t width, size_t height);

static CUresult copy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
		     cudaStream_t on)
{
	const bool is_own = on == cudaStreamPerThread;

	switch (kind) {
	case cudaMemcpyHostToDevice:
		return (is_own ? cuMemcpyHtoD_v2_ptds : cuMemcpyHtoD)(address(dst), src, bytes);
	case cudaMemcpyDeviceToHost:
		return (is_own ? cuMemcpyDtoH_v2_ptds : cuMemcpyDtoH)(dst, address(src), bytes);
	case cudaMemcpyDeviceToDevice:
		return (is_own ? cuMemcpyDtoD_v2_ptds : cuMemcpyDtoD)(address(dst), address(src),
								      bytes);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return (is_own ? cuMemcpy_ptds : cuMemcpy)(address(dst), address(src), bytes);
	default:
		return (CUresult)cudaErrorInvalidMemcpyDirection;
	}
}
PAIR(cudaMemcpy, _ptds, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
     copy(dst, src, count, kind, null_stream))

static CUresult copy_async(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
			   cudaStream_t s)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return cuMemcpyHtoDAsync(address(dst), src, bytes, s);
	case cudaMemcpyDeviceToHost:
		return cuMemcpyDtoHAsync(dst, address(src), bytes, s);
	case cudaMemcpyDeviceToDevice:
		return cuMemcpyDtoDAsync(address(dst), address(src), bytes, s);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return cuMemcpyAsync(address(dst), address(src), bytes, s);
	default:
		return (CUresult)cudaErrorInvalidMemcpyDirection;
	}
}
PAIR(cudaMemcpyAsync, _ptsz,
     (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream),
     copy_async(dst, src, count, kind, STREAM(stream)))

/* With unified addressing the device of a pointer need not be told. */
CALL(cudaMemcpyPeer, (void *dst, int dstDevice, const void *src, int srcDevice, size_t count),
     ((void)dstDevice, (void)srcDevice, cuMemcpyDtoD(address(dst), address(src), count)))
CALL(cudaMemcpyPeerAsync,
     (void *dst, int dstDevice, const void *src, int srcDevice, size_t count, cudaStream_t stream),
     ((void)dstDevice, (void)srcDevice,
      cuMemcpyDtoDAsync(address(dst), address(src), count, stream)))

/* What kind says of each side. */
static CUmemorytype side(enum cudaMemcpyKind kind, bool is_dst)
{
	if (kind == cudaMemcpyDefault)
		return CU_MEMORYTYPE_UNIFIED;
	if (kind == cudaMemcpyDeviceToDevice ||
	    kind == (is_dst ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost))
		return CU_MEMORYTYPE_DEVICE;
	return CU_MEMORYTYPE_HOST;
}

static CUDA_MEMCPY2D copy_2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
			     size_t height, enum cudaMemcpyKind kind)
{
	return (CUDA_MEMCPY2D){.srcMemoryType = side(kind, false),
			       .srcHost = src,
			       .srcDevice = address(src),
			       .srcPitch = spitch,
			       .dstMemoryType = side(kind, true),
			       .dstHost = dst,
			       .dstDevice = address(dst),
			       .dstPitch = dpitch,
			       .WidthInBytes = width,
			       .Height = height};
}

static CUresult submit_2d(CUDA_MEMCPY2D c, cudaStream_t on)
{
	return on == cudaStreamPerThread ? cuMemcpy2D_v2_ptds(&c) : cuMemcpy2D(&c);
}
PAIR(cudaMemcpy2D, _ptds,
     (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
      enum cudaMemcpyKind kind),
     submit_2d(copy_2d(dst, dpitch, src, spitch, width, height, kind), null_stream))

static CUresult submit_2d_async(CUDA_MEMCPY2D c, cudaStream_t s)
{
	return cuMemcpy2DAsync(&c, s);
}
PAIR(cudaMemcpy2DAsync, _ptsz,
     (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
      enum cudaMemcpyKind kind, cudaStream_t stream),
     submit_2d_async(copy_2d(dst, dpitch, src, spitch, width, height, kind), STREAM(stream)))

static CUDA_MEMCPY3D copy_3d(const struct cudaMemcpy3DParms *p)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = p->srcPos.x,
		.srcY = p->srcPos.y,
		.srcZ = p->srcPos.z,
		.srcMemoryType = p->srcArray ? CU_MEMORYTYPE_ARRAY : side(p->kind, false),
		.srcHost = p->srcPtr.ptr,
		.srcDevice = address(p->srcPtr.ptr),
		.srcPitch = p->srcPtr.pitch,
		.srcHeight = p->srcPtr.ysize,
		.dstXInBytes = p->dstPos.x,
		.dstY = p->dstPos.y,
		.dstZ = p->dstPos.z,
		.dstMemoryType = p->dstArray ? CU_MEMORYTYPE_ARRAY : side(p->kind, true),
		.dstHost = p->dstPtr.ptr,
		.dstDevice = address(p->dstPtr.ptr),
		.dstPitch = p->dstPtr.pitch,
		.dstHeight = p->dstPtr.ysize,
		.WidthInBytes = p->extent.width,
		.Height = p->extent.height,
		.Depth = p->extent.depth};
}

static CUresult submit_3d(CUDA_MEMCPY3D c, cudaStream_t on)
{
	return on == cudaStreamPerThread ? cuMemcpy3D_v2_ptds(&c) : cuMemcpy3D(&c);
}
PAIR(cudaMemcpy3D, _ptds, (const struct cudaMemcpy3DParms *p), submit_3d(copy_3d(p), null_stream))

static CUresult submit_3d_async(CUDA_MEMCPY3D c, cudaStream_t s)
{
	return cuMemcpy3DAsync(&c, s);
}
PAIR(cudaMemcpy3DAsync, _ptsz, (const struct cudaMemcpy3DParms *p, cudaStream_t stream),
     submit_3d_async(copy_3d(p), STREAM(stream)))

/* ---- sets ---- */

PAIR(cudaMemset, _ptds, (void *devPtr, int value, size_t count),
     (null_stream == cudaStreamPerThread ? cuMemsetD8_v2_ptds : cuMemsetD8)(address(devPtr),
									    (unsigned char)value,
									    count))
PAIR(cudaMemsetAsync, _ptsz, (void *devPtr, int value, size_t count, cudaStream_t stream),
     cuMemsetD8Async(address(devPtr), (unsigned char)value, count, STREAM(stream)))
PAIR(cudaMemset2D, _ptds, (void *devPtr, size_t pitch, int value, size_t width, size_t height),
     (null_stream == cudaStreamPerThread
	      ? cuMemsetD2D8_v2_ptds
	      : cuMemsetD2D8)(address(devPtr), pitch, (unsigned char)value, width, height))
PAIR(cudaMemset2DAsync, _ptsz,
     (void *devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
     cuMemsetD2D8Async(address(devPtr), pitch, (unsigned char)value, width, height, STREAM(stream)))

/* ---- symbols ---- */

static CUresult within(const void *symbol, size_t offset, size_t count, char **out)
{
	CUdeviceptr base;
	size_t bytes;

	TRY(runtime_symbol(symbol, &base, &bytes));
	if (offset > bytes || count > bytes - offset)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (char *)base + offset;
	return CUDA_SUCCESS;
}

static CUresult to_symbol(const void *symbol, const void *src, size_t count, size_t offset,
			  enum cudaMemcpyKind kind, cudaStream_t s, bool is_async)
{
	char *at;

	TRY(within(symbol, offset, count, &at));
	return is_async ? copy_async(at, src, count, kind, s) : copy(at, src, count, kind, s);
}

static CUresult from_symbol(void *dst, const void *symbol, size_t count, size_t offset,
			    enum cudaMemcpyKind kind, cudaStream_t s, bool is_async)
{
	char *at;

	TRY(within(symbol, offset, count, &at));
	return is_async ? copy_async(dst, at, count, kind, s) : copy(dst, at, count, kind, s);
}
PAIR(cudaMemcpyToSymbol, _ptds,
     (const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind),
     to_symbol(symbol, src, count, offset, kind, null_stream, false))
PAIR(cudaMemcpyToSymbolAsync, _ptsz,
     (const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind,
      cudaStream_t stream),
     to_symbol(symbol, src, count, offset, kind, STREAM(stream), true))
PAIR(cudaMemcpyFromSymbol, _ptds,
     (void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind),
     from_symbol(dst, symbol, count, offset, kind, null_stream, false))
PAIR(cudaMemcpyFromSymbolAsync, _ptsz,
     (void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
      cudaStream_t stream),
     from_symbol(dst, symbol, count, offset, kind, STREAM(stream), true))
CALL(cudaGetSymbolAddress, (void **devPtr, const void *symbol),
     runtime_symbol(symbol, (CUdeviceptr *)devPtr, NULL))
CALL(cudaGetSymbolSize, (size_t * size, const void *symbol), runtime_symbol(symbol, NULL, size))

/* ---- pointers ---- */

/* RA, cudaPointerGetAttributes: memory that CUDA does not know is of type unregistered, and no
 * error. */
static CUresult pointer_attributes(struct cudaPointerAttributes *out, const void *p)
{
	unsigned type = 0, is_managed = 0;
	int device = cudaInvalidDeviceId;
	void *host = NULL, *dev = NULL;
	CUpointer_attribute which[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_HOST_POINTER,
		CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
	void *data[] = {&type, &is_managed, &device, &host, &dev};

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(cuPointerGetAttributes(5, which, data, address(p)));
	memset(out, 0, sizeof(*out));
	out->type = is_managed			   ? cudaMemoryTypeManaged
		    : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
		    : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
						   : cudaMemoryTypeUnregistered;
	out->device = device;
	out->devicePointer = dev;
	out->hostPointer = type ? host : (void *)p;
	return CUDA_SUCCESS;
}
CALL(cudaPointerGetAttributes, (struct cudaPointerAttributes * attributes, const void *ptr),
     pointer_attributes(attributes, ptr))

/* ---- IPC ---- */

static CUresult open_ipc(void **out, cudaIpcMemHandle_t handle, unsigned flags)
{
	CUipcMemHandle h;

	memcpy(&h, &handle, sizeof(h));
	return cuIpcOpenMemHandle((CUdeviceptr *)out, h, flags);
}
CALL(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *devPtr),
     cuIpcGetMemHandle((CUipcMemHandle *)handle, address(devPtr)))
CALL(cudaIpcOpenMemHandle, (void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags),
     open_ipc(devPtr, handle, flags))
CALL(cudaIpcCloseMemHandle, (void *devPtr), cuIpcCloseMemHandle(address(devPtr)))
