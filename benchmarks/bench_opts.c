/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_opts.c: the options that all benchmarks have. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum {
	KEY_MODE = 256,
	KEY_CHECK,
	KEY_FORMAT,
	KEY_ROUNDS,
	KEY_SECONDS,
	KEY_STREAM,
	KEY_BUFFER
};

static const struct argp_option options[] = {
	{"message-size", 'm', "MIN:MAX", 0,
	 "sizes in bytes: MIN and its doubles up to MAX, or one size; K, M, G may follow a number",
	 0},
	{"iterations", 'i', "N", 0, "timed iterations per size and mode, over all rounds", 0},
	{"warmup", 'x', "N", 0, "iterations before each timed slice", 0},
	{"mode", KEY_MODE, "LIST", 0, "modes to run, separated by commas", 0},
	{"rounds", KEY_ROUNDS, "N", 0,
	 "rounds; every round runs one slice of each mode, the median of the rounds is reported",
	 0},
	{"seconds", KEY_SECONDS, "N", 0, "st_idle: seconds that each share is measured for", 0},
	{"check", KEY_CHECK, NULL, 0, "first verify every mode's payloads, in a pass of its own",
	 0},
	{"stream", KEY_STREAM, "KIND", 0, "host (default) or cuda", 0},
	{"buffer", KEY_BUFFER, "KIND", 0,
	 "where the messages are: host (default); with CUDA streams also pinned, managed, device",
	 0},
	{"format", KEY_FORMAT, "FORMAT", 0, "table (default), csv or json", 0},
	{NULL, 0, NULL, 0, NULL, 0}};

/* A size with its suffix; *end is where it stopped. -1: not one. */
static long long parse_size(const char *text, char **end)
{
	long long v;

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	v = strtoll(text, end, 10);
	if (errno != 0 || v > (long long)BENCH_BYTES_MAX)
		return -1;
	switch (**end) {
	case 'k':
	case 'K':
		v <<= 10;
		(*end)++;
		break;
	case 'm':
	case 'M':
		v <<= 20;
		(*end)++;
		break;
	case 'g':
	case 'G':
		v <<= 30;
		(*end)++;
		break;
	default:
		break;
	}
	return v > (long long)BENCH_BYTES_MAX ? -1 : v;
}

static void parse_sizes(struct bench *b, const char *text, struct argp_state *state)
{
	char *end = NULL;
	long long min = parse_size(text, &end), max = min;

	if (min >= 0 && *end == ':')
		max = parse_size(end + 1, &end);
	if (min < 0 || max < 0 || *end != '\0' || min > max)
		argp_error(state,
			   "-m \"%s\": must be MIN:MAX or one size, from 0 to %zu bytes, MIN not "
			   "above MAX",
			   text, BENCH_BYTES_MAX);
	b->min_bytes = (size_t)min;
	b->max_bytes = (size_t)max;
}

static long parse_count(const char *name, const char *text, long min, long max,
			struct argp_state *state)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || v < min || v > max)
		argp_error(state, "%s \"%s\": must be a whole number from %ld to %ld", name, text,
			   min, max);
	return v;
}

static void list_modes(const struct bench *b, char *text, size_t bytes)
{
	size_t n = 0;

	text[0] = '\0';
	for (int i = 0; i < b->spec->mode_count && n < bytes; i++)
		n += (size_t)snprintf(text + n, bytes - n, "%s%s", i ? ", " : "",
				      b->spec->modes[i].name);
}

static void parse_modes(struct bench *b, const char *text, struct argp_state *state)
{
	char copy[128], known[128];
	char *save = NULL;

	if (strlen(text) >= sizeof(copy))
		argp_error(state, "--mode \"%s\": too long", text);
	snprintf(copy, sizeof(copy), "%s", text);
	list_modes(b, known, sizeof(known));
	b->modes = 0;
	b->modes_are_default = 0;
	for (char *word = strtok_r(copy, ",| ", &save); word != NULL;
	     word = strtok_r(NULL, ",| ", &save)) {
		int i;

		for (i = 0; i < b->spec->mode_count; i++) {
			if (strcmp(b->spec->modes[i].name, word) == 0)
				break;
		}
		if (i == b->spec->mode_count)
			argp_error(state, "--mode \"%s\": %s has the modes %s", word, b->spec->name,
				   known);
		b->modes |= 1u << i;
	}
	if (b->modes == 0)
		argp_error(state, "--mode \"%s\": names no mode; there are %s", text, known);
}

