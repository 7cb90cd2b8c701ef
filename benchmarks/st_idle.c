/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * st_idle.c: what the library costs while nothing happens: the share of one core that a process
 * uses (a) with nothing pending, after some traffic, (b) with one receive pending whose sender is
 * silent. The main threads sleep meanwhile. The larger share of the two ranks counts.
 */
#include <stdio.h>
#include <time.h>

#include "bench.h"

#define SETTLE_SECONDS	1.0 /* before each measurement */
#define TRAFFIC_DEFAULT 1000
#define TAG		1

enum {
	MODE_IDLE,
	MODE_PENDING
};

static void sleep_for(double seconds)
{
	double end = bench_now() + seconds, left;

	while ((left = end - bench_now()) > 0) {
		struct timespec ts = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};

		nanosleep(&ts, NULL);
	}
}

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Per cent of one core. MPI is left alone until both ranks have their figure: it would spin. */
static double measure(struct bench *b, const char *what)
{
	double mine, both, cpu, wall;

	b->mode_name = what;
	bench_deadline(b, (unsigned)(SETTLE_SECONDS + b->seconds) + 60);
	bench_out_progress(b, "measuring: %s, %.0f s", what, b->seconds);
	sleep_for(SETTLE_SECONDS);
	cpu = cpu_seconds();
	wall = bench_now();
	sleep_for(b->seconds);
	mine = (cpu_seconds() - cpu) / (bench_now() - wall) * 100;
	MPI_Allreduce(&mine, &both, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return both;
}

/* Messages both ways, so that everything there is to start has been started. */
static void traffic(struct bench *b, const struct bench_slice *s)
{
	b->mode_name = "traffic";
	bench_deadline(b, 120);
	for (long k = 0; k < s->n; k++) {
		if (b->rank == 0)
			MPIX_Send_enqueue(b->sbuf, (int)s->bytes, MPI_BYTE, 1, TAG, b->comm);
		MPIX_Recv_enqueue(b->rbuf, (int)s->bytes, MPI_BYTE, b->peer, TAG, b->comm,
				  MPI_STATUS_IGNORE);
		if (b->rank == 1)
			MPIX_Send_enqueue(b->sbuf, (int)s->bytes, MPI_BYTE, 0, TAG, b->comm);
	}
	bench_synchronize(b);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* One receive on rank 0; rank 1 sends only when the time is over. */
static double measure_pending(struct bench *b, const struct bench_slice *s)
{
	double share;

	if (b->rank == 0) {
		bench_spoil_enqueue(b, s, 0);
		MPIX_Recv_enqueue(b->rbuf, (int)s->bytes, MPI_BYTE, 1, TAG, b->comm,
				  MPI_STATUS_IGNORE);
	} else {
		bench_fill_enqueue(b, s, 0);
	}
	share = measure(b, "pending");
	if (b->rank == 1)
		MPIX_Send_enqueue(b->sbuf, (int)s->bytes, MPI_BYTE, 0, TAG, b->comm);
	if (b->rank == 0)
		bench_verify_enqueue(b, s, 0);
	bench_synchronize(b);
	return share;
}

static const struct bench_mode modes[] = {
	{"idle", BENCH_NEEDS_STREAM, NULL},
	{"pending", BENCH_NEEDS_STREAM, NULL},
};

static const struct bench_spec spec = {
	.name = "st_idle",
	.title = "Idle Test (share of one core, per cent)",
	.doc = "Measure the CPU time used with nothing pending, and with one receive pending whose "
	       "sender is silent. -i: messages of traffic before, -m: bytes of each; the payload "
	       "is "
	       "always verified.",
	.unit = "percent",
	.min_bytes = 8,
	.max_bytes = 8,
	.modes = modes,
	.mode_count = 2,
};

int main(int argc, char **argv)
{
	static struct bench b;
	const char *keys[2];
	double values[2];
	int n = 0;

	bench_init(&b, &spec, argc, argv);
	struct bench_slice s = {
		.bytes = b.max_bytes,
		.n = b.iterations > 0 ? b.iterations : TRAFFIC_DEFAULT,
		.slots = 1,
		.stride = b.max_bytes,
		.is_check = 1,
	};

	bench_open_buffers(&b);
	bench_open_stream(&b);
	bench_make_hooks(&b, 2);
	traffic(&b, &s);
	if (b.modes & (1u << MODE_IDLE)) {
		keys[n] = "idle_cpu_percent";
		values[n++] = measure(&b, "idle");
	}
	if (b.modes & (1u << MODE_PENDING)) {
		keys[n] = "pending_cpu_percent";
		values[n++] = measure_pending(&b, &s);
	}
	if (b.errors == 0)
		bench_out_result(&b, keys, values, n);
	return bench_fini(&b);
}
