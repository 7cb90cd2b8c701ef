/* SPDX-License-Identifier: BSD-3-Clause */
/* stmpi_info.c: what this build and machine can do, and every parameter. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "net/net.h"
#include "net/ofi/ofi.h"
#include "stmpi.h"
#include "stream/stream.h"
#include "util/error.h"
#include "util/params.h"
#include "util/topo.h"

enum {
	SHOW_BUILD = 1,
	SHOW_BACKENDS = 2,
	SHOW_PROVIDERS = 4,
	SHOW_PARAMETERS = 8,
	SHOW_TOPOLOGY = 16
};

static const struct argp_option options[] = {
	{"build", 'b', NULL, 0, "version and build", 0},
	{"backends", 's', NULL, 0, "kinds of streams and networks, and why one is off", 0},
	{"providers", 'l', NULL, 0, "libfabric's providers, the chosen one, and its triggers", 0},
	{"parameters", 'p', NULL, 0, "every parameter: value, default, type, meaning", 0},
	{"topology", 't', NULL, 0, "where the progress thread and the network device are", 0},
	{NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const struct {
		int key;
		unsigned int show;
	} keys[] = {{'b', SHOW_BUILD},
		    {'s', SHOW_BACKENDS},
		    {'l', SHOW_PROVIDERS},
		    {'p', SHOW_PARAMETERS},
		    {'t', SHOW_TOPOLOGY}};
	unsigned int *show = state->input;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (keys[i].key == key) {
			*show |= keys[i].show;
			return 0;
		}
	}
	if (key == ARGP_KEY_ARG)
		argp_error(state, "unexpected argument: %s", arg);
	return ARGP_ERR_UNKNOWN;
}

static void show_build(void)
{
	printf("stmpi %s\n", stmpi_version());
	printf("  built by        %s\n", STMPI_COMPILER);
	printf("  for             %s (%s)\n", STMPI_MPI_VERSION, STMPI_MPICC);
	printf("  configured with %s\n",
	       STMPI_CONFIGURE_ARGS[0] ? STMPI_CONFIGURE_ARGS : "no arguments");
}

static void show_backends(void)
{
	static const struct stmpi_net_ops *const nets[] = {&stmpi_net_shm_ops, &stmpi_net_ofi_ops};
	char why[512];

	printf("Streams\n");
	for (int i = 0; stmpi_stream_backends[i] != NULL; i++) {
		const struct stmpi_stream_ops *b = stmpi_stream_backends[i];
		int ret = b->probe(why, sizeof(why));

		printf("  %-6s %s  type \"%s\"%s%s\n", b->name, ret == 0 ? "on " : "off",
		       b->type_name, ret == 0 ? "" : ": ", ret == 0 ? "" : why);
	}
	printf("Networks\n");
	for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
		int ret = nets[i]->probe(why, sizeof(why));

		printf("  %-6s %s  %s\n", nets[i]->name, ret == 0 ? "on " : "off",
		       ret != 0 ? why
		       : i == 0 ? "peers on the same node"
				: "peers on other nodes");
	}
}

static void print_line(const char *text, void *arg)
{
	(void)arg;
	printf("  %s\n", text);
}

static void show_providers(void)
{
	char text[256];

	printf("libfabric\n");
	if (stmpi_net_ofi_list(print_line, NULL) < 0) {
		printf("  %s\n", stmpi_error_text());
		return;
	}
	if (stmpi_net_ofi_choose(text, sizeof(text)) != 0) {
		printf("  chosen: none, %s\n", stmpi_error_text());
		return;
	}
	printf("  chosen: %s\n", text);
	printf("Triggers over libfabric (over stmpi-shm: software)\n");
	if (stmpi_net_ofi_triggers(print_line, NULL) != 0)
		printf("  %s\n", stmpi_error_text());
}

static void show_parameters(void)
{
	printf("Parameters (environment variables)\n");
	for (int p = 0; p < STMPI_PARAM_COUNT; p++) {
		const struct stmpi_param_desc *d = stmpi_param_desc((enum stmpi_param)p);
		const char *value = stmpi_param_text((enum stmpi_param)p);

		printf("  %s=%s\n      %s\n      ", d->env, value[0] ? value : "\"\"", d->help);
		if (d->type == STMPI_PARAM_INT) {
			printf("whole number from %lld to %lld", (long long)d->min,
			       (long long)d->max);
		} else if (d->type == STMPI_PARAM_STRING) {
			printf("text");
		} else {
			printf("one of");
			for (int i = 0; d->choices[i] != NULL; i++)
				printf(" %s", d->choices[i]);
		}
		printf("; default %s%s\n", d->fallback[0] ? d->fallback : "empty",
		       d->is_shared ? "; the same on all ranks" : "");
	}
	if (stmpi_params_check() != 0)
		printf("  error: %s\n", stmpi_error_text());
}

static void show_topology(void)
{
	char text[256];

	stmpi_topo_describe(text, sizeof(text));
	printf("Topology\n  %s\n", text);
	if (stmpi_net_ofi_choose(text, sizeof(text)) == 0)
		printf("  network device: %s\n", text);
	else
		printf("  network device: none, %s\n", stmpi_error_text());
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		options,
		parse,
		NULL,
		"Show what this stmpi and this machine can do; without options: everything.",
		NULL,
		NULL,
		NULL};
	unsigned int show = 0;

	argp_program_version = "stmpi_info (stmpi) " PACKAGE_VERSION;
	if (argp_parse(&argp, argc, argv, 0, NULL, &show) != 0)
		return 2;
	if (show == 0)
		show = ~0u;
	if (show & SHOW_BUILD)
		show_build();
	if (show & SHOW_BACKENDS)
		show_backends();
	if (show & SHOW_PROVIDERS)
		show_providers();
	if (show & SHOW_TOPOLOGY)
		show_topology();
	if (show & SHOW_PARAMETERS)
		show_parameters();
	return 0;
}
