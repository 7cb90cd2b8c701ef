/* SPDX-License-Identifier: BSD-3-Clause */
/* test_streams: order on the simulated CUDA device: streams, events, memory operations, host
 * functions, queues. */
#include "kit.h"

static uint64_t read_word(CUdeviceptr d)
{
	uint64_t v;

	OK(cuMemcpyDtoHAsync(
		&v, d, sizeof(v),
		CU_STREAM_PER_THREAD)); /* waits for no other stream that does not block */
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	return v;
}

/* ---- streams and the default streams ---- */

/* DA, cuStreamQuery, cuStreamSynchronize: not ready while work is pending; PG, "Streams": in order.
 */
START_TEST(stream_is_in_order)
{
	CUdeviceptr d;
	CUstream s;
	gate *g;

	begin();
	d = device_bytes(8);
	s = stream_of(CU_STREAM_NON_BLOCKING);
	g = gate_new();
	OK(cuStreamQuery(s));
	gate_close(g, s);
	for (unsigned i = 0; i < 100; i++)
		OK(cuStreamWriteValue64(s, d, i, 0));
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
	gate_open(g);
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(read_word(d), 99);
	OK(cuStreamDestroy(s));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(s));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(s));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(0));
}
END_TEST

/* DA, "Stream synchronization behavior": work in the legacy stream waits for blocking streams, and
 * they for it; streams made with CU_STREAM_NON_BLOCKING take no part. */
START_TEST(legacy_stream)
{
	CUstream blocking, free_one;
	CUdeviceptr d;
	gate *g;

	begin();
	blocking = stream_of(CU_STREAM_DEFAULT);
	free_one = stream_of(CU_STREAM_NON_BLOCKING);
	d = device_bytes(8);
	g = gate_new();
	gate_close(g, blocking);
	OK(cuMemsetD8Async(d, 1, 8, 0)); /* the legacy stream */
	OK(cuMemsetD8Async(d, 2, 8, free_one));
	OK(cuStreamSynchronize(free_one));
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(0));
	gate_open(g);
	OK(cuStreamSynchronize(0));
	OK(cuStreamQuery(blocking));
	ck_assert_uint_eq(read_word(d) & 0xff, 1);
}
END_TEST

START_TEST(blocking_stream_waits_for_legacy)
{
	CUstream blocking, free_one;
	gate *g;

	begin();
	blocking = stream_of(CU_STREAM_DEFAULT);
	free_one = stream_of(CU_STREAM_NON_BLOCKING);
	g = gate_new();
	gate_close(g, CU_STREAM_LEGACY);
	OK(cuMemsetD8Async(device_bytes(8), 1, 8, blocking));
	OK(cuMemsetD8Async(device_bytes(8), 1, 8, CU_STREAM_PER_THREAD));
	OK(cuMemsetD8Async(device_bytes(8), 1, 8, free_one));
	OK(cuStreamSynchronize(free_one));
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(blocking));
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
	gate_open(g);
	OK(cuStreamSynchronize(blocking));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}
END_TEST

static void *other_thread(void *ctx)
{
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamQuery(CU_STREAM_PER_THREAD)); /* another stream than the first thread's */
	OK(cuMemsetD8Async(device_bytes(8), 1, 8, CU_STREAM_PER_THREAD));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	return NULL;
}

/* DA, "Stream synchronization behavior": each thread has a default stream of its own. */
START_TEST(per_thread_stream)
{
	CUcontext ctx = begin();
	pthread_t thread;
	gate *g = gate_new();

	gate_close(g, CU_STREAM_PER_THREAD);
	ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, ctx), 0);
	pthread_join(thread, NULL);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
	gate_open(g);
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}
END_TEST

/* DA, cuStreamCreateWithPriority: a priority outside the range becomes its nearest end; flags are
 * what was asked. */
START_TEST(flags_and_priorities)
{
	int least, greatest, priority;
	unsigned flags;
	CUstream s;

	begin();
	OK(cuCtxGetStreamPriorityRange(&least, &greatest));
	ck_assert_int_lt(greatest, least);
	OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest - 10));
	OK(cuStreamGetPriority(s, &priority));
	ck_assert_int_eq(priority, greatest);
	OK(cuStreamGetFlags(s, &flags));
	ck_assert_uint_eq(flags, CU_STREAM_NON_BLOCKING);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&s, 0x100));
}
END_TEST

/* PG, "Hardware connections" (CUDA_DEVICE_MAX_CONNECTIONS): with fewer queues than streams, streams
 * share them, and one that waits holds up another. */
