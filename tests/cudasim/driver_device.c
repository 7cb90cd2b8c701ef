/* SPDX-License-Identifier: BSD-3-Clause */
/* driver_device.c: the driver API: start, devices, contexts, errors, entry points. */
#include <stdio.h>
#include <string.h>

#include "entry.h"

ENTRY cuInit(unsigned int Flags)
{
	ENTER_BARE(cuInit);
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_config.is_bad)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (sim_config.devices == 0)
		return CUDA_ERROR_NO_DEVICE;
	calls_init();
	return CUDA_SUCCESS;
}

ENTRY cuDriverGetVersion(int *version)
{
	ENTER_BARE(cuDriverGetVersion);
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = DRIVER_VERSION;
	return CUDA_SUCCESS;
}

/* ---- errors ---- */

static const struct {
	CUresult error;
	const char *name, *text;
} errors[] = {
#define ERROR(e, text) {e, #e, text},
#include "errors.h"
#undef ERROR
};

static CUresult find_error(CUresult error, const char **name, const char **text)
{
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].error == error) {
			if (name)
				*name = errors[i].name;
			if (text)
				*text = errors[i].text;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

ENTRY cuGetErrorName(CUresult error, const char **pStr)
{
	ENTER_BARE(cuGetErrorName);
	*pStr = NULL;
	return find_error(error, pStr, NULL);
}

ENTRY cuGetErrorString(CUresult error, const char **pStr)
{
	ENTER_BARE(cuGetErrorString);
	*pStr = NULL;
	return find_error(error, NULL, pStr);
}

/* ---- entry points ---- */

ENTRY cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
			  CUdriverProcAddressQueryResult *symbolStatus)
{
	ENTER_BARE(cuGetProcAddress_v2);
	if (!symbol || !pfn || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	return calls_find(symbol, cudaVersion,
			  flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, pfn,
			  symbolStatus);
}

ENTRY cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	ENTER_BARE(cuGetProcAddress);
	if (!symbol || !pfn || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	calls_find(symbol, cudaVersion, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, pfn,
		   NULL);
	return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ---- devices ---- */

ENTRY cuDeviceGetCount(int *count)
{
	ENTER_INIT(cuDeviceGetCount);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (int)sim_config.devices;
	return CUDA_SUCCESS;
}

ENTRY cuDeviceGet(CUdevice *device, int ordinal)
{
	ENTER_INIT(cuDeviceGet);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_is(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

#define DEVICE(dev)                                                                                \
	do {                                                                                       \
		if (!device_is(dev))                                                               \
			return CUDA_ERROR_INVALID_DEVICE;                                          \
	} while (0)

ENTRY cuDeviceGetName(char *name, int len, CUdevice dev)
{
	ENTER_INIT(cuDeviceGetName);
	DEVICE(dev);
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)len, "Simulated CUDA device %d", dev);
	return CUDA_SUCCESS;
}

ENTRY cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	ENTER_INIT(cuDeviceGetUuid_v2);
	DEVICE(dev);
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	memset(uuid, 0, sizeof(*uuid));
	memcpy(uuid->bytes, "simulated", 9);
	uuid->bytes[15] = (char)dev;
	return CUDA_SUCCESS;
}

ENTRY cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	ENTER_INIT(cuDeviceTotalMem_v2);
	DEVICE(dev);
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = device_memory_bytes;
	return CUDA_SUCCESS;
}

ENTRY cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	ENTER_INIT(cuDeviceGetAttribute);
	DEVICE(dev);
	return pi ? device_attribute(pi, attrib, dev) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	ENTER_INIT(cuDeviceComputeCapability);
	DEVICE(dev);
	TRY(device_attribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev));
	return device_attribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
}

ENTRY cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	ENTER_INIT(cuDeviceGetPCIBusId);
	DEVICE(dev);
	if (!pciBusId || len < 13)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(pciBusId, (size_t)len, "0000:%02x:00.0", (unsigned)dev + 1);
	return CUDA_SUCCESS;
}

