/* SPDX-License-Identifier: BSD-3-Clause */
/* any_stream.c: CUDA's calls are looked up by name, so that no CUDA is needed to build this. */
#include "any_stream.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stmpi_host.h>

#define CUDA_NOT_READY	600
#define CUDA_REGISTERED 712
#define NON_BLOCKING	1

static struct {
	int (*init)(unsigned);
	int (*retain)(void **ctx, int device);
	int (*set_current)(void *ctx);
	int (*device_name)(char *name, int bytes, int device);
	int (*stream_create)(void **stream, unsigned flags);
	int (*stream_destroy)(void *stream);
	int (*launch)(void *stream, void (*fn)(void *arg), void *arg);
	int (*wait)(void *stream, uint64_t addr, uint64_t value, unsigned flags);
	int (*write)(void *stream, uint64_t addr, uint64_t value, unsigned flags);
	int (*query)(void *stream);
	int (*synchronize)(void *stream);
	int (*event_create)(void **event, unsigned flags);
	int (*event_destroy)(void *event);
	int (*event_record)(void *event, void *stream);
	int (*event_query)(void *event);
	int (*event_synchronize)(void *event);
	int (*event_elapsed)(float *ms, void *start, void *stop);
	int (*wait_event)(void *stream, void *event, unsigned flags);
	int (*host_register)(void *addr, size_t bytes, unsigned flags);
	int (*alloc)(uint64_t *addr, size_t bytes);
	int (*free_)(uint64_t addr);
	int (*copy)(uint64_t to, uint64_t from, size_t bytes);
	int (*copy_async)(uint64_t to, uint64_t from, size_t bytes, void *stream);
	int (*host_alloc)(void **addr, size_t bytes, unsigned flags);
	int (*managed_alloc)(uint64_t *addr, size_t bytes, unsigned flags);
	int (*alloc_async)(uint64_t *addr, size_t bytes, void *stream);
	int (*free_async)(uint64_t addr, void *stream);
	int (*capture_begin)(void *stream, int mode);
	int (*capture_end)(void *stream, void **graph);
	int (*get_current)(void **ctx);
} cu;

static const struct {
	const char *name;
	void *slot;
} names[] = {
	{"cuInit", &cu.init},
	{"cuDevicePrimaryCtxRetain", &cu.retain},
	{"cuCtxSetCurrent", &cu.set_current},
	{"cuDeviceGetName", &cu.device_name},
	{"cuStreamCreate", &cu.stream_create},
	{"cuStreamDestroy_v2", &cu.stream_destroy},
	{"cuLaunchHostFunc", &cu.launch},
	{"cuStreamWaitValue64_v2", &cu.wait},
	{"cuStreamWriteValue64_v2", &cu.write},
	{"cuStreamQuery", &cu.query},
	{"cuStreamSynchronize", &cu.synchronize},
	{"cuEventCreate", &cu.event_create},
	{"cuEventDestroy_v2", &cu.event_destroy},
	{"cuEventRecord", &cu.event_record},
	{"cuEventQuery", &cu.event_query},
	{"cuEventSynchronize", &cu.event_synchronize},
	{"cuEventElapsedTime", &cu.event_elapsed},
	{"cuStreamWaitEvent", &cu.wait_event},
	{"cuMemHostRegister_v2", &cu.host_register},
	{"cuMemAlloc_v2", &cu.alloc},
	{"cuMemFree_v2", &cu.free_},
	{"cuMemcpy", &cu.copy},
	{"cuMemcpyAsync", &cu.copy_async},
	{"cuMemHostAlloc", &cu.host_alloc},
	{"cuMemAllocManaged", &cu.managed_alloc},
	{"cuMemAllocAsync", &cu.alloc_async},
	{"cuMemFreeAsync", &cu.free_async},
	{"cuStreamBeginCapture_v2", &cu.capture_begin},
	{"cuStreamEndCapture", &cu.capture_end},
	{"cuCtxGetCurrent", &cu.get_current},
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int is_open, is_cuda;
static void *context;

const char *any_stream_open(int cuda)
{
	static char why[256];
	void *lib;

	is_open = 1;
	if (!cuda)
		return NULL;
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (lib == NULL) {
		snprintf(why, sizeof(why), "%s", dlerror());
		return why;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *fn = dlsym(lib, names[i].name);

		if (fn == NULL) {
			snprintf(why, sizeof(why), "the CUDA driver has no %s", names[i].name);
			return why;
		}
		memcpy(names[i].slot, &fn, sizeof(fn));
	}
	if (cu.init(0) != 0 || cu.retain(&context, 0) != 0)
		return "no CUDA device";
	is_cuda = 1;
	return NULL;
}

/* Tests do not choose: the environment does. */
static void open_once(void)
{
	const char *kind = getenv("STMPI_TEST_STREAM"), *why;

	if (is_open)
		return;
	why = any_stream_open(kind != NULL && strcmp(kind, "cuda") == 0);
	if (why != NULL) {
		printf("SKIP: STMPI_TEST_STREAM=cuda: %s\n", why);
		exit(77);
	}
}

void *any_driver(const char *name)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	return lib != NULL ? dlsym(lib, name) : NULL;
}

