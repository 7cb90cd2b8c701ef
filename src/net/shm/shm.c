/* SPDX-License-Identifier: BSD-3-Clause */
/* shm.c: the shared-memory rail: its table of operations. post and poll are hot. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/shm/shm_int.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/params.h"

/* Cells taken from one peer per round, so that none starves another. */
#define TAKE_LIMIT 16u

/* How often idle looks for dead peers. */
#define IDLE_NS 50000000u

static struct shm_rail *of(struct stmpi_rail *rail)
{
	return (struct shm_rail *)rail;
}

static int probe(char *why, size_t why_bytes)
{
	int fd = memfd_create("stmpi-probe", MFD_CLOEXEC);

	if (fd < 0) {
		snprintf(why, why_bytes, "memfd_create: %s", strerror(errno));
		return -STMPI_ENODEV;
	}
	close(fd);
	return 0;
}

static int rail_open(const struct stmpi_net_attr *attr, struct stmpi_rail **rail)
{
	struct shm_rail *r = calloc(1, sizeof(*r));
	int ret;

	if (r == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for the shared-memory rail");
	r->rail = (struct stmpi_rail){.ops = &stmpi_net_shm_ops,
				      .eager_max = SHM_EAGER_MAX,
				      .eager_best = SHM_EAGER_BEST};
	r->attr = *attr;
	r->pid = getpid();
	r->has_cma = stmpi_param_choice(STMPI_PARAM_SHM_CMA) != STMPI_CMA_OFF;
	snprintf(r->rail.description, sizeof(r->rail.description), "shared memory (%s)",
		 r->has_cma ? "process_vm_readv" : "two copies");
	ret = shm_mailbox_make(r);
	if (ret != 0) {
		free(r);
		return ret;
	}
	*rail = &r->rail;
	return 0;
}

static void rail_close(struct stmpi_rail *rail)
{
	struct shm_rail *r = of(rail);
	struct stmpi_net_peer *p, *next;
	struct shm_mr *m;

	if (r == NULL)
		return;
	/* Release: after the last packet. Partner: look_at_peer. */
	atomic_store_explicit(&r->mailbox->is_closed, 1, memory_order_release);
	HASH_CLEAR(hh, r->by_uid);
	for (p = r->peers; p != NULL; p = next) {
		struct shm_serve *s, *s_next;

		next = p->next;
		for (s = p->serves; s != NULL; s = s_next) {
			s_next = s->next;
			free(s);
		}
		shm_peer_unmap(p);
		free(p);
	}
	while ((m = r->mrs) != NULL) {
		r->mrs = m->next;
		free(m);
	}
	shm_strangers_free(r);
	munmap(r->mailbox, sizeof(*r->mailbox));
	close(r->mailbox_fd);
	free(r->in);
	free(r);
}

static int address(struct stmpi_rail *rail, void *addr, size_t *bytes)
{
	struct shm_rail *r = of(rail);
	struct shm_address a;

	memset(&a, 0, sizeof(a));
	a.uid = r->attr.uid;
	a.nonce = r->mailbox->nonce;
	a.pid = (int32_t)r->pid;
	a.mailbox_fd = r->mailbox_fd;
	a.flags_fd = r->attr.flags->fd;
	memcpy(addr, &a, sizeof(a));
	*bytes = sizeof(a);
	return 0;
}

static int rail_connect(struct stmpi_rail *rail, const void *addr, size_t bytes, void *user,
			struct stmpi_net_peer **peer)
{
	struct shm_rail *r = of(rail);
	struct stmpi_net_peer *p;
	int ret;

	if (bytes != sizeof(p->address))
		return stmpi_error_set(STMPI_EINVAL,
				       "a shared-memory address has %zu bytes, not %zu",
				       sizeof(p->address), bytes);
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a peer");
	memcpy(&p->address, addr, bytes);
	p->uid = p->address.uid;
	p->user = user;
	p->out_fd = p->pidfd = -1;
	ret = shm_peer_map(p);
	if (ret == 0)
		ret = shm_stranger_adopt(r, p);
	if (ret != 0) {
		shm_peer_unmap(p);
		free(p);
		return ret;
	}
	p->next = r->peers;
	r->peers = p;
	HASH_ADD(hh, r->by_uid, uid, sizeof(p->uid), p);
	*peer = p;
	return 0;
}

static int post(struct stmpi_rail *rail, struct stmpi_net_work *w)
{
	switch (w->work.kind) {
	case STMPI_WORK_SEND:
		return shm_put(of(rail), w->peer, SHM_PACKET, &w->hdr, w->src, w->bytes);
	case STMPI_WORK_READ:
		return shm_read_post(of(rail), w);
	case STMPI_WORK_FLAG:
		return shm_flag_post(of(rail), w);
	case STMPI_WORK_CALL:
		break;
	}
	return stmpi_error_set(STMPI_EINVAL, "a call is no network operation");
}

static int rail_poll(struct stmpi_rail *rail)
{
	struct shm_rail *r = of(rail);
	int events = 0;

	for (uint32_t i = 0; i < r->in_count; i++)
		events += shm_take(r, r->in[i], TAKE_LIMIT);
	shm_mails_read(r);
	if (stmpi_unlikely(r->reads != NULL || r->serving > 0))
		events += shm_read_poll(r);
	return events;
}

/* The peer has gone: take what it still sent, then end what waits for it. error 0: it closed in
 * order. */
static void lose(struct shm_rail *r, struct stmpi_net_peer *p, int error)
{
	const struct stmpi_net_upcalls *up = r->attr.upcalls;

	shm_mails_read(r);
	while (p->in != NULL && shm_take(r, p, SHM_CELLS) > 0)
		;
	if (p->error != 0)
		return;
	p->error = -STMPI_EPEER;
	shm_read_fail(r, p);
	up->peer_failed(up->arg, p->user, error);
}

static void rail_lose(struct stmpi_rail *rail, struct stmpi_net_peer *p)
{
	lose(of(rail), p, -STMPI_EPEER);
}

static int has_exited(const struct stmpi_net_peer *p)
{
	struct pollfd fd = {p->pidfd, POLLIN, 0};

	if (p->is_lost)
		return 1;
	if (p->pidfd >= 0)
		return poll(&fd, 1, 0) == 1;
	return kill((pid_t)p->address.pid, 0) != 0 && errno == ESRCH;
}

static void look_at_peer(struct shm_rail *r, struct stmpi_net_peer *p, int is_gone)
{
	/* Partner: rail_close of the peer; what it sent is seen after. */
	int is_closed = atomic_load_explicit(&p->mailbox->is_closed, memory_order_acquire);

	if (p->out_fd >= 0 && p->out != NULL &&
	    atomic_load_explicit(&p->out->is_mapped, memory_order_acquire)) {
		close(p->out_fd);
		p->out_fd = -1;
	}
	if (p->error == 0 && (is_closed || is_gone))
		lose(r, p, is_closed ? 0 : -STMPI_EPEER);
}

static void idle(struct stmpi_rail *rail)
{
	struct shm_rail *r = of(rail);
	uint64_t now = stmpi_clock_ns();
	struct stmpi_net_peer *p;

	if (now - r->idle_ns < IDLE_NS)
		return;
	r->idle_ns = now;
	for (p = r->peers; p != NULL; p = p->next) {
		if (p->error == 0 && p->address.pid != (int32_t)r->pid)
			look_at_peer(r, p, has_exited(p));
	}
}

/* Nothing to register: peers read by address. Descriptors come from a pool. */
static int reg(struct stmpi_rail *rail, const void *addr, size_t bytes, struct stmpi_net_mr **mr)
{
	struct shm_rail *r = of(rail);
	struct shm_mr *m = r->mrs;

	(void)bytes;
	if (stmpi_likely(m != NULL))
		r->mrs = m->next;
	else
		m = malloc(sizeof(*m));
	if (stmpi_unlikely(m == NULL))
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a registration");
	m->mr = (struct stmpi_net_mr){(uint64_t)(uintptr_t)addr, 0};
	*mr = &m->mr;
	return 0;
}

static void dereg(struct stmpi_rail *rail, struct stmpi_net_mr *mr)
{
	struct shm_mr *m = stmpi_container_of(mr, struct shm_mr, mr);

	m->next = of(rail)->mrs;
	of(rail)->mrs = m;
}

static int is_busy(struct stmpi_rail *rail)
{
	struct shm_rail *r = of(rail);
	struct stmpi_net_peer *p;

	if (r->reads != NULL || r->asked != NULL || r->serving > 0)
		return 1;
	for (p = r->peers; p != NULL; p = p->next) {
		/* Not found yet: it lives in our file table only. */
		if (p->out != NULL && p->error == 0 &&
		    !atomic_load_explicit(&p->out->is_mapped, memory_order_acquire) &&
		    !atomic_load_explicit(&p->mailbox->is_closed, memory_order_acquire))
			return 1;
	}
	return 0;
}

const struct stmpi_net_ops stmpi_net_shm_ops = {
	.abi = STMPI_NET_ABI,
	.bytes = sizeof(struct stmpi_net_ops),
	.name = "shm",
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
