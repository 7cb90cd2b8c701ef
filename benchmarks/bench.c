/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.c: setting up, sweeping, checking.
 *
 * The modes are interleaved: a round runs one slice of each, beginning with another one every
 * round, and the median over the rounds counts. So a machine that others use too slows all modes
 * alike, and their ratios stay right.
 */
#include "bench.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLICE_SECONDS 120u /* for a small slice; more for a larger one */
#define CHECK_MAX     10   /* iterations of a check pass */
#define SPOIL	      0xa5

/* For the signal handler: what was going on, complete before the alarm is set. */
static char deadline_text[256];

/* ---- ends ---- */

static void on_alarm(int sig)
{
	ssize_t n = write(STDERR_FILENO, deadline_text, strlen(deadline_text));

	(void)sig;
	(void)n;
	/* The main thread may hang in MPI: only mpirun can end the other rank, and does. */
	_exit(1);
}

void bench_deadline(const struct bench *b, unsigned seconds)
{
	alarm(0);
	if (seconds == 0)
		return;
	snprintf(deadline_text, sizeof(deadline_text),
		 "%s: rank %d: mode %s did not end within %u s\n", b->spec->name, b->rank,
		 b->mode_name ? b->mode_name : "setup", seconds);
	alarm(seconds);
}

void bench_die(const struct bench *b, const char *format, ...)
{
	va_list args;
	char text[512];

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	bench_out_progress(b, "%s", "");
	fprintf(stderr, "%s: %s\n", b->spec->name, text);
	fflush(NULL);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

void bench_must(const struct bench *b, int code, const char *call)
{
	/* stmpi's codes are negative, the CUDA driver's positive. */
	if (code < 0)
		bench_die(b, "rank %d: %s: %s", b->rank, call, stmpi_strerror(code));
	if (code > 0)
		bench_die(b, "rank %d: %s: CUDA error %d", b->rank, call, code);
}

double bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* ---- setting up ---- */

/* "MPICH Version:\t4.0.2\n..." -> "MPICH 4.0.2" */
static void name_mpi(struct bench *b)
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING];
	char name[32] = "MPI", version[24] = "";
	int n = 0;

	MPI_Get_library_version(text, &n);
	if (sscanf(text, "%31s Version:%*[ \t]%23[0-9a-zA-Z.]", name, version) >= 1 &&
	    version[0] != '\0')
		snprintf(b->mpi_name, sizeof(b->mpi_name), "%s %s", name, version);
	else
		snprintf(b->mpi_name, sizeof(b->mpi_name), "%.*s", (int)strcspn(text, "\n"), text);
}

static int same_node(void)
{
	MPI_Comm node;
	int n;

	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &n);
	MPI_Comm_free(&node);
	return n == 2;
}

static int has_deferred_work(const char *provider)
{
	return provider != NULL &&
	       (strcmp(provider, "sockets") == 0 || strcmp(provider, "cxi") == 0);
}

/* Which rail the library will use, by the same rules: no public call tells. */
static void name_transport(struct bench *b)
{
	const char *provider = getenv("STMPI_OFI_PROVIDER");
	const char *backend = getenv("STMPI_NET_BACKEND");
	const char *node = getenv("STMPI_NODE");
	const char *trigger = getenv("STMPI_TRIGGER");
	int is_near = same_node() && (node == NULL || *node == '\0');

	if (trigger != NULL && strcmp(trigger, "auto") != 0)
		b->trigger = trigger;
	else
		b->trigger = has_deferred_work(provider) ? "deferred" : "software";
	if (provider != NULL && *provider != '\0') {
		b->provider = provider;
		b->raw = &raw_ofi_ops;
	} else if ((backend != NULL && strcmp(backend, "ofi") == 0) || !is_near) {
		b->provider = "auto";
		b->raw = &raw_ofi_ops;
	} else {
		b->provider = "stmpi-shm";
		b->raw = &raw_shm_ops;
	}
}

static int only_core(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) != 1)
		return -1;
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &set))
			return i;
	}
	return -1;
}

static void warn_about_cores(const struct bench *b)
{
	int mine = only_core(), theirs = -1;

	MPI_Sendrecv(&mine, 1, MPI_INT, b->peer, 0, &theirs, 1, MPI_INT, b->peer, 0, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	if (b->rank == 0 && mine >= 0 && mine == theirs && b->raw == &raw_shm_ops)
		fprintf(stderr,
			"%s: warning: both ranks are bound to core %d; the figures mean little "
			"(try -bind-to core)\n",
			b->spec->name, mine);
}

void bench_init(struct bench *b, const struct bench_spec *spec, int argc, char **argv)
{
	struct sigaction action;
	int ranks;

	memset(b, 0, sizeof(*b));
	b->spec = spec;
	b->min_bytes = spec->min_bytes;
	b->max_bytes = spec->max_bytes;
	b->warm = -1;
	b->seconds = 5;
	b->no_statuses = MPI_STATUSES_IGNORE;
	b->modes = (1u << spec->mode_count) - 1;
	b->modes_are_default = 1;
	bench_opts(b, argc, argv);
	memset(&action, 0, sizeof(action));
	action.sa_handler = on_alarm;
	sigaction(SIGALRM, &action, NULL);
	bench_deadline(b, SLICE_SECONDS);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &b->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks != 2) {
		if (b->rank == 0)
			fprintf(stderr,
				"%s: runs on 2 ranks, not %d: stmpirun -n 2 -bind-to core %s\n",
				spec->name, ranks, spec->name);
		MPI_Finalize();
		exit(2);
	}
	b->peer = 1 - b->rank;
	name_mpi(b);
	name_transport(b);
	bench_choose_stream(b);
	warn_about_cores(b);
}

