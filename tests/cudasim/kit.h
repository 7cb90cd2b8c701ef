/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kit.h: what the simulator's own tests share. Each test is a process of its own (Check forks), so
 * each may set the simulator's variables before its first call. The comment at a test's head is the
 * rule of CUDA's documentation that it checks: driver API reference (DA), runtime API reference
 * (RA), programming guide (PG), in CUDA 13.0's edition.
 */
#ifndef CUDASIM_KIT_H
#define CUDASIM_KIT_H

#include <cuda.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "../suite.h"

#define OK(call)	   ck_assert_int_eq(call, CUDA_SUCCESS)
#define FAILS(error, call) ck_assert_int_eq(call, error)

/* The first device's primary context, current. */
static inline CUcontext begin(void)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	return ctx;
}

/* A word of pinned memory that a stream can wait for and the CPU can set. */
typedef _Atomic uint64_t gate;

static inline gate *gate_new(void)
{
	void *p;

	OK(cuMemHostAlloc(&p, 4096, 0));
	memset(p, 0, 4096);
	return p;
}

static inline CUdeviceptr gate_address(gate *g)
{
	return (CUdeviceptr)g;
}

/* The stream goes no further until gate_open. */
static inline void gate_close(gate *g, CUstream s)
{
	OK(cuStreamWaitValue64(s, gate_address(g), 1, CU_STREAM_WAIT_VALUE_GEQ));
}

static inline void gate_open(gate *g)
{
	atomic_store(g, 1);
}

static inline CUdeviceptr device_bytes(size_t bytes)
{
	CUdeviceptr p;

	OK(cuMemAlloc(&p, bytes));
	return p;
}

static inline CUstream stream_of(unsigned flags)
{
	CUstream s;

	OK(cuStreamCreate(&s, flags));
	return s;
}

static inline CUevent event_of(unsigned flags)
{
	CUevent e;

	OK(cuEventCreate(&e, flags));
	return e;
}

/* The sanitizers would take the faults that tests are to see. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "handle_segv=0:allow_user_segv_handler=1:detect_leaks=0";
}

const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "handle_segv=0:allow_user_segv_handler=1";
}

#define TEST(c, name) tcase_add_test(c, name)

#endif
