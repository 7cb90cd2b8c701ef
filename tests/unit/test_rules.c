/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rules.c: the rules of deferred work, each from both sides: a good work of each kind, changes
 * that break one rule, and the nearest ones that do not. */
#include "../suite.h"

#include <stdlib.h>
#include <string.h>

#include "net/ofi/counter.h"
#include "net/ofi/rules.h"
#include "stmpi.h"
#include "util/compiler.h"
#include "util/error.h"

#define SEND_MAX 1000u

/* Sets of kinds. */
#define SET(kind)     (1u << (kind))
#define SENDS	      (SET(FI_OP_SEND) | SET(FI_OP_TSEND))
#define RMA	      (SET(FI_OP_READ) | SET(FI_OP_WRITE))
#define FETCHES	      (SET(FI_OP_FETCH_ATOMIC) | SET(FI_OP_COMPARE_ATOMIC))
#define ATOMICS	      (SET(FI_OP_ATOMIC) | FETCHES)
#define DATA	      (SENDS | RMA | ATOMICS)
#define COUNTER_OPS   (SET(FI_OP_CNTR_SET) | SET(FI_OP_CNTR_ADD))
#define ALL	      (DATA | COUNTER_OPS)
#define KINDS	      (FI_OP_CNTR_ADD + 1)
#define FLAGS_ALLOWED (FI_MORE | FI_COMPLETION | FI_TRANSMIT_COMPLETE)

/* ---- a good work ---- */

static struct ofi_rules rules;
static struct fi_deferred_work work;
static struct fid_ep our_ep, other_ep;
static struct fid_cntr trigger_fid, completion_fid, target_fid;
static struct ofi_counter trigger, completion, target;

static struct iovec iov;
static struct fi_rma_iov rma_iov;
static struct fi_ioc source, result, operand;
static struct fi_rma_ioc rma_ioc;
static void *source_desc[1], *result_desc[1], *operand_desc[1];

static struct fi_op_msg msg;
static struct fi_op_tagged tagged;
static struct fi_op_rma rma;
static struct fi_op_atomic atomic;
static struct fi_op_fetch_atomic fetch;
static struct fi_op_compare_atomic compare;
static struct fi_op_cntr cntr;

/* Where the fields are in the operation of the kind that was made. */
static struct {
	struct fid_ep **ep;
	uint64_t *flags;
	void **context;
	size_t *count, *remote_count, *result_count;
	void ***desc, ***result_desc;
} at;

static void make_counter(struct ofi_counter *c, struct fid_cntr *fid, enum ofi_counter_role role,
			 uint32_t rank)
{
	memset(c, 0, sizeof(*c));
	memset(fid, 0, sizeof(*fid));
	fid->fid.context = c;
	c->cntr = fid;
	c->role = role;
	c->rank = rank;
	c->sources = 1;
}

static void make_atomic(struct fi_msg_atomic *m)
{
	*m = (struct fi_msg_atomic){.msg_iov = &source,
				    .desc = source_desc,
				    .iov_count = 1,
				    .rma_iov = &rma_ioc,
				    .rma_iov_count = 1,
				    .datatype = FI_UINT64,
				    .op = FI_SUM,
				    .context = &work.context};
	at.context = &m->context;
	at.count = &m->iov_count;
	at.desc = &m->desc;
	at.remote_count = &m->rma_iov_count;
}

static void make_fetch(struct fi_msg_fetch *m)
{
	*m = (struct fi_msg_fetch){.msg_iov = &result, .desc = result_desc, .iov_count = 1};
	at.result_count = &m->iov_count;
	at.result_desc = &m->desc;
}

static void make_send(void)
{
	msg = (struct fi_op_msg){.ep = &our_ep,
				 .msg = {.msg_iov = &iov,
					 .desc = source_desc,
					 .iov_count = 1,
					 .context = &work.context}};
	work.op.msg = &msg;
	at.ep = &msg.ep;
	at.flags = &msg.flags;
	at.context = &msg.msg.context;
	at.count = &msg.msg.iov_count;
	at.desc = &msg.msg.desc;
}

