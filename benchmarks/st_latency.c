/* SPDX-License-Identifier: BSD-3-Clause */
/* st_latency.c: half the round trip of a message. */
#include "bench.h"

#define TAG 1

/* ---- on the stream ---- */

static void enqueue_send(struct bench *b, const struct bench_slice *s, long k)
{
	bench_fill_enqueue(b, s, k);
	MPIX_Send_enqueue(b->sbuf, (int)s->bytes, MPI_BYTE, b->peer, TAG, b->comm);
}

static void enqueue_recv(struct bench *b, const struct bench_slice *s, long k)
{
	bench_spoil_enqueue(b, s, k);
	MPIX_Recv_enqueue(b->rbuf, (int)s->bytes, MPI_BYTE, b->peer, TAG, b->comm,
			  MPI_STATUS_IGNORE);
	bench_verify_enqueue(b, s, k);
}

static void enqueue(struct bench *b, const struct bench_slice *s, long from, long to)
{
	for (long k = from; k < to; k++) {
		if (b->rank == 0) {
			enqueue_send(b, s, k);
			enqueue_recv(b, s, k);
		} else {
			enqueue_recv(b, s, k);
			enqueue_send(b, s, k);
		}
	}
}

static double run_st(struct bench *b, const struct bench_slice *s)
{
	bench_gate_close(b);
	enqueue(b, s, 0, s->warm);
	bench_record(b, b->start);
	enqueue(b, s, s->warm, s->warm + s->n);
	bench_record(b, b->stop);
	bench_gate_open(b);
	return bench_elapsed(b);
}

static double run_inline(struct bench *b, const struct bench_slice *s)
{
	double start;

	enqueue(b, s, 0, s->warm);
	bench_synchronize(b);
	MPI_Barrier(MPI_COMM_WORLD);
	start = bench_now();
	enqueue(b, s, s->warm, s->warm + s->n);
	bench_synchronize(b);
	return bench_now() - start;
}

/* ---- plain MPI ---- */

static void send_one(struct bench *b, const struct bench_slice *s, long k)
{
	bench_fill(b, s, k);
	MPI_Send(b->cpu_sbuf, (int)s->bytes, MPI_BYTE, b->peer, TAG, MPI_COMM_WORLD);
}

static void recv_one(struct bench *b, const struct bench_slice *s, long k)
{
	bench_spoil(b, s, k);
	MPI_Recv(b->cpu_rbuf, (int)s->bytes, MPI_BYTE, b->peer, TAG, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
	bench_verify(b, s, k);
}

static void exchange(struct bench *b, const struct bench_slice *s, long from, long to)
{
	for (long k = from; k < to; k++) {
		if (b->rank == 0) {
			send_one(b, s, k);
			recv_one(b, s, k);
		} else {
			recv_one(b, s, k);
			send_one(b, s, k);
		}
	}
}

static double run_mpi(struct bench *b, const struct bench_slice *s)
{
	double start;

	exchange(b, s, 0, s->warm);
	start = bench_now();
	exchange(b, s, s->warm, s->warm + s->n);
	return bench_now() - start;
}

/* The data is made, and used, by work on the stream: it must have ended before a message is sent.
 */
static void exchange_sync(struct bench *b, const struct bench_slice *s, long from, long to)
{
	for (long k = from; k < to; k++) {
		if (b->rank == 1) {
			recv_one(b, s, k);
			bench_stream_take(b, 0, s->bytes);
		}
		bench_stream_work(b, 0, s->bytes);
		bench_synchronize(b);
		send_one(b, s, k);
		if (b->rank == 0) {
			recv_one(b, s, k);
			bench_stream_take(b, 0, s->bytes);
		}
	}
}

static double run_sync(struct bench *b, const struct bench_slice *s)
{
	double start;

	exchange_sync(b, s, 0, s->warm);
	start = bench_now();
	exchange_sync(b, s, s->warm, s->warm + s->n);
	return bench_now() - start;
}

static double run_raw(struct bench *b, const struct bench_slice *s)
{
	return b->raw->pingpong(b, s);
}

static const struct bench_mode modes[] = {
	{"st", BENCH_NEEDS_STREAM, run_st},	{"st_inline", BENCH_NEEDS_STREAM, run_inline},
	{"sync", BENCH_NEEDS_STREAM, run_sync}, {"mpi", 0, run_mpi},
	{"raw", BENCH_NEEDS_RAW, run_raw},
};

static struct bench_plan plan(size_t bytes)
{
	struct bench_plan p = {.n = 500, .warm = 100, .rounds = 21};

	if (bytes > 8192) {
		p.n = bytes > ((size_t)1 << 20) ? 10 : 50;
		p.warm = 10;
	}
	if (bytes > ((size_t)16 << 20))
		p.n = p.warm = 2;
	return p;
}

static double value(const struct bench_slice *s, double seconds)
{
	return seconds * 1e6 / (2.0 * (double)s->n);
}

static const struct bench_spec spec = {
	.name = "st_latency",
	.title = "Latency Test (half round trip)",
	.doc = "Measure half the round trip of messages that are enqueued on a stream, and of "
	       "what else there is to compare them with.",
	.unit = "us",
	.digits = 2,
	.messages = 1,
	.min_bytes = 8,
	.max_bytes = (size_t)1 << 20,
	.modes = modes,
	.mode_count = sizeof(modes) / sizeof(modes[0]),
	.plan = plan,
	.value = value,
};

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, &spec, argc, argv);
	bench_sweep(&b);
	return bench_fini(&b);
}
