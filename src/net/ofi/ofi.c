/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.c: the rail over libfabric: one RDM endpoint, packets by FI_MSG, bulk data by RMA read. post
 * and poll are hot.
 *
 * Completion words (FLAG): a network card writes 8 aligned bytes at once, so there they go by RMA.
 * Providers that move a byte stream (tcp, sockets, udp) may put the 8 bytes into memory in two
 * pieces, and a waiting stream could see half a number; there a FLAG is a packet, and the receiving
 * rail stores the word.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "net/ofi/ofi_int.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"
#include "util/params.h"

/* Completions taken per call. */
#define CQ_BATCH 16

/* How long close waits for packets to leave. */
#define CLOSE_NS 2000000000u

/* READs in flight at once; more wait in the core. */
#define READS_MAX 64u

/* One READ is split into pieces of this size where the provider has no smaller limit. */
#define CHUNK_MAX (UINT64_C(1) << 30)

static struct ofi_rail *of(struct stmpi_rail *rail)
{
	return (struct ofi_rail *)rail;
}

int ofi_net_error(struct ofi_rail *r, const char *what, int ret)
{
	return stmpi_error_set(STMPI_ENET, "%s: %s: %s", r->rail.description, what,
			       ofi_dl_get()->strerror(-ret));
}

static int probe(char *why, size_t why_bytes)
{
	struct fi_info *info;

	if (ofi_choose(&info) != 0) {
		snprintf(why, why_bytes, "%s", stmpi_error_text());
		return -STMPI_ENODEV;
	}
	ofi_dl_get()->freeinfo(info);
	return 0;
}

/* ---- receiving ---- */

static int post_rx(struct ofi_rail *r, struct ofi_req *q)
{
	return (int)fi_recv(r->ep, q->wire, r->packet_bytes, r->slab_desc, FI_ADDR_UNSPEC,
			    &q->context);
}

static void repost(struct ofi_rail *r)
{
	while (r->unposted != NULL) {
		struct ofi_req *q = r->unposted;

		if (post_rx(r, q) != 0)
			return; /* full for now: the next round tries again */
		r->unposted = q->next;
	}
}

static void deliver(struct ofi_rail *r, struct stmpi_net_peer *p, const struct ofi_wire *wire,
		    size_t bytes)
{
	const struct stmpi_net_upcalls *up = r->attr.upcalls;

	if (wire->kind == OFI_WIRE_PACKET)
		up->packet(up->arg, p->user, &wire->hdr, wire + 1, bytes - sizeof(*wire));
	else if (wire->kind == OFI_WIRE_FLAG && wire->hdr.w[0] < STMPI_FLAGS_MAX)
		stmpi_word_store(&r->attr.flags->words[wire->hdr.w[0]], wire->hdr.w[1]);
}

/* A packet of a process that we do not know yet: its connect is on its way here. */
static void keep(struct ofi_rail *r, const struct ofi_wire *wire, size_t bytes)
{
	struct ofi_kept *k;

	if (r->kept_count == OFI_KEEP_MAX) {
		stmpi_log(STMPI_LOG_ERROR, "packets of an unknown process are dropped");
		return;
	}
	k = malloc(sizeof(*k) + bytes);
	if (k == NULL)
		return;
	k->bytes = bytes;
	k->next = NULL;
	memcpy(&k->wire, wire, bytes);
	LL_APPEND(r->kept, k);
	r->kept_count++;
}

static void rx_done(struct ofi_rail *r, struct ofi_req *q, size_t bytes)
{
	struct stmpi_net_peer *p;

	if (stmpi_likely(bytes >= sizeof(*q->wire))) {
		HASH_FIND(hh, r->by_uid, &q->wire->uid, sizeof(q->wire->uid), p);
		if (stmpi_likely(p != NULL))
			deliver(r, p, q->wire, bytes);
		else
			keep(r, q->wire, bytes);
	}
	q->next = r->unposted;
	r->unposted = q;
}

