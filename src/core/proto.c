/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proto.c: how messages travel. Everything here runs under the token. Hot.
 *
 * eager:      [EAGER header, data] ->                 the send ends when the rail has the data
 * synchronous:[EAGER header, data, cookie] -> match,  <- the receiver writes the sender's word
 * rendezvous: [RTS header, address] -> match, READ,   <- the receiver writes the sender's word
 *
 * Credits: a sender may have `credits` eager packets at a peer that no receive has taken; the
 * receiver gives them back in the header of its next packet, or in one of its own when half are
 * due. Without a credit a message is announced (RTS) instead, so matching goes on and the data
 * waits at the sender. A cookie names the sender's completion word and the value to write: index in
 * the low 24 bits, value above.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/core_int.h"
#include "util/error.h"

#define E (&stmpi_engine)

enum packet_kind {
	PACKET_EAGER = 1, /* data; cookie is not 0: tell the sender when it has matched */
	PACKET_RTS,	  /* struct stmpi_rts; cookie: the sender's word */
	PACKET_NACK,	  /* rendezvous failed; cookie: the sender's word */
	PACKET_CREDIT,	  /* nothing but credits */
	PACKET_CANCEL,	  /* an announced send was ended by force; cookie: its word */
};

/* stmpi_op.armed_as */
enum {
	ARMED_NOT,
	ARMED_EAGER,
	ARMED_RTS
};

/* A message without a receive; eager data follows the struct. */
struct message {
	struct stmpi_match_msg match;
	struct stmpi_proc *proc;
	uint64_t cookie;
	uint64_t bytes;	      /* of the message */
	uint8_t kind;	      /* PACKET_EAGER or PACKET_RTS */
	struct message *next; /* in the pool of small ones */
	struct stmpi_rts rts;
	unsigned char data[];
};

/* Messages of up to this many data bytes come from a pool. Under the token. */
#define SMALL_BYTES 128u
static struct message *small_pool;

/* ---- headers ---- */

static inline struct stmpi_net_hdr pack(enum packet_kind kind, struct stmpi_proc *proc,
					uint32_t ctx, int32_t source, int32_t tag, uint64_t cookie)
{
	struct stmpi_net_hdr h;

	h.w[0] = (uint64_t)kind | (uint64_t)proc->owed << 16 | (uint64_t)ctx << 32;
	h.w[1] = (uint32_t)source | (uint64_t)(uint32_t)tag << 32;
	h.w[2] = cookie;
	return h;
}

static inline uint64_t cookie_of(const struct stmpi_op *op)
{
	return op->word_index | op->gen << 24;
}

/* ---- control packets and word writes, which must not be lost for want of room ---- */

static void mark_busy(struct stmpi_proc *p)
{
	if (p->is_busy)
		return;
	p->is_busy = 1;
	p->busy_next = E->busy;
	E->busy = p;
}

/* Control works not in use. Under the token. */
static struct stmpi_ctrl *ctrl_pool;

static struct stmpi_ctrl *ctrl_alloc(void)
{
	struct stmpi_ctrl *c = ctrl_pool;

	if (stmpi_unlikely(c == NULL))
		return malloc(sizeof(*c));
	ctrl_pool = c->next;
	return c;
}

static void ctrl_free(struct stmpi_ctrl *c)
{
	c->next = ctrl_pool;
	ctrl_pool = c;
}

static void ctrl_done(struct stmpi_work *work, int status)
{
	(void)status; /* a dead peer is reported by peer_failed */
	ctrl_free(stmpi_container_of(work, struct stmpi_ctrl, net.work));
}

static int post_ctrl(struct stmpi_proc *p, struct stmpi_net_work *w)
{
	int ret;

	if (w->work.kind == STMPI_WORK_SEND) { /* credits go with the last moment's count */
		w->hdr.w[0] &= ~(UINT64_C(0xffff) << 16);
		w->hdr.w[0] |= (uint64_t)p->owed << 16;
	}
	ret = p->rail->ops->post(p->rail, w);
	if (ret >= 0 && w->work.kind == STMPI_WORK_SEND)
		p->owed = 0;
	return ret;
}

/* Post a control work now, or keep it until there is room. */
static void send_ctrl(struct stmpi_proc *p, struct stmpi_ctrl *c)
{
	int ret = -STMPI_EAGAIN;

	if (stmpi_likely(p->ctrlq == NULL))
		ret = post_ctrl(p, &c->net);
	if (ret == -STMPI_EAGAIN) {
		DL_APPEND(p->ctrlq, c);
		mark_busy(p);
	} else if (ret <= 0) {
		ctrl_free(c); /* ended; an error means a dead peer, which is reported by itself */
	}
}