static void make_tsend(void)
{
	tagged = (struct fi_op_tagged){.ep = &our_ep,
				       .msg = {.msg_iov = &iov,
					       .desc = source_desc,
					       .iov_count = 1,
					       .tag = 7,
					       .context = &work.context}};
	work.op.tagged = &tagged;
	at.ep = &tagged.ep;
	at.flags = &tagged.flags;
	at.context = &tagged.msg.context;
	at.count = &tagged.msg.iov_count;
	at.desc = &tagged.msg.desc;
}

static void make_rma(void)
{
	rma = (struct fi_op_rma){.ep = &our_ep,
				 .msg = {.msg_iov = &iov,
					 .desc = source_desc,
					 .iov_count = 1,
					 .rma_iov = &rma_iov,
					 .rma_iov_count = 1,
					 .context = &work.context}};
	work.op.rma = &rma;
	at.ep = &rma.ep;
	at.flags = &rma.flags;
	at.context = &rma.msg.context;
	at.count = &rma.msg.iov_count;
	at.desc = &rma.msg.desc;
	at.remote_count = &rma.msg.rma_iov_count;
}

static void make_plain_atomic(void)
{
	atomic = (struct fi_op_atomic){.ep = &our_ep};
	make_atomic(&atomic.msg);
	work.op.atomic = &atomic;
	at.ep = &atomic.ep;
	at.flags = &atomic.flags;
}

static void make_fetch_atomic(void)
{
	fetch = (struct fi_op_fetch_atomic){.ep = &our_ep};
	make_atomic(&fetch.msg);
	make_fetch(&fetch.fetch);
	work.op.fetch_atomic = &fetch;
	at.ep = &fetch.ep;
	at.flags = &fetch.flags;
}

static void make_compare_atomic(void)
{
	compare = (struct fi_op_compare_atomic){
		.ep = &our_ep,
		.compare = {.msg_iov = &operand, .desc = operand_desc, .iov_count = 1}};
	make_atomic(&compare.msg);
	make_fetch(&compare.fetch);
	work.op.compare_atomic = &compare;
	at.ep = &compare.ep;
	at.flags = &compare.flags;
}

static void make_cntr(void)
{
	cntr = (struct fi_op_cntr){.cntr = &target_fid, .value = 1};
	work.op.cntr = &cntr;
	work.completion_cntr = NULL;
}

static void make(unsigned kind)
{
	static int some_memory;
	static void (*const makers[KINDS])(void) = {
		[FI_OP_SEND] = make_send,
		[FI_OP_TSEND] = make_tsend,
		[FI_OP_READ] = make_rma,
		[FI_OP_WRITE] = make_rma,
		[FI_OP_ATOMIC] = make_plain_atomic,
		[FI_OP_FETCH_ATOMIC] = make_fetch_atomic,
		[FI_OP_COMPARE_ATOMIC] = make_compare_atomic,
		[FI_OP_CNTR_SET] = make_cntr,
		[FI_OP_CNTR_ADD] = make_cntr,
	};

	make_counter(&trigger, &trigger_fid, OFI_COUNTER_TRIGGER, 3);
	make_counter(&completion, &completion_fid, OFI_COUNTER_COMPLETION, 0);
	make_counter(&target, &target_fid, OFI_COUNTER_TRIGGER, 4);
	rules = (struct ofi_rules){.ep = &our_ep, .send_max = SEND_MAX, .armed = 5, .credits = 10};
	iov = (struct iovec){.iov_base = &some_memory, .iov_len = 8};
	rma_iov = (struct fi_rma_iov){.addr = 64, .len = 8, .key = 1};
	source = result = operand = (struct fi_ioc){.addr = &some_memory, .count = 1};
	rma_ioc = (struct fi_rma_ioc){.addr = 64, .count = 1, .key = 1};
	source_desc[0] = result_desc[0] = operand_desc[0] = &some_memory;
	memset(&at, 0, sizeof(at));
	work = (struct fi_deferred_work){.threshold = 1,
					 .triggering_cntr = &trigger_fid,
					 .completion_cntr = &completion_fid,
					 .op_type = (enum fi_op_type)kind};
	makers[kind]();
}

