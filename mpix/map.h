/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * map.h: from an MPI handle to what the library knows of it. Knows nothing of either.
 *
 * Open addressing. Find takes no lock and is hot; insert and remove are serialised by the caller. A
 * key must not be looked up while it is being removed: in MPI's terms, a handle is not used while
 * it is freed.
 */
#ifndef STMPI_MPIX_MAP_H
#define STMPI_MPIX_MAP_H

#include "util/compiler.h"

#define MPIX_MAP_EMPTY	 0u
#define MPIX_MAP_REMOVED UINT64_MAX

struct mpix_map_entry {
	_Atomic uint64_t key;
	void *_Atomic value; /* stored before its key, read after it */
};

struct mpix_map_table {
	struct mpix_map_table *retired; /* smaller tables, kept: a reader may still be in one */
	uint32_t shift;			/* 64 - log2 of the number of entries */
	uint32_t filled;		/* entries that are not empty */
	uint32_t live;			/* entries with a value */
	struct mpix_map_entry entries[];
};

/* Zero-initialise. */
struct mpix_map {
	struct mpix_map_table *_Atomic table;
};

static inline uint32_t mpix_map_slot(uint64_t key, uint32_t shift)
{
	return (uint32_t)((key * 0x9e3779b97f4a7c15u) >> shift);
}

/* The value of a key (any but the two special ones), or NULL. */
static inline void *mpix_map_find(const struct mpix_map *map, uint64_t key)
{
	/* Partner: the release store in mpix_map_insert, of a table that is complete. */
	struct mpix_map_table *t = atomic_load_explicit(&map->table, memory_order_acquire);

	if (t == NULL)
		return NULL;
	for (uint32_t i = mpix_map_slot(key, t->shift);; i++) {
		struct mpix_map_entry *e = &t->entries[i & ((1u << (64 - t->shift)) - 1)];
		/* Partner: the release store of the key in put. */
		uint64_t k = atomic_load_explicit(&e->key, memory_order_acquire);

		if (stmpi_likely(k == key))
			return atomic_load_explicit(&e->value, memory_order_relaxed);
		if (k == MPIX_MAP_EMPTY)
			return NULL;
	}
}

/* Add a key that is not there. 0, or -STMPI_ENOMEM. */
int mpix_map_insert(struct mpix_map *map, uint64_t key, void *value);

/* Take a key out, if it is there. */
void mpix_map_remove(struct mpix_map *map, uint64_t key);

/* Free the memory. No reader may be left. */
void mpix_map_clear(struct mpix_map *map);

#endif
