/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cudasim_twin.h: for libraries of twins (simrun --twins LIB): the C functions that run on the
 * simulated CUDA device in place of kernels.
 *
 * The twin of a kernel is named for it: the function twin_NAME, and beside it the sizes of the
 * kernel's arguments, twin_NAME_sizes, for the simulator cannot read them from the device code.
 * NAME is the name in the device code: for extern "C" kernels, and for those of modules, the plain
 * one; for others the mangled one (_Z5saxpyifPfS_), or, if no twin has that name, the function's
 * own (saxpy). CUDASIM_TWIN declares both.
 *
 * A twin is called once per launch, for the whole grid. It must reach memory through launch->at
 * alone.
 */
#ifndef CUDASIM_TWIN_H
#define CUDASIM_TWIN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cudasim_launch {
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	/* Where the CPU finds what a pointer of the device points to. If the device may not touch
	 * it, the context is lost and the call does not return: the kernel ends there. */
	void *(*at)(const struct cudasim_launch *launch, const void *device_pointer);
	/* For a loop that waits for a word: pauses; 0 when the loop must end, for the device is
	 * lost. */
	int (*pause)(const struct cudasim_launch *launch);
	void *internal;
};

/* arguments[i] points to the ith argument. */
typedef void cudasim_twin_fn(const struct cudasim_launch *launch, void *const *arguments);

/* CUDASIM_TWIN(saxpy, sizeof(int), sizeof(float), sizeof(float *)) { ... launch ... arguments ... }
 */
#define CUDASIM_TWIN(name, ...)                                                                    \
	extern const size_t twin_##name##_sizes[];                                                 \
	const size_t twin_##name##_sizes[] = {__VA_ARGS__ __VA_OPT__(, ) 0};                       \
	void twin_##name(const struct cudasim_launch *launch, void *const *arguments);             \
	void twin_##name(const struct cudasim_launch *launch, void *const *arguments)

#ifdef __cplusplus
}
#endif

#endif