/* A control work for p, or NULL: p is dead, or memory is out and p therefore lost. */
static struct stmpi_ctrl *ctrl_for(struct stmpi_proc *p, enum stmpi_work_kind kind)
{
	struct stmpi_ctrl *c;

	if (stmpi_unlikely(p->error != 0))
		return NULL;
	c = ctrl_alloc();
	if (stmpi_unlikely(c == NULL)) {
		stmpi_proc_failed(NULL, p, -STMPI_ENOMEM);
		return NULL;
	}
	c->net.work.kind = kind;
	c->net.work.fn = ctrl_done;
	c->net.rail = p->rail;
	c->net.peer = p->peer;
	return c;
}

static void write_word(struct stmpi_proc *p, uint64_t cookie)
{
	struct stmpi_ctrl *c = ctrl_for(p, STMPI_WORK_FLAG);

	if (c == NULL)
		return;
	c->net.flag_index = (uint32_t)(cookie & (STMPI_FLAGS_MAX - 1));
	c->net.value = cookie >> 24;
	send_ctrl(p, c);
}

/* A packet without a payload, for send_ctrl or post_ctrl; NULL as ctrl_for. */
static struct stmpi_ctrl *empty_for(struct stmpi_proc *p, enum packet_kind kind, uint64_t cookie)
{
	struct stmpi_ctrl *c = ctrl_for(p, STMPI_WORK_SEND);

	if (c == NULL)
		return NULL;
	c->net.src = NULL;
	c->net.bytes = 0;
	c->net.hdr = pack(kind, p, 0, 0, 0, cookie);
	return c;
}

static void send_empty(struct stmpi_proc *p, enum packet_kind kind, uint64_t cookie)
{
	struct stmpi_ctrl *c = empty_for(p, kind, cookie);

	if (c != NULL)
		send_ctrl(p, c);
}

/*
 * Tell p of the credits that it is owed, before the control packets that wait: those may keep
 * coming for ever, from a peer that has no credits and announces every message. 0: no room; p is
 * busy, and push_proc tries again.
 */
static int give_credits(struct stmpi_proc *p)
{
	struct stmpi_ctrl *c = empty_for(p, PACKET_CREDIT, 0);
	int ret;

	if (c == NULL)
		return 1;
	ret = post_ctrl(p, &c->net);
	if (ret <= 0)
		ctrl_free(c);
	if (ret == -STMPI_EAGAIN) {
		mark_busy(p);
		return 0;
	}
	E->stats.credit_packets++;
	return 1;
}

/* An eager packet of p was received: its credit is due. */
static inline void owe(struct stmpi_proc *p)
{
	/* Tried once, when the line is crossed: push_proc does it after that. */
	if (stmpi_unlikely(p->owed++ == E->credits / 2))
		(void)give_credits(p);
}

/* ---- sends ---- */

/* The peer will end op by writing its word. One that was given up is found by the scan. */
static void await_word(struct stmpi_op *op)
{
	if (stmpi_unlikely(op->flags & STMPI_OP_F_ORPHAN))
		LL_PREPEND(E->orphans, op);
}

static void send_done(struct stmpi_work *work, int status)
{
	struct stmpi_op *op = stmpi_container_of(work, struct stmpi_op, net.work);

	if (status != 0)
		stmpi_op_complete(op, -status);
	else if (op->kind == STMPI_OP_SEND)
		stmpi_op_complete(op, 0);
	else {
		atomic_store_explicit(&op->state, STMPI_STATE_ACK, memory_order_relaxed);
		await_word(op);
	}
}

static void set_state(struct stmpi_op *op, enum stmpi_op_state state)
{
	atomic_store_explicit(&op->state, (uint8_t)state, memory_order_relaxed); /* for dumps */
}