/* Deliver what a peer sent before it was made known. */
static void deliver_kept(struct ofi_rail *r, struct stmpi_net_peer *p)
{
	struct ofi_kept *k, *next;

	LL_FOREACH_SAFE (r->kept, k, next) {
		if (k->wire.uid != p->uid)
			continue;
		LL_DELETE(r->kept, k);
		r->kept_count--;
		deliver(r, p, &k->wire, k->bytes);
		free(k);
	}
}

/* ---- sending ---- */

/* A packet to a peer that is lost may never end in the provider: nobody waits for it any more. */
static void disown_packets(struct ofi_rail *r, const struct stmpi_net_peer *p)
{
	const uint32_t packets = r->rx_buffers + OFI_TX_BUFFERS;

	for (struct ofi_req *q = &r->reqs[r->rx_buffers]; q < &r->reqs[packets]; q++) {
		if (q->peer == p) {
			q->peer = NULL;
			r->tx_out--;
		}
	}
}

static void lose(struct ofi_rail *r, struct stmpi_net_peer *p)
{
	const struct stmpi_net_upcalls *up = r->attr.upcalls;

	p->error = -STMPI_EPEER;
	if (p->is_told)
		return;
	p->is_told = 1;
	disown_packets(r, p);
	ofi_deferred_lose(r, p);
	up->peer_failed(up->arg, p->user, -STMPI_EPEER);
}

/* The code of a post that failed. Only an error that is not "try again" loses the peer; poll tells.
 */
static int post_error(struct stmpi_net_peer *p, ssize_t ret)
{
	if (ret == -FI_EAGAIN)
		return -STMPI_EAGAIN;
	p->error = -STMPI_EPEER;
	return stmpi_error_set(STMPI_EPEER, "sending to a peer failed: %s",
			       ofi_dl_get()->strerror((int)-ret));
}

static inline void fill_wire(struct ofi_rail *r, struct ofi_wire *wire, enum ofi_wire_kind kind,
			     const struct stmpi_net_hdr *hdr, const void *src, size_t bytes)
{
	wire->uid = r->attr.uid;
	wire->kind = kind;
	wire->hdr = *hdr;
	if (bytes > 0)
		memcpy(wire + 1, src, bytes);
}

static int post_packet(struct ofi_rail *r, struct stmpi_net_peer *p, enum ofi_wire_kind kind,
		       const struct stmpi_net_hdr *hdr, const void *src, size_t bytes)
{
	size_t total = sizeof(struct ofi_wire) + bytes;
	struct ofi_req *q;
	ssize_t ret;

	if (stmpi_unlikely(p->error != 0))
		return p->error;
	p->is_used = 1;
	if (total <= r->inject_max && kind != OFI_WIRE_BYE) {
		fill_wire(r, r->scratch, kind, hdr, src, bytes);
		ret = fi_inject(r->ep, r->scratch, total, p->addr);
		return stmpi_likely(ret == 0) ? 0 : post_error(p, ret);
	}
	q = r->tx_pool;
	if (stmpi_unlikely(r->tx_out >= r->tx_max || q == NULL))
		return -STMPI_EAGAIN;
	fill_wire(r, q->wire, kind, hdr, src, bytes);
	ret = fi_send(r->ep, q->wire, total, r->slab_desc, p->addr, &q->context);
	if (stmpi_unlikely(ret != 0))
		return post_error(p, ret);
	q->peer = p;
	r->tx_pool = q->next;
	r->tx_out++;
	return 0;
}

static int post_flag(struct ofi_rail *r, struct stmpi_net_work *w)
{
	struct stmpi_net_hdr hdr = {{w->flag_index, w->value, 0}};
	struct stmpi_net_peer *p = w->peer;
	ssize_t ret;

	if (!r->writes_flags)
		return post_packet(r, p, OFI_WIRE_FLAG, &hdr, NULL, 0);
	if (stmpi_unlikely(p->error != 0))
		return p->error;
	ret = fi_inject_write(r->ep, &w->value, sizeof(w->value), p->addr,
			      p->flags_addr + w->flag_index * sizeof(uint64_t), p->flags_key);
	return ret == 0 ? 0 : post_error(p, ret);
}

/* ---- READ. scratch: bytes started, pieces in flight, first error ---- */

#define STARTED(w) ((w)->scratch[0])
#define FLYING(w)  ((w)->scratch[1])
#define STATUS(w)  ((w)->scratch[2])

