/* SPDX-License-Identifier: BSD-3-Clause */
/* driver_copy.c: the driver API: copies and sets. */
#include "entry.h"

static CUresult submit(CUstream handle, struct copy c, enum side dst, enum side src, bool is_async)
{
	struct stream *s;

	TRY(stream_get(handle, &s));
	return copy_submit(s, &c, dst, src, is_async);
}

static struct copy linear(uintptr_t dst, uintptr_t src, size_t bytes)
{
	return (struct copy){.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1};
}

#define COPY(name, suffix, dst_type, dst_side, src_type, src_side)                                 \
	PAIR(name, suffix, (dst_type dst, src_type src, size_t ByteCount),                         \
	     submit(null_stream, linear((uintptr_t)dst, (uintptr_t)src, ByteCount), dst_side,      \
		    src_side, false))
#define COPY_ASYNC(name, suffix, dst_type, dst_side, src_type, src_side)                           \
	PAIR(name, suffix, (dst_type dst, src_type src, size_t ByteCount, CUstream hStream),       \
	     submit(STREAM(hStream), linear((uintptr_t)dst, (uintptr_t)src, ByteCount), dst_side,  \
		    src_side, true))

COPY(cuMemcpy, _ptds, CUdeviceptr, SIDE_ANY, CUdeviceptr, SIDE_ANY)
COPY(cuMemcpyHtoD_v2, _ptds, CUdeviceptr, SIDE_DEVICE, const void *, SIDE_HOST)
COPY(cuMemcpyDtoH_v2, _ptds, void *, SIDE_HOST, CUdeviceptr, SIDE_DEVICE)
COPY(cuMemcpyDtoD_v2, _ptds, CUdeviceptr, SIDE_DEVICE, CUdeviceptr, SIDE_DEVICE)
COPY_ASYNC(cuMemcpyAsync, _ptsz, CUdeviceptr, SIDE_ANY, CUdeviceptr, SIDE_ANY)
COPY_ASYNC(cuMemcpyHtoDAsync_v2, _ptsz, CUdeviceptr, SIDE_DEVICE, const void *, SIDE_HOST)
COPY_ASYNC(cuMemcpyDtoHAsync_v2, _ptsz, void *, SIDE_HOST, CUdeviceptr, SIDE_DEVICE)
COPY_ASYNC(cuMemcpyDtoDAsync_v2, _ptsz, CUdeviceptr, SIDE_DEVICE, CUdeviceptr, SIDE_DEVICE)

static CUresult peer(CUstream handle, CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
		     CUcontext src_ctx, size_t bytes, bool is_async)
{
	if (!context_get(dst_ctx) || !context_get(src_ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return submit(handle, linear(dst, src, bytes), SIDE_DEVICE, SIDE_DEVICE, is_async);
}
PAIR(cuMemcpyPeer, _ptds,
     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
      size_t ByteCount),
     peer(null_stream, dstDevice, dstContext, srcDevice, srcContext, ByteCount, false))
PAIR(cuMemcpyPeerAsync, _ptsz,
     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
      size_t ByteCount, CUstream hStream),
     peer(STREAM(hStream), dstDevice, dstContext, srcDevice, srcContext, ByteCount, true))

/* ---- 2D and 3D ---- */

/* One side: where it begins, and what kind of memory it is said to be. */
struct end {
	uintptr_t address;
	enum side side;
};

static CUresult end_of(CUmemorytype type, const void *host, CUdeviceptr device, struct end *out)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		*out = (struct end){(uintptr_t)host, SIDE_HOST};
		return CUDA_SUCCESS;
	case CU_MEMORYTYPE_DEVICE:
		*out = (struct end){device, SIDE_DEVICE};
		return CUDA_SUCCESS;
	case CU_MEMORYTYPE_UNIFIED:
		*out = (struct end){device, SIDE_ANY};
		return CUDA_SUCCESS;
	default:
		*out = (struct end){0, SIDE_ANY};
		return sim_missing("a copy of a CUDA array");
	}
}