/* ---- changes ---- */

#define CHANGE(name, statements)                                                                   \
	static void name(void)                                                                     \
	{                                                                                          \
		statements;                                                                        \
	}

CHANGE(kind_above, work.op_type = (enum fi_op_type)KINDS)
CHANGE(kind_far_above, work.op_type = (enum fi_op_type)32)
CHANGE(kind_recv, work.op_type = FI_OP_RECV)
CHANGE(kind_trecv, work.op_type = FI_OP_TRECV)
CHANGE(op_null, work.op.msg = NULL)

CHANGE(threshold_0, work.threshold = 0)
CHANGE(threshold_max, work.threshold = INT32_MAX)
CHANGE(threshold_above, work.threshold = UINT64_C(1) << 31)
CHANGE(threshold_32_bits, work.threshold = (UINT64_C(1) << 32) + 1)

CHANGE(trigger_null, work.triggering_cntr = NULL)
CHANGE(trigger_plain, trigger_fid.fid.context = NULL)
CHANGE(trigger_foreign, trigger_fid.fid.context = &target)
CHANGE(trigger_completion, trigger.role = OFI_COUNTER_COMPLETION)

CHANGE(completion_null, work.completion_cntr = NULL)
CHANGE(completion_given, work.completion_cntr = &completion_fid)
CHANGE(completion_same, work.completion_cntr = &trigger_fid)
CHANGE(completion_plain, completion_fid.fid.context = NULL)
CHANGE(completion_foreign, completion_fid.fid.context = &target)
CHANGE(completion_trigger, work.completion_cntr = &target_fid)

CHANGE(target_null, cntr.cntr = NULL)
CHANGE(target_plain, target_fid.fid.context = NULL)
CHANGE(target_foreign, target_fid.fid.context = &trigger)
CHANGE(target_completion, target.role = OFI_COUNTER_COMPLETION)
CHANGE(target_self, cntr.cntr = &trigger_fid)
CHANGE(target_level, target.rank = trigger.rank)
CHANGE(target_lower, target.rank = trigger.rank - 1)
CHANGE(target_far, target.rank = UINT32_MAX)
CHANGE(value_0, cntr.value = 0)
CHANGE(value_max, cntr.value = INT32_MAX)
CHANGE(value_above, cntr.value = UINT64_C(1) << 31)

CHANGE(two_1, trigger.sources = 2)
CHANGE(two_2, trigger.sources = 2; work.threshold = 2)
CHANGE(two_4, trigger.sources = 2; work.threshold = 4)
CHANGE(two_4_both, two_4(); trigger.pending = 1; trigger.pending_threshold = 4)
CHANGE(two_2_after_4, two_2(); trigger.pending = 1; trigger.pending_threshold = 4)
CHANGE(two_2_after_2, two_2(); trigger.pending = 3; trigger.pending_threshold = 2)
CHANGE(two_2_past_4, two_2(); trigger.pending = 0; trigger.pending_threshold = 4)
CHANGE(one_2_after_4, work.threshold = 2; trigger.pending = 1; trigger.pending_threshold = 4)

CHANGE(ep_null, *at.ep = NULL)
CHANGE(ep_other, *at.ep = &other_ep)
CHANGE(context_null, *at.context = NULL)
CHANGE(context_next, *at.context = &work.threshold)

CHANGE(flag_inject, *at.flags |= FI_INJECT)
CHANGE(flag_inject_complete, *at.flags |= FI_INJECT_COMPLETE)
CHANGE(flag_fence, *at.flags |= FI_FENCE)
CHANGE(flag_remote_data, *at.flags |= FI_REMOTE_CQ_DATA)
CHANGE(flag_trigger, *at.flags |= FI_TRIGGER)
CHANGE(flag_cxi_wb, *at.flags |= UINT64_C(1) << 62)
CHANGE(flags_allowed, *at.flags |= FLAGS_ALLOWED)
CHANGE(flag_delivery, *at.flags |= FLAGS_ALLOWED | FI_DELIVERY_COMPLETE)
CHANGE(flag_match, *at.flags |= FLAGS_ALLOWED | FI_MATCH_COMPLETE)

