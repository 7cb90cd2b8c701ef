/* SPDX-License-Identifier: BSD-3-Clause */
/* test_doorbell.c: the doorbells over a counter that counts calls, and a fake of cxi's extension.
 */
#include "../suite.h"

#include <stdlib.h>
#include <string.h>

#include "net/ofi/counter.h"
#include "net/ofi/cxi.h"
#include "net/ofi/ofi_int.h"
#include "stmpi.h"
#include "util/error.h"

/* ---- fakes ---- */

static uint64_t added;
static unsigned adds, opens, gets;
static int open_ret, get_ret;	     /* what the provider answers */
static void *given_ops, *given_addr; /* and gives */
static uint64_t page[512];

static int fake_add(struct fid_cntr *fid, uint64_t value)
{
	(void)fid;
	adds++;
	added += value;
	return 0;
}

static struct fi_ops_cntr cntr_ops = {.size = sizeof(cntr_ops), .add = fake_add};
static struct fid_cntr fid;
static struct ofi_counter c;

static int fake_get_mmio_addr(struct fid *f, void **addr, size_t *len)
{
	ck_assert_ptr_eq(f, &fid.fid);
	gets++;
	if (get_ret != 0)
		return get_ret;
	*addr = given_addr;
	*len = sizeof(*addr); /* as cxi does, for a page */
	return 0;
}

/* The order of cxi's table. */
static struct {
	int (*set_wb_buffer)(struct fid *f, void *buf, size_t len);
	int (*get_mmio_addr)(struct fid *f, void **addr, size_t *len);
} cxi_ops = {NULL, fake_get_mmio_addr};

static int fake_ops_open(struct fid *f, const char *name, uint64_t flags, void **ops, void *context)
{
	ck_assert_ptr_eq(f, &fid.fid);
	ck_assert_str_eq(name, "cxi_counter_ops");
	ck_assert_uint_eq(flags, 0);
	ck_assert_ptr_null(context);
	opens++;
	if (open_ret == 0)
		*ops = given_ops;
	return open_ret;
}

static struct fi_ops fid_ops = {.size = sizeof(fid_ops), .ops_open = fake_ops_open};

static const char *fake_strerror(int error)
{
	return error == FI_ENOSYS ? "fake ENOSYS" : "fake EINVAL";
}

/* Instead of dl.c's: no library is loaded. */
const struct ofi_dl *ofi_dl_get(void)
{
	static const struct ofi_dl dl = {.strerror = fake_strerror};

	return &dl;
}

static void set_up(void)
{
	added = adds = opens = gets = 0;
	open_ret = get_ret = 0;
	given_ops = &cxi_ops;
	given_addr = page;
	memset(page, 0, sizeof(page));
	fid = (struct fid_cntr){.fid = {.ops = &fid_ops, .context = &c}, .ops = &cntr_ops};
	c = (struct ofi_counter){.cntr = &fid, .role = OFI_COUNTER_TRIGGER, .sources = 1};
}

/* Nothing but its first word is written. */
static void check_page(uint64_t first)
{
	ck_assert_uint_eq(page[0], first);
	for (size_t i = 1; i < stmpi_array_len(page); i++)
		ck_assert_uint_eq(page[i], 0);
}

/* ---- tests ---- */

static void check_calls(const struct ofi_doorbell_ops *d)
{
	c.doorbell = d;
	c.mmio = page;
	ck_assert_int_eq(d->open(&c), 0);
	ck_assert_ptr_null((const void *)c.mmio);
	ck_assert_uint_eq(adds, 0);
	d->ring(&c, 1);
	ck_assert_uint_eq(added, 1);
	d->ring(&c, 5);
	d->ring(&c, INT32_MAX);
	ck_assert_uint_eq(added, UINT64_C(6) + INT32_MAX);
	ck_assert_uint_eq(adds, 3);
	ck_assert_uint_eq(opens, 0);
	check_page(0);
}

START_TEST(worker_and_word_call_the_provider)
{
	check_calls(&ofi_doorbell_worker);
	set_up();
	check_calls(&ofi_doorbell_word);
}
END_TEST

START_TEST(mmio_stores)
{
	c.doorbell = &ofi_doorbell_mmio;
	ck_assert_int_eq(c.doorbell->open(&c), 0);
	ck_assert_uint_eq(opens, 1);
	ck_assert_uint_eq(gets, 1);
	ck_assert_ptr_eq((const void *)c.mmio, page);
	check_page(0);
	c.doorbell->ring(&c, 1);
	check_page(1);
	c.doorbell->ring(&c, INT32_MAX); /* the store is the addition: memory keeps the last */
	check_page(INT32_MAX);
	ck_assert_uint_eq(adds, 0);
}
END_TEST