static CUresult copy_2d(CUstream handle, const CUDA_MEMCPY2D *p, bool is_async)
{
	struct end dst, src;
	size_t dst_pitch, src_pitch;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(end_of(p->dstMemoryType, p->dstHost, p->dstDevice, &dst));
	TRY(end_of(p->srcMemoryType, p->srcHost, p->srcDevice, &src));
	dst_pitch = p->dstPitch ? p->dstPitch : p->dstXInBytes + p->WidthInBytes;
	src_pitch = p->srcPitch ? p->srcPitch : p->srcXInBytes + p->WidthInBytes;
	if (dst_pitch < p->dstXInBytes + p->WidthInBytes ||
	    src_pitch < p->srcXInBytes + p->WidthInBytes)
		return CUDA_ERROR_INVALID_VALUE;
	return submit(handle,
		      (struct copy){.dst = dst.address + p->dstY * dst_pitch + p->dstXInBytes,
				    .src = src.address + p->srcY * src_pitch + p->srcXInBytes,
				    .width = p->WidthInBytes,
				    .height = p->Height,
				    .depth = 1,
				    .dst_pitch = dst_pitch,
				    .src_pitch = src_pitch},
		      dst.side, src.side, is_async);
}
PAIR(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *pCopy), copy_2d(null_stream, pCopy, false))
PAIR(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *pCopy),
     copy_2d(null_stream, pCopy, false))
PAIR(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *pCopy, CUstream hStream),
     copy_2d(STREAM(hStream), pCopy, true))

CUresult copy_from_3d(const CUDA_MEMCPY3D *p, struct copy *c, enum side *dst_side,
		      enum side *src_side)
{
	struct end dst, src;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(end_of(p->dstMemoryType, p->dstHost, p->dstDevice, &dst));
	TRY(end_of(p->srcMemoryType, p->srcHost, p->srcDevice, &src));
	*c = (struct copy){
		.width = p->WidthInBytes,
		.height = p->Height,
		.depth = p->Depth,
		.dst_pitch = p->dstPitch ? p->dstPitch : p->dstXInBytes + p->WidthInBytes,
		.src_pitch = p->srcPitch ? p->srcPitch : p->srcXInBytes + p->WidthInBytes};
	c->dst_slice = c->dst_pitch * (p->dstHeight ? p->dstHeight : p->dstY + p->Height);
	c->src_slice = c->src_pitch * (p->srcHeight ? p->srcHeight : p->srcY + p->Height);
	c->dst = dst.address + p->dstZ * c->dst_slice + p->dstY * c->dst_pitch + p->dstXInBytes;
	c->src = src.address + p->srcZ * c->src_slice + p->srcY * c->src_pitch + p->srcXInBytes;
	*dst_side = dst.side;
	*src_side = src.side;
	return CUDA_SUCCESS;
}

static CUresult copy_3d(CUstream handle, const CUDA_MEMCPY3D *p, bool is_async)
{
	enum side dst, src;
	struct copy c;

	TRY(copy_from_3d(p, &c, &dst, &src));
	return submit(handle, c, dst, src, is_async);
}
PAIR(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *pCopy), copy_3d(null_stream, pCopy, false))
PAIR(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *pCopy, CUstream hStream),
     copy_3d(STREAM(hStream), pCopy, true))

/* ---- sets ---- */

static CUresult set(CUstream handle, CUdeviceptr dst, size_t pitch, unsigned value,
		    unsigned element, size_t width, size_t height, bool is_async)
{
	const struct set work = {.dst = dst,
				 .width = width * element,
				 .height = height,
				 .pitch = pitch,
				 .value = value,
				 .element_bytes = element};
	struct stream *s;

	TRY(stream_get(handle, &s));
	if (height > 1 && pitch < work.width)
		return CUDA_ERROR_INVALID_VALUE;
	return set_submit(s, &work, is_async);
}

#define SETS(bits, type)                                                                           \
	PAIR(cuMemsetD##bits##_v2, _ptds, (CUdeviceptr dst, type value, size_t N),                 \
	     set(null_stream, dst, 0, value, bits / 8, N, 1, false))                               \
	PAIR(cuMemsetD##bits##Async, _ptsz,                                                        \
	     (CUdeviceptr dst, type value, size_t N, CUstream hStream),                            \
	     set(STREAM(hStream), dst, 0, value, bits / 8, N, 1, true))                            \
	PAIR(cuMemsetD2D##bits##_v2, _ptds,                                                        \
	     (CUdeviceptr dst, size_t pitch, type value, size_t Width, size_t Height),             \
	     set(null_stream, dst, pitch, value, bits / 8, Width, Height, false))                  \
	PAIR(cuMemsetD2D##bits##Async, _ptsz,                                                      \
	     (CUdeviceptr dst, size_t pitch, type value, size_t Width, size_t Height,              \
	      CUstream hStream),                                                                   \
	     set(STREAM(hStream), dst, pitch, value, bits / 8, Width, Height, true))

SETS(8, unsigned char)
SETS(16, unsigned short)
SETS(32, unsigned int)