int bench_open_raw(struct bench *b, char *why, size_t why_bytes)
{
	bench_open_buffers(b);
	return b->raw->open(b, why, why_bytes);
}

int bench_fini(struct bench *b)
{
	long errors = atomic_load(&b->errors), all = 0;

	MPI_Allreduce(&errors, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	bench_deadline(b, SLICE_SECONDS);
	bench_close_stream(b);
	b->raw->close();
	MPI_Finalize();
	free(b->hooks);
	bench_deadline(b, 0);
	return all != 0;
}

/* ---- payloads ---- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* The eight bytes at offset 8 * i of a message. */
static uint64_t pattern_word(int rank, uint64_t number, size_t i)
{
	return mix(mix(number * 2 + (uint64_t)rank) ^ i);
}

void bench_pattern(void *buf, size_t bytes, int rank, uint64_t number)
{
	char *p = buf;

	for (size_t i = 0; i * 8 < bytes; i++) {
		uint64_t w = pattern_word(rank, number, i);
		size_t left = bytes - i * 8;

		memcpy(p + i * 8, &w, left < 8 ? left : 8);
	}
}

long bench_pattern_differs(const void *buf, size_t bytes, int rank, uint64_t number)
{
	const char *p = buf;

	for (size_t i = 0; i * 8 < bytes; i++) {
		uint64_t w = pattern_word(rank, number, i);
		size_t left = bytes - i * 8, n = left < 8 ? left : 8;

		if (memcmp(p + i * 8, &w, n) == 0)
			continue;
		for (size_t j = 0; j < n; j++) {
			if (p[i * 8 + j] != ((const char *)&w)[j])
				return (long)(i * 8 + j);
		}
	}
	return -1;
}

static uint64_t message_number(const struct bench_slice *s, long k, int slot)
{
	return (uint64_t)k * (uint64_t)s->slots + (uint64_t)slot;
}

void bench_fill(struct bench *b, const struct bench_slice *s, long k)
{
	if (!s->is_check)
		return;
	for (int i = 0; i < s->slots; i++)
		bench_pattern(b->cpu_sbuf + (size_t)i * s->stride, s->bytes, b->rank,
			      message_number(s, k, i));
}

void bench_spoil(struct bench *b, const struct bench_slice *s, long k)
{
	(void)k;
	if (!s->is_check)
		return;
	for (int i = 0; i < s->slots; i++)
		memset(b->cpu_rbuf + (size_t)i * s->stride, SPOIL, s->bytes);
}

void bench_verify(struct bench *b, const struct bench_slice *s, long k)
{
	if (!s->is_check)
		return;
	for (int i = 0; i < s->slots; i++) {
		const char *p = b->cpu_rbuf + (size_t)i * s->stride;
		uint64_t number = message_number(s, k, i);
		long at = bench_pattern_differs(p, s->bytes, b->peer, number);

		if (at < 0)
			continue;
		if (atomic_fetch_add(&b->errors, 1) == 0)
			fprintf(stderr,
				"%s: rank %d: mode %s: message %llu of %zu bytes is wrong at "
				"offset %ld (0x%02x)\n",
				b->spec->name, b->rank, b->mode_name, (unsigned long long)number,
				s->bytes, at, (unsigned char)p[at]);
	}
}

/* ---- the sweep ---- */

/* One size: all samples of all modes and their variants. */
struct samples {
	double value[BENCH_MODES_MAX][2][BENCH_ROUNDS_MAX];
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), compare);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static int is_chosen(const struct bench *b, int mode)
{
	return (b->modes >> mode) & 1;
}

static int variants(const struct bench *b, int mode, size_t bytes)
{
	return b->spec->modes[mode].needs & BENCH_NEEDS_RAW ? b->raw->variants(bytes) : 1;
}

