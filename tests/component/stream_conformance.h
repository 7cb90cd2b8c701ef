/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_conformance.h: what every stream backend must do, on a stream that the test makes by the
 * backend's own calls and on its table of operations.
 */
#ifndef STMPI_TESTS_STREAM_CONFORMANCE_H
#define STMPI_TESTS_STREAM_CONFORMANCE_H

#include <check.h>

#include "stream/stream.h"

/* The user's side of a backend. All return 0 on success. */
struct stream_under_test {
	const struct stmpi_stream_ops *ops;
	int (*create)(void *handle); /* writes ops->handle_bytes */
	int (*destroy)(const void *handle);
	int (*launch)(const void *handle, void (*fn)(void *arg), void *arg);
	int (*wait)(const void *handle, uint64_t *word, uint64_t value);
	int (*synchronize)(const void *handle);
	int null_is_a_stream; /* a handle of zeros is one that the backend itself has */
};

/* Add the tests to a suite; sut is constant. */
void stream_conformance_add(Suite *suite, const struct stream_under_test *sut);

#endif
