/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * params.h: every parameter of the library, in one table: environment name, type, default, help.
 * getenv appears in params.c only. Values are read once, at the first use of any of them.
 */
#ifndef STMPI_UTIL_PARAMS_H
#define STMPI_UTIL_PARAMS_H

#include <stddef.h>
#include <stdint.h>

enum stmpi_param {
	STMPI_PARAM_LOG_LEVEL,
	STMPI_PARAM_STREAM_BACKEND,
	STMPI_PARAM_CUDA_WAIT,
	STMPI_PARAM_NET_BACKEND,
	STMPI_PARAM_OFI_PROVIDER,
	STMPI_PARAM_OFI_DOMAIN,
	STMPI_PARAM_TRIGGER,
	STMPI_PARAM_TRIGGER_CREDITS,
	STMPI_PARAM_PROGRESS,
	STMPI_PARAM_PROGRESS_CPU,
	STMPI_PARAM_EAGER_MAX,
	STMPI_PARAM_EAGER_CREDITS,
	STMPI_PARAM_SHM_CMA,
	STMPI_PARAM_NODE,
	STMPI_PARAM_WATCHDOG,
	STMPI_PARAM_STATS,
	STMPI_PARAM_DUMP_SIGNAL,
	STMPI_PARAM_COUNT
};

enum stmpi_param_type {
	STMPI_PARAM_INT,
	STMPI_PARAM_CHOICE,
	STMPI_PARAM_STRING
};

/* One row of the table; constant. */
struct stmpi_param_desc {
	const char *env;
	enum stmpi_param_type type;
	const char *fallback;	    /* the default, as text */
	const char *const *choices; /* CHOICE: NULL-terminated; else NULL */
	int64_t min, max;	    /* INT: inclusive range */
	int is_shared;		    /* 1: all ranks of a communicator must agree on it */
	const char *help;
};

/* STMPI_PARAM_CUDA_WAIT */
enum {
	STMPI_CUDA_WAIT_AUTO,
	STMPI_CUDA_WAIT_MEMOP,
	STMPI_CUDA_WAIT_KERNEL,
	STMPI_CUDA_WAIT_HOSTFN
};
/* STMPI_PARAM_NET_BACKEND */
enum {
	STMPI_NET_AUTO,
	STMPI_NET_SHM,
	STMPI_NET_OFI
};
/* STMPI_PARAM_TRIGGER */
enum {
	STMPI_TRIGGER_AUTO,
	STMPI_TRIGGER_DEFERRED,
	STMPI_TRIGGER_SOFTWARE
};
/* STMPI_PARAM_PROGRESS */
enum {
	STMPI_PROGRESS_ADAPTIVE,
	STMPI_PROGRESS_SPIN,
	STMPI_PROGRESS_NONE
};
/* STMPI_PARAM_SHM_CMA */
enum {
	STMPI_CMA_AUTO,
	STMPI_CMA_OFF
};

const struct stmpi_param_desc *stmpi_param_desc(enum stmpi_param p);

/* Current value as text (the default, when the environment does not set it). */
const char *stmpi_param_text(enum stmpi_param p);

/* Typed values. A value that could not be read counts as its default; stmpi_params_check tells. */
int64_t stmpi_param_int(enum stmpi_param p);
int64_t stmpi_param_choice(enum stmpi_param p); /* index into choices */
const char *stmpi_param_string(enum stmpi_param p);

/*
 * Check every parameter that the environment sets. Returns 0, or -STMPI_ECONFIG with a text
 * (error.h) that names the parameter, its value and what it may be. An unknown STMPI_ name is a
 * warning.
 */
int stmpi_params_check(void);

/* "NAME=value ..." of the parameters that ranks must agree on. Returns what snprintf would. */
int stmpi_params_shared_text(char *text, size_t bytes);

/* A variable of somebody else's, such as FI_PROVIDER, for a message to name; NULL when not set. */
const char *stmpi_params_foreign(const char *name);

/* Read the environment again. For tests only: nothing else may be using parameters. */
void stmpi_params_reload(void);

#endif
