/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/params.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/log.h"

extern char **environ;

static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const stream_backends[] = {"auto", "host", "cuda", NULL};
static const char *const cuda_waits[] = {"auto", "memop", "kernel", "hostfn", NULL};
static const char *const net_backends[] = {"auto", "shm", "ofi", NULL};
static const char *const triggers[] = {"auto", "deferred", "software", NULL};
static const char *const progress[] = {"adaptive", "spin", "none", NULL};
static const char *const cma[] = {"auto", "off", NULL};
static const char *const on_off[] = {"off", "on", NULL};

#define CHOICE(list) STMPI_PARAM_CHOICE, .choices = (list)
#define INT(lo, hi)  STMPI_PARAM_INT, .min = (lo), .max = (hi)
#define STRING	     STMPI_PARAM_STRING

static const struct stmpi_param_desc table[STMPI_PARAM_COUNT] = {
	[STMPI_PARAM_LOG_LEVEL] = {"STMPI_LOG_LEVEL", CHOICE(log_levels), .fallback = "warn",
				   .help = "what to print on stderr"},
	[STMPI_PARAM_STREAM_BACKEND] =
		{"STMPI_STREAM_BACKEND", CHOICE(stream_backends), .fallback = "auto",
		 .help = "the only kind of stream to accept; auto: every kind of this build"},
	[STMPI_PARAM_CUDA_WAIT] =
		{"STMPI_CUDA_WAIT", CHOICE(cuda_waits), .fallback = "auto",
		 .help = "how a CUDA stream waits for messages: its own memory operations (memop), "
			 "a kernel that polls (kernel), host functions (hostfn); auto: the first "
			 "that "
			 "the device has"},
	[STMPI_PARAM_NET_BACKEND] =
		{"STMPI_NET_BACKEND", CHOICE(net_backends), .fallback = "auto", .is_shared = 1,
		 .help = "rail for all peers; auto: shm on the same node, ofi between nodes"},
	[STMPI_PARAM_OFI_PROVIDER] =
		{"STMPI_OFI_PROVIDER", STRING, .fallback = "", .is_shared = 1,
		 .help = "libfabric provider for all peers, such as tcp;ofi_rxm, sockets, shm; "
			 "empty: the best one, between nodes only"},
	[STMPI_PARAM_OFI_DOMAIN] =
		{"STMPI_OFI_DOMAIN", STRING, .fallback = "",
		 .help = "libfabric domain (network device); empty: the closest one"},
	[STMPI_PARAM_TRIGGER] =
		{"STMPI_TRIGGER", CHOICE(triggers), .fallback = "auto", .is_shared = 1,
		 .help = "what fires an enqueued send: the network itself (deferred: "
			 "sockets, cxi) or the library (software); auto: deferred "
			 "where the provider can"},
	[STMPI_PARAM_TRIGGER_CREDITS] =
		{"STMPI_TRIGGER_CREDITS", INT(-1, 2048), .fallback = "-1",
		 .help = "sends that this process may have armed in the network at once; more wait "
			 "in order; at least 1; -1: its share of what the provider has (500 for a "
			 "node)"},
	[STMPI_PARAM_PROGRESS] =
		{"STMPI_PROGRESS", CHOICE(progress), .fallback = "adaptive",
		 .help = "progress thread: adaptive (spin briefly, yield, sleep), spin (a core of "
			 "its own), none (only waiting calls and host streams drive; some "
			 "providers, such as "
			 "sockets, need more)"},
	[STMPI_PARAM_PROGRESS_CPU] =
		{"STMPI_PROGRESS_CPU", INT(-1, 65535), .fallback = "-1",
		 .help = "core of the progress thread; -1: one that the caller does not use"},
	[STMPI_PARAM_EAGER_MAX] = {"STMPI_EAGER_MAX", INT(-1, 1 << 20), .fallback = "-1",
				   .is_shared = 1,
				   .help = "largest message, in bytes, that is sent at once; -1: "
					   "the rail's own limit"},
	[STMPI_PARAM_EAGER_CREDITS] =
		{"STMPI_EAGER_CREDITS", INT(1, 30000), .fallback = "1024", .is_shared = 1,
		 .help = "messages sent at once to one peer that it has not received yet; "
			 "more wait at the sender"},
	[STMPI_PARAM_SHM_CMA] = {"STMPI_SHM_CMA", CHOICE(cma), .fallback = "auto",
				 .help = "read large messages of the same node by process_vm_readv "
					 "where it is allowed"},
	[STMPI_PARAM_NODE] =
		{"STMPI_NODE", STRING, .fallback = "",
		 .help = "name of this node; ranks with another name are reached by network; "
			 "empty: found out"},
	[STMPI_PARAM_WATCHDOG] =
		{"STMPI_WATCHDOG", INT(0, 1000000), .fallback = "1800",
		 .help = "seconds without progress after which pending operations end with an "
			 "error and are listed; 0: never"},
	[STMPI_PARAM_STATS] = {"STMPI_STATS", CHOICE(on_off), .fallback = "off",
			       .help = "print counters at MPI_Finalize"},
	[STMPI_PARAM_DUMP_SIGNAL] =
		{"STMPI_DUMP_SIGNAL", INT(0, 64), .fallback = "0",
		 .help = "number of a signal that makes the library list its pending "
			 "operations on stderr; 0: none"},
};

