/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_deferred.c: sends on triggers, two processes: the same tests for triggers that the provider
 * fires (sockets, with few and many credits) and for software's (sockets and tcp). The "stream" is
 * the test's own thread, which calls stmpi_trigger_fire as a stream's worker does.
 */
#include "pair.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "net/trigger.h"
#include "util/clock.h"
#include "util/compiler.h"

extern uint64_t ofi_deferred_test_start;

static const struct variant variants[] = {
	{"sockets, deferred", "sockets", "auto", 0, "deferred", "-1"},
	{"sockets, 8 credits", "sockets", "auto", 0, "deferred", "8"},
	{"sockets, 1 credit", "sockets", "auto", 0, "deferred", "1"},
	{"sockets, software", "sockets", "auto", 0, "software", "-1"},
	{"tcp, software", "tcp", "auto", 0, "software", "-1"},
};
#define VARIANTS ((int)stmpi_array_len(variants))
#define DEFERRED 3 /* the first ones */

/* ---- sends that may be armed ---- */

struct send {
	struct stmpi_net_work w;
	int is_whole; /* the packet's data is there when it is armed; else the stream copies it */
};

static _Atomic uint32_t gate;
static int fired, late, ended, lost, canceled;

static void pause_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static int prepare(struct stmpi_net_work *w, struct stmpi_net_packet *packet)
{
	struct send *s = stmpi_container_of(w, struct send, w);

	*packet = (struct stmpi_net_packet){w->hdr, s->is_whole ? w->src : NULL, w->bytes, 0};
	return 0;
}

static void posted(struct stmpi_work *work, int status)
{
	(void)work;
	NEED(status == 0);
	ended++;
}

static struct stmpi_net_work *waiting[200000];
static int waiting_first, waiting_last;

static void push(void)
{
	while (waiting_first < waiting_last) {
		int ret = rail->ops->post(rail, waiting[waiting_first]);

		if (ret == -STMPI_EAGAIN)
			return;
		waiting_first++;
		ended += ret == 0;
		lost += ret < 0;
	}
	atomic_store(&gate, 0);
}

static void told(struct stmpi_work *work, int status)
{
	struct stmpi_net_work *w = stmpi_container_of(work, struct stmpi_net_work, work);

	switch (status) {
	case STMPI_WORK_FIRED:
		fired++;
		break;
	case STMPI_WORK_LATE:
		late++;
		w->work.fn = posted;
		/* As the core does: in order, and the gate is shut while one waits for room. */
		NEED(waiting_last < (int)stmpi_array_len(waiting));
		waiting[waiting_last++] = w;
		atomic_store(&gate, 1);
		push();
		break;
	case 0:
		ended++;
		break;
	case -STMPI_ECANCELED:
		canceled++;
		break;
	default:
		lost++;
	}
}

static struct send *armable(struct send *s, const void *src, size_t bytes, uint64_t number,
			    uint64_t shot)
{
	send_work(&s->w, peer, src, bytes, number);
	s->w.work.fn = told;
	s->w.armed.shot = shot;
	s->w.armed.gate = &gate;
	s->w.armed.prepare = prepare;
	atomic_store(&s->w.armed.may_arm, 1);
	s->is_whole = 0;
	return s;
}

static struct stmpi_trigger *open_trigger(uint64_t first, int stream_calls)
{
	struct stmpi_trigger *t;

	NEED(stmpi_trigger_create(&t) == 0);
	NEED(stmpi_trigger_defer(t, rail, first, stream_calls) == 0);
	return t;
}

static int is_deferred(void)
{
	return rail->defer != NULL;
}

static uint32_t credits(void)
{
	struct stmpi_defer_stats s = {0};

	if (is_deferred())
		rail->defer->stats(rail, &s);
	return s.credits;
}

/* One look, as the engine does it: idle now and then. */
static void look(void)
{
	static int looks;

	push();
	rail->ops->poll(rail);
	if (++looks % 1000 == 0)
		rail->ops->idle(rail);
}

static void receive(uint64_t count)
{
	while (side == 1 && came[0] < count)
		look();
	NEED(wrong == 0 && lost == 0);
}

/* ---- the tests ---- */