CHANGE(iov_0, *at.count = 0)
CHANGE(iov_2, *at.count = 2)
CHANGE(iov_null, msg.msg.msg_iov = NULL)
CHANGE(iov_null_tagged, tagged.msg.msg_iov = NULL)
CHANGE(iov_null_rma, rma.msg.msg_iov = NULL)
CHANGE(iov_null_atomic, atomic.msg.msg_iov = NULL)
CHANGE(result_0, *at.result_count = 0)
CHANGE(result_2, *at.result_count = 2)
CHANGE(operand_0, compare.compare.iov_count = 0)
CHANGE(operand_2, compare.compare.iov_count = 2)

CHANGE(descs_null, *at.desc = NULL)
CHANGE(desc_null, source_desc[0] = NULL)
CHANGE(result_descs_null, *at.result_desc = NULL)
CHANGE(result_desc_null, result_desc[0] = NULL)
CHANGE(operand_descs_null, compare.compare.desc = NULL)
CHANGE(operand_desc_null, operand_desc[0] = NULL)

CHANGE(remote_0, *at.remote_count = 0)
CHANGE(remote_2, *at.remote_count = 2)
CHANGE(remote_null, rma.msg.rma_iov = NULL)
CHANGE(remote_null_atomic, atomic.msg.rma_iov = NULL)
CHANGE(remote_shorter, rma_iov.len = iov.iov_len - 1)
CHANGE(remote_longer, rma_iov.len = iov.iov_len + 1)
CHANGE(both_long, rma_iov.len = iov.iov_len = SIZE_MAX)
CHANGE(both_empty, rma_iov.len = iov.iov_len = 0)

CHANGE(elements_0, source.count = rma_ioc.count = 0)
CHANGE(elements_2, source.count = rma_ioc.count = 2)
CHANGE(elements_2_remote, rma_ioc.count = 2)
CHANGE(elements_0_remote, rma_ioc.count = 0)
CHANGE(elements_2_result, result.count = 2)
CHANGE(elements_2_operand, operand.count = 2)

CHANGE(send_max, iov.iov_len = SEND_MAX)
CHANGE(send_empty, iov.iov_len = 0)
CHANGE(send_above, iov.iov_len = SEND_MAX + 1)

CHANGE(credit_last, rules.armed = rules.credits - 1)
CHANGE(credits_gone, rules.armed = rules.credits)
CHANGE(credits_over, rules.armed = rules.credits + 1)
CHANGE(credits_none, rules.armed = rules.credits = 0)

/* ---- the tables ---- */

struct change {
	const char *rule; /* that it breaks */
	uint32_t kinds;	  /* in works of these kinds */
	void (*apply)(void);
};

