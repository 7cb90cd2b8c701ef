/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h: messages to stderr, one line each, "stmpi[pid] level: text". Never called on a hot path.
 */
#ifndef STMPI_UTIL_LOG_H
#define STMPI_UTIL_LOG_H

#include "util/compiler.h"

enum stmpi_log_level {
	STMPI_LOG_ERROR,
	STMPI_LOG_WARN,
	STMPI_LOG_INFO,
	STMPI_LOG_DEBUG
};

/* Print when level is at most that of STMPI_LOG_LEVEL (default warn). Any thread; may block on
 * stderr. */
void stmpi_log(enum stmpi_log_level level, const char *format, ...) stmpi_printf_like(2, 3);

#endif
