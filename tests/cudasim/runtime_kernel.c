/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * runtime_kernel.c: what nvcc's code calls: it registers the device code of each file with the
 * names of its kernels and variables, and launches kernels by their host address. Of the device
 * code nothing is read: variables begin as zeros.
 */
#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>

#include "runtime.h"

/* The module of a file of device code, in each context that has used it. */
struct loaded {
	CUcontext ctx;
	void *module;
	struct loaded *next;
};

struct binary {
	struct loaded *loaded;
};

struct symbol {
	const void *host;
	struct binary *binary;
	const char *name;
	size_t bytes;	/* a variable's */
	void **managed; /* where the program looks for a managed one */
	UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct symbol *symbols; /* lock */

static void symbol_add(struct binary *b, const void *host, const char *name, size_t bytes,
		       void **managed)
{
	struct symbol *s = calloc(1, sizeof(*s)), *old;

	if (!s)
		abort();
	*s = (struct symbol){
		.host = host, .binary = b, .name = name, .bytes = bytes, .managed = managed};
	pthread_mutex_lock(&lock);
	HASH_REPLACE_PTR(symbols, host, s, old);
	free(old);
	pthread_mutex_unlock(&lock);
}

static struct symbol *symbol_find(const void *host)
{
	struct symbol *s;

	pthread_mutex_lock(&lock);
	HASH_FIND_PTR(symbols, &host, s);
	pthread_mutex_unlock(&lock);
	return s;
}

static CUresult module_of(struct binary *b, void **out)
{
	struct loaded *l;
	CUcontext ctx;
	CUresult e = CUDA_SUCCESS;

	TRY(cuCtxGetCurrent(&ctx));
	pthread_mutex_lock(&lock);
	for (l = b->loaded; l && l->ctx != ctx; l = l->next)
		;
	if (!l) {
		l = calloc(1, sizeof(*l));
		if (!l)
			abort();
		l->ctx = ctx;
		e = (CUresult)cudasim_module_opaque(&l->module);
		if (e == CUDA_SUCCESS) {
			l->next = b->loaded;
			b->loaded = l;
		}
	}
	pthread_mutex_unlock(&lock);
	*out = l->module;
	return e;
}

CUresult runtime_function(const void *host, CUfunction *out)
{
	const struct symbol *s = symbol_find(host);
	void *module;

	if (!s || s->bytes)
		return (CUresult)cudaErrorInvalidDeviceFunction;
	TRY(module_of(s->binary, &module));
	return cuModuleGetFunction(out, module, s->name);
}

CUresult runtime_symbol(const void *host, CUdeviceptr *address, size_t *bytes)
{
	const struct symbol *s = symbol_find(host);
	void *module, *at;

	if (!s || !s->bytes)
		return (CUresult)cudaErrorInvalidSymbol;
	if (bytes)
		*bytes = s->bytes;
	if (!address)
		return CUDA_SUCCESS;
	if (s->managed) {
		*address = (CUdeviceptr)*s->managed;
		return CUDA_SUCCESS;
	}
	TRY(module_of(s->binary, &module));
	TRY((CUresult)cudasim_module_variable(module, s->name, s->bytes, &at));
	*address = (CUdeviceptr)at;
	return CUDA_SUCCESS;
}

/* ---- registration: crt/host_runtime.h ---- */

#define VISIBLE __attribute__((visibility("default")))

VISIBLE void **CUDARTAPI __cudaRegisterFatBinary(void *fatCubin);
VISIBLE void CUDARTAPI __cudaRegisterFatBinaryEnd(void **handle);
VISIBLE void CUDARTAPI __cudaUnregisterFatBinary(void **handle);
VISIBLE void CUDARTAPI __cudaRegisterFunction(void **handle, const char *hostFun, char *deviceFun,
					      const char *deviceName, int thread_limit, void *tid,
					      void *bid, void *bDim, void *gDim, int *wSize);
VISIBLE void CUDARTAPI __cudaRegisterVar(void **handle, char *hostVar, char *deviceAddress,
					 const char *deviceName, int ext, size_t size, int constant,
					 int global);
VISIBLE void CUDARTAPI __cudaRegisterManagedVar(void **handle, void **hostVar, char *deviceAddress,
						const char *deviceName, int ext, size_t size,
						int constant, int global);
VISIBLE char CUDARTAPI __cudaInitModule(void **handle);
VISIBLE unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
						       void *stream);
VISIBLE cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
							 void *stream);
VISIBLE cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *kernel, const void *host);
VISIBLE cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
						 void **args, size_t shared, cudaStream_t stream);
VISIBLE cudaError_t CUDARTAPI __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block,
						      void **args, size_t shared,
						      cudaStream_t stream);

void **CUDARTAPI __cudaRegisterFatBinary(void *fatCubin)
{
	struct binary *b = calloc(1, sizeof(*b));

	(void)fatCubin;
	if (!b)
		abort();
	return (void **)b;
}

void CUDARTAPI __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

/* At the end of the program: what may still run keeps its names. */
void CUDARTAPI __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

