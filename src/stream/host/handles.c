/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handles.c: which stream and event handles are alive, so that a destroyed or made-up handle is an
 * error and never a crash: the pointer is looked up before it is followed.
 */
#define HASH_NONFATAL_OOM 1 /* else uthash ends the process */
#include <stdlib.h>
#include <uthash.h>

#include "stream/host/host_int.h"
#include "util/error.h"

struct handle {
	const void *key;
	enum host_handle_kind kind;
	UT_hash_handle hh;
};

static struct handle *handles;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* guards handles; innermost */

/* Under the lock. */
static struct handle *find(const void *key, enum host_handle_kind kind)
{
	struct handle *h;

	HASH_FIND_PTR(handles, &key, h);
	return h != NULL && h->kind == kind ? h : NULL;
}

int host_handle_add(const void *key, enum host_handle_kind kind)
{
	struct handle *h = malloc(sizeof(*h));
	int is_added;

	if (h == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a handle");
	h->key = key;
	h->kind = kind;
	pthread_rwlock_wrlock(&lock);
	HASH_ADD_PTR(handles, key, h);
	is_added = h->hh.tbl != NULL; /* uthash's sign that it had no memory */
	pthread_rwlock_unlock(&lock);
	if (is_added)
		return 0;
	free(h);
	return stmpi_error_set(STMPI_ENOMEM, "no memory for a handle");
}

int host_handle_remove(const void *key, enum host_handle_kind kind)
{
	struct handle *h;

	pthread_rwlock_wrlock(&lock);
	h = find(key, kind);
	if (h != NULL)
		HASH_DEL(handles, h);
	pthread_rwlock_unlock(&lock);
	free(h);
	return h != NULL;
}

/* Take a reference when the handle is alive; the object has its count at offset. Only then is it
 * followed. */
int host_handle_is_live(const void *key, enum host_handle_kind kind, size_t offset)
{
	struct handle *h;

	pthread_rwlock_rdlock(&lock);
	h = find(key, kind);
	if (h !=
	    NULL) /* the registry's entry stands for the user's reference, so it is not the first */
		atomic_fetch_add_explicit((_Atomic uint32_t *)((uintptr_t)key + offset), 1,
					  memory_order_relaxed);
	pthread_rwlock_unlock(&lock);
	return h != NULL;
}
