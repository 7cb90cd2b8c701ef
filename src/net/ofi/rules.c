/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules.c: the rules of deferred work. Each is there for a provider that refuses the work, or
 * worse, takes it and then crashes, hangs or miscounts. On the path of enqueueing.
 */
#include "net/ofi/rules.h"

#include "net/ofi/counter.h"
#include "util/compiler.h"
#include "util/error.h"

/* Each name is a rule, with the reason for it. */

static const char known_kind[] = "operation kind known";
static const char described[] = "operation described";
/* cxi queues a receive only with threshold 0, which is a plain receive: no deferred one at all. */
static const char no_receive[] = "no receive";
/* sockets counts in 32 bits with a sign: a work with a threshold from 2^31 on starts at once. One
 * with threshold 0 starts inside FI_QUEUE_WORK, so is not deferred. */
static const char small_threshold[] = "threshold from 1 to INT32_MAX";
static const char has_trigger[] = "triggering counter present";
/* cxi can do without; sockets does not look: SIGSEGV in its progress thread. */
static const char has_completion[] = "completion counter present";
/* cxi refuses one. */
static const char no_completion[] = "no completion counter for a counter operation";
static const char has_target[] = "counter to change present";
static const char ours[] = "a counter of ours";
/* sockets adds under the counter's lock while it starts the works of that counter: deadlock. */
static const char other_completion[] = "completion counter is not the triggering one";
static const char trigger_role[] = "triggering counter of role TRIGGER";
/* A completion counter starts nothing. That is also why no SEND is followed by another work: on
 * sockets, completing a SEND and starting a work on the same endpoint take the same lock. */
static const char completion_role[] = "completion counter of role COMPLETION";
static const char target_role[] = "counter operation on a counter of role TRIGGER";
/* Ranks rise along every chain, so there is no cycle: sockets holds the locks of all counters of a
 * chain, and comes back to the first in a cycle. cxi would count for ever. */
static const char higher_rank[] = "counter operation on a counter of higher rank";
static const char small_value[] = "counter value up to INT32_MAX";
/* Two that add cannot be told apart: with threshold 2i, one that runs ahead supplies both counts,
 * and data moves before the other is ready. So each counter waits for 2 (a ring of counters), ...
 */
static const char two_at_two[] = "threshold 2 on a counter with two sources";
/* ... and for nothing else at the same time. */
static const char two_at_once[] = "one pending threshold on a counter with two sources";
/* Works of another endpoint are not counted in armed. On cxi it may also have another VNI or
 * traffic class than the domain's queue of triggered commands, which is refused. */
static const char own_endpoint[] = "the rail's own endpoint";
/* sockets refuses another. */
static const char own_context[] = "context is the work's own";
/* cxi refuses FI_INJECT (the data would have to be kept), FI_FENCE and FI_REMOTE_CQ_DATA; its own
 * FI_CXI_CNTR_WB takes two of its entries, and a credit is one. */
static const char plain_flags[] = "flags: only MORE, COMPLETION and kinds of completion";
/* cxi does these with a second operation, which the target would count too: so it refuses them on
 * endpoints with FI_RMA_EVENT, as ours. */
static const char fetch_flags[] = "fetching atomic without delivery or match complete";
static const char one_iov[] = "one iov";
/* Both take memory that is not. But it is read long after the call, and what we hold registered is
 * still there then. */
static const char registered[] = "local memory registered";
static const char one_remote[] = "one remote iov";
/* cxi has only the local one. sockets sends both, and compares them in debug builds only. */
static const char same_length[] = "local and remote length the same";
static const char one_element[] = "atomic of one element";
/* From the rendezvous threshold on, cxi counts the SEND in software, when somebody makes progress.
 */
static const char short_send[] = "SEND no longer than the NIC offloads";
/* cxi has a fixed number of entries, and past it is undefined; sockets forgets to start works that
 * one addition releases beyond the 2520 that its ring takes. */
static const char has_credit[] = "armed below credits";

const char *const ofi_rules_names[] = {
	known_kind,    described,   no_receive,	 small_threshold,  has_trigger,	 has_completion,
	no_completion, has_target,  ours,	 other_completion, trigger_role, completion_role,
	target_role,   higher_rank, small_value, two_at_two,	   two_at_once,	 own_endpoint,
	own_context,   plain_flags, fetch_flags, one_iov,	   registered,	 one_remote,
	same_length,   one_element, short_send,	 has_credit,	   NULL,
};

#define FLAGS_DELIVERED (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define FLAGS_ALLOWED	(FI_MORE | FI_COMPLETION | FI_TRANSMIT_COMPLETE | FLAGS_DELIVERED)

