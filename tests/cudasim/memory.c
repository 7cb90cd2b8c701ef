/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c: the table of all memory that CUDA knows, and the kinds that are made by one call. An
 * entry that was freed stays until the work that was queued before has ended.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

/* Against kernels that run, and against queues that let go of memory. */
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct range **table; /* sorted by base */
static unsigned table_count;
static uint64_t last_id;

/* The first entry whose base is greater. */
static unsigned after(uintptr_t address)
{
	unsigned low = 0, high = table_count;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (table[middle]->base <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool contains(const struct range *r, uintptr_t address)
{
	return address >= r->base && address - r->base < r->bytes;
}

struct range *memory_add(uintptr_t base, size_t bytes, enum memory_kind kind, int device,
			 struct context *ctx)
{
	struct range *r = sim_alloc(sizeof(*r));
	unsigned at;

	r->base = base;
	r->bytes = bytes;
	r->kind = kind;
	r->device = device;
	r->ctx = ctx;
	r->ipc_slot = -1;
	atomic_store(&r->is_live, true);
	atomic_store(&r->refs, 1);
	pthread_mutex_lock(&memory_lock);
	r->id = ++last_id;
	at = after(base);
	table = sim_grow(table, table_count, sizeof(*table));
	memmove(&table[at + 1], &table[at], (table_count - at) * sizeof(r));
	table[at] = r;
	table_count++;
	pthread_mutex_unlock(&memory_lock);
	return r;
}

/* Without memory_lock. */
void memory_remove(struct range *r)
{
	pthread_mutex_lock(&memory_lock);
	for (unsigned i = after(r->base); i-- > 0 && table[i]->base == r->base;)
		if (table[i] == r) {
			table_count--;
			memmove(&table[i], &table[i + 1], (table_count - i) * sizeof(r));
			break;
		}
	pthread_mutex_unlock(&memory_lock);
	memory_put(r);
}

void memory_put(struct range *r)
{
	if (atomic_fetch_sub(&r->refs, 1) == 1)
		free(r);
}

struct range *memory_find(uintptr_t address)
{
	struct range *found = NULL;

	pthread_mutex_lock(&memory_lock);
	for (unsigned i = after(address); i-- > 0;) {
		if (contains(table[i], address) && !table[i]->is_freed)
			found = table[i];
		/* Entries overlap only where a pool's memory is used again: then their bases are
		 * equal. */
		if (found || (i > 0 && table[i - 1]->base != table[i]->base))
			break;
	}
	pthread_mutex_unlock(&memory_lock);
	return found;
}

struct range *memory_find_base(uintptr_t base)
{
	struct range *r = memory_find(base);

	return r && r->base == base ? r : NULL;
}

bool memory_overlaps(uintptr_t base, size_t bytes)
{
	bool found = false;

	pthread_mutex_lock(&memory_lock);
	for (unsigned i = after(base + bytes - 1); i-- > 0 && !found;) {
		if (table[i]->is_freed)
			continue;
		found = table[i]->base + table[i]->bytes > base;
		break;
	}
	pthread_mutex_unlock(&memory_lock);
	return found;
}

bool memory_is_device(const struct range *r)
{
	return r && r->kind <= MEM_IPC;
}

bool memory_is_pinned(const struct range *r)
{
	return r && (r->kind == MEM_PINNED || r->kind == MEM_REGISTERED);
}

/* ctx NULL: some device may. */
static bool may_reach(const struct context *ctx, const struct range *r, bool is_write)
{
	if (!memory_is_device(r))
		return true;
	if (r->kind == MEM_VMM)
		return (ctx ? r->access >> ctx->device & 1 : r->access != 0) &&
		       !(is_write && r->is_read_only);
	/* DA, cuMemPoolSetAccess: not by cuCtxEnablePeerAccess. */
	if (r->kind == MEM_POOL && ctx && r->device != ctx->device)
		return r->pool->access >> ctx->device & 1;
	return !ctx || r->device == ctx->device || (ctx->peers >> r->device & 1);
}

void *memory_for_kernel(struct context *ctx, uintptr_t address)
{
	bool is_allowed = false, is_known = false;

	pthread_mutex_lock(&memory_lock);
	for (unsigned i = after(address); i-- > 0 && !is_allowed;) {
		if (contains(table[i], address)) {
			is_known = true;
			is_allowed = atomic_load(&table[i]->is_live) &&
				     may_reach(ctx, table[i], false) &&
				     !(table[i]->kind == MEM_IPC && ipc_is_gone(table[i]));
		}
		if (i > 0 && table[i - 1]->base != table[i]->base)
			break;
	}
	pthread_mutex_unlock(&memory_lock);
	if (is_allowed)
		return memory_cpu(address);
	sim_say("a kernel may not touch %p: %s", (void *)address,
		is_known ? "memory of another device without access, or before its "
			   "allocation or after its free in the stream"
		: memory_window_of(address) >= 0
			? "no allocation is there"
			: "host memory that is neither pinned, registered nor managed");
	return NULL;
}

/* Memory of several handles in one reservation is one buffer, when all of it may be used. */
CUresult memory_reach(struct context *ctx, uintptr_t address, size_t bytes, bool is_write,
		      struct range **first)
{
	struct range *r = memory_find(address);

	*first = r;
	for (;;) {
		size_t rest;

		if (!r || !may_reach(ctx, r, is_write))
			return CUDA_ERROR_INVALID_VALUE;
		rest = r->base + r->bytes - address;
		if (bytes <= rest)
			return CUDA_SUCCESS;
		if (r->kind != MEM_VMM)
			return CUDA_ERROR_INVALID_VALUE;
		address += rest;
		bytes -= rest;
		r = memory_find(address);
		if (r && r->kind != MEM_VMM)
			return CUDA_ERROR_INVALID_VALUE;
	}
}

/* ---- allocation ---- */

static size_t round_up(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

/* New memory holds no zeros that a program could rely upon. */
static void poison(uintptr_t base, size_t bytes)
{
	memset(memory_cpu(base), 0xa5, bytes < 65536 ? bytes : 65536);
}

CUresult memory_alloc(struct context *ctx, size_t bytes, uintptr_t *out)
{
	size_t reserved = round_up(bytes, bytes < 4096 ? 512 : 4096);
	uintptr_t base = 0;

	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes <= device_memory_bytes &&
	    memory_in_use(ctx->device) + reserved <= device_memory_bytes)
		base = memory_window_take(ctx->device, reserved, bytes < 4096 ? 512 : 4096);
	if (base == 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	poison(base, bytes);
	memory_add(base, bytes, MEM_DEVICE, ctx->device, ctx)->reserved = reserved;
	*out = base;
	return CUDA_SUCCESS;
}

static CUresult map_host(size_t bytes, void **out)
{
	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	*out = mmap(NULL, round_up(bytes, 4096), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return *out == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult memory_alloc_host(struct context *ctx, size_t bytes, unsigned flags, void **out)
{
	struct range *r;
	void *p;
	CUresult e = map_host(bytes, &p);

	if (e != CUDA_SUCCESS)
		return e;
	r = memory_add((uintptr_t)p, bytes, MEM_PINNED, ctx->device, ctx);
	r->flags = flags;
	r->reserved = round_up(bytes, 4096);
	*out = p;
	return CUDA_SUCCESS;
}

CUresult memory_alloc_managed(struct context *ctx, size_t bytes, unsigned flags, uintptr_t *out)
{
	struct range *r;
	void *p;
	CUresult e;

	if (!has(CAP_MANAGED))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	e = map_host(bytes, &p);
	if (e != CUDA_SUCCESS)
		return e;
	r = memory_add((uintptr_t)p, bytes, MEM_MANAGED, ctx->device, ctx);
	r->flags = flags;
	r->reserved = round_up(bytes, 4096);
	*out = (uintptr_t)p;
	return CUDA_SUCCESS;
}

/* The documentation lets the free of such memory synchronise, so it does: with all work of the
 * context. */
static void wait_before_free(struct range *r)
{
	struct context *ctx = r->ctx;

	r->is_freed = true;
	if (!atomic_load(&ctx->is_dead))
		context_wait(ctx);
	atomic_store(&r->is_live, false);
}

CUresult memory_free(uintptr_t base)
{
	struct range *r;

	if (base == 0)
		return CUDA_SUCCESS;
	r = memory_find_base(base);
	if (!r)
		return CUDA_ERROR_INVALID_VALUE;
	switch (r->kind) {
	case MEM_POOL:
		return pool_free(r, NULL);
	case MEM_DEVICE:
		wait_before_free(r);
		ipc_owner_freed(r);
		memory_window_give(r->device, base, r->reserved);
		break;
	case MEM_MANAGED:
		wait_before_free(r);
		munmap((void *)base, r->reserved);
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	memory_remove(r);
	return CUDA_SUCCESS;
}

CUresult memory_free_host(void *p)
{
	struct range *r = memory_find_base((uintptr_t)p);

	if (!r || r->kind != MEM_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	wait_before_free(r);
	munmap(p, r->reserved);
	memory_remove(r);
	return CUDA_SUCCESS;
}

/* Memory that is not there cannot be pinned. */
static bool is_mapped(uintptr_t p, size_t bytes)
{
	unsigned char resident[256];
	const uintptr_t end = p + bytes;
	const size_t step = sizeof(resident) * 4096;

	for (p &= ~(uintptr_t)4095; p < end; p += step)
		if (mincore((void *)p, end - p < step ? end - p : step, resident) != 0)
			return false;
	return true;
}

CUresult memory_register(struct context *ctx, void *p, size_t bytes, unsigned flags)
{
	const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
			       CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

	if (!has(CAP_HOST_REGISTER))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!p || bytes == 0 || (flags & ~known) || memory_window_of((uintptr_t)p) >= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (memory_overlaps((uintptr_t)p, bytes))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (!is_mapped((uintptr_t)p, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	memory_add((uintptr_t)p, bytes, MEM_REGISTERED, ctx->device, ctx)->flags = flags;
	return CUDA_SUCCESS;
}

CUresult memory_unregister(void *p)
{
	struct range *r = memory_find_base((uintptr_t)p);

	if (!r || r->kind != MEM_REGISTERED)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	wait_before_free(r);
	memory_remove(r);
	return CUDA_SUCCESS;
}

/* ---- attributes ---- */

static CUresult attribute_of(const struct range *r, void *data, CUpointer_attribute attribute,
			     uintptr_t address)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		/* VMM memory and pools' belong to a device, not to a context. */
		*(CUcontext *)data =
			r->kind == MEM_VMM || r->kind == MEM_POOL ? NULL : r->ctx->handle;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = memory_is_pinned(r) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = address;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (memory_is_device(r))
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = (void *)address;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(unsigned *)data = (unsigned)r->sync_memops;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = r->id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned *)data = r->kind == MEM_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = r->device;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned *)data = r->kind == MEM_DEVICE && has(CAP_IPC);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = r->base;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = r->bytes;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned *)data = 1;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data =
			r->kind == MEM_VMM ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(unsigned *)data = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(unsigned *)data = r->is_read_only ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
						    : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = r->pool ? r->pool->handle : NULL;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = r->bytes;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(CUdeviceptr *)data = r->base;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)data = r->id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult memory_attribute(void *data, CUpointer_attribute attribute, uintptr_t address)
{
	const struct range *r = memory_find(address);

	if (!data || attribute <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	/* Memory that CUDA does not know: an error for all attributes. */
	return r ? attribute_of(r, data, attribute, address) : CUDA_ERROR_INVALID_VALUE;
}
