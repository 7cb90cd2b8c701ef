/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw_shm.c: the floor of the shared-memory rail, without the library.
 *
 * Up to 56 bytes travel in the cache line that signals them. More bytes are signalled by a line and
 * fetched by the receiver in one copy: by memcpy from shared memory (variant 0) or by
 * process_vm_readv from the sender's buffer (variant 1); the better one counts.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"

#define LINE_BYTES   64
#define INLINE_BYTES 56
#define SPINS	     20000 /* then let others run: the ranks may share a core */
#define ANSWER	     BENCH_WINDOW

/* One direction, one message: written by the sender, payload before seq; read by the receiver. */
struct line {
	char payload[INLINE_BYTES];
	uint64_t seq; /* number of the message, only grows */
} __attribute__((aligned(LINE_BYTES)));

/* At the start of the segment; both ranks' data areas follow. */
struct shared {
	struct line lines[2][BENCH_WINDOW + 1]; /* of the sending rank; the last: answers */
};

static struct {
	struct shared *shared;
	size_t bytes;
	char *mine, *theirs; /* data areas */
	int peer_pid;
	uint64_t peer_sbuf; /* address of the peer's send buffer */
	uint64_t sent[BENCH_WINDOW + 1], received[BENCH_WINDOW + 1];
	int has_cma;
} rail;

static int can_read_peer(struct bench *b)
{
	char byte;
	struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)rail.peer_sbuf, 1};
	int mine, all;

	(void)b;
	mine = process_vm_readv(rail.peer_pid, &to, 1, &from, 1, 0) == 1;
	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	return all;
}

/* A memory file of rank 0, which rank 1 opens by way of /proc: nothing to clean up. */
static int open_segment(struct bench *b, int pid_of_0, int fd_of_0)
{
	char path[64];
	int fd = fd_of_0;

	if (b->rank == 1) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid_of_0, fd_of_0);
		fd = open(path, O_RDWR | O_CLOEXEC);
	}
	if (fd < 0)
		return -1;
	rail.shared = mmap(NULL, rail.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (b->rank == 1)
		close(fd);
	return rail.shared == MAP_FAILED ? -1 : 0;
}

static int raw_open(struct bench *b, char *why, size_t why_bytes)
{
	struct {
		uint64_t sbuf;
		int pid, fd;
	} me = {(uint64_t)(uintptr_t)b->cpu_sbuf, (int)getpid(), -1}, all[2];
	const size_t head = (sizeof(struct shared) + 4095) & ~(size_t)4095;
	int ok, both;
	char *data;

	rail.bytes = head + 2 * b->pool_bytes;
	if (b->rank == 0) {
		me.fd = memfd_create("stmpi-bench", MFD_CLOEXEC);
		if (me.fd >= 0 && ftruncate(me.fd, (off_t)rail.bytes) != 0) {
			close(me.fd);
			me.fd = -1;
		}
	}
	MPI_Allgather(&me, sizeof(me), MPI_BYTE, all, sizeof(me), MPI_BYTE, MPI_COMM_WORLD);
	ok = open_segment(b, all[0].pid, all[0].fd) == 0;
	MPI_Allreduce(&ok, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (b->rank == 0 && me.fd >= 0)
		close(me.fd);
	if (!both) {
		snprintf(why, why_bytes, "no shared memory of %zu bytes", rail.bytes);
		return -1;
	}
	data = (char *)rail.shared + head;
	rail.mine = data + (size_t)b->rank * b->pool_bytes;
	rail.theirs = data + (size_t)b->peer * b->pool_bytes;
	memset(rail.mine, 1, b->pool_bytes);
	rail.peer_pid = all[b->peer].pid;
	rail.peer_sbuf = all[b->peer].sbuf;
	rail.has_cma = can_read_peer(b);
	return 0;
}

static int raw_variants(size_t bytes)
{
	return bytes > INLINE_BYTES && rail.has_cma ? 2 : 1;
}

static void put(struct bench *b, const struct bench_slice *s, int at, size_t offset, size_t bytes)
{
	struct line *line = &rail.shared->lines[b->rank][at];

	if (bytes <= INLINE_BYTES)
		memcpy(line->payload, b->cpu_sbuf + offset, bytes);
	else if (s->is_check && s->variant == 0)
		memcpy(rail.mine + offset, b->cpu_sbuf + offset, bytes);
	/* Partner: the acquire in get. */
	__atomic_store_n(&line->seq, ++rail.sent[at], __ATOMIC_RELEASE);
}

static void fetch(struct bench *b, size_t offset, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		struct iovec to = {b->cpu_rbuf + offset + done, bytes - done};
		struct iovec from = {(void *)(uintptr_t)(rail.peer_sbuf + offset + done),
				     bytes - done};
		ssize_t n = process_vm_readv(rail.peer_pid, &to, 1, &from, 1, 0);

		if (n <= 0)
			bench_die(b, "mode raw: process_vm_readv failed");
		done += (size_t)n;
	}
}

