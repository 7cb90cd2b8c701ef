/* SPDX-License-Identifier: BSD-3-Clause */
/* test_memory: kinds of memory of the simulated CUDA device: who may touch it, what is said of it,
 * when it goes. */
#include <sys/mman.h>

#include "kit.h"

/* PG, "Heterogeneous programming": host and device have memory of their own; the host does not
 * dereference a pointer of cudaMalloc. Here that is a fault at once. */
START_TEST(cpu_touches_device_memory)
{
	begin();
	*(volatile char *)device_bytes(16) = 1;
}
END_TEST

/* The same in a system call. */
START_TEST(kernel_touches_device_memory)
{
	int fds[2];

	begin();
	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_lt(write(fds[1], (void *)device_bytes(16), 16), 0);
}
END_TEST

/* DA, cuMemcpyHtoD, cuMemcpyDtoH: bytes go there and come back. */
START_TEST(copies_go_and_come)
{
	char in[300], out[300] = "";
	CUdeviceptr d, e;

	begin();
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (char)i;
	d = device_bytes(sizeof(in));
	e = device_bytes(sizeof(in));
	OK(cuMemcpyHtoD(d, in, sizeof(in)));
	OK(cuMemcpyDtoD(e, d, sizeof(in)));
	OK(cuMemcpyDtoH(out, e, sizeof(in)));
	ck_assert_mem_eq(in, out, sizeof(in));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(d, in, sizeof(in) + 1)); /* past the end */
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD((CUdeviceptr)out, in, 4));
	OK(cuMemFree(d));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(d, in, 4)); /* freed */
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(d));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(e + 1));
	OK(cuMemFree(0));
}
END_TEST

/* DA, cuMemcpy2D: rows of WidthInBytes at pitches of each side's own; a pitch below the row's end
 * is an error. */
START_TEST(copies_2d)
{
	char in[4][8], out[4][3];
	CUdeviceptr d;
	size_t pitch;
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = in,
			   .srcPitch = 8,
			   .srcXInBytes = 2,
			   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			   .WidthInBytes = 3,
			   .Height = 4};
	CUDA_MEMCPY2D back = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = out,
			      .dstPitch = 3,
			      .WidthInBytes = 3,
			      .Height = 4};

	begin();
	for (int i = 0; i < 32; i++)
		in[i / 8][i % 8] = (char)i;
	OK(cuMemAllocPitch(&d, &pitch, 3, 4, 4));
	c.dstDevice = back.srcDevice = d;
	c.dstPitch = back.srcPitch = pitch;
	OK(cuMemcpy2D(&c));
	OK(cuMemcpy2D(&back));
	for (int i = 0; i < 12; i++)
		ck_assert_int_eq(out[i / 3][i % 3], in[i / 3][i % 3 + 2]);
	back.dstPitch = 2;
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&back));
}
END_TEST

/* DA, cuMemsetD32: the address must be aligned to the element. */
START_TEST(sets)
{
	uint32_t out[4];
	CUdeviceptr d;

	begin();
	d = device_bytes(16);
	OK(cuMemsetD8(d, 0xff, 16));
	OK(cuMemsetD32(d + 4, 0x01020304, 2));
	OK(cuMemsetD16(d, 0x0506, 1));
	OK(cuMemcpyDtoH(out, d, 16));
	ck_assert_uint_eq(out[0], 0xffff0506);
	ck_assert_uint_eq(out[1], 0x01020304);
	ck_assert_uint_eq(out[3], 0xffffffff);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(d + 1, 0, 1));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8((CUdeviceptr)out, 0, 4)); /* not the device's */
}
END_TEST

static unsigned type_of(CUdeviceptr p)
{
	unsigned type = 0;

	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	return type;
}

/* DA, cuPointerGetAttribute: memory type, managed or not, start and size; an error for memory that
 * CUDA does not know. cuPointerGetAttributes: nothing and success for such memory. */
