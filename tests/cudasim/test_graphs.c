/* SPDX-License-Identifier: BSD-3-Clause */
/* test_graphs: captures and graphs on the simulated CUDA device. */
#include "kit.h"

static CUstreamCaptureStatus status_of(CUstream s)
{
	CUstreamCaptureStatus status;

	OK(cuStreamIsCapturing(s, &status));
	return status;
}

static CUgraphExec exec_of(CUgraph g)
{
	CUgraphExec x;

	OK(cuGraphInstantiate(&x, g, 0));
	return x;
}

static void add_one(void *arg)
{
	atomic_fetch_add((gate *)arg, 1);
}

/* DA, cuStreamBeginCapture: work is not done but becomes a graph; PG, "CUDA graphs": a launch does
 * it, as often as one likes. */
START_TEST(captures_and_replays)
{
	CUstream s;
	CUgraph g;
	CUgraphExec x;
	CUdeviceptr d;
	size_t count = 0;
	gate *word, *counter;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	d = device_bytes(8);
	word = gate_new();
	counter = gate_new();
	OK(cuMemsetD8(d, 0, 8));
	OK(cuCtxSynchronize());
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_assert_int_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	OK(cuMemsetD8Async(d, 3, 8, s));
	OK(cuStreamWriteValue64(s, d, 77, 0));
	OK(cuMemcpyDtoHAsync((void *)word, d, 8, s));
	OK(cuLaunchHostFunc(s, add_one, counter));
	ck_assert_uint_eq(atomic_load(word), 0);
	OK(cuStreamEndCapture(s, &g));
	ck_assert_int_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuGraphGetNodes(g, NULL, &count));
	ck_assert_uint_eq(count, 4);
	x = exec_of(g);
	OK(cuGraphDestroy(g)); /* the executable one is its own */
	for (int i = 0; i < 10; i++)
		OK(cuGraphLaunch(x, s));
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(atomic_load(word), 77);
	ck_assert_uint_eq(atomic_load(counter), 10);
	OK(cuGraphExecDestroy(x));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(x, s));
}
END_TEST

/* PG, "Cross-stream dependencies and events": a stream joins by a wait for an event that was
 * recorded in the capture, and must have been joined again at the end. */
START_TEST(fork_and_join)
{
	CUstream a, b;
	CUevent fork_event, join_event;
	CUgraph g;
	CUgraphExec x;
	gate *counter;

	begin();
	a = stream_of(CU_STREAM_NON_BLOCKING);
	b = stream_of(CU_STREAM_NON_BLOCKING);
	fork_event = event_of(CU_EVENT_DISABLE_TIMING);
	join_event = event_of(CU_EVENT_DISABLE_TIMING);
	counter = gate_new();
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuLaunchHostFunc(a, add_one, counter));
	OK(cuEventRecord(fork_event, a));
	OK(cuStreamWaitEvent(b, fork_event, 0));
	ck_assert_int_eq(status_of(b), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	OK(cuLaunchHostFunc(b, add_one, counter));
	OK(cuEventRecord(join_event, b));
	OK(cuStreamWaitEvent(a, join_event, 0));
	OK(cuLaunchHostFunc(a, add_one, counter));
	OK(cuStreamEndCapture(a, &g));
	ck_assert_int_eq(status_of(b), CU_STREAM_CAPTURE_STATUS_NONE);
	x = exec_of(g);
	OK(cuGraphLaunch(x, b));
	OK(cuStreamSynchronize(b));
	ck_assert_uint_eq(atomic_load(counter), 3);

	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(fork_event, a));
	OK(cuStreamWaitEvent(b, fork_event, 0));
	OK(cuLaunchHostFunc(b, add_one, counter));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(b, &g));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &g));
	ck_assert(g == NULL);
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(fork_event, a));
	OK(cuStreamWaitEvent(b, fork_event, 0));
	OK(cuLaunchHostFunc(b, add_one, counter));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &g));
}
END_TEST

/* The end of a capture that must have become invalid. */
static void ends_invalid(CUstream s)
{
	CUgraph g = (CUgraph)1;

	ck_assert_int_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD8Async(device_bytes(8), 0, 8, s));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));
	ck_assert(g == NULL);
	ck_assert_int_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_NONE);
}

/* PG, "Prohibited and unhandled operations": synchronising or querying a stream that is captured,
 * or an event that was; the capture is then invalid. */
START_TEST(prohibited_calls)
{
	CUstream s;
	CUevent e, outside;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	e = event_of(CU_EVENT_DISABLE_TIMING);
	outside = event_of(CU_EVENT_DISABLE_TIMING);
	OK(cuEventRecord(outside, CU_STREAM_LEGACY));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(s));
	ends_invalid(s);
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(s));
	ends_invalid(s);
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
	ends_invalid(s);
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(e, s));
	FAILS(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(e));
	ends_invalid(s);
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(s, outside, 0));
	ends_invalid(s);
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	FAILS(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	      cuStreamAddCallback(s, (CUstreamCallback)abort, NULL, 0));
	ends_invalid(s);
}
END_TEST

