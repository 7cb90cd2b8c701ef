/* SPDX-License-Identifier: BSD-3-Clause */
/* test_device: devices, contexts, entry points and kernels of the simulated CUDA device, and what
 * simrun's options do to them. */
#include "cudasim_twin.h"
#include "kit.h"

/* ---- start and contexts ---- */

/* DA, cuInit: must come first. */
START_TEST(not_initialised)
{
	CUdevice d;
	int version;

	FAILS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGet(&d, 0));
	OK(cuDriverGetVersion(&version)); /* this one may come before */
	ck_assert_int_eq(version, 13000);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuInit(1));
	OK(cuInit(0));
	OK(cuDeviceGet(&d, 0));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&d, 1));
}
END_TEST

START_TEST(no_device)
{
	setenv("CUDASIM_DEVICES", "0", 1);
	FAILS(CUDA_ERROR_NO_DEVICE, cuInit(0));
}
END_TEST

/* DA, "Context management": calls need a current context; push, pop and set change the thread's
 * stack. */
START_TEST(contexts_must_be_current)
{
	CUcontext a, b, now;
	CUdeviceptr d;
	CUstream s;

	OK(cuInit(0));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&d, 8));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreate(&s, 0));
	a = begin();
	OK(cuStreamCreate(&s, 0));
	OK(cuCtxCreate(&b, NULL, 0, 0));
	OK(cuCtxGetCurrent(&now));
	ck_assert(now == b);
	FAILS(CUDA_ERROR_INVALID_CONTEXT,
	      cuStreamWriteValue64(s, device_bytes(8), 1, 0)); /* a's stream */
	OK(cuStreamGetCtx(s, &now));
	ck_assert(now == a);
	OK(cuCtxPopCurrent(&now));
	ck_assert(now == b);
	OK(cuCtxGetCurrent(&now));
	ck_assert(now == a);
	OK(cuCtxPushCurrent(b));
	OK(cuCtxDestroy(b));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(b));
	OK(cuCtxSetCurrent(NULL));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&d, 8));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&now));
}
END_TEST

/* DA, cuDevicePrimaryCtxRelease: the last release ends it. */
START_TEST(primary_context)
{
	unsigned flags;
	int is_active;
	CUcontext a = begin(), again;
	CUdeviceptr d;

	OK(cuDevicePrimaryCtxRetain(&again, 0));
	ck_assert(a == again);
	OK(cuDevicePrimaryCtxRelease(0));
	OK(cuMemAlloc(&d, 8));
	OK(cuDevicePrimaryCtxRelease(0));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
	ck_assert_int_eq(is_active, 0);
	FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&d, 8));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
}
END_TEST

/* The end of a context cancels what nobody would fulfil. */
START_TEST(context_ends_with_a_wait)
{
	CUcontext ctx;
	CUstream s;

	OK(cuInit(0));
	OK(cuCtxCreate(&ctx, NULL, 0, 0));
	s = stream_of(0);
	gate_close(gate_new(), s);
	OK(cuCtxDestroy(ctx));
}
END_TEST

/* DA, cuGetProcAddress: the newest call that the version has; not found and not sufficient are told
 * apart. A name that is not simulated is found, and fails with its name. */
START_TEST(entry_points)
{
	CUdriverProcAddressQueryResult status;
	void *old, *new, *own;
	int (*missing)(void);

	OK(cuGetProcAddress("cuStreamGetCtx", &old, 12000, 0, &status));
	OK(cuGetProcAddress("cuStreamGetCtx", &new, 13000, 0, &status));
	ck_assert(old && new &&old != new);
	OK(cuGetProcAddress("cuStreamQuery", &old, 13000, 0, &status));
	OK(cuGetProcAddress("cuStreamQuery", &own, 13000,
			    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	ck_assert(old != own);
	OK(cuGetProcAddress("cuNoSuchCall", &old, 13000, 0, &status));
	ck_assert(old == NULL);
	ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	OK(cuGetProcAddress("cuStreamBatchMemOp", &old, 11000, 0, &status));
	ck_assert(old == NULL);
	ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	OK(cuGetProcAddress("cuGraphInstantiate", &old, 13000, 0, &status)); /* a macro in cuda.h */
	OK(cuGetProcAddress("cuGraphInstantiateWithFlags", &own, 13000, 0, &status));
	ck_assert(old == own);
	OK(cuGetProcAddress("cuMulticastCreate", (void **)&missing, 13000, 0, &status));
	ck_assert_int_eq(missing(), CUDA_ERROR_NOT_SUPPORTED);
}
END_TEST

START_TEST(error_names)
{
	const char *name, *text;

	OK(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &name));
	ck_assert_str_eq(name, "CUDA_ERROR_INVALID_VALUE");
	OK(cuGetErrorString(CUDA_ERROR_NOT_READY, &text));
	ck_assert_str_eq(text, "not ready");
	FAILS(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &name));
}
END_TEST

/* ---- several devices ---- */

