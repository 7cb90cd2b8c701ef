/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_backend.c: the CUDA backend (src/stream/cuda) on the simulated device: the conformance of
 * all backends, by memory operations and by host functions, and what is CUDA's own.
 */
#include "kit.h"

#include <stdio.h>
#include <time.h>

#include "../component/stream_conformance.h"
#include "stream/cuda/cuda_backend.h"
#include "util/compiler.h"
#include "util/error.h"
#include "util/params.h"

static const struct stmpi_stream_ops *const ops = &stmpi_stream_cuda_ops;

static void sleep_ms(int ms)
{
	nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

/* ---- for the conformance ---- */

static int create(void *handle)
{
	(void)begin();
	return cuStreamCreate(handle, CU_STREAM_NON_BLOCKING);
}

static CUstream of(const void *handle)
{
	CUstream s;

	memcpy(&s, handle, sizeof(s));
	return s;
}

static int destroy(const void *handle)
{
	return cuStreamDestroy(of(handle));
}

static int launch(const void *handle, void (*fn)(void *arg), void *arg)
{
	return cuLaunchHostFunc(of(handle), fn, arg);
}

static int wait_word(const void *handle, uint64_t *word, uint64_t value)
{
	return cuStreamWaitValue64(of(handle), (CUdeviceptr)(uintptr_t)word, value,
				   CU_STREAM_WAIT_VALUE_GEQ);
}

static int synchronize(const void *handle)
{
	return cuStreamSynchronize(of(handle));
}

static const struct stream_under_test sut = {
	&stmpi_stream_cuda_ops, create, destroy, launch, wait_word, synchronize, 1};

/* ---- CUDA's own ---- */

static _Alignas(4096) uint64_t words[512];
static char why[256];

/* A port of s, its words mapped. */
static struct stmpi_stream_port *port_of(CUstream s)
{
	struct stmpi_stream_port *port = NULL;

	ck_assert_msg(ops->probe(why, sizeof(why)) == 0, "%s", why);
	ck_assert_msg(ops->attach(&s, NULL, NULL, &port) == 0, "%s", stmpi_error_text());
	ck_assert_msg(ops->map(port, words, sizeof(words)) == 0, "%s", stmpi_error_text());
	return port;
}

static int write_word(struct stmpi_stream_port *port, uint64_t *word, uint64_t value)
{
	struct stmpi_memop m = {STMPI_MEMOP_WRITE, word, value, NULL};

	return ops->batch(port, &m, 1);
}

/* A text was set that has this in it. */
static void says(const char *part)
{
	ck_assert_msg(strstr(stmpi_error_text(), part) != NULL, "\"%s\" lacks \"%s\"",
		      stmpi_error_text(), part);
}

START_TEST(no_device_is_an_error_with_its_reason)
{
	OK(setenv("CUDASIM_DEVICES", "0", 1));
	ck_assert_int_eq(ops->probe(why, sizeof(why)), -STMPI_ENODEV);
	ck_assert_ptr_nonnull(strstr(why, "no CUDA device: cuInit: CUDA_ERROR_NO_DEVICE"));
}
END_TEST

/* Whatever context the calling thread has, it has afterwards, and the work goes to the stream's. */
START_TEST(the_callers_context_stays)
{
	struct stmpi_stream_port *port;
	CUcontext primary = begin(), other, now;
	CUstream s = stream_of(CU_STREAM_NON_BLOCKING);

	OK(cuCtxCreate(&other, NULL, 0, 0));
	OK(cuCtxGetCurrent(&now));
	ck_assert_ptr_eq(now, other);
	port = port_of(s);
	ck_assert_int_eq(ops->check(port), 0);
	ck_assert_int_eq(write_word(port, &words[0], 5), 0);
	OK(cuCtxGetCurrent(&now));
	ck_assert_ptr_eq(now, other);
	OK(cuCtxPopCurrent(&now));
	OK(cuCtxSetCurrent(NULL));
	ck_assert_int_eq(ops->check(port), 0);
	ck_assert_int_eq(write_word(port, &words[1], 6), 0);
	(void)ops->query(port);
	OK(cuCtxGetCurrent(&now));
	ck_assert_ptr_null(now);
	OK(cuCtxSetCurrent(primary));
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(words[0], 5);
	ck_assert_uint_eq(words[1], 6);
	ops->detach(port);
}
END_TEST

/* The legacy default stream is the attaching context's, also when another one is current later. */
START_TEST(the_default_stream_is_that_of_its_context)
{
	struct stmpi_stream_port *port;
	CUcontext primary = begin(), other, now;
	gate *g = gate_new();

	port = port_of(NULL);
	gate_close(g, NULL);
	OK(cuCtxCreate(&other, NULL, 0, 0));
	ck_assert_int_eq(write_word(port, &words[0], 5), 0);
	sleep_ms(20);
	ck_assert_uint_eq(stmpi_word_load(&words[0]), 0);
	OK(cuCtxGetCurrent(&now));
	ck_assert_ptr_eq(now, other);
	gate_open(g);
	OK(cuCtxSetCurrent(primary));
	OK(cuStreamSynchronize(NULL));
	ck_assert_uint_eq(words[0], 5);
	ops->detach(port);
}
END_TEST

static void *check_elsewhere(void *arg)
{
	ck_assert_int_eq(ops->check(arg), -STMPI_EINVAL);
	says("cudaStreamPerThread");
	return NULL;
}

START_TEST(the_per_thread_stream_is_its_threads)
{
	struct stmpi_stream_port *port;
	pthread_t t;

	(void)begin();
	port = port_of(CU_STREAM_PER_THREAD);
	ck_assert_int_eq(ops->check(port), 0);
	ck_assert_int_eq(write_word(port, &words[0], 5), 0);
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	ck_assert_uint_eq(words[0], 5);
	pthread_create(&t, NULL, check_elsewhere, port);
	pthread_join(t, NULL);
	ops->detach(port);
}
END_TEST

START_TEST(a_capture_is_refused)
{
	struct stmpi_stream_port *port, *second = NULL;
	CUstream s;
	CUgraph graph;

	(void)begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	port = port_of(s);
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_assert_int_eq(ops->check(port), -STMPI_EINVAL);
	says("capture");
	ck_assert_int_eq(ops->attach(&s, NULL, NULL, &second), -STMPI_EINVAL);
	OK(cuStreamEndCapture(s, &graph)); /* it is still valid */
	ck_assert_int_eq(ops->check(port), 0);
	ck_assert_int_eq(write_word(port, &words[0], 5), 0);
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(words[0], 5);
	ops->detach(port);
}
END_TEST

START_TEST(kinds_of_memory)
{
	CUdeviceptr device, managed;
	struct stmpi_stream_port *port;
	void *pinned, *heap = malloc(100);
	int local;

	(void)begin();
	port = port_of(stream_of(CU_STREAM_NON_BLOCKING));
	device = device_bytes(1000);
	OK(cuMemAllocManaged(&managed, 1000, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemHostAlloc(&pinned, 1000, 0));
	ck_assert_int_eq(ops->mem_kind(port, &local), STMPI_MEM_CPU);
	ck_assert_int_eq(ops->mem_kind(port, heap), STMPI_MEM_CPU);
	ck_assert_int_eq(ops->mem_kind(port, pinned), STMPI_MEM_CPU);
	ck_assert_int_eq(ops->mem_kind(port, (void *)managed), STMPI_MEM_CPU);
	ck_assert_int_eq(ops->mem_kind(port, (void *)device), STMPI_MEM_DEVICE);
	ck_assert_int_eq(ops->mem_kind(port, (char *)device + 999), STMPI_MEM_DEVICE);
	free(heap);
}
END_TEST

START_TEST(moves_in_stream_order)
{
	struct stmpi_stream_port *port;
	struct stmpi_memop m[4];
	CUdeviceptr device;
	CUstream s;

	(void)begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	port = port_of(s);
	device = device_bytes(16);
	words[0] = 7;
	m[0] = (struct stmpi_memop){STMPI_MEMOP_WAIT, &words[10], 1, NULL};
	m[1] = (struct stmpi_memop){STMPI_MEMOP_MOVE, (void *)device, 8, &words[0]};
	m[2] = (struct stmpi_memop){STMPI_MEMOP_MOVE, &words[1], 8, (void *)device};
	m[3] = (struct stmpi_memop){STMPI_MEMOP_WRITE, &words[11], 1, NULL};
	ck_assert_int_eq(ops->batch(port, m, 4), 0);
	words[0] = 8; /* the copy is made when its turn comes */
	sleep_ms(10);
	ck_assert_uint_eq(stmpi_word_load(&words[1]), 0);
	stmpi_word_store(&words[10], 1);
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(words[1], 8);
	ck_assert_uint_eq(words[11], 1);

	/* Now, whatever the stream is at. */
	m[0].value = 2;
	ck_assert_int_eq(ops->batch(port, m, 1), 0);
	words[0] = 9;
	ck_assert_int_eq(ops->move_now(port, (void *)device, &words[0], 8), 0);
	ck_assert_int_eq(ops->move_now(port, &words[2], (void *)device, 8), 0);
	ck_assert_uint_eq(words[2], 9);
	stmpi_word_store(&words[10], 2);
	OK(cuStreamSynchronize(s));
	ops->detach(port);
}
END_TEST

START_TEST(memory_that_is_none_is_refused)
{
	struct stmpi_stream_port *port;
	CUdeviceptr device;
	struct stmpi_memop m = {STMPI_MEMOP_MOVE, words, 8, NULL};

	(void)begin();
	port = port_of(stream_of(CU_STREAM_NON_BLOCKING));
	device = device_bytes(16);
	m.src = (void *)device;
	m.value = 1 << 20; /* longer than it is */
	ck_assert_int_eq(ops->batch(port, &m, 1), -STMPI_EINVAL);
	says("buffer of 1048576 bytes");
	m.value = 8;
	ck_assert_int_eq(ops->batch(port, &m, 1), 0);
	OK(cuMemFree(device));
	ck_assert_int_eq(ops->mem_kind(port, (void *)device), STMPI_MEM_DEVICE);
	ck_assert_int_eq(ops->batch(port, &m, 1), -STMPI_EINVAL);
	ops->detach(port);
}
END_TEST

/* Attach with STMPI_CUDA_WAIT=way on a device that lacks something; the calls that would make waits
 * fail, and the text says which one was tried. */
static void ways(const char *way, const char *mask, const char *fail, int code, const char *part)
{
	struct stmpi_stream_port *port = NULL;
	CUstream s;

	OK(setenv("CUDASIM_MASK", mask, 1));
	OK(setenv("CUDASIM_FAIL", fail, 1));
	OK(setenv("STMPI_CUDA_WAIT", way, 1));
	stmpi_params_reload();
	(void)begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	ck_assert_int_eq(ops->probe(why, sizeof(why)), 0);
	if (code != 0) {
		ck_assert_int_eq(ops->attach(&s, NULL, NULL, &port), code);
	} else {
		port = port_of(s);
		ck_assert_int_lt(write_word(port, &words[0], 5), 0);
	}
	says(part);
	if (code != 0)
		return;
	ck_assert_int_eq(write_word(port, &words[0], 5), 0); /* only the first call fails */
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(words[0], 5);
	ops->detach(port);
}

#define CALLS_FAIL "cuStreamWriteValue64:1 cuLaunchKernel:1 cuLaunchHostFunc:1"
#define NO_KERNEL  "cuModuleLoadData:1:221 " CALLS_FAIL

START_TEST(how_waits_are_made)
{
	static const struct {
		const char *way, *mask, *fail;
		int code;
		const char *part;
	} cases[] = {
		{"auto", "", CALLS_FAIL, 0, "cuStreamBatchMemOp"},
		{"memop", "", CALLS_FAIL, 0, "cuStreamBatchMemOp"},
		{"kernel", "", CALLS_FAIL, 0, "cuLaunchKernel"},
		{"hostfn", "", CALLS_FAIL, 0, "cuLaunchHostFunc"},
		{"auto", "memops64", CALLS_FAIL, 0, "cuLaunchKernel"},
		{"auto", "memops64", NO_KERNEL, 0, "cuLaunchHostFunc"},
		{"auto", "", NO_KERNEL, 0, "cuStreamBatchMemOp"},
		{"memop", "memops64", "", -STMPI_ENODEV, "64-bit"},
		{"kernel", "", NO_KERNEL, -STMPI_ENODEV, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"},
		{"kernel", "", "cuModuleGetFunction:1", -STMPI_ENODEV, "cuModuleGetFunction"},
		{"kernel", "", "cuFuncLoad:1", -STMPI_ENODEV, "kernel of this library"},
	};

	ck_assert_uint_lt((unsigned)_i, stmpi_array_len(cases));
	ways(cases[_i].way, cases[_i].mask, cases[_i].fail, cases[_i].code, cases[_i].part);
}
END_TEST
#define WAYS 11

/* A context that registered memory has ended: the next stream registers it anew. */
START_TEST(memory_is_mapped_again_after_its_context)
{
	struct stmpi_stream_port *port;
	CUcontext other, primary = begin();
	CUstream s;

	OK(cuCtxCreate(&other, NULL, 0, 0));
	port = port_of(stream_of(CU_STREAM_NON_BLOCKING));
	ops->detach(port);
	OK(cuCtxDestroy(other));
	OK(cuCtxSetCurrent(primary));
	s = stream_of(CU_STREAM_NON_BLOCKING);
	port = port_of(s);
	ck_assert_int_eq(write_word(port, &words[0], 5), 0);
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(words[0], 5);
	ops->detach(port);
	ops->fini();
	OK(cuMemHostRegister(words, sizeof(words), 0)); /* it had been given back */
}
END_TEST

/* Only the device in use gets a context. */
START_TEST(other_devices_stay_as_they_are)
{
	unsigned flags;
	int active = 1;
	CUdevice second;

	OK(setenv("CUDASIM_DEVICES", "2", 1));
	(void)begin();
	ops->detach(port_of(stream_of(CU_STREAM_NON_BLOCKING)));
	OK(cuDeviceGet(&second, 1));
	OK(cuDevicePrimaryCtxGetState(second, &flags, &active));
	ck_assert_int_eq(active, 0);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("stream_cuda");
	TCase *c = tcase_create("cuda");

	if (argc > 1 && setenv("STMPI_CUDA_WAIT", argv[1], 1) != 0)
		return 1;
	stream_conformance_add(suite, &sut);
	tcase_set_timeout(c, 60);
	TEST(c, no_device_is_an_error_with_its_reason);
	TEST(c, the_callers_context_stays);
	TEST(c, the_default_stream_is_that_of_its_context);
	TEST(c, the_per_thread_stream_is_its_threads);
	TEST(c, a_capture_is_refused);
	TEST(c, kinds_of_memory);
	TEST(c, moves_in_stream_order);
	TEST(c, memory_that_is_none_is_refused);
	tcase_add_loop_test(c, how_waits_are_made, 0, WAYS);
	TEST(c, memory_is_mapped_again_after_its_context);
	TEST(c, other_devices_stay_as_they_are);
	suite_add_tcase(suite, c);
	return run_suite(suite);
}