START_TEST(pointers)
{
	CUcontext ctx = begin(), of;
	CUdeviceptr d = device_bytes(1000), managed, base;
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				       CU_POINTER_ATTRIBUTE_RANGE_SIZE};
	unsigned type = 7, is_managed;
	int local, device = 5;
	size_t size = 9;
	void *data[] = {&type, &device, &size}, *host;

	OK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemHostAlloc(&host, 64, 0));
	ck_assert_uint_eq(type_of(d + 999), CU_MEMORYTYPE_DEVICE);
	ck_assert_uint_eq(type_of(managed), CU_MEMORYTYPE_DEVICE);
	ck_assert_uint_eq(type_of((CUdeviceptr)host), CU_MEMORYTYPE_HOST);
	OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
	ck_assert_uint_eq(is_managed, 1);
	*(char *)managed = 1; /* the CPU may */
	OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, d + 10));
	ck_assert(base == d);
	OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, d));
	ck_assert(of == ctx);
	FAILS(CUDA_ERROR_INVALID_VALUE,
	      cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d + 1000));
	FAILS(CUDA_ERROR_INVALID_VALUE,
	      cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&local));
	OK(cuPointerGetAttributes(3, which, data, (CUdeviceptr)&local));
	ck_assert_uint_eq(type, 0);
	ck_assert_int_eq(device, CU_DEVICE_INVALID);
	ck_assert_uint_eq(size, 0);
	OK(cuPointerGetAttributes(3, which, data, d + 5));
	ck_assert_uint_eq(size, 1000);
	OK(cuMemGetAddressRange(&base, &size, d + 1));
	ck_assert(base == d && size == 1000);
	FAILS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, (CUdeviceptr)&local));
}
END_TEST

/* DA, cuMemHostRegister: the device may then use the range; twice is an error; so is an unregister
 * of what is not registered, and memory that is not there. */
START_TEST(registers_host_memory)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr d;

	begin();
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&d, p, 0));
	OK(cuMemHostRegister(p, 8192, 0));
	OK(cuMemHostGetDevicePointer(&d, p + 100, 0));
	OK(cuMemsetD8(d, 7, 10));
	OK(cuCtxSynchronize());
	ck_assert_int_eq(p[109], 7);
	FAILS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(p + 4096, 4096, 0));
	FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(p + 4096));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(p));
	OK(cuMemHostUnregister(p));
	FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(p));
	munmap(p, 8192);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(p, 8192, 0));
}
END_TEST

/* RA, cudaFree: implicitly waits for the work that was queued (here: a copy behind a gate that
 * another thread opens). */
static void *open_later(void *arg)
{
	for (int i = 0; i < 100; i++)
		sched_yield();
	gate_open(arg);
	return NULL;
}

START_TEST(free_waits)
{
	CUcontext ctx = begin();
	CUdeviceptr d = device_bytes(64);
	CUstream s = stream_of(CU_STREAM_NON_BLOCKING);
	gate *g = gate_new();
	pthread_t thread;

	(void)ctx;
	gate_close(g, s);
	OK(cuMemsetD8Async(d, 1, 64, s));
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
	ck_assert_int_eq(pthread_create(&thread, NULL, open_later, g), 0);
	OK(cuMemFree(d));
	OK(cuStreamQuery(s)); /* it was over before the free returned */
	pthread_join(thread, NULL);
}
END_TEST

/* DA, "Stream ordered memory allocator": memory may be used in the stream from its allocation to
 * its free; the free is in the stream's order, and what was freed is given again. */
START_TEST(pool_memory)
{
	char out[64];
	CUdeviceptr d, again;
	CUmemoryPool pool;
	CUstream s;
	cuuint64_t threshold = ~(cuuint64_t)0, used = 1;

	begin();
	s = stream_of(0);
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	OK(cuMemAllocAsync(&d, 64, s));
	OK(cuMemsetD8Async(d, 3, 64, s));
	OK(cuMemcpyDtoHAsync(out, d, 64, s));
	OK(cuMemFreeAsync(d, s));
	OK(cuMemAllocAsync(&again, 64, s));
	ck_assert(again == d);
	OK(cuMemFreeAsync(again, s));
	OK(cuStreamSynchronize(s));
	ck_assert_int_eq(out[63], 3);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(d, 3, 64, s)); /* after the free */
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(d, s));
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	ck_assert_uint_eq(used, 0);
}
END_TEST

/* The same: a use in another stream that is not ordered after the allocation is a program's error;
 * here the context is lost at once. */