/* DA, cuStreamBeginCapture: not on the legacy stream; PG: a use of that stream while a blocking
 * stream is captured would be a dependency on the capture. */
START_TEST(legacy_stream)
{
	CUstreamCaptureStatus status;
	CUstream blocking, free_one;
	CUdeviceptr d;
	CUgraph g;

	begin();
	blocking = stream_of(CU_STREAM_DEFAULT);
	free_one = stream_of(CU_STREAM_NON_BLOCKING);
	d = device_bytes(8);
	FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	      cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	/* DA, cuStreamIsCapturing: this one leaves the capture valid. */
	FAILS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(CU_STREAM_LEGACY, &status));
	ck_assert_int_eq(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	FAILS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD8Async(d, 0, 8, CU_STREAM_LEGACY));
	ends_invalid(blocking);
	OK(cuStreamBeginCapture(free_one, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD8Async(d, 0, 8, CU_STREAM_LEGACY));
	OK(cuStreamEndCapture(free_one, &g));
}
END_TEST

static void *allocate_elsewhere(void *arg)
{
	CUresult *result = arg;
	CUcontext ctx;
	CUdeviceptr d;

	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	result[0] = cuMemAlloc(&d, 8);
	return NULL;
}

static CUresult from_another_thread(void)
{
	CUresult result = CUDA_ERROR_UNKNOWN;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, allocate_elsewhere, &result), 0);
	pthread_join(thread, NULL);
	return result;
}

/* DA, cuThreadExchangeStreamCaptureMode: which threads may make unsafe calls (cuMemAlloc is one)
 * while a capture of each mode goes on. */
START_TEST(modes)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr d;
	CUstream s;
	CUgraph g;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&d, 8));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuMemAlloc(&d, 8)); /* a relaxed thread may */
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));

	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, from_another_thread());
	FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));

	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(from_another_thread());
	OK(cuStreamEndCapture(s, &g));

	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&d, 8));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));

	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemAlloc(&d, 8));
	OK(from_another_thread());
	OK(cuStreamEndCapture(s, &g));
}
END_TEST

static void *end_elsewhere(void *arg)
{
	CUcontext ctx;
	CUgraph g;

	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cuStreamEndCapture(arg, &g));
	return NULL;
}

/* DA, cuStreamEndCapture: in the thread that began, unless the mode is relaxed; on a stream that is
 * captured. */
START_TEST(ends_in_its_thread)
{
	pthread_t thread;
	CUstream s;
	CUgraph g;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	FAILS(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(s, &g));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	ck_assert_int_eq(pthread_create(&thread, NULL, end_elsewhere, s), 0);
	pthread_join(thread, NULL);
	FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));
}
END_TEST

/* DA, cuStreamGetCaptureInfo, cuStreamUpdateCaptureDependencies: what comes next depends on what
 * was told, or on what one sets. */
START_TEST(capture_info)
{
	CUstreamCaptureStatus status;
	const CUgraphNode *deps;
	CUgraphNode node;
	CUgraph g, same;
	CUstream s;
	size_t count;
	cuuint64_t id;
	gate *counter;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	counter = gate_new();
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuLaunchHostFunc(s, add_one, counter));
	OK(cuStreamGetCaptureInfo(s, &status, &id, &g, &deps, NULL, &count));
	ck_assert_uint_eq(count, 1);
	OK(cuGraphAddHostNode(&node, g, deps, count,
			      &(CUDA_HOST_NODE_PARAMS){.fn = add_one, .userData = counter}));
	OK(cuStreamUpdateCaptureDependencies(s, &node, NULL, 1,
					     CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	OK(cuLaunchHostFunc(s, add_one, counter));
	OK(cuStreamEndCapture(s, &same));
	ck_assert(same == g);
	OK(cuGraphGetRootNodes(g, NULL, &count));
	ck_assert_uint_eq(count, 1);
	OK(cuGraphGetEdges(g, NULL, NULL, NULL, &count));
	ck_assert_uint_eq(count, 2);
	OK(cuGraphLaunch(exec_of(g), s));
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(atomic_load(counter), 3);
}
END_TEST

/* DA, cuGraphAddDependencies, cuGraphInstantiate: a circle cannot be launched. PG: the branches of
 * a graph have no order but its edges': one that waits does not hold up the other. */
START_TEST(graphs_by_hand)
{
	CUstreamBatchMemOpParams wait = {
		.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64, .value64 = 1}};
	CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {.count = 1, .paramArray = &wait};
	CUDA_HOST_NODE_PARAMS host = {.fn = add_one};
	CUgraphNode a, b, c;
	CUgraphExec x;
	CUgraph g;
	CUstream s;
	gate *closed, *counter;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	closed = gate_new();
	counter = gate_new();
	wait.waitValue.address = gate_address(closed);
	host.userData = counter;
	OK(cuCtxGetCurrent(&batch.ctx));
	OK(cuGraphCreate(&g, 0));
	OK(cuGraphAddBatchMemOpNode(&a, g, NULL, 0, &batch));
	OK(cuGraphAddHostNode(&b, g, &a, 1, &host));
	OK(cuGraphAddHostNode(&c, g, NULL, 0, &host));
	OK(cuGraphAddDependencies(g, &b, &a, NULL, 1));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&x, g, 0));
	OK(cuGraphRemoveDependencies(g, &b, &a, NULL, 1));
	x = exec_of(g);
	OK(cuGraphLaunch(x, s));
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
	gate_open(closed);
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(atomic_load(counter), 2);
	wait.waitValue.value64 = 5;
	OK(cuGraphExecBatchMemOpNodeSetParams(x, a, &batch));
	OK(cuGraphLaunch(x, s));
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
	atomic_store(closed, 5);
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(atomic_load(counter), 4);
}
END_TEST

