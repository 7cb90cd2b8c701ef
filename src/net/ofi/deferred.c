/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deferred.c: works that the provider fires by itself (FI_QUEUE_WORK): SENDs of whole packets that
 * wait for a counter which the stream bumps. fire, poll and fly are hot; arm is warm.
 *
 * A credit is a slot: the work, its packet buffer and its completion counter. Its counter says when
 * the packet has left; providers put no entry into the completion queue for a deferred work that
 * goes well, but one for a work that fails. A completion counter starts nothing: a SEND whose
 * completion fires another work on the same endpoint hangs the provider sockets.
 *
 * A line is a ring of trigger counters, each for a stretch of shots: shot k waits for
 * 1 + (k - 1) % stretch on the counter (k - 1) / stretch % ring. Short stretches, because sockets
 * walks a counter's works at every bump; and so no counter comes near the 31 bits that sockets
 * counts in. A counter is set back to 0 for its next stretch when its last one has been fired and
 * every work of it has ended.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "net/ofi/ofi_int.h"
#include "net/ofi/rules.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"
#include "util/params.h"

#define RING_MAX  16u
#define CLOSE_NS  2000000000u
#define LOOKS	  16u  /* fired works looked at in one poll */
#define DEPTH_MAX 500u /* what a cxi card gives to all processes of a node, less its reserve */
/* Half of the receives that a peer on sockets has posted; its ring takes 2520 works at once. */
#define SOCKETS_MAX 512u

enum slot_state {
	SLOT_FREE,
	SLOT_ARMED,
	SLOT_FLYING, /* fired; in the list */
	SLOT_LOST,   /* given up; the provider may still hold it, so it is not used again before it
			has ended */
};

struct slot {
	struct fi_deferred_work work; /* first: its context is what the provider gives back */
	struct fi_op_msg op;
	struct iovec iov;
	void *desc;
	struct ofi_counter done;
	uint32_t expected; /* value of `done` when it has ended; 32 bits, compared wrap-safe */
	enum slot_state state;
	struct ofi_wire *wire;
	struct stmpi_net_work *owner; /* NULL: nobody is to be told */
	struct stmpi_net_peer *peer;
	struct line *line;
	uint32_t counter; /* of the line */
	int ends_when_fired;
	struct slot *next, *prev;
};

struct line {
	struct stmpi_line line;
	struct ofi_rail *rail;
	uint64_t first; /* shot; the others are counted from it */
	struct ofi_counter counters[RING_MAX];
	struct line *next;
};

struct ofi_deferred {
	struct slot *slots, *free, *flying, *scan; /* flying: utlist DL; scan: where poll goes on */
	struct line *lines;
	unsigned char *slab;
	struct fid_mr *slab_mr;
	void *slab_desc;
	struct fid_cntr *kick; /* bound to the endpoint: reading it makes sockets send */
	struct ofi_rules rules;
	struct stmpi_defer_stats stats;
	uint32_t ring, stretch;
	int is_cxi;
	uint32_t flying_count;
};

uint64_t ofi_deferred_test_start;

static struct ofi_rail *of(struct stmpi_rail *rail)
{
	return (struct ofi_rail *)rail;
}

static struct line *line_of(struct stmpi_line *line)
{
	return (struct line *)line;
}

/* ---- counters ---- */

static int counter_open(struct ofi_rail *r, struct ofi_counter *c, enum ofi_counter_role role)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
	int ret;

	c->role = role;
	c->rank = role;
	c->sources = 1;
	ret = fi_cntr_open(r->domain, &attr, &c->cntr, c);
	if (ret != 0) {
		c->cntr = NULL;
		return ofi_net_error(r, "fi_cntr_open", ret);
	}
	return 0;
}

static void counter_close(struct ofi_counter *c)
{
	if (c->cntr != NULL)
		fi_close(&c->cntr->fid);
	c->cntr = NULL;
}

/* ---- slots ---- */

static void tell(struct slot *s, int status)
{
	struct stmpi_net_work *w = s->owner;

	s->owner = NULL;
	if (w == NULL)
		return;
	w->armed.slot = NULL;
	w->work.fn(&w->work, status);
}

