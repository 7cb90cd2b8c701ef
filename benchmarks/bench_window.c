/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_window.c: windows of messages one way and an answer, as in OSU's bandwidth test.
 *
 * When timing, all messages of a window use one buffer (as there), so that a window of 64 MiB
 * messages needs no 4 GiB. In checks each has its own, as many as there are.
 */
#include "bench.h"

#define DATA_TAG   1
#define ANSWER_TAG 2

static char *slot(char *base, const struct bench_slice *s, int j)
{
	return base + (size_t)(j % s->slots) * s->stride;
}

/* In checks a window has as many messages as there are buffers. */
static int window_messages(const struct bench_slice *s)
{
	return s->is_check ? s->slots : BENCH_WINDOW;
}

/* ---- on the stream ---- */

static void enqueue_sender(struct bench *b, const struct bench_slice *s, long k)
{
	MPI_Request requests[BENCH_WINDOW];
	static char answer[4];
	int n = window_messages(s);

	bench_fill_enqueue(b, s, k);
	for (int j = 0; j < n; j++)
		MPIX_Isend_enqueue(slot(b->sbuf, s, j), (int)s->bytes, MPI_BYTE, b->peer, DATA_TAG,
				   b->comm, &requests[j]);
	MPIX_Waitall_enqueue(n, requests, MPI_STATUSES_IGNORE);
	MPIX_Recv_enqueue(answer, sizeof(answer), MPI_BYTE, b->peer, ANSWER_TAG, b->comm,
			  MPI_STATUS_IGNORE);
}

static void enqueue_receiver(struct bench *b, const struct bench_slice *s, long k)
{
	MPI_Request requests[BENCH_WINDOW];
	static const char answer[4];
	int n = window_messages(s);

	bench_spoil_enqueue(b, s, k);
	for (int j = 0; j < n; j++)
		MPIX_Irecv_enqueue(slot(b->rbuf, s, j), (int)s->bytes, MPI_BYTE, b->peer, DATA_TAG,
				   b->comm, &requests[j]);
	MPIX_Waitall_enqueue(n, requests, MPI_STATUSES_IGNORE);
	bench_verify_enqueue(b, s, k);
	MPIX_Send_enqueue(answer, sizeof(answer), MPI_BYTE, b->peer, ANSWER_TAG, b->comm);
}

static void enqueue_windows(struct bench *b, const struct bench_slice *s, long from, long to)
{
	for (long k = from; k < to; k++) {
		if (b->rank == 0)
			enqueue_sender(b, s, k);
		else
			enqueue_receiver(b, s, k);
	}
}

double bench_window_st(struct bench *b, const struct bench_slice *s)
{
	bench_gate_close(b);
	enqueue_windows(b, s, 0, s->warm);
	bench_record(b, b->start);
	enqueue_windows(b, s, s->warm, s->warm + s->n);
	bench_record(b, b->stop);
	bench_gate_open(b);
	return bench_elapsed(b);
}

double bench_window_inline(struct bench *b, const struct bench_slice *s)
{
	double start;

	enqueue_windows(b, s, 0, s->warm);
	bench_synchronize(b);
	MPI_Barrier(MPI_COMM_WORLD);
	start = bench_now();
	enqueue_windows(b, s, s->warm, s->warm + s->n);
	bench_synchronize(b);
	return bench_now() - start;
}

/* ---- plain MPI ---- */

static void mpi_sender(struct bench *b, const struct bench_slice *s, long k)
{
	MPI_Request requests[BENCH_WINDOW];
	char answer[4];
	int n = window_messages(s);

	bench_fill(b, s, k);
	for (int j = 0; j < n; j++)
		MPI_Isend(slot(b->cpu_sbuf, s, j), (int)s->bytes, MPI_BYTE, b->peer, DATA_TAG,
			  MPI_COMM_WORLD, &requests[j]);
	MPI_Waitall(n, requests, b->no_statuses);
	MPI_Recv(answer, sizeof(answer), MPI_BYTE, b->peer, ANSWER_TAG, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
}

static void mpi_receiver(struct bench *b, const struct bench_slice *s, long k)
{
	MPI_Request requests[BENCH_WINDOW];
	char answer[4] = {0};
	int n = window_messages(s);

	bench_spoil(b, s, k);
	for (int j = 0; j < n; j++)
		MPI_Irecv(slot(b->cpu_rbuf, s, j), (int)s->bytes, MPI_BYTE, b->peer, DATA_TAG,
			  MPI_COMM_WORLD, &requests[j]);
	MPI_Waitall(n, requests, b->no_statuses);
	bench_verify(b, s, k);
	MPI_Send(answer, sizeof(answer), MPI_BYTE, b->peer, ANSWER_TAG, MPI_COMM_WORLD);
}

/* What the sender's stream has made, where MPI can read it. */
static void wait_for_work(struct bench *b, const struct bench_slice *s)
{
	int n = b->buffer == BENCH_DEVICE ? window_messages(s) : 1;

	for (int j = 0; j < n; j++)
		bench_stream_work(b, (size_t)(j % s->slots) * s->stride, s->bytes);
	bench_synchronize(b);
}

static void take(struct bench *b, const struct bench_slice *s)
{
	for (int j = 0; j < window_messages(s); j++)
		bench_stream_take(b, (size_t)(j % s->slots) * s->stride, s->bytes);
}

static void mpi_windows(struct bench *b, const struct bench_slice *s, long from, long to,
			int has_work)
{
	for (long k = from; k < to; k++) {
		if (has_work)
			wait_for_work(b, s);
		if (b->rank == 0)
			mpi_sender(b, s, k);
		else
			mpi_receiver(b, s, k);
		if (has_work && b->rank == 1)
			take(b, s);
	}
}

static double timed_mpi(struct bench *b, const struct bench_slice *s, int has_work)
{
	double start;

	mpi_windows(b, s, 0, s->warm, has_work);
	start = bench_now();
	mpi_windows(b, s, s->warm, s->warm + s->n, has_work);
	return bench_now() - start;
}

double bench_window_sync(struct bench *b, const struct bench_slice *s)
{
	return timed_mpi(b, s, 1);
}

double bench_window_mpi(struct bench *b, const struct bench_slice *s)
{
	return timed_mpi(b, s, 0);
}

double bench_window_raw(struct bench *b, const struct bench_slice *s)
{
	return b->raw->window(b, s);
}