static void prepare(struct bench *b)
{
	char why[256] = "";

	bench_open_buffers(b);
	for (int i = 0; i < b->spec->mode_count; i++) {
		if (!is_chosen(b, i))
			continue;
		if (b->spec->modes[i].needs & BENCH_NEEDS_STREAM)
			bench_open_stream(b);
		if (!(b->spec->modes[i].needs & BENCH_NEEDS_RAW) ||
		    bench_open_raw(b, why, sizeof(why)) == 0)
			continue;
		if (b->rank == 0)
			fprintf(stderr, "%s: mode %s %s: %s\n", b->spec->name,
				b->spec->modes[i].name,
				b->modes_are_default ? "is left out" : "cannot run", why);
		if (!b->modes_are_default) {
			bench_fini(b);
			exit(1);
		}
		b->modes &= ~(1u << i);
	}
}

static double run(struct bench *b, int mode, const struct bench_slice *s)
{
	/* A millisecond for each message and 100 MB/s, both ways: slower is a hang. */
	double limit = SLICE_SECONDS + 2.0 * (double)(s->warm + s->n) * b->spec->messages *
					       (1e-3 + (double)s->bytes * 1e-8);
	double seconds;

	b->mode_name = b->spec->modes[mode].name;
	b->hook_count = 0;
	bench_deadline(b, limit < 1e6 ? (unsigned)limit : 1000000u);
	MPI_Barrier(MPI_COMM_WORLD);
	seconds = b->spec->modes[mode].run(b, s);
	bench_deadline(b, SLICE_SECONDS);
	return seconds;
}

static void check_size(struct bench *b, size_t bytes, long iterations)
{
	struct bench_slice s = {.bytes = bytes, .is_check = 1, .slots = b->spec->messages};
	long errors, all = 0;

	s.stride = (bytes + 63) & ~(size_t)63;
	if (s.stride > 0 && b->pool_bytes / s.stride < (size_t)s.slots)
		s.slots = (int)(b->pool_bytes / s.stride);
	s.n = iterations < CHECK_MAX ? iterations : CHECK_MAX;
	if (bytes > BENCH_POOL_BYTES && s.n > 2)
		s.n = 2;
	bench_make_hooks(b, 8 * (size_t)s.n);
	for (int m = 0; m < b->spec->mode_count; m++) {
		for (s.variant = 0; is_chosen(b, m) && s.variant < variants(b, m, bytes);
		     s.variant++) {
			bench_out_progress(b, "%zu bytes: checking %s", bytes,
					   b->spec->modes[m].name);
			run(b, m, &s);
		}
	}
	errors = atomic_load(&b->errors);
	MPI_Allreduce(&errors, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (all != 0) {
		if (b->rank == 0)
			fprintf(stderr, "%s: check failed: %ld wrong messages\n", b->spec->name,
				all);
		exit(bench_fini(b));
	}
}

static struct bench_plan plan_size(const struct bench *b, size_t bytes)
{
	struct bench_plan p = b->spec->plan(bytes);

	if (b->rounds > 0)
		p.rounds = (int)b->rounds;
	if (b->iterations > 0) {
		if (p.rounds > b->iterations)
			p.rounds = (int)b->iterations;
		p.n = b->iterations / p.rounds;
	}
	if (b->warm >= 0)
		p.warm = b->warm;
	return p;
}

static void measure_size(struct bench *b, size_t bytes, struct samples *all)
{
	struct bench_plan plan = plan_size(b, bytes);
	struct bench_slice s = {.bytes = bytes, .warm = plan.warm, .n = plan.n, .slots = 1};
	const struct bench_spec *spec = b->spec;
	double values[BENCH_MODES_MAX];

	/* Round -1 is for warming up. */
	for (int r = -1; r < plan.rounds; r++) {
		bench_out_progress(b, "%zu bytes: round %d of %d", bytes, r + 1, plan.rounds);
		for (int i = 0; i < spec->mode_count; i++) {
			int m = (i + r + 1) % spec->mode_count;

			for (s.variant = 0; is_chosen(b, m) && s.variant < variants(b, m, bytes);
			     s.variant++) {
				double t = run(b, m, &s);

				if (r >= 0)
					all->value[m][s.variant][r] = spec->value(&s, t);
			}
		}
	}
	for (int m = 0; m < spec->mode_count; m++) {
		values[m] = (double)NAN;
		for (int v = 0; is_chosen(b, m) && v < variants(b, m, bytes); v++) {
			double x = median(all->value[m][v], plan.rounds);

			if (v == 0 || (spec->more_is_better ? x > values[m] : x < values[m]))
				values[m] = x;
		}
	}
	bench_out_row(b, bytes, values);
}

void bench_sweep(struct bench *b)
{
	struct samples *all = malloc(sizeof(*all));
	size_t bytes = b->min_bytes;

	if (all == NULL)
		bench_die(b, "no memory");
	prepare(b);
	bench_out_head(b);
	for (;;) {
		if (b->is_check)
			check_size(b, bytes, plan_size(b, bytes).n * plan_size(b, bytes).rounds);
		measure_size(b, bytes, all);
		if (bytes >= b->max_bytes || (bytes != 0 && bytes * 2 > b->max_bytes))
			break;
		bytes = bytes == 0 ? 1 : bytes * 2;
	}
	bench_out_tail(b);
	free(all);
}
