/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_net_shm.c: what only the shared-memory rail promises: who is connected when, FLAGs behind
 * READs in progress, reads that fail, peers that end, closing with work left. Beyond the
 * conformance that test_net.c runs over all rails.
 */
#include "../suite.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/net.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/params.h"

#define LIMIT_NS UINT64_C(20000000000)

#define NEED(cond) NEED_OF("process", me, cond)

#define MAX 3

struct address {
	unsigned char bytes[STMPI_NET_ADDR_BYTES];
	size_t length;
};

/* What the processes of one test share: mapped before the fork. */
static struct board {
	struct address addresses[MAX];
	_Atomic int steps[MAX]; /* how far each is */
} * board;

static int me, users[MAX] = {0, 1, 2};
static struct stmpi_flags flags;
static struct stmpi_rail *rail;
static uint64_t came[MAX], wrong;
static int gone[MAX];

static void packet(void *arg, void *user, const struct stmpi_net_hdr *hdr, const void *payload,
		   size_t bytes)
{
	int from = *(int *)user;

	(void)arg;
	(void)payload;
	(void)bytes;
	wrong += hdr->w[0] != came[from]++;
}

static void failed(void *arg, void *user, int error)
{
	(void)arg;
	(void)error;
	gone[*(int *)user]++;
}

static const struct stmpi_net_upcalls upcalls = {NULL, packet, failed};

static void step(int n)
{
	atomic_store(&board->steps[me], n);
}

static void wait_step(int who, int n)
{
	uint64_t limit = stmpi_clock_ns() + LIMIT_NS;

	while (atomic_load(&board->steps[who]) < n) {
		rail->ops->poll(rail);
		NEED(stmpi_clock_ns() < limit);
		usleep(20);
	}
}

static void rail_begin(const char *cma)
{
	struct stmpi_net_attr attr = {4, &upcalls, &flags, 500 + (uint64_t)me};
	struct address *a = &board->addresses[me];

	setenv("STMPI_SHM_CMA", cma, 1);
	stmpi_params_reload();
	NEED(stmpi_flags_init(&flags) == 0);
	NEED(stmpi_net_shm_ops.open(&attr, &rail) == 0);
	NEED(rail->ops->address(rail, a->bytes, &a->length) == 0);
	step(1);
}

static struct stmpi_net_peer *meet(int who)
{
	struct stmpi_net_peer *p;

	wait_step(who, 1);
	NEED(rail->ops->connect(rail, board->addresses[who].bytes, board->addresses[who].length,
				&users[who], &p) == 0);
	return p;
}

static void rail_end(void)
{
	rail->ops->close(rail);
	stmpi_flags_fini(&flags);
}

static void send_to(struct stmpi_net_peer *p, uint64_t number, size_t bytes)
{
	static unsigned char data[4096];
	struct stmpi_net_work w = {.work = {STMPI_WORK_SEND, NULL},
				   .rail = rail,
				   .peer = p,
				   .src = data,
				   .bytes = bytes,
				   .hdr = {{number, 0, 0}}};
	int ret;

	while ((ret = rail->ops->post(rail, &w)) == -STMPI_EAGAIN)
		rail->ops->poll(rail);
	NEED(ret == 0);
}

static void poll_until_came(int from, uint64_t n)
{
	uint64_t limit = stmpi_clock_ns() + LIMIT_NS;

	while (came[from] < n) {
		rail->ops->poll(rail);
		NEED(stmpi_clock_ns() < limit);
	}
	NEED(came[from] == n && wrong == 0);
}

static void poll_until_gone(int who)
{
	uint64_t limit = stmpi_clock_ns() + LIMIT_NS;

	while (!gone[who]) {
		rail->ops->poll(rail);
		rail->ops->idle(rail);
		NEED(stmpi_clock_ns() < limit);
	}
}

/* Run one body per process; each must end with 0, `victim` by SIGKILL. */
static void run(void (*const bodies[])(void), int n, int victim)
{
	pid_t pids[MAX];

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	ck_assert(board != MAP_FAILED);
	for (me = 0; me < n; me++) {
		pids[me] = fork();
		ck_assert_int_ge(pids[me], 0);
		if (pids[me] == 0) {
			bodies[me]();
			exit(0);
		}
	}
	for (int i = 0; i < n; i++) {
		int status;

		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		if (i == victim)
			ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		else
			ck_assert_int_eq(status, 0);
	}
	munmap(board, sizeof(*board));
}

