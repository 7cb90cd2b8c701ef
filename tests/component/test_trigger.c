/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_trigger.c: software triggers over a made-up rail, which can be full or broken at any work.
 * Triggers over real rails are in test_net.c.
 */
#include "../suite.h"

#include <stdlib.h>
#include <string.h>

#include "net/net.h"
#include "net/trigger.h"
#include "util/error.h"

#define N 1000

static struct stmpi_net_work works[N];
static int posted[N], posted_count, room, next_ret;
static int ended[N], statuses[N], ended_count;

static int number_of(const struct stmpi_work *work)
{
	return (int)((const struct stmpi_net_work *)(const void *)work - works);
}

/* Takes `room` works, then is full; what it takes ends at once unless next_ret says otherwise. */
static int post(struct stmpi_rail *rail, struct stmpi_net_work *w)
{
	(void)rail;
	if (next_ret < 0)
		return next_ret;
	if (room == 0)
		return -STMPI_EAGAIN;
	room--;
	posted[posted_count++] = number_of(&w->work);
	return next_ret;
}

static const struct stmpi_net_ops ops = {
	.abi = STMPI_NET_ABI, .bytes = sizeof(ops), .name = "made up", .post = post};
static struct stmpi_rail rail = {.ops = &ops};

static void end(struct stmpi_work *work, int status)
{
	ended[ended_count] = number_of(work);
	statuses[ended_count++] = status;
}

static struct stmpi_trigger *begin(void)
{
	struct stmpi_trigger *t;

	posted_count = ended_count = next_ret = 0;
	room = N;
	for (int i = 0; i < N; i++)
		works[i] = (struct stmpi_net_work){.work = {STMPI_WORK_SEND, end}, .rail = &rail};
	ck_assert_int_eq(stmpi_trigger_create(&t), 0);
	return t;
}

START_TEST(test_full_rail_keeps_order)
{
	struct stmpi_trigger *t = begin();
	int rounds = 0;

	/* Every third is a call, which needs no room but may not overtake. */
	for (int i = 0; i < N; i++) {
		if (i % 3 == 2)
			works[i].work.kind = STMPI_WORK_CALL;
		ck_assert_int_eq(stmpi_trigger_queue(t, 1 + (uint64_t)i / 100, &works[i].work), 0);
	}
	room = 0;
	ck_assert_int_eq(stmpi_trigger_set(t, 0), 0);
	ck_assert(!stmpi_trigger_is_blocked(t)); /* nothing was reached */
	ck_assert_int_eq(stmpi_trigger_set(t, 5), 0);
	ck_assert(stmpi_trigger_is_blocked(t));
	while (ended_count < 500) {
		room = 3;
		ck_assert_int_gt(stmpi_trigger_set(t, 5), 0);
		ck_assert_int_lt(++rounds, N);
	}
	ck_assert(!stmpi_trigger_is_blocked(t)); /* the next threshold is not reached */
	ck_assert_int_eq(ended_count, 500);
	room = N;
	ck_assert_int_eq(stmpi_trigger_set(t, 10), 500);
	for (int i = 0; i < N; i++)
		ck_assert(ended[i] == i && statuses[i] == 0);
	stmpi_trigger_destroy(t);
	ck_assert_int_eq(ended_count, N);
}
END_TEST

START_TEST(test_work_in_progress_ends_later)
{
	struct stmpi_trigger *t = begin();

	next_ret = 1; /* started: the rail calls fn itself */
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(stmpi_trigger_queue(t, 1, &works[i].work), 0);
	ck_assert_int_eq(stmpi_trigger_set(t, 1), 5);
	ck_assert_int_eq(posted_count, 5);
	stmpi_trigger_destroy(t);
	ck_assert_int_eq(ended_count, 0); /* not ours any more */
}
END_TEST

