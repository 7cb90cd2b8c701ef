/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * entry.h: how an entry point of the driver API begins: ENTER counts the call, fails it when it was
 * asked to or when the library, the context or the calling thread is not in a state for it, and
 * takes sim_lock until the function returns.
 */
#ifndef CUDASIM_ENTRY_H
#define CUDASIM_ENTRY_H

#include "link.h"
#include "sim.h"
#include "table.h"

#define ENTRY __attribute__((visibility("default"))) CUresult CUDAAPI

#define ENTER_FOR(name, needs)                                                                     \
	struct entry entry __attribute__((cleanup(sim_leave))) = sim_enter(CALL_##name, needs);    \
	if (entry.error != CUDA_SUCCESS)                                                           \
	return entry.error
#define ENTER(name)	 ENTER_FOR(name, NEEDS_CONTEXT)
#define ENTER_INIT(name) ENTER_FOR(name, NEEDS_INIT)
#define ENTER_BARE(name) ENTER_FOR(name, NEEDS_NOTHING)

/* A call that takes a stream has a twin for programs whose default stream is the thread's own: in
 * both, `call` finds with STREAM(handle) what a handle of 0 means. */
#define PAIR_FOR(name, suffix, needs, params, call)                                                \
	ENTRY name params                                                                          \
	{                                                                                          \
		const CUstream null_stream = CU_STREAM_LEGACY;                                     \
		ENTER_FOR(name, needs);                                                            \
		(void)null_stream;                                                                 \
		return call;                                                                       \
	}                                                                                          \
	ENTRY name##suffix params; /* cuda.h has not all */                                        \
	ENTRY name##suffix params                                                                  \
	{                                                                                          \
		const CUstream null_stream = CU_STREAM_PER_THREAD;                                 \
		ENTER_FOR(name##suffix, needs);                                                    \
		(void)null_stream;                                                                 \
		return call;                                                                       \
	}
#define PAIR(name, suffix, params, call) PAIR_FOR(name, suffix, NEEDS_CONTEXT, params, call)
#define STREAM(handle)			 ((handle) ? (handle) : null_stream)

#endif