static void slot_end(struct ofi_deferred *d, struct slot *s)
{
	if (s->state == SLOT_LOST)
		d->stats.lost--;
	if (d->scan == s)
		d->scan = s->next;
	DL_DELETE(d->flying, s);
	d->flying_count--;
	d->stats.armed--;
	s->line->counters[s->counter].pending--;
	s->state = SLOT_FREE;
	LL_PREPEND(d->free, s);
	tell(s, 0);
}

/* The provider may hold it for ever, or send it late: then it must be nothing. */
static void slot_lose(struct ofi_deferred *d, struct slot *s)
{
	if (s->state == SLOT_LOST)
		return;
	s->wire->kind = OFI_WIRE_VOID;
	s->state = SLOT_LOST;
	d->stats.lost++;
}

static inline int has_ended(const struct slot *s)
{
	return (int32_t)((uint32_t)fi_cntr_read(s->done.cntr) - s->expected) >= 0;
}

/* ---- lines ---- */

static inline uint64_t stretch_of(const struct line *l, uint64_t shot)
{
	return (shot - l->first) / l->rail->deferred->stretch;
}

static inline uint64_t end_of(const struct line *l, uint64_t stretch)
{
	return l->first + (stretch + 1) * l->rail->deferred->stretch - 1;
}

static void line_free(struct line *l)
{
	for (uint32_t i = 0; i < RING_MAX; i++)
		counter_close(&l->counters[i]);
	free(l);
}

static int line_open(struct stmpi_rail *rail, uint64_t first, int stream_calls,
		     struct stmpi_line **line)
{
	struct ofi_rail *r = of(rail);
	struct ofi_deferred *d = r->deferred;
	const struct ofi_doorbell_ops *doorbell = ofi_doorbell_choose(d->is_cxi, stream_calls);
	struct line *l = calloc(1, sizeof(*l));
	int ret = 0;