/* Post an eager packet. 0 and 1 as post; negative: nothing happened. */
static int send_eager(struct stmpi_op *op, struct stmpi_proc *p)
{
	int is_sync = op->kind == STMPI_OP_SSEND;
	struct stmpi_net_work *w = &op->net;
	int ret;

	w->work.kind = STMPI_WORK_SEND;
	w->work.fn = send_done;
	w->rail = p->rail;
	w->peer = p->peer;
	w->src = op->buf;
	w->bytes = op->bytes;
	w->hdr = pack(PACKET_EAGER, p, op->comm->ctx, op->comm->rank, op->tag,
		      is_sync ? cookie_of(op) : 0);
	/* The peer may answer before post returns; the state must not overwrite what that did. */
	set_state(op, is_sync ? STMPI_STATE_ACK : STMPI_STATE_SENDING);
	ret = p->rail->ops->post(p->rail, w);
	if (stmpi_unlikely(ret < 0))
		return ret;
	p->owed = 0;
	p->credits--;
	E->stats.eager++;
	if (stmpi_likely(ret == 0) && !is_sync)
		stmpi_op_complete(op, 0);
	else if (ret == 1)
		set_state(op, STMPI_STATE_SENDING);
	else
		await_word(op);
	return ret;
}

static void rts_done(struct stmpi_work *work, int status)
{
	struct stmpi_op *op = stmpi_container_of(work, struct stmpi_op, net.work);

	if (status != 0)
		(void)stmpi_proto_abandon(op, -status);
}

static void set_rts(struct stmpi_op *op)
{
	op->rts.bytes = op->bytes;
	op->rts.addr = op->mr != NULL ? op->mr->addr : 0;
	op->rts.key = op->mr != NULL ? op->mr->key : 0;
}

static int send_rts(struct stmpi_op *op, struct stmpi_proc *p)
{
	struct stmpi_net_work *w = &op->net;
	int ret;

	if (op->mr == NULL && op->bytes > 0) {
		ret = p->rail->ops->reg(p->rail, op->buf, op->bytes, &op->mr);
		if (ret != 0)
			return ret;
	}
	set_rts(op);
	w->work.kind = STMPI_WORK_SEND;
	w->work.fn = rts_done;
	w->rail = p->rail;
	w->peer = p->peer;
	w->src = &op->rts;
	w->bytes = sizeof(op->rts);
	w->hdr = pack(PACKET_RTS, p, op->comm->ctx, op->comm->rank, op->tag, cookie_of(op));
	set_state(op, STMPI_STATE_RTS);
	ret = p->rail->ops->post(p->rail, w);
	if (ret < 0)
		return ret;
	p->owed = 0;
	E->stats.rendezvous++;
	await_word(op);
	return ret;
}

/* Start a send; -STMPI_EAGAIN when the rail has no room. Other failures have ended it. */
static int try_send(struct stmpi_op *op)
{
	struct stmpi_proc *p = op->proc;
	int ret;

	if (stmpi_likely(op->bytes <= p->eager_max && p->credits > 0)) {
		ret = send_eager(op, p);
	} else {
		if (op->bytes <= p->eager_max)
			E->stats.no_credit++;
		ret = send_rts(op, p);
	}
	if (stmpi_unlikely(ret < 0 && ret != -STMPI_EAGAIN))
		stmpi_op_complete(op, -ret);
	return ret;
}

static void start_send(struct stmpi_op *op)
{
	struct stmpi_proc *p = op->proc;

	if (stmpi_unlikely(p->error != 0)) {
		stmpi_op_complete(op, p->error);
		return;
	}
	if (stmpi_likely(p->sendq == NULL) && try_send(op) != -STMPI_EAGAIN)
		return;
	E->stats.no_room++;
	set_state(op, STMPI_STATE_SENDQ);
	op->next = NULL;
	if (p->sendq == NULL)
		p->sendq = op;
	else
		p->sendq_tail->next = op;
	p->sendq_tail = op;
	/* Before anything that comes later in the program: partner stmpi_trigger_fire. */
	atomic_store_explicit(&p->is_stuck, 1, memory_order_release);
	mark_busy(p);
}

/* ---- sends that the rail may arm ---- */

