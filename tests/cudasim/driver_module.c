/* SPDX-License-Identifier: BSD-3-Clause */
/* driver_module.c: the driver API: modules, libraries, functions and their launches. */
#include <stdio.h>
#include <stdlib.h>

#include "entry.h"

static CUresult load(CUmodule *out, const void *image)
{
	struct module *m;

	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(capture_allows_unsafe());
	TRY(module_load(context_current(), image, &m));
	*out = m->handle;
	return CUDA_SUCCESS;
}

ENTRY cuModuleLoadData(CUmodule *module, const void *image)
{
	ENTER(cuModuleLoadData);
	return load(module, image);
}

ENTRY cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
			 CUjit_option *options, void **optionValues)
{
	ENTER(cuModuleLoadDataEx);
	(void)numOptions;
	(void)options;
	(void)optionValues;
	return load(module, image);
}

ENTRY cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	ENTER(cuModuleLoadFatBinary);
	return load(module, fatCubin);
}

ENTRY cuModuleLoad(CUmodule *module, const char *fname)
{
	enum {
		TEXT_MAX = 16 << 20
	};
	char *image;
	CUresult e;
	FILE *f;

	ENTER(cuModuleLoad);
	f = fname ? fopen(fname, "r") : NULL;
	if (!f)
		return fname ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
	image = sim_alloc(TEXT_MAX + 1);
	fread(image, 1, TEXT_MAX, f);
	fclose(f);
	e = load(module, image);
	free(image);
	return e;
}

static struct module *module_get(CUmodule handle)
{
	return handle_get(HANDLE_MODULE, handle);
}

ENTRY cuModuleUnload(CUmodule hmod)
{
	struct module *m;

	ENTER(cuModuleUnload);
	m = module_get(hmod);
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	module_unload(m);
	return CUDA_SUCCESS;
}

static CUresult get_function(void **out, void *module, const char *name)
{
	struct module *m = module_get(module);
	struct function *f;

	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(module_function(m, name, &f));
	*out = f->handle;
	return CUDA_SUCCESS;
}

static CUresult get_global(CUdeviceptr *address, size_t *bytes, void *module, const char *name)
{
	struct module *m = module_get(module);
	struct variable *v;

	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(module_variable(m, name, 0, &v));
	if (address)
		*address = v->address;
	if (bytes)
		*bytes = v->bytes;
	return CUDA_SUCCESS;
}

ENTRY cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	ENTER(cuModuleGetFunction);
	return get_function((void **)hfunc, hmod, name);
}

ENTRY cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	ENTER(cuModuleGetGlobal_v2);
	return get_global(dptr, bytes, hmod, name);
}

ENTRY cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	ENTER_INIT(cuModuleGetLoadingMode);
	*mode = CU_MODULE_EAGER_LOADING;
	return CUDA_SUCCESS;
}

/* Libraries: here a module of the context that is current. */
ENTRY cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
			void **jitOptionsValues, unsigned int numJitOptions,
			CUlibraryOption *libraryOptions, void **libraryOptionValues,
			unsigned int numLibraryOptions)
{
	ENTER(cuLibraryLoadData);
	(void)jitOptions;
	(void)jitOptionsValues;
	(void)numJitOptions;
	(void)libraryOptions;
	(void)libraryOptionValues;
	(void)numLibraryOptions;
	return load((CUmodule *)library, code);
}

ENTRY cuLibraryUnload(CUlibrary library)
{
	struct module *m;

	ENTER(cuLibraryUnload);
	m = module_get((CUmodule)library);
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	module_unload(m);
	return CUDA_SUCCESS;
}

ENTRY cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	ENTER(cuLibraryGetKernel);
	return get_function((void **)pKernel, library, name);
}

ENTRY cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	ENTER(cuLibraryGetGlobal);
	return get_global(dptr, bytes, library, name);
}