	if (l == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a trigger's counters");
	l->line.ops = rail->defer;
	l->rail = r;
	l->first = first;
	for (uint32_t i = 0; i < d->ring && ret == 0; i++) {
		ret = counter_open(r, &l->counters[i], OFI_COUNTER_TRIGGER);
		l->counters[i].doorbell = doorbell;
		if (ret == 0)
			ret = doorbell->open(&l->counters[i]);
	}
	if (ret != 0) {
		line_free(l);
		return ret;
	}
	atomic_init(&l->line.ready, end_of(l, d->ring - 1));
	LL_PREPEND(d->lines, l);
	*line = &l->line;
	return 0;
}

static int line_make_ready(struct stmpi_line *line, uint64_t shot, uint64_t fired)
{
	struct line *l = line_of(line);
	struct ofi_deferred *d = l->rail->deferred;
	/* Only we move it. */
	uint64_t ready = atomic_load_explicit(&line->ready, memory_order_relaxed);

	while ((int64_t)(ready - shot) < 0) {
		uint64_t next = stretch_of(l, ready + 1);
		struct ofi_counter *c = &l->counters[next % d->ring];

		/* Its last stretch: all fired, so the stream does not touch it any more; and all
		 * ended, so nothing waits for it. */
		if ((int64_t)(fired - end_of(l, next - d->ring)) < 0 || c->pending > 0)
			return 0;
		fi_cntr_set(c->cntr, 0);
		ready = end_of(l, next);
		/* Partner: stmpi_trigger_fire's acquire, before it bumps. */
		atomic_store_explicit(&line->ready, ready, memory_order_release);
	}
	return 1;
}

static void line_fire(struct stmpi_line *line, uint64_t from, uint64_t to)
{
	struct line *l = line_of(line);
	struct ofi_deferred *d = l->rail->deferred;

	while (from != to) {
		uint64_t stretch = stretch_of(l, from + 1), end = end_of(l, stretch);
		struct ofi_counter *c = &l->counters[stretch % d->ring];

		if ((int64_t)(end - to) > 0)
			end = to;
		c->doorbell->ring(c, end - from);
		from = end;
	}
	/* Manual progress: the provider has the packet, and sends it when it is called. */
	if (d->kick != NULL)
		(void)fi_cntr_read(d->kick);
}

static void fill_work(struct ofi_rail *r, struct slot *s, uint32_t threshold)
{
	memset(&s->work, 0, sizeof(s->work));
	s->op = (struct fi_op_msg){
		.ep = r->ep,
		.msg = {.msg_iov = &s->iov,
			.desc = &s->desc,
			.iov_count = 1,
			.addr = s->peer->addr,
			.context = &s->work.context},
	};
	s->work.threshold = threshold;
	s->work.triggering_cntr = s->line->counters[s->counter].cntr;
	s->work.completion_cntr = s->done.cntr;
	s->work.op_type = FI_OP_SEND;
	s->work.op.msg = &s->op;
}

static int line_arm(struct stmpi_line *line, struct stmpi_net_work *w, uint64_t fired)
{
	struct line *l = line_of(line);
	struct ofi_rail *r = l->rail;
	struct ofi_deferred *d = r->deferred;
	uint64_t stage = STMPI_STAGE_OPEN, staged, stretch = stretch_of(l, w->armed.shot);
	struct stmpi_net_packet packet;
	struct slot *s = d->free;
	int ret;

	if (atomic_load_explicit(&w->armed.stage, memory_order_relaxed) == STMPI_STAGE_PASSED)
		return 1; /* a hint; the compare-and-swap below decides */
	if (s == NULL || w->peer->error != 0 || !line_make_ready(line, w->armed.shot, fired))
		return -STMPI_EAGAIN;
	ret = w->armed.prepare(w, &packet);
	if (ret != 0)
		return ret;
	s->wire->uid = r->attr.uid;
	s->wire->kind = OFI_WIRE_PACKET;
	s->wire->hdr = packet.hdr;
	staged = STMPI_STAGE_WHOLE;
	if (packet.data != NULL)
		memcpy(s->wire + 1, packet.data, packet.bytes);
	else if (packet.bytes > 0)
		staged = (uint64_t)(uintptr_t)(s->wire + 1);
	s->owner = w;
	s->peer = w->peer;
	s->line = l;
	s->counter = (uint32_t)(stretch % d->ring);
	s->iov = (struct iovec){s->wire, sizeof(*s->wire) + packet.bytes};
	fill_work(r, s, 1 + (uint32_t)((w->armed.shot - l->first) % d->stretch));
	d->rules.armed = d->stats.armed;
	ret = ofi_rules_enforce(&d->rules, &s->work);
	if (ret != 0) {
		stmpi_log(STMPI_LOG_ERROR, "%s", stmpi_error_text());
		return ret;
	}
	/* Release: the stream that finds the address finds the head written. Partner:
	 * stmpi_trigger_fire. */
	if (!atomic_compare_exchange_strong_explicit(&w->armed.stage, &stage, staged,
						     memory_order_release, memory_order_relaxed))
		return 1;
	ret = fi_control(&r->domain->fid, FI_QUEUE_WORK, &s->work);
	if (stmpi_unlikely(ret != 0)) {
		/* The stream may have copied its data here meanwhile: then it is late, and its
		 * owner, who still has the data, posts it. */
		(void)atomic_compare_exchange_strong_explicit(
			&w->armed.stage, &staged, STMPI_STAGE_OPEN, memory_order_relaxed,
			memory_order_relaxed);
		return -STMPI_EAGAIN;
	}
	/*
	 * sockets looks at the counter first and puts the work into its list then; a bump in
	 * between finds no work, and the work waits for another. If the stream has passed, it may
	 * have bumped before the list had the work, so look again. If it has not, its bump is yet
	 * to come.
	 */
	if (stmpi_unlikely(atomic_load_explicit(&w->armed.stage, memory_order_acquire) ==
			   STMPI_STAGE_PASSED))
		fi_cntr_add(l->counters[s->counter].cntr, 0);
	w->peer->is_used = 1;
	LL_DELETE(d->free, s);
	s->expected++;
	s->state = SLOT_ARMED;
	l->counters[s->counter].pending++;
	s->ends_when_fired = packet.ends_when_fired;
	w->armed.slot = s;
	if (++d->stats.armed > d->stats.highest)
		d->stats.highest = d->stats.armed;
	d->stats.total++;
	return 0;
}

static void line_fly(struct stmpi_line *line, struct stmpi_net_work *w)
{
	struct ofi_deferred *d = line_of(line)->rail->deferred;
	struct slot *s = w->armed.slot;

	if (s->ends_when_fired) { /* its owner learns of the end in another way */
		s->owner = NULL;
		w->armed.slot = NULL;
	}
	s->state = SLOT_FLYING;
	DL_APPEND(d->flying, s);
	d->flying_count++;
	w->work.fn(&w->work, STMPI_WORK_FIRED);
	if (s->state != SLOT_FLYING)
		return;
	if (has_ended(s)) {
		slot_end(d, s);
	} else if (stmpi_unlikely(s->peer->error != 0)) {
		/* Fired at a peer that had been lost before: nobody will tell of it again. */
		slot_lose(d, s);
		tell(s, -STMPI_EPEER);
	}
}

static void forget(struct stmpi_net_work *w)
{
	struct slot *s = w->armed.slot;

	if (s == NULL)
		return;
	w->armed.slot = NULL;
	s->owner = NULL;
	slot_lose(of(w->rail)->deferred, s);
}

/* ---- the rail's part ---- */

int ofi_deferred_poll(struct ofi_rail *r)
{
	struct ofi_deferred *d = r->deferred;
	int events = 0;

	for (uint32_t i = 0; i < LOOKS && d->flying != NULL; i++) {
		struct slot *s = d->scan != NULL ? d->scan : d->flying;

		d->scan = s->next;
		if (!has_ended(s)) {
			if (d->scan == NULL)
				break; /* once round is enough */
			continue;
		}
		slot_end(d, s);
		events++;
	}
	return events;
}

int ofi_deferred_event(struct ofi_rail *r, void *context, int error, struct stmpi_net_peer **peer)
{
	struct ofi_deferred *d = r->deferred;
	struct slot *s = context;

	if (d == NULL || (char *)context < (char *)d->slots ||
	    (char *)context >= (char *)(d->slots + d->stats.credits))
		return 0;
	/* A good end shows in the counter. A bad one does not: then this is the end. */
	if (error != 0 && s->state != SLOT_FREE) {
		s->expected--;
		*peer = s->peer;
	}
	return 1;
}

void ofi_deferred_lose(struct ofi_rail *r, struct stmpi_net_peer *p)
{
	struct ofi_deferred *d = r->deferred;

	if (d == NULL)
		return;
	for (uint32_t i = 0; i < d->stats.credits; i++) {
		struct slot *s = &d->slots[i];

		if (s->peer != p || s->state != SLOT_FLYING)
			continue;
		slot_lose(d, s);
		tell(s, -STMPI_EPEER);
	}
}

void ofi_deferred_nudge(struct ofi_rail *r)
{
	struct ofi_deferred *d = r->deferred;

	if (d == NULL || d->flying == NULL)
		return;
	/* sockets: works that were released while its ring was full wait for the next bump. */
	for (struct line *l = d->lines; l != NULL; l = l->next) {
		for (uint32_t i = 0; i < d->ring; i++) {
			if (l->counters[i].pending > 0)
				fi_cntr_add(l->counters[i].cntr, 0);
		}
	}
}

int ofi_deferred_is_busy(const struct ofi_rail *r)
{
	const struct ofi_deferred *d = r->deferred;

	return d != NULL && d->flying_count > d->stats.lost;
}

static void stats(struct stmpi_rail *rail, struct stmpi_defer_stats *out)
{
	*out = of(rail)->deferred->stats;
}

/* What the program never fired is fired here, void, so that nothing waits in the provider. */
static void line_close(struct stmpi_line *line)
{
	struct line *l = line_of(line);
	struct ofi_deferred *d;
	struct ofi_rail *r;
	uint64_t end = stmpi_clock_ns() + CLOSE_NS;
	uint32_t left = 0;

	if (l == NULL)
		return;
	r = l->rail;
	d = r->deferred;
	for (uint32_t i = 0; i < d->stats.credits; i++) {
		struct slot *s = &d->slots[i];

		if (s->line != l || s->state != SLOT_ARMED)
			continue;
		s->owner = NULL;
		slot_lose(d, s);
		DL_APPEND(d->flying, s);
		d->flying_count++;
	}
	for (uint32_t i = 0; i < d->ring; i++) {
		if (l->counters[i].pending > 0)
			fi_cntr_set(l->counters[i].cntr, d->stretch);
	}
	do {
		left = 0;
		if (d->kick != NULL)
			(void)fi_cntr_read(d->kick);
		(void)fi_cq_read(r->cq, NULL, 0);
		(void)ofi_deferred_poll(r);
		for (uint32_t i = 0; i < d->ring; i++)
			left += l->counters[i].pending;
	} while (left > 0 && stmpi_clock_ns() < end);
	LL_DELETE(d->lines, l);
	if (left > 0) {
		/* A dead peer's. The provider would write into what it still holds: keep it. */
		stmpi_log(STMPI_LOG_INFO, "%u deferred works never ended", left);
		return;
	}
	line_free(l);
}

static const struct stmpi_defer_ops defer_ops = {
	.open = line_open,
	.close = line_close,
	.make_ready = line_make_ready,
	.arm = line_arm,
	.fire = line_fire,
	.fly = line_fly,
	.forget = forget,
	.stats = stats,
};

/* ---- open and close ---- */

/* How many works may be armed. 0: deferred work must not be used; negative: an error. */
static int choose_credits(struct ofi_rail *r, int is_cxi)
{
	int64_t asked = stmpi_param_int(STMPI_PARAM_TRIGGER_CREDITS);
	uint32_t procs = r->attr.node_procs > 0 ? r->attr.node_procs : 1;
	/* sockets' works are each process's own; a card's are all processes' of the node. */
	uint32_t share = is_cxi ? DEPTH_MAX / procs : SOCKETS_MAX;

	if (asked < 0)
		return (int)(DEPTH_MAX / procs);
	if (asked > share)
		return stmpi_error_set(STMPI_ECONFIG,
				       "STMPI_TRIGGER_CREDITS=%lld: %s has %u for each of the %u "
				       "processes of this node",
				       (long long)asked, r->rail.description, share, procs);
	return (int)asked;
}

void ofi_deferred_describe(const struct fi_info *info, char *text, size_t bytes)
{
	int64_t asked = stmpi_param_int(STMPI_PARAM_TRIGGER_CREDITS);
	int is_cxi = ofi_is_provider(info, "cxi");
	const char *doorbell = ofi_doorbell_choose(is_cxi, 1)->name;

	if (asked > (is_cxi ? DEPTH_MAX : SOCKETS_MAX))
		snprintf(text, bytes, "credits %lld are an error: %u at most", (long long)asked,
			 is_cxi ? DEPTH_MAX : SOCKETS_MAX);
	else if (asked > 0)
		snprintf(text, bytes, "credits %lld (at most %u%s), doorbell %s", (long long)asked,
			 is_cxi ? DEPTH_MAX : SOCKETS_MAX,
			 is_cxi ? " divided by the processes of a node" : "", doorbell);
	else
		snprintf(text, bytes, "credits %u divided by the processes of a node, doorbell %s",
			 DEPTH_MAX, doorbell);
}

/* Ask the provider itself: a work that is to add nothing to a counter. */
static int try_queue(struct ofi_rail *r)
{
	struct ofi_counter a = {0}, b = {0};
	struct fi_op_cntr op = {0};
	struct fi_deferred_work work;
	int ret = counter_open(r, &a, OFI_COUNTER_TRIGGER);

	if (ret == 0)
		ret = counter_open(r, &b, OFI_COUNTER_TRIGGER);
	if (ret == 0) {
		memset(&work, 0, sizeof(work));
		op.cntr = b.cntr;
		work.triggering_cntr = a.cntr;
		work.op_type = FI_OP_CNTR_ADD;
		work.op.cntr = &op;
		ret = fi_control(&r->domain->fid, FI_QUEUE_WORK, &work);
		if (ret != 0)
			ret = stmpi_error_set(STMPI_ENOTSUP, "%s has no deferred work: %s",
					      r->rail.description, ofi_dl_get()->strerror(-ret));
	}
	counter_close(&a);
	counter_close(&b);
	return ret;
}

int ofi_deferred_bind(struct ofi_rail *r)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
	int ret;

