/* SPDX-License-Identifier: BSD-3-Clause */
/* proc.c: processes: their addresses, which rail leads to them, what happens when they die. Cold.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/core_int.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"
#include "util/params.h"

#define E (&stmpi_engine)

#define ADDRESS_MAGIC 0x53544d50u
#define LAST_WORDS_NS UINT64_C(100000000) /* what an exited process has sent comes within this */

/* What ranks exchange. Same build on all ranks; magic and version tell when not. */
struct address {
	uint32_t magic;
	uint32_t version;
	int32_t error; /* 0 or a positive STMPI_E code: this rank could not start */
	uint32_t has_net;
	uint64_t uid;
	uint64_t node;
	uint32_t shm_bytes;
	uint32_t net_bytes;
	int32_t pid;
	char text[172];	    /* the reason for error */
	char settings[296]; /* parameters that must be equal on all ranks */
	unsigned char shm[STMPI_NET_ADDR_BYTES];
	unsigned char net[STMPI_NET_ADDR_BYTES];
};

_Static_assert(sizeof(struct address) <= STMPI_ADDRESS_BYTES, "address does not fit");

/* Processes of the job here: as the launcher says, or as many as a communicator has shown. */
static uint32_t node_procs(void)
{
	const char *told = stmpi_params_foreign("MPI_LOCALNRANKS");
	uint32_t n = atomic_load(&E->node_procs);
	long launched = told != NULL ? strtol(told, NULL, 10) : 0;

	if (launched > 0 && (unsigned long)launched > n)
		n = (uint32_t)launched;
	return n > 0 ? n : 1;
}

static int open_net(void)
{
	struct stmpi_net_attr attr = {node_procs(), &E->upcalls, &E->flags, E->uid};
	struct stmpi_rail *rail;
	int ret = 0;

	stmpi_token_lock();
	if (E->ofi == NULL) {
		ret = stmpi_net_ofi_ops.open(&attr, &rail);
		if (ret == 0)
			E->ofi = rail;
	}
	stmpi_token_release();
	return ret;
}

static int rail_address(struct stmpi_rail *rail, unsigned char *buf, uint32_t *bytes)
{
	size_t n = STMPI_NET_ADDR_BYTES;
	int ret;

	stmpi_token_lock();
	ret = rail->ops->address(rail, buf, &n);
	stmpi_token_release();
	*bytes = (uint32_t)n;
	return ret;
}

void stmpi_engine_address(void *address, int init_error, int with_net)
{
	struct address a;
	int ret = init_error;

	memset(&a, 0, sizeof(a));
	a.magic = ADDRESS_MAGIC;
	a.version = STMPI_NET_ABI;
	stmpi_params_shared_text(a.settings, sizeof(a.settings));
	if (ret == 0) {
		a.uid = E->uid;
		a.node = E->node;
		a.pid = (int32_t)getpid();
		if (E->shm != NULL)
			ret = rail_address(E->shm, a.shm, &a.shm_bytes);
	}
	if (ret == 0 && with_net) {
		ret = open_net();
		if (ret == 0)
			ret = rail_address(E->ofi, a.net, &a.net_bytes);
		a.has_net = ret == 0;
	}
	if (ret != 0) {
		a.error = -ret;
		snprintf(a.text, sizeof(a.text), "%s", stmpi_error_text());
	}
	memset(address, 0, STMPI_ADDRESS_BYTES);
	memcpy(address, &a, sizeof(a));
}

static const struct address *nth(const void *addresses, int rank)
{
	return (const void *)((const char *)addresses + (size_t)rank * STMPI_ADDRESS_BYTES);
}

/* Name the first parameter whose "NAME=value" differs between two settings texts. */
static int disagree(int rank, const char *mine, const char *theirs)
{
	char a[296], b[296], *save_a, *save_b, *x, *y;

	snprintf(a, sizeof(a), "%s", mine);
	snprintf(b, sizeof(b), "%s", theirs);
	x = strtok_r(a, " ", &save_a);
	y = strtok_r(b, " ", &save_b);
	while (x != NULL && y != NULL && strcmp(x, y) == 0) {
		x = strtok_r(NULL, " ", &save_a);
		y = strtok_r(NULL, " ", &save_b);
	}
	return stmpi_error_set(STMPI_ECONFIG, "ranks disagree: rank 0 has %s, rank %d has %s",
			       x ? x : "nothing", rank, y ? y : "nothing");
}

/* The first rank that shares its node with an earlier one, or -1. */
static int find_neighbours(const void *addresses, int ranks, int *other)
{
	for (int r = 1; r < ranks; r++) {
		for (*other = 0; *other < r; (*other)++) {
			if (nth(addresses, *other)->node == nth(addresses, r)->node)
				return r;
		}
	}
	return -1;
}

