/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * regcache.h: registrations of rendezvous buffers, kept for the next message from the same memory.
 *
 * A kept registration must stay right when the program frees the memory and allocates it again.
 * Nothing can tell a library reliably that memory was freed (free() unmaps inside the C library).
 * So:
 * - Where the provider uses a registration for its addresses only, and touches the memory by
 * virtual address when the message moves (tcp, sockets, udp, libfabric's shm), a kept one is right
 * for whatever lies there then: it is kept here.
 * - Where the network card holds the pages (verbs, efa, cxi, psm3, opx), libfabric's own cache
 * below fi_mr_reg watches the memory; a second cache above it would undo that. There nothing is
 * kept here (max_idle = 0).
 * What is kept is whole pages, and found by its first page: ten thousand small messages from one
 * array share its pages, and a search costs the same however many there are.
 * It must not know of libfabric: registering is a callback. Not locked: the engine's token guards
 * it.
 */
#ifndef STMPI_NET_OFI_REGCACHE_H
#define STMPI_NET_OFI_REGCACHE_H

#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "net/net.h"

struct regcache_entry {
	const char *addr; /* the registered range; the key where it is kept */
	size_t bytes;
	uint32_t users;
	void *handle; /* the callback's own */
	void *desc;
	uint64_t base, key; /* remote address of addr[0], and key; set by the callback */
	int is_found;	    /* in by_page: the next user may share it */
	struct regcache_entry *next, *prev;	      /* of all (utlist DL) */
	struct regcache_entry *idle_next, *idle_prev; /* without users, newest use first */
	UT_hash_handle hh;
};

/* One user's view of an entry: what the core holds. */
struct regcache_user {
	struct stmpi_net_mr mr;
	struct regcache_entry *entry;
	struct regcache_user *next; /* in the pool */
};

struct regcache {
	int (*open)(void *arg, const void *addr, size_t bytes, struct regcache_entry *entry);
	void (*close)(void *arg, struct regcache_entry *entry);
	void *arg;
	uint32_t max_idle; /* entries without users that are kept */
	uint32_t idle;
	struct regcache_entry *entries, *idle_list;
	struct regcache_entry *by_page; /* one for each first page: the longest */
	struct regcache_user *pool;
	uint64_t hits, misses;
};

void regcache_init(struct regcache *c, uint32_t max_idle,
		   int (*open)(void *arg, const void *addr, size_t bytes,
			       struct regcache_entry *entry),
		   void (*close)(void *arg, struct regcache_entry *entry), void *arg);

/* Close all entries; those still in use too. */
void regcache_fini(struct regcache *c);

/* A registration that covers the range. 0, or what open returned, or -STMPI_ENOMEM. */
int regcache_get(struct regcache *c, const void *addr, size_t bytes, struct stmpi_net_mr **mr);

void regcache_put(struct regcache *c, struct stmpi_net_mr *mr);

static inline void *regcache_desc(struct stmpi_net_mr *mr)
{
	return ((struct regcache_user *)(void *)mr)->entry->desc;
}

#endif
