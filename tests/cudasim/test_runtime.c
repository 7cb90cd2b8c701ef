/* SPDX-License-Identifier: BSD-3-Clause */
/* test_runtime: the simulated libcudart, as a program in C sees it. */
#include <cuda_runtime_api.h>

#include "kit.h"

#undef OK
#define OK(call) ck_assert_int_eq(call, cudaSuccess)

/* RA, "Initialization": the first call makes the primary context; nothing need be said before. */
START_TEST(first_call)
{
	CUcontext ctx;
	unsigned flags;
	int is_active, device = 5;

	OK(cudaFree(NULL));
	ck_assert_int_eq(cuDevicePrimaryCtxGetState(0, &flags, &is_active), CUDA_SUCCESS);
	ck_assert_int_eq(is_active, 1);
	ck_assert_int_eq(cuCtxGetCurrent(&ctx), CUDA_SUCCESS);
	ck_assert(ctx != NULL);
	OK(cudaGetDevice(&device));
	ck_assert_int_eq(device, 0);
	FAILS(cudaErrorInvalidDevice, cudaSetDevice(1));
}
END_TEST

/* RA, cudaGetLastError: the last error, which it clears; cudaPeekAtLastError does not. */
START_TEST(last_error)
{
	void *p;

	FAILS(cudaErrorMemoryAllocation, cudaMalloc(&p, (size_t)1 << 50));
	OK(cudaDeviceSynchronize());
	FAILS(cudaErrorMemoryAllocation, cudaPeekAtLastError());
	FAILS(cudaErrorMemoryAllocation, cudaGetLastError());
	OK(cudaGetLastError());
	ck_assert_str_eq(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
	ck_assert_str_eq(cudaGetErrorString(cudaErrorMemoryAllocation), "memory allocation");
}
END_TEST

/* RA, cudaMemcpy: by kind; cudaMemcpyDefault finds out by itself. */
START_TEST(copies)
{
	char in[64] = "bytes", out[64] = "";
	char *d, *e;

	OK(cudaMalloc((void **)&d, 64));
	OK(cudaMalloc((void **)&e, 64));
	OK(cudaMemcpy(d, in, 64, cudaMemcpyHostToDevice));
	OK(cudaMemcpy(e, d, 64, cudaMemcpyDeviceToDevice));
	OK(cudaMemcpy(out, e, 64, cudaMemcpyDefault));
	ck_assert_str_eq(out, "bytes");
	OK(cudaMemset(d, 0, 64));
	OK(cudaMemcpy2D(out, 8, d, 16, 4, 4, cudaMemcpyDeviceToHost));
	ck_assert_int_eq(out[0], 0);
	FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(d, in, 4, (enum cudaMemcpyKind)9));
	FAILS(cudaErrorInvalidValue, cudaMemcpy(d, e, 4, cudaMemcpyHostToDevice));
	OK(cudaFree(d));
	FAILS(cudaErrorInvalidValue, cudaFree(d));
}
END_TEST

/* RA, cudaPointerGetAttributes. */
START_TEST(pointers)
{
	struct cudaPointerAttributes a;
	void *d, *h, *m;
	int local;

	OK(cudaMalloc(&d, 64));
	OK(cudaMallocHost(&h, 64));
	OK(cudaMallocManaged(&m, 64, cudaMemAttachGlobal));
	OK(cudaPointerGetAttributes(&a, d));
	ck_assert(a.type == cudaMemoryTypeDevice && a.device == 0 && a.devicePointer == d &&
		  !a.hostPointer);
	OK(cudaPointerGetAttributes(&a, h));
	ck_assert(a.type == cudaMemoryTypeHost && a.hostPointer == h);
	OK(cudaPointerGetAttributes(&a, m));
	ck_assert_int_eq(a.type, cudaMemoryTypeManaged);
	OK(cudaPointerGetAttributes(&a, &local));
	ck_assert_int_eq(a.type, cudaMemoryTypeUnregistered);
	OK(cudaFreeHost(h));
}
END_TEST

static void count(void *arg)
{
	++*(int *)arg;
}

/* RA: streams, events, host functions, captures. */
START_TEST(streams_and_graphs)
{
	cudaStream_t s;
	cudaEvent_t e;
	cudaGraph_t g;
	cudaGraphExec_t x;
	int calls = 0, least, greatest;

	OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	OK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest));
	OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	OK(cudaLaunchHostFunc(s, count, &calls));
	OK(cudaEventRecord(e, s));
	OK(cudaEventSynchronize(e));
	ck_assert_int_eq(calls, 1);
	OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
	OK(cudaLaunchHostFunc(s, count, &calls));
	OK(cudaStreamEndCapture(s, &g));
	OK(cudaGraphInstantiate(&x, g, 0));
	OK(cudaGraphLaunch(x, s));
	OK(cudaGraphLaunch(x, s));
	OK(cudaStreamSynchronize(s));
	ck_assert_int_eq(calls, 3);
	OK(cudaGraphExecDestroy(x));
	OK(cudaGraphDestroy(g));
	OK(cudaStreamDestroy(s));
}
END_TEST

START_TEST(properties)
{
	struct cudaDeviceProp p;

	OK(cudaGetDeviceProperties(&p, 0));
	ck_assert_str_eq(p.name, "Simulated CUDA device 0");
	ck_assert_int_eq(p.warpSize, 32);
}
END_TEST

/* What is not simulated fails; what was asked to fail does. */
START_TEST(failures)
{
	void *p;
	cudaArray_t array;

	setenv("CUDASIM_FAIL", "cudaMalloc:2", 1);
	OK(cudaMalloc(&p, 8));
	FAILS(cudaErrorMemoryAllocation, cudaMalloc(&p, 8));
	FAILS(cudaErrorNotSupported, cudaMallocArray(&array, NULL, 8, 8, 0));
}
END_TEST

static void call_from_host_function(void *arg)
{
	*(cudaError_t *)arg = cudaStreamQuery(0);
}

/* RA, cudaLaunchHostFunc: no CUDA call in it. */
START_TEST(host_functions)
{
	cudaError_t e = cudaSuccess;

	OK(cudaLaunchHostFunc(0, call_from_host_function, &e));
	OK(cudaDeviceSynchronize());
	FAILS(cudaErrorNotPermitted, e);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cudasim: runtime (simulated)");
	TCase *c = tcase_create("runtime");

	TEST(c, first_call);
	TEST(c, last_error);
	TEST(c, copies);
	TEST(c, pointers);
	TEST(c, streams_and_graphs);
	TEST(c, properties);
	TEST(c, failures);
	TEST(c, host_functions);
	suite_add_tcase(s, c);
	return run_suite(s);
}
