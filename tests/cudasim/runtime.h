/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * runtime.h: what the files of the simulated libcudart share. It stands on the driver API, and has
 * of its own only what the runtime adds: a current device for each thread, the last error, kernels
 * and variables by the addresses that nvcc gives them in the program.
 */
#ifndef CUDASIM_RUNTIME_H
#define CUDASIM_RUNTIME_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "link.h"

/* Keeps e as the thread's last error. */
cudaError_t runtime_end(int e);
/* The current device's primary context, current; or what the program made current by the driver
 * API. */
CUresult runtime_ready(void);
/* The kernel or variable of a host address, in the current context. */
CUresult runtime_function(const void *host, CUfunction *out);
CUresult runtime_symbol(const void *host, CUdeviceptr *address, size_t *bytes);

static inline void runtime_leave_scope(const int *unused)
{
	(void)unused;
	cudasim_runtime_leave();
}

#define RUNTIME __attribute__((visibility("default"))) cudaError_t CUDARTAPI

/* Counts, and fails where it must. */
#define BEGIN(name)                                                                                \
	static struct cudasim_counter counter = {#name, 0, false, NULL};                           \
	int entered __attribute__((cleanup(runtime_leave_scope))) =                                \
		cudasim_runtime_enter(&counter);                                                   \
	if (entered)                                                                               \
	return runtime_end(entered)
#define READY(name)                                                                                \
	BEGIN(name);                                                                               \
	entered = (int)runtime_ready();                                                            \
	if (entered)                                                                               \
	return runtime_end(entered)

/* A plain call of the runtime that is one expression over the driver API. */
#define CALL(name, params, call)                                                                   \
	RUNTIME name params                                                                        \
	{                                                                                          \
		READY(name);                                                                       \
		return runtime_end((int)(call));                                                   \
	}
/* And its twin for programs whose default stream is the thread's own. */
#define PAIR(name, suffix, params, call)                                                           \
	RUNTIME name params                                                                        \
	{                                                                                          \
		const cudaStream_t null_stream = cudaStreamLegacy;                                 \
		READY(name);                                                                       \
		(void)null_stream;                                                                 \
		return runtime_end((int)(call));                                                   \
	}                                                                                          \
	RUNTIME name##suffix params; /* declared only for programs that are built for it */        \
	RUNTIME name##suffix params                                                                \
	{                                                                                          \
		const cudaStream_t null_stream = cudaStreamPerThread;                              \
		READY(name##suffix);                                                               \
		(void)null_stream;                                                                 \
		return runtime_end((int)(call));                                                   \
	}
#define STREAM(handle) ((handle) ? (handle) : null_stream)

#endif
