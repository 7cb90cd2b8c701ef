/* SPDX-License-Identifier: BSD-3-Clause */
/* map.c: host memory that was registered with the driver, and whose context is current. Cold. */
#include <stdlib.h>

#include "stream/cuda/cuda_int.h"
#include "util/error.h"

/* One piece of memory that we registered. */
struct mapping {
	void *addr;
	CUcontext ctx;
	struct mapping *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards mappings; innermost */
static struct mapping *mappings;

CUresult cuda_enter(CUcontext ctx, struct cuda_visit *visit)
{
	CUcontext current = NULL;
	CUresult e;

	visit->is_pushed = 0;
	e = cuda_call.cuCtxGetCurrent(&current);
	if (e != CUDA_SUCCESS || current == ctx)
		return e;
	e = cuda_call.cuCtxPushCurrent(ctx);
	visit->is_pushed = e == CUDA_SUCCESS;
	return e;
}

void cuda_leave(struct cuda_visit *visit)
{
	CUcontext ours;

	if (visit->is_pushed)
		(void)cuda_call.cuCtxPopCurrent(&ours);
	visit->is_pushed = 0;
}

static CUresult map(CUcontext ctx, void *addr, size_t bytes, struct mapping *m)
{
	struct cuda_visit visit;
	CUresult e;

	e = cuda_enter(ctx, &visit);
	if (e != CUDA_SUCCESS)
		return e;
	/* Portable: known to all contexts, also those of other devices. It dies with the context in
	 * which it was made; then this call makes it anew for the next stream. */
	e = cuda_call.cuMemHostRegister(addr, bytes,
					CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	cuda_leave(&visit);
	if (e != CUDA_SUCCESS)
		return e;
	pthread_mutex_lock(&mutex);
	*m = (struct mapping){addr, ctx, mappings};
	mappings = m;
	pthread_mutex_unlock(&mutex);
	return CUDA_SUCCESS;
}

int cuda_map(CUcontext ctx, void *addr, size_t bytes)
{
	struct mapping *m = malloc(sizeof(*m));
	CUresult e;

	if (m == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory to map memory");
	e = map(ctx, addr, bytes, m);
	if (e == CUDA_SUCCESS)
		return 0;
	free(m);
	if (e == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
		return 0;
	return cuda_error_set(e, "memory for a stream's device", "cuMemHostRegister");
}

void cuda_map_fini(void)
{
	struct mapping *m = mappings, *next;
	struct cuda_visit visit;

	mappings = NULL;
	for (; m != NULL; m = next) {
		next = m->next;
		/* Where its context has gone, so has the registration; then this fails. */
		(void)cuda_enter(m->ctx, &visit);
		(void)cuda_call.cuMemHostUnregister(m->addr);
		cuda_leave(&visit);
		free(m);
	}
}
