/* SPDX-License-Identifier: BSD-3-Clause */
/* st_bw.c: bandwidth of windows of 64 messages. */
#include "bench.h"

static const struct bench_mode modes[] = {
	{"st", BENCH_NEEDS_STREAM, bench_window_st},
	{"st_inline", BENCH_NEEDS_STREAM, bench_window_inline},
	{"sync", BENCH_NEEDS_STREAM, bench_window_sync},
	{"mpi", 0, bench_window_mpi},
	{"raw", BENCH_NEEDS_RAW, bench_window_raw},
};

/* Some 32 MiB per slice, but at least a window. */
static struct bench_plan plan(size_t bytes)
{
	size_t window = (bytes ? bytes : 1) * BENCH_WINDOW;
	struct bench_plan p = {.n = (long)(((size_t)32 << 20) / window), .warm = 2, .rounds = 21};

	if (p.n > 20)
		p.n = 20;
	if (p.n < 1)
		p.n = 1;
	if (window >= (size_t)64 << 20) {
		p.warm = 0;
		p.rounds = window > (size_t)1 << 30 ? 5 : 11;
	}
	return p;
}

static double value(const struct bench_slice *s, double seconds)
{
	return (double)s->bytes * BENCH_WINDOW * (double)s->n / seconds * 1e-6;
}

static const struct bench_spec spec = {
	.name = "st_bw",
	.title = "Bandwidth Test (windows of 64)",
	.doc = "Measure the bandwidth of windows of 64 messages that are enqueued on a "
	       "stream, and of what else there is to compare them with.",
	.unit = "MB/s",
	.digits = 2,
	.more_is_better = 1,
	.messages = BENCH_WINDOW,
	.min_bytes = 8,
	.max_bytes = (size_t)4 << 20,
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
