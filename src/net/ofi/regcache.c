/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/ofi/regcache.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "util/error.h"

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

static void drop(struct regcache *c, struct regcache_entry *e)
{
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

/* Close idle entries, the longest unused first, until no more than max_idle are left. */
static void evict(struct regcache *c)
{
	struct regcache_entry *e, *prev;

	if (c->entries == NULL)
		return;
	for (e = c->entries->prev; c->idle > c->max_idle; e = prev) {
		prev = e->prev;
		if (e->users != 0)
			continue;
		c->idle--;
		drop(c, e);
	}
}

static struct regcache_entry *find(struct regcache *c, const char *addr, size_t bytes)
{
	struct regcache_entry *e;

	DL_FOREACH (c->entries, e) {
		if (addr >= e->addr && bytes <= e->bytes &&
		    (size_t)(addr - e->addr) <= e->bytes - bytes)
			return e;
	}
	return NULL;
}

static int add(struct regcache *c, const char *addr, size_t bytes, struct regcache_entry **entry)
{
	struct regcache_entry *e = calloc(1, sizeof(*e));
	int ret;

	if (e == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a registration");
	e->addr = addr;
	e->bytes = bytes;
	ret = c->open(c->arg, addr, bytes, e);
	if (ret != 0) {
		free(e);
		return ret;
	}
	DL_PREPEND(c->entries, e);
	*entry = e;
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
		c->idle -= e->users == 0;
		if (c->entries != e) {
			DL_DELETE(c->entries, e);
			DL_PREPEND(c->entries, e);
		}
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

	if (--u->entry->users == 0) {
		c->idle++;
		evict(c);
	}
	u->next = c->pool;
	c->pool = u;
}