/* Asked when it is armed: the packet, as the software's way would send it now. */
static int prepare(struct stmpi_net_work *w, struct stmpi_net_packet *packet)
{
	struct stmpi_op *op = stmpi_container_of(w, struct stmpi_op, net);
	struct stmpi_proc *p = op->proc;
	int ret = 0;

	if (op->bytes <= p->eager_max && (op->armed_as == ARMED_EAGER || p->credits > 0)) {
		if (op->armed_as != ARMED_EAGER)
			p->credits--;
		op->armed_as = ARMED_EAGER;
		packet->hdr = pack(PACKET_EAGER, p, op->comm->ctx, op->comm->rank, op->tag,
				   op->kind == STMPI_OP_SSEND ? cookie_of(op) : 0);
		packet->data = NULL; /* the stream copies it */
		packet->bytes = op->bytes;
		packet->ends_when_fired = op->kind == STMPI_OP_SSEND;
	} else {
		if (op->mr == NULL && op->bytes > 0)
			ret = p->rail->ops->reg(p->rail, op->buf, op->bytes, &op->mr);
		if (ret != 0)
			return ret;
		set_rts(op);
		op->armed_as = ARMED_RTS;
		packet->hdr =
			pack(PACKET_RTS, p, op->comm->ctx, op->comm->rank, op->tag, cookie_of(op));
		packet->data = &op->rts;
		packet->bytes = sizeof(op->rts);
		packet->ends_when_fired = 1;
	}
	/* Credits that are owed when it is fired are not known yet: others bring them. */
	packet->hdr.w[0] &= ~(UINT64_C(0xffff) << 16);
	return 0;
}

/* It has been fired, and the stream has come by. */
static void armed_fired(struct stmpi_op *op)
{
	int is_eager = op->armed_as == ARMED_EAGER;

	op->started_tick = atomic_load_explicit(&E->tick, memory_order_relaxed); /* a rough clock */
	if (is_eager)
		E->stats.eager++;
	else
		E->stats.rendezvous++;
	if (is_eager && op->kind == STMPI_OP_SEND) {
		set_state(op, STMPI_STATE_SENDING);
	} else {
		set_state(op, is_eager ? STMPI_STATE_ACK : STMPI_STATE_RTS);
		await_word(op);
	}
	if (stmpi_unlikely(op->proc->error != 0))
		(void)stmpi_proto_abandon(op, op->proc->error);
}

/* What the trigger has to say of an armable send. */
static void armable_done(struct stmpi_work *work, int status)
{
	struct stmpi_op *op = stmpi_container_of(work, struct stmpi_op, net.work);

	if (status == STMPI_WORK_FIRED) {
		armed_fired(op);
	} else if (stmpi_unlikely(status == STMPI_WORK_LATE)) {
		if (op->armed_as == ARMED_EAGER) /* prepared, but then the stream was faster */
			op->proc->credits++;
		op->start.fn(&op->start, 0);
	} else if (status == -STMPI_ECANCELED) {
		op->start.fn(&op->start, status);
	} else {
		stmpi_op_complete(op, -status);
	}
}

void stmpi_proto_make_armable(struct stmpi_op *op, uint64_t shot)
{
	struct stmpi_net_work *w = &op->net;

	op->is_armable = 1;
	op->armed_as = ARMED_NOT;
	w->work.kind = STMPI_WORK_SEND;
	w->work.fn = armable_done;
	w->rail = op->proc->rail;
	w->peer = op->proc->peer;
	w->src = op->buf;
	w->bytes = op->bytes;
	atomic_store_explicit(&w->armed.stage, STMPI_STAGE_OPEN,
			      memory_order_relaxed); /* not queued yet */
	w->armed.shot = shot;
	w->armed.gate = &op->proc->is_stuck;
	w->armed.prepare = prepare;
	w->armed.state = STMPI_ARMED_NOT;
	atomic_store_explicit(&w->armed.may_arm, 0, memory_order_relaxed);
	w->armed.slot = NULL;
}

/* ---- receives ---- */

/* Take over who sent what, how much, and whether it fits. Returns the bytes to deliver. */
static inline uint64_t set_result(struct stmpi_op *op, int32_t source, int32_t tag, uint64_t bytes)
{
	op->result.source = source;
	op->result.tag = tag;
	op->result.error = 0;
	if (stmpi_unlikely(bytes > op->bytes)) {
		op->result.error = STMPI_ETRUNCATE;
		E->stats.truncated++;
		bytes = op->bytes;
	}
	op->result.bytes = bytes;
	E->stats.received++;
	return bytes;
}

static inline void recv_eager(struct stmpi_op *op, struct stmpi_proc *p, int32_t source,
			      int32_t tag, uint64_t cookie, const void *data, uint64_t bytes)
{
	uint64_t n = set_result(op, source, tag, bytes);

	if (n > 0)
		memcpy(op->buf, data, n);
	op->proc = p;
	stmpi_op_complete(op, 0);
	owe(p);
	if (stmpi_unlikely(cookie != 0))
		write_word(p, cookie);
}

