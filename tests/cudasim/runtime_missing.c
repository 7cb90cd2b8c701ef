/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime_missing.c: what cuda_runtime_api.h has and the simulator lacks: each says so and fails.
 * Without that header, for one line to declare a function whatever its type. */
#include "link.h"

#define MISSING(name)                                                                              \
	__attribute__((visibility("default"))) int name(void);                                     \
	int name(void)                                                                             \
	{                                                                                          \
		return cudasim_missing(#name);                                                     \
	}
#include "missing_runtime.h"
