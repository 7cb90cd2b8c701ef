/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c: what simrun was told, as it stands in the environment (CUDASIM_*). simrun has checked
 * it; a program that is run without simrun gets the defaults. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capabilities.h"
#include "sim.h"

struct config sim_config = {
	.seed = 1,
	.queues = 8,
	.devices = 1,
	.capabilities = CAP_ALL,
};

static unsigned long number(const char *name, unsigned long fallback, unsigned long min,
			    unsigned long max)
{
	const char *text = getenv(name);
	char *end;
	unsigned long value;

	if (!text || !*text)
		return fallback;
	value = strtoul(text, &end, 10);
	if (*end || value < min || value > max) {
		sim_say("%s=%s: must be a number from %lu to %lu", name, text, min, max);
		sim_config.is_bad = true;
		return fallback;
	}
	return value;
}

static void mask(char *name)
{
	static const struct {
		const char *name;
		unsigned bit;
	} known[] = {
#define KNOWN(n, b) {n, b},
		CUDASIM_CAPABILITIES(KNOWN)
#undef KNOWN
	};

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(name, known[i].name) == 0) {
			sim_config.capabilities &= ~known[i].bit;
			return;
		}
	sim_say("CUDASIM_MASK: no capability has the name %s", name);
	sim_config.is_bad = true;
}

/* CALL:N or CALL:N:ERROR */
static void fail(char *text)
{
	struct failure f = {.call = text};
	char *colon = strchr(text, ':'), *end;

	if (colon) {
		*colon = '\0';
		f.nth = strtoul(colon + 1, &end, 10);
		if (*end == ':')
			f.error = strtoul(end + 1, &end, 10);
	}
	if (!colon || *end || f.nth == 0) {
		sim_say("CUDASIM_FAIL: %s: must be CALL:N or CALL:N:ERROR", text);
		sim_config.is_bad = true;
		return;
	}
	sim_config.failures = sim_grow(sim_config.failures, sim_config.failure_count, sizeof(f));
	sim_config.failures[sim_config.failure_count++] = f;
}

static void each(const char *name, void (*fn)(char *word))
{
	const char *text = getenv(name);
	char *copy, *rest = NULL;

	if (!text)
		return;
	copy = strdup(text); /* stays: failures point into it */
	if (!copy)
		return;
	for (char *w = strtok_r(copy, " ,", &rest); w; w = strtok_r(NULL, " ,", &rest))
		fn(w);
}

static const char *path(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

static void read_all(void)
{
	sim_config.seed = number("CUDASIM_SEED", 1, 0, -1ul);
	sim_config.delay_us = number("CUDASIM_DELAY_US", 0, 0, 10000000);
	sim_config.queues = number("CUDASIM_QUEUES", 8, 1, QUEUES_MAX);
	sim_config.devices = number("CUDASIM_DEVICES", 1, 0, DEVICES_MAX);
	sim_config.limit_s = number("CUDASIM_LIMIT", 0, 0, 1000000);
	sim_config.counts = path("CUDASIM_COUNTS");
	sim_config.twins = path("CUDASIM_TWINS");
	each("CUDASIM_MASK", mask);
	each("CUDASIM_FAIL", fail);
}

/* At the first call, not when the library is loaded: a test sets the variables in between. */
void config_read(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_all);
}

bool has(enum capability c)
{
	return (sim_config.capabilities & c) == (unsigned)c;
}
