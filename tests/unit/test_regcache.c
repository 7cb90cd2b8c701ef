/* SPDX-License-Identifier: BSD-3-Clause */
/* test_regcache.c: the registration cache over a fake that counts, and that fails when told to. */
#include "../suite.h"

#include <stdlib.h>

#include "net/ofi/regcache.h"
#include "stmpi.h"

static int opened, closed, fail_next;

static int fake_open(void *arg, const void *addr, size_t bytes, struct regcache_entry *entry)
{
	(void)bytes;
	ck_assert_ptr_eq(arg, &opened);
	if (fail_next) {
		fail_next = 0;
		return -STMPI_ENET;
	}
	entry->key = (uint64_t)++opened;
	entry->base = (uint64_t)(uintptr_t)addr;
	return 0;
}

static void fake_close(void *arg, struct regcache_entry *entry)
{
	ck_assert_ptr_eq(arg, &opened);
	ck_assert_uint_gt(entry->key, 0);
	closed++;
}

static struct regcache c;
#define PAGE 4096u
static _Alignas(PAGE) char memory[64 * PAGE];

static void set_up(void)
{
	opened = closed = fail_next = 0;
	regcache_init(&c, 4, fake_open, fake_close, &opened);
}

static void tear_down(void)
{
	regcache_fini(&c);
	ck_assert_int_eq(opened, closed);
}

static struct stmpi_net_mr *get(size_t at, size_t bytes)
{
	struct stmpi_net_mr *mr = NULL;

	ck_assert_int_eq(regcache_get(&c, memory + at, bytes, &mr), 0);
	ck_assert_uint_eq(mr->addr, (uint64_t)(uintptr_t)(memory + at));
	return mr;
}

START_TEST(same_range_is_registered_once)
{
	struct stmpi_net_mr *a = get(0, 1000), *b = get(0, 1000);

	ck_assert_uint_eq(a->key, b->key);
	regcache_put(&c, a);
	regcache_put(&c, b);
	a = get(0, 1000);
	ck_assert_int_eq(opened, 1);
	ck_assert_int_eq(closed, 0);
	regcache_put(&c, a);
}
END_TEST

START_TEST(a_part_is_covered_an_overlap_is_not)
{
	struct stmpi_net_mr *a = get(PAGE + 1000, PAGE), *b = get(PAGE + 1500, 500),
			    *d = get(PAGE + 10, 2 * PAGE), *e = get(999, 10), *f = get(PAGE, 1);

	ck_assert_uint_eq(a->key, b->key);
	ck_assert_uint_ne(a->key, d->key); /* runs into one more page */
	ck_assert_uint_ne(a->key, e->key);
	ck_assert_uint_eq(d->key, f->key); /* the longest is found */
	ck_assert_int_eq(opened, 3);
	regcache_put(&c, a);
	ck_assert_int_eq(closed, 0);
	regcache_put(&c, b); /* nobody can find it any more */
	ck_assert_int_eq(closed, 1);
	regcache_put(&c, d);
	regcache_put(&c, e);
	regcache_put(&c, f);
	ck_assert_int_eq(closed, 1);
}
END_TEST

START_TEST(a_longer_one_takes_the_place_of_an_idle_one)
{
	struct stmpi_net_mr *a;

	regcache_put(&c, get(0, 100));
	a = get(0, PAGE + 1);
	ck_assert_int_eq(opened, 2);
	ck_assert_int_eq(closed, 1);
	regcache_put(&c, a);
}
END_TEST

/* Ten thousand small messages wait: their pages are registered, once each. */
START_TEST(small_ones_share_their_pages)
{
	static struct stmpi_net_mr *held[8 * PAGE / 4];

	for (size_t i = 0; i < 8 * PAGE / 4; i++)
		held[i] = get(4 * i, 4);
	ck_assert_int_eq(opened, 8);
	for (size_t i = 0; i < 8 * PAGE / 4; i++)
		regcache_put(&c, held[i]);
	ck_assert_int_eq(closed, 4);
}
END_TEST

START_TEST(idle_ones_are_bounded_the_oldest_goes)
{
	for (size_t i = 0; i < 10; i++)
		regcache_put(&c, get(i * PAGE, 100));
	ck_assert_int_eq(closed, 6);
	regcache_put(&c, get(9 * PAGE, 100)); /* still there */
	ck_assert_int_eq(opened, 10);
	regcache_put(&c, get(0, 100)); /* long gone */
	ck_assert_int_eq(opened, 11);
}
END_TEST

START_TEST(those_in_use_stay)
{
	struct stmpi_net_mr *held[8], *again;

	for (size_t i = 0; i < 8; i++)
		held[i] = get(i * PAGE, 100);
	for (size_t i = 20; i < 30; i++)
		regcache_put(&c, get(i * PAGE, 100));
	ck_assert_int_eq(closed, 6);
	for (size_t i = 0; i < 8; i++) {
		again = get(i * PAGE, 100);
		ck_assert_uint_eq(again->key, held[i]->key);
		regcache_put(&c, again);
		regcache_put(&c, held[i]);
	}
}
END_TEST

START_TEST(a_failure_leaves_nothing)
{
	struct stmpi_net_mr *mr = NULL;

	fail_next = 1;
	ck_assert_int_eq(regcache_get(&c, memory, 10, &mr), -STMPI_ENET);
	ck_assert_ptr_null(mr);
	mr = get(0, 10);
	regcache_put(&c, mr);
	ck_assert_int_eq(opened, 1);
}
END_TEST

/* Where the network card holds pages, nothing is kept: each user's registration is fresh. */
START_TEST(nothing_is_kept_when_idle_is_zero)
{
	struct stmpi_net_mr *a, *b;

	regcache_fini(&c);
	regcache_init(&c, 0, fake_open, fake_close, &opened);
	a = get(0, 1000);
	b = get(0, 1000);
	ck_assert_uint_ne(a->key, b->key);
	regcache_put(&c, a);
	regcache_put(&c, b);
	ck_assert_int_eq(closed, 2);
	regcache_put(&c, get(0, 1000));
	ck_assert_int_eq(opened, 3);
	ck_assert_int_eq(closed, 3);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("regcache");
	TCase *t = tcase_create("regcache");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, same_range_is_registered_once);
	tcase_add_test(t, a_part_is_covered_an_overlap_is_not);
	tcase_add_test(t, a_longer_one_takes_the_place_of_an_idle_one);
	tcase_add_test(t, small_ones_share_their_pages);
	tcase_add_test(t, idle_ones_are_bounded_the_oldest_goes);
	tcase_add_test(t, those_in_use_stay);
	tcase_add_test(t, a_failure_leaves_nothing);
	tcase_add_test(t, nothing_is_kept_when_idle_is_zero);
	suite_add_tcase(s, t);
	return run_suite(s);
}