/* Start as many pieces as there is room for. 0 or libfabric's code. */
static ssize_t start_pieces(struct ofi_rail *r, struct stmpi_net_work *w)
{
	uint64_t max = r->info->ep_attr->max_msg_size < CHUNK_MAX ? r->info->ep_attr->max_msg_size
								  : CHUNK_MAX;

	while (STARTED(w) < w->bytes) {
		struct ofi_req *q = r->read_pool;
		uint64_t n = w->bytes - STARTED(w) < max ? w->bytes - STARTED(w) : max;
		ssize_t ret;

		if (q == NULL)
			return -FI_EAGAIN;
		ret = fi_read(r->ep, (char *)w->dst + STARTED(w), n, regcache_desc(w->mr),
			      w->peer->addr, w->remote_addr + STARTED(w), w->remote_key,
			      &q->context);
		if (ret != 0)
			return ret;
		q->peer = w->peer;
		q->work = w;
		r->read_pool = q->next;
		r->reads_out++;
		STARTED(w) += n;
		FLYING(w)++;
	}
	return 0;
}

static int post_read(struct ofi_rail *r, struct stmpi_net_work *w)
{
	ssize_t ret;

	if (w->peer->error != 0)
		return w->peer->error;
	STARTED(w) = FLYING(w) = STATUS(w) = 0;
	ret = start_pieces(r, w);
	if (FLYING(w) == 0)
		return ret == 0 ? 0 : post_error(w->peer, ret);
	if (ret != 0)
		LL_APPEND(r->partial, w);
	return 1;
}

static void end_read(struct ofi_rail *r, struct stmpi_net_work *w)
{
	if (FLYING(w) > 0 || (STARTED(w) < w->bytes && STATUS(w) == 0))
		return;
	if (STARTED(w) < w->bytes)
		LL_DELETE(r->partial, w);
	w->work.fn(&w->work, -(int)STATUS(w));
}

static void push_partial(struct ofi_rail *r)
{
	while (r->partial != NULL) {
		struct stmpi_net_work *w = r->partial;
		ssize_t ret = start_pieces(r, w);

		if (ret == -FI_EAGAIN)
			return;
		if (ret != 0)
			STATUS(w) = STMPI_ENET;
		else
			LL_DELETE(r->partial, w);
		if (ret != 0 && FLYING(w) > 0)
			return; /* ends with the last piece */
		if (ret != 0)
			end_read(r, w);
	}
}

static void piece_done(struct ofi_rail *r, struct ofi_req *q, int status)
{
	struct stmpi_net_work *w = q->work;

	q->peer = NULL;
	r->reads_out--;
	FLYING(w)--;
	if (status != 0 && STATUS(w) == 0)
		STATUS(w) = (uint64_t)status;
	end_read(r, w);
}

/* End what is read from a process that does not exist any more: sockets may never do that. Others
 * do, and do not bear that its memory is deregistered before (tcp;ofi_rxm). */
static void end_reads_from(struct ofi_rail *r, const struct stmpi_net_peer *p)
{
	struct ofi_req *first = &r->reqs[r->rx_buffers + OFI_TX_BUFFERS];
	struct stmpi_net_work *w, *next;

	for (struct ofi_req *q = first; q < first + READS_MAX; q++) {
		if (q->peer == p)
			piece_done(r, q, STMPI_EPEER);
	}
	LL_FOREACH_SAFE (r->partial, w, next) {
		if (w->peer != p)
			continue;
		STATUS(w) = STMPI_EPEER;
		end_read(r, w);
	}
}

/* ---- completions ---- */

static void tx_done(struct ofi_rail *r, struct ofi_req *q)
{
	if (stmpi_likely(q->peer != NULL))
		r->tx_out--;
	q->peer = NULL;
	q->next = r->tx_pool;
	r->tx_pool = q;
}

static void req_done(struct ofi_rail *r, struct ofi_req *q, size_t bytes, int status)
{
	switch (q->kind) {
	case OFI_REQ_RX:
		rx_done(r, q, status == 0 ? bytes : 0);
		break;
	case OFI_REQ_TX:
		tx_done(r, q);
		break;
	case OFI_REQ_READ:
		q->next = r->read_pool;
		r->read_pool = q;
		if (stmpi_likely(q->peer != NULL))
			piece_done(r, q, status);
		break;
	}
}