	r->deferred = calloc(1, sizeof(*r->deferred));
	if (r->deferred == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for deferred work");
	r->deferred->is_cxi = ofi_is_provider(r->info, "cxi");
	if (!r->is_sockets)
		return 0;
	ret = fi_cntr_open(r->domain, &attr, &r->deferred->kick, NULL);
	if (ret == 0)
		ret = fi_ep_bind(r->ep, &r->deferred->kick->fid, FI_SEND);
	return ret == 0 ? 0 : ofi_net_error(r, "binding a counter", ret);
}

static int make_slots(struct ofi_rail *r, uint32_t credits)
{
	struct ofi_deferred *d = r->deferred;
	size_t bytes = credits * r->packet_bytes;
	int ret;

	d->slots = calloc(credits, sizeof(*d->slots));
	if (d->slots == NULL || posix_memalign((void **)&d->slab, 4096, bytes) != 0)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for %u deferred packets", credits);
	ret = ofi_reg_own(r, d->slab, bytes, &d->slab_mr);
	if (ret != 0)
		return ret;
	d->slab_desc = fi_mr_desc(d->slab_mr);
	d->stats.credits = credits;
	for (uint32_t i = credits; i-- > 0;) {
		struct slot *s = &d->slots[i];

		s->wire = (struct ofi_wire *)(void *)(d->slab + i * r->packet_bytes);
		memset(s->wire, 0, sizeof(*s->wire)); /* its page is there before it is needed */
		s->desc = d->slab_desc;
		ret = counter_open(r, &s->done, OFI_COUNTER_COMPLETION);
		if (ret != 0)
			return ret;
		s->expected = (uint32_t)ofi_deferred_test_start;
		if (ofi_deferred_test_start != 0)
			fi_cntr_set(s->done.cntr, ofi_deferred_test_start);
		LL_PREPEND(d->free, s);
	}
	return 0;
}

int ofi_deferred_open(struct ofi_rail *r)
{
	struct ofi_deferred *d = r->deferred;
	int credits = choose_credits(r, d->is_cxi), ret;

	if (credits < 0)
		return credits;
	if (credits == 0)
		return stmpi_error_set(STMPI_ENOTSUP,
				       "%u processes on this node share the %u works of %s",
				       r->attr.node_procs, DEPTH_MAX, r->rail.description);
	/* A card has 2048 counters for everybody, and finds works by itself. */
	d->ring = d->is_cxi ? 2 : RING_MAX;
	d->stretch = d->is_cxi ? 512 : 64;
	ret = try_queue(r);
	if (ret == 0)
		ret = make_slots(r, (uint32_t)credits);
	if (ret != 0)
		return ret;
	d->rules = (struct ofi_rules){r->ep, sizeof(struct ofi_wire) + r->rail.eager_max, 0,
				      (uint32_t)credits};
	d->stats.doorbell = ofi_doorbell_choose(d->is_cxi, 1)->name;
	r->rail.defer = &defer_ops;
	return 0;
}

void ofi_deferred_close(struct ofi_rail *r)
{
	struct ofi_deferred *d = r->deferred;

	if (d == NULL)
		return;
	r->rail.defer = NULL;
	/* Memory regions first, then counters; the endpoint, which `kick` is bound to, after. */
	if (d->slab_mr != NULL)
		fi_close(&d->slab_mr->fid);
	for (uint32_t i = 0; i < d->stats.credits; i++) {
		if (d->slots[i].state == SLOT_FREE)
			counter_close(&d->slots[i].done);
	}
}

/* After the endpoint. */
void ofi_deferred_free(struct ofi_rail *r)
{
	struct ofi_deferred *d = r->deferred;
	uint32_t in_use = 0;

	if (d == NULL)
		return;
	if (d->kick != NULL)
		fi_close(&d->kick->fid);
	for (uint32_t i = 0; i < d->stats.credits; i++)
		in_use += d->slots[i].state != SLOT_FREE;
	if (in_use == 0) { /* else a thread of the provider may still look at them */
		free(d->slots);
		free(d->slab);
	}
	free(d);
	r->deferred = NULL;
}