/* Threshold reached after arming and before it; nothing moves before its time. */
static void before_and_after(void)
{
	struct stmpi_trigger *t = open_trigger(1, 1);
	static struct send s[40];
	static unsigned char data[40][600];
	const int N = 20;

	meet();
	if (side == 0) {
		for (int i = 0; i < 2 * N; i++) {
			fill(data[i], sizeof(data[i]), (uint64_t)i);
			armable(&s[i], data[i], sizeof(data[i]), (uint64_t)i, (uint64_t)i + 1);
		}
		for (int i = 0; i < N; i++)
			NEED(stmpi_trigger_queue(t, (uint64_t)i + 1, &s[i].w.work) == 0);
		NEED(stmpi_trigger_arm(t) ==
		     (int)(credits() < (uint32_t)N ? credits() : (uint32_t)N));
		NEED(stmpi_trigger_set(t, 0) == 0);
	}
	/* Control: the stream has not come by. */
	for (int k = 0; k < 50; k++, pause_ms(1))
		rail->ops->poll(rail);
	NEED(came[0] == 0 && fired + late == 0);
	meet();
	for (int i = 0; i < N && side == 0; i++) {
		(void)stmpi_trigger_fire(t, &s[i].w);
		if (is_deferred() &&
		    credits() >= (uint32_t)N) /* copied by the stream: ours again */
			memset(data[i], 0xee, sizeof(data[i]));
		(void)stmpi_trigger_set(t, (uint64_t)i + 1);
		look();
	}
	/* Reached before they are armed: too late, and in order all the same. */
	for (int i = N; i < 2 * N && side == 0; i++) {
		(void)stmpi_trigger_queue(t, (uint64_t)i + 1, &s[i].w.work);
		NEED(stmpi_trigger_fire(t, &s[i].w) == 0);
	}
	while (side == 0 && ended < 2 * N) {
		(void)stmpi_trigger_set(t, 2 * (uint64_t)N);
		look();
	}
	NEED(side == 1 || (fired + late == 2 * N && late >= N && (!is_deferred() || fired > 0)));
	receive(2 * (uint64_t)N);
	meet();
	stmpi_trigger_destroy(t);
}

struct stream {
	struct stmpi_trigger *t;
	struct send *s;
	uint64_t count;
	_Atomic uint64_t queued, passed;
};

/* A stream that runs after the program, as fast as it can. */
static void *stream_main(void *arg)
{
	struct stream *st = arg;

	for (uint64_t i = 0; i < st->count; i++) {
		while (atomic_load(&st->queued) <= i)
			sched_yield();
		(void)stmpi_trigger_fire(st->t, &st->s[i].w);
		atomic_store(&st->passed, i + 1);
	}
	return NULL;
}

static void run_stream(uint64_t first, uint64_t count)
{
	struct stream st = {.t = open_trigger(first, 1), .count = count};
	uint64_t limit = stmpi_clock_ns() + 100000000000u;
	unsigned char byte = 0;
	pthread_t thread;

	meet();
	if (side == 0) {
		st.s = calloc(count, sizeof(*st.s));
		NEED(st.s != NULL && pthread_create(&thread, NULL, stream_main, &st) == 0);
		for (uint64_t i = 0; i < count || (uint64_t)ended < count;) {
			/* Ahead of the stream by a changing distance. */
			for (uint64_t k = 0; i < count && k < 1 + i * 7 % 50; k++, i++) {
				armable(&st.s[i], &byte, 0, i, first + i);
				NEED(stmpi_trigger_queue(st.t, i + 1, &st.s[i].w.work) == 0);
				atomic_store(&st.queued, i + 1);
			}
			(void)stmpi_trigger_set(st.t, atomic_load(&st.passed));
			look();
			NEED(stmpi_clock_ns() < limit);
		}
		pthread_join(thread, NULL);
	}
	receive(count);
	meet();
	stmpi_trigger_destroy(st.t);
	free(st.s);
}

static void hundred_thousand(void)
{
	run_stream(1, 100000);
}

/* Shots, and the counters of completions, across 31 and 32 bits. */
static void past_31_bits(void)
{
	run_stream(INT32_MAX - 1000u, 3000);
}