START_TEST(pool_memory_before_its_allocation)
{
	CUdeviceptr d;
	CUstream s, other;
	gate *g;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	other = stream_of(CU_STREAM_NON_BLOCKING);
	g = gate_new();
	gate_close(g, s);
	OK(cuMemAllocAsync(&d, 64, s));
	OK(cuMemsetD8Async(d, 3, 64, other));
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(other));
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize()); /* and stays lost */
	gate_open(g);
}
END_TEST

/* DA, "Virtual memory management": addresses are reserved, memory is created and mapped, access is
 * allowed: each a step of its own; without the last the memory may not be used. */
START_TEST(virtual_memory)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	const CUmemAccessDesc access = {.location = prop.location,
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle a, b;
	CUdeviceptr va;
	size_t unit;
	char out[8];

	begin();
	OK(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&a, unit + 1, &prop, 0));
	OK(cuMemCreate(&a, unit, &prop, 0));
	OK(cuMemCreate(&b, unit, &prop, 0));
	OK(cuMemAddressReserve(&va, 2 * unit, 0, 0, 0));
	OK(cuMemMap(va, unit, 0, a, 0));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(va, unit, 0, b, 0)); /* there is something */
	OK(cuMemMap(va + unit, unit, 0, b, 0));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(va, 1, 8));
	OK(cuMemSetAccess(va, 2 * unit, &access, 1));
	OK(cuMemsetD8(va + unit - 4, 9, 8)); /* one buffer across both */
	OK(cuMemcpyDtoH(out, va + unit - 4, 8));
	ck_assert_int_eq(out[7], 9);
	OK(cuMemRelease(a)); /* the mapping keeps it */
	OK(cuMemRelease(b));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(va, 2 * unit));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(va));
	OK(cuMemUnmap(va, 2 * unit));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(va, 1, 8));
	OK(cuMemAddressFree(va, 2 * unit));
}
END_TEST

/* DA, cuMemExportToShareableHandle: memory that was created for it has a file descriptor, and
 * whoever imports that has the same memory. */
