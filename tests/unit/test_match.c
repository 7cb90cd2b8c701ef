/* SPDX-License-Identifier: BSD-3-Clause */
/* test_match.c: MPI matching against a plain reference model, and its rules one by one. */
#include "../suite.h"

#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/match.h"

static struct stmpi_match *m;

static void set_up(void)
{
	m = calloc(1, sizeof(*m));
	ck_assert_ptr_nonnull(m);
}

static void tear_down(void)
{
	free(m);
}

static struct stmpi_match_recv recv_of(uint32_t ctx, int source, int tag)
{
	return (struct stmpi_match_recv){.ctx = ctx, .source = source, .tag = tag};
}

static struct stmpi_match_msg msg_of(uint32_t ctx, int source, int tag)
{
	return (struct stmpi_match_msg){.ctx = ctx, .source = source, .tag = tag};
}

START_TEST(nothing_matches_nothing)
{
	ck_assert_ptr_null(stmpi_match_arrive(m, 1, 0, 0));
	ck_assert_ptr_null(stmpi_match_find(m, 1, STMPI_ANY_SOURCE, STMPI_ANY_TAG));
}
END_TEST

START_TEST(every_field_counts)
{
	struct stmpi_match_recv r = recv_of(1, 2, 3);

	stmpi_match_post(m, &r);
	ck_assert_ptr_null(stmpi_match_arrive(m, 2, 2, 3));
	ck_assert_ptr_null(stmpi_match_arrive(m, 1, 1, 3));
	ck_assert_ptr_null(stmpi_match_arrive(m, 1, 2, 4));
	ck_assert_ptr_eq(stmpi_match_arrive(m, 1, 2, 3), &r);
	ck_assert_ptr_null(stmpi_match_arrive(m, 1, 2, 3));
}
END_TEST

START_TEST(oldest_receive_wins_across_kinds)
{
	struct stmpi_match_recv r[4] = {recv_of(1, STMPI_ANY_SOURCE, 5), recv_of(1, 0, 5),
					recv_of(1, 0, STMPI_ANY_TAG),
					recv_of(1, STMPI_ANY_SOURCE, STMPI_ANY_TAG)};

	for (int first = 0; first < 4; first++) {
		for (int i = 0; i < 4; i++)
			stmpi_match_post(m, &r[(first + i) % 4]);
		for (int i = 0; i < 4; i++)
			ck_assert_ptr_eq(stmpi_match_arrive(m, 1, 0, 5), &r[(first + i) % 4]);
	}
}
END_TEST

START_TEST(oldest_message_wins)
{
	struct stmpi_match_msg a = msg_of(1, 7, 1), b = msg_of(1, 6, 1), c = msg_of(1, 7, 2);

	stmpi_match_keep(m, &a);
	stmpi_match_keep(m, &b);
	stmpi_match_keep(m, &c);
	ck_assert_ptr_eq(stmpi_match_find(m, 1, STMPI_ANY_SOURCE, 1), &a);
	ck_assert_ptr_eq(stmpi_match_find(m, 1, 6, STMPI_ANY_TAG), &b);
	ck_assert_ptr_eq(stmpi_match_find(m, 1, 7, 2), &c);
	stmpi_match_drop(m, &a);
	ck_assert_ptr_eq(stmpi_match_find(m, 1, STMPI_ANY_SOURCE, STMPI_ANY_TAG), &b);
	ck_assert_ptr_eq(stmpi_match_find(m, 1, 7, STMPI_ANY_TAG), &c);
	ck_assert_ptr_null(stmpi_match_find(m, 2, STMPI_ANY_SOURCE, STMPI_ANY_TAG));
	stmpi_match_drop(m, &b);
	stmpi_match_drop(m, &c);
	ck_assert_ptr_null(stmpi_match_find(m, 1, STMPI_ANY_SOURCE, STMPI_ANY_TAG));
	ck_assert_uint_eq(m->message_count, 0);
}
END_TEST

START_TEST(unposted_receive_takes_nothing)
{
	struct stmpi_match_recv a = recv_of(1, 0, 0), b = recv_of(1, 0, 0);

	stmpi_match_post(m, &a);
	stmpi_match_post(m, &b);
	stmpi_match_unpost(m, &a);
	ck_assert_ptr_eq(stmpi_match_arrive(m, 1, 0, 0), &b);
}
END_TEST