static void past_32_bits(void)
{
	run_stream(UINT32_MAX - UINT64_C(1000), 3000);
}

static void past_64_bits(void)
{
	run_stream(UINT64_MAX - 1000, 900);
}

static uint64_t next_of[3];

static void by_source(int from, const struct stmpi_net_hdr *hdr, const void *payload, size_t bytes)
{
	(void)from;
	(void)payload;
	(void)bytes;
	wrong += hdr->w[0] % 1000000 != next_of[hdr->w[0] / 1000000]++;
	came[0]++;
}

/* Two triggers and plain posts: each of the three in its own order. */
static void two_and_posts(void)
{
	const int N = 3000;
	struct stmpi_trigger *t = open_trigger(1, 1), *u = open_trigger(1, 1);
	struct send *a = calloc((size_t)N, sizeof(*a)), *b = calloc((size_t)N, sizeof(*b));
	struct stmpi_net_work plain;

	on_packet = by_source;
	NEED(a != NULL && b != NULL);
	meet();
	for (int i = 0; i < N && side == 0; i++) {
		armable(&a[i], NULL, 0, (uint64_t)i, (uint64_t)i + 1);
		armable(&b[i], NULL, 0, 1000000 + (uint64_t)i, (uint64_t)i + 1);
		NEED(stmpi_trigger_queue(t, (uint64_t)i + 1, &a[i].w.work) == 0);
		NEED(stmpi_trigger_queue(u, (uint64_t)i + 1, &b[i].w.work) == 0);
	}
	for (int i = 0; i < N && side == 0; i++) {
		(void)stmpi_trigger_arm(i % 2 ? t : u);
		(void)stmpi_trigger_fire(t, &a[i].w);
		(void)stmpi_trigger_fire(u, &b[i].w);
		post(send_work(&plain, peer, NULL, 0, 2000000 + (uint64_t)i));
		(void)stmpi_trigger_set(u, (uint64_t)i + 1);
		(void)stmpi_trigger_set(t, (uint64_t)i + 1);
		push();
	}
	while (side == 0 && ended < 2 * N) {
		(void)stmpi_trigger_set(t, (uint64_t)N);
		(void)stmpi_trigger_set(u, (uint64_t)N);
		look();
	}
	receive(3 * (uint64_t)N);
	meet();
	stmpi_trigger_destroy(t);
	stmpi_trigger_destroy(u);
	free(a);
	free(b);
}

/* What was armed and is never reached is given back, and never arrives. */
static void closed_with_pending(void)
{
	struct stmpi_trigger *t = open_trigger(1, 1);
	static struct send s[100];
	struct stmpi_net_work plain;
	uint64_t begun;

	meet();
	if (side == 0) {
		for (int i = 0; i < 100; i++) {
			armable(&s[i], "x", 1, 7, (uint64_t)i + 1);
			NEED(stmpi_trigger_queue(t, (uint64_t)i + 1, &s[i].w.work) == 0);
		}
		NEED((stmpi_trigger_arm(t) > 0) == is_deferred());
	}
	begun = stmpi_clock_ns();
	stmpi_trigger_destroy(t);
	NEED(stmpi_clock_ns() - begun < 1500000000u); /* not by its limit */
	NEED(side == 1 || canceled == 100);
	if (is_deferred()) {
		struct stmpi_defer_stats st;

		rail->defer->stats(rail, &st);
		NEED(st.armed == 0 && st.lost == 0);
	}
	if (side == 0)
		post(send_work(&plain, peer, NULL, 0, 0));
	receive(1);
	for (int k = 0; k < 50; k++, pause_ms(1))
		rail->ops->poll(rail);
	NEED(came[0] <= 1 && wrong == 0);
}

struct alone {
	struct stmpi_trigger *t;
	struct send *s;
	int is_fired;
};

static void *fire_alone(void *arg)
{
	struct alone *a = arg;

	a->is_fired = stmpi_trigger_fire(a->t, &a->s->w);
	return NULL;
}

/*
 * Nobody of ours: after it has been armed, this process makes no call but the stream's one bump,
 * and the message arrives. Control: without the bump it does not, nor by a software trigger's.
 */