START_TEST(virtual_memory_is_shared)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	const CUmemAccessDesc access = {.location = prop.location,
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle h, again;
	const size_t unit = 2 << 20;
	CUdeviceptr va;
	char c = 0;
	int fd;

	begin();
	OK(cuMemCreate(&h, unit, &prop, 0));
	FAILS(CUDA_ERROR_INVALID_VALUE,
	      cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	OK(cuMemCreate(&h, unit, &prop, 0));
	OK(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	OK(cuMemAddressReserve(&va, 2 * unit, 0, 0, 0));
	OK(cuMemMap(va, unit, 0, h, 0));
	OK(cuMemMap(va + unit, unit, 0, again, 0));
	OK(cuMemSetAccess(va, 2 * unit, &access, 1));
	OK(cuMemsetD8(va + 5, 8, 1));
	OK(cuMemcpyDtoH(&c, va + unit + 5, 1));
	ck_assert_int_eq(c, 8);
	FAILS(CUDA_ERROR_INVALID_VALUE,
	      cuMemImportFromShareableHandle(&again, (void *)(intptr_t)0,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}
END_TEST

/* ---- between processes ---- */

static void late_importer(int from, int to)
{
	CUipcMemHandle handle;
	CUdeviceptr d;
	char c = 0;

	if (read(from, &handle, sizeof(handle)) != sizeof(handle))
		_exit(1);
	begin();
	OK(cuIpcOpenMemHandle(&d, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ck_assert_int_eq(write(to, &c, 1), 1);
	ck_assert_int_eq(read(from, &c, 1), 1);
	OK(cuMemsetD8Async(d, 1, 1, 0));
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	_exit(0);
}

/* DA, cuIpcCloseMemHandle: memory that is freed before its importers have closed it is undefined;
 * here their next use of it is an error. */
START_TEST(ipc_owner_frees_first)
{
	int there[2], back[2], status;
	CUipcMemHandle handle;
	CUdeviceptr d;
	pid_t pid;
	char c = 0;

	ck_assert_int_eq(pipe(there) | pipe(back), 0);
	pid = fork();
	if (pid == 0)
		late_importer(there[0], back[1]);
	begin();
	d = device_bytes(100);
	OK(cuIpcGetMemHandle(&handle, d));
	ck_assert_int_eq(write(there[1], &handle, sizeof(handle)), sizeof(handle));
	ck_assert_int_eq(read(back[0], &c, 1), 1);
	OK(cuMemFree(d));
	ck_assert_int_eq(write(there[1], &c, 1), 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

struct letter {
	CUipcMemHandle memory;
	CUipcEventHandle event;
};

static void importer(int from, int to)
{
	struct letter l;
	CUdeviceptr d;
	CUevent e;
	char c = 0;

	if (read(from, &l, sizeof(l)) != sizeof(l))
		_exit(1);
	begin();
	OK(cuIpcOpenMemHandle(&d, l.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuIpcOpenEventHandle(&e, l.event));
	OK(cuStreamWaitEvent(CU_STREAM_LEGACY, e, 0));
	OK(cuMemcpyDtoH(&c, d, 1));
	ck_assert_int_eq(c, 42);
	OK(cuMemsetD8(d, 43, 1));
	OK(cuCtxSynchronize());
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(d));
	OK(cuIpcCloseMemHandle(d));
	ck_assert_int_eq(write(to, &c, 1), 1);
	_exit(0);
}

/* DA, cuIpcGetMemHandle, cuIpcOpenEventHandle: memory and events of another process; not of one's
 * own. */
START_TEST(ipc)
{
	int there[2], back[2], status;
	struct letter l;
	CUdeviceptr d;
	CUevent e;
	gate *g;
	pid_t pid;
	char c;

	ck_assert_int_eq(pipe(there) | pipe(back), 0);
	pid = fork(); /* before CUDA is used */
	if (pid == 0)
		importer(there[0], back[1]);
	begin();
	g = gate_new();
	d = device_bytes(100);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&e, CU_EVENT_INTERPROCESS)); /* has no time */
	e = event_of(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
	gate_close(g, CU_STREAM_LEGACY);
	OK(cuMemsetD8Async(d, 42, 100, CU_STREAM_LEGACY));
	OK(cuEventRecord(e, CU_STREAM_LEGACY));
	OK(cuIpcGetMemHandle(&l.memory, d));
	OK(cuIpcGetEventHandle(&l.event, e));
	FAILS(CUDA_ERROR_INVALID_CONTEXT,
	      cuIpcOpenMemHandle(&d, l.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ck_assert_int_eq(write(there[1], &l, sizeof(l)), sizeof(l));
	gate_open(g);
	ck_assert_int_eq(read(back[0], &c, 1), 1);
	OK(cuMemcpyDtoH(&c, d, 1));
	ck_assert_int_eq(c, 43);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* PG, "CUDA initialization": a child of fork cannot use what its parent began. */
START_TEST(fork_after_init)
{
	int status;
	pid_t pid;

	begin();
	pid = fork();
	if (pid == 0) {
		CUdeviceptr d;

		_exit(cuMemAlloc(&d, 8) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* DA, cuMemAlloc: there is an end to it. */
START_TEST(out_of_memory)
{
	CUdeviceptr d;
	size_t available, total;

	begin();
	OK(cuMemGetInfo(&available, &total));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&d, total + 1));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&d, 0));
	OK(cuMemAlloc(&d, available / 2));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&d, available));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cudasim: memory (simulated)");
	TCase *c = tcase_create("memory");

	tcase_add_test_raise_signal(c, cpu_touches_device_memory, SIGSEGV);
	TEST(c, kernel_touches_device_memory);
	TEST(c, copies_go_and_come);
	TEST(c, copies_2d);
	TEST(c, sets);
	TEST(c, pointers);
	TEST(c, registers_host_memory);
	TEST(c, free_waits);
	TEST(c, pool_memory);
	TEST(c, pool_memory_before_its_allocation);
	TEST(c, virtual_memory);
	TEST(c, virtual_memory_is_shared);
	TEST(c, ipc);
	TEST(c, ipc_owner_frees_first);
	TEST(c, fork_after_init);
	TEST(c, out_of_memory);
	suite_add_tcase(s, c);
	return run_suite(s);
}