ENTRY cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	ENTER(cuKernelGetFunction);
	if (!handle_get(HANDLE_FUNCTION, kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	*pFunc = (CUfunction)kernel;
	return CUDA_SUCCESS;
}

ENTRY cuFuncGetName(const char **name, CUfunction hfunc)
{
	const struct function *f;

	ENTER(cuFuncGetName);
	f = handle_get(HANDLE_FUNCTION, hfunc);
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	*name = f->name;
	return CUDA_SUCCESS;
}

ENTRY cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	ENTER(cuFuncGetAttribute);
	if (!handle_get(HANDLE_FUNCTION, hfunc))
		return CUDA_ERROR_INVALID_HANDLE;
	*pi = attrib == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
	return CUDA_SUCCESS;
}

ENTRY cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	ENTER(cuFuncSetAttribute);
	(void)attrib;
	(void)value;
	return handle_get(HANDLE_FUNCTION, hfunc) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Nothing here is loaded late. */
ENTRY cuFuncLoad(CUfunction function)
{
	ENTER(cuFuncLoad);
	return handle_get(HANDLE_FUNCTION, function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Hints. */
ENTRY cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	ENTER(cuFuncSetCacheConfig);
	(void)config;
	return handle_get(HANDLE_FUNCTION, hfunc) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

ENTRY cuCtxSetCacheConfig(CUfunc_cache config)
{
	ENTER(cuCtxSetCacheConfig);
	(void)config;
	return CUDA_SUCCESS;
}

ENTRY cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	ENTER(cuCtxGetCacheConfig);
	*pconfig = CU_FUNC_CACHE_PREFER_NONE;
	return CUDA_SUCCESS;
}

static CUresult occupancy(int *blocks, CUfunction f, int block_size)
{
	if (!handle_get(HANDLE_FUNCTION, f))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!blocks || block_size <= 0 || block_size > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	*blocks = 2048 / block_size < 32 ? 2048 / block_size : 32;
	return CUDA_SUCCESS;
}

ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
						  size_t dynamicSMemSize)
{
	ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
	(void)dynamicSMemSize;
	return occupancy(numBlocks, func, blockSize);
}

ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
							   int blockSize, size_t dynamicSMemSize,
							   unsigned int flags)
{
	ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
	(void)dynamicSMemSize;
	(void)flags;
	return occupancy(numBlocks, func, blockSize);
}

/* ---- launches ---- */

/* The programming guide: a launch fails if its stream is of another context. */
static CUresult launch(CUfunction f, const unsigned grid[3], const unsigned block[3],
		       unsigned shared, CUstream handle, void **arguments, void **extra)
{
	struct function *function = handle_get(HANDLE_FUNCTION, f);
	struct stream *s;
	struct work w;

	TRY(stream_get_current(handle, &s));
	if (!function || function->module->ctx != s->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	TRY(kernel_prepare(&w, function, grid, block, shared, arguments, extra));
	return stream_submit(s, &w);
}

#define LAUNCH_PARAMETERS                                                                          \
	(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,        \
	 unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,                   \
	 unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
#define COOPERATIVE_PARAMETERS                                                                     \
	(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,        \
	 unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,                   \
	 unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
#define GRID  ((const unsigned[3]){gridDimX, gridDimY, gridDimZ})
#define BLOCK ((const unsigned[3]){blockDimX, blockDimY, blockDimZ})

PAIR(cuLaunchKernel, _ptsz, LAUNCH_PARAMETERS,
     launch(f, GRID, BLOCK, sharedMemBytes, STREAM(hStream), kernelParams, extra))
PAIR(cuLaunchCooperativeKernel, _ptsz, COOPERATIVE_PARAMETERS,
     launch(f, GRID, BLOCK, sharedMemBytes, STREAM(hStream), kernelParams, NULL))

static CUresult launch_config(const CUlaunchConfig *c, CUfunction f, CUstream null_stream,
			      void **arguments, void **extra)
{
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	return launch(f, (const unsigned[3]){c->gridDimX, c->gridDimY, c->gridDimZ},
		      (const unsigned[3]){c->blockDimX, c->blockDimY, c->blockDimZ},
		      c->sharedMemBytes, STREAM(c->hStream), arguments, extra);
}
PAIR(cuLaunchKernelEx, _ptsz,
     (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra),
     launch_config(config, f, null_stream, kernelParams, extra))