static void nobody_of_ours(void)
{
	struct stmpi_trigger *t = open_trigger(1, 1);
	static struct send s;
	struct alone a = {t, &s, -1};
	struct stmpi_net_work plain;
	uint64_t limit;
	pthread_t thread;
	char go = 0;

	meet();
	if (side == 0) {
		armable(&s, "data", 4, 0, 1);
		NEED(stmpi_trigger_queue(t, 1, &s.w.work) == 0);
		NEED(stmpi_trigger_arm(t) == is_deferred());
		/* One message goes, so that the connection stands. */
		post(send_work(&plain, peer, NULL, 0, 0));
	}
	receive(1);
	meet();
	if (side == 0) {
		NEED(recv(wire, &go, 1, MSG_WAITALL) == 1); /* the control's time is over */
		NEED(pthread_create(&thread, NULL, fire_alone, &a) == 0);
		pthread_join(thread, NULL);
		NEED(a.is_fired == is_deferred());
		NEED(recv(wire, &go, 1, MSG_WAITALL) == 1); /* nothing is polled until here */
		while (ended < 1) {
			(void)stmpi_trigger_set(t, 1);
			look();
		}
	} else {
		on_packet = by_source;
		came[0] = 0;
		for (int k = 0; k < 200; k++, pause_ms(1))
			rail->ops->poll(rail);
		NEED(came[0] == 0);
		NEED(write(wire, &go, 1) == 1);
		limit = stmpi_clock_ns() + (is_deferred() ? 10000000000u : 300000000u);
		while (came[0] == 0 && stmpi_clock_ns() < limit)
			rail->ops->poll(rail);
		NEED(came[0] == (uint64_t)is_deferred());
		NEED(write(wire, &go, 1) == 1);
		while (came[0] == 0)
			rail->ops->poll(rail);
		NEED(wrong == 0);
	}
	meet();
	stmpi_trigger_destroy(t);
}

/* An earlier message waits for room: the stream leaves its shots to set, which keeps the order. */
static void shut_gate(void)
{
	const uint64_t N = 1500; /* more than the counters of a line hold at first */
	struct stmpi_trigger *t = open_trigger(1, 1);
	struct send *s = calloc(N, sizeof(*s));
	struct stmpi_net_work plain;

	NEED(s != NULL);
	meet();
	if (side == 0) {
		for (uint64_t i = 0; i < N; i++) {
			armable(&s[i], NULL, 0, 1 + i, i + 1);
			NEED(stmpi_trigger_queue(t, i + 1, &s[i].w.work) == 0);
		}
		(void)stmpi_trigger_arm(t);
		atomic_store(&gate, 1);
		for (uint64_t i = 0; i < N; i++)
			NEED(stmpi_trigger_fire(t, &s[i].w) == 0 || i < credits());
		pause_ms(50);
		post(send_work(&plain, peer, NULL, 0, 0)); /* the earlier one */
		atomic_store(&gate, 0);
		while ((uint64_t)ended < N) {
			(void)stmpi_trigger_set(t, N);
			look();
		}
	}
	receive(N + 1);
	meet();
	stmpi_trigger_destroy(t);
	free(s);
}

/* A stream without a thread of ours: set rings in its place, and the packets are whole. */
static void word_doorbell(void)
{
	struct stmpi_trigger *t = open_trigger(1, 0);
	static struct send s[500];

	meet();
	if (side == 0) {
		for (int i = 0; i < 500; i++) {
			armable(&s[i], NULL, 0, (uint64_t)i, (uint64_t)i + 1);
			s[i].is_whole = 1;
			NEED(stmpi_trigger_queue(t, (uint64_t)i / 10, &s[i].w.work) == 0);
		}
		for (uint64_t v = 0; ended < 500;) {
			(void)stmpi_trigger_set(t, v);
			look();
			if (!stmpi_trigger_is_blocked(t) && v < 49)
				v++;
		}
		NEED(fired + late == 500 && (!is_deferred() || fired > 0));
	}
	receive(500);
	meet();
	stmpi_trigger_destroy(t);
}

OVER(before_and_after)
OVER(hundred_thousand)
OVER(two_and_posts)
OVER(closed_with_pending)
OVER(nobody_of_ours)
OVER(shut_gate)
OVER(word_doorbell)