START_TEST(extreme_values)
{
	struct stmpi_match_recv r = recv_of(UINT32_MAX, INT32_MAX, INT32_MAX);
	struct stmpi_match_msg a = msg_of(0, INT32_MAX, INT32_MAX);

	stmpi_match_post(m, &r);
	stmpi_match_keep(m, &a);
	ck_assert_ptr_eq(stmpi_match_find(m, 0, INT32_MAX, INT32_MAX), &a);
	ck_assert_ptr_eq(stmpi_match_arrive(m, UINT32_MAX, INT32_MAX, INT32_MAX), &r);
	stmpi_match_drop(m, &a);
}
END_TEST

/* ---- against a model: two arrays in order of arrival, searched from the front ---- */

#define STEPS 200000
#define LIVE  64

struct model {
	struct stmpi_match_recv recvs[LIVE];
	struct stmpi_match_msg msgs[LIVE];
	struct stmpi_match_recv *posted[LIVE]; /* in order */
	struct stmpi_match_msg *kept[LIVE];
	int posted_n, kept_n;
};

static int takes(const struct stmpi_match_recv *r, uint32_t ctx, int source, int tag)
{
	return r->ctx == ctx && (r->source == STMPI_ANY_SOURCE || r->source == source) &&
	       (r->tag == STMPI_ANY_TAG || r->tag == tag);
}

static int model_post(struct model *w, struct stmpi_match_recv *r)
{
	for (int i = 0; i < w->kept_n; i++) {
		struct stmpi_match_msg *k = w->kept[i];

		if (!takes(r, k->ctx, k->source, k->tag))
			continue;
		ck_assert_ptr_eq(stmpi_match_find(m, r->ctx, r->source, r->tag), k);
		stmpi_match_drop(m, k);
		memmove(&w->kept[i], &w->kept[i + 1],
			(size_t)(--w->kept_n - i) * sizeof(w->kept[0]));
		k->ctx = UINT32_MAX; /* free again */
		return 0;
	}
	ck_assert_ptr_null(stmpi_match_find(m, r->ctx, r->source, r->tag));
	stmpi_match_post(m, r);
	w->posted[w->posted_n++] = r;
	return 1;
}

static void model_arrive(struct model *w, struct stmpi_match_msg *a)
{
	for (int i = 0; i < w->posted_n; i++) {
		struct stmpi_match_recv *r = w->posted[i];

		if (!takes(r, a->ctx, a->source, a->tag))
			continue;
		ck_assert_ptr_eq(stmpi_match_arrive(m, a->ctx, a->source, a->tag), r);
		memmove(&w->posted[i], &w->posted[i + 1],
			(size_t)(--w->posted_n - i) * sizeof(w->posted[0]));
		r->ctx = UINT32_MAX;
		a->ctx = UINT32_MAX;
		return;
	}
	ck_assert_ptr_null(stmpi_match_arrive(m, a->ctx, a->source, a->tag));
	stmpi_match_keep(m, a);
	w->kept[w->kept_n++] = a;
}

START_TEST(agrees_with_a_model)
{
	struct model w = {.posted_n = 0};
	unsigned int seed = 20240611;

	for (int i = 0; i < LIVE; i++)
		w.recvs[i].ctx = w.msgs[i].ctx = UINT32_MAX;
	for (int step = 0; step < STEPS; step++) {
		int slot = rand_r(&seed) % LIVE, source = rand_r(&seed) % 4,
		    tag = rand_r(&seed) % 4;
		uint32_t ctx = (uint32_t)rand_r(&seed) % 2;

		if (rand_r(&seed) % 2) {
			if (w.recvs[slot].ctx != UINT32_MAX)
				continue;
			if (source == 3)
				source = STMPI_ANY_SOURCE;
			if (tag == 3)
				tag = STMPI_ANY_TAG;
			w.recvs[slot] = recv_of(ctx, source, tag);
			if (!model_post(&w, &w.recvs[slot]))
				w.recvs[slot].ctx = UINT32_MAX;
		} else {
			if (w.msgs[slot].ctx != UINT32_MAX)
				continue;
			w.msgs[slot] = msg_of(ctx, source % 3, tag % 3);
			model_arrive(&w, &w.msgs[slot]);
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("match");
	TCase *c = tcase_create("match");

	tcase_add_checked_fixture(c, set_up, tear_down);
	tcase_set_timeout(c, 60);
	tcase_add_test(c, nothing_matches_nothing);
	tcase_add_test(c, every_field_counts);
	tcase_add_test(c, oldest_receive_wins_across_kinds);
	tcase_add_test(c, oldest_message_wins);
	tcase_add_test(c, unposted_receive_takes_nothing);
	tcase_add_test(c, extreme_values);
	tcase_add_test(c, agrees_with_a_model);
	suite_add_tcase(s, c);
	return run_suite(s);
}
