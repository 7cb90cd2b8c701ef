/* SPDX-License-Identifier: BSD-3-Clause */
/* vmm.c: addresses that are reserved, memory that is created, and the one mapped at the other.
 * Memory of this kind is a file of its own, so that another process can import it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm.h"

struct reservation {
	uintptr_t base;
	size_t bytes;
	struct reservation *next;
};
static struct reservation *reservations;

static void physical_put(struct physical *p)
{
	if (--p->refs)
		return;
	close(p->fd);
	free(p);
}

static struct physical *physical_new(int device, int fd, size_t bytes)
{
	struct physical *p = sim_alloc(sizeof(*p));

	p->device = device;
	p->fd = fd;
	p->bytes = bytes;
	p->refs = p->handles = 1;
	p->handle = handle_new(HANDLE_PHYSICAL, p);
	return p;
}

CUresult vmm_check_properties(const CUmemAllocationProp *prop)
{
	if (!has(CAP_VMM))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return sim_missing("memory that is created elsewhere than on a device");
	return device_is(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult vmm_create(size_t bytes, const CUmemAllocationProp *prop, struct physical **out)
{
	CUresult e = vmm_check_properties(prop);
	char name[32];
	int fd;

	if (e != CUDA_SUCCESS)
		return e;
	if (bytes == 0 || bytes % VMM_GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, sizeof(name), "cudasim-vmm-%d", prop->location.id); /* vmm_import reads it */
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0 || bytes > device_memory_bytes || ftruncate(fd, (off_t)bytes) != 0) {
		if (fd >= 0)
			close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = physical_new(prop->location.id, fd, bytes);
	(*out)->is_exportable =
		prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return CUDA_SUCCESS;
}

CUresult vmm_release(struct physical *p)
{
	if (--p->handles)
		return CUDA_SUCCESS;
	handle_drop(p->handle);
	physical_put(p);
	return CUDA_SUCCESS;
}

CUresult vmm_export(const struct physical *p, int *fd)
{
	if (!p->is_exportable)
		return CUDA_ERROR_INVALID_VALUE;
	*fd = dup(p->fd);
	return *fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult vmm_import(int fd, struct physical **out)
{
	char link[64], name[128] = "";
	struct stat st;
	int device, own;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, name, sizeof(name) - 1) < 0 ||
	    sscanf(name, "/memfd:cudasim-vmm-%d", &device) != 1 || !device_is(device) ||
	    fstat(fd, &st) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	own = dup(fd);
	if (own < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = physical_new(device, own, (size_t)st.st_size);
	return CUDA_SUCCESS;
}

/* ---- addresses ---- */

CUresult vmm_reserve(size_t bytes, size_t alignment, uintptr_t *out)
{
	struct reservation *r;

	if (!has(CAP_VMM))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (bytes == 0 || bytes % VMM_GRANULARITY || (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (memory_init() != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = memory_window_take(0, bytes,
				  alignment > VMM_GRANULARITY ? alignment : VMM_GRANULARITY);
	if (!*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sim_alloc(sizeof(*r));
	*r = (struct reservation){*out, bytes, reservations};
	reservations = r;
	return CUDA_SUCCESS;
}

CUresult vmm_free(uintptr_t base, size_t bytes)
{
	struct reservation **at = &reservations, *r;

	while (*at && (*at)->base != base)
		at = &(*at)->next;
	r = *at;
	if (!r || r->bytes != bytes || memory_overlaps(base, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	*at = r->next;
	free(r);
	memory_window_give(0, base, bytes);
	return CUDA_SUCCESS;
}

static bool is_reserved(uintptr_t base, size_t bytes)
{
	for (const struct reservation *r = reservations; r; r = r->next)
		if (base >= r->base && bytes <= r->bytes && base - r->base <= r->bytes - bytes)
			return true;
	return false;
}

CUresult vmm_map(uintptr_t base, size_t bytes, size_t offset, struct physical *p)
{
	struct range *r;

	if (bytes == 0 || bytes % VMM_GRANULARITY || base % VMM_GRANULARITY || offset ||
	    bytes > p->bytes || !is_reserved(base, bytes) || memory_overlaps(base, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (mmap(memory_cpu(base), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->fd,
		 0) == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = memory_add(base, bytes, MEM_VMM, p->device, NULL);
	r->physical = p;
	p->refs++;
	return CUDA_SUCCESS;
}

/* Walks the mappings that make up a piece of address space; each must lie in it whole. */
static CUresult each_mapping(uintptr_t base, size_t bytes, void (*fn)(struct range *r, void *arg),
			     void *arg)
{
	const uintptr_t end = base + bytes;

	for (uintptr_t at = base; at < end;) {
		struct range *r = memory_find_base(at);

		if (!r || r->kind != MEM_VMM || r->bytes > end - at)
			return CUDA_ERROR_INVALID_VALUE;
		at += r->bytes;
	}
	for (uintptr_t at = base; at < end;) {
		struct range *r = memory_find_base(at);

		at += r->bytes;
		fn(r, arg);
	}
	return CUDA_SUCCESS;
}

static void unmap(struct range *r, void *unused)
{
	(void)unused;
	r->is_freed = true;
	atomic_store(&r->is_live, false);
	memory_window_reset(0, r->base, r->bytes);
	physical_put(r->physical);
	memory_remove(r);
}

CUresult vmm_unmap(uintptr_t base, size_t bytes)
{
	return each_mapping(base, bytes, unmap, NULL);
}

static void allow(struct range *r, void *arg)
{
	const CUmemAccessDesc *d = arg;
	const uint32_t bit = UINT32_C(1) << d->location.id;

	r->access = d->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? r->access & ~bit : r->access | bit;
	r->is_read_only = d->flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
}

CUresult vmm_set_access(uintptr_t base, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		CUmemAccessDesc d = desc[i];
		CUresult e;

		if (d.location.type != CU_MEM_LOCATION_TYPE_DEVICE || !device_is(d.location.id))
			return CUDA_ERROR_INVALID_VALUE;
		e = each_mapping(base, bytes, allow, &d);
		if (e != CUDA_SUCCESS)
			return e;
	}
	return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