static const struct change bad[] = {
	{"operation kind known", ALL, kind_above},
	{"operation kind known", ALL, kind_far_above},
	{"operation described", ALL, op_null},
	{"no receive", SET(FI_OP_SEND), kind_recv},
	{"no receive", SET(FI_OP_TSEND), kind_trecv},
	{"threshold from 1 to INT32_MAX", ALL, threshold_0},
	{"threshold from 1 to INT32_MAX", ALL, threshold_above},
	{"threshold from 1 to INT32_MAX", ALL, threshold_32_bits},
	{"triggering counter present", ALL, trigger_null},
	{"completion counter present", DATA, completion_null},
	{"no completion counter for a counter operation", COUNTER_OPS, completion_given},
	{"counter to change present", COUNTER_OPS, target_null},
	{"a counter of ours", ALL, trigger_plain},
	{"a counter of ours", ALL, trigger_foreign},
	{"a counter of ours", DATA, completion_plain},
	{"a counter of ours", DATA, completion_foreign},
	{"a counter of ours", COUNTER_OPS, target_plain},
	{"a counter of ours", COUNTER_OPS, target_foreign},
	{"completion counter is not the triggering one", DATA, completion_same},
	{"triggering counter of role TRIGGER", ALL, trigger_completion},
	{"completion counter of role COMPLETION", DATA, completion_trigger},
	{"counter operation on a counter of role TRIGGER", COUNTER_OPS, target_completion},
	{"counter operation on a counter of higher rank", COUNTER_OPS, target_self},
	{"counter operation on a counter of higher rank", COUNTER_OPS, target_level},
	{"counter operation on a counter of higher rank", COUNTER_OPS, target_lower},
	{"counter value up to INT32_MAX", COUNTER_OPS, value_above},
	{"threshold 2 on a counter with two sources", ALL, two_1},
	{"threshold 2 on a counter with two sources", ALL, two_4},
	{"threshold 2 on a counter with two sources", ALL, two_4_both},
	{"one pending threshold on a counter with two sources", ALL, two_2_after_4},
	{"the rail's own endpoint", DATA, ep_null},
	{"the rail's own endpoint", DATA, ep_other},
	{"context is the work's own", DATA, context_null},
	{"context is the work's own", DATA, context_next},
	{"flags: only MORE, COMPLETION and kinds of completion", DATA, flag_inject},
	{"flags: only MORE, COMPLETION and kinds of completion", DATA, flag_inject_complete},
	{"flags: only MORE, COMPLETION and kinds of completion", DATA, flag_fence},
	{"flags: only MORE, COMPLETION and kinds of completion", DATA, flag_remote_data},
	{"flags: only MORE, COMPLETION and kinds of completion", DATA, flag_trigger},
	{"flags: only MORE, COMPLETION and kinds of completion", DATA, flag_cxi_wb},
	{"fetching atomic without delivery or match complete", FETCHES, flag_delivery},
	{"fetching atomic without delivery or match complete", FETCHES, flag_match},
	{"one iov", DATA, iov_0},
	{"one iov", DATA, iov_2},
	{"one iov", SET(FI_OP_SEND), iov_null},
	{"one iov", SET(FI_OP_TSEND), iov_null_tagged},
	{"one iov", RMA, iov_null_rma},
	{"one iov", SET(FI_OP_ATOMIC), iov_null_atomic},
	{"one iov", FETCHES, result_0},
	{"one iov", FETCHES, result_2},
	{"one iov", SET(FI_OP_COMPARE_ATOMIC), operand_0},
	{"one iov", SET(FI_OP_COMPARE_ATOMIC), operand_2},
	{"local memory registered", DATA, descs_null},
	{"local memory registered", DATA, desc_null},
	{"local memory registered", FETCHES, result_descs_null},
	{"local memory registered", FETCHES, result_desc_null},
	{"local memory registered", SET(FI_OP_COMPARE_ATOMIC), operand_descs_null},
	{"local memory registered", SET(FI_OP_COMPARE_ATOMIC), operand_desc_null},
	{"one remote iov", RMA | ATOMICS, remote_0},
	{"one remote iov", RMA | ATOMICS, remote_2},
	{"one remote iov", RMA, remote_null},
	{"one remote iov", SET(FI_OP_ATOMIC), remote_null_atomic},
	{"local and remote length the same", RMA, remote_shorter},
	{"local and remote length the same", RMA, remote_longer},
	{"atomic of one element", ATOMICS, elements_0},
	{"atomic of one element", ATOMICS, elements_2},
	{"atomic of one element", ATOMICS, elements_0_remote},
	{"atomic of one element", ATOMICS, elements_2_remote},
	{"atomic of one element", FETCHES, elements_2_result},
	{"atomic of one element", SET(FI_OP_COMPARE_ATOMIC), elements_2_operand},
	{"SEND no longer than the NIC offloads", SENDS, send_above},
	{"armed below credits", ALL, credits_gone},
	{"armed below credits", ALL, credits_over},
	{"armed below credits", ALL, credits_none},
};

