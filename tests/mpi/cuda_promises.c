/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_promises.c: what the library promises on CUDA streams, two ranks. Run with
 * STMPI_TEST_STREAM=cuda; else it is skipped. tests/mpi/cuda_promises.sh runs it with other
 * numbers of hardware queues and of devices.
 *
 * cuda_promises gate|kinds|threads|many|contexts|vmm|all
 */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	BLOCKING = 0,
	NON_BLOCKING = 1,
	STREAMS = 40
};

/* The driver's calls, by their forms of CUDA 12. */
static int (*ctx_create)(void **ctx, unsigned flags, int device);
static int (*ctx_destroy)(void *ctx);
static int (*ctx_push)(void *ctx);
static int (*ctx_pop)(void **ctx);
static int (*device_count)(int *count);
static int (*stream_create)(void **stream, unsigned flags);
static int (*stream_synchronize)(void *stream);
static int (*stream_destroy)(void *stream);
static int (*mem_alloc)(uint64_t *addr, size_t bytes);
static int (*mem_free)(uint64_t addr);
static int (*mem_copy)(uint64_t to, uint64_t from, size_t bytes);

static void find(const char *name, void *slot)
{
	void *fn = any_driver(name);

	KIT(fn != NULL);
	memcpy(slot, &fn, sizeof(fn));
}

static void find_calls(void)
{
	find("cuCtxCreate_v2", &ctx_create);
	find("cuCtxDestroy_v2", &ctx_destroy);
	find("cuCtxPushCurrent_v2", &ctx_push);
	find("cuCtxPopCurrent_v2", &ctx_pop);
	find("cuDeviceGetCount", &device_count);
	find("cuStreamCreate", &stream_create);
	find("cuStreamSynchronize", &stream_synchronize);
	find("cuStreamDestroy_v2", &stream_destroy);
	find("cuMemAlloc_v2", &mem_alloc);
	find("cuMemFree_v2", &mem_free);
	find("cuMemcpy", &mem_copy);
}

static MPI_Comm comm_of(void *stream)
{
	struct kit k = {.host = stream};

	kit_open_on(&k, MPI_COMM_WORLD);
	MPIX_Stream_free(&k.stream);
	return k.comm;
}