static void cq_error(struct ofi_rail *r)
{
	struct fi_cq_err_entry e;
	struct stmpi_net_peer *p = NULL;
	struct ofi_req *q;

	memset(&e, 0, sizeof(e));
	if (fi_cq_readerr(r->cq, &e, 0) != 1 || e.op_context == NULL)
		return;
	stmpi_log(STMPI_LOG_INFO, "%s: an operation failed: %s", r->rail.description,
		  ofi_dl_get()->strerror(e.err));
	if (!ofi_deferred_event(r, e.op_context, e.err, &p)) {
		q = stmpi_container_of(e.op_context, struct ofi_req, context);
		p = q->kind == OFI_REQ_RX ? NULL : q->peer;
		req_done(r, q, 0, STMPI_ENET);
	}
	if (p != NULL)
		lose(r, p);
}

static int rail_poll(struct stmpi_rail *rail)
{
	struct fi_cq_msg_entry e[CQ_BATCH];
	struct ofi_rail *r = of(rail);
	ssize_t n = fi_cq_read(r->cq, e, CQ_BATCH);

	if (stmpi_likely(n == -FI_EAGAIN))
		n = 0;
	else if (stmpi_unlikely(n == -FI_EAVAIL))
		cq_error(r);
	for (ssize_t i = 0; i < n; i++) {
		if (stmpi_likely(!ofi_deferred_event(r, e[i].op_context, 0, NULL)))
			req_done(r, stmpi_container_of(e[i].op_context, struct ofi_req, context),
				 e[i].len, 0);
	}
	if (r->unposted != NULL)
		repost(r);
	if (stmpi_unlikely(r->partial != NULL))
		push_partial(r);
	if (n < 0)
		n = 0;
	if (r->deferred != NULL)
		n += ofi_deferred_poll(r);
	return (int)n;
}

static int post(struct stmpi_rail *rail, struct stmpi_net_work *w)
{
	switch (w->work.kind) {
	case STMPI_WORK_SEND:
		return post_packet(of(rail), w->peer, OFI_WIRE_PACKET, &w->hdr, w->src, w->bytes);
	case STMPI_WORK_READ:
		return post_read(of(rail), w);
	case STMPI_WORK_FLAG:
		return post_flag(of(rail), w);
	case STMPI_WORK_CALL:
		break;
	}
	return stmpi_error_set(STMPI_EINVAL, "a call is no network operation");
}

/* A post that failed for good is told here, where callbacks may run. */
static void idle(struct stmpi_rail *rail)
{
	struct ofi_rail *r = of(rail);

	for (struct stmpi_net_peer *p = r->peers; p != NULL; p = p->next) {
		if (p->error != 0 && !p->is_told)
			lose(r, p);
	}
	ofi_deferred_nudge(r);
	if (r->is_sockets)
		ofi_sockets_idle(r);
}

static void rail_lose(struct stmpi_rail *rail, struct stmpi_net_peer *p)
{
	p->error = -STMPI_EPEER;
	if (of(rail)->is_sockets)
		end_reads_from(of(rail), p);
	lose(of(rail), p);
}

/* ---- open and close ---- */

static int make_buffers(struct ofi_rail *r)
{
	const uint32_t packets = r->rx_buffers + OFI_TX_BUFFERS;
	struct ofi_req *q;
	int ret;

	r->reqs = calloc(packets + READS_MAX, sizeof(*r->reqs));
	r->scratch = malloc(sizeof(*r->scratch) + OFI_INJECT_MAX);
	r->slab_bytes = packets * r->packet_bytes;
	if (r->reqs == NULL || r->scratch == NULL ||
	    posix_memalign((void **)&r->slab, 4096, r->slab_bytes) != 0)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for packet buffers");
	if (r->info->domain_attr->mr_mode & FI_MR_LOCAL) {
		ret = ofi_reg_own(r, r->slab, r->slab_bytes, &r->slab_mr);
		if (ret != 0)
			return ret;
		r->slab_desc = fi_mr_desc(r->slab_mr);
	}
	for (uint32_t i = 0; i < packets + READS_MAX; i++) {
		q = &r->reqs[i];
		if (i < packets)
			q->wire = (struct ofi_wire *)(void *)(r->slab + i * r->packet_bytes);
		if (i < r->rx_buffers) {
			q->kind = OFI_REQ_RX;
			q->next = r->unposted;
			r->unposted = q;
		} else if (i < packets) {
			q->kind = OFI_REQ_TX;
			q->next = r->tx_pool;
			r->tx_pool = q;
		} else {
			q->kind = OFI_REQ_READ;
			q->next = r->read_pool;
			r->read_pool = q;
		}
	}
	repost(r);
	return 0;
}

