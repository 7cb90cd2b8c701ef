/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_net.c: the conformance of rails and triggers, two processes, over our shared memory (also
 * with two copies, and with process_vm_readv forbidden by the kernel), and over libfabric's tcp,
 * sockets and shm.
 */
#include "pair.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "net/net.h"
#include "net/trigger.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/params.h"

/* The rails under test; provider NULL: our own shared memory. */
static const struct variant variants[] = {
	{"shm", NULL, "auto", 0, "software", "-1"},
	{"shm two copies", NULL, "off", 0, "software", "-1"},
	{"shm forbidden", NULL, "auto", 1, "software", "-1"},
	{"tcp", "tcp", "auto", 0, "software", "-1"},
	{"sockets", "sockets", "auto", 0, "software", "-1"},
	{"sockets, deferred", "sockets", "auto", 0, "deferred", "-1"},
	{"libfabric shm", "shm", "auto", 0, "software", "-1"},
};

/* libfabric is not built with the thread sanitizer, which then takes its locks for races. */
#if defined(__SANITIZE_THREAD__)
#define VARIANTS 3
#else
#define VARIANTS ((int)(sizeof(variants) / sizeof(variants[0])))
#endif

/* ---- packets ---- */

static void send_sizes(struct stmpi_net_peer *to, int from, uint64_t rounds)
{
	static const size_t sizes[] = {0, 1, 7, 8, 31, 32, 33, 63, 64, 100, 1000, 4095, 4096};
	const uint64_t kinds = sizeof(sizes) / sizeof(sizes[0]) + 1;
	unsigned char *b = malloc(rail->eager_max);
	struct stmpi_net_work w;

	for (uint64_t i = 0; i < rounds * kinds; i++) {
		size_t n = i % kinds == kinds - 1 ? rail->eager_max : sizes[i % kinds];

		fill(b, n, i);
		post(send_work(&w, to, b, n, i));
		memset(b, 0xee, n); /* ours again */
	}
	while (came[from] < rounds * kinds)
		rail->ops->poll(rail);
	NEED(wrong == 0);
	free(b);
}

static void sizes_both_ways(void)
{
	send_sizes(peer, !side, 200);
}

static void sizes_to_self(void)
{
	send_sizes(self, side, 20);
}

/* The receiver looks away until the sender has no room; then all arrive, in order. */
static void flood(void)
{
	enum {
		LIMIT = 20000
	};
	struct stmpi_net_work w;
	uint64_t sent = 0, theirs;
	unsigned char b[512];

	/* The first one waits for the connection, which takes both. */
	if (side == 0) {
		fill(b, sizeof(b), 0);
		post(send_work(&w, peer, b, sizeof(b), sent++));
	}
	meet();
	if (side == 0) {
		for (; sent < LIMIT; sent++) {
			fill(b, sizeof(b), sent);
			if (rail->ops->post(rail, send_work(&w, peer, b, sizeof(b), sent)) != 0)
				break;
		}
		NEED(sent > 0);
	}
	swap(&sent, &theirs, sizeof(sent));
	if (side == 0)
		for (uint64_t more = sent + 1000; sent < more; sent++) {
			fill(b, sizeof(b), sent);
			post(send_work(&w, peer, b, sizeof(b), sent));
		}
	while (side == 1 && came[0] < theirs + 1000)
		rail->ops->poll(rail);
	NEED(wrong == 0);
}

static struct stmpi_net_work reply_work;
static unsigned char reply_data[200];
static int reply_waits;
static uint64_t replies;

static void reply(int from, const struct stmpi_net_hdr *hdr, const void *payload, size_t bytes)
{
	int ret;

	(void)from;
	replies++;
	if (side == 0) {
		wrong += !is_right(payload, bytes, hdr->w[0]);
		return;
	}
	/* Posts inside the callback, with the data still in the rail's buffer. */
	ret = rail->ops->post(rail, send_work(&reply_work, peer, payload, bytes, hdr->w[0]));
	if (ret == -STMPI_EAGAIN) { /* no room yet: once more from outside, with a copy */
		memcpy(reply_data, payload, bytes);
		reply_work.src = reply_data;
		reply_waits = 1;
	} else {
		wrong += ret != 0;
	}
}