static void parse_format(struct bench *b, const char *text, struct argp_state *state)
{
	if (strcmp(text, "table") == 0)
		b->format = BENCH_TABLE;
	else if (strcmp(text, "csv") == 0)
		b->format = BENCH_CSV;
	else if (strcmp(text, "json") == 0)
		b->format = BENCH_JSON;
	else
		argp_error(state, "--format \"%s\": must be table, csv or json", text);
}

static void parse_stream(struct bench *b, const char *text, struct argp_state *state)
{
	b->is_cuda = strcmp(text, "cuda") == 0;
	if (!b->is_cuda && strcmp(text, "host") != 0)
		argp_error(state, "--stream \"%s\": must be host or cuda", text);
}

static void parse_buffer(struct bench *b, const char *text, struct argp_state *state)
{
	unsigned i = 0;

	while (i < BENCH_BUFFERS && strcmp(text, bench_buffer_names[i]) != 0)
		i++;
	if (i == BENCH_BUFFERS)
		argp_error(state, "--buffer \"%s\": must be host, pinned, managed or device", text);
	b->buffer = (enum bench_buffer)i;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct bench *b = state->input;

	switch (key) {
	case 'm':
		parse_sizes(b, arg, state);
		return 0;
	case 'i':
		b->iterations = parse_count("-i", arg, 1, 1000000000, state);
		return 0;
	case 'x':
		b->warm = parse_count("-x", arg, 0, 1000000000, state);
		return 0;
	case KEY_MODE:
		parse_modes(b, arg, state);
		return 0;
	case KEY_ROUNDS:
		b->rounds = parse_count("--rounds", arg, 1, BENCH_ROUNDS_MAX, state);
		return 0;
	case KEY_SECONDS:
		b->seconds = (double)parse_count("--seconds", arg, 1, 3600, state);
		return 0;
	case KEY_CHECK:
		b->is_check = 1;
		return 0;
	case KEY_FORMAT:
		parse_format(b, arg, state);
		return 0;
	case KEY_STREAM:
		parse_stream(b, arg, state);
		return 0;
	case KEY_BUFFER:
		parse_buffer(b, arg, state);
		return 0;
	case ARGP_KEY_END:
		if (b->buffer != BENCH_HOST && !b->is_cuda)
			argp_error(
				state,
				"--buffer: host streams know host memory only; try --stream cuda");
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument \"%s\"", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void show_version(FILE *stream, struct argp_state *state)
{
	(void)state;
	fprintf(stream, "stmpi %s\n", stmpi_version());
}

/* Before MPI_Init, so that --help works without mpirun; only rank 0 should be heard. */
static void mute_others(void)
{
	const char *rank = getenv("PMI_RANK");
	int null;

	if (rank == NULL || strcmp(rank, "0") == 0)
		return;
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null < 0)
		return;
	fflush(NULL);
	dup2(null, STDERR_FILENO);
	dup2(null, STDOUT_FILENO);
	close(null);
}

void bench_opts(struct bench *b, int argc, char **argv)
{
	char doc[512], modes[128];
	struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
	int saved[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};

	list_modes(b, modes, sizeof(modes));
	snprintf(doc, sizeof(doc),
		 "%s\vModes: %s. Run it on two ranks: stmpirun -n 2 -bind-to core %s", b->spec->doc,
		 modes, b->spec->name);
	argp_program_version_hook = show_version;
	argp_err_exit_status = 2;
	mute_others();
	argp_parse(&argp, argc, argv, 0, NULL, b);
	for (int i = 0; i < 2; i++) {
		if (saved[i] < 0)
			continue;
		fflush(i == 0 ? stdout : stderr);
		dup2(saved[i], i == 0 ? STDOUT_FILENO : STDERR_FILENO);
		close(saved[i]);
	}
}