/* Written once under `once` (or by stmpi_params_reload, which only tests call), read by all. */
static struct {
	const char *text;
	int64_t number;
	int is_bad;
} values[STMPI_PARAM_COUNT];

static pthread_once_t once = PTHREAD_ONCE_INIT;

static int parse(const struct stmpi_param_desc *d, const char *text, int64_t *number)
{
	char *end;
	int64_t v;

	*number = 0;
	if (d->type == STMPI_PARAM_STRING)
		return 0;
	if (d->type == STMPI_PARAM_CHOICE) {
		for (v = 0; d->choices[v] != NULL; v++) {
			if (strcmp(d->choices[v], text) == 0) {
				*number = v;
				return 0;
			}
		}
		/* A switch also takes the usual numbers. */
		if (d->choices == on_off && (strcmp(text, "0") == 0 || strcmp(text, "1") == 0)) {
			*number = text[0] - '0';
			return 0;
		}
		return -1;
	}
	errno = 0;
	v = strtoll(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || v < d->min || v > d->max)
		return -1;
	*number = v;
	return 0;
}

static void load(void)
{
	for (int p = 0; p < STMPI_PARAM_COUNT; p++) {
		const char *env = getenv(table[p].env);

		values[p].is_bad = env != NULL && parse(&table[p], env, &values[p].number) != 0;
		values[p].text = env != NULL ? env : table[p].fallback;
		if (env == NULL || values[p].is_bad)
			parse(&table[p], table[p].fallback, &values[p].number);
	}
}

const char *stmpi_params_foreign(const char *name)
{
	return getenv(name);
}

void stmpi_params_reload(void)
{
	pthread_once(&once, load);
	load();
}

const struct stmpi_param_desc *stmpi_param_desc(enum stmpi_param p)
{
	return &table[p];
}

const char *stmpi_param_text(enum stmpi_param p)
{
	pthread_once(&once, load);
	return values[p].text;
}

int64_t stmpi_param_int(enum stmpi_param p)
{
	pthread_once(&once, load);
	return values[p].number;
}

int64_t stmpi_param_choice(enum stmpi_param p)
{
	return stmpi_param_int(p);
}

const char *stmpi_param_string(enum stmpi_param p)
{
	return stmpi_param_text(p);
}

static int bad_value(enum stmpi_param p)
{
	const struct stmpi_param_desc *d = &table[p];
	char list[256] = "";
	size_t n = 0;

	if (p == STMPI_PARAM_TRIGGER_CREDITS)
		return stmpi_error_set(STMPI_ECONFIG, "%s=\"%s\": must be -1 or from 1 to %lld",
				       d->env, values[p].text, (long long)d->max);
	if (d->type == STMPI_PARAM_INT)
		return stmpi_error_set(
			STMPI_ECONFIG, "%s=\"%s\": must be a whole number from %lld to %lld",
			d->env, values[p].text, (long long)d->min, (long long)d->max);
	for (int i = 0; d->choices[i] != NULL && n < sizeof(list); i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "",
				      d->choices[i]);
	return stmpi_error_set(STMPI_ECONFIG, "%s=\"%s\": must be one of %s", d->env,
			       values[p].text, list);
}

static void warn_unknown(void)
{
	for (char **e = environ; *e != NULL; e++) {
		const char *end = strchr(*e, '=');
		int known = 0;

		if (end == NULL || strncmp(*e, "STMPI_", 6) != 0)
			continue;
		for (int p = 0; p < STMPI_PARAM_COUNT && !known; p++)
			known = strlen(table[p].env) == (size_t)(end - *e) &&
				strncmp(table[p].env, *e, (size_t)(end - *e)) == 0;
		/* Names with a second underscore prefix of the tests' own are theirs. */
		if (!known && strncmp(*e, "STMPI_TEST_", 11) != 0)
			stmpi_log(STMPI_LOG_WARN,
				  "unknown parameter %.*s is ignored (stmpi_info --parameters "
				  "lists them)",
				  (int)(end - *e), *e);
	}
}

int stmpi_params_check(void)
{
	pthread_once(&once, load);
	for (int p = 0; p < STMPI_PARAM_COUNT; p++) {
		if (values[p].is_bad || (p == STMPI_PARAM_TRIGGER_CREDITS && values[p].number == 0))
			return bad_value((enum stmpi_param)p);
	}
	warn_unknown();
	return 0;
}

int stmpi_params_shared_text(char *text, size_t bytes)
{
	int n = 0;

	pthread_once(&once, load);
	for (int p = 0; p < STMPI_PARAM_COUNT; p++) {
		size_t used = (size_t)n < bytes ? (size_t)n : bytes;

		if (table[p].is_shared)
			n += snprintf(text + used, bytes - used, "%s%s=%s", n ? " " : "",
				      table[p].env, values[p].text);
	}
	return n;
}