static int open_endpoint(struct ofi_rail *r, const struct ofi_dl *dl)
{
	struct fi_av_attr av = {.type = FI_AV_UNSPEC};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
	int ret;

	cq.size = r->rx_buffers + OFI_TX_BUFFERS + READS_MAX;
	ret = dl->fabric(r->info->fabric_attr, &r->fabric, NULL);
	if (ret != 0)
		return ofi_net_error(r, "fi_fabric", ret);
	ret = fi_domain(r->fabric, r->info, &r->domain, NULL);
	if (ret != 0)
		return ofi_net_error(r, "fi_domain", ret);
	ret = fi_av_open(r->domain, &av, &r->av, NULL);
	if (ret != 0)
		return ofi_net_error(r, "fi_av_open", ret);
	ret = fi_cq_open(r->domain, &cq, &r->cq, NULL);
	if (ret != 0)
		return ofi_net_error(r, "fi_cq_open", ret);
	ret = fi_endpoint(r->domain, r->info, &r->ep, NULL);
	if (ret != 0)
		return ofi_net_error(r, "fi_endpoint", ret);
	ret = fi_ep_bind(r->ep, &r->av->fid, 0);
	if (ret == 0)
		ret = fi_ep_bind(r->ep, &r->cq->fid, FI_TRANSMIT | FI_RECV);
	if (ret == 0 && r->info->caps & FI_TRIGGER) {
		ret = ofi_deferred_bind(r);
		if (ret != 0)
			return ret;
	}
	if (ret == 0)
		ret = fi_enable(r->ep);
	if (ret == 0 && r->is_sockets)
		ofi_sockets_open(r);
	return ret == 0 ? 0 : ofi_net_error(r, "fi_enable", ret);
}

/* What is known of each kind of provider; measured on tcp;ofi_rxm, sockets and shm: see
 * docs/decisions.md. */
static void set_limits(struct ofi_rail *r)
{
	const struct fi_info *info = r->info;
	int is_stream = ofi_is_provider(info, "tcp") || ofi_is_provider(info, "sockets") ||
			ofi_is_provider(info, "net") || ofi_is_provider(info, "udp");
	size_t inject = info->tx_attr->inject_size;

	r->rail.eager_max = 16384 - sizeof(struct ofi_wire);
	if (info->ep_attr->max_msg_size < r->rail.eager_max + sizeof(struct ofi_wire))
		r->rail.eager_max = info->ep_attr->max_msg_size - sizeof(struct ofi_wire);
	r->rail.eager_best = r->rail.eager_max;
	r->packet_bytes = (r->rail.eager_max + sizeof(struct ofi_wire) + 63) / 64 * 64;
	r->inject_max = inject < OFI_INJECT_MAX ? inject : OFI_INJECT_MAX;
	r->tx_max = OFI_TX_BUFFERS;
	r->rx_buffers = OFI_RX_BUFFERS;
	r->is_sockets = ofi_is_provider(info, "sockets");
	if (r->is_sockets) {
		/* It loses the order when packets find no posted receive: a small window, no
		 * inject, which cannot be counted, and room for all that deferred works can fire at
		 * once (docs/decisions.md). */
		r->tx_max = OFI_SOCKETS_WINDOW;
		r->rx_buffers = OFI_SOCKETS_RX;
		r->inject_max = 0;
	}
	r->writes_flags = !is_stream && inject >= sizeof(uint64_t);
	/* See regcache.h: who uses registrations for addresses only. */
	regcache_init(&r->cache, is_stream || ofi_is_provider(info, "shm") ? 64 : 0, ofi_mr_open,
		      ofi_mr_close, r);
}