ENTRY cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	unsigned domain, bus;

	ENTER_INIT(cuDeviceGetByPCIBusId);
	if (!dev || !pciBusId ||
	    (sscanf(pciBusId, "%x:%x:", &domain, &bus) != 2 && sscanf(pciBusId, "%x:", &bus) != 1))
		return CUDA_ERROR_INVALID_VALUE;
	DEVICE((int)bus - 1);
	*dev = (int)bus - 1;
	return CUDA_SUCCESS;
}

ENTRY cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	ENTER_INIT(cuDeviceCanAccessPeer);
	DEVICE(dev);
	DEVICE(peerDev);
	if (!canAccessPeer)
		return CUDA_ERROR_INVALID_VALUE;
	*canAccessPeer = dev != peerDev && has(CAP_PEER);
	return CUDA_SUCCESS;
}

ENTRY cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
			      CUdevice dstDevice)
{
	ENTER_INIT(cuDeviceGetP2PAttribute);
	DEVICE(srcDevice);
	DEVICE(dstDevice);
	if (!value || srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_VALUE;
	*value = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED && has(CAP_PEER);
	return CUDA_SUCCESS;
}

/* ---- primary contexts ---- */

ENTRY cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct context *ctx;

	ENTER_INIT(cuDevicePrimaryCtxRetain);
	DEVICE(dev);
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(context_primary_retain(dev, &ctx));
	*pctx = ctx->handle;
	return CUDA_SUCCESS;
}

ENTRY cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	struct context *ctx;

	ENTER_INIT(cuDevicePrimaryCtxRelease_v2);
	DEVICE(dev);
	ctx = context_primary(dev);
	if (!ctx || ctx->primary_refs == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--ctx->primary_refs == 0)
		context_destroy(ctx);
	return CUDA_SUCCESS;
}

ENTRY cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	ENTER_INIT(cuDevicePrimaryCtxSetFlags_v2);
	DEVICE(dev);
	if (context_primary(dev))
		context_primary(dev)->flags = flags;
	return CUDA_SUCCESS;
}

ENTRY cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	const struct context *ctx;

	ENTER_INIT(cuDevicePrimaryCtxGetState);
	DEVICE(dev);
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	ctx = context_primary(dev);
	*flags = ctx ? ctx->flags : 0;
	*active = ctx != NULL;
	return CUDA_SUCCESS;
}

ENTRY cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	ENTER_INIT(cuDevicePrimaryCtxReset_v2);
	DEVICE(dev);
	if (context_primary(dev))
		context_destroy(context_primary(dev));
	return CUDA_SUCCESS;
}

/* ---- contexts ---- */

static CUresult create(CUcontext *pctx, unsigned flags, CUdevice dev)
{
	struct context *ctx;

	DEVICE(dev);
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(context_create(dev, flags, &ctx));
	*pctx = ctx->handle;
	return context_push(ctx);
}

ENTRY cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	ENTER_INIT(cuCtxCreate_v2);
	return create(pctx, flags, dev);
}

ENTRY cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev)
{
	ENTER_INIT(cuCtxCreate_v4);
	if (params && (params->numExecAffinityParams || params->cigParams))
		return sim_missing("cuCtxCreate with parameters");
	return create(pctx, flags, dev);
}

ENTRY cuCtxDestroy_v2(CUcontext ctx)
{
	struct context *c;

	ENTER_INIT(cuCtxDestroy_v2);
	c = context_get(ctx);
	if (!c || c->is_primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context_current() == c)
		context_pop();
	context_destroy(c);
	return CUDA_SUCCESS;
}

ENTRY cuCtxPushCurrent_v2(CUcontext ctx)
{
	struct context *c;

	ENTER_INIT(cuCtxPushCurrent_v2);
	c = context_get(ctx);
	return c ? context_push(c) : CUDA_ERROR_INVALID_CONTEXT;
}

ENTRY cuCtxPopCurrent_v2(CUcontext *pctx)
{
	struct context *c;

	ENTER_INIT(cuCtxPopCurrent_v2);
	c = context_pop();
	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pctx)
		*pctx = c->handle;
	return CUDA_SUCCESS;
}

ENTRY cuCtxSetCurrent(CUcontext ctx)
{
	struct context *c;

	ENTER_INIT(cuCtxSetCurrent);
	c = context_get(ctx);
	if (ctx && !c)
		return CUDA_ERROR_INVALID_CONTEXT;
	return context_set(c);
}