int stmpi_engine_check(const void *addresses, int ranks, int *need_net)
{
	const struct address *first = nth(addresses, 0);
	int is_apart = 0, lacks_net = 0;
	uint32_t here = 0;

	for (int r = 0; r < ranks; r++) {
		const struct address *a = nth(addresses, r);

		if (a->magic != ADDRESS_MAGIC || a->version != first->version)
			return stmpi_error_set(STMPI_ECONFIG,
					       "rank %d runs another version of stmpi than rank 0",
					       r);
		if (a->error != 0)
			return stmpi_error_set(a->error, "rank %d: %s", r, a->text);
		if (strcmp(a->settings, first->settings) != 0)
			return disagree(r, first->settings, a->settings);
		here += a->node == E->node;
		is_apart |= a->node != first->node;
		lacks_net |= !a->has_net;
	}
	if (is_apart && E->forces_shm)
		return stmpi_error_set(
			STMPI_ECONFIG,
			"STMPI_NET_BACKEND=shm: the ranks are on more than one node");
	if (here > atomic_load(&E->node_procs))
		atomic_store(&E->node_procs, here);
	if (stmpi_param_choice(STMPI_PARAM_TRIGGER) == STMPI_TRIGGER_DEFERRED && !E->forces_ofi) {
		int other, rank = find_neighbours(addresses, ranks, &other);

		if (rank >= 0)
			return stmpi_error_set(
				STMPI_ECONFIG,
				"STMPI_TRIGGER=deferred: ranks %d and %d are on one node and use "
				"stmpi-shm, which has no deferred work; STMPI_NET_BACKEND=ofi or "
				"a provider makes them use the network",
				other, rank);
	}
	*need_net = (is_apart || E->forces_ofi) && lacks_net;
	return 0;
}

/* Find or make the process behind an address. Under the token. */
int stmpi_proc_get(const void *address, struct stmpi_proc **proc)
{
	const struct address *a = address;
	struct stmpi_proc *p;
	int ret;

	HASH_FIND(hh, E->procs, &a->uid, sizeof(a->uid), p);
	if (p != NULL) {
		*proc = p;
		return 0;
	}
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a peer");
	p->uid = a->uid;
	p->credits = E->credits;
	p->pidfd = -1;
	if (E->forces_ofi || a->node != E->node) {
		p->rail = E->ofi;
		ret = p->rail->ops->connect(p->rail, a->net, a->net_bytes, p, &p->peer);
		if (a->node == E->node && a->uid != E->uid)
			p->pidfd = (int)syscall(SYS_pidfd_open, a->pid, 0);
	} else {
		p->rail = E->shm;
		ret = p->rail->ops->connect(p->rail, a->shm, a->shm_bytes, p, &p->peer);
	}
	if (ret != 0) {
		if (p->pidfd >= 0)
			close(p->pidfd);
		free(p);
		return ret;
	}
	p->eager_max =
		p->rail->eager_best < p->rail->eager_max ? p->rail->eager_best : p->rail->eager_max;
	if (stmpi_param_int(STMPI_PARAM_EAGER_MAX) >= 0) {
		p->eager_max = (size_t)stmpi_param_int(STMPI_PARAM_EAGER_MAX);
		if (p->eager_max > p->rail->eager_max)
			p->eager_max = p->rail->eager_max;
	}
	HASH_ADD(hh, E->procs, uid, sizeof(p->uid), p);
	*proc = p;
	return 0;
}

struct failing {
	struct stmpi_proc *proc;
	uint64_t ended;
};

static void fail_one(struct stmpi_op *op, void *arg)
{
	struct failing *f = arg;

	if (op->proc == f->proc)
		f->ended += (uint64_t)stmpi_proto_abandon(op, STMPI_EPEER);
}

/* Upcall of a rail: the peer is gone. Its works have ended; end the operations that wait for it. */
void stmpi_proc_failed(void *arg, void *user, int error)
{
	struct failing f = {user, 0};

	(void)arg;
	if (f.proc->error != 0)
		return;
	f.proc->error = error < 0 ? -error : STMPI_EPEER;
	stmpi_op_for_each(fail_one, &f);
	/* Peers that have finalised are gone too, which is nobody's concern when nothing waits for
	 * them. */
	stmpi_log(f.ended > 0 ? STMPI_LOG_WARN : STMPI_LOG_INFO,
		  "a peer process is gone: %llu operations with it end with an error",
		  (unsigned long long)f.ended);
}

/*
 * Peers on this node that are reached by a network: their process can be watched, and libfabric's
 * providers do not all tell of a peer from which only a message is awaited. Under the token, at
 * most every few milliseconds.
 */
void stmpi_proc_look(void)
{
	const uint64_t now = stmpi_clock_ns();
	struct stmpi_proc *p, *next;

	HASH_ITER (hh, E->procs, p, next) {
		struct pollfd fd = {p->pidfd, POLLIN, 0};

		if (p->pidfd < 0)
			continue;
		if (p->exit_seen_ns == 0 && poll(&fd, 1, 0) == 1)
			p->exit_seen_ns = now;
		if (p->exit_seen_ns == 0 || now - p->exit_seen_ns < LAST_WORDS_NS)
			continue;
		close(p->pidfd);
		p->pidfd = -1;
		p->rail->ops->lose(p->rail, p->peer);
	}
}

void stmpi_proc_free_all(void)
{
	struct stmpi_proc *p, *next;
	struct stmpi_ctrl *c, *c_next;

	HASH_ITER (hh, E->procs, p, next) {
		for (c = p->ctrlq; c != NULL; c = c_next) {
			c_next = c->next;
			free(c);
		}
		HASH_DEL(E->procs, p);
		if (p->pidfd >= 0)
			close(p->pidfd);
		free(p);
	}
}
