/* SPDX-License-Identifier: BSD-3-Clause */
/* vmm.h: what driver_vmm.c asks of vmm.c. */
#ifndef CUDASIM_VMM_H
#define CUDASIM_VMM_H

#include "sim.h"

enum {
	VMM_GRANULARITY = 2 << 20
};

struct physical {
	void *handle;
	int device, fd, refs, handles; /* refs: mappings, and the handles as one */
	size_t bytes;
	bool is_exportable;
};

CUresult vmm_check_properties(const CUmemAllocationProp *prop);
CUresult vmm_create(size_t bytes, const CUmemAllocationProp *prop, struct physical **out);
CUresult vmm_release(struct physical *p);
CUresult vmm_export(const struct physical *p, int *fd);
CUresult vmm_import(int fd, struct physical **out);
CUresult vmm_reserve(size_t bytes, size_t alignment, uintptr_t *out);
CUresult vmm_free(uintptr_t base, size_t bytes);
CUresult vmm_map(uintptr_t base, size_t bytes, size_t offset, struct physical *p);
CUresult vmm_unmap(uintptr_t base, size_t bytes);
CUresult vmm_set_access(uintptr_t base, size_t bytes, const CUmemAccessDesc *desc, size_t count);

#endif
