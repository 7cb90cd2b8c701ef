/* SPDX-License-Identifier: BSD-3-Clause */
/* test_stress: threads that do at random what a program may, on the simulated CUDA device, and
 * check each result. The seed is printed; CUDASIM_STRESS_SEED sets it. */
#include "kit.h"

enum {
	THREADS = 3,
	TURNS = 300,
	STREAMS = 3
};

struct worker {
	pthread_t thread;
	CUcontext ctx;
	unsigned random;
	CUstream streams[STREAMS];
	CUevent event;
	CUdeviceptr word;
	uint64_t expected, *pinned;
	_Atomic unsigned calls, expected_calls;
	unsigned current; /* the stream whose turn it is: the others wait for its event */
};

static unsigned draw(struct worker *w, unsigned below)
{
	return (unsigned)rand_r(&w->random) / 7 % below;
}

static void count(void *arg)
{
	atomic_fetch_add(&((struct worker *)arg)->calls, 1);
}

/* What follows in another stream comes after all that was done. */
static void change_stream(struct worker *w)
{
	unsigned next = draw(w, STREAMS);

	OK(cuEventRecord(w->event, w->streams[w->current]));
	OK(cuStreamWaitEvent(w->streams[next], w->event, 0));
	w->current = next;
}

static void check(struct worker *w)
{
	CUstream s = w->streams[w->current];
	uint64_t v = 0;

	if (draw(w, 2)) {
		OK(cuMemcpyDtoHAsync(&v, w->word, sizeof(v), s));
	} else {
		OK(cuMemcpyDtoHAsync(w->pinned, w->word, sizeof(v), s));
		OK(cuStreamSynchronize(s));
		v = *w->pinned;
	}
	ck_assert_uint_eq(v, w->expected);
	OK(cuStreamSynchronize(s));
	ck_assert_uint_eq(atomic_load(&w->calls), w->expected_calls);
}

/* Through memory that lives for two copies. */
static void by_pool(struct worker *w)
{
	CUstream s = w->streams[w->current];
	CUdeviceptr d;

	OK(cuMemAllocAsync(&d, 8 + draw(w, 3) * 1000, s));
	OK(cuStreamWriteValue64(s, d, ++w->expected, 0));
	OK(cuMemcpyDtoDAsync(w->word, d, 8, s));
	OK(cuMemFreeAsync(d, s));
}

static void by_graph(struct worker *w)
{
	CUstream s = w->streams[w->current];
	CUgraph g;
	CUgraphExec x;

	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamWriteValue64(s, w->word, ++w->expected, 0));
	OK(cuLaunchHostFunc(s, count, w));
	OK(cuStreamEndCapture(s, &g));
	OK(cuGraphInstantiate(&x, g, 0));
	OK(cuGraphLaunch(x, s));
	OK(cuGraphLaunch(x, s));
	w->expected_calls += 2;
	OK(cuGraphExecDestroy(x));
	OK(cuGraphDestroy(g));
}

static void renew(struct worker *w)
{
	unsigned i = draw(w, STREAMS);

	if (i == w->current)
		return;
	OK(cuStreamDestroy(w->streams[i]));
	w->streams[i] = stream_of(CU_STREAM_NON_BLOCKING);
}

static void turn(struct worker *w)
{
	CUstream s = w->streams[w->current];

	switch (draw(w, 9)) {
	case 0:
		OK(cuStreamWriteValue64(s, w->word, ++w->expected, 0));
		break;
	case 1:
		w->expected = 0x0101010101010101u * draw(w, 256);
		OK(cuMemsetD8Async(w->word, (unsigned char)w->expected, 8, s));
		break;
	case 2:
		++w->expected;
		OK(cuMemcpyHtoDAsync(w->word, &w->expected, 8, s));
		break;
	case 3:
		OK(cuLaunchHostFunc(s, count, w));
		w->expected_calls++;
		break;
	case 4:
		by_pool(w);
		break;
	case 5:
		by_graph(w);
		break;
	case 6:
		renew(w);
		break;
	case 7:
		OK(cuStreamWaitValue64(s, w->word, w->expected, CU_STREAM_WAIT_VALUE_EQ));
		break;
	default:
		check(w);
	}
	change_stream(w);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	OK(cuCtxSetCurrent(w->ctx));
	for (unsigned i = 0; i < STREAMS; i++)
		w->streams[i] = stream_of(CU_STREAM_NON_BLOCKING);
	w->event = event_of(CU_EVENT_DISABLE_TIMING);
	w->word = device_bytes(8);
	OK(cuMemHostAlloc((void **)&w->pinned, 8, 0));
	OK(cuMemsetD8Async(w->word, 0, 8, w->streams[0]));
	for (int i = 0; i < TURNS; i++)
		turn(w);
	check(w);
	OK(cuMemFree(w->word));
	return NULL;
}

static void run(const char *queues, const char *delay_us)
{
	static struct worker workers[THREADS];
	const char *text = getenv("CUDASIM_STRESS_SEED");
	unsigned seed = text ? (unsigned)strtoul(text, NULL, 10) : (unsigned)getpid();
	CUcontext ctx;

	printf("simulated: seed %u, %s queues\n", seed, queues);
	fflush(stdout);
	setenv("CUDASIM_QUEUES", queues, 1);
	setenv("CUDASIM_DELAY_US", delay_us, 1);
	setenv("CUDASIM_LIMIT", "20", 1);
	ctx = begin();
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.ctx = ctx, .random = seed + i};
		ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
}

START_TEST(many_queues)
{
	run("8", "0");
}
END_TEST

START_TEST(one_queue)
{
	run("1", "0");
}
END_TEST

START_TEST(delayed)
{
	run("4", "30");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cudasim: stress (simulated)");
	TCase *c = tcase_create("stress");

	tcase_set_timeout(c, 60);
	TEST(c, many_queues);
	TEST(c, one_queue);
	TEST(c, delayed);
	suite_add_tcase(s, c);
	return run_suite(s);
}