static void read_done(struct stmpi_work *work, int status)
{
	struct stmpi_op *op = stmpi_container_of(work, struct stmpi_op, net.work);
	struct stmpi_proc *p = op->proc;
	uint64_t cookie = op->peer_cookie;

	if (op->mr != NULL)
		p->rail->ops->dereg(p->rail, op->mr);
	op->mr = NULL;
	stmpi_op_complete(op, status != 0 ? -status : 0);
	if (status == 0)
		write_word(p, cookie);
	else
		send_empty(p, PACKET_NACK, cookie);
}

static void post_read(struct stmpi_op *op)
{
	int ret = op->proc->rail->ops->post(op->proc->rail, &op->net);

	if (ret == -STMPI_EAGAIN) {
		op->next = NULL;
		if (E->reads == NULL)
			E->reads = op;
		else
			E->reads_tail->next = op;
		E->reads_tail = op;
	} else if (ret <= 0) {
		read_done(&op->net.work, ret);
	}
}

static void recv_rts(struct stmpi_op *op, struct stmpi_proc *p, int32_t source, int32_t tag,
		     uint64_t cookie, const struct stmpi_rts *rts)
{
	uint64_t n = set_result(op, source, tag, rts->bytes);
	struct stmpi_net_work *w = &op->net;
	int ret = 0;

	op->proc = p;
	op->peer_cookie = cookie;
	set_state(op, STMPI_STATE_READING);
	if (n > 0)
		ret = p->rail->ops->reg(p->rail, op->buf, n, &op->mr);
	if (n == 0 || ret != 0) {
		read_done(&w->work, ret);
		return;
	}
	w->work.kind = STMPI_WORK_READ;
	w->work.fn = read_done;
	w->rail = p->rail;
	w->peer = p->peer;
	w->dst = op->buf;
	w->bytes = n;
	w->mr = op->mr;
	w->remote_addr = rts->addr;
	w->remote_key = rts->key;
	if (E->reads != NULL) { /* keep their order */
		op->next = NULL;
		E->reads_tail->next = op;
		E->reads_tail = op;
	} else {
		post_read(op);
	}
}

static struct message *message_alloc(uint64_t data_bytes)
{
	struct message *m;

	if (data_bytes > SMALL_BYTES)
		return malloc(sizeof(*m) + data_bytes);
	m = small_pool;
	if (m != NULL) {
		small_pool = m->next;
		return m;
	}
	return malloc(sizeof(*m) + SMALL_BYTES);
}

static void message_free(struct message *m)
{
	if (m->kind == PACKET_EAGER && m->bytes > SMALL_BYTES) {
		free(m);
		return;
	}
	m->next = small_pool;
	small_pool = m;
}

static void start_recv(struct stmpi_op *op)
{
	struct stmpi_match_msg *found;
	struct message *m;

	found = stmpi_match_find(&E->match, op->comm->ctx, op->peer, op->tag);
	if (found == NULL) {
		if (stmpi_unlikely(op->proc != NULL && op->proc->error != 0)) {
			stmpi_op_complete(op, op->proc->error);
			return;
		}
		set_state(op, STMPI_STATE_POSTED);
		op->match.ctx = op->comm->ctx;
		op->match.source = op->peer;
		op->match.tag = op->tag;
		stmpi_match_post(&E->match, &op->match);
		return;
	}
	stmpi_match_drop(&E->match, found);
	E->stats.unexpected_now--;
	m = stmpi_container_of(found, struct message, match);
	if (m->kind == PACKET_EAGER)
		recv_eager(op, m->proc, found->source, found->tag, m->cookie, m->data, m->bytes);
	else
		recv_rts(op, m->proc, found->source, found->tag, m->cookie, &m->rts);
	message_free(m);
}

void stmpi_proto_start(struct stmpi_op *op)
{
	if (stmpi_unlikely(op->peer == STMPI_PROC_NULL))
		stmpi_op_complete(op,
				  0); /* with the result that a null operation has from the start */
	else if (op->kind == STMPI_OP_RECV)
		start_recv(op);
	else
		start_send(op);
}

/* ---- packets ---- */