int any_stream_is_cuda(void)
{
	pthread_once(&once, open_once);
	return is_cuda;
}

void any_device_name(char *name, size_t bytes)
{
	name[0] = '\0';
	if (any_stream_is_cuda())
		(void)cu.device_name(name, (int)bytes, 0);
}

/* As the runtime API does: a context is current in every thread that makes a call. */
static int enter(void)
{
	return any_stream_is_cuda() ? cu.set_current(context) : 0;
}

const char *any_stream_type(void)
{
	return any_stream_is_cuda() ? "cudaStream_t" : "stmpi_host_stream_t";
}

int any_stream_create(any_stream_t *stream)
{
	stmpi_host_stream_t host;
	int ret = enter();

	if (ret != 0 || is_cuda)
		return ret != 0 ? ret : cu.stream_create(stream, NON_BLOCKING);
	ret = stmpi_host_stream_create(&host);
	if (ret == 0)
		*stream = host;
	return ret;
}

int any_stream_destroy(any_stream_t stream)
{
	(void)enter();
	return is_cuda ? cu.stream_destroy(stream) : stmpi_host_stream_destroy(stream);
}

int any_stream_launch(any_stream_t stream, void (*fn)(void *arg), void *arg)
{
	(void)enter();
	return is_cuda ? cu.launch(stream, fn, arg) : stmpi_host_stream_launch(stream, fn, arg);
}

/* The tests' words are anywhere: register the page that one is in, once. */
static int reach(uint64_t *word)
{
	int ret = cu.host_register((void *)((uintptr_t)word & ~(uintptr_t)4095), 4096, 0);

	return ret == CUDA_REGISTERED ? 0 : ret;
}

int any_stream_wait_value64(any_stream_t stream, uint64_t *word, uint64_t value)
{
	int ret = enter();

	if (!is_cuda)
		return stmpi_host_stream_wait_value64(stream, word, value);
	if (ret == 0)
		ret = reach(word);
	return ret != 0 ? ret : cu.wait(stream, (uintptr_t)word, value, 0);
}

int any_stream_write_value64(any_stream_t stream, uint64_t *word, uint64_t value)
{
	int ret = enter();

	if (!is_cuda)
		return stmpi_host_stream_write_value64(stream, word, value);
	if (ret == 0)
		ret = reach(word);
	return ret != 0 ? ret : cu.write(stream, (uintptr_t)word, value, 0);
}

/* 0: all has ended, 1: not yet. */
static int as_query(int ret)
{
	return ret == CUDA_NOT_READY ? 1 : ret;
}

