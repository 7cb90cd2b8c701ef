/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_core.c: the core over real host streams and real rails, two processes, no MPI.
 * Each test forks; the two processes exchange addresses through a socket pair.
 */
#include "../suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/core_int.h"
#include "stmpi_host.h"
#include "util/compiler.h"
#include "util/error.h"
#include "util/params.h"

#define NEED(cond) NEED_OF("rank", rank_, cond)

static int rank_;
static int wire;
static stmpi_host_stream_t host;
static struct stmpi_stream *stream;
static struct stmpi_comm *comm;

static void format(const struct stmpi_result *result, void *image)
{
	int32_t *w = image;

	w[0] = result->source;
	w[1] = result->tag;
	w[2] = result->error;
	w[3] = (int32_t)result->bytes;
}

static void swap(const void *mine, void *theirs, size_t bytes)
{
	NEED(write(wire, mine, bytes) == (ssize_t)bytes);
	NEED(recv(wire, theirs, bytes, MSG_WAITALL) == (ssize_t)bytes);
}

static void meet(void)
{
	char a = 1, b;

	swap(&a, &b, 1);
}

static void begin(int with_stream)
{
	static unsigned char addresses[2][STMPI_ADDRESS_BYTES];
	struct stmpi_engine_attr attr = {format, 16};
	int need_net = 0, with_net = 0;

	NEED(stmpi_engine_init(&attr) == 0);
	do {
		stmpi_engine_address(addresses[rank_], 0, with_net);
		swap(addresses[rank_], addresses[!rank_], STMPI_ADDRESS_BYTES);
		NEED(stmpi_engine_check(addresses, 2, &need_net) == 0);
		with_net = 1;
	} while (need_net);
	if (with_stream) {
		NEED(stmpi_host_stream_create(&host) == 0);
		NEED(stmpi_stream_create("stmpi_host_stream_t", &host, sizeof(host), &stream) == 0);
	}
	NEED(stmpi_context_is_free(7));
	NEED(stmpi_comm_create(7, rank_, 2, addresses, stream, &comm) == 0);
	meet();
}

static void end(void)
{
	NEED(stmpi_engine_drain() == 0);
	meet();
	stmpi_comm_put(comm);
	stmpi_stream_put(stream);
	if (host != NULL) {
		NEED(stmpi_host_stream_synchronize(host) == 0);
		NEED(stmpi_host_stream_destroy(host) == 0);
	}
	stmpi_engine_fini();
}

