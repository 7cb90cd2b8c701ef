/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_int.h: the CUDA backend's own structures, and the driver as it sees it. */
#ifndef STMPI_STREAM_CUDA_CUDA_INT_H
#define STMPI_STREAM_CUDA_CUDA_INT_H

#include <cuda.h>
#include <pthread.h>
#include <stddef.h>

#include "stream/cuda/cuda_backend.h"

/*
 * The driver's calls that are used: the name, the version of CUDA whose form of the call is asked
 * for, its arguments. The forms are written down here, for those of cuda.h change with its version.
 */
#define CUDA_CALLS(C)                                                                              \
	C(cuInit, 2000, (unsigned int flags))                                                      \
	C(cuGetErrorName, 6000, (CUresult error, const char **text))                               \
	C(cuGetErrorString, 6000, (CUresult error, const char **text))                             \
	C(cuDeviceGetCount, 2000, (int *count))                                                    \
	C(cuDeviceGetAttribute, 2000, (int *value, CUdevice_attribute attribute, CUdevice device)) \
	C(cuCtxGetCurrent, 4000, (CUcontext * context))                                            \
	C(cuCtxPushCurrent, 4000, (CUcontext context))                                             \
	C(cuCtxPopCurrent, 4000, (CUcontext * context))                                            \
	C(cuCtxGetDevice, 2000, (CUdevice * device))                                               \
	C(cuStreamGetCtx, 9020, (CUstream stream, CUcontext * context))                            \
	C(cuStreamIsCapturing, 10000, (CUstream stream, CUstreamCaptureStatus * status))           \
	C(cuStreamQuery, 2000, (CUstream stream))                                                  \
	C(cuStreamCreate, 2000, (CUstream * stream, unsigned int flags))                           \
	C(cuStreamDestroy, 4000, (CUstream stream))                                                \
	C(cuStreamSynchronize, 2000, (CUstream stream))                                            \
	C(cuMemHostRegister, 6050, (void *addr, size_t bytes, unsigned int flags))                 \
	C(cuMemHostUnregister, 4000, (void *addr))                                                 \
	C(cuMemcpyAsync, 4000, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream))  \
	C(cuPointerGetAttribute, 4000,                                                             \
	  (void *value, CUpointer_attribute attribute, CUdeviceptr addr))                          \
	C(cuStreamWriteValue64, 11070,                                                             \
	  (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags))               \
	C(cuStreamWaitValue64, 11070,                                                              \
	  (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags))               \
	C(cuStreamBatchMemOp, 11070,                                                               \
	  (CUstream stream, unsigned int n, CUstreamBatchMemOpParams *ops, unsigned int flags))    \
	C(cuLaunchHostFunc, 10000, (CUstream stream, CUhostFn fn, void *arg))                      \
	C(cuModuleLoadData, 2000, (CUmodule * module, const void *image))                          \
	C(cuModuleUnload, 2000, (CUmodule module))                                                 \
	C(cuModuleGetFunction, 2000, (CUfunction * function, CUmodule module, const char *name))   \
	C(cuLaunchKernel, 4000,                                                                    \
	  (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,     \
	   unsigned int block_x, unsigned int block_y, unsigned int block_z,                       \
	   unsigned int shared_bytes, CUstream stream, void **arguments, void **extra))

/* Calls that a driver may lack: then NULL. */
#define CUDA_OPTIONAL_CALLS(C) C(cuFuncLoad, 12040, (CUfunction function))

struct cuda_calls {
#define CUDA_SLOT(name, version, arguments) CUresult(CUDAAPI *name) arguments;
	CUDA_CALLS(CUDA_SLOT)
	CUDA_OPTIONAL_CALLS(CUDA_SLOT)
#undef CUDA_SLOT
};

/* driver.c: written once, before cuda_driver_open returns 0. */
extern struct cuda_calls cuda_call;

/* Load and start the driver, once. 0, or -STMPI_ENODEV with the reason in why. */
int cuda_driver_open(char *why, size_t why_bytes);

/* A text for one of the driver's errors: its name and what that means. */
const char *cuda_error_text(CUresult error, char *text, size_t bytes);
#define CUDA_TEXT_BYTES 192

/* Keep a text "WHAT: CALL: ERROR" and return the code that fits, negative. */
int cuda_error_set(CUresult error, const char *what, const char *call);

/* How a port's waits and writes are made. */
enum cuda_wait_by {
	CUDA_BY_MEMOP,	/* the stream's own memory operations */
	CUDA_BY_KERNEL, /* a kernel, which writes words and polls them */
	CUDA_BY_HOSTFN, /* host functions, which set words and wait for them */
};

struct cuda_port {
	struct stmpi_stream_port port;
	CUstream stream;
	CUcontext ctx;
	CUdevice device;
	CUfunction words;  /* our kernel in ctx; NULL where it cannot be had */
	char name[32];	   /* for texts */
	int is_default;	   /* it means a stream of the current context, so that must be ours */
	int is_per_thread; /* it means another stream in another thread */
	pthread_t thread;  /* who attached it */
	enum cuda_wait_by by;
	int asks_driver; /* managed memory may not be touched while the device works */
};

/* hostfn.c: the entries as one host function. 0 or -STMPI_E. */
CUresult cuda_hostfn_queue(CUstream stream, const struct stmpi_memop *ops, int n);

/*
 * kernels.c: our kernel, which writes words and waits for them, loaded once in each context. _get:
 * 0, or -STMPI_ENODEV with the reason as text, and NULL. Cold; may wait for the device.
 */
int cuda_kernels_get(CUcontext ctx, CUfunction *words);
void cuda_kernels_fini(void);

/* Queue at most CUDA_WORDS_MAX entries; the stream's context is current. Warm. */
CUresult cuda_kernels_words(CUfunction words, CUstream stream, const struct stmpi_memop *ops,
			    int n);
#define CUDA_WORDS_MAX 32

/* map.c: host memory that the driver knows from us */
int cuda_map(CUcontext ctx, void *addr, size_t bytes);
void cuda_map_fini(void);

/* The calling thread's current context while it works on a port, put back by cuda_leave. */
struct cuda_visit {
	int is_pushed;
};

CUresult cuda_enter(CUcontext ctx, struct cuda_visit *visit);
void cuda_leave(struct cuda_visit *visit);

#endif