static void check_no_mmio(const char *text)
{
	ck_assert_int_eq(ofi_doorbell_mmio.open(&c), -STMPI_ENODEV);
	ck_assert_str_eq(stmpi_error_text(), text);
	ck_assert_ptr_null((const void *)c.mmio);
	check_page(0);
}

START_TEST(mmio_without_the_extension)
{
	open_ret = -FI_ENOSYS;
	check_no_mmio("fi_open_ops(\"cxi_counter_ops\") on a counter: fake ENOSYS");
	ck_assert_uint_eq(gets, 0);
}
END_TEST

START_TEST(mmio_with_an_empty_extension)
{
	given_ops = NULL;
	check_no_mmio("fi_open_ops(\"cxi_counter_ops\") on a counter gave no get_mmio_addr");
	given_ops = page;
	check_no_mmio("fi_open_ops(\"cxi_counter_ops\") on a counter gave no get_mmio_addr");
}
END_TEST

START_TEST(mmio_without_an_address)
{
	get_ret = -FI_EINVAL;
	check_no_mmio("cxi's get_mmio_addr: fake EINVAL");
	get_ret = 0;
	given_addr = NULL;
	ck_assert_int_eq(ofi_doorbell_mmio.open(&c), -STMPI_ENODEV);
	ck_assert_ptr_nonnull(strstr(stmpi_error_text(), "get_mmio_addr"));
	given_addr = (char *)page + 4;
	ck_assert_int_eq(ofi_doorbell_mmio.open(&c), -STMPI_ENODEV);
	ck_assert_ptr_nonnull(strstr(stmpi_error_text(), "get_mmio_addr"));
	ck_assert_ptr_null((const void *)c.mmio);
}
END_TEST

START_TEST(choice)
{
	ck_assert_ptr_eq(ofi_doorbell_choose(0, 0), &ofi_doorbell_word);
	ck_assert_ptr_eq(ofi_doorbell_choose(0, 1), &ofi_doorbell_worker);
	ck_assert_ptr_eq(ofi_doorbell_choose(1, 0), &ofi_doorbell_mmio);
	ck_assert_ptr_eq(ofi_doorbell_choose(1, 1), &ofi_doorbell_mmio);
	ck_assert_int_eq(ofi_doorbell_worker.is_callable, 1);
	ck_assert_int_eq(ofi_doorbell_word.is_callable, 0);
	ck_assert_int_eq(ofi_doorbell_mmio.is_callable, 0);
	ck_assert_str_eq(ofi_doorbell_worker.name, "worker");
	ck_assert_str_eq(ofi_doorbell_word.name, "word");
	ck_assert_str_eq(ofi_doorbell_mmio.name, "mmio");
}
END_TEST

/* Words as the NIC writes them: successes, failures above them, and the top bit. */
START_TEST(written_values)
{
	ck_assert_uint_eq(ofi_cxi_success(UINT64_C(0x8000000000000007)), 7);
	ck_assert_uint_eq(ofi_cxi_failure(UINT64_C(0x8000000000000007)), 0);
	ck_assert_uint_eq(ofi_cxi_success(UINT64_C(0x8003ffffffffffff)), OFI_CXI_SUCCESS_MAX);
	ck_assert_uint_eq(ofi_cxi_failure(UINT64_C(0x8003ffffffffffff)), 3);
	ck_assert_uint_eq(ofi_cxi_failure(UINT64_C(0xffff000000000000)), OFI_CXI_FAILURE_MAX);
	ck_assert_uint_eq(ofi_cxi_failure(UINT64_C(0xff80000000000000)), 0);
	ck_assert_uint_eq(ofi_cxi_success(UINT64_C(0xffff000000000000)), 0);
	ck_assert_int_eq(ofi_cxi_is_written(UINT64_C(0x7fffffffffffffff)), 0);
	ck_assert_int_eq(ofi_cxi_is_written(UINT64_C(0x8000000000000000)), 1);
	ck_assert_uint_eq(ofi_cxi_written(7), UINT64_C(0x8000000000000007));
	ck_assert_uint_eq(OFI_CXI_SUCCESS_MAX, UINT64_C(281474976710655));
	ck_assert_uint_eq(OFI_CXI_FAILURE_MAX, 127);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("doorbell");
	TCase *t = tcase_create("doorbell");

	tcase_add_checked_fixture(t, set_up, NULL);
	tcase_add_test(t, worker_and_word_call_the_provider);
	tcase_add_test(t, mmio_stores);
	tcase_add_test(t, mmio_without_the_extension);
	tcase_add_test(t, mmio_with_an_empty_extension);
	tcase_add_test(t, mmio_without_an_address);
	tcase_add_test(t, choice);
	tcase_add_test(t, written_values);
	suite_add_tcase(s, t);
	return run_suite(s);
}