/* A message to the peer and one from it. */
static void trade(MPI_Comm comm, void *stream, uint64_t key)
{
	uint64_t out = key + (uint64_t)kit_rank, in = 0;
	MPI_Request r[2];

	KIT(MPIX_Irecv_enqueue(&in, 8, MPI_BYTE, !kit_rank, 1, comm, &r[0]) == MPI_SUCCESS);
	KIT(MPIX_Isend_enqueue(&out, 8, MPI_BYTE, !kit_rank, 1, comm, &r[1]) == MPI_SUCCESS);
	KIT(MPIX_Waitall_enqueue(2, r, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	KIT(stream_synchronize(stream) == 0);
	KIT(in == key + (uint64_t)!kit_rank);
}

/* ---- nothing before its turn ---- */

/* The stream is held up by a gate: nothing of a send leaves, nothing of a receive lands, no status
 * is written; and all of it happens when the gate opens. */
static void gate(void)
{
	static uint64_t gate_word;
	uint64_t buf = 77;
	MPI_Status status;
	int found = 0;
	struct kit k;

	kit_open(&k, MPI_COMM_WORLD);
	status.MPI_SOURCE = -77;
	kit_gate(&k, &gate_word);
	if (kit_rank == 0)
		KIT(MPIX_Send_enqueue(&buf, 8, MPI_BYTE, 1, 3, k.comm) == MPI_SUCCESS);
	else
		KIT(MPIX_Recv_enqueue(&buf, 8, MPI_BYTE, 0, 4, k.comm, &status) == MPI_SUCCESS);
	MPI_Barrier(MPI_COMM_WORLD);
	if (kit_rank == 0) {
		/* An ordinary call of another tag: it is there long before the receive. */
		uint64_t v = 5;

		KIT(MPI_Send(&v, 8, MPI_BYTE, 1, 4, k.comm) == MPI_SUCCESS);
	}
	for (int i = 0; i < 100; i++) {
		kit_sleep(2);
		if (kit_rank == 1) {
			KIT(MPI_Iprobe(0, 3, k.comm, &found, MPI_STATUS_IGNORE) == MPI_SUCCESS);
			KIT(!found && buf == 77 && status.MPI_SOURCE == -77);
		}
		KIT(any_stream_query(k.host) == 1);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	kit_gate_open(&gate_word);
	if (kit_rank == 1) {
		uint64_t v = 0;

		KIT(MPI_Recv(&v, 8, MPI_BYTE, 0, 3, k.comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		KIT(v == 77);
	}
	kit_sync(&k);
	if (kit_rank == 1)
		KIT(buf == 5 && status.MPI_SOURCE == 0);
	kit_close(&k);
}

/* ---- kinds of streams ---- */

/*
 * The legacy default stream waits for blocking streams, and they for it. While a receive is pending
 * on a blocking stream, work on the legacy stream hangs behind it; a non-blocking stream goes on,
 * and brings what the receive waits for.
 */
static void kinds(void)
{
	void *legacy = (void *)1, *per_thread = (void *)2, *blocking, *other;
	MPI_Comm of_legacy, of_thread, of_blocking, of_other;
	uint64_t got = 0, go = 0, v = 9;

	(void)any_context();
	KIT(stream_create(&blocking, BLOCKING) == 0 && stream_create(&other, NON_BLOCKING) == 0);
	of_legacy = comm_of(legacy);
	of_thread = comm_of(per_thread);
	of_blocking = comm_of(blocking);
	of_other = comm_of(other);
	trade(of_legacy, legacy, 10);
	trade(of_thread, per_thread, 20);
	trade(of_blocking, blocking, 30);
	trade(of_other, other, 40);
	if (kit_rank == 0) {
		uint64_t on_legacy = 3;

		KIT(MPIX_Recv_enqueue(&got, 8, MPI_BYTE, 1, 5, of_blocking, MPI_STATUS_IGNORE) ==
		    MPI_SUCCESS);
		KIT(MPIX_Send_enqueue(&on_legacy, 8, MPI_BYTE, 1, 6, of_legacy) == MPI_SUCCESS);
		kit_sleep(20);
		KIT(got == 0);
		KIT(MPIX_Send_enqueue(&v, 8, MPI_BYTE, 1, 7, of_other) == MPI_SUCCESS);
		KIT(stream_synchronize(legacy) == 0);
		KIT(got == 9);
	} else {
		KIT(MPI_Recv(&go, 8, MPI_BYTE, 0, 7, of_other, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		KIT(MPI_Send(&go, 8, MPI_BYTE, 0, 5, of_blocking) == MPI_SUCCESS);
		KIT(MPI_Recv(&got, 8, MPI_BYTE, 0, 6, of_legacy, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		KIT(got == 3);
	}
	KIT(stream_synchronize(legacy) == 0);
	MPI_Comm_free(&of_legacy);
	MPI_Comm_free(&of_thread);
	MPI_Comm_free(&of_blocking);
	MPI_Comm_free(&of_other);
	KIT(stream_destroy(blocking) == 0 && stream_destroy(other) == 0);
}

/* ---- another thread of the program ---- */

struct meddler {
	pthread_t thread;
	uint64_t memory;
	void *stream;
	_Atomic int is_done;
};

/* Memory comes and goes, a stream ends. The free waits for all work of the device. */
static void *meddle(void *arg)
{
	struct meddler *m = arg;
	uint64_t more;

	(void)any_device_free(any_device_alloc(64)); /* it makes the context current, too */
	KIT(mem_alloc(&more, 1 << 16) == 0);
	KIT(stream_destroy(m->stream) == 0);
	KIT(mem_free(m->memory) == 0 && mem_free(more) == 0);
	atomic_store(&m->is_done, 1);
	return NULL;
}

/* A wait is pending while another thread does what waits for the device: what ends the wait comes
 * through all the same. */
static void threads(void)
{
	struct meddler m = {.memory = 0};
	uint64_t got = 0, v = 4;
	struct kit k;

	kit_open(&k, MPI_COMM_WORLD);
	if (kit_rank == 0) {
		KIT(stream_create(&m.stream, NON_BLOCKING) == 0);
		KIT(mem_alloc(&m.memory, 1 << 20) == 0);
		KIT(MPIX_Recv_enqueue(&got, 8, MPI_BYTE, 1, 8, k.comm, MPI_STATUS_IGNORE) ==
		    MPI_SUCCESS);
		KIT(pthread_create(&m.thread, NULL, meddle, &m) == 0);
		kit_sleep(50);
		KIT(MPI_Send(&v, 8, MPI_BYTE, 1, 9, k.comm) == MPI_SUCCESS);
		KIT(pthread_join(m.thread, NULL) == 0);
		KIT(m.is_done && got == 4);
	} else {
		KIT(MPI_Recv(&got, 8, MPI_BYTE, 0, 9, k.comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		KIT(MPI_Send(&got, 8, MPI_BYTE, 0, 8, k.comm) == MPI_SUCCESS);
	}
	kit_sync(&k);
	kit_close(&k);
}

/* ---- many streams ---- */

/* Forty streams, also on one hardware queue: what releases a wait is enqueued before it. */
static void many(void)
{
	static uint64_t out[STREAMS], in[STREAMS];
	struct kit k[STREAMS];

	for (int i = 0; i < STREAMS; i++)
		kit_open(&k[i], MPI_COMM_WORLD);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < STREAMS; i++) {
			out[i] = (uint64_t)(round * 1000 + i * 2 + kit_rank);
			if (kit_rank == round % 2) {
				kit_send(&k[i], &out[i], 8, !kit_rank, 0);
				kit_recv(&k[i], &in[i], 8, !kit_rank, 0);
			} else {
				kit_recv(&k[i], &in[i], 8, !kit_rank, 0);
				kit_send(&k[i], &out[i], 8, !kit_rank, 0);
			}
		}
		for (int i = 0; i < STREAMS; i++) {
			kit_sync(&k[i]);
			KIT(in[i] == (uint64_t)(round * 1000 + i * 2 + !kit_rank));
		}
	}
	for (int i = 0; i < STREAMS; i++)
		kit_close(&k[i]);
}

/* ---- contexts and devices ---- */

/* Each call leaves the calling thread's current context, and what lies under it, as they were:
 * none, the stream's, another device's, one on top of the other. */
static void contexts(void)
{
	uint64_t buf, in = 0;
	int devices = 0;
	void *there, *here, *stream, *popped;
	MPI_Comm comm;

	KIT(device_count(&devices) == 0);
	while (any_context() != 0)
		KIT(ctx_pop(&popped) == 0);
	/* The stream is the last device's, in a context of its own. */
	KIT(ctx_create(&there, 0, devices - 1) == 0);
	KIT(stream_create(&stream, NON_BLOCKING) == 0);
	KIT(mem_alloc(&buf, 8) == 0);
	KIT(ctx_create(&here, 0, 0) == 0);
	comm = comm_of(stream);
	KIT(any_context() == (uintptr_t)here);
	for (int i = 0; i < 10; i++) {
		void *device = (void *)(uintptr_t)buf;
		uint64_t v = (uint64_t)i + 100;
		MPI_Request r;

		if (kit_rank == 0) {
			KIT(MPIX_Send_enqueue(&v, 8, MPI_BYTE, 1, 0, comm) == MPI_SUCCESS);
			KIT(any_context() == (uintptr_t)here);
			KIT(MPIX_Irecv_enqueue(device, 8, MPI_BYTE, 1, 0, comm, &r) == MPI_SUCCESS);
			KIT(any_context() == (uintptr_t)here);
			KIT(MPIX_Wait_enqueue(&r, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		} else {
			KIT(MPIX_Recv_enqueue(device, 8, MPI_BYTE, 0, 0, comm, MPI_STATUS_IGNORE) ==
			    MPI_SUCCESS);
			KIT(any_context() == (uintptr_t)here);
			KIT(MPIX_Send_enqueue(device, 8, MPI_BYTE, 0, 0, comm) == MPI_SUCCESS);
		}
		KIT(any_context() == (uintptr_t)here);
		/* No context at all: the stream's is found all the same. */
		KIT(ctx_pop(&popped) == 0 && popped == here);
		KIT(ctx_pop(&popped) == 0 && popped == there);
		KIT(any_context() == 0);
		KIT(MPIX_Isend_enqueue(&v, 8, MPI_BYTE, MPI_PROC_NULL, 0, comm, &r) == MPI_SUCCESS);
		KIT(MPIX_Wait_enqueue(&r, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		KIT(any_context() == 0);
		KIT(ctx_push(there) == 0);
		KIT(stream_synchronize(stream) == 0);
		KIT(mem_copy((uintptr_t)&in, buf, 8) == 0 && in == v);
		KIT(ctx_push(here) == 0);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Comm_free(&comm);
	KIT(any_context() == (uintptr_t)here);
	KIT(ctx_destroy(here) == 0);
	KIT(any_context() == (uintptr_t)there);
	KIT(mem_free(buf) == 0 && stream_destroy(stream) == 0);
}

/* ---- mapped memory ---- */

struct location {
	int type, id;
};

/* CUmemAllocationProp and CUmemAccessDesc, as far as they are set here. */
struct allocation {
	int type, handles;
	struct location location;
	void *win32;
	unsigned char flags[8];
};

struct access_of {
	struct location location;
	int flags;
};

/* One buffer over two pieces of physical memory; messages cross the border between them. */
static void vmm(void)
{
	struct allocation prop = {.type = 1, .location = {1, 0}};
	struct access_of may = {{1, 0}, 3};
	int (*reserve)(uint64_t *, size_t, size_t, uint64_t, unsigned long long);
	int (*create)(unsigned long long *, size_t, const struct allocation *, unsigned long long);
	int (*map)(uint64_t, size_t, size_t, unsigned long long, unsigned long long);
	int (*set_access)(uint64_t, size_t, const struct access_of *, size_t);
	int (*granularity)(size_t *, const struct allocation *, int);
	unsigned long long handles[2];
	size_t piece = 0, bytes = 100000;
	char *out = malloc(bytes), *in = malloc(bytes);
	uint64_t range, at;
	struct kit k;

	find("cuMemAddressReserve", &reserve);
	find("cuMemCreate", &create);
	find("cuMemMap", &map);
	find("cuMemSetAccess", &set_access);
	find("cuMemGetAllocationGranularity", &granularity);
	KIT(out != NULL && in != NULL);
	kit_open(&k, MPI_COMM_WORLD);
	KIT(granularity(&piece, &prop, 0) == 0);
	KIT(reserve(&range, 2 * piece, 0, 0, 0) == 0);
	for (int i = 0; i < 2; i++) {
		KIT(create(&handles[i], piece, &prop, 0) == 0);
		KIT(map(range + (uint64_t)i * piece, piece, 0, handles[i], 0) == 0);
	}
	KIT(set_access(range, 2 * piece, &may, 1) == 0);
	for (int i = 0; i < 20; i++) {
		size_t n = i % 2 ? bytes : 64;

		at = range + piece - (size_t)i * 3 - 10;
		kit_fill(out, n, (uint64_t)i);
		if (kit_rank == 0)
			KIT(any_device_copy((void *)(uintptr_t)at, out, n) == 0);
		/* From pageable memory it may return before the device has it all. */
		KIT(stream_synchronize((void *)1) == 0);
		MPI_Barrier(MPI_COMM_WORLD);
		if (kit_rank == 0)
			kit_send(&k, (void *)(uintptr_t)at, n, 1, 0);
		else
			kit_recv(&k, (void *)(uintptr_t)at, n, 0, 0);
		kit_sync(&k);
		KIT(any_device_copy(in, (void *)(uintptr_t)at, n) == 0);
		KIT(kit_check(in, n, (uint64_t)i));
	}
	kit_close(&k);
	free(out);
	free(in);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*body)(void);
	} parts[] = {{"gate", gate}, {"kinds", kinds},	     {"threads", threads},
		     {"many", many}, {"contexts", contexts}, {"vmm", vmm}};
	const char *which = argc > 1 ? argv[1] : "all";
	int count = 0;

	kit_init(&argc, &argv);
	if (!any_stream_is_cuda()) {
		printf("skip: for CUDA streams only\n");
		MPI_Finalize();
		return 77;
	}
	find_calls();
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strcmp(which, "all") != 0 && strcmp(which, parts[i].name) != 0)
			continue;
		(void)any_device_free(any_device_alloc(8)); /* a context is current */
		parts[i].body();
		count++;
	}
	KIT(count > 0);
	return kit_end();
}