static void get(struct bench *b, const struct bench_slice *s, int at, size_t offset, size_t bytes)
{
	const struct line *line = &rail.shared->lines[b->peer][at];
	uint64_t seq = ++rail.received[at];
	unsigned spins = 0;

	/* Partner: the release in put. */
	while (__atomic_load_n(&line->seq, __ATOMIC_ACQUIRE) != seq) {
		if (++spins % SPINS == 0)
			sched_yield();
	}
	if (bytes <= INLINE_BYTES)
		memcpy(b->cpu_rbuf + offset, line->payload, bytes);
	else if (s->variant == 0)
		memcpy(b->cpu_rbuf + offset, rail.theirs + offset, bytes);
	else
		fetch(b, offset, bytes);
}

static void exchange(struct bench *b, const struct bench_slice *s, long from, long to)
{
	for (long k = from; k < to; k++) {
		bench_spoil(b, s, k);
		if (b->rank == 0) {
			bench_fill(b, s, k);
			put(b, s, 0, 0, s->bytes);
		}
		get(b, s, 0, 0, s->bytes);
		bench_verify(b, s, k);
		/* Not earlier: the peer may still have been reading the last one. */
		if (b->rank == 1) {
			bench_fill(b, s, k);
			put(b, s, 0, 0, s->bytes);
		}
	}
}

static double raw_pingpong(struct bench *b, const struct bench_slice *s)
{
	double start;

	exchange(b, s, 0, s->warm);
	start = bench_now();
	exchange(b, s, s->warm, s->warm + s->n);
	return bench_now() - start;
}

/* No line is written again before its window was answered. */
static void windows(struct bench *b, const struct bench_slice *s, long from, long to)
{
	int n = s->is_check ? s->slots : BENCH_WINDOW;

	for (long k = from; k < to; k++) {
		bench_fill(b, s, k);
		bench_spoil(b, s, k);
		for (int j = 0; j < n; j++) {
			size_t offset = (size_t)(j % s->slots) * s->stride;

			if (b->rank == 0)
				put(b, s, j, offset, s->bytes);
			else
				get(b, s, j, offset, s->bytes);
		}
		if (b->rank == 0) {
			get(b, s, ANSWER, 0, 0);
		} else {
			bench_verify(b, s, k);
			put(b, s, ANSWER, 0, 0);
		}
	}
}

static double raw_window(struct bench *b, const struct bench_slice *s)
{
	double start;

	windows(b, s, 0, s->warm);
	start = bench_now();
	windows(b, s, s->warm, s->warm + s->n);
	return bench_now() - start;
}

static void raw_close(void)
{
	if (rail.shared == NULL || rail.shared == MAP_FAILED)
		return;
	munmap(rail.shared, rail.bytes);
	rail.shared = NULL;
}

const struct raw_ops raw_shm_ops = {
	.name = "shared memory",
	.open = raw_open,
	.variants = raw_variants,
	.pingpong = raw_pingpong,
	.window = raw_window,
	.close = raw_close,
};