START_TEST(test_failed_post_ends_the_work)
{
	struct stmpi_trigger *t = begin();

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(stmpi_trigger_queue(t, 1 + (uint64_t)i, &works[i].work), 0);
	next_ret = -STMPI_EPEER;
	ck_assert_int_eq(stmpi_trigger_set(t, 2), 2);
	ck_assert(!stmpi_trigger_is_blocked(t));
	next_ret = 0;
	ck_assert_int_eq(stmpi_trigger_set(t, 3), 1);
	ck_assert_int_eq(ended_count, 3);
	ck_assert(statuses[0] == -STMPI_EPEER && statuses[1] == -STMPI_EPEER && statuses[2] == 0);
	ck_assert(ended[0] == 0 && ended[1] == 1 && ended[2] == 2);
	stmpi_trigger_destroy(t);
}
END_TEST

START_TEST(test_destroy_hands_back_blocked_works)
{
	struct stmpi_trigger *t = begin();

	for (int i = 0; i < N; i++)
		ck_assert_int_eq(stmpi_trigger_queue(t, (uint64_t)i, &works[i].work), 0);
	room = 10;
	ck_assert_int_eq(stmpi_trigger_set(t, 500), 10);
	stmpi_trigger_destroy(t);
	ck_assert_int_eq(ended_count, N);
	for (int i = 0; i < N; i++)
		ck_assert(ended[i] == i && statuses[i] == (i < 10 ? 0 : -STMPI_ECANCELED));
}
END_TEST

static struct stmpi_trigger *again_trigger;
static int again_left;

static void queue_again(struct stmpi_work *work, int status)
{
	ended_count++;
	ck_assert_int_eq(status, 0);
	if (again_left-- > 0)
		ck_assert_int_eq(stmpi_trigger_queue(again_trigger, 7, work), 0);
}

START_TEST(test_call_may_queue_itself_again)
{
	struct stmpi_trigger *t = again_trigger = begin();

	again_left = 20;
	works[0].work = (struct stmpi_work){STMPI_WORK_CALL, queue_again};
	ck_assert_int_eq(stmpi_trigger_queue(t, 7, &works[0].work), 0);
	for (int i = 0; i < 30; i++)
		(void)stmpi_trigger_set(t, 7);
	ck_assert_int_eq(ended_count, 21);
	stmpi_trigger_destroy(t);
}
END_TEST

START_TEST(test_thresholds_wrap_and_never_fall)
{
	struct stmpi_trigger *t = begin();

	ck_assert_int_eq(stmpi_trigger_queue(t, UINT64_MAX - 1, &works[0].work), 0);
	ck_assert_int_eq(stmpi_trigger_queue(t, 3, &works[1].work), 0);
	ck_assert_int_eq(stmpi_trigger_queue(t, UINT64_MAX, &works[2].work), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_trigger_queue(t, 2, &works[2].work), -STMPI_EINVAL);
	ck_assert_int_eq(stmpi_trigger_queue(t, 3, &works[2].work), 0);
	ck_assert_int_eq(stmpi_trigger_set(t, UINT64_MAX - 2), 0);
	ck_assert_int_eq(stmpi_trigger_set(t, UINT64_MAX), 1);
	ck_assert_int_eq(stmpi_trigger_set(t, 2), 0);
	ck_assert_int_eq(stmpi_trigger_set(t, 4), 2);
	ck_assert(ended[0] == 0 && ended[1] == 1 && ended[2] == 2);
	stmpi_trigger_destroy(t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("trigger");
	TCase *c = tcase_create("software");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, test_full_rail_keeps_order);
	tcase_add_test(c, test_work_in_progress_ends_later);
	tcase_add_test(c, test_failed_post_ends_the_work);
	tcase_add_test(c, test_destroy_hands_back_blocked_works);
	tcase_add_test(c, test_call_may_queue_itself_again);
	tcase_add_test(c, test_thresholds_wrap_and_never_fall);
	suite_add_tcase(s, c);
	return run_suite(s);
}