static void keep(struct stmpi_proc *p, enum packet_kind kind, const struct stmpi_net_hdr *hdr,
		 const void *payload, size_t bytes)
{
	struct message *m = message_alloc(kind == PACKET_EAGER ? bytes : 0);

	if (m == NULL) { /* its sender would wait for ever: end everything with that peer */
		stmpi_proc_failed(NULL, p, -STMPI_ENOMEM);
		return;
	}
	m->match.ctx = (uint32_t)(hdr->w[0] >> 32);
	m->match.source = (int32_t)(uint32_t)hdr->w[1];
	m->match.tag = (int32_t)(uint32_t)(hdr->w[1] >> 32);
	m->proc = p;
	m->cookie = hdr->w[2];
	m->kind = (uint8_t)kind;
	if (kind == PACKET_EAGER) {
		m->bytes = bytes;
		memcpy(m->data, payload, bytes);
	} else {
		memcpy(&m->rts, payload, sizeof(m->rts));
		m->bytes = m->rts.bytes;
	}
	stmpi_match_keep(&E->match, &m->match);
	E->stats.unexpected++;
	if (++E->stats.unexpected_now > E->stats.unexpected_max)
		E->stats.unexpected_max = E->stats.unexpected_now;
}

static void nack_one(struct stmpi_op *op, void *arg)
{
	const uint64_t *cookie = arg;
	uint8_t state =
		atomic_load_explicit(&op->state, memory_order_relaxed); /* under the token */

	if (state == STMPI_STATE_RTS && cookie_of(op) == *cookie)
		(void)stmpi_proto_abandon(op, STMPI_ENET);
}

/* The sender's buffer is its program's again: an announcement that was not matched yet never was.
 */
static void cancel_message(struct stmpi_proc *p, uint64_t cookie)
{
	struct stmpi_match_msg *at;
	struct message *m;

	for (unsigned int b = 0; b < STMPI_MATCH_BUCKETS; b++) {
		DL_FOREACH2(E->match.messages[0][b], at, link[0].next)
		{
			m = stmpi_container_of(at, struct message, match);
			if (m->kind != PACKET_RTS || m->proc != p || m->cookie != cookie)
				continue;
			stmpi_match_drop(&E->match, at);
			E->stats.unexpected_now--;
			message_free(m);
			return;
		}
	}
}

void stmpi_proto_packet(void *arg, void *user, const struct stmpi_net_hdr *hdr, const void *payload,
			size_t bytes)
{
	enum packet_kind kind = (enum packet_kind)(hdr->w[0] & 0xff);
	struct stmpi_proc *p = user;
	struct stmpi_match_recv *r;
	int32_t source, tag;
	uint64_t cookie;

	(void)arg;
	p->credits += (uint32_t)(hdr->w[0] >> 16) & 0xffff;
	if (stmpi_unlikely(kind != PACKET_EAGER && kind != PACKET_RTS)) {
		cookie = hdr->w[2];
		if (kind == PACKET_NACK)
			stmpi_op_for_each(nack_one, &cookie);
		else if (kind == PACKET_CANCEL)
			cancel_message(p, cookie);
		return;
	}
	source = (int32_t)(uint32_t)hdr->w[1];
	tag = (int32_t)(uint32_t)(hdr->w[1] >> 32);
	r = stmpi_match_arrive(&E->match, (uint32_t)(hdr->w[0] >> 32), source, tag);
	if (r == NULL) {
		keep(p, kind, hdr, payload, bytes);
	} else if (kind == PACKET_EAGER) {
		recv_eager(stmpi_container_of(r, struct stmpi_op, match), p, source, tag, hdr->w[2],
			   payload, bytes);
	} else {
		struct stmpi_rts rts;

		memcpy(&rts, payload, sizeof(rts));
		recv_rts(stmpi_container_of(r, struct stmpi_op, match), p, source, tag, hdr->w[2],
			 &rts);
	}
}

/* ---- what found no room ---- */

/* Returns 1 when all queues of p are empty. */
static int push_proc(struct stmpi_proc *p, int *events)
{
	if (p->owed > E->credits / 2 && !give_credits(p))
		return 0;
	while (p->ctrlq != NULL) {
		struct stmpi_ctrl *c = p->ctrlq;
		int ret = p->error != 0 ? -STMPI_EPEER : post_ctrl(p, &c->net);

		if (ret == -STMPI_EAGAIN)
			return 0;
		DL_DELETE(p->ctrlq, c);
		(*events)++;
		if (ret <= 0)
			ctrl_free(c);
	}
	while (p->sendq != NULL) {
		struct stmpi_op *op = p->sendq, *next = op->next;

		if (try_send(op) == -STMPI_EAGAIN) {
			set_state(op, STMPI_STATE_SENDQ);
			return 0;
		}
		/* op may be gone, but a send that ends does not touch the queue. */
		p->sendq = next;
		(*events)++;
	}
	/* Release: the posts come before. Partner: stmpi_trigger_fire. */
	atomic_store_explicit(&p->is_stuck, 0, memory_order_release);
	return 1;
}

