/* SPDX-License-Identifier: BSD-3-Clause */
/* suite.h: what the tests by the library Check have in common. */
#ifndef STMPI_TESTS_SUITE_H
#define STMPI_TESTS_SUITE_H

#include <check.h>
#include <stdio.h>
#include <unistd.h>

#include "util/error.h"

/* A condition in a forked process, which says who it is and ends. */
#define NEED_OF(who, number, cond)                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, who " %d: %s:%d: %s (last error: %s)\n", number, __FILE__, \
				__LINE__, #cond, stmpi_error_text());                              \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* The exit status of a test program. */
static inline int run_suite(Suite *s)
{
	SRunner *r = srunner_create(s);
	int failed;

	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

#endif