/* Each in a process of its own, whose counters of completions begin near their end. */
#define WRAPS(name, start)                                                                         \
	START_TEST(test_##name)                                                                    \
	{                                                                                          \
		ofi_deferred_test_start = start;                                                   \
		two(&variants[_i], name);                                                          \
	}                                                                                          \
	END_TEST

WRAPS(past_31_bits, INT32_MAX - 100)
WRAPS(past_32_bits, UINT32_MAX - 100)
WRAPS(past_64_bits, 0)

/* The peer is killed: armed and fired works end with an error, and closing takes its limit at most.
 */
START_TEST(test_dead_peer)
{
	static struct send s[50];
	int ends[2], status;
	pid_t witness, victim;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	victim = fork();
	if (victim == 0) {
		side = 1;
		wire = ends[1];
		begin(&variants[_i]);
		receive(1);
		meet();
		raise(SIGKILL);
	}
	witness = fork();
	if (witness == 0) {
		uint64_t limit = stmpi_clock_ns() + 5000000000u, begun;
		struct stmpi_trigger *t;
		struct stmpi_net_work plain;

		side = 0;
		wire = ends[0];
		begin(&variants[_i]);
		t = open_trigger(1, 1);
		post(send_work(&plain, peer, NULL, 0, 0));
		for (uint64_t i = 0; i < 50; i++) {
			armable(&s[i], "x", 1, i + 1, i + 1);
			NEED(stmpi_trigger_queue(t, i + 1, &s[i].w.work) == 0);
		}
		NEED(stmpi_trigger_arm(t) > 0);
		meet();
		pause_ms(200);
		for (uint64_t i = 0; i < 25; i++)
			(void)stmpi_trigger_fire(t, &s[i].w);
		while (lost == 0 && stmpi_clock_ns() < limit) {
			(void)stmpi_trigger_set(t, 25);
			/* A rail may learn of a death when it sends. */
			(void)rail->ops->post(rail, send_work(&plain, peer, NULL, 0, 99));
			look();
			rail->ops->idle(rail);
			pause_ms(1);
		}
		rail->ops->lose(rail, peer); /* the core learns it by itself */
		/* Each ends: some left before the death was known, the others with an error. */
		for (uint64_t i = 25; i < 50; i++)
			(void)stmpi_trigger_fire(t, &s[i].w);
		(void)stmpi_trigger_set(t, 50);
		look();
		NEED(ended + lost == 50);
		begun = stmpi_clock_ns();
		stmpi_trigger_destroy(t);
		NEED(stmpi_clock_ns() - begun < 4000000000u);
		rail->ops->close(rail);
		_exit(9);
	}
	ck_assert_int_eq(waitpid(victim, &status, 0), victim);
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(waitpid(witness, &status, 0), witness);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 9);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("deferred");
	TCase *c = tcase_create("deferred"), *life = tcase_create("life");

	tcase_set_timeout(c, 200);
	tcase_set_timeout(life, 200);
#if !defined(__SANITIZE_THREAD__) /* which takes libfabric's locks for races */
	tcase_add_loop_test(c, test_before_and_after, 0, VARIANTS);
	tcase_add_loop_test(c, test_hundred_thousand, 0, VARIANTS);
	tcase_add_loop_test(c, test_two_and_posts, 0, VARIANTS);
	tcase_add_loop_test(life, test_closed_with_pending, 0, VARIANTS);
	tcase_add_loop_test(c, test_nobody_of_ours, 0, VARIANTS);
	tcase_add_loop_test(c, test_shut_gate, 0, VARIANTS);
	tcase_add_loop_test(c, test_word_doorbell, 0, VARIANTS);
	tcase_add_loop_test(c, test_past_31_bits, 0, DEFERRED);
	tcase_add_loop_test(c, test_past_32_bits, 0, DEFERRED);
	tcase_add_loop_test(c, test_past_64_bits, 0, DEFERRED);
	tcase_add_loop_test(life, test_dead_peer, 0, DEFERRED);
#endif
	suite_add_tcase(s, c);
	suite_add_tcase(s, life); /* short enough for valgrind: CK_RUN_CASE=life */
	return run_suite(s);
}