START_TEST(streams_share_queues)
{
	CUstream a, b;
	gate *g;

	setenv("CUDASIM_QUEUES", "1", 1);
	begin();
	a = stream_of(CU_STREAM_NON_BLOCKING);
	b = stream_of(CU_STREAM_NON_BLOCKING);
	g = gate_new();
	gate_close(g, a);
	OK(cuMemsetD8Async(device_bytes(8), 1, 8, b));
	for (int i = 0; i < 1000; i++) {
		FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
		sched_yield();
	}
	gate_open(g);
	OK(cuStreamSynchronize(b));
}
END_TEST

/* DA, "API synchronization behavior": a copy from pageable memory has read it when it returns, even
 * where its stream has not come to it; one to pageable memory returns when it is done. */
START_TEST(pageable_copies)
{
	CUdeviceptr d;
	CUstream s;
	uint64_t v = 5, out = 0;
	gate *g;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	d = device_bytes(8);
	g = gate_new();
	gate_close(g, s);
	OK(cuMemcpyHtoDAsync(d, &v, sizeof(v), s));
	v = 6;
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
	gate_open(g);
	OK(cuMemcpyDtoHAsync(&out, d, sizeof(out), s));
	ck_assert_uint_eq(out, 5);
}
END_TEST

/* The same: one from pinned memory has only been queued. */
START_TEST(pinned_copies)
{
	CUstream s;
	uint64_t *v;
	CUdeviceptr d;
	gate *g;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	d = device_bytes(8);
	g = gate_new();
	OK(cuMemHostAlloc((void **)&v, 8, 0));
	*v = 5;
	gate_close(g, s);
	OK(cuMemcpyHtoDAsync(d, v, 8, s));
	*v = 6; /* a program's error: the copy has not been made */
	gate_open(g);
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(read_word(d), 6);
}
END_TEST

/* ---- events ---- */

/* DA, cuEventRecord, cuEventQuery, cuStreamWaitEvent: an event stands for what was in the stream
 * when it was recorded; one that was not recorded is over. */
START_TEST(events)
{
	CUstream a, b;
	CUevent e;
	gate *g, *later;

	begin();
	a = stream_of(CU_STREAM_NON_BLOCKING);
	b = stream_of(CU_STREAM_NON_BLOCKING);
	e = event_of(CU_EVENT_DISABLE_TIMING);
	g = gate_new();
	later = gate_new();
	OK(cuEventQuery(e));
	OK(cuEventSynchronize(e));
	gate_close(g, a);
	OK(cuEventRecord(e, a));
	gate_close(later, a);
	OK(cuStreamWaitEvent(b, e, 0));
	FAILS(CUDA_ERROR_NOT_READY, cuEventQuery(e));
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
	gate_open(g);
	OK(cuEventSynchronize(e)); /* not for what came later */
	OK(cuStreamSynchronize(b));
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
	gate_open(later);
	OK(cuEventDestroy(e));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(e));
}
END_TEST

/* DA, cuStreamWaitEvent: the wait is for the recording at the time of the call, not for a later
 * one; the event may be destroyed. */
START_TEST(event_is_recorded_again)
{
	CUstream a, b;
	CUevent e;
	gate *g;

	begin();
	a = stream_of(CU_STREAM_NON_BLOCKING);
	b = stream_of(CU_STREAM_NON_BLOCKING);
	e = event_of(CU_EVENT_DISABLE_TIMING);
	g = gate_new();
	OK(cuEventRecord(e, a));
	OK(cuStreamWaitEvent(b, e, 0));
	gate_close(g, a);
	OK(cuEventRecord(e, a));
	OK(cuEventDestroy(e));
	OK(cuStreamSynchronize(b));
	gate_open(g);
}
END_TEST

/* DA, cuEventElapsedTime: an error for events without time, and for those that were not recorded;
 * not ready before the end. */
START_TEST(elapsed_time)
{
	CUevent a, b, timeless;
	CUstream s;
	float ms = -1;
	gate *g;

	begin();
	a = event_of(0);
	b = event_of(0);
	timeless = event_of(CU_EVENT_DISABLE_TIMING);
	s = stream_of(CU_STREAM_NON_BLOCKING);
	g = gate_new();
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, a, b));
	OK(cuEventRecord(a, s));
	OK(cuEventRecord(timeless, s));
	gate_close(g, s);
	OK(cuEventRecord(b, s));
	FAILS(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, a, b));
	gate_open(g);
	OK(cuEventSynchronize(b));
	OK(cuEventElapsedTime(&ms, a, b));
	ck_assert(ms >= 0);
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, a, timeless));
}
END_TEST