/* One completion at the end: nothing may be called back any more, so sends are only counted. */
static void count_sent(struct ofi_rail *r)
{
	struct fi_cq_err_entry error;
	struct fi_cq_msg_entry e;
	struct ofi_req *q = NULL;
	ssize_t n = fi_cq_read(r->cq, &e, 1);

	memset(&error, 0, sizeof(error));
	if (ofi_deferred_event(r, n == 1 ? e.op_context : NULL, 0, NULL))
		return;
	if (n == 1)
		q = stmpi_container_of(e.op_context, struct ofi_req, context);
	else if (n == -FI_EAVAIL && fi_cq_readerr(r->cq, &error, 0) == 1 &&
		 error.op_context != NULL && !ofi_deferred_event(r, error.op_context, 0, NULL))
		q = stmpi_container_of(error.op_context, struct ofi_req, context);
	if (q != NULL && q->kind == OFI_REQ_TX)
		tx_done(r, q);
}

/*
 * Packets must leave before the endpoint is closed. Injected ones have no completion, so each peer
 * gets a last packet that has one. A peer that is gone costs no more than the time limit.
 */
static void say_goodbye(struct ofi_rail *r)
{
	static const struct stmpi_net_hdr none;
	uint64_t end = stmpi_clock_ns() + CLOSE_NS;
	struct stmpi_net_peer *p;

	for (p = r->peers; p != NULL; p = p->next) {
		while (p->is_used &&
		       post_packet(r, p, OFI_WIRE_BYE, &none, NULL, 0) == -STMPI_EAGAIN &&
		       stmpi_clock_ns() < end)
			count_sent(r);
	}
	while (r->tx_out > 0 && stmpi_clock_ns() < end)
		count_sent(r);
}

static void rail_close(struct stmpi_rail *rail)
{
	struct ofi_rail *r = of(rail);
	struct stmpi_net_peer *p;
	struct ofi_kept *k;

	if (r == NULL)
		return;
	if (r->ep != NULL && r->cq != NULL)
		say_goodbye(r);
	if (r->is_sockets)
		ofi_sockets_close(r);
	ofi_deferred_close(r);
	if (r->flags_mr != NULL)
		regcache_put(&r->cache, r->flags_mr);
	/* Memory regions before the endpoint where they are bound to it; libfabric wants children
	 * closed first. */
	regcache_fini(&r->cache);
	if (r->ep != NULL)
		fi_close(&r->ep->fid);
	ofi_deferred_free(r);
	if (r->slab_mr != NULL)
		fi_close(&r->slab_mr->fid);
	if (r->cq != NULL)
		fi_close(&r->cq->fid);
	if (r->av != NULL)
		fi_close(&r->av->fid);
	if (r->domain != NULL)
		fi_close(&r->domain->fid);
	if (r->fabric != NULL)
		fi_close(&r->fabric->fid);
	HASH_CLEAR(hh, r->by_uid);
	while ((p = r->peers) != NULL) {
		r->peers = p->next;
		free(p);
	}
	while ((k = r->kept) != NULL) {
		r->kept = k->next;
		free(k);
	}
	ofi_dl_get()->freeinfo(r->info);
	free(r->scratch);
	free(r->reqs);
	free(r->slab);
	free(r);
}

/* Deferred work where the provider has it; it must have it when the user says so. */
static int open_deferred(struct ofi_rail *r)
{
	int is_forced = stmpi_param_choice(STMPI_PARAM_TRIGGER) == STMPI_TRIGGER_DEFERRED;
	int ret = r->deferred != NULL ? ofi_deferred_open(r) : 0;

	if (ret == -STMPI_ENOTSUP && !is_forced) {
		stmpi_log(STMPI_LOG_INFO, "software triggers: %s", stmpi_error_text());
		return 0;
	}
	return ret;
}

