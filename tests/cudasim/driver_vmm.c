/* SPDX-License-Identifier: BSD-3-Clause */
/* driver_vmm.c: the driver API: virtual memory management, and pools whose allocations are in a
 * stream's order. */
#include "entry.h"
#include "vmm.h"

/* ---- virtual memory management ---- */

static struct physical *physical_get(CUmemGenericAllocationHandle handle)
{
	return handle_get(HANDLE_PHYSICAL, (void *)(uintptr_t)handle);
}

static CUmemGenericAllocationHandle number_of(const struct physical *p)
{
	return (uintptr_t)p->handle;
}

ENTRY cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
				    CUmemAllocationGranularity_flags option)
{
	ENTER_INIT(cuMemGetAllocationGranularity);
	(void)option;
	if (!granularity)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(vmm_check_properties(prop));
	*granularity = VMM_GRANULARITY;
	return CUDA_SUCCESS;
}

ENTRY cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		  const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct physical *p;

	ENTER_INIT(cuMemCreate);
	if (!handle || flags)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(vmm_create(size, prop, &p));
	*handle = number_of(p);
	return CUDA_SUCCESS;
}

ENTRY cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct physical *p;

	ENTER_INIT(cuMemRelease);
	p = physical_get(handle);
	return p ? vmm_release(p) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
			  unsigned long long flags)
{
	uintptr_t base;

	ENTER_INIT(cuMemAddressReserve);
	(void)addr; /* a hint */
	if (!ptr || flags)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(vmm_reserve(size, alignment, &base));
	*ptr = base;
	return CUDA_SUCCESS;
}

ENTRY cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	ENTER_INIT(cuMemAddressFree);
	return vmm_free(ptr, size);
}

ENTRY cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	       unsigned long long flags)
{
	struct physical *p;

	ENTER_INIT(cuMemMap);
	p = physical_get(handle);
	if (!p || flags)
		return CUDA_ERROR_INVALID_VALUE;
	return vmm_map(ptr, size, offset, p);
}

ENTRY cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	ENTER_INIT(cuMemUnmap);
	return vmm_unmap(ptr, size);
}

ENTRY cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	ENTER_INIT(cuMemSetAccess);
	return desc ? vmm_set_access(ptr, size, desc, count) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	const struct range *r;

	ENTER_INIT(cuMemGetAccess);
	r = memory_find(ptr);
	if (!flags || !location || !r || r->kind != MEM_VMM || !device_is(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = !(r->access >> location->id & 1) ? CU_MEM_ACCESS_FLAGS_PROT_NONE
		 : r->is_read_only		  ? CU_MEM_ACCESS_FLAGS_PROT_READ
						  : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

ENTRY cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
				   CUmemAllocationHandleType handleType, unsigned long long flags)
{
	const struct physical *p;

	ENTER_INIT(cuMemExportToShareableHandle);
	p = physical_get(handle);
	if (!shareableHandle || !p || flags ||
	    handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	return vmm_export(p, shareableHandle);
}

ENTRY cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
				     CUmemAllocationHandleType shHandleType)
{
	struct physical *p;

	ENTER_INIT(cuMemImportFromShareableHandle);
	if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(vmm_import((int)(intptr_t)osHandle, &p));
	*handle = number_of(p);
	return CUDA_SUCCESS;
}

ENTRY cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct range *r;

	ENTER_INIT(cuMemRetainAllocationHandle);
	r = memory_find((uintptr_t)addr);
	if (!handle || !r || r->kind != MEM_VMM)
		return CUDA_ERROR_INVALID_VALUE;
	if (r->physical->handles == 0) {
		r->physical->handle = handle_new(HANDLE_PHYSICAL, r->physical);
		r->physical->refs++;
	}
	r->physical->handles++;
	*handle = number_of(r->physical);
	return CUDA_SUCCESS;
}

ENTRY cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
					     CUmemGenericAllocationHandle handle)
{
	const struct physical *p;

	ENTER_INIT(cuMemGetAllocationPropertiesFromHandle);
	p = physical_get(handle);
	if (!prop || !p)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = p->is_exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
							 : CU_MEM_HANDLE_TYPE_NONE,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = p->device},
	};
	return CUDA_SUCCESS;
}

/* ---- pools ---- */

static struct pool *pool_get(CUmemoryPool handle)
{
	return handle_get(HANDLE_POOL, handle);
}

static CUresult alloc_async(CUdeviceptr *out, size_t bytes, struct pool *p, CUstream handle)
{
	struct stream *s;
	uintptr_t base;

	TRY(stream_get(handle, &s));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(pool_alloc(p ? p : pool_current(s->ctx->device), s, bytes, &base));
	*out = base;
	return CUDA_SUCCESS;
}
PAIR(cuMemAllocAsync, _ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
     alloc_async(dptr, bytesize, NULL, STREAM(hStream)))