/* Sets of kinds. */
#define SET(kind)	(1u << (kind))
#define SET_RECEIVES	(SET(FI_OP_RECV) | SET(FI_OP_TRECV))
#define SET_SENDS	(SET(FI_OP_SEND) | SET(FI_OP_TSEND))
#define SET_RMA		(SET(FI_OP_READ) | SET(FI_OP_WRITE))
#define SET_FETCHES	(SET(FI_OP_FETCH_ATOMIC) | SET(FI_OP_COMPARE_ATOMIC))
#define SET_ATOMICS	(SET(FI_OP_ATOMIC) | SET_FETCHES)
#define SET_COUNTER_OPS (SET(FI_OP_CNTR_SET) | SET(FI_OP_CNTR_ADD))

/* One array of pieces of memory. */
struct piece {
	size_t count;
	size_t length; /* of the first: bytes, or elements of an atomic; 0 when there is none */
	void *const *desc;
};

/* What all kinds of data operation have; starts with one local piece. */
struct view {
	const struct fid_ep *ep;
	const void *context;
	uint64_t flags;
	struct piece local[3]; /* source or destination, result, operand to compare with */
	unsigned locals;
	struct piece remote;
};

static struct piece of_iov(const struct iovec *iov, size_t count, void *const *desc)
{
	if (iov == NULL || count == 0)
		return (struct piece){.count = 0};
	return (struct piece){.count = count, .length = iov->iov_len, .desc = desc};
}

static struct piece of_ioc(const struct fi_ioc *ioc, size_t count, void *const *desc)
{
	if (ioc == NULL || count == 0)
		return (struct piece){.count = 0};
	return (struct piece){.count = count, .length = ioc->count, .desc = desc};
}

static struct piece of_rma_iov(const struct fi_rma_iov *iov, size_t count)
{
	if (iov == NULL || count == 0)
		return (struct piece){.count = 0};
	return (struct piece){.count = count, .length = iov->len};
}

static struct piece of_rma_ioc(const struct fi_rma_ioc *ioc, size_t count)
{
	if (ioc == NULL || count == 0)
		return (struct piece){.count = 0};
	return (struct piece){.count = count, .length = ioc->count};
}

static void view_atomic(struct view *v, const struct fid_ep *ep, const struct fi_msg_atomic *m,
			uint64_t flags)
{
	v->ep = ep;
	v->context = m->context;
	v->flags = flags;
	v->local[0] = of_ioc(m->msg_iov, m->iov_count, m->desc);
	v->remote = of_rma_ioc(m->rma_iov, m->rma_iov_count);
}

static void view_fetch(struct view *v, const struct fi_msg_fetch *m)
{
	v->local[v->locals++] = of_ioc(m->msg_iov, m->iov_count, m->desc);
}

static void view_compare(struct view *v, const struct fi_msg_compare *m)
{
	v->local[v->locals++] = of_ioc(m->msg_iov, m->iov_count, m->desc);
}

static void view_work(struct view *v, const struct fi_deferred_work *work)
{
	const struct fi_op_msg *msg = work->op.msg;
	const struct fi_op_tagged *tagged = work->op.tagged;
	const struct fi_op_rma *rma = work->op.rma;
	const struct fi_op_atomic *atomic = work->op.atomic;
	const struct fi_op_fetch_atomic *fetch = work->op.fetch_atomic;
	const struct fi_op_compare_atomic *compare = work->op.compare_atomic;

	switch (work->op_type) {
	case FI_OP_SEND:
		v->ep = msg->ep;
		v->context = msg->msg.context;
		v->flags = msg->flags;
		v->local[0] = of_iov(msg->msg.msg_iov, msg->msg.iov_count, msg->msg.desc);
		break;
	case FI_OP_TSEND:
		v->ep = tagged->ep;
		v->context = tagged->msg.context;
		v->flags = tagged->flags;
		v->local[0] = of_iov(tagged->msg.msg_iov, tagged->msg.iov_count, tagged->msg.desc);
		break;
	case FI_OP_READ:
	case FI_OP_WRITE:
		v->ep = rma->ep;
		v->context = rma->msg.context;
		v->flags = rma->flags;
		v->local[0] = of_iov(rma->msg.msg_iov, rma->msg.iov_count, rma->msg.desc);
		v->remote = of_rma_iov(rma->msg.rma_iov, rma->msg.rma_iov_count);
		break;
	case FI_OP_ATOMIC:
		view_atomic(v, atomic->ep, &atomic->msg, atomic->flags);
		break;
	case FI_OP_FETCH_ATOMIC:
		view_atomic(v, fetch->ep, &fetch->msg, fetch->flags);
		view_fetch(v, &fetch->fetch);
		break;
	default: /* FI_OP_COMPARE_ATOMIC */
		view_atomic(v, compare->ep, &compare->msg, compare->flags);
		view_fetch(v, &compare->fetch);
		view_compare(v, &compare->compare);
		break;
	}
}

