/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_out.c: tables in the manner of OSU's benchmarks, CSV, JSON. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define BYTES_WIDTH 10
#define VALUE_WIDTH 18

static int is_chosen(const struct bench *b, int mode)
{
	return (b->modes >> mode) & 1;
}

/* A name from the environment may hold anything. */
static void put_json_text(const char *text)
{
	putchar('"');
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void put_json_number(double v, int digits)
{
	if (isfinite(v))
		printf("%.*f", digits, v);
	else
		printf("null");
}

static const char *stream_name(const struct bench *b)
{
	return b->is_cuda ? "cuda" : "host";
}

static void json_head(const struct bench *b)
{
	printf("{\"benchmark\":\"%s\",\"mpi\":", b->spec->name);
	put_json_text(b->mpi_name);
	printf(",\"provider\":");
	put_json_text(b->provider);
	printf(",\"trigger\":");
	put_json_text(b->trigger);
	printf(",\"stream\":\"%s\",\"device\":", stream_name(b));
	put_json_text(b->device);
	printf(",\"buffer\":\"%s\",\"ranks\":2,\"unit\":\"%s\",", bench_buffer_names[b->buffer],
	       b->spec->unit);
}

static void table_head(const struct bench *b)
{
	printf("# stmpi %s %s\n", stmpi_version(), b->spec->title);
	printf("# %s, provider %s, trigger %s, stream %s, buffer %s, 2 ranks\n", b->mpi_name,
	       b->provider, b->trigger, stream_name(b), bench_buffer_names[b->buffer]);
	if (b->is_cuda)
		printf("# %s\n", b->device);
}

static void table_columns(const struct bench *b)
{
	char title[64];

	printf("%-*s", BYTES_WIDTH, "# Size");
	for (int i = 0; i < b->spec->mode_count; i++) {
		if (!is_chosen(b, i))
			continue;
		snprintf(title, sizeof(title), "%s (%s)", b->spec->modes[i].name, b->spec->unit);
		printf("%*s", VALUE_WIDTH, title);
	}
	putchar('\n');
}

static void csv_head(const struct bench *b)
{
	printf("bytes");
	for (int i = 0; i < b->spec->mode_count; i++) {
		if (is_chosen(b, i))
			printf(",%s", b->spec->modes[i].name);
	}
	putchar('\n');
}

void bench_out_head(struct bench *b)
{
	if (b->rank != 0)
		return;
	switch (b->format) {
	case BENCH_TABLE:
		table_head(b);
		table_columns(b);
		break;
	case BENCH_CSV:
		csv_head(b);
		break;
	case BENCH_JSON:
		json_head(b);
		printf("\"rows\":[");
		break;
	}
	fflush(stdout);
}

static void row_start(const struct bench *b, size_t bytes)
{
	switch (b->format) {
	case BENCH_TABLE:
		printf("%-*zu", BYTES_WIDTH, bytes);
		break;
	case BENCH_CSV:
		printf("%zu", bytes);
		break;
	case BENCH_JSON:
		printf("%s\n{\"bytes\":%zu", b->rows > 0 ? "," : "", bytes);
		break;
	}
}

static void row_value(const struct bench *b, int mode, double v)
{
	int digits = b->spec->digits + (b->spec->digits > 0 ? 2 : 0);

	switch (b->format) {
	case BENCH_TABLE:
		if (isfinite(v))
			printf("%*.*f", VALUE_WIDTH, b->spec->digits, v);
		else
			printf("%*s", VALUE_WIDTH, "-");
		break;
	case BENCH_CSV:
		putchar(',');
		if (isfinite(v))
			printf("%.*f", digits, v);
		break;
	case BENCH_JSON:
		printf(",\"%s\":", b->spec->modes[mode].name);
		put_json_number(v, digits);
		break;
	}
}

void bench_out_row(struct bench *b, size_t bytes, const double *values)
{
	if (b->rank != 0)
		return;
	bench_out_progress(b, "%s", "");
	row_start(b, bytes);
	for (int i = 0; i < b->spec->mode_count; i++) {
		if (is_chosen(b, i))
			row_value(b, i, values[i]);
	}
	if (b->format == BENCH_JSON)
		putchar('}');
	else
		putchar('\n');
	b->rows++;
	fflush(stdout);
}

void bench_out_tail(struct bench *b)
{
	if (b->rank == 0 && b->format == BENCH_JSON)
		printf("]}\n");
	fflush(stdout);
}

void bench_out_result(struct bench *b, const char *const *keys, const double *values, int n)
{
	if (b->rank != 0)
		return;
	bench_out_progress(b, "%s", "");
	if (b->format == BENCH_TABLE) {
		table_head(b);
		for (int i = 0; i < n; i++)
			printf("%-24s%*.2f\n", keys[i], VALUE_WIDTH, values[i]);
	} else if (b->format == BENCH_CSV) {
		for (int i = 0; i < n; i++)
			printf("%s%s", i ? "," : "", keys[i]);
		putchar('\n');
		for (int i = 0; i < n; i++)
			printf("%s%.4f", i ? "," : "", values[i]);
		putchar('\n');
	} else {
		json_head(b);
		printf("\"result\":{");
		for (int i = 0; i < n; i++) {
			printf("%s\"%s\":", i ? "," : "", keys[i]);
			put_json_number(values[i], 4);
		}
		printf("}}\n");
	}
	fflush(stdout);
}

void bench_out_progress(const struct bench *b, const char *format, ...)
{
	va_list args;

	if (b->rank != 0 || !isatty(STDERR_FILENO))
		return;
	fputs("\r\033[K", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fflush(stderr);
}
