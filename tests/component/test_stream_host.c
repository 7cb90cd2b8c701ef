/* SPDX-License-Identifier: BSD-3-Clause */
/* test_stream_host.c: the host backend: the conformance of all backends, and its public calls. */
#include "../suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "stmpi_host.h"
#include "stream/host/host.h"
#include "stream_conformance.h"
#include "util/compiler.h"
#include "util/error.h"

static void sleep_ms(int ms)
{
	nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

/* ---- for the conformance ---- */

static int create(void *handle)
{
	return stmpi_host_stream_create(handle);
}

static stmpi_host_stream_t of(const void *handle)
{
	stmpi_host_stream_t s;

	memcpy(&s, handle, sizeof(s));
	return s;
}

static int destroy(const void *handle)
{
	return stmpi_host_stream_destroy(of(handle));
}

static int launch(const void *handle, void (*fn)(void *arg), void *arg)
{
	return stmpi_host_stream_launch(of(handle), fn, arg);
}

static int wait_word(const void *handle, uint64_t *word, uint64_t value)
{
	return stmpi_host_stream_wait_value64(of(handle), word, value);
}

static int synchronize(const void *handle)
{
	return stmpi_host_stream_synchronize(of(handle));
}

static const struct stream_under_test sut = {
	&stmpi_stream_host_ops, create, destroy, launch, wait_word, synchronize, 0};

/* ---- public calls ---- */

static void add_one(void *arg)
{
	__atomic_fetch_add((uint64_t *)arg, 1, __ATOMIC_RELAXED);
}

START_TEST(bad_arguments)
{
	uint64_t word = 0, *odd = (uint64_t *)(void *)((char *)&word + 1);
	stmpi_host_stream_t s, dead, made_up = (stmpi_host_stream_t)(uintptr_t)0x1234560;
	stmpi_host_event_t e, no_event = NULL;
	int64_t ns = 77;

	ck_assert_int_eq(stmpi_host_stream_create(NULL), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_stream_create(&s), 0);
	ck_assert_int_eq(stmpi_host_stream_create(&dead), 0);
	ck_assert_int_eq(stmpi_host_stream_destroy(dead), 0);
	ck_assert_int_eq(stmpi_host_stream_destroy(dead), -STMPI_EINVAL);
	for (int i = 0; i < 3; i++) {
		stmpi_host_stream_t bad = i == 0 ? NULL : i == 1 ? dead : made_up;

		ck_assert_int_eq(stmpi_host_stream_destroy(bad), -STMPI_EINVAL);
		ck_assert_int_eq(stmpi_host_stream_launch(bad, add_one, &word), -STMPI_EINVAL);
		ck_assert_int_eq(stmpi_host_stream_write_value64(bad, &word, 1), -STMPI_EINVAL);
		ck_assert_int_eq(stmpi_host_stream_wait_value64(bad, &word, 0), -STMPI_EINVAL);
		ck_assert_int_eq(stmpi_host_stream_memcpy_async(bad, &word, &ns, 8), -STMPI_EINVAL);
		ck_assert_int_eq(stmpi_host_stream_query(bad), -STMPI_EINVAL);
		ck_assert_int_eq(stmpi_host_stream_synchronize(bad), -STMPI_EINVAL);
	}
	ck_assert_int_eq(stmpi_host_stream_launch(s, NULL, NULL), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_stream_write_value64(s, NULL, 1), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_stream_write_value64(s, odd, 1), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_stream_wait_value64(s, NULL, 1), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_stream_wait_value64(s, odd, 1), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_stream_memcpy_async(s, NULL, &word, 8), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_stream_memcpy_async(s, &word, NULL, 8), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_stream_memcpy_async(s, NULL, NULL, 0), 0);
	ck_assert_int_eq(stmpi_host_event_create(NULL), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_event_create(&e), 0);
	ck_assert_int_eq(stmpi_host_event_record(no_event, s), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_event_record(e, dead), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_event_query(no_event), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_event_synchronize(no_event), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_stream_wait_event(s, no_event), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_stream_wait_event(dead, e), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_event_elapsed_ns(e, e, &ns), -STMPI_ENOTREADY);
	ck_assert_int_eq(stmpi_host_event_elapsed_ns(e, no_event, &ns), -STMPI_ENOTREADY);
	ck_assert_int_eq(stmpi_host_event_elapsed_ns(e, e, NULL), -STMPI_EINVAL);
	ck_assert_int_eq(ns, 77);
	ck_assert_int_eq(stmpi_host_event_destroy(e), 0);
	ck_assert_int_eq(stmpi_host_event_destroy(e), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_host_stream_synchronize(s), 0);
	ck_assert_uint_eq(word, 0);
	ck_assert_int_eq(stmpi_host_stream_destroy(s), 0);
}
END_TEST

struct from_inside {
	stmpi_host_stream_t stream;
	uint64_t count;
	int sync, query, launched;
	uint64_t done;
};

static void inside(void *arg)
{
	struct from_inside *f = arg;

	f->sync = stmpi_host_stream_synchronize(f->stream);
	f->query = stmpi_host_stream_query(f->stream);
	f->launched = stmpi_host_stream_launch(f->stream, add_one, &f->count);
}

START_TEST(calls_from_a_launched_function)
{
	struct from_inside f = {0};

	ck_assert_int_eq(stmpi_host_stream_create(&f.stream), 0);
	ck_assert_int_eq(stmpi_host_stream_launch(f.stream, inside, &f), 0);
	ck_assert_int_eq(stmpi_host_stream_synchronize(f.stream), 0);
	ck_assert_int_eq(stmpi_host_stream_synchronize(f.stream), 0);
	ck_assert_int_eq(f.sync, -STMPI_EINVAL); /* it would wait for itself */
	ck_assert_int_eq(f.query, 1);
	ck_assert_int_eq(f.launched, 0);
	ck_assert_uint_eq(f.count, 1);
	ck_assert_int_eq(stmpi_host_stream_destroy(f.stream), 0);
}
END_TEST

static void destroy_self(void *arg)
{
	struct from_inside *f = arg;

	f->launched = stmpi_host_stream_launch(f->stream, add_one, &f->count);
	f->sync = stmpi_host_stream_destroy(f->stream);
	f->query = stmpi_host_stream_query(f->stream);
	stmpi_word_store(&f->done, 1);
}

START_TEST(destroy_from_a_launched_function)
{
	static struct from_inside f;

	ck_assert_int_eq(stmpi_host_stream_create(&f.stream), 0);
	ck_assert_int_eq(stmpi_host_stream_launch(f.stream, destroy_self, &f), 0);
	for (int ms = 0; ms < 5000 && stmpi_word_load(&f.count) == 0; ms++)
		sleep_ms(1);
	ck_assert_uint_eq(stmpi_word_load(&f.count), 1); /* queued before it, still runs */
	ck_assert_uint_eq(stmpi_word_load(&f.done), 1);
	ck_assert_int_eq(f.launched, 0);
	ck_assert_int_eq(f.sync, 0);
	ck_assert_int_eq(f.query, -STMPI_EINVAL);
}
END_TEST

/* Threads use a stream and an event while another destroys them: success or -STMPI_EINVAL. */
struct racer {
	stmpi_host_stream_t stream;
	stmpi_host_event_t event;
	uint64_t word;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	int ret = 0, calls = 0;

	while (ret != -STMPI_EINVAL && calls++ < 100000) {
		ret = stmpi_host_stream_write_value64(r->stream, &r->word, 1);
		ck_assert(ret == 0 || ret == -STMPI_EINVAL);
		if (ret == 0)
			ret = stmpi_host_event_record(r->event, r->stream);
		ck_assert(ret == 0 || ret == -STMPI_EINVAL);
	}
	return NULL;
}

START_TEST(destroy_while_others_queue)
{
	/* Static: a destroyed stream may still write the word. */
	static struct racer r[50];
	pthread_t t[2];

	for (int round = 0; round < 50; round++) {
		ck_assert_int_eq(stmpi_host_stream_create(&r[round].stream), 0);
		ck_assert_int_eq(stmpi_host_event_create(&r[round].event), 0);
		for (int i = 0; i < 2; i++)
			ck_assert_int_eq(pthread_create(&t[i], NULL, race, &r[round]), 0);
		while (stmpi_word_load(&r[round].word) == 0)
			sleep_ms(1);
		if (round % 2 == 0)
			ck_assert_int_eq(stmpi_host_event_destroy(r[round].event), 0);
		ck_assert_int_eq(stmpi_host_stream_destroy(r[round].stream), 0);
		for (int i = 0; i < 2; i++)
			pthread_join(t[i], NULL);
		if (round % 2 == 1)
			ck_assert_int_eq(stmpi_host_event_destroy(r[round].event), 0);
	}
}
END_TEST

START_TEST(a_destroyed_event_still_holds_its_waiters)
{
	uint64_t gate = 0, late = 0;
	stmpi_host_stream_t a, b;
	stmpi_host_event_t e;

	ck_assert_int_eq(stmpi_host_stream_create(&a), 0);
	ck_assert_int_eq(stmpi_host_stream_create(&b), 0);
	ck_assert_int_eq(stmpi_host_event_create(&e), 0);
	ck_assert_int_eq(stmpi_host_stream_wait_value64(a, &gate, 1), 0);
	ck_assert_int_eq(stmpi_host_event_record(e, a), 0);
	ck_assert_int_eq(stmpi_host_stream_wait_event(b, e), 0);
	ck_assert_int_eq(stmpi_host_stream_wait_event(a, e), 0); /* its own: no deadlock */
	ck_assert_int_eq(stmpi_host_event_destroy(e), 0);
	ck_assert_int_eq(stmpi_host_stream_launch(b, add_one, &late), 0);
	sleep_ms(20);
	ck_assert_uint_eq(__atomic_load_n(&late, __ATOMIC_ACQUIRE), 0);
	stmpi_word_store(&gate, 1);
	ck_assert_int_eq(stmpi_host_stream_synchronize(b), 0);
	ck_assert_int_eq(stmpi_host_stream_synchronize(a), 0);
	ck_assert_uint_eq(late, 1);
	ck_assert_int_eq(stmpi_host_stream_destroy(a), 0);
	ck_assert_int_eq(stmpi_host_stream_destroy(b), 0);
}
END_TEST

START_TEST(a_bad_handle_is_named)
{
	stmpi_host_stream_t made_up = (stmpi_host_stream_t)(uintptr_t)0x1234560;
	struct stmpi_stream_port *port = NULL;
	stmpi_host_event_t e;
	uint64_t word;

	ck_assert_int_eq(stmpi_stream_host_ops.attach(&made_up, NULL, NULL, &port), -STMPI_EINVAL);
	ck_assert_ptr_nonnull(strstr(stmpi_error_text(), "0x1234560"));
	ck_assert_int_eq(stmpi_host_stream_write_value64(made_up, &word, 1), -STMPI_EINVAL);
	ck_assert_ptr_nonnull(strstr(stmpi_error_text(), "stmpi_host_stream_write_value64"));
	/* A live handle of the other kind is no stream. */
	ck_assert_int_eq(stmpi_host_event_create(&e), 0);
	ck_assert_int_eq(stmpi_stream_host_ops.attach(&e, NULL, NULL, &port), -STMPI_EINVAL);
	ck_assert_ptr_null(port);
	ck_assert_int_eq(stmpi_host_event_destroy(e), 0);
}
END_TEST

START_TEST(events)
{
	uint64_t gate = 0, late = 0;
	stmpi_host_stream_t a, b;
	stmpi_host_event_t first, second;
	int64_t ns = 0;

	ck_assert_int_eq(stmpi_host_stream_create(&a), 0);
	ck_assert_int_eq(stmpi_host_stream_create(&b), 0);
	ck_assert_int_eq(stmpi_host_event_create(&first), 0);
	ck_assert_int_eq(stmpi_host_event_create(&second), 0);
	ck_assert_int_eq(stmpi_host_event_query(first), 0); /* never recorded */
	ck_assert_int_eq(stmpi_host_event_synchronize(first), 0);
	ck_assert_int_eq(stmpi_host_stream_wait_event(b, first), 0); /* no wait */
	ck_assert_int_eq(stmpi_host_stream_synchronize(b), 0);

	ck_assert_int_eq(stmpi_host_stream_wait_value64(a, &gate, 1), 0);
	ck_assert_int_eq(stmpi_host_event_record(first, a), 0);
	ck_assert_int_eq(stmpi_host_stream_wait_event(b, first), 0);
	ck_assert_int_eq(stmpi_host_stream_launch(b, add_one, &late), 0);
	ck_assert_int_eq(stmpi_host_event_query(first), 1);
	ck_assert_int_eq(stmpi_host_event_elapsed_ns(first, first, &ns), -STMPI_ENOTREADY);
	sleep_ms(20);
	ck_assert_uint_eq(__atomic_load_n(&late, __ATOMIC_ACQUIRE), 0);
	/* Recorded anew elsewhere: the wait already queued still means the first record. */
	stmpi_host_stream_t c;
	ck_assert_int_eq(stmpi_host_stream_create(&c), 0);
	ck_assert_int_eq(stmpi_host_event_record(first, c), 0);
	ck_assert_int_eq(stmpi_host_event_synchronize(first), 0);
	sleep_ms(20);
	ck_assert_uint_eq(__atomic_load_n(&late, __ATOMIC_ACQUIRE), 0);
	stmpi_word_store(&gate, 1);
	ck_assert_int_eq(stmpi_host_stream_synchronize(b), 0);
	ck_assert_uint_eq(late, 1);

	ck_assert_int_eq(stmpi_host_event_record(second, a), 0);
	ck_assert_int_eq(stmpi_host_event_destroy(second), 0); /* a queued record still works */
	ck_assert_int_eq(stmpi_host_event_create(&second), 0);
	sleep_ms(5);
	ck_assert_int_eq(stmpi_host_event_record(second, a), 0);
	ck_assert_int_eq(stmpi_host_event_synchronize(second), 0);
	ck_assert_int_eq(stmpi_host_event_elapsed_ns(first, second, &ns), 0);
	ck_assert_int_gt(ns, 4000000);
	ck_assert_int_eq(stmpi_host_event_elapsed_ns(second, first, &ns), 0);
	ck_assert_int_lt(ns, 0);
	ck_assert_int_eq(stmpi_host_event_destroy(first), 0);
	ck_assert_int_eq(stmpi_host_event_destroy(second), 0);
	ck_assert_int_eq(stmpi_host_stream_destroy(a), 0);
	ck_assert_int_eq(stmpi_host_stream_destroy(b), 0);
	ck_assert_int_eq(stmpi_host_stream_destroy(c), 0);
}
END_TEST

/* Forty streams in a ring of events: each waits for the one before it. */
START_TEST(forty_streams)
{
	enum {
		N = 40
	};
	stmpi_host_stream_t s[N];
	stmpi_host_event_t e[N];
	uint64_t gate = 0, count = 0;

	for (int i = 0; i < N; i++) {
		ck_assert_int_eq(stmpi_host_stream_create(&s[i]), 0);
		ck_assert_int_eq(stmpi_host_event_create(&e[i]), 0);
	}
	ck_assert_int_eq(stmpi_host_stream_wait_value64(s[0], &gate, 1), 0);
	for (int i = 0; i < N; i++) {
		if (i > 0)
			ck_assert_int_eq(stmpi_host_stream_wait_event(s[i], e[i - 1]), 0);
		ck_assert_int_eq(stmpi_host_stream_launch(s[i], add_one, &count), 0);
		ck_assert_int_eq(stmpi_host_event_record(e[i], s[i]), 0);
	}
	sleep_ms(10);
	ck_assert_uint_eq(__atomic_load_n(&count, __ATOMIC_ACQUIRE), 0);
	stmpi_word_store(&gate, 1);
	ck_assert_int_eq(stmpi_host_event_synchronize(e[N - 1]), 0);
	ck_assert_uint_eq(__atomic_load_n(&count, __ATOMIC_ACQUIRE), N);
	for (int i = 0; i < N; i++) {
		ck_assert_int_eq(stmpi_host_event_destroy(e[i]), 0);
		ck_assert_int_eq(stmpi_host_stream_destroy(s[i]), 0);
	}
}
END_TEST

static stmpi_host_stream_t shared;
static uint64_t total;

static void *from_thread(void *arg)
{
	(void)arg;
	for (int i = 0; i < 5000; i++) {
		ck_assert_int_eq(stmpi_host_stream_launch(shared, add_one, &total), 0);
		if (i % 1000 == 0)
			ck_assert_int_eq(stmpi_host_stream_synchronize(shared), 0);
	}
	return NULL;
}

START_TEST(four_threads_on_one_stream)
{
	pthread_t t[4];

	ck_assert_int_eq(stmpi_host_stream_create(&shared), 0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, from_thread, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(stmpi_host_stream_synchronize(shared), 0);
	ck_assert_uint_eq(total, 20000);
	ck_assert_int_eq(stmpi_host_stream_destroy(shared), 0);
}
END_TEST

static int64_t cpu_us(const struct rusage *r)
{
	return (r->ru_utime.tv_sec + r->ru_stime.tv_sec) * 1000000 + r->ru_utime.tv_usec +
	       r->ru_stime.tv_usec;
}

START_TEST(idle_costs_nothing)
{
	struct rusage before, after;
	stmpi_host_stream_t s;
	int64_t us;

	ck_assert_int_eq(stmpi_host_stream_create(&s), 0);
	ck_assert_int_eq(stmpi_host_stream_synchronize(s), 0);
	sleep_ms(50);
	getrusage(RUSAGE_SELF, &before);
	sleep_ms(500);
	getrusage(RUSAGE_SELF, &after);
	us = cpu_us(&after) - cpu_us(&before);
	ck_assert_int_lt(us, 10000); /* 2 %; a spinning thread would take 500 000 */
	ck_assert_int_eq(stmpi_host_stream_destroy(s), 0);
}
END_TEST

START_TEST(errors_have_texts)
{
	ck_assert_str_eq(stmpi_strerror(0), "success");
	ck_assert_str_eq(stmpi_strerror(STMPI_EINVAL), stmpi_strerror(-STMPI_EINVAL));
	ck_assert_str_eq(stmpi_strerror(12345), "unknown error");
	ck_assert_str_eq(stmpi_strerror(INT32_MIN), "unknown error");
	for (int i = 1; i <= STMPI_ENOTREADY; i++)
		ck_assert_str_ne(stmpi_strerror(i), "unknown error");
	ck_assert(strchr(stmpi_version(), '.') != NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("stream_host");
	TCase *c = tcase_create("public");

	stream_conformance_add(suite, &sut);
	tcase_set_timeout(c, 60);
	tcase_add_test(c, bad_arguments);
	tcase_add_test(c, calls_from_a_launched_function);
	tcase_add_test(c, destroy_from_a_launched_function);
	tcase_add_test(c, destroy_while_others_queue);
	tcase_add_test(c, a_destroyed_event_still_holds_its_waiters);
	tcase_add_test(c, a_bad_handle_is_named);
	tcase_add_test(c, events);
	tcase_add_test(c, forty_streams);
	tcase_add_test(c, four_threads_on_one_stream);
	tcase_add_test(c, idle_costs_nothing);
	tcase_add_test(c, errors_have_texts);
	suite_add_tcase(suite, c);
	return run_suite(suite);
}
