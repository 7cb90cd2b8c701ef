/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime_device.c: the runtime API: devices, errors, versions. */
#include <string.h>

#include "runtime.h"

static _Thread_local cudaError_t last_error;
static _Thread_local int device;
static CUcontext primaries[16];

cudaError_t runtime_end(int e)
{
	if (e)
		last_error = (cudaError_t)e;
	return (cudaError_t)e;
}

/* The runtime holds a primary context from its first use on. */
static CUresult use(int d)
{
	CUcontext ctx = primaries[d];

	if (!ctx) {
		TRY(cuDevicePrimaryCtxRetain(&ctx, d));
		primaries[d] = ctx;
	}
	return cuCtxSetCurrent(ctx);
}

CUresult runtime_ready(void)
{
	CUcontext ctx;

	TRY(cuInit(0));
	TRY(cuCtxGetCurrent(&ctx));
	return ctx ? CUDA_SUCCESS : use(device);
}

/* ---- errors ---- */

static const struct {
	cudaError_t error;
	const char *name, *text;
} errors[] = {
#define ERROR(e, text) {e, #e, text},
#include "errors_runtime.h"
#undef ERROR
};

__attribute__((visibility("default"))) const char *CUDARTAPI cudaGetErrorName(cudaError_t error)
{
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].error == error)
			return errors[i].name;
	return "unrecognized error code";
}

__attribute__((visibility("default"))) const char *CUDARTAPI cudaGetErrorString(cudaError_t error)
{
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].error == error)
			return errors[i].text;
	return "unrecognized error code";
}

RUNTIME cudaGetLastError(void)
{
	cudaError_t e = last_error;

	last_error = cudaSuccess;
	return e;
}

RUNTIME cudaPeekAtLastError(void)
{
	return last_error;
}

/* ---- versions and entry points ---- */

RUNTIME cudaDriverGetVersion(int *driverVersion)
{
	BEGIN(cudaDriverGetVersion);
	return runtime_end((int)cuDriverGetVersion(driverVersion));
}

RUNTIME cudaRuntimeGetVersion(int *runtimeVersion)
{
	BEGIN(cudaRuntimeGetVersion);
	*runtimeVersion = CUDART_VERSION;
	return cudaSuccess;
}

static CUresult entry_point(const char *symbol, void **fn, unsigned version,
			    unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
	CUdriverProcAddressQueryResult found;

	TRY(cuGetProcAddress(symbol, fn, (int)version, flags, &found));
	if (status)
		*status = (enum cudaDriverEntryPointQueryResult)found;
	return CUDA_SUCCESS;
}
PAIR(cudaGetDriverEntryPointByVersion, _ptsz,
     (const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
      enum cudaDriverEntryPointQueryResult *driverStatus),
     entry_point(symbol, funcPtr, cudaVersion, flags, driverStatus))

/* ---- devices ---- */

RUNTIME cudaGetDeviceCount(int *count)
{
	CUresult e;

	BEGIN(cudaGetDeviceCount);
	*count = 0;
	e = cuInit(0);
	return runtime_end((int)(e == CUDA_SUCCESS ? cuDeviceGetCount(count) : e));
}

/* RA, cudaSetDevice: from CUDA 12 on the device's primary context is made at once. */
RUNTIME cudaSetDevice(int d)
{
	int count;
	CUresult e;

	BEGIN(cudaSetDevice);
	e = cuInit(0);
	if (e == CUDA_SUCCESS)
		e = cuDeviceGetCount(&count);
	if (e == CUDA_SUCCESS && (d < 0 || d >= count))
		e = CUDA_ERROR_INVALID_DEVICE;
	if (e == CUDA_SUCCESS)
		e = use(d);
	if (e == CUDA_SUCCESS)
		device = d;
	return runtime_end((int)e);
}

RUNTIME cudaGetDevice(int *d)
{
	CUcontext ctx = NULL;
	CUdevice of = device;

	BEGIN(cudaGetDevice);
	if (cuInit(0) == CUDA_SUCCESS && cuCtxGetCurrent(&ctx) == CUDA_SUCCESS && ctx)
		cuCtxGetDevice(&of);
	*d = of;
	return cudaSuccess;
}

RUNTIME cudaInitDevice(int d, unsigned int deviceFlags, unsigned int flags)
{
	CUcontext ctx;
	CUresult e;

	BEGIN(cudaInitDevice);
	(void)deviceFlags;
	(void)flags;
	e = cuInit(0);
	if (e == CUDA_SUCCESS && !primaries[d]) {
		e = cuDevicePrimaryCtxRetain(&ctx, d);
		if (e == CUDA_SUCCESS)
			primaries[d] = ctx;
	}
	return runtime_end((int)e);
}

CALL(cudaDeviceSynchronize, (void), cuCtxSynchronize())