int any_stream_query(any_stream_t stream)
{
	(void)enter();
	return is_cuda ? as_query(cu.query(stream)) : stmpi_host_stream_query(stream);
}

int any_stream_synchronize(any_stream_t stream)
{
	(void)enter();
	return is_cuda ? cu.synchronize(stream) : stmpi_host_stream_synchronize(stream);
}

int any_event_create(any_event_t *event)
{
	stmpi_host_event_t host;
	int ret = enter();

	if (is_cuda)
		return ret != 0 ? ret : cu.event_create(event, 0);
	ret = stmpi_host_event_create(&host);
	if (ret == 0)
		*event = host;
	return ret;
}

int any_event_destroy(any_event_t event)
{
	(void)enter();
	return is_cuda ? cu.event_destroy(event) : stmpi_host_event_destroy(event);
}

int any_event_record(any_event_t event, any_stream_t stream)
{
	(void)enter();
	return is_cuda ? cu.event_record(event, stream) : stmpi_host_event_record(event, stream);
}

int any_event_query(any_event_t event)
{
	(void)enter();
	return is_cuda ? as_query(cu.event_query(event)) : stmpi_host_event_query(event);
}

int any_event_synchronize(any_event_t event)
{
	(void)enter();
	return is_cuda ? cu.event_synchronize(event) : stmpi_host_event_synchronize(event);
}

int any_event_elapsed_ns(any_event_t start, any_event_t stop, int64_t *ns)
{
	float ms = 0;
	int ret = enter();

	if (!is_cuda)
		return stmpi_host_event_elapsed_ns(start, stop, ns);
	ret = cu.event_elapsed(&ms, start, stop);
	*ns = (int64_t)((double)ms * 1e6);
	return ret;
}

int any_stream_wait_event(any_stream_t stream, any_event_t event)
{
	(void)enter();
	return is_cuda ? cu.wait_event(stream, event, 0)
		       : stmpi_host_stream_wait_event(stream, event);
}

/* ---- CUDA only ---- */

void *any_device_alloc(size_t bytes)
{
	uint64_t addr = 0;

	return enter() == 0 && cu.alloc(&addr, bytes) == 0 ? (void *)(uintptr_t)addr : NULL;
}

int any_device_free(void *addr)
{
	(void)enter();
	return cu.free_((uintptr_t)addr);
}

int any_device_copy(void *to, const void *from, size_t bytes)
{
	(void)enter();
	return cu.copy((uintptr_t)to, (uintptr_t)from, bytes);
}

int any_device_copy_async(void *to, const void *from, size_t bytes, any_stream_t stream)
{
	(void)enter();
	return cu.copy_async((uintptr_t)to, (uintptr_t)from, bytes, stream);
}

void *any_pinned_alloc(size_t bytes)
{
	void *addr = NULL;

	return enter() == 0 && cu.host_alloc(&addr, bytes, 0) == 0 ? addr : NULL;
}

void *any_managed_alloc(size_t bytes)
{
	uint64_t addr = 0;

	return enter() == 0 && cu.managed_alloc(&addr, bytes, 1) == 0 ? (void *)(uintptr_t)addr
								      : NULL;
}

void *any_device_alloc_async(size_t bytes, any_stream_t stream)
{
	uint64_t addr = 0;

	return enter() == 0 && cu.alloc_async(&addr, bytes, stream) == 0 ? (void *)(uintptr_t)addr
									 : NULL;
}

int any_device_free_async(void *addr, any_stream_t stream)
{
	(void)enter();
	return cu.free_async((uintptr_t)addr, stream);
}

int any_capture_begin(any_stream_t stream)
{
	(void)enter();
	return cu.capture_begin(stream, 0);
}

int any_capture_end(any_stream_t stream)
{
	void *graph;

	(void)enter();
	return cu.capture_end(stream, &graph);
}

uint64_t any_context(void)
{
	void *ctx = NULL;

	return cu.get_current(&ctx) == 0 ? (uintptr_t)ctx : 0;
}