/* NULL when it is not ours. */
static const struct ofi_counter *counter_of(const struct fid_cntr *cntr)
{
	const struct ofi_counter *c = cntr->fid.context;

	return c != NULL && c->cntr == cntr ? c : NULL;
}

static const char *check_trigger(const struct fi_deferred_work *work)
{
	const struct ofi_counter *c;

	if (work->threshold < 1 || work->threshold > INT32_MAX)
		return small_threshold;
	if (work->triggering_cntr == NULL)
		return has_trigger;
	c = counter_of(work->triggering_cntr);
	if (c == NULL)
		return ours;
	if (c->role != OFI_COUNTER_TRIGGER)
		return trigger_role;
	if (c->sources < 2)
		return NULL;
	if (work->threshold != 2)
		return two_at_two;
	if (c->pending > 0 && c->pending_threshold != work->threshold)
		return two_at_once;
	return NULL;
}

static const char *check_completion(const struct fi_deferred_work *work)
{
	const struct ofi_counter *c;

	if (work->completion_cntr == NULL)
		return has_completion;
	if (work->completion_cntr == work->triggering_cntr)
		return other_completion;
	c = counter_of(work->completion_cntr);
	if (c == NULL)
		return ours;
	return c->role == OFI_COUNTER_COMPLETION ? NULL : completion_role;
}

static const char *check_counter_op(const struct fi_deferred_work *work)
{
	const struct ofi_counter *trigger = work->triggering_cntr->fid.context; /* checked */
	const struct fi_op_cntr *op = work->op.cntr;
	const struct ofi_counter *c;

	if (work->completion_cntr != NULL)
		return no_completion;
	if (op->cntr == NULL)
		return has_target;
	c = counter_of(op->cntr);
	if (c == NULL)
		return ours;
	if (c->role != OFI_COUNTER_TRIGGER)
		return target_role;
	if (c->rank <= trigger->rank)
		return higher_rank;
	return op->value <= INT32_MAX ? NULL : small_value;
}

static const char *check_data(const struct ofi_rules *rules, const struct fi_deferred_work *work)
{
	const uint32_t kind = SET(work->op_type);
	struct view v = {.locals = 1};

	view_work(&v, work);
	if (v.ep != rules->ep)
		return own_endpoint;
	if (v.context != &work->context)
		return own_context;
	if (v.flags & ~FLAGS_ALLOWED)
		return plain_flags;
	if (kind & SET_FETCHES && v.flags & FLAGS_DELIVERED)
		return fetch_flags;
	for (unsigned i = 0; i < v.locals; i++) {
		if (v.local[i].count != 1)
			return one_iov;
		if (v.local[i].desc == NULL || v.local[i].desc[0] == NULL)
			return registered;
		if (kind & SET_ATOMICS && v.local[i].length != 1)
			return one_element;
	}
	if (kind & SET_SENDS)
		return v.local[0].length <= rules->send_max ? NULL : short_send;
	if (v.remote.count != 1)
		return one_remote;
	if (v.remote.length != v.local[0].length)
		return kind & SET_RMA ? same_length : one_element;
	return NULL;
}

const char *ofi_rules_check(const struct ofi_rules *rules, const struct fi_deferred_work *work)
{
	const char *broken;

	if ((unsigned)work->op_type > FI_OP_CNTR_ADD)
		return known_kind;
	if (SET(work->op_type) & SET_RECEIVES)
		return no_receive;
	if (work->op.msg == NULL)
		return described;
	broken = check_trigger(work);
	if (broken != NULL)
		return broken;
	if (SET(work->op_type) & SET_COUNTER_OPS) {
		broken = check_counter_op(work);
	} else {
		broken = check_completion(work);
		if (broken == NULL)
			broken = check_data(rules, work);
	}
	if (broken != NULL)
		return broken;
	return rules->armed < rules->credits ? NULL : has_credit;
}

int ofi_rules_enforce(const struct ofi_rules *rules, const struct fi_deferred_work *work)
{
	const char *broken = ofi_rules_check(rules, work);

	if (stmpi_likely(broken == NULL))
		return 0;
	return stmpi_error_set(STMPI_EINVAL,
			       "internal error: a deferred work breaks the rule \"%s\"", broken);
}