static void answer_late(void)
{
	if (reply_waits) {
		post(&reply_work);
		reply_waits = 0;
	}
}

static void answers_from_inside(void)
{
	struct stmpi_net_work w;
	unsigned char b[200];

	on_packet = reply;
	meet(); /* the first packet may come while the other side still meets */
	for (uint64_t i = 0; i < 2000; i++) {
		if (side == 0) {
			fill(b, sizeof(b), i);
			post(send_work(&w, peer, b, sizeof(b), i));
		}
		while (replies <= i) {
			rail->ops->poll(rail);
			answer_late();
		}
	}
	NEED(wrong == 0);
}

/* ---- reads and flags ---- */

static int reads_ended;

static void read_ended(struct stmpi_work *work, int status)
{
	(void)work;
	NEED(status == 0);
	reads_ended++;
}

struct offer {
	uint64_t addr, key;
};

static void read_work(struct stmpi_net_work *w, void (*fn)(struct stmpi_work *, int), void *dst,
		      size_t bytes, struct stmpi_net_mr *mr, const struct offer *from)
{
	*w = (struct stmpi_net_work){.work = {STMPI_WORK_READ, fn},
				     .rail = rail,
				     .peer = peer,
				     .dst = dst,
				     .bytes = bytes,
				     .mr = mr,
				     .remote_addr = from->addr,
				     .remote_key = from->key};
}

static int is_over_sockets(void)
{
	return strcmp(stmpi_param_string(STMPI_PARAM_OFI_PROVIDER), "sockets") == 0;
}

/* Side 0 offers buffers, side 1 reads them all at once, then writes a word for each. */
static void reads_then_flags(void)
{
	static const size_t sizes[] = {1, 8, 4097, 65536, 300001, 1 << 20, 5000003};
	enum {
		N = sizeof(sizes) / sizeof(sizes[0])
	};
	struct offer mine[N], theirs[N];
	static struct stmpi_net_work works[N], flag;
	struct stmpi_net_mr *mrs[N];
	unsigned char *b[N];
	uint32_t first;

	NEED(stmpi_flags_alloc(&flags, N, &first) == 0 && first == 0);
	for (int i = 0; i < N; i++) {
		b[i] = malloc(sizes[i] + 1);
		/* Unaligned, too. */
		fill(b[i] + 1, sizes[i], side == 0 ? (uint64_t)i : 99);
		NEED(rail->ops->reg(rail, b[i] + 1, sizes[i], &mrs[i]) == 0);
		mine[i].addr = mrs[i]->addr;
		mine[i].key = mrs[i]->key;
	}
	swap(mine, theirs, sizeof(mine));
	for (int i = 0; i < N && side == 1; i++) {
		struct stmpi_net_work *w = &works[i];
		int ret;

		read_work(w, read_ended, b[i] + 1, sizes[i], mrs[i], &theirs[i]);
		while ((ret = rail->ops->post(rail, w)) == -STMPI_EAGAIN)
			rail->ops->poll(rail);
		NEED(ret >= 0);
		reads_ended += ret == 0;
	}
	while (side == 1 && reads_ended < N)
		rail->ops->poll(rail);
	for (int i = 0; i < N && side == 1; i++) {
		NEED(is_right(b[i] + 1, sizes[i], (uint64_t)i));
		flag = (struct stmpi_net_work){.work = {STMPI_WORK_FLAG, NULL},
					       .rail = rail,
					       .peer = peer,
					       .flag_index = (uint32_t)i,
					       .value = 1000 + (uint64_t)i};
		post(&flag);
	}
	for (int i = 0; i < N && side == 0; i++) {
		while (!stmpi_word_reached(&flags.words[i], 1000 + (uint64_t)i))
			rail->ops->poll(rail);
		NEED(flags.words[i] == 1000 + (uint64_t)i);
	}
	meet();
	for (int i = 0; i < N; i++) {
		rail->ops->dereg(rail, mrs[i]);
		free(b[i]);
	}
}

