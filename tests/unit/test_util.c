/* SPDX-License-Identifier: BSD-3-Clause */
/* test_util.c: the queue of one producer and one consumer, parameters, error texts, waiting,
 * topology. */
#include "../suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stmpi.h"
#include "util/backoff.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/params.h"
#include "util/spscq.h"
#include "util/topo.h"

/* ---- spscq ---- */

static void push(struct stmpi_spscq *q, uint64_t v)
{
	uint64_t *slot = stmpi_spscq_reserve(q);

	ck_assert_ptr_nonnull(slot);
	slot[0] = v;
	slot[1] = ~v;
}

static uint64_t pop(struct stmpi_spscq *q)
{
	uint64_t *slot = stmpi_spscq_peek(q), v;

	ck_assert_ptr_nonnull(slot);
	v = slot[0];
	ck_assert_uint_eq(slot[1], ~v);
	stmpi_spscq_pop(q);
	return v;
}

START_TEST(queue_keeps_order_over_chunks)
{
	struct stmpi_spscq q;

	ck_assert_int_eq(stmpi_spscq_init(&q, 16), 0);
	ck_assert_ptr_null(stmpi_spscq_peek(&q));
	for (uint64_t i = 0; i < 100000; i++) {
		push(&q, i);
		stmpi_spscq_publish(&q, 1);
		if (i % 3 == 2)
			(void)pop(&q);
	}
	for (uint64_t i = 100000 / 3; i < 100000; i++)
		ck_assert_uint_eq(pop(&q), i);
	ck_assert_ptr_null(stmpi_spscq_peek(&q));
	stmpi_spscq_fini(&q);
}
END_TEST

START_TEST(reserved_records_are_unseen_and_can_be_taken_back)
{
	struct stmpi_spscq q;

	ck_assert_int_eq(stmpi_spscq_init(&q, 16), 0);
	for (uint64_t round = 0; round < 2000; round++) {
		/* Across every edge of a chunk. */
		for (uint64_t i = 0; i < round % 300 + 1; i++)
			push(&q, 999);
		ck_assert_ptr_null(stmpi_spscq_peek(&q));
		stmpi_spscq_unreserve(&q, (uint32_t)(round % 300 + 1));
		push(&q, round);
		stmpi_spscq_publish(&q, 1);
		ck_assert_uint_eq(pop(&q), round);
	}
	stmpi_spscq_fini(&q);
}
END_TEST

#define PAIRS 1000000u

static void *producer(void *arg)
{
	struct stmpi_spscq *q = arg;

	for (uint64_t i = 0; i < PAIRS; i += 2) {
		push(q, i);
		push(q, i + 1);
		stmpi_spscq_publish(q, 2);
	}
	return NULL;
}

START_TEST(queue_between_threads)
{
	struct stmpi_backoff b = {0, 0, 0};
	struct stmpi_spscq q;
	pthread_t t;

	ck_assert_int_eq(stmpi_spscq_init(&q, 16), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, producer, &q), 0);
	for (uint64_t i = 0; i < PAIRS;) {
		if (stmpi_spscq_peek(&q) == NULL) {
			stmpi_backoff_pause(&b);
			continue;
		}
		ck_assert_uint_eq(pop(&q), i);
		i++;
		stmpi_backoff_reset(&b);
	}
	pthread_join(t, NULL);
	stmpi_spscq_fini(&q);
}
END_TEST

/* ---- parameters ---- */

static void set(const char *name, const char *value)
{
	if (value != NULL)
		setenv(name, value, 1);
	else
		unsetenv(name);
	stmpi_params_reload();
}

START_TEST(parameters_have_defaults_and_help)
{
	for (int p = 0; p < STMPI_PARAM_COUNT; p++) {
		const struct stmpi_param_desc *d = stmpi_param_desc((enum stmpi_param)p);

		ck_assert(d->env != NULL && strncmp(d->env, "STMPI_", 6) == 0);
		ck_assert(d->help != NULL && d->help[0] != '\0');
		set(d->env, d->fallback); /* every default is a legal value */
		ck_assert_int_eq(stmpi_params_check(), 0);
		set(d->env, NULL);
		ck_assert_str_eq(stmpi_param_text((enum stmpi_param)p), d->fallback);
	}
}
END_TEST