/* ---- memory operations ---- */

/* DA, CUstreamWaitValue_flags: the four conditions; GEQ is cyclic. */
START_TEST(wait_conditions)
{
	static const struct {
		unsigned flags;
		uint32_t value, no, yes;
	} cases[] = {
		{CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 5},
		{CU_STREAM_WAIT_VALUE_GEQ, 0xfffffff0, 0xffffffef, 3},
		{CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5},
		{CU_STREAM_WAIT_VALUE_AND, 4, 3, 12},
		{CU_STREAM_WAIT_VALUE_NOR, 0xfffffffe, 1, 0},
	};
	_Atomic uint32_t *word;
	CUstream s;

	begin();
	word = (_Atomic uint32_t *)gate_new();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		atomic_store(word, cases[i].no);
		OK(cuStreamWaitValue32(s, (CUdeviceptr)word, cases[i].value, cases[i].flags));
		for (int k = 0; k < 200; k++) {
			FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
			sched_yield();
		}
		atomic_store(word, cases[i].yes);
		OK(cuStreamSynchronize(s));
	}
}
END_TEST

/* DA, cuStreamWriteValue32, cuStreamWaitValue64: the address must be the device's: of device
 * memory, or pinned, or registered; not managed; aligned. */
START_TEST(memop_addresses)
{
	static _Alignas(8) uint64_t plain;
	CUdeviceptr managed, d;
	CUstream s;

	begin();
	s = stream_of(0);
	OK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
	d = device_bytes(16);
	OK(cuStreamWriteValue64(s, d, 1, 0));
	OK(cuStreamWaitValue64(s, d, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuStreamWriteValue32(s, d + 12, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64(s, d + 4, 1, 0));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(s, d + 2, 1, 0));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64(s, d + 16, 1, 0));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64(s, managed, 1, 0));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64(s, (CUdeviceptr)&plain, 1, 0));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue64(s, (CUdeviceptr)&plain, 0, 0));
	OK(cuMemHostRegister(&plain, sizeof(plain), 0));
	OK(cuStreamWriteValue64(s, (CUdeviceptr)&plain, 7, 0));
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(plain, 7);
	/* DA: CU_STREAM_WAIT_VALUE_FLUSH where the device has it; no simulated one has. */
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuStreamWaitValue64(s, d, 1, CU_STREAM_WAIT_VALUE_FLUSH));
}
END_TEST

/* DA, cuStreamBatchMemOp: in order, at most 256, no flags. */
START_TEST(batches)
{
	CUstreamBatchMemOpParams ops[257];
	CUdeviceptr d;
	CUstream s;

	begin();
	d = device_bytes(8);
	s = stream_of(0);
	for (unsigned i = 0; i < 257; i++)
		ops[i].writeValue = (struct CUstreamMemOpWriteValueParams_st){
			.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = d, .value64 = i};
	OK(cuStreamBatchMemOp(s, 256, ops, 0));
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(read_word(d), 255);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(s, 257, ops, 0));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(s, 0, ops, 0));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(s, 1, ops, 1));
	ops[1].writeValue.address = 8;
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(s, 2, ops, 0));
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(read_word(d), 255); /* nothing of it was done */
}
END_TEST

/* A wait for memory that another stream writes. */
START_TEST(streams_meet_by_words)
{
	CUstream a, b;
	CUdeviceptr d;

	begin();
	a = stream_of(CU_STREAM_NON_BLOCKING);
	b = stream_of(CU_STREAM_NON_BLOCKING);
	d = device_bytes(16);
	OK(cuMemsetD8(d, 0, 16));
	OK(cuCtxSynchronize());
	for (unsigned i = 1; i <= 200; i++) {
		OK(cuStreamWaitValue64(a, d, i, CU_STREAM_WAIT_VALUE_GEQ));
		OK(cuStreamWriteValue64(a, d + 8, i, 0));
		OK(cuStreamWriteValue64(b, d, i, 0));
		OK(cuStreamWaitValue64(b, d + 8, i, CU_STREAM_WAIT_VALUE_GEQ));
	}
	OK(cuCtxSynchronize());
	ck_assert_uint_eq(read_word(d + 8), 200);
}
END_TEST