/* ---- a sender that is not connected yet ---- */

static void receiver_of_two(void)
{
	struct stmpi_net_peer *stranger;

	rail_begin("auto");
	(void)meet(2);
	wait_step(1, 2); /* the stranger's announcement comes first */
	step(2);
	poll_until_came(2, 50); /* ... and does not hold up the other one's */
	NEED(came[1] == 0);
	wait_step(1, 3);
	stranger = meet(1);
	poll_until_came(1, 50);
	send_to(stranger, 0, 8);
	wait_step(1, 4);
	rail_end();
}

static void stranger(void)
{
	struct stmpi_net_peer *p;

	rail_begin("auto");
	p = meet(0);
	for (uint64_t i = 0; i < 50; i++)
		send_to(p, i, i % 2 ? 8 : 1000);
	step(2);
	/* Mapped although nobody there knows us: this process need not stay. */
	while (rail->ops->is_busy(rail))
		rail->ops->poll(rail);
	step(3);
	poll_until_came(0, 1);
	step(4);
	rail_end();
}

static void known(void)
{
	struct stmpi_net_peer *p;

	rail_begin("auto");
	p = meet(0);
	wait_step(0, 2);
	for (uint64_t i = 0; i < 50; i++)
		send_to(p, i, 8);
	while (rail->ops->is_busy(rail))
		rail->ops->poll(rail);
	rail_end();
}

START_TEST(test_strangers_hold_nobody_up)
{
	void (*const bodies[])(void) = {receiver_of_two, stranger, known};

	run(bodies, 3, -1);
}
END_TEST

/* ---- READ and FLAG ---- */

#define READS	   6
#define READ_BYTES (3u * 1024u * 1024u + 17u)

static const char *cma;
static int ended, last_status, flag_ended, ended_at_flag;

static void read_ended(struct stmpi_work *work, int status)
{
	(void)work;
	last_status = status;
	ended++;
}

static void flag_done(struct stmpi_work *work, int status)
{
	(void)work;
	NEED(status == 0);
	flag_ended++;
	ended_at_flag = ended;
}

/* Where the owner's data are: the same number in both, since the memory is there before the fork.
 */
static unsigned char *data;

static void owner(void)
{
	uint64_t limit;

	memset(data, 0x5a, READ_BYTES);
	rail_begin(cma);
	(void)meet(1);
	step(2);
	limit = stmpi_clock_ns() + LIMIT_NS;
	while (!stmpi_word_reached(&flags.words[3], 7)) {
		rail->ops->poll(rail);
		NEED(stmpi_clock_ns() < limit);
	}
	/* The flag says that nobody reads any more. */
	memset(data, 0, READ_BYTES);
	wait_step(1, 2);
	rail_end();
}

static struct stmpi_net_work read_of(struct stmpi_net_peer *p, void *dst, uint64_t from,
				     size_t bytes)
{
	return (struct stmpi_net_work){.work = {STMPI_WORK_READ, read_ended},
				       .rail = rail,
				       .peer = p,
				       .dst = dst,
				       .bytes = bytes,
				       .remote_addr = from};
}

static void reader(void)
{
	static struct stmpi_net_work works[READS], flag;
	unsigned char *dst = malloc((size_t)READS * READ_BYTES);
	struct stmpi_net_peer *p;
	uint64_t limit;

	NEED(dst != NULL);
	rail_begin(cma);
	p = meet(0);
	wait_step(0, 2);
	for (int i = 0; i < READS; i++) {
		works[i] = read_of(p, dst + (size_t)i * READ_BYTES, (uint64_t)(uintptr_t)data,
				   READ_BYTES);
		NEED(rail->ops->post(rail, &works[i]) == 1);
	}
	NEED(rail->ops->is_busy(rail));
	/* Posted while all six are under way. */
	flag = (struct stmpi_net_work){.work = {STMPI_WORK_FLAG, flag_done},
				       .rail = rail,
				       .peer = p,
				       .flag_index = 3,
				       .value = 7};
	NEED(rail->ops->post(rail, &flag) == 1);
	limit = stmpi_clock_ns() + LIMIT_NS;
	while (ended < READS || !flag_ended) {
		rail->ops->poll(rail);
		NEED(stmpi_clock_ns() < limit);
	}
	NEED(last_status == 0 && ended_at_flag >= READS - 1);
	for (size_t i = 0; i < (size_t)READS * READ_BYTES; i++)
		NEED(dst[i] == 0x5a);
	NEED(!rail->ops->is_busy(rail));
	step(2);
	free(dst);
	rail_end();
}

