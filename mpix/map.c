/* SPDX-License-Identifier: BSD-3-Clause */
/* map.c: handle map, the cold half. */
#include "map.h"

#include <stdlib.h>

#include "stmpi.h"

#define MIN_BITS 6u

static uint32_t entries_of(const struct mpix_map_table *t)
{
	return 1u << (64 - t->shift);
}

static void put(struct mpix_map_table *t, uint64_t key, void *value)
{
	uint32_t mask = entries_of(t) - 1;
	uint32_t i = mpix_map_slot(key, t->shift) & mask;
	uint64_t k;

	/* Removed entries are reused: nobody looks for what was in them. Only this thread writes
	 * keys. */
	while ((k = atomic_load_explicit(&t->entries[i].key, memory_order_relaxed)) !=
		       MPIX_MAP_EMPTY &&
	       k != MPIX_MAP_REMOVED)
		i = (i + 1) & mask;
	if (k == MPIX_MAP_EMPTY)
		t->filled++;
	t->live++;
	atomic_store_explicit(&t->entries[i].value, value, memory_order_relaxed);
	/* Partner: the acquire load of the key in mpix_map_find. */
	atomic_store_explicit(&t->entries[i].key, key, memory_order_release);
}

static struct mpix_map_table *grow(const struct mpix_map_table *old)
{
	uint32_t bits = MIN_BITS;
	struct mpix_map_table *t;

	if (old != NULL)
		while ((1u << bits) < old->live * 4)
			bits++;
	t = calloc(1, sizeof(*t) + ((size_t)1 << bits) * sizeof(t->entries[0]));
	if (t == NULL)
		return NULL;
	t->shift = 64 - bits;
	for (uint32_t i = 0; old != NULL && i < entries_of(old); i++) {
		uint64_t key = atomic_load_explicit(&old->entries[i].key, memory_order_relaxed);

		if (key != MPIX_MAP_EMPTY && key != MPIX_MAP_REMOVED)
			put(t, key,
			    atomic_load_explicit(&old->entries[i].value, memory_order_relaxed));
	}
	return t;
}

int mpix_map_insert(struct mpix_map *map, uint64_t key, void *value)
{
	struct mpix_map_table *t = atomic_load_explicit(&map->table, memory_order_relaxed);

	if (t == NULL || t->filled * 2 >= entries_of(t)) {
		struct mpix_map_table *bigger = grow(t);

		if (bigger == NULL)
			return -STMPI_ENOMEM;
		bigger->retired = t;
		put(bigger, key, value);
		/* Partner: the acquire load in mpix_map_find. */
		atomic_store_explicit(&map->table, bigger, memory_order_release);
		return 0;
	}
	put(t, key, value);
	return 0;
}

void mpix_map_remove(struct mpix_map *map, uint64_t key)
{
	struct mpix_map_table *t = atomic_load_explicit(&map->table, memory_order_relaxed);
	uint32_t mask;
	uint64_t k;

	if (t == NULL)
		return;
	mask = entries_of(t) - 1;
	for (uint32_t i = mpix_map_slot(key, t->shift) & mask;; i = (i + 1) & mask) {
		k = atomic_load_explicit(&t->entries[i].key, memory_order_relaxed);
		if (k == MPIX_MAP_EMPTY)
			return;
		if (k == key) {
			/* Readers skip it; what they look for is another key. */
			atomic_store_explicit(&t->entries[i].key, MPIX_MAP_REMOVED,
					      memory_order_relaxed);
			t->live--;
			return;
		}
	}
}

void mpix_map_clear(struct mpix_map *map)
{
	struct mpix_map_table *t = atomic_exchange(&map->table, NULL);

	while (t != NULL) {
		struct mpix_map_table *next = t->retired;

		free(t);
		t = next;
	}
}
