/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "util/params.h"

static const char *const names[] = {"error", "warning", "info", "debug"};

void stmpi_log(enum stmpi_log_level level, const char *format, ...)
{
	char line[1024];
	va_list args;
	int n;

	if ((int64_t)level > stmpi_param_choice(STMPI_PARAM_LOG_LEVEL))
		return;
	n = snprintf(line, sizeof(line), "stmpi[%d] %s: ", (int)getpid(), names[level]);
	va_start(args, format);
	vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
	va_end(args);
	/* One write per message, so that lines of several ranks do not mix. */
	fprintf(stderr, "%s\n", line);
}