START_TEST(test_flag_waits_for_reads)
{
	void (*const bodies[])(void) = {owner, reader};

	cma = _i == 0 ? "auto" : "off";
	data = mmap(NULL, READ_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(data != MAP_FAILED);
	run(bodies, 2, -1);
	munmap(data, READ_BYTES);
}
END_TEST

static void idle_owner(void)
{
	rail_begin("auto");
	(void)meet(1);
	step(2);
	wait_step(1, 2);
	rail_end();
}

static void reader_of_nothing(void)
{
	struct stmpi_net_work w;
	char dst[64];

	rail_begin("auto");
	w = read_of(meet(0), dst, 4096, sizeof(dst));
	wait_step(0, 2);
	/* Page 1 is mapped nowhere. */
	NEED(rail->ops->post(rail, &w) == -STMPI_ENET);
	NEED(ended == 0 && !rail->ops->is_busy(rail));
	step(2);
	rail_end();
}

START_TEST(test_read_of_no_memory_fails)
{
	void (*const bodies[])(void) = {idle_owner, reader_of_nothing};

	run(bodies, 2, -1);
}
END_TEST

/* ---- ends ---- */

static void dies_while_asked(void)
{
	rail_begin("auto");
	(void)meet(1);
	/* Without a poll: the request stays. */
	for (int i = 0; i < 200000 && atomic_load(&board->steps[1]) < 2; i++)
		usleep(100);
	raise(SIGKILL);
}

static void asks_the_dying(void)
{
	struct stmpi_net_work w, flag;
	struct stmpi_net_peer *p;
	char dst[64];

	rail_begin("off");
	p = meet(0);
	w = read_of(p, dst, (uint64_t)(uintptr_t)users, sizeof(dst));
	NEED(rail->ops->post(rail, &w) == 1);
	flag = read_of(p, NULL, 0, 0);
	flag.work.kind = STMPI_WORK_FLAG;
	NEED(rail->ops->post(rail, &flag) == 1);
	step(2);
	poll_until_gone(0);
	NEED(gone[0] == 1 && ended == 2 && last_status == -STMPI_EPEER);
	NEED(!rail->ops->is_busy(rail));
	NEED(rail->ops->post(rail, &w) == -STMPI_EPEER);
	rail_end();
}

START_TEST(test_killed_owner_ends_reads)
{
	void (*const bodies[])(void) = {dies_while_asked, asks_the_dying};

	run(bodies, 2, 0);
}
END_TEST

static void sends_and_closes(void)
{
	struct stmpi_net_peer *p;

	rail_begin("auto");
	p = meet(1);
	for (uint64_t i = 0; i < 60; i++)
		send_to(p, i, 100);
	wait_step(1, 2);
	while (rail->ops->is_busy(rail))
		rail->ops->poll(rail);
	rail_end();
	step(3);
}

static void hears_of_the_end(void)
{
	struct stmpi_net_work w;
	struct stmpi_net_peer *p;

	rail_begin("auto");
	p = meet(0);
	rail->ops->poll(rail); /* the channel is known, hardly anything taken */
	step(2);
	for (int i = 0; i < 200000 && atomic_load(&board->steps[0]) < 3; i++) {
		if (came[0] == 0)
			rail->ops->poll(rail);
		usleep(100);
	}
	poll_until_gone(0);
	NEED(came[0] == 60 && wrong == 0 && gone[0] == 1);
	w = read_of(p, NULL, 0, 0);
	w.work.kind = STMPI_WORK_SEND;
	NEED(rail->ops->post(rail, &w) == -STMPI_EPEER);
	rail_end();
}

START_TEST(test_closed_peer_is_heard_out)
{
	void (*const bodies[])(void) = {sends_and_closes, hears_of_the_end};

	run(bodies, 2, -1);
}
END_TEST

/* Reads under way, a flag behind them, packets that nobody took: no callback after close. */
static void closes_at_once(void)
{
	static struct stmpi_net_work works[4], flag;
	unsigned char *dst = malloc(4 * (size_t)READ_BYTES);
	struct stmpi_net_peer *p;

	NEED(dst != NULL);
	rail_begin(cma);
	p = meet(0);
	wait_step(0, 2);
	for (int i = 0; i < 4; i++) {
		works[i] = read_of(p, dst + (size_t)i * READ_BYTES, (uint64_t)(uintptr_t)data,
				   READ_BYTES);
		NEED(rail->ops->post(rail, &works[i]) == 1);
	}
	flag = read_of(p, NULL, 0, 0);
	flag.work.kind = STMPI_WORK_FLAG;
	NEED(rail->ops->post(rail, &flag) == 1);
	send_to(p, 0, 2000);
	rail_end();
	NEED(ended == 0);
	free(dst);
	step(2);
}

static void left_alone(void)
{
	rail_begin(cma);
	(void)meet(1);
	step(2);
	wait_step(1, 2);
	poll_until_gone(1);
	NEED(!rail->ops->is_busy(rail));
	rail_end();
}

START_TEST(test_close_with_work_left)
{
	void (*const bodies[])(void) = {left_alone, closes_at_once};

	cma = _i == 0 ? "auto" : "off";
	data = mmap(NULL, READ_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(data != MAP_FAILED);
	run(bodies, 2, -1);
	munmap(data, READ_BYTES);
}
END_TEST

/* ---- addresses ---- */

struct fake { /* the address as shm_int.h has it */
	uint64_t uid, nonce;
	int32_t pid, mailbox_fd, flags_fd;
};

static void tries_addresses(void)
{
	struct address *a;
	struct stmpi_net_peer *p;
	struct fake f;
	int ends[2], small = memfd_create("small", MFD_CLOEXEC);

	rail_begin("auto");
	a = &board->addresses[0];
	memcpy(&f, a->bytes, sizeof(f));
	NEED(f.pid == (int32_t)getpid());
	/* The number is another file's by now: too short, no file at all, another mailbox. */
	NEED(small >= 0 && ftruncate(small, 64) == 0 && pipe(ends) == 0);
	f.mailbox_fd = small;
	NEED(rail->ops->connect(rail, &f, a->length, NULL, &p) == -STMPI_EPEER);
	f.mailbox_fd = ends[0];
	NEED(rail->ops->connect(rail, &f, a->length, NULL, &p) == -STMPI_EPEER);
	f.mailbox_fd = 9999;
	NEED(rail->ops->connect(rail, &f, a->length, NULL, &p) == -STMPI_EPEER);
	NEED(strstr(stmpi_error_text(), "9999") != NULL);
	memcpy(&f, a->bytes, sizeof(f));
	f.nonce++;
	NEED(rail->ops->connect(rail, &f, a->length, NULL, &p) == -STMPI_EPEER);
	rail_end();
	close(small);
	close(ends[0]);
	close(ends[1]);
}

START_TEST(test_stale_addresses_are_refused)
{
	void (*const bodies[])(void) = {tries_addresses};

	run(bodies, 1, -1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("net_shm");
	TCase *c = tcase_create("net_shm");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, test_strangers_hold_nobody_up);
	tcase_add_loop_test(c, test_flag_waits_for_reads, 0, 2);
	tcase_add_test(c, test_read_of_no_memory_fails);
	tcase_add_test(c, test_killed_owner_ends_reads);
	tcase_add_test(c, test_closed_peer_is_heard_out);
	tcase_add_loop_test(c, test_close_with_work_left, 0, 2);
	tcase_add_test(c, test_stale_addresses_are_refused);
	suite_add_tcase(s, c);
	return run_suite(s);
}