/* A queue that waits for a word leaves the CPU to others. */
START_TEST(waiting_takes_no_cpu)
{
	struct timespec before, after, nap = {0, 300000000};
	CUstream s;
	gate *g;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	g = gate_new();
	gate_close(g, s);
	nanosleep(&nap, NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	nanosleep(&nap, NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	gate_open(g);
	OK(cuStreamSynchronize(s));
	ck_assert_int_lt((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec -
				 before.tv_nsec,
			 100000000);
}
END_TEST

/* ---- host functions ---- */

struct seen {
	CUresult alloc, query;
	pthread_t thread;
	_Atomic int calls;
	CUstream stream;
};

static void host_function(void *arg)
{
	struct seen *s = arg;
	CUdeviceptr d;

	s->alloc = cuMemAlloc(&d, 8);
	s->query = cuStreamQuery(s->stream);
	s->thread = pthread_self();
	s->calls++;
}

/* DA, cuLaunchHostFunc: in the stream's order; no CUDA call may be made from it. Here each is an
 * error, and all host functions of the process run in one thread. */
START_TEST(host_functions)
{
	struct seen a = {0}, b = {0};
	CUdeviceptr d;
	CUstream s, t;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	t = stream_of(CU_STREAM_NON_BLOCKING);
	a.stream = b.stream = s;
	OK(cuLaunchHostFunc(s, host_function, &a));
	OK(cuLaunchHostFunc(t, host_function, &b));
	OK(cuStreamSynchronize(s));
	ck_assert_int_eq(a.calls, 1); /* over before the stream went on */
	OK(cuStreamSynchronize(t));
	FAILS(CUDA_ERROR_NOT_PERMITTED, a.alloc);
	FAILS(CUDA_ERROR_NOT_PERMITTED, a.query);
	ck_assert(pthread_equal(a.thread, b.thread));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(s, NULL, NULL));
	OK(cuMemAlloc(&d, 8)); /* elsewhere all is well */
}
END_TEST

static atomic_bool has_begun;

static void wait_for_gate(void *arg)
{
	atomic_store(&has_begun, true);
	while (!atomic_load((gate *)arg))
		sched_yield();
}

static void open_gate(void *arg)
{
	gate_open(arg);
}

/* DA, cuLaunchHostFunc: host functions without an order between them may run one after the other:
 * one that waits for another can hang. */
START_TEST(host_functions_hold_each_other_up)
{
	static gate g;
	CUstream s, t;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	t = stream_of(CU_STREAM_NON_BLOCKING);
	OK(cuLaunchHostFunc(s, wait_for_gate, &g));
	while (!atomic_load(&has_begun))
		sched_yield();
	OK(cuLaunchHostFunc(t, open_gate, &g));
	for (int i = 0; i < 1000; i++) {
		FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(t));
		sched_yield();
	}
	gate_open(&g);
	OK(cuStreamSynchronize(t));
}
END_TEST

static void callback(CUstream stream, CUresult status, void *arg)
{
	struct seen *s = arg;

	s->stream = stream;
	s->alloc = status;
	s->calls++;
}

/* DA, cuStreamAddCallback: is given the stream and its status. */
START_TEST(callbacks)
{
	struct seen seen = {.alloc = CUDA_ERROR_UNKNOWN};
	CUstream s;

	begin();
	s = stream_of(0);
	OK(cuStreamAddCallback(s, callback, &seen, 0));
	OK(cuStreamSynchronize(s));
	ck_assert(seen.stream == s && seen.alloc == CUDA_SUCCESS && seen.calls == 1);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(s, callback, &seen, 1));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cudasim: streams (simulated)");
	TCase *c = tcase_create("streams");

	TEST(c, stream_is_in_order);
	TEST(c, legacy_stream);
	TEST(c, blocking_stream_waits_for_legacy);
	TEST(c, per_thread_stream);
	TEST(c, flags_and_priorities);
	TEST(c, streams_share_queues);
	TEST(c, pageable_copies);
	TEST(c, pinned_copies);
	TEST(c, events);
	TEST(c, event_is_recorded_again);
	TEST(c, elapsed_time);
	TEST(c, wait_conditions);
	TEST(c, memop_addresses);
	TEST(c, batches);
	TEST(c, streams_meet_by_words);
	TEST(c, waiting_takes_no_cpu);
	TEST(c, host_functions);
	TEST(c, host_functions_hold_each_other_up);
	TEST(c, callbacks);
	suite_add_tcase(s, c);
	return run_suite(s);
}
