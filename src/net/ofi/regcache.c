/* SPDX-License-Identifier: BSD-3-Clause */
#define HASH_NONFATAL_OOM 1 /* else uthash ends the process */
#include "net/ofi/regcache.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "util/error.h"

#define PAGE_BYTES 4096u /* no machine has smaller ones */

void regcache_init(struct regcache *c, uint32_t max_idle,
		   int (*open)(void *arg, const void *addr, size_t bytes,
			       struct regcache_entry *entry),
		   void (*close)(void *arg, struct regcache_entry *entry), void *arg)
{
	memset(c, 0, sizeof(*c));
	c->open = open;
	c->close = close;
	c->arg = arg;
	c->max_idle = max_idle;
}

/* Nobody finds e any more. */
static void hide(struct regcache *c, struct regcache_entry *e)
{
	if (e->is_found)
		HASH_DEL(c->by_page, e);
	e->is_found = 0;
}

static void leave_idle(struct regcache *c, struct regcache_entry *e)
{
	DL_DELETE2(c->idle_list, e, idle_prev, idle_next);
	c->idle--;
}

static void drop(struct regcache *c, struct regcache_entry *e)
{
	hide(c, e);
	if (e->users == 0)
		leave_idle(c, e);
	DL_DELETE(c->entries, e);
	c->close(c->arg, e);
	free(e);
}

void regcache_fini(struct regcache *c)
{
	struct regcache_entry *e, *next;
	struct regcache_user *u;

	DL_FOREACH_SAFE (c->entries, e, next)
		drop(c, e);
	while ((u = c->pool) != NULL) {
		c->pool = u->next;
		free(u);
	}
}

static const char *page_of(const char *addr)
{
	return addr - ((uintptr_t)addr & (PAGE_BYTES - 1));
}

static struct regcache_entry *find(struct regcache *c, const char *addr, size_t bytes)
{
	const char *page = page_of(addr);
	struct regcache_entry *e;

	HASH_FIND_PTR(c->by_page, &page, e);
	if (e == NULL || bytes > e->bytes - (size_t)(addr - e->addr))
		return NULL;
	return e;
}

static int add(struct regcache *c, const char *addr, size_t bytes, struct regcache_entry **entry)
{
	struct regcache_entry *e = calloc(1, sizeof(*e)), *shorter;
	int ret;

	if (e == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a registration");
	e->addr = addr;
	e->bytes = bytes;
	if (c->max_idle > 0) {
		e->addr = page_of(addr);
		e->bytes = (size_t)(addr - e->addr) + bytes;
		e->bytes = (e->bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	}
	ret = c->open(c->arg, e->addr, e->bytes, e);
	if (ret != 0) {
		free(e);
		return ret;
	}
	DL_APPEND(c->entries, e);
	*entry = e;
	if (c->max_idle == 0)
		return 0;
	HASH_FIND_PTR(c->by_page, &e->addr, shorter);
	if (shorter != NULL && shorter->users == 0)
		drop(c, shorter);
	else if (shorter != NULL)
		hide(c, shorter);
	HASH_ADD_PTR(c->by_page, addr, e);
	e->is_found = e->hh.tbl != NULL; /* NULL: uthash had no memory; then nobody shares it */
	return 0;
}

int regcache_get(struct regcache *c, const void *addr, size_t bytes, struct stmpi_net_mr **mr)
{
	/* Without idle entries every user registers for itself: the provider's cache answers. */
	struct regcache_entry *e = c->max_idle > 0 ? find(c, addr, bytes) : NULL;
	struct regcache_user *u = c->pool;
	int ret;

	if (u != NULL)
		c->pool = u->next;
	else
		u = malloc(sizeof(*u));
	if (u == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a registration");
	if (e == NULL) {
		c->misses++;
		ret = add(c, addr, bytes, &e);
		if (ret != 0) {
			u->next = c->pool;
			c->pool = u;
			return ret;
		}
	} else {
		c->hits++;
		if (e->users == 0)
			leave_idle(c, e);
	}
	e->users++;
	u->entry = e;
	u->mr.addr = e->base + (uint64_t)((const char *)addr - e->addr);
	u->mr.key = e->key;
	*mr = &u->mr;
	return 0;
}

void regcache_put(struct regcache *c, struct stmpi_net_mr *mr)
{
	struct regcache_user *u = (struct regcache_user *)(void *)mr;
	struct regcache_entry *e = u->entry;

	u->next = c->pool;
	c->pool = u;
	if (--e->users > 0)
		return;
	DL_PREPEND2(c->idle_list, e, idle_prev, idle_next);
	c->idle++;
	if (!e->is_found)
		drop(c, e);
	else if (c->idle > c->max_idle)
		drop(c, c->idle_list->idle_prev); /* the list's end: the longest unused */
}