static const struct change legal[] = {
	{NULL, ALL, threshold_max},
	{NULL, COUNTER_OPS, target_far},
	{NULL, COUNTER_OPS, value_0},
	{NULL, COUNTER_OPS, value_max},
	{NULL, ALL, two_2},
	{NULL, ALL, two_2_after_2},
	{NULL, ALL, two_2_past_4},
	{NULL, ALL, one_2_after_4},
	{NULL, DATA, flags_allowed},
	{NULL, DATA & ~FETCHES, flag_delivery},
	{NULL, DATA & ~FETCHES, flag_match},
	{NULL, RMA, both_long},
	{NULL, RMA, both_empty},
	{NULL, SENDS, send_max},
	{NULL, SENDS, send_empty},
	{NULL, ALL, credit_last},
};

/* Is it one that rules.c can name? */
static int is_listed(const char *rule)
{
	for (size_t i = 0; ofi_rules_names[i] != NULL; i++)
		if (strcmp(ofi_rules_names[i], rule) == 0)
			return 1;
	return 0;
}

START_TEST(good_works_pass)
{
	for (unsigned kind = 0; kind < KINDS; kind++) {
		if (!(ALL & SET(kind)))
			continue;
		make(kind);
		ck_assert_msg(ofi_rules_check(&rules, &work) == NULL, "kind %u: \"%s\"", kind,
			      ofi_rules_check(&rules, &work));
		ck_assert_int_eq(ofi_rules_enforce(&rules, &work), 0);
	}
}
END_TEST

START_TEST(each_change_breaks_its_rule)
{
	const struct change *c = &bad[_i];

	ck_assert_msg(is_listed(c->rule), "\"%s\" is no rule", c->rule);
	for (unsigned kind = 0; kind < KINDS; kind++) {
		const char *broken;

		if (!(c->kinds & SET(kind)))
			continue;
		make(kind);
		c->apply();
		broken = ofi_rules_check(&rules, &work);
		ck_assert_msg(broken != NULL && strcmp(broken, c->rule) == 0,
			      "kind %u: \"%s\" instead of \"%s\"", kind,
			      broken != NULL ? broken : "nothing", c->rule);
	}
}
END_TEST

START_TEST(what_is_just_legal_passes)
{
	for (unsigned kind = 0; kind < KINDS; kind++) {
		const char *broken;

		if (!(legal[_i].kinds & SET(kind)))
			continue;
		make(kind);
		legal[_i].apply();
		broken = ofi_rules_check(&rules, &work);
		ck_assert_msg(broken == NULL, "kind %u: \"%s\"", kind, broken);
	}
}
END_TEST

START_TEST(each_rule_is_tested)
{
	for (size_t i = 0; ofi_rules_names[i] != NULL; i++) {
		int tests = 0;

		for (size_t j = 0; j < stmpi_array_len(bad); j++)
			tests += strcmp(bad[j].rule, ofi_rules_names[i]) == 0;
		ck_assert_msg(tests > 0, "no test of \"%s\"", ofi_rules_names[i]);
		for (size_t j = 0; j < i; j++)
			ck_assert_str_ne(ofi_rules_names[i], ofi_rules_names[j]);
	}
}
END_TEST

START_TEST(enforce_names_the_rule)
{
	make(FI_OP_WRITE);
	threshold_0();
	ck_assert_int_eq(ofi_rules_enforce(&rules, &work), -STMPI_EINVAL);
	ck_assert_str_eq(stmpi_error_text(), "internal error: a deferred work breaks the rule "
					     "\"threshold from 1 to INT32_MAX\"");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rules");
	TCase *t = tcase_create("rules");

	tcase_add_test(t, good_works_pass);
	tcase_add_loop_test(t, each_change_breaks_its_rule, 0, (int)stmpi_array_len(bad));
	tcase_add_loop_test(t, what_is_just_legal_passes, 0, (int)stmpi_array_len(legal));
	tcase_add_test(t, each_rule_is_tested);
	tcase_add_test(t, enforce_names_the_rule);
	suite_add_tcase(s, t);
	return run_suite(s);
}