/* The same place, other memory, another size: what was registered before must not answer. */
static void registered_again(void)
{
	void *const place = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (uint64_t i = 0; i < 40; i++) {
		size_t bytes = 4096 * (1 + i * 7 % 31);
		unsigned char *b = mmap(place, bytes, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		struct stmpi_net_mr *mr;
		uint64_t mine[2], theirs[2];

		NEED(b != MAP_FAILED);
		fill(b, bytes, side == 0 ? i : 99);
		NEED(rail->ops->reg(rail, b, bytes, &mr) == 0);
		mine[0] = mr->addr;
		mine[1] = mr->key;
		swap(mine, theirs, sizeof(mine));
		if (side == 1) {
			struct stmpi_net_work w = {.work = {STMPI_WORK_READ, read_ended},
						   .rail = rail,
						   .peer = peer,
						   .dst = b,
						   .bytes = bytes,
						   .mr = mr,
						   .remote_addr = theirs[0],
						   .remote_key = theirs[1]};
			int ret;

			while ((ret = rail->ops->post(rail, &w)) == -STMPI_EAGAIN)
				rail->ops->poll(rail);
			NEED(ret >= 0);
			for (reads_ended = ret == 0; reads_ended == 0;)
				rail->ops->poll(rail);
			NEED(is_right(b, bytes, i));
		}
		meet();
		rail->ops->dereg(rail, mr);
		NEED(mmap(place, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			  0) == place);
	}
	munmap(place, 1 << 20);
}

/* ---- triggers ---- */

struct call {
	struct stmpi_work work;
	int number, status;
};

static int started[100000], started_count;

static void started_one(struct stmpi_work *work, int status)
{
	struct call *c = (struct call *)(void *)work;

	c->status = status;
	started[started_count++] = c->number;
}

static struct call *call_of(struct call *c, int number)
{
	*c = (struct call){{STMPI_WORK_CALL, started_one}, number, 77};
	return c;
}

static void trigger_calls(void)
{
	static struct call calls[100];
	struct stmpi_trigger *t, *u;

	NEED(stmpi_trigger_create(&t) == 0 && stmpi_trigger_create(&u) == 0);
	NEED(stmpi_trigger_set(t, 3) == 0); /* nothing there */
	for (int i = 0; i < 10; i++)
		NEED(stmpi_trigger_queue(t, 5 + (uint64_t)i / 2, &call_of(&calls[i], i)->work) ==
		     0);
	NEED(stmpi_trigger_set(t, 4) == 0 &&
	     started_count == 0); /* control: below every threshold */
	NEED(stmpi_trigger_set(t, 5) == 2);
	NEED(stmpi_trigger_set(t, 8) == 6);
	for (int i = 0; i < 8; i++)
		NEED(started[i] == i && calls[i].status == 0);
	/* Reached before it is queued: starts at the next set, of the same value too. */
	NEED(stmpi_trigger_set(t, 20) == 2);
	NEED(stmpi_trigger_queue(t, 20, &call_of(&calls[10], 10)->work) == 0);
	NEED(started_count == 10);
	NEED(stmpi_trigger_set(t, 20) == 1 && started[10] == 10);
	/* Another trigger is not concerned. */
	NEED(stmpi_trigger_queue(u, 20, &call_of(&calls[11], 11)->work) == 0);
	NEED(stmpi_trigger_set(t, 21) == 0 && started_count == 11);
	/* Falling thresholds are refused, and change nothing. */
	NEED(stmpi_trigger_queue(u, 19, &call_of(&calls[12], 12)->work) == -STMPI_EINVAL);
	NEED(stmpi_trigger_set(u, 20) == 1);
	/* Across the end of 64 bits. */
	stmpi_trigger_destroy(u);
	NEED(stmpi_trigger_create(&u) == 0);
	NEED(stmpi_trigger_queue(u, UINT64_MAX, &call_of(&calls[13], 13)->work) == 0);
	NEED(stmpi_trigger_queue(u, 2, &call_of(&calls[14], 14)->work) == 0);
	NEED(stmpi_trigger_set(u, UINT64_MAX - 1) == 0);
	NEED(stmpi_trigger_set(u, UINT64_MAX) == 1 && stmpi_trigger_set(u, 1) == 0 &&
	     stmpi_trigger_set(u, 2) == 1);
	/* Pending works are handed back, in order. */
	started_count = 0;
	for (int i = 20; i < 25; i++)
		NEED(stmpi_trigger_queue(u, 100, &call_of(&calls[i], i)->work) == 0);
	stmpi_trigger_destroy(u);
	NEED(started_count == 5);
	for (int i = 20; i < 25; i++)
		NEED(started[i - 20] == i && calls[i].status == -STMPI_ECANCELED);
	stmpi_trigger_destroy(t);
	stmpi_trigger_destroy(NULL);
}

static int sends_ended;

static void send_ended(struct stmpi_work *work, int status)
{
	(void)work;
	NEED(status == 0);
	sends_ended++;
}

/* A hundred thousand packets wait for one counter and leave through whatever window the rail has,
 * in order. */
static void trigger_sends(void)
{
	/* sockets takes a millisecond per packet on a loaded machine. */
	const uint64_t N = is_over_sockets() ? 5000 : 100000;
	struct stmpi_net_work *works = calloc(N, sizeof(*works)), plain;
	struct stmpi_trigger *t;
	uint64_t v = 0;

	NEED(works != NULL && stmpi_trigger_create(&t) == 0);
	if (side == 0) {
		for (uint64_t i = 0; i < N; i++) {
			send_work(&works[i], peer, NULL, 0, i + 1);
			works[i].work.fn = send_ended;
			NEED(stmpi_trigger_queue(t, 1 + i / 1000, &works[i].work) == 0);
		}
		/* A plain post goes in between: ahead of all that is not triggered yet. */
		post(send_work(&plain, peer, NULL, 0, 0));
		while ((uint64_t)sends_ended < N) {
			stmpi_trigger_set(t, v);
			if (!stmpi_trigger_is_blocked(t) && v < N / 1000 + 1)
				v++;
			rail->ops->poll(rail);
		}
	}
	while (side == 1 && came[0] < N + 1)
		rail->ops->poll(rail);
	NEED(wrong == 0);
	stmpi_trigger_destroy(t);
	free(works);
}

struct shared_trigger {
	struct stmpi_trigger *trigger;
	struct call *calls;
};

static void *queue_calls(void *arg)
{
	struct shared_trigger *s = arg;

	for (int i = 0; i < 50000; i++)
		NEED(stmpi_trigger_queue(s->trigger, (uint64_t)i,
					 &call_of(&s->calls[i], i)->work) == 0);
	return NULL;
}

/* One thread queues while another one sets. */
static void trigger_threads(void)
{
	struct shared_trigger s = {NULL, calloc(50000, sizeof(struct call))};
	pthread_t t;

	NEED(s.calls != NULL && stmpi_trigger_create(&s.trigger) == 0);
	NEED(pthread_create(&t, NULL, queue_calls, &s) == 0);
	for (uint64_t v = 0; started_count < 50000; v++)
		stmpi_trigger_set(s.trigger, v < 50000 ? v : 50000);
	pthread_join(t, NULL);
	for (int i = 0; i < 50000; i++)
		NEED(started[i] == i);
	stmpi_trigger_destroy(s.trigger);
	free(s.calls);
}

OVER(sizes_both_ways)
OVER(sizes_to_self)
OVER(flood)
OVER(answers_from_inside)
OVER(reads_then_flags)

static int reads_failed, ends_reads;

static void read_failed(struct stmpi_work *work, int status)
{
	(void)work;
	NEED(status == -STMPI_EPEER || !ends_reads);
	reads_failed++;
}

/* The core says that the peer is gone: what is under way with it ends, once, and nothing waits. */
static void lost_while_busy(void)
{
	enum {
		BYTES = 8 << 20,
		PACKETS = 4
	};
	/* Not from the heap: the other side is not dead, and may still move data. */
	static unsigned char b[BYTES];
	static struct stmpi_net_work read, plain;
	struct offer mine, theirs;
	struct stmpi_net_mr *mr;
	int ret;

	NEED(rail->ops->reg(rail, b, BYTES, &mr) == 0);
	mine.addr = mr->addr;
	mine.key = mr->key;
	swap(&mine, &theirs, sizeof(mine));
	if (side == 1) {
		read_work(&read, read_failed, b, BYTES, mr, &theirs);
		while ((ret = rail->ops->post(rail, &read)) == -STMPI_EAGAIN)
			rail->ops->poll(rail);
		NEED(ret >= 0);
		for (uint64_t i = 0; i < PACKETS; i++)
			(void)rail->ops->post(rail, send_work(&plain, peer, NULL, 0, i));
		/* Other providers end reads from a dead process by themselves; this one lives. */
		ends_reads = strcmp(rail->ops->name, "ofi") != 0 || is_over_sockets();
		while (!ends_reads && reads_failed < ret)
			rail->ops->poll(rail);
		rail->ops->lose(rail, peer);
		NEED(reads_failed == ret); /* 0: the rail reads at once */
		NEED(peer_gone == 1 && !rail->ops->is_busy(rail));
		NEED(rail->ops->post(rail, send_work(&plain, peer, NULL, 0, 0)) == -STMPI_EPEER);
		rail->ops->lose(rail, peer);
		for (int i = 0; i < 1000; i++) /* what the provider still ends is nobody's */
			rail->ops->poll(rail);
		NEED(peer_gone == 1 && reads_failed == ret && !rail->ops->is_busy(rail));
	}
	meet();
	rail->ops->dereg(rail, mr);
}
OVER(lost_while_busy)
OVER(registered_again)
OVER(trigger_calls)
OVER(trigger_sends)
OVER(trigger_threads)

/* ---- our shared memory: death, closing, leaks ---- */

START_TEST(test_killed_peer_is_told)
{
	int ends[2], status;
	pid_t victim, witness;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	witness = fork();
	if (witness == 0) {
		struct stmpi_net_work w;

		side = 0;
		wire = ends[0];
		begin(&variants[0]);
		/* Its channel is known once its first packet has come; what it sent before it died
		 * still comes. */
		while (came[1] == 0)
			rail->ops->poll(rail);
		meet();
		for (uint64_t limit = stmpi_clock_ns() + 10000000000u;
		     !peer_gone && stmpi_clock_ns() < limit;) {
			rail->ops->poll(rail);
			rail->ops->idle(rail);
		}
		NEED(peer_gone == 1 && came[1] == 100 && wrong == 0);
		NEED(rail->ops->post(rail, send_work(&w, peer, NULL, 0, 0)) == -STMPI_EPEER);
		rail->ops->close(rail);
		_exit(9);
	}
	victim = fork();
	if (victim == 0) {
		struct stmpi_net_work w;

		side = 1;
		wire = ends[1];
		begin(&variants[0]);
		post(send_work(&w, peer, NULL, 0, 0));
		meet();
		for (uint64_t i = 1; i < 100; i++)
			post(send_work(&w, peer, NULL, 0, i));
		raise(SIGKILL);
	}
	ck_assert_int_eq(waitpid(victim, &status, 0), victim);
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(waitpid(witness, &status, 0), witness);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 9);
}
END_TEST

