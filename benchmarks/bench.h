/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.h: what the benchmarks share: options, the stream under test, the interleaved sweep over
 * sizes and modes, payload patterns, output. It uses public calls only.
 *
 * Every benchmark runs on two ranks. Functions are collective unless they say otherwise, and end
 * the program with a message when something fails: a benchmark has nobody to report to.
 */
#ifndef STMPI_BENCH_H
#define STMPI_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

#include "mpix.h"
#include "stmpi_host.h"
#include "tests/mpi/any_stream.h"

#define BENCH_WINDOW	 64 /* messages in flight in bandwidth and rate tests */
#define BENCH_MODES_MAX	 8
#define BENCH_ROUNDS_MAX 1001
#define BENCH_BYTES_MAX	 ((size_t)1 << 30)
#define BENCH_POOL_BYTES                                                                           \
	((size_t)16 << 20) /* room for a window in checks; large messages share                    \
			    */

enum bench_format {
	BENCH_TABLE,
	BENCH_CSV,
	BENCH_JSON
};

/* Where the messages' memory is. */
enum bench_buffer {
	BENCH_HOST,
	BENCH_PINNED,
	BENCH_MANAGED,
	BENCH_DEVICE
};
#define BENCH_BUFFERS 4
extern const char *const bench_buffer_names[BENCH_BUFFERS];

/* What a mode needs before its first slice. */
enum {
	BENCH_NEEDS_STREAM = 1u << 0,
	BENCH_NEEDS_RAW = 1u << 1,
};

struct bench;

/* A piece of work: warm + n iterations of one mode, the last n of them timed. */
struct bench_slice {
	size_t bytes;
	long warm;
	long n;
	int slots; /* buffers of `stride` bytes in use: 1, or up to BENCH_WINDOW in checks */
	size_t stride;
	int variant;  /* raw only: which of its ways */
	int is_check; /* 1: fill and verify every payload */
};

struct bench_mode {
	const char *name;
	unsigned needs;
	/* Run a slice; on rank 0 returns the seconds that the n iterations took. */
	double (*run)(struct bench *b, const struct bench_slice *s);
};

/* How many iterations a slice has, unless told by options. */
struct bench_plan {
	long n;	   /* iterations per slice */
	long warm; /* before each slice */
	int rounds;
};

/* Constant description of a benchmark. */
struct bench_spec {
	const char *name;  /* "st_latency" */
	const char *title; /* "Latency Test (half round trip)" */
	const char *doc;   /* one line for --help */
	const char *unit;  /* "us" */
	int digits;	   /* after the point, in tables */
	int more_is_better;
	int messages;		     /* per iteration and direction: 1, or BENCH_WINDOW */
	size_t min_bytes, max_bytes; /* default of -m */
	const struct bench_mode *modes;
	int mode_count;
	struct bench_plan (*plan)(size_t bytes); /* NULL for benchmarks without a sweep */
	double (*value)(const struct bench_slice *s, double seconds);
};

/*
 * The floor: the network or the memory without our library. Two of them: raw_shm.c, raw_ofi.c.
 * pingpong and window are as bench_mode.run.
 */
struct raw_ops {
	const char *name;
	/* Returns 0, or -1 with the reason in why, the same on both ranks. */
	int (*open)(struct bench *b, char *why, size_t why_bytes);
	/* Ways to move this many bytes, of which the best is reported; at least 1. Local. */
	int (*variants)(size_t bytes);
	double (*pingpong)(struct bench *b, const struct bench_slice *s);
	double (*window)(struct bench *b, const struct bench_slice *s);
	void (*close)(void);
};

extern const struct raw_ops raw_shm_ops, raw_ofi_ops;

struct bench_hook;

struct bench {
	const struct bench_spec *spec;
	/* options */
	size_t min_bytes, max_bytes;
	long iterations; /* 0: by plan */
	long warm;	 /* -1: by plan */
	long rounds;	 /* 0: by plan */
	double seconds;	 /* st_idle */
	int is_check;
	enum bench_format format;
	unsigned modes; /* bit i: spec->modes[i] was chosen */
	int modes_are_default;
	int is_cuda; /* the stream: host or CUDA */
	enum bench_buffer buffer;
	/* the two ranks */
	int rank, peer;
	char mpi_name[64];
	const char *provider; /* what carries the messages of st modes */
	const char *trigger;
	/* the stream under test; only after bench_open_stream */
	any_stream_t queue;
	MPIX_Stream stream;
	MPI_Comm comm;
	any_event_t start, stop;
	char device[64]; /* its name; "" for host streams */
	uint64_t gate, gate_target;
	/* buffers, page aligned, pool_bytes each; only after bench_open_buffers */
	char *sbuf, *rbuf;
	char *cpu_sbuf, *cpu_rbuf; /* what the CPU and plain MPI use in their place, mostly the same
				    */
	size_t pool_bytes;
	/* checks */
	const char *mode_name; /* being run */
	struct bench_hook *hooks;
	size_t hook_count, hook_room;
	_Atomic long errors; /* wrong payloads; the stream's worker counts them too */
	const struct raw_ops *raw;
	MPI_Status *no_statuses; /* MPI_STATUSES_IGNORE; gcc 12 takes the constant for an array */
	int rows;
};