START_TEST(bad_values_are_named)
{
	static const char *const bad[][2] = {
		{"STMPI_WATCHDOG", "soon"},	 {"STMPI_WATCHDOG", "-1"},
		{"STMPI_WATCHDOG", "10x"},	 {"STMPI_WATCHDOG", ""},
		{"STMPI_EAGER_CREDITS", "0"},	 {"STMPI_EAGER_CREDITS", "99999999999999999999"},
		{"STMPI_TRIGGER", "magic"},	 {"STMPI_TRIGGER", "deferred "},
		{"STMPI_NET_BACKEND", "SHM"},	 {"STMPI_PROGRESS", "fast"},
		{"STMPI_STREAM_BACKEND", "gpu"}, {"STMPI_STATS", "yes please"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		set(bad[i][0], bad[i][1]);
		ck_assert_int_eq(stmpi_params_check(), -STMPI_ECONFIG);
		ck_assert_ptr_nonnull(strstr(stmpi_error_text(), bad[i][0]));
		ck_assert_ptr_nonnull(strstr(stmpi_error_text(), bad[i][1]));
		set(bad[i][0], NULL);
		ck_assert_int_eq(stmpi_params_check(), 0);
	}
}
END_TEST

START_TEST(values_are_read)
{
	char text[512];

	set("STMPI_WATCHDOG", "12");
	set("STMPI_TRIGGER", "software");
	set("STMPI_STATS", "1");
	set("STMPI_OFI_PROVIDER", "tcp;ofi_rxm");
	ck_assert_int_eq(stmpi_param_int(STMPI_PARAM_WATCHDOG), 12);
	ck_assert_int_eq(stmpi_param_choice(STMPI_PARAM_TRIGGER), STMPI_TRIGGER_SOFTWARE);
	ck_assert_int_eq(stmpi_param_choice(STMPI_PARAM_STATS), 1);
	ck_assert_str_eq(stmpi_param_string(STMPI_PARAM_OFI_PROVIDER), "tcp;ofi_rxm");
	ck_assert_int_lt(stmpi_params_shared_text(text, sizeof(text)), (int)sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "STMPI_OFI_PROVIDER=tcp;ofi_rxm"));
	ck_assert_ptr_null(strstr(text, "STMPI_WATCHDOG")); /* not a matter of all ranks */
	/* A text that does not fit is cut, and its length still told. */
	ck_assert_int_gt(stmpi_params_shared_text(text, 10), 10);
	ck_assert_uint_lt(strlen(text), 10);
}
END_TEST

/* ---- the rest ---- */

START_TEST(error_texts_are_cut_not_overrun)
{
	char big[2000];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	ck_assert_int_eq(stmpi_error_set(STMPI_ENET, "%s", big), -STMPI_ENET);
	ck_assert_uint_eq(strlen(stmpi_error_text()), STMPI_ERROR_TEXT_BYTES - 1);
}
END_TEST

START_TEST(waiting_ends_in_sleep)
{
	struct stmpi_backoff b = {0, 0, 0};
	uint64_t begin = stmpi_clock_ns();
	int slow = 0, rounds = 0;

	while (stmpi_clock_ns() - begin < 50000000) {
		slow += stmpi_backoff_pause(&b);
		rounds++;
	}
	ck_assert_int_gt(slow, 0);
	ck_assert_uint_gt(b.sleep_ns, 0); /* it does not yield for ever */
	stmpi_backoff_reset(&b);
	ck_assert_int_eq(stmpi_backoff_pause(&b), 0); /* and spins again after an event */
}
END_TEST

START_TEST(topology_answers)
{
	char text[256];

	ck_assert_int_ge(stmpi_topo_progress_cpu(), -1);
	ck_assert_int_eq(stmpi_topo_distance(NULL, "no_such_device"), -1);
	ck_assert_int_eq(stmpi_topo_distance("ffff:ff:1f.7", NULL), -1);
	ck_assert_int_eq(stmpi_topo_distance(NULL, NULL), -1);
	ck_assert_int_gt(stmpi_topo_describe(text, sizeof(text)), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("util");
	TCase *c = tcase_create("util");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, queue_keeps_order_over_chunks);
	tcase_add_test(c, reserved_records_are_unseen_and_can_be_taken_back);
	tcase_add_test(c, queue_between_threads);
	tcase_add_test(c, parameters_have_defaults_and_help);
	tcase_add_test(c, bad_values_are_named);
	tcase_add_test(c, values_are_read);
	tcase_add_test(c, error_texts_are_cut_not_overrun);
	tcase_add_test(c, waiting_ends_in_sleep);
	tcase_add_test(c, topology_answers);
	suite_add_tcase(s, c);
	return run_suite(s);
}
