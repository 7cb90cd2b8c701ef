/* SPDX-License-Identifier: BSD-3-Clause */
/* link.h: what the simulated libcudart asks of the simulated libcuda beside the driver API: one
 * count and one place of failures for both. */
#ifndef CUDASIM_LINK_H
#define CUDASIM_LINK_H

#include <stdbool.h>
#include <stddef.h>

struct cudasim_counter {
	const char *name;
	unsigned long count;
	bool is_listed;
	struct cudasim_counter *next;
};

/* Counts a call of the runtime; 0, or the error that it must return. Each is followed by a leave.
 */
int cudasim_runtime_enter(struct cudasim_counter *c);
void cudasim_runtime_leave(void);
/* For nvcc's registration: a module of which only names are known, a function or variable of it. */
int cudasim_module_opaque(void **module);
int cudasim_module_variable(void *module, const char *name, size_t bytes, void **address);
void cudasim_say(const char *text);
/* A call, or a way to use one, that is not simulated: says so; the error that the call must return.
 */
int cudasim_missing(const char *name);

/* In a function that returns a CUresult: return call's error, if it is one. */
#define TRY(call)                                                                                  \
	do {                                                                                       \
		CUresult try_result = (call);                                                      \
		if (try_result != CUDA_SUCCESS)                                                    \
			return try_result;                                                         \
	} while (0)

#endif
