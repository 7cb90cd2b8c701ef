/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "util/clock.h"
#include "util/params.h"

int side, wire;
struct stmpi_flags flags;
struct stmpi_rail *rail;
struct stmpi_net_peer *peer, *self;
int peer_gone;

uint64_t came[2], wrong;
void (*on_packet)(int from, const struct stmpi_net_hdr *hdr, const void *payload, size_t bytes);

void fill(void *buf, size_t bytes, uint64_t key)
{
	unsigned char *p = buf;

	for (size_t i = 0; i < bytes; i++)
		p[i] = (unsigned char)(key * 29 + i * 5 + (i >> 8) * 3);
}

int is_right(const void *buf, size_t bytes, uint64_t key)
{
	const unsigned char *p = buf;

	for (size_t i = 0; i < bytes; i++) {
		if (p[i] != (unsigned char)(key * 29 + i * 5 + (i >> 8) * 3))
			return 0;
	}
	return 1;
}

static void packet(void *arg, void *user, const struct stmpi_net_hdr *hdr, const void *payload,
		   size_t bytes)
{
	int from = *(int *)user;

	(void)arg;
	if ((uintptr_t)payload % 8 != 0)
		wrong++;
	if (on_packet != NULL) {
		on_packet(from, hdr, payload, bytes);
		return;
	}
	if (hdr->w[0] != came[from] || hdr->w[1] != ~hdr->w[0] || hdr->w[2] != bytes ||
	    !is_right(payload, bytes, hdr->w[0]))
		wrong++;
	came[from]++;
}

static void failed(void *arg, void *user, int error)
{
	(void)arg;
	(void)user;
	(void)error;
	peer_gone++;
}

const struct stmpi_net_upcalls upcalls = {NULL, packet, failed};

void swap(const void *mine, void *theirs, size_t bytes)
{
	NEED(write(wire, mine, bytes) == (ssize_t)bytes);
	NEED(recv(wire, theirs, bytes, MSG_WAITALL) == (ssize_t)bytes);
}

void meet(void)
{
	char a = 1, b;

	NEED(write(wire, &a, 1) == 1);
	while (recv(wire, &b, 1, MSG_DONTWAIT) != 1)
		rail->ops->poll(rail);
}

const struct stmpi_net_ops *ops_of(const struct variant *v)
{
	return v->provider != NULL ? &stmpi_net_ofi_ops : &stmpi_net_shm_ops;
}

static void forbid_readv(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	NEED(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

void begin(const struct variant *v)
{
	static int users[2] = {0, 1};
	struct stmpi_net_attr attr = {2, &upcalls, &flags, 1000 + (uint64_t)side};
	unsigned char addr[2][STMPI_NET_ADDR_BYTES] = {{0}};
	size_t bytes[2];

	setenv("STMPI_OFI_PROVIDER", v->provider != NULL ? v->provider : "", 1);
	setenv("STMPI_SHM_CMA", v->cma, 1);
	setenv("STMPI_TRIGGER", v->trigger, 1);
	setenv("STMPI_TRIGGER_CREDITS", v->credits, 1);
	stmpi_params_reload();
	if (v->forbid)
		forbid_readv();
	NEED(stmpi_flags_init(&flags) == 0);
	NEED(ops_of(v)->open(&attr, &rail) == 0);
	NEED(rail->ops->address(rail, addr[side], &bytes[side]) == 0);
	NEED(bytes[side] <= STMPI_NET_ADDR_BYTES);
	swap(addr[side], addr[!side], STMPI_NET_ADDR_BYTES);
	swap(&bytes[side], &bytes[!side], sizeof(bytes[0]));
	NEED(rail->ops->connect(rail, addr[side], bytes[side], &users[side], &self) == 0);
	NEED(rail->ops->connect(rail, addr[!side], bytes[!side], &users[!side], &peer) == 0);
	meet();
}

void end(void)
{
	uint64_t limit = stmpi_clock_ns() + 10000000000u;

	meet();
	while (rail->ops->is_busy(rail) && stmpi_clock_ns() < limit)
		rail->ops->poll(rail);
	NEED(!rail->ops->is_busy(rail));
	meet();
	rail->ops->close(rail);
	stmpi_flags_fini(&flags);
}

void two(const struct variant *v, void (*body)(void))
{
	char why[512] = "";
	int ends[2], status;
	pid_t child;

	setenv("STMPI_OFI_PROVIDER", v->provider != NULL ? v->provider : "", 1);
	stmpi_params_reload();
	if (ops_of(v)->probe(why, sizeof(why)) != 0) {
		printf("%s is not here, skipped: %s\n", v->name, why);
		return;
	}
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	child = fork();
	side = child == 0;
	wire = ends[side];
	close(ends[!side]);
	begin(v);
	body();
	end();
	if (child == 0)
		exit(0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

struct stmpi_net_work *send_work(struct stmpi_net_work *w, struct stmpi_net_peer *to,
				 const void *src, size_t bytes, uint64_t number)
{
	memset(w, 0, sizeof(*w));
	w->work.kind = STMPI_WORK_SEND;
	w->rail = rail;
	w->peer = to;
	w->src = src;
	w->bytes = bytes;
	w->hdr = (struct stmpi_net_hdr){{number, ~number, bytes}};
	return w;
}

void post(struct stmpi_net_work *w)
{
	int ret;

	while ((ret = rail->ops->post(rail, w)) == -STMPI_EAGAIN)
		rail->ops->poll(rail);
	NEED(ret == 0);
}
