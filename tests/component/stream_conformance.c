/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream_conformance.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/compiler.h"

static const struct stream_under_test *sut;

/* A handle is at most this long. */
typedef unsigned char handle_t[16];

/* The words of all tests, in memory that is mapped for the stream; each test is a process. */
static struct {
	_Alignas(4096) uint64_t gate;
	uint64_t a, b, word, last, done, count, copy[4], from[4], many[4][8];
} w;

static _Atomic uint64_t rings, polls, idles;
static uint64_t *seen_word;
static _Atomic uint64_t seen_value; /* of *seen_word at the newest ring */

static void on_doorbell(void *arg)
{
	ck_assert_ptr_eq(arg, &rings);
	if (seen_word != NULL)
		atomic_store(&seen_value, stmpi_word_load(seen_word));
	atomic_fetch_add(&rings, 1);
}

static int on_poll(void)
{
	atomic_fetch_add(&polls, 1);
	return 0;
}

static void on_idle(void)
{
	atomic_fetch_add(&idles, 1);
}

static const struct stmpi_stream_hook hook = {
	.doorbell = on_doorbell, .poll = on_poll, .idle = on_idle};

static void sleep_ms(int ms)
{
	nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

/* As the registry does, before anything else. */
static void probe(void)
{
	char why[256];

	ck_assert_msg(sut->ops->probe(why, sizeof(why)) == 0, "%s", why);
}

static void open_stream(handle_t h, struct stmpi_stream_port **port)
{
	ck_assert_int_eq(sut->create(h), 0);
	ck_assert_int_eq(sut->ops->attach(h, &hook, &rings, port), 0);
	ck_assert_int_eq(sut->ops->map(*port, &w, sizeof(w)), 0);
}

static void close_stream(handle_t h, struct stmpi_stream_port *port)
{
	ck_assert_int_eq(sut->synchronize(h), 0);
	sut->ops->detach(port);
	ck_assert_int_eq(sut->destroy(h), 0);
}

static void batch(struct stmpi_stream_port *port, enum stmpi_memop_kind kind, void *addr,
		  uint64_t value, const void *src)
{
	struct stmpi_memop m = {kind, addr, value, src};

	ck_assert_int_eq(sut->ops->batch(port, &m, 1), 0);
}

START_TEST(table_is_whole)
{
	const struct stmpi_stream_ops *o = sut->ops;

	ck_assert_uint_eq(o->abi, STMPI_STREAM_ABI);
	ck_assert_uint_eq(o->bytes, sizeof(*o));
	ck_assert(o->name && o->type_name && o->probe && o->attach && o->detach && o->map &&
		  o->check && o->mem_kind && o->batch && o->move_now && o->query && o->fini);
	ck_assert_uint_le(o->handle_bytes, sizeof(handle_t));
	o->detach(NULL);
}
END_TEST

START_TEST(operations_run_in_order)
{
	int copies = (sut->ops->caps & STMPI_STREAM_CAP_COPIES_HOST) != 0;
	struct stmpi_stream_port *port;
	handle_t h;

	open_stream(h, &port);
	batch(port, STMPI_MEMOP_WAIT, &w.gate, 1, NULL);
	batch(port, STMPI_MEMOP_WRITE, &w.a, 5, NULL);
	batch(port, STMPI_MEMOP_WAIT, &w.a, 5, NULL);
	if (copies)
		batch(port, STMPI_MEMOP_COPY, w.copy, sizeof(w.copy), w.from);
	batch(port, STMPI_MEMOP_WRITE, &w.b, 7, NULL);
	sleep_ms(20);
	ck_assert_uint_eq(stmpi_word_load(&w.a), 0); /* control: nothing passes the gate */
	ck_assert_uint_eq(stmpi_word_load(&w.b), 0);
	ck_assert_int_eq(sut->ops->query(port), 1);
	w.from[3] = 40; /* the copy is made when its turn comes */
	stmpi_word_store(&w.gate, 1);
	ck_assert_int_eq(sut->synchronize(h), 0);
	ck_assert_int_eq(sut->ops->query(port), 0);
	ck_assert_uint_eq(w.b, 7);
	ck_assert_uint_eq(w.copy[3], copies ? 40 : 0);
	close_stream(h, port);
}
END_TEST

START_TEST(a_batch_is_one_unit_in_order)
{
	struct stmpi_stream_port *port;
	struct stmpi_memop m[3];
	handle_t h;

	open_stream(h, &port);
	for (uint64_t i = 1; i <= 10000; i++) {
		m[0] = (struct stmpi_memop){STMPI_MEMOP_WAIT, &w.last, i - 1, NULL};
		m[1] = (struct stmpi_memop){STMPI_MEMOP_WRITE, &w.word, i * 2, NULL};
		m[2] = (struct stmpi_memop){STMPI_MEMOP_WRITE, &w.last, i, NULL};
		ck_assert_int_eq(sut->ops->batch(port, m, 3), 0);
	}
	ck_assert_int_eq(sut->synchronize(h), 0);
	ck_assert_uint_eq(w.word, 20000);
	close_stream(h, port);
}
END_TEST

START_TEST(waits_compare_as_signed_difference)
{
	struct stmpi_stream_port *port;
	handle_t h;

	w.word = UINT64_MAX - 1;
	open_stream(h, &port);
	batch(port, STMPI_MEMOP_WAIT, &w.word, 3, NULL); /* behind the wrap */
	batch(port, STMPI_MEMOP_WRITE, &w.done, 1, NULL);
	sleep_ms(20);
	ck_assert_uint_eq(stmpi_word_load(&w.done), 0);
	stmpi_word_store(&w.word, 2);
	sleep_ms(20);
	ck_assert_uint_eq(stmpi_word_load(&w.done), 0);
	stmpi_word_store(&w.word, 1000); /* past it */
	ck_assert_int_eq(sut->synchronize(h), 0);
	ck_assert_uint_eq(w.done, 1);
	close_stream(h, port);
}
END_TEST

START_TEST(doorbells_are_told_writes_are_not)
{
	struct stmpi_stream_port *port;
	handle_t h;

	if (!(sut->ops->caps & STMPI_STREAM_CAP_DRIVES_PROGRESS))
		return;
	open_stream(h, &port);
	seen_word = &w.word;
	batch(port, STMPI_MEMOP_WRITE, &w.word, 1, NULL);
	ck_assert_int_eq(sut->synchronize(h), 0);
	ck_assert_uint_eq(rings, 0);
	batch(port, STMPI_MEMOP_DOORBELL, &w.word, 2, NULL);
	ck_assert_int_eq(sut->synchronize(h), 0);
	ck_assert_uint_eq(rings, 1);
	ck_assert_uint_eq(seen_value, 2); /* told after the write */
	close_stream(h, port);
}
END_TEST

START_TEST(waiting_drives_progress_idling_does_not)
{
	struct stmpi_stream_port *port;
	uint64_t before;
	handle_t h;

	if (!(sut->ops->caps & STMPI_STREAM_CAP_DRIVES_PROGRESS))
		return;
	open_stream(h, &port);
	before = atomic_load(&polls);
	sleep_ms(20);
	ck_assert_uint_eq(atomic_load(&polls), before);
	batch(port, STMPI_MEMOP_WAIT, &w.gate, 1, NULL);
	for (int ms = 0; ms < 5000 && atomic_load(&polls) == before; ms++)
		sleep_ms(1);
	ck_assert_uint_gt(atomic_load(&polls), before);
	/* A long wait makes the slow checks too. */
	for (int ms = 0; ms < 5000 && atomic_load(&idles) == 0; ms++)
		sleep_ms(1);
	ck_assert_uint_gt(atomic_load(&idles), 0);
	stmpi_word_store(&w.gate, 1);
	close_stream(h, port);
}
END_TEST

static void bump(void *arg)
{
	uint64_t *p = arg;

	stmpi_word_store(p, *p + 1);
}

START_TEST(a_million_entries_drain_in_order)
{
	enum {
		N = 333333
	};
	struct stmpi_stream_port *port;
	struct stmpi_memop m[3];
	handle_t h;

	open_stream(h, &port);
	batch(port, STMPI_MEMOP_WAIT, &w.gate, 1, NULL);
	for (uint64_t i = 1; i <= N; i++) {
		m[0] = (struct stmpi_memop){STMPI_MEMOP_WRITE, &w.word, i, NULL};
		m[1] = (struct stmpi_memop){STMPI_MEMOP_WAIT, &w.word, i, NULL};
		m[2] = (struct stmpi_memop){STMPI_MEMOP_WRITE, &w.count, i, NULL};
		ck_assert_int_eq(sut->ops->batch(port, m, 3), 0);
	}
	ck_assert_uint_eq(stmpi_word_load(&w.count), 0);
	stmpi_word_store(&w.gate, 1);
	ck_assert_int_eq(sut->synchronize(h), 0);
	ck_assert_uint_eq(w.count, N);
	close_stream(h, port);
}
END_TEST

START_TEST(a_destroyed_stream_takes_nothing_and_ends_what_it_has)
{
	struct stmpi_memop m = {STMPI_MEMOP_WRITE, &w.a, 1, NULL};
	struct stmpi_stream_port *port;
	handle_t h;

	if (sut->ops->caps & STMPI_STREAM_CAP_KEEPS_STREAM)
		return;
	open_stream(h, &port);
	batch(port, STMPI_MEMOP_WAIT, &w.gate, 1, NULL);
	batch(port, STMPI_MEMOP_WRITE, &w.b, 1, NULL);
	ck_assert_int_eq(sut->ops->check(port), 0);
	ck_assert_int_eq(sut->destroy(h), 0);
	ck_assert_int_lt(sut->ops->check(port), 0);
	ck_assert_int_lt(sut->ops->batch(port, &m, 1), 0);
	stmpi_word_store(&w.gate, 1);
	for (int ms = 0; ms < 5000 && stmpi_word_load(&w.b) == 0; ms++)
		sleep_ms(1);
	ck_assert_uint_eq(stmpi_word_load(&w.b), 1);
	ck_assert_uint_eq(stmpi_word_load(&w.a), 0);
	sut->ops->detach(port);
}
END_TEST

START_TEST(destroy_returns_at_once_and_a_port_keeps_the_stream)
{
	struct stmpi_stream_port *port;
	handle_t h;

	if (!(sut->ops->caps & STMPI_STREAM_CAP_KEEPS_STREAM))
		return;
	open_stream(h, &port);
	batch(port, STMPI_MEMOP_WAIT, &w.gate, 1, NULL);
	ck_assert_int_eq(sut->launch(h, bump, &w.count), 0);
	ck_assert_int_eq(sut->destroy(h), 0);
	ck_assert_uint_eq(stmpi_word_load(&w.count), 0);
	batch(port, STMPI_MEMOP_WRITE, &w.gate, 1,
	      NULL); /* queued behind the gate: does not open it */
	sleep_ms(10);
	ck_assert_uint_eq(stmpi_word_load(&w.count), 0);
	stmpi_word_store(&w.gate, 1);
	while (sut->ops->query(port) != 0)
		sleep_ms(1);
	ck_assert_uint_eq(stmpi_word_load(&w.count), 1);
	sut->ops->detach(port);
}
END_TEST

START_TEST(dead_and_made_up_handles_are_refused)
{
	struct stmpi_stream_port *port = NULL;
	handle_t h, garbage;

	memset(garbage, 0x5a, sizeof(garbage));
	ck_assert_int_lt(sut->ops->attach(garbage, &hook, NULL, &port), 0);
	memset(garbage, 0, sizeof(garbage));
	if (!sut->null_is_a_stream)
		ck_assert_int_lt(sut->ops->attach(garbage, &hook, NULL, &port), 0);
	ck_assert_int_eq(sut->create(h), 0);
	ck_assert_int_eq(sut->destroy(h), 0);
	ck_assert_int_lt(sut->ops->attach(h, &hook, NULL, &port), 0);
	ck_assert_ptr_null(port);
}
END_TEST

struct side {
	struct stmpi_stream_port *port;
	uint64_t *word;
};

static void *queue_many(void *arg)
{
	struct side *s = arg;

	for (uint64_t i = 1; i <= 20000; i++)
		batch(s->port, STMPI_MEMOP_WRITE, s->word, i, NULL);
	return NULL;
}

START_TEST(several_ports_of_one_stream_at_once)
{
	struct stmpi_stream_port *ports[4];
	struct side sides[4];
	pthread_t threads[4];
	handle_t h;

	ck_assert_int_eq(sut->create(h), 0);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(sut->ops->attach(h, &hook, &rings, &ports[i]), 0);
		ck_assert_int_eq(sut->ops->map(ports[i], &w, sizeof(w)), 0); /* again: no harm */
		sides[i] = (struct side){ports[i], w.many[i]};
		ck_assert_int_eq(pthread_create(&threads[i], NULL, queue_many, &sides[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(sut->synchronize(h), 0);
	for (int i = 0; i < 4; i++) {
		ck_assert_uint_eq(w.many[i][0], 20000);
		sut->ops->detach(ports[i]);
	}
	ck_assert_int_eq(sut->destroy(h), 0);
}
END_TEST

void stream_conformance_add(Suite *suite, const struct stream_under_test *under_test)
{
	TCase *c = tcase_create("conformance");

	sut = under_test;
	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, probe, NULL);
	tcase_add_test(c, table_is_whole);
	tcase_add_test(c, operations_run_in_order);
	tcase_add_test(c, a_batch_is_one_unit_in_order);
	tcase_add_test(c, waits_compare_as_signed_difference);
	tcase_add_test(c, doorbells_are_told_writes_are_not);
	tcase_add_test(c, waiting_drives_progress_idling_does_not);
	tcase_add_test(c, a_million_entries_drain_in_order);
	tcase_add_test(c, a_destroyed_stream_takes_nothing_and_ends_what_it_has);
	tcase_add_test(c, destroy_returns_at_once_and_a_port_keeps_the_stream);
	tcase_add_test(c, dead_and_made_up_handles_are_refused);
	tcase_add_test(c, several_ports_of_one_stream_at_once);
	suite_add_tcase(suite, c);
}