static int count_of(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;

	while (d != NULL && readdir(d) != NULL)
		n++;
	if (d != NULL)
		closedir(d);
	return n;
}

static int count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	int n = 0, c;

	while (f != NULL && (c = fgetc(f)) != EOF)
		n += c == '\n';
	if (f != NULL)
		fclose(f);
	return n;
}

static void open_send_close(void)
{
	static int user;
	struct stmpi_net_attr attr = {1, &upcalls, &flags, 5};
	unsigned char addr[STMPI_NET_ADDR_BYTES];
	struct stmpi_net_work w;
	size_t bytes;

	NEED(stmpi_flags_init(&flags) == 0);
	NEED(stmpi_net_shm_ops.open(&attr, &rail) == 0);
	NEED(rail->ops->address(rail, addr, &bytes) == 0);
	NEED(rail->ops->connect(rail, addr, bytes, &user, &self) == 0);
	NEED(rail->ops->connect(rail, addr, bytes - 1, &user, &peer) == -STMPI_EINVAL);
	came[0] = 0;
	post(send_work(&w, self, NULL, 0, 0));
	while (came[0] == 0)
		rail->ops->poll(rail);
	/* One is left in the rail. */
	post(send_work(&w, self, NULL, 0, 1));
	rail->ops->close(rail);
	stmpi_flags_fini(&flags);
}