/* DA, "Peer context memory access": a kernel, or a memory operation, reaches another device's
 * memory only when access is enabled; copies between devices need none. */
START_TEST(peers)
{
	CUcontext a, b;
	CUdeviceptr on_b, on_a;
	CUstream s;
	int can;

	setenv("CUDASIM_DEVICES", "2", 1);
	a = begin();
	OK(cuDevicePrimaryCtxRetain(&b, 1));
	OK(cuCtxSetCurrent(b));
	on_b = device_bytes(8);
	OK(cuCtxSetCurrent(a));
	on_a = device_bytes(8);
	s = stream_of(0);
	OK(cuDeviceCanAccessPeer(&can, 0, 1));
	ck_assert_int_eq(can, 1);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64(s, on_b, 1, 0));
	OK(cuMemcpyDtoDAsync(on_b, on_a, 8, s));
	OK(cuCtxEnablePeerAccess(b, 0));
	FAILS(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(b, 0));
	OK(cuStreamWriteValue64(s, on_b, 1, 0));
	OK(cuCtxSynchronize());
	OK(cuCtxDisablePeerAccess(b));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64(s, on_b, 1, 0));
}
END_TEST

/* DA, cuMemPoolSetAccess: memory of a pool is another device's when the pool says so;
 * cuCtxEnablePeerAccess has no part in it. */
START_TEST(pools_of_peers)
{
	const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUcontext a, b;
	CUdeviceptr on_b;
	CUmemoryPool pool;
	CUstream s;

	setenv("CUDASIM_DEVICES", "2", 1);
	a = begin();
	OK(cuDevicePrimaryCtxRetain(&b, 1));
	OK(cuCtxSetCurrent(b));
	OK(cuMemAllocAsync(&on_b, 8, 0));
	OK(cuStreamSynchronize(0));
	OK(cuCtxSetCurrent(a));
	s = stream_of(0);
	OK(cuCtxEnablePeerAccess(b, 0));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64(s, on_b, 1, 0));
	OK(cuDeviceGetDefaultMemPool(&pool, 1));
	OK(cuMemPoolSetAccess(pool, &access, 1));
	OK(cuStreamWriteValue64(s, on_b, 1, 0));
	OK(cuStreamSynchronize(s));
}
END_TEST

/* ---- kernels ---- */

static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
			  ".visible .global .align 8 .u64 total;\n"
			  ".visible .entry add(.param .u64 p, .param .u32 n)\n{\nret;\n}\n"
			  ".visible .entry without_twin()\n{\nret;\n}\n";

__attribute__((visibility("default"))) CUDASIM_TWIN(add, sizeof(void *), sizeof(unsigned))
{
	uint64_t *p = launch->at(launch, *(void **)arguments[0]);

	*p += (uint64_t) * (unsigned *)arguments[1] * launch->grid[0] * launch->block[0];
}

static CUfunction kernel(const char *name)
{
	CUmodule m;
	CUfunction f;

	OK(cuModuleLoadData(&m, ptx));
	OK(cuModuleGetFunction(&f, m, name));
	return f;
}

/* PG, "Kernels": runs in the stream's order with the arguments as they were at the launch. */
START_TEST(kernels_are_their_twins)
{
	CUdeviceptr d;
	CUstream s;
	CUfunction f;
	unsigned n = 3;
	uint64_t v = 1;
	void *arguments[] = {&d, &n};

	begin();
	s = stream_of(0);
	f = kernel("add");
	d = device_bytes(8);
	OK(cuMemcpyHtoDAsync(d, &v, 8, s));
	OK(cuLaunchKernel(f, 2, 1, 1, 5, 1, 1, 0, s, arguments, NULL));
	n = 100;
	OK(cuMemcpyDtoHAsync(&v, d, 8, s));
	ck_assert_uint_eq(v, 31);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 0, 1, 1, 5, 1, 1, 0, s, arguments, NULL));
	FAILS(CUDA_ERROR_INVALID_VALUE,
	      cuLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, s, arguments, NULL));
}
END_TEST

START_TEST(kernel_without_twin)
{
	begin();
	FAILS(CUDA_ERROR_NO_BINARY_FOR_GPU,
	      cuLaunchKernel(kernel("without_twin"), 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
}
END_TEST

/* DA, cuModuleGetFunction, cuModuleGetGlobal: by name. */
START_TEST(modules)
{
	CUmodule m;
	CUfunction f;
	CUdeviceptr d;
	size_t bytes;

	begin();
	FAILS(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&m, "no code"));
	OK(cuModuleLoadData(&m, ptx));
	FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, m, "ad"));
	FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, m, "total"));
	OK(cuModuleGetGlobal(&d, &bytes, m, "total"));
	ck_assert_uint_eq(bytes, 8);
	OK(cuMemsetD32(d, 1, 2));
	FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&d, &bytes, m, "add"));
	OK(cuModuleUnload(m));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&f, m, "add"));
}
END_TEST