/* DA, cuGraphExecUpdate: from a graph of the same shape. */
START_TEST(updates)
{
	CUgraphExecUpdateResultInfo info;
	CUgraph one, two, longer;
	CUgraphExec x;
	CUstream s;
	gate *a, *b;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	a = gate_new();
	b = gate_new();
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamWriteValue64(s, gate_address(a), 1, 0));
	OK(cuStreamEndCapture(s, &one));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamWriteValue64(s, gate_address(b), 2, 0));
	OK(cuStreamEndCapture(s, &two));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamWriteValue64(s, gate_address(b), 2, 0));
	OK(cuLaunchHostFunc(s, add_one, b));
	OK(cuStreamEndCapture(s, &longer));
	x = exec_of(one);
	OK(cuGraphExecUpdate(x, two, &info));
	OK(cuGraphLaunch(x, s));
	OK(cuStreamSynchronize(s));
	ck_assert(atomic_load(a) == 0 && atomic_load(b) == 2);
	FAILS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(x, longer, &info));
	ck_assert_int_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
}
END_TEST

/* DA, cuEventRecordWithFlags, cuStreamWaitEvent: an external event is a node of the graph; the flag
 * is invalid elsewhere. */
START_TEST(external_events)
{
	CUstream s, other;
	CUevent e, before;
	CUgraphExec x;
	CUgraph g;
	gate *closed;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	other = stream_of(CU_STREAM_NON_BLOCKING);
	e = event_of(CU_EVENT_DISABLE_TIMING);
	before = event_of(CU_EVENT_DISABLE_TIMING);
	closed = gate_new();
	FAILS(CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_EXTERNAL));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(s, e, CU_EVENT_WAIT_EXTERNAL));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamWaitEvent(s, before, CU_EVENT_WAIT_EXTERNAL));
	OK(cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_EXTERNAL));
	OK(cuStreamEndCapture(s, &g));
	x = exec_of(g);
	gate_close(closed, other);
	OK(cuEventRecord(before, other));
	OK(cuGraphLaunch(x, s));
	FAILS(CUDA_ERROR_NOT_READY, cuEventQuery(e));
	gate_open(closed);
	OK(cuEventSynchronize(e));
}
END_TEST

/* DA, cuMemAllocAsync, cuMemFreeAsync, cuGraphLaunch: in a capture they are nodes; what a launch
 * leaves allocated must be freed before the next, unless that is asked to free it. */
START_TEST(graph_memory)
{
	CUdeviceptr d, kept, other;
	CUgraphExec x, freeing;
	CUstream s;
	CUgraph g;
	uint64_t v = 0;

	begin();
	s = stream_of(CU_STREAM_NON_BLOCKING);
	OK(cuMemAllocAsync(&other, 8, s));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemAllocAsync(&d, 8, s));
	OK(cuMemAllocAsync(&kept, 8, s));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(other, s));
	OK(cuStreamWriteValue64(s, d, 5, 0));
	OK(cuMemcpyDtoDAsync(kept, d, 8, s));
	OK(cuMemFreeAsync(d, s));
	OK(cuStreamEndCapture(s, &g));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(kept, s)); /* no launch has allocated it */
	x = exec_of(g);
	OK(cuGraphLaunch(x, s));
	OK(cuMemcpyDtoHAsync(&v, kept, 8, s));
	ck_assert_uint_eq(v, 5);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(x, s));
	OK(cuMemFreeAsync(kept, s));
	OK(cuGraphLaunch(x, s));
	OK(cuMemFreeAsync(kept, s));
	OK(cuGraphInstantiate(&freeing, g, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	OK(cuGraphLaunch(freeing, s));
	OK(cuGraphLaunch(freeing, s));
	OK(cuStreamSynchronize(s));
	OK(cuMemcpyDtoDAsync(kept, d, 8, s)); /* d was freed in the graph */
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cudasim: graphs (simulated)");
	TCase *c = tcase_create("graphs");

	TEST(c, captures_and_replays);
	TEST(c, fork_and_join);
	TEST(c, prohibited_calls);
	TEST(c, legacy_stream);
	TEST(c, modes);
	TEST(c, ends_in_its_thread);
	TEST(c, capture_info);
	TEST(c, graphs_by_hand);
	TEST(c, updates);
	TEST(c, external_events);
	TEST(c, graph_memory);
	suite_add_tcase(s, c);
	return run_suite(s);
}