ENTRY cuCtxGetCurrent(CUcontext *pctx)
{
	ENTER_INIT(cuCtxGetCurrent);
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = context_current() ? context_current()->handle : NULL;
	return CUDA_SUCCESS;
}

ENTRY cuCtxGetDevice(CUdevice *device)
{
	ENTER(cuCtxGetDevice);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context_current()->device;
	return CUDA_SUCCESS;
}

ENTRY cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	const struct context *c;

	ENTER_INIT(cuCtxGetDevice_v2);
	c = ctx ? context_get(ctx) : context_current();
	if (!device || !c)
		return device ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
	*device = c->device;
	return CUDA_SUCCESS;
}

ENTRY cuCtxGetFlags(unsigned int *flags)
{
	ENTER(cuCtxGetFlags);
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context_current()->flags;
	return CUDA_SUCCESS;
}

ENTRY cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	const struct context *c;

	ENTER_INIT(cuCtxGetId);
	c = ctx ? context_get(ctx) : context_current();
	if (!c || !ctxId)
		return ctxId ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
	*ctxId = c->id;
	return CUDA_SUCCESS;
}

ENTRY cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	ENTER_INIT(cuCtxGetApiVersion);
	if (ctx && !context_get(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	*version = DRIVER_VERSION;
	return CUDA_SUCCESS;
}

static CUresult synchronize(struct context *ctx)
{
	TRY(capture_allows_context_sync(ctx));
	TRY(context_wait(ctx));
	pool_synchronized(ctx->device);
	return CUDA_SUCCESS;
}

ENTRY cuCtxSynchronize(void)
{
	ENTER(cuCtxSynchronize);
	return synchronize(context_current());
}

ENTRY cuCtxSynchronize_v2(CUcontext ctx)
{
	struct context *c;

	ENTER_INIT(cuCtxSynchronize_v2);
	c = ctx ? context_get(ctx) : context_current();
	return c ? synchronize(c) : CUDA_ERROR_INVALID_CONTEXT;
}

ENTRY cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	ENTER(cuCtxGetStreamPriorityRange);
	if (leastPriority)
		*leastPriority = STREAM_PRIORITY_LEAST;
	if (greatestPriority)
		*greatestPriority = STREAM_PRIORITY_GREATEST;
	return CUDA_SUCCESS;
}

/* Limits are accepted and mean nothing. */
static size_t limits[CU_LIMIT_MAX];

ENTRY cuCtxSetLimit(CUlimit limit, size_t value)
{
	ENTER(cuCtxSetLimit);
	if ((unsigned)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	limits[limit] = value;
	return CUDA_SUCCESS;
}

ENTRY cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	ENTER(cuCtxGetLimit);
	if (!pvalue)
		return CUDA_ERROR_INVALID_VALUE;
	if ((unsigned)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*pvalue = limits[limit];
	return CUDA_SUCCESS;
}

ENTRY cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	const struct context *peer;
	struct context *ctx;

	ENTER(cuCtxEnablePeerAccess);
	ctx = context_current();
	peer = context_get(peerContext);
	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!has(CAP_PEER) || peer->device == ctx->device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (ctx->peers >> peer->device & 1)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	ctx->peers |= UINT32_C(1) << peer->device;
	return CUDA_SUCCESS;
}

ENTRY cuCtxDisablePeerAccess(CUcontext peerContext)
{
	const struct context *peer;
	struct context *ctx;

	ENTER(cuCtxDisablePeerAccess);
	ctx = context_current();
	peer = context_get(peerContext);
	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!(ctx->peers >> peer->device & 1))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	ctx->peers &= ~(UINT32_C(1) << peer->device);
	return CUDA_SUCCESS;
}

ENTRY cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	ENTER_INIT(cuThreadExchangeStreamCaptureMode);
	return mode ? capture_mode_exchange(mode) : CUDA_ERROR_INVALID_VALUE;
}

/* libcudart asks for undocumented tables; ours does not. */
ENTRY cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	ENTER_BARE(cuGetExportTable);
	(void)pExportTableId;
	*ppExportTable = NULL;
	return sim_missing("cuGetExportTable");
}