static CUresult alloc_from(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream handle)
{
	struct pool *p = pool_get(pool);

	return p ? alloc_async(out, bytes, p, handle) : CUDA_ERROR_INVALID_VALUE;
}
PAIR(cuMemAllocFromPoolAsync, _ptsz,
     (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
     alloc_from(dptr, bytesize, pool, STREAM(hStream)))

static CUresult free_async(CUdeviceptr address, CUstream handle)
{
	struct range *r = memory_find_base(address);
	struct stream *s;

	TRY(stream_get(handle, &s));
	return r && r->kind == MEM_POOL ? pool_free(r, s) : CUDA_ERROR_INVALID_VALUE;
}
PAIR(cuMemFreeAsync, _ptsz, (CUdeviceptr dptr, CUstream hStream), free_async(dptr, STREAM(hStream)))

ENTRY cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	ENTER_INIT(cuDeviceGetDefaultMemPool);
	if (!device_is(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!has(CAP_POOLS))
		return CUDA_ERROR_NOT_SUPPORTED;
	*pool_out = pool_default(dev)->handle;
	return CUDA_SUCCESS;
}

ENTRY cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	ENTER_INIT(cuDeviceGetMemPool);
	if (!device_is(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!has(CAP_POOLS))
		return CUDA_ERROR_NOT_SUPPORTED;
	*pool = pool_current(dev)->handle;
	return CUDA_SUCCESS;
}

ENTRY cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	struct pool *p;

	ENTER_INIT(cuDeviceSetMemPool);
	p = pool_get(pool);
	if (!device_is(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!p || p->device != dev)
		return CUDA_ERROR_INVALID_VALUE;
	pool_set_current(dev, p);
	return CUDA_SUCCESS;
}

ENTRY cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	ENTER_INIT(cuMemPoolCreate);
	if (!has(CAP_POOLS))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!pool || !poolProps || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !device_is(poolProps->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return sim_missing("cuMemPoolCreate of a pool for other processes");
	if (memory_init() != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool = pool_create(poolProps->location.id)->handle;
	return CUDA_SUCCESS;
}

ENTRY cuMemPoolDestroy(CUmemoryPool pool)
{
	struct pool *p;

	ENTER_INIT(cuMemPoolDestroy);
	p = pool_get(pool);
	if (!p || p->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	pool_destroy(p);
	return CUDA_SUCCESS;
}

ENTRY cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	struct pool *p;

	ENTER_INIT(cuMemPoolTrimTo);
	p = pool_get(pool);
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	pool_trim(p, minBytesToKeep);
	return CUDA_SUCCESS;
}

ENTRY cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	struct pool *p;

	ENTER_INIT(cuMemPoolSetAccess);
	p = pool_get(pool);
	for (size_t i = 0; p && i < count; i++) {
		const uint32_t bit = UINT32_C(1) << map[i].location.id;

		if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !device_is(map[i].location.id) || map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
			return CUDA_ERROR_INVALID_VALUE;
		if (map[i].location.id != p->device && !has(CAP_PEER))
			return CUDA_ERROR_INVALID_DEVICE;
		p->access = map[i].flags ? p->access | bit : p->access & ~bit;
	}
	return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
	const struct pool *p;

	ENTER_INIT(cuMemPoolGetAccess);
	p = pool_get(memPool);
	if (!p || !flags || !location || !device_is(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = location->id == p->device || (p->access >> location->id & 1)
			 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
			 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

static uint64_t *pool_field(struct pool *p, CUmemPool_attribute a)
{
	switch (a) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &p->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &p->reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &p->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &p->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &p->used_high;
	default:
		return NULL;
	}
}

static bool is_reuse(CUmemPool_attribute a)
{
	return a >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
	       a <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

ENTRY cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	const uint64_t *field;
	struct pool *p;

	ENTER_INIT(cuMemPoolGetAttribute);
	p = pool_get(pool);
	if (!p || !value)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_reuse(attr)) {
		*(int *)value = p->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
		return CUDA_SUCCESS;
	}
	field = pool_field(p, attr);
	if (!field)
		return CUDA_ERROR_INVALID_VALUE;
	*(uint64_t *)value = *field;
	return CUDA_SUCCESS;
}

/* Of the two high marks, only a reset to 0 is allowed. */
ENTRY cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct pool *p;

	ENTER_INIT(cuMemPoolSetAttribute);
	p = pool_get(pool);
	if (!p || !value)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_reuse(attr)) {
		p->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value;
		return CUDA_SUCCESS;
	}
	if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
		p->threshold = *(uint64_t *)value;
		return CUDA_SUCCESS;
	}
	if ((attr != CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && attr != CU_MEMPOOL_ATTR_USED_MEM_HIGH) ||
	    *(uint64_t *)value != 0)
		return CUDA_ERROR_INVALID_VALUE;
	*pool_field(p, attr) = attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? p->used : p->reserved;
	return CUDA_SUCCESS;
}