/* Options, then MPI_Init, then the two ranks' names. Local errors end with exit code 2. */
void bench_init(struct bench *b, const struct bench_spec *spec, int argc, char **argv);
/* Free all that was opened, MPI_Finalize. Returns the exit code of main. */
int bench_fini(struct bench *b);

void bench_choose_stream(struct bench *b);
void bench_open_stream(struct bench *b);
void bench_close_stream(struct bench *b);
void bench_open_buffers(struct bench *b);
/* Memory until the program ends. Local. */
char *bench_alloc(const struct bench *b, enum bench_buffer kind, size_t bytes);
/* 0, or -1 with the reason in why. */
int bench_open_raw(struct bench *b, char *why, size_t why_bytes);

/* Run the sweep that spec describes and print it. */
void bench_sweep(struct bench *b);

/* ---- for the slices ---- */

/* Print "name: text" (any rank) and end all ranks with exit code 1. */
void bench_die(const struct bench *b, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
/* Die when a call on the stream failed. */
void bench_must(const struct bench *b, int code, const char *call);
double bench_now(void); /* seconds, monotonic; local */

/* Let at most this many seconds pass until the next call, or end the program; 0: no limit. Local.
 */
void bench_deadline(const struct bench *b, unsigned seconds);

/* Close the gate behind which a slice is enqueued; open it on both ranks and wait for the stream.
 */
void bench_gate_close(struct bench *b);
void bench_gate_open(struct bench *b);
/* Seconds between the two events of the stream. Local. */
double bench_elapsed(const struct bench *b);

/* Wait for all work of the stream; have an event recorded on it. Local. */
void bench_synchronize(const struct bench *b);
void bench_record(const struct bench *b, any_event_t event);
/*
 * What people do today, without messages on streams: before a message, work on the stream, which
 * for device memory is the copy to where MPI can read it; after one, the copy back. Local.
 */
void bench_stream_work(struct bench *b, size_t offset, size_t bytes);
void bench_stream_take(struct bench *b, size_t offset, size_t bytes);

/*
 * In checks only (else nothing): fill the send slots with the pattern of iteration k, spoil the
 * receive slots, verify them against the peer's pattern. The _enqueue forms do it in stream order.
 * Local.
 */
void bench_fill(struct bench *b, const struct bench_slice *s, long k);
void bench_spoil(struct bench *b, const struct bench_slice *s, long k);
void bench_verify(struct bench *b, const struct bench_slice *s, long k);
void bench_fill_enqueue(struct bench *b, const struct bench_slice *s, long k);
void bench_spoil_enqueue(struct bench *b, const struct bench_slice *s, long k);
void bench_verify_enqueue(struct bench *b, const struct bench_slice *s, long k);
void bench_make_hooks(struct bench *b, size_t count); /* room for that many of these */
/* The pattern itself: message `number` of `rank`. */
void bench_pattern(void *buf, size_t bytes, int rank, uint64_t number);
/* The offset of the first byte that differs from the pattern, -1 when none. */
long bench_pattern_differs(const void *buf, size_t bytes, int rank, uint64_t number);

/* ---- windows (bench_window.c): rank 0 sends BENCH_WINDOW messages, rank 1 answers ---- */

double bench_window_st(struct bench *b, const struct bench_slice *s);
double bench_window_inline(struct bench *b, const struct bench_slice *s);
double bench_window_sync(struct bench *b, const struct bench_slice *s);
double bench_window_mpi(struct bench *b, const struct bench_slice *s);
double bench_window_raw(struct bench *b, const struct bench_slice *s);

/* ---- output (bench_out.c); rank 0 prints, others do nothing ---- */

void bench_out_head(struct bench *b);
/* values[i] belongs to spec->modes[i]; only chosen modes are printed; NaN: no value. */
void bench_out_row(struct bench *b, size_t bytes, const double *values);
void bench_out_tail(struct bench *b);
/* The flat form. */
void bench_out_result(struct bench *b, const char *const *keys, const double *values, int n);
/* On a terminal only: one line that is overwritten by the next. "" clears it. */
void bench_out_progress(const struct bench *b, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- options (bench_opts.c) ---- */

void bench_opts(struct bench *b, int argc, char **argv);

#endif