static CUresult reset(void)
{
	CUdevice d;

	TRY(cuCtxGetDevice(&d));
	TRY(cuCtxSetCurrent(NULL));
	primaries[d] = NULL;
	return cuDevicePrimaryCtxReset(d);
}
CALL(cudaDeviceReset, (void), reset())

RUNTIME cudaSetDeviceFlags(unsigned int flags)
{
	BEGIN(cudaSetDeviceFlags);
	(void)flags;
	return cudaSuccess;
}

RUNTIME cudaGetDeviceFlags(unsigned int *flags)
{
	BEGIN(cudaGetDeviceFlags);
	*flags = 0;
	return cudaSuccess;
}

/* The two sets of attributes have the same numbers. */
CALL(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attr, int d),
     cuDeviceGetAttribute(value, (CUdevice_attribute)attr, d))
CALL(cudaDeviceGetPCIBusId, (char *pciBusId, int len, int d), cuDeviceGetPCIBusId(pciBusId, len, d))
CALL(cudaDeviceGetByPCIBusId, (int *d, const char *pciBusId), cuDeviceGetByPCIBusId(d, pciBusId))
CALL(cudaDeviceCanAccessPeer, (int *canAccessPeer, int d, int peer),
     cuDeviceCanAccessPeer(canAccessPeer, d, peer))
CALL(cudaDeviceGetP2PAttribute, (int *value, enum cudaDeviceP2PAttr attr, int src, int dst),
     cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attr, src, dst))
CALL(cudaDeviceGetStreamPriorityRange, (int *leastPriority, int *greatestPriority),
     cuCtxGetStreamPriorityRange(leastPriority, greatestPriority))
CALL(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value), cuCtxSetLimit((CUlimit)limit, value))
CALL(cudaDeviceGetLimit, (size_t * pValue, enum cudaLimit limit),
     cuCtxGetLimit(pValue, (CUlimit)limit))

static CUresult enable_peer(int peer, unsigned flags)
{
	CUcontext ctx;

	TRY(cuDevicePrimaryCtxRetain(&ctx, peer));
	primaries[peer] = ctx;
	return cuCtxEnablePeerAccess(ctx, flags);
}
CALL(cudaDeviceEnablePeerAccess, (int peerDevice, unsigned int flags),
     enable_peer(peerDevice, flags))

static CUresult disable_peer(int peer)
{
	CUcontext ctx;

	TRY(cuDevicePrimaryCtxRetain(&ctx, peer));
	TRY(cuCtxDisablePeerAccess(ctx));
	return cuDevicePrimaryCtxRelease(peer);
}
CALL(cudaDeviceDisablePeerAccess, (int peerDevice), disable_peer(peerDevice))

static int attribute(CUdevice_attribute a, int d)
{
	int value = 0;

	cuDeviceGetAttribute(&value, a, d);
	return value;
}

/* What a program without textures looks at. */
static CUresult properties(struct cudaDeviceProp *p, int d)
{
	memset(p, 0, sizeof(*p));
	TRY(cuDeviceGetName(p->name, sizeof(p->name), d));
	TRY(cuDeviceGetUuid((CUuuid *)&p->uuid, d));
	TRY(cuDeviceTotalMem(&p->totalGlobalMem, d));
	p->sharedMemPerBlock =
		(size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, d);
	p->sharedMemPerBlockOptin =
		(size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, d);
	p->regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, d);
	p->warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, d);
	p->memPitch = (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH, d);
	p->maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, d);
	for (int i = 0; i < 3; i++) {
		p->maxThreadsDim[i] =
			attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + (CUdevice_attribute)i, d);
		p->maxGridSize[i] =
			attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + (CUdevice_attribute)i, d);
	}
	p->totalConstMem = (size_t)attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, d);
	p->major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d);
	p->minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d);
	p->textureAlignment = (size_t)attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, d);
	p->multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d);
	p->canMapHostMemory = 1;
	p->concurrentKernels = 1;
	p->pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, d);
	p->asyncEngineCount = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, d);
	p->unifiedAddressing = 1;
	p->memoryBusWidth = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, d);
	p->l2CacheSize = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, d);
	p->maxThreadsPerMultiProcessor =
		attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, d);
	p->streamPrioritiesSupported = 1;
	p->managedMemory = attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, d);
	p->concurrentManagedAccess = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, d);
	p->cooperativeLaunch = 1;
	p->hostRegisterSupported = attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, d);
	p->memoryPoolsSupported = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, d);
	p->ipcEventSupported = attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, d);
	return CUDA_SUCCESS;
}
CALL(cudaGetDeviceProperties, (struct cudaDeviceProp * prop, int d), properties(prop, d))

CALL(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
     cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))

/* Nothing is profiled. */
RUNTIME cudaProfilerStart(void);
RUNTIME cudaProfilerStart(void)
{
	BEGIN(cudaProfilerStart);
	return cudaSuccess;
}

RUNTIME cudaProfilerStop(void);
RUNTIME cudaProfilerStop(void)
{
	BEGIN(cudaProfilerStop);
	return cudaSuccess;
}