void CUDARTAPI __cudaRegisterFunction(void **handle, const char *hostFun, char *deviceFun,
				      const char *deviceName, int thread_limit, void *tid,
				      void *bid, void *bDim, void *gDim, int *wSize)
{
	(void)deviceFun, (void)thread_limit, (void)tid, (void)bid, (void)bDim, (void)gDim,
		(void)wSize;
	symbol_add((struct binary *)handle, hostFun, deviceName, 0, NULL);
}

void CUDARTAPI __cudaRegisterVar(void **handle, char *hostVar, char *deviceAddress,
				 const char *deviceName, int ext, size_t size, int constant,
				 int global)
{
	(void)deviceAddress, (void)ext, (void)constant, (void)global;
	symbol_add((struct binary *)handle, hostVar, deviceName, size, NULL);
}

void CUDARTAPI __cudaRegisterManagedVar(void **handle, void **hostVar, char *deviceAddress,
					const char *deviceName, int ext, size_t size, int constant,
					int global)
{
	(void)deviceAddress, (void)ext, (void)constant, (void)global;
	symbol_add((struct binary *)handle, hostVar, deviceName, size, hostVar);
}

/* Before the first use of a managed variable. */
char CUDARTAPI __cudaInitModule(void **handle)
{
	struct symbol *s, *next;
	char is_ready = runtime_ready() == CUDA_SUCCESS;

	HASH_ITER (hh, symbols, s, next)
		if (is_ready && s->binary == (struct binary *)handle && s->managed && !*s->managed)
			is_ready = cuMemAllocManaged((CUdeviceptr *)s->managed, s->bytes,
						     CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS;
	return is_ready;
}

/* ---- launches ---- */

struct configuration {
	dim3 grid, block;
	size_t shared;
	void *stream;
};
enum {
	DEPTH = 16
};
static _Thread_local struct configuration stack[DEPTH];
static _Thread_local unsigned depth;

unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
	if (depth == DEPTH)
		return 1;
	stack[depth++] = (struct configuration){grid, block, shared, stream};
	return 0;
}

cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
						 void *stream)
{
	if (depth == 0)
		return runtime_end(cudaErrorMissingConfiguration);
	depth--;
	*grid = stack[depth].grid;
	*block = stack[depth].block;
	*shared = stack[depth].shared;
	*(void **)stream = stack[depth].stream;
	return cudaSuccess;
}

static CUresult launch(const void *host, dim3 g, dim3 b, void **args, size_t shared, cudaStream_t s)
{
	CUfunction f;

	TRY(runtime_function(host, &f));
	return cuLaunchKernel(f, g.x, g.y, g.z, b.x, b.y, b.z, (unsigned)shared, s, args, NULL);
}
PAIR(cudaLaunchKernel, _ptsz,
     (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
      cudaStream_t stream),
     launch(func, gridDim, blockDim, args, sharedMem, STREAM(stream)))
PAIR(cudaLaunchCooperativeKernel, _ptsz,
     (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
      cudaStream_t stream),
     launch(func, gridDim, blockDim, args, sharedMem, STREAM(stream)))
PAIR(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t *config, const void *func, void **args),
     launch(func, config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
	    STREAM(config->stream)))

/* What nvcc keeps as the kernel's handle is here the kernel's host address: any context can launch
 * it. */
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	*kernel = (cudaKernel_t)host;
	return cudaSuccess;
}
PAIR(__cudaLaunchKernel, _ptsz,
     (cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream),
     launch(kernel, grid, block, args, shared, STREAM(stream)))

/* ---- what is asked of kernels ---- */

static CUresult function_attributes(struct cudaFuncAttributes *a, const void *func)
{
	CUfunction f;

	TRY(runtime_function(func, &f));
	*a = (struct cudaFuncAttributes){
		.maxThreadsPerBlock = 1024, .numRegs = 32, .ptxVersion = 90, .binaryVersion = 90};
	return CUDA_SUCCESS;
}
CALL(cudaFuncGetAttributes, (struct cudaFuncAttributes * attr, const void *func),
     function_attributes(attr, func))

static CUresult set_attribute(const void *func)
{
	CUfunction f;

	return runtime_function(func, &f);
}
CALL(cudaFuncSetAttribute, (const void *func, enum cudaFuncAttribute attr, int value),
     ((void)attr, (void)value, set_attribute(func)))
CALL(cudaFuncSetCacheConfig, (const void *func, enum cudaFuncCache cacheConfig),
     ((void)cacheConfig, set_attribute(func)))
CALL(cudaGetFuncBySymbol, (cudaFunction_t * functionPtr, const void *symbolPtr),
     runtime_function(symbolPtr, functionPtr))

static CUresult occupancy(int *blocks, int block_size)
{
	if (!blocks || block_size <= 0 || block_size > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	*blocks = 2048 / block_size < 32 ? 2048 / block_size : 32;
	return CUDA_SUCCESS;
}
CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
     (int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize),
     ((void)func, (void)dynamicSMemSize, occupancy(numBlocks, blockSize)))
CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
     (int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize, unsigned int flags),
     ((void)func, (void)dynamicSMemSize, (void)flags, occupancy(numBlocks, blockSize)))
