/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "config.h"

static _Thread_local char text[STMPI_ERROR_TEXT_BYTES];

static const char *const strings[] = {
	[STMPI_SUCCESS] = "success",
	[STMPI_EINVAL] = "invalid argument",
	[STMPI_ENOMEM] = "out of memory, threads or file descriptors",
	[STMPI_EAGAIN] = "resource is full for now, try again",
	[STMPI_ENOTSUP] = "not supported",
	[STMPI_ENODEV] = "no such backend, provider or device",
	[STMPI_ETRUNCATE] = "message longer than the receive buffer",
	[STMPI_EPEER] = "peer process died or cannot be reached",
	[STMPI_ETIMEDOUT] = "ended by the watchdog",
	[STMPI_ECANCELED] = "cancelled because an earlier operation failed",
	[STMPI_ECONFIG] = "impossible or disagreeing configuration",
	[STMPI_ENET] = "network error",
	[STMPI_ENOTREADY] = "event not recorded or not reached",
};

int stmpi_error_set(int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return -code;
}

const char *stmpi_error_text(void)
{
	return text;
}

const char *stmpi_strerror(int code)
{
	/* Negated as unsigned: INT_MIN is no code, and must not overflow. */
	unsigned int n = code < 0 ? 0u - (unsigned int)code : (unsigned int)code;

	return n < stmpi_array_len(strings) ? strings[n] : "unknown error";
}

const char *stmpi_version(void)
{
	return PACKAGE_VERSION;
}