int stmpi_proto_push(void)
{
	struct stmpi_proc **at = &E->busy;
	struct stmpi_op *op;
	int events = 0;

	while (*at != NULL) {
		struct stmpi_proc *p = *at;

		if (!push_proc(p, &events)) {
			at = &p->busy_next;
			continue;
		}
		/* Posting may have put others in front of us, never taken any away. */
		while (*at != p)
			at = &(*at)->busy_next;
		*at = p->busy_next;
		p->is_busy = 0;
	}
	while (E->reads != NULL) {
		int ret;

		op = E->reads;
		ret = op->proc->rail->ops->post(op->proc->rail, &op->net);
		if (ret == -STMPI_EAGAIN)
			break;
		E->reads = op->next;
		events++;
		if (ret <= 0)
			read_done(&op->net.work, ret);
	}
	return events;
}

/* ---- ends by force ---- */

static void leave_sendq(struct stmpi_op *op)
{
	struct stmpi_op **at = &op->proc->sendq;

	while (*at != NULL && *at != op)
		at = &(*at)->next;
	if (*at == NULL)
		return;
	*at = op->next;
	for (op->proc->sendq_tail = op->proc->sendq;
	     op->proc->sendq_tail && op->proc->sendq_tail->next;)
		op->proc->sendq_tail = op->proc->sendq_tail->next;
}

/* End an operation that waits for its peer. What the rail still holds, the rail will end. */
int stmpi_proto_abandon(struct stmpi_op *op, int error)
{
	switch (atomic_load_explicit(&op->state, memory_order_relaxed)) { /* under the token */
	case STMPI_STATE_POSTED:
		stmpi_match_unpost(&E->match, &op->match);
		break;
	case STMPI_STATE_SENDQ:
		leave_sendq(op);
		break;
	case STMPI_STATE_RTS:
	case STMPI_STATE_ACK:
		if (stmpi_op_is_done(op))
			return 0;
		if (op->flags & STMPI_OP_F_ORPHAN) /* completion frees it */
			LL_DELETE(E->orphans, op);
		/* A peer that is only slow may still write the word: then it must not be another
		 * one's. */
		op->flags |= STMPI_OP_F_SPENT;
		if (op->proc->error == 0 && error != STMPI_ENET)
			send_empty(op->proc, PACKET_CANCEL, cookie_of(op));
		break;
	case STMPI_STATE_SENDING:
		if (!op->is_armable || op->net.armed.slot == NULL)
			return 0;
		op->proc->rail->defer->forget(&op->net);
		break;
	default:
		return 0;
	}
	stmpi_op_complete(op, error);
	return 1;
}

void stmpi_proto_fini(void)
{
	struct stmpi_ctrl *c;
	struct message *m;

	for (unsigned int b = 0; b < STMPI_MATCH_BUCKETS; b++) {
		while (E->match.messages[0][b] != NULL) {
			m = stmpi_container_of(E->match.messages[0][b], struct message, match);
			stmpi_match_drop(&E->match, &m->match);
			free(m);
		}
	}
	while ((m = small_pool) != NULL) {
		small_pool = m->next;
		free(m);
	}
	while ((c = ctrl_pool) != NULL) {
		ctrl_pool = c->next;
		free(c);
	}
}

int stmpi_probe(struct stmpi_comm *comm, int32_t source, int32_t tag, struct stmpi_result *result)
{
	struct stmpi_match_msg *found;
	int ret = 0;

	stmpi_token_lock();
	stmpi_progress_poll_locked();
	found = stmpi_match_find(&E->match, comm->ctx, source, tag);
	if (found != NULL) {
		*result = (struct stmpi_result){
			found->source, found->tag, 0,
			stmpi_container_of(found, struct message, match)->bytes};
		ret = 1;
	} else if (source >= 0 && comm->procs[source]->error != 0) {
		ret = stmpi_error_set(STMPI_EPEER, "source %d: the process is gone", source);
	}
	stmpi_token_release();
	return ret;
}