START_TEST(test_nothing_is_left_behind)
{
	int files, maps, shared = count_of("/dev/shm");

	open_send_close();
	files = count_of("/proc/self/fd");
	maps = count_maps();
	for (int i = 0; i < 200; i++)
		open_send_close();
	ck_assert_int_eq(count_of("/proc/self/fd"), files);
	ck_assert_int_le(count_maps(), maps + 2);
	ck_assert_int_eq(count_of("/dev/shm"), shared);
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(test_flags_run_out_in_order)
{
	struct stmpi_flags f;
	uint32_t first;

	ck_assert_int_eq(stmpi_flags_init(&f), 0);
	ck_assert_int_eq(stmpi_flags_alloc(&f, 10, &first), 0);
	ck_assert_uint_eq(first, 0);
	ck_assert_int_eq(stmpi_flags_alloc(&f, STMPI_FLAGS_MAX - 10, &first), 0);
	ck_assert_uint_eq(first, 10);
	ck_assert_uint_eq(f.words[STMPI_FLAGS_MAX - 1], 0);
	first = 5;
	ck_assert_int_eq(stmpi_flags_alloc(&f, 1, &first), -STMPI_ENOMEM);
	ck_assert_uint_eq(first, 5);
	stmpi_flags_fini(&f);
}
END_TEST

START_TEST(test_unknown_provider_says_why)
{
	struct stmpi_net_attr attr = {1, &upcalls, &flags, 5};
	char why[512];

	setenv("STMPI_OFI_PROVIDER", "carrier_pigeon", 1);
	stmpi_params_reload();
	ck_assert_int_eq(stmpi_net_ofi_ops.probe(why, sizeof(why)), -STMPI_ENODEV);
	ck_assert_int_eq(stmpi_net_ofi_ops.open(&attr, &rail), -STMPI_ENODEV);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("net");
	TCase *c = tcase_create("net");

	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, test_sizes_both_ways, 0, VARIANTS);
	tcase_add_loop_test(c, test_sizes_to_self, 0, VARIANTS);
	tcase_add_loop_test(c, test_flood, 0, VARIANTS);
	tcase_add_loop_test(c, test_answers_from_inside, 0, VARIANTS);
	tcase_add_loop_test(c, test_reads_then_flags, 0, VARIANTS);
	tcase_add_loop_test(c, test_lost_while_busy, 0, VARIANTS);
	tcase_add_loop_test(c, test_registered_again, 0, VARIANTS);
	tcase_add_loop_test(c, test_trigger_calls, 0, 1);
	tcase_add_loop_test(c, test_trigger_sends, 0, VARIANTS);
	tcase_add_loop_test(c, test_trigger_threads, 0, 1);
	tcase_add_test(c, test_killed_peer_is_told);
	tcase_add_test(c, test_nothing_is_left_behind);
	tcase_add_test(c, test_flags_run_out_in_order);
	if (VARIANTS > 3)
		tcase_add_test(c, test_unknown_provider_says_why);
	suite_add_tcase(s, c);
	return run_suite(s);
}