/* DA, CUDA_ERROR_ILLEGAL_ADDRESS: a kernel that touches what it may not leaves the context in a
 * state in which each later call returns the same. */
START_TEST(kernel_touches_host_memory)
{
	uint64_t local = 0, *address = &local;
	unsigned n = 1;
	void *arguments[] = {&address, &n};
	CUdeviceptr d;

	begin();
	OK(cuLaunchKernel(kernel("add"), 1, 1, 1, 1, 1, 1, 0, 0, arguments, NULL));
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&d, 8));
	ck_assert_uint_eq(local, 0);
}
END_TEST

/* ---- simrun's options ---- */

static int attribute(CUdevice_attribute a)
{
	int value;

	OK(cuDeviceGetAttribute(&value, a, 0));
	return value;
}

/* DA, cuStreamWaitValue64: not supported where the device says so by an attribute. */
START_TEST(without_64_bit_memops)
{
	CUdeviceptr d;

	setenv("CUDASIM_MASK", "memops64", 1);
	begin();
	d = device_bytes(8);
	ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS), 0);
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuStreamWriteValue64(0, d, 1, 0));
	OK(cuStreamWriteValue32(0, d, 1, 0));
}
END_TEST

START_TEST(without_much)
{
	CUmemGenericAllocationHandle h;
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUipcMemHandle ipc;
	CUdeviceptr d;
	char host[8];

	setenv("CUDASIM_MASK", "memops ipc vmm pools managed host-register wait-nor", 1);
	begin();
	d = device_bytes(8);
	ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED), 0);
	ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 0);
	ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY), 0);
	ck_assert_int_eq(attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED), 0);
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuStreamWriteValue32(0, d, 1, 0));
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuIpcGetMemHandle(&ipc, d));
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&h, 2 << 20, &prop, 0));
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuMemAllocManaged(&d, 8, CU_MEM_ATTACH_GLOBAL));
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuMemAllocAsync(&d, 8, 0));
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuMemHostRegister(host, 8, 0));
}
END_TEST

START_TEST(nth_call_fails)
{
	CUdeviceptr d;
	CUstream s;

	setenv("CUDASIM_FAIL", "cuMemAlloc:2 cuStreamCreate:1:46", 1);
	begin();
	OK(cuMemAlloc(&d, 8));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&d, 8));
	OK(cuMemAlloc(&d, 8));
	FAILS(CUDA_ERROR_DEVICE_UNAVAILABLE, cuStreamCreate(&s, 0));
	OK(cuStreamCreate(&s, 0));
}
END_TEST

START_TEST(wrong_settings)
{
	setenv("CUDASIM_MASK", "nonsense", 1);
	FAILS(CUDA_ERROR_OPERATING_SYSTEM, cuInit(0));
}
END_TEST

/* --limit: a wait that nobody ends, ends. */
START_TEST(limit)
{
	CUstream s;

	setenv("CUDASIM_LIMIT", "1", 1);
	begin();
	s = stream_of(0);
	gate_close(gate_new(), s);
	FAILS(CUDA_ERROR_LAUNCH_TIMEOUT, cuStreamSynchronize(s));
}
END_TEST

/* --delay-us: order holds whatever the delays. */
START_TEST(delays)
{
	CUstream a, b;
	CUevent e;
	CUdeviceptr d;
	uint64_t v;

	setenv("CUDASIM_DELAY_US", "300", 1);
	setenv("CUDASIM_SEED", "7", 1);
	begin();
	a = stream_of(CU_STREAM_NON_BLOCKING);
	b = stream_of(CU_STREAM_NON_BLOCKING);
	e = event_of(CU_EVENT_DISABLE_TIMING);
	d = device_bytes(8);
	for (unsigned i = 0; i < 50; i++) {
		OK(cuStreamWriteValue64(a, d, 2 * i, 0));
		OK(cuEventRecord(e, a));
		OK(cuStreamWaitEvent(b, e, 0));
		OK(cuStreamWriteValue64(b, d, 2 * i + 1, 0));
		OK(cuMemcpyDtoHAsync(&v, d, 8, b));
		ck_assert_uint_eq(v, 2 * i + 1);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cudasim: devices (simulated)");
	TCase *c = tcase_create("devices");

	TEST(c, not_initialised);
	TEST(c, no_device);
	TEST(c, contexts_must_be_current);
	TEST(c, primary_context);
	TEST(c, context_ends_with_a_wait);
	TEST(c, entry_points);
	TEST(c, error_names);
	TEST(c, peers);
	TEST(c, pools_of_peers);
	TEST(c, kernels_are_their_twins);
	TEST(c, kernel_without_twin);
	TEST(c, modules);
	TEST(c, kernel_touches_host_memory);
	TEST(c, without_64_bit_memops);
	TEST(c, without_much);
	TEST(c, nth_call_fails);
	TEST(c, wrong_settings);
	TEST(c, limit);
	TEST(c, delays);
	suite_add_tcase(s, c);
	return run_suite(s);
}
