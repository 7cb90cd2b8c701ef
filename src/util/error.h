/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error.h: the text that goes with an error code on its way up.
 * The function that decides an error calls stmpi_error_set and returns its code; callers pass the
 * code on. The MPI layer reads the text when it reports. One buffer per thread.
 */
#ifndef STMPI_UTIL_ERROR_H
#define STMPI_UTIL_ERROR_H

#include "stmpi.h"
#include "util/compiler.h"

#define STMPI_ERROR_TEXT_BYTES 512

/* Keep a text for this thread and return -code: `return stmpi_error_set(STMPI_EINVAL, "...", ...)`.
 */
int stmpi_error_set(int code, const char *format, ...) stmpi_printf_like(2, 3);

/* The newest text of this thread; "" when none. Valid until the next stmpi_error_set of the thread.
 */
const char *stmpi_error_text(void);

#endif
