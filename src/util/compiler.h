/* SPDX-License-Identifier: BSD-3-Clause */
/* compiler.h: the few GNU attributes and macros that all layers use. Must know nothing of them. */
#ifndef STMPI_UTIL_COMPILER_H
#define STMPI_UTIL_COMPILER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define STMPI_CACHE_LINE		      64
#define STMPI_CACHE_ALIGNED		      __attribute__((aligned(STMPI_CACHE_LINE)))
#define stmpi_likely(x)			      __builtin_expect(!!(x), 1)
#define stmpi_unlikely(x)		      __builtin_expect(!!(x), 0)
#define stmpi_printf_like(f, a)		      __attribute__((format(printf, f, a)))
#define stmpi_array_len(a)		      (sizeof(a) / sizeof((a)[0]))
#define stmpi_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Tell the core that this is a spin loop (x86 PAUSE, arm YIELD). */
static inline void stmpi_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield" ::: "memory");
#endif
}

/* 64-bit words that user code, other processes or devices also touch: plain storage, atomic access.
 */
static inline uint64_t stmpi_word_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE); /* partner: stmpi_word_store */
}

static inline void stmpi_word_store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE); /* partner: stmpi_word_load */
}

/* Has a monotonic 64-bit word reached a value? Right across the wrap of 2^64. */
static inline int stmpi_word_reached(const uint64_t *word, uint64_t value)
{
	return (int64_t)(stmpi_word_load(word) - value) >= 0;
}

#endif
