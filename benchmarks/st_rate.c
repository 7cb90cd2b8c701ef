/* SPDX-License-Identifier: BSD-3-Clause */
/* st_rate.c: small messages per second, 64 sends for each wait. */
#include "bench.h"

static const struct bench_mode modes[] = {
	{"st", BENCH_NEEDS_STREAM, bench_window_st},
	{"mpi", 0, bench_window_mpi},
	{"raw", BENCH_NEEDS_RAW, bench_window_raw},
};

static struct bench_plan plan(size_t bytes)
{
	struct bench_plan p = {.n = 50, .warm = 4, .rounds = 21};

	(void)bytes;
	return p;
}

static double value(const struct bench_slice *s, double seconds)
{
	return BENCH_WINDOW * (double)s->n / seconds;
}

static const struct bench_spec spec = {
	.name = "st_rate",
	.title = "Message Rate Test (64 sends for each wait)",
	.doc = "Measure how many messages per second pass on a stream, and by what else "
	       "there is to compare them with.",
	.unit = "msg/s",
	.digits = 0,
	.more_is_better = 1,
	.messages = BENCH_WINDOW,
	.min_bytes = 8,
	.max_bytes = 8,
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
