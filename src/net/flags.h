/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flags.h: the process's arena of completion words.
 *
 * A completion word is 64 bits and only grows. Words live in one memory file that peers of the same
 * node map and network cards register, so that a peer can write them. The arena is reserved at once
 * and touched as it is used; it never moves.
 */
#ifndef STMPI_NET_FLAGS_H
#define STMPI_NET_FLAGS_H

#include <stddef.h>
#include <stdint.h>

#define STMPI_FLAGS_MAX (1u << 24) /* words; an index fits in 24 bits */

/* One per process, owned by the engine. Words are handed out under the caller's lock, never
 * returned. */
struct stmpi_flags {
	uint64_t *words; /* STMPI_FLAGS_MAX of them, page aligned, initially 0 */
	size_t bytes;
	int fd; /* the memory file, close-on-exec */
	uint32_t used;
};

/* 0 or -STMPI_ENOMEM (text set). */
int stmpi_flags_init(struct stmpi_flags *flags);
void stmpi_flags_fini(struct stmpi_flags *flags);

/* Hand out count consecutive words; *first is the index. 0 or -STMPI_ENOMEM. */
int stmpi_flags_alloc(struct stmpi_flags *flags, uint32_t count, uint32_t *first);

#endif