static int rail_open(const struct stmpi_net_attr *attr, struct stmpi_rail **rail)
{
	const struct ofi_dl *dl = ofi_dl_get();
	struct ofi_rail *r;
	int ret;

	if (dl == NULL)
		return -STMPI_ENODEV;
	r = calloc(1, sizeof(*r));
	if (r == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for the ofi rail");
	r->rail.ops = &stmpi_net_ofi_ops;
	r->attr = *attr;
	r->next_key = 1; /* never 0: rules.c takes a descriptor of 0 for none */
	ret = ofi_choose(&r->info);
	if (ret != 0) {
		free(r);
		return ret;
	}
	snprintf(r->rail.description, sizeof(r->rail.description), "%s on %s",
		 r->info->fabric_attr->prov_name, r->info->domain_attr->name);
	set_limits(r);
	ret = open_endpoint(r, dl);
	if (ret == 0)
		ret = make_buffers(r);
	if (ret == 0)
		ret = open_deferred(r);
	if (ret == 0 && r->writes_flags)
		ret = regcache_get(&r->cache, attr->flags->words, attr->flags->bytes, &r->flags_mr);
	if (ret != 0) {
		rail_close(&r->rail);
		return ret;
	}
	stmpi_log(STMPI_LOG_INFO, "network: %s, messages of up to %zu bytes are sent at once",
		  r->rail.description, r->rail.eager_best);
	*rail = &r->rail;
	return 0;
}

static int address(struct stmpi_rail *rail, void *addr, size_t *bytes)
{
	struct ofi_rail *r = of(rail);
	struct ofi_address a;
	size_t n = sizeof(a.name);
	int ret;

	memset(&a, 0, sizeof(a));
	ret = fi_getname(&r->ep->fid, a.name, &n);
	if (ret != 0)
		return ofi_net_error(r, "fi_getname", ret);
	a.uid = r->attr.uid;
	a.name_bytes = (uint32_t)n;
	if (r->flags_mr != NULL) {
		a.flags_addr = r->flags_mr->addr;
		a.flags_key = r->flags_mr->key;
	}
	memcpy(addr, &a, sizeof(a));
	*bytes = sizeof(a);
	return 0;
}

static int rail_connect(struct stmpi_rail *rail, const void *addr, size_t bytes, void *user,
			struct stmpi_net_peer **peer)
{
	struct ofi_rail *r = of(rail);
	struct stmpi_net_peer *p;
	struct ofi_address a;

	if (bytes != sizeof(a))
		return stmpi_error_set(STMPI_EINVAL, "a network address has %zu bytes, not %zu",
				       sizeof(a), bytes);
	memcpy(&a, addr, sizeof(a));
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a peer");
	p->uid = a.uid;
	p->user = user;
	p->flags_addr = a.flags_addr;
	p->flags_key = a.flags_key;
	if (fi_av_insert(r->av, a.name, 1, &p->addr, 0, NULL) != 1) {
		free(p);
		return stmpi_error_set(STMPI_EPEER, "%s does not take a peer's address",
				       r->rail.description);
	}
	p->next = r->peers;
	r->peers = p;
	HASH_ADD(hh, r->by_uid, uid, sizeof(p->uid), p);
	*peer = p;
	deliver_kept(r, p);
	return 0;
}

static int reg(struct stmpi_rail *rail, const void *addr, size_t bytes, struct stmpi_net_mr **mr)
{
	return regcache_get(&of(rail)->cache, addr, bytes, mr);
}

static void dereg(struct stmpi_rail *rail, struct stmpi_net_mr *mr)
{
	regcache_put(&of(rail)->cache, mr);
}

static int is_busy(struct stmpi_rail *rail)
{
	return of(rail)->tx_out > 0 || of(rail)->reads_out > 0 || ofi_deferred_is_busy(of(rail));
}

const struct stmpi_net_ops stmpi_net_ofi_ops = {
	.abi = STMPI_NET_ABI,
	.bytes = sizeof(struct stmpi_net_ops),
	.name = "ofi",
	.probe = probe,
	.open = rail_open,
	.close = rail_close,
	.address = address,
	.connect = rail_connect,
	.post = post,
	.poll = rail_poll,
	.idle = idle,
	.lose = rail_lose,
	.reg = reg,
	.dereg = dereg,
	.is_busy = is_busy,
};
