/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * st_enqueue.c: what it costs to enqueue, and what an operation that waits costs in memory.
 *
 * Both ranks enqueue behind a closed gate, rank 0 sends, rank 1 their receives; so nothing but the
 * enqueue runs. Rank 0 takes the time of every block of operations. Then the gates open, everything
 * must drain, and the payloads must be there in order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define DEFAULT_OPS   100000
#define BLOCK_OPS     1000 /* fewer when there are too few operations for 20 blocks */
#define BLOCKS_MIN    20
#define EDGE_BLOCKS   5
#define DRAIN_SECONDS 300u
#define TAG	      1

struct job {
	long ops, block; /* a multiple of the block; the first block is for warming up */
	size_t stride;
	char *buf, *cpu; /* payloads: where the messages are, and where the CPU sees them */
	double *block_ns;
	double rss_before, rss_after;
};

static double resident_bytes(const struct bench *b)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long size, resident;
	int n = 0;

	if (f != NULL) {
		n = fscanf(f, "%lu %lu", &size, &resident);
		fclose(f);
	}
	if (n != 2)
		bench_die(b, "cannot read /proc/self/statm");
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *from, long n)
{
	double *v = malloc((size_t)n * sizeof(*v)), m;

	if (v == NULL)
		return 0;
	memcpy(v, from, (size_t)n * sizeof(*v));
	qsort(v, (size_t)n, sizeof(*v), compare);
	m = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
	free(v);
	return m;
}

static size_t all_bytes(const struct job *job)
{
	return (size_t)job->ops * job->stride;
}

/* Write the CPU's copy where the messages are, if that is another place. */
static void put(const struct bench *b, const struct job *job)
{
	if (job->cpu != job->buf)
		bench_must(b, any_device_copy(job->buf, job->cpu, all_bytes(job)), "a copy");
}

static void make_payloads(const struct bench *b, struct job *job)
{
	job->buf = bench_alloc(b, b->buffer, all_bytes(job));
	job->cpu =
		b->buffer == BENCH_DEVICE ? bench_alloc(b, BENCH_PINNED, all_bytes(job)) : job->buf;
	for (long k = 0; k < job->ops && b->rank == 0; k++)
		bench_pattern(job->cpu + (size_t)k * job->stride, b->max_bytes, 0, (uint64_t)k);
	put(b, job);
}

static void enqueue(struct bench *b, char *buf, long from, long to, size_t stride)
{
	for (long k = from; k < to; k++) {
		char *p = buf + (size_t)k * stride;

		if (b->rank == 0)
			MPIX_Send_enqueue(p, (int)b->max_bytes, MPI_BYTE, 1, TAG, b->comm);
		else
			MPIX_Recv_enqueue(p, (int)b->max_bytes, MPI_BYTE, 0, TAG, b->comm,
					  MPI_STATUS_IGNORE);
	}
}

static void verify(struct bench *b, const struct job *job)
{
	long wrong = 0;

	if (job->cpu != job->buf)
		bench_must(b, any_device_copy(job->cpu, job->buf, all_bytes(job)), "a copy");
	for (long k = 0; k < job->ops && b->rank == 1; k++) {
		const char *p = job->cpu + (size_t)k * job->stride;

		if (bench_pattern_differs(p, b->max_bytes, 0, (uint64_t)k) < 0)
			continue;
		if (wrong++ == 0)
			fprintf(stderr, "%s: receive %ld has the wrong payload\n", b->spec->name,
				k);
	}
	b->errors += wrong;
}

/* -x: operations that come and go before, so that the memory they need is there. */
static void warm_up(struct bench *b, const struct job *job)
{
	long n = b->warm < job->ops ? b->warm : job->ops;

	if (n <= 0)
		return;
	bench_gate_close(b);
	enqueue(b, job->buf, 0, n, job->stride);
	bench_gate_open(b);
	if (b->rank == 1) {
		memset(job->cpu, 0, all_bytes(job));
		put(b, job);
	}
}

static void run(struct bench *b, struct job *job)
{
	b->mode_name = "st";
	bench_deadline(b, DRAIN_SECONDS + (unsigned)(job->ops / 10000));
	MPI_Barrier(MPI_COMM_WORLD);
	warm_up(b, job);
	MPI_Barrier(MPI_COMM_WORLD);
	bench_gate_close(b);
	job->rss_before = resident_bytes(b);
	for (long i = 0; i * job->block < job->ops; i++) {
		double start = bench_now();

		enqueue(b, job->buf, i * job->block, (i + 1) * job->block, job->stride);
		job->block_ns[i] = (bench_now() - start) * 1e9 / (double)job->block;
		if (i % 100 == 0)
			bench_out_progress(b, "%ld of %ld operations", i * job->block, job->ops);
	}
	job->rss_after = resident_bytes(b);
	bench_out_progress(b, "draining");
	bench_gate_open(b);
	/* Rank 1 has the last message before anybody looks at the outcome. */
	MPI_Barrier(MPI_COMM_WORLD);
}

static void report(struct bench *b, const struct job *job)
{
	static const char *const keys[] = {"ns_per_op", "last_over_first", "rss_bytes_per_op"};
	long blocks = job->ops / job->block - 1;
	long edge = blocks < 2 * EDGE_BLOCKS ? (blocks + 1) / 2 : EDGE_BLOCKS;
	const double *first = job->block_ns + 1;
	double values[3];

	values[0] = median(first, blocks);
	values[1] = median(first + blocks - edge, edge) / median(first, edge);
	values[2] = (job->rss_after - job->rss_before) / (double)job->ops;
	bench_out_result(b, keys, values, 3);
}

static const struct bench_mode modes[] = {{"st", BENCH_NEEDS_STREAM, NULL}};

static const struct bench_spec spec = {
	.name = "st_enqueue",
	.title = "Enqueue Test (operations pending behind a gate)",
	.doc = "Measure the time to enqueue an operation, its growth with the number pending, and "
	       "the memory that a pending one takes. -i: operations, -m: bytes of each; payloads "
	       "are always verified.",
	.unit = "ns",
	.min_bytes = 8,
	.max_bytes = 8,
	.modes = modes,
	.mode_count = 1,
};

int main(int argc, char **argv)
{
	static struct bench b;
	struct job job = {.block = BLOCK_OPS};
	long ops;

	bench_init(&b, &spec, argc, argv);
	ops = b.iterations > 0 ? b.iterations : DEFAULT_OPS;
	if (ops < BLOCK_OPS * BLOCKS_MIN)
		job.block = ops / BLOCKS_MIN > 0 ? ops / BLOCKS_MIN : 1;
	/* Whole blocks, and one more to warm up. */
	job.ops = ((ops + job.block - 1) / job.block + 1) * job.block;
	job.stride = (b.max_bytes + 7) & ~(size_t)7;
	if (job.stride == 0)
		job.stride = 8;
	job.block_ns = calloc((size_t)(job.ops / job.block), sizeof(*job.block_ns));
	if (job.block_ns == NULL)
		bench_die(&b, "no memory for the times of %ld blocks", job.ops / job.block);
	make_payloads(&b, &job);
	bench_open_stream(&b);
	run(&b, &job);
	verify(&b, &job);
	if (b.errors == 0)
		report(&b, &job);
	free(job.block_ns);
	return bench_fini(&b);
}