static void two(void (*body)(void), int with_stream)
{
	int ends[2], status;
	pid_t child;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	rank_ = child == 0;
	wire = ends[rank_];
	close(ends[!rank_]);
	begin(with_stream);
	body();
	end();
	close(wire);
	if (child == 0)
		exit(0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

static struct stmpi_op_args args_of(enum stmpi_op_kind kind, void *buf, uint64_t bytes, int tag)
{
	return (struct stmpi_op_args){kind, comm, buf, bytes, !rank_, tag};
}

static void fill(unsigned char *buf, size_t bytes, unsigned int key)
{
	for (size_t i = 0; i < bytes; i++)
		buf[i] = (unsigned char)(key * 31 + i * 7 + (i >> 8));
}

static void check(const unsigned char *buf, size_t bytes, unsigned int key)
{
	for (size_t i = 0; i < bytes; i++)
		NEED(buf[i] == (unsigned char)(key * 31 + i * 7 + (i >> 8)));
}

/* ---- bodies ---- */

/*
 * An operation that began after the watchdog had read the clock, and before it looked: it is not
 * old. (The watchdog's thread was held up between the two; here the clock is set ahead for it.)
 */
static void begun_behind_the_watchdogs_back(void)
{
	struct timespec looks = {1, 100000000}; /* the watchdog looks twice a second */
	unsigned char buf[8];
	struct stmpi_op_args a = args_of(rank_ ? STMPI_OP_RECV : STMPI_OP_SEND, buf, 8, 1);
	struct stmpi_result result;
	struct stmpi_op *op;

	if (rank_ == 0)
		fill(buf, 8, 5);
	else
		atomic_fetch_add(&stmpi_engine.tick, 500);
	if (rank_ == 0)
		meet();
	NEED(stmpi_op_start(&a, &op) == 0);
	if (rank_ == 1) {
		nanosleep(&looks, NULL);
		NEED(!stmpi_op_is_done(op));
		meet();
	}
	stmpi_op_wait(op);
	stmpi_op_result(op, &result);
	NEED(result.error == 0);
	check(buf, 8, 5);
	stmpi_op_free(op);
}

static const size_t sizes[] = {0, 1, 8, 32, 33, 40, 512, 4096, 8192, 8193, 65536, 1 << 20, 5000001};

static void sizes_on_streams(void)
{
	for (unsigned int round = 0; round < 20; round++) {
		for (unsigned int i = 0; i < stmpi_array_len(sizes); i++) {
			unsigned char *out = malloc(sizes[i] + 1), *in = malloc(sizes[i] + 1);
			struct stmpi_op_args s = args_of(STMPI_OP_SEND, out, sizes[i], (int)i);
			struct stmpi_op_args r = args_of(STMPI_OP_RECV, in, sizes[i], (int)i);
			int32_t status[4] = {-9, -9, -9, -9};
			struct stmpi_op *ops[2];
			void *statuses[2] = {NULL, status};

			fill(out, sizes[i], round + i);
			NEED(stmpi_op_enqueue(&s, &ops[0]) == 0);
			NEED(stmpi_op_enqueue(&r, &ops[1]) == 0);
			NEED(stmpi_op_enqueue_wait(ops, 2, statuses) == 0);
			NEED(stmpi_host_stream_synchronize(host) == 0);
			check(in, sizes[i], round + i);
			NEED(status[0] == !rank_ && status[1] == (int)i && status[2] == 0);
			NEED(status[3] == (int32_t)sizes[i]);
			free(out);
			free(in);
		}
	}
}

static void ping_pong_blocking(void)
{
	uint64_t out = 0, in = 0;

	for (int i = 0; i < 20000; i++) {
		struct stmpi_op_args s = args_of(STMPI_OP_SEND, &in, 8, 1);
		struct stmpi_op_args r = args_of(STMPI_OP_RECV, &in, 8, 1);

		if (rank_ == 0 && i == 0) {
			s.buf = &out;
			NEED(stmpi_op_enqueue_blocking(&s, NULL) == 0);
		}
		NEED(stmpi_op_enqueue_blocking(&r, NULL) == 0);
		if (!(rank_ == 0 && i == 19999))
			NEED(stmpi_op_enqueue_blocking(&s, NULL) == 0);
	}
	NEED(stmpi_host_stream_synchronize(host) == 0);
}

static void ordinary(void)
{
	for (unsigned int i = 0; i < stmpi_array_len(sizes); i++) {
		unsigned char *buf = malloc(sizes[i] + 1);
		struct stmpi_op_args a =
			args_of(rank_ ? STMPI_OP_RECV : STMPI_OP_SSEND, buf, sizes[i], 3);
		struct stmpi_result result;
		struct stmpi_op *op;

		if (rank_ == 0)
			fill(buf, sizes[i], i);
		NEED(stmpi_op_start(&a, &op) == 0);
		stmpi_op_wait(op);
		stmpi_op_result(op, &result);
		NEED(result.error == 0);
		if (rank_ == 1) {
			NEED(result.bytes == sizes[i] && result.source == 0 && result.tag == 3);
			check(buf, sizes[i], i);
		}
		stmpi_op_free(op);
		free(buf);
	}
}

static void truncated(void)
{
	static unsigned char buf[300000];
	static const size_t sent[] = {100, 300000};

	for (int i = 0; i < 2; i++) {
		struct stmpi_op_args a = args_of(rank_ ? STMPI_OP_RECV : STMPI_OP_SEND, buf,
						 rank_ ? 50 : sent[i], i);
		int32_t status[4];

		fill(buf, sizeof(buf), rank_ ? 99u : (unsigned int)i);
		NEED(stmpi_op_enqueue_blocking(&a, status) == 0);
		NEED(stmpi_host_stream_synchronize(host) == 0);
		NEED(status[2] == (rank_ ? STMPI_ETRUNCATE : 0));
		if (rank_) {
			NEED(status[3] == 50);
			check(buf, 50, (unsigned int)i);
			NEED(buf[50] == (unsigned char)(99 * 31 + 50 * 7));
		}
		NEED(stmpi_stream_take_error(stream) == 0); /* the status told */
	}
	/* Without a status the error sticks to the stream. */
	struct stmpi_op_args a =
		args_of(rank_ ? STMPI_OP_RECV : STMPI_OP_SEND, buf, rank_ ? 50 : 100, 5);

	NEED(stmpi_op_enqueue_blocking(&a, NULL) == 0);
	NEED(stmpi_host_stream_synchronize(host) == 0);
	NEED(stmpi_stream_take_error(stream) == (rank_ ? STMPI_ETRUNCATE : 0));
	NEED(stmpi_stream_take_error(stream) == 0);
}

/* More eager messages than credits, received in the opposite order of tags. */
static void flood(void)
{
	enum {
		N = 5000
	};
	static uint32_t value[N];
	static struct stmpi_op *ops[N];

	for (int i = 0; i < N; i++) {
		int k = rank_ ? N - 1 - i : i;
		struct stmpi_op_args a =
			args_of(rank_ ? STMPI_OP_RECV : STMPI_OP_SEND, &value[k], 4, k);

		if (rank_ == 0)
			value[k] = (uint32_t)k * 77u;
		NEED(stmpi_op_enqueue(&a, &ops[i]) == 0);
	}
	NEED(stmpi_op_enqueue_wait(ops, N, NULL) == 0);
	NEED(stmpi_host_stream_synchronize(host) == 0);
	for (uint32_t k = 0; k < N; k++)
		NEED(value[k] == k * 77u);
}

static void given_up(void)
{
	static unsigned char buf[400000];
	static const size_t n[] = {8, 400000};
	uint64_t gate = 0;

	NEED(stmpi_host_stream_wait_value64(host, &gate, 1) == 0);
	for (int i = 0; i < 2; i++) {
		struct stmpi_op_args a =
			args_of(rank_ ? STMPI_OP_RECV : STMPI_OP_SEND, buf, n[i], i);
		struct stmpi_op *op;

		NEED(stmpi_op_enqueue(&a, &op) == 0);
		stmpi_op_free(op);
	}
	if (rank_ == 0)
		fill(buf, sizeof(buf), 1);
	stmpi_word_store(&gate, 1);
	NEED(stmpi_engine_drain() == 0);
	if (rank_)
		check(buf, sizeof(buf), 1);
}

static void null_operations(void)
{
	struct stmpi_op_args a = args_of(STMPI_OP_RECV, NULL, 0, 1);
	int32_t status[4] = {5, 5, 5, 5};

	a.peer = STMPI_PROC_NULL;
	NEED(stmpi_op_enqueue_blocking(&a, status) == 0);
	NEED(stmpi_host_stream_synchronize(host) == 0);
	NEED(status[0] == STMPI_PROC_NULL && status[1] == STMPI_ANY_TAG && status[3] == 0);
}

/* One round of the stream without any wait of the host: 100 000 pending operations of each side. */
static void many_pending(void)
{
	enum {
		N = 100000
	};
	uint64_t gate = 0, *v = calloc(N, sizeof(*v));

	NEED(v != NULL);
	NEED(stmpi_host_stream_wait_value64(host, &gate, 1) == 0);
	for (uint64_t i = 0; i < N; i++) {
		struct stmpi_op_args a =
			args_of(rank_ ? STMPI_OP_RECV : STMPI_OP_SEND, &v[i], 8, 0);

		v[i] = rank_ ? 0 : i;
		NEED(stmpi_op_enqueue_blocking(&a, NULL) == 0);
	}
	stmpi_word_store(&gate, 1);
	NEED(stmpi_host_stream_synchronize(host) == 0);
	for (uint64_t i = 0; i < N; i++)
		NEED(v[i] == i);
	free(v);
}

static void set_word(void *word)
{
	stmpi_word_store(word, 1);
}

/*
 * What follows an operation on the stream is not reached before the operation has begun, though
 * somebody else holds the token: another thread or stream that learns of it comes after it.
 */
static void begun_before_what_follows(void)
{
	static const struct timespec while_ = {0, 100000000};
	uint64_t v = 7, word = 0;
	struct stmpi_op_args a = args_of(rank_ ? STMPI_OP_RECV : STMPI_OP_SEND, &v, 8, 0);
	struct stmpi_op *op;

	while (!stmpi_token_try())
		;
	NEED(stmpi_op_enqueue(&a, &op) == 0);
	NEED(stmpi_host_stream_launch(host, set_word, &word) == 0);
	nanosleep(&while_, NULL);
	NEED(stmpi_word_load(&word) == 0);
	stmpi_token_release();
	NEED(stmpi_op_enqueue_wait(&op, 1, NULL) == 0);
	NEED(stmpi_host_stream_synchronize(host) == 0);
	NEED(word == 1);
}

static void died(void)
{
	static unsigned char buf[100];
	struct stmpi_op_args a = args_of(STMPI_OP_RECV, buf, 100, 1);
	int32_t status[4];

	if (rank_) {
		NEED(stmpi_op_enqueue_blocking(&a, status) == 0);
		a.kind = STMPI_OP_SEND;
		NEED(stmpi_op_enqueue_blocking(&a, NULL) == 0);
		NEED(stmpi_host_stream_synchronize(host) == 0);
		NEED(status[2] == STMPI_EPEER);
		NEED(stmpi_stream_take_error(stream) == STMPI_EPEER);
		_exit(7);
	}
	/* One message, so that each knows the other, then the end without a word. */
	nanosleep(&(struct timespec){0, 200000000}, NULL);
}

#define TWO(name, with_stream)                                                                     \
	START_TEST(test_##name)                                                                    \
	{                                                                                          \
		two(name, with_stream);                                                            \
	}                                                                                          \
	END_TEST

TWO(sizes_on_streams, 1)
TWO(ping_pong_blocking, 1)
TWO(ordinary, 0)
TWO(truncated, 1)
TWO(flood, 1)
TWO(given_up, 1)
TWO(null_operations, 1)
TWO(many_pending, 1)
TWO(begun_before_what_follows, 1)
TWO(begun_behind_the_watchdogs_back, 0)

/* The peer is killed while a receive and a send wait for it: both end with an error, nothing hangs.
 */
START_TEST(test_died)
{
	int ends[2], status;
	pid_t victim, survivor;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	survivor = fork();
	if (survivor == 0) {
		rank_ = 1;
		wire = ends[1];
		begin(1);
		died();
	}
	victim = fork();
	if (victim == 0) {
		uint64_t x = 1;
		struct stmpi_op *op;

		rank_ = 0;
		wire = ends[0];
		begin(1);
		struct stmpi_op_args a = args_of(STMPI_OP_SEND, &x, 8, 99);

		NEED(stmpi_op_start(&a, &op) == 0);
		died();
		raise(SIGKILL);
	}
	ck_assert_int_eq(waitpid(victim, &status, 0), victim);
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(waitpid(survivor, &status, 0), survivor);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 7);
}
END_TEST

static void add_all(TCase *c)
{
	tcase_set_timeout(c, 60);
	tcase_add_test(c, test_sizes_on_streams);
	tcase_add_test(c, test_ping_pong_blocking);
	tcase_add_test(c, test_ordinary);
	tcase_add_test(c, test_truncated);
	tcase_add_test(c, test_flood);
	tcase_add_test(c, test_given_up);
	tcase_add_test(c, test_null_operations);
	tcase_add_test(c, test_many_pending);
	tcase_add_test(c, test_begun_before_what_follows);
	tcase_add_test(c, test_begun_behind_the_watchdogs_back);
}

int main(void)
{
	Suite *s = suite_create("core");
	TCase *c = tcase_create("core");

	add_all(c);
	tcase_add_test(c, test_died);
	suite_add_tcase(s, c);
	return run_suite(s);
}
