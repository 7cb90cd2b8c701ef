/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read.c: READ: one copy by process_vm_readv, a chunk per round so that nothing else waits long;
 * where the kernel forbids it, the owner sends the data through its channel (two copies,
 * pipelined).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <utlist.h>

#include "net/shm/shm_int.h"
#include "util/error.h"
#include "util/log.h"

/* scratch of a READ: bytes done; its request number. */
#define DONE(w)	   ((w)->scratch[0])
#define REQUEST(w) ((w)->scratch[1])
/* scratch of a FLAG that waits: how many READs of its peer come before it. */
#define READS(w) ((w)->scratch[0])

/* Fragments that a served READ may send per round. */
#define SERVE_BURST 16

static uint64_t next_request; /* under the token */

/* Copy one chunk. 1: all done, 0: more to do, negative: STMPI_E code. */
static int copy_chunk(struct shm_rail *r, struct stmpi_net_work *w)
{
	struct stmpi_net_peer *p = w->peer;
	size_t n = w->bytes - DONE(w) < SHM_CHUNK ? w->bytes - DONE(w) : SHM_CHUNK;
	struct iovec local = {(char *)w->dst + DONE(w), n};
	struct iovec remote = {(void *)(uintptr_t)(w->remote_addr + DONE(w)), n};
	ssize_t got;

	if (p->address.pid == (int32_t)r->pid) {
		memmove(local.iov_base, remote.iov_base, n);
		got = (ssize_t)n;
	} else {
		got = process_vm_readv((pid_t)p->address.pid, &local, 1, &remote, 1, 0);
	}
	if (stmpi_unlikely(got <= 0)) {
		int reason = got < 0 ? errno : EFAULT;

		if (reason == EPERM || reason == ENOSYS || reason == EACCES)
			return -STMPI_ENOTSUP;
		return stmpi_error_set(reason == ESRCH ? STMPI_EPEER : STMPI_ENET,
				       "reading %zu bytes of process %d: %s", n,
				       (int)p->address.pid, strerror(reason));
	}
	DONE(w) += (uint64_t)got;
	return DONE(w) == w->bytes;
}

static int ask(struct shm_rail *r, struct stmpi_net_work *w)
{
	struct stmpi_net_hdr hdr = {{w->remote_addr, w->bytes, next_request + 1}};
	int ret = shm_put(r, w->peer, SHM_READ_REQUEST, &hdr, NULL, 0);

	if (ret != 0)
		return ret;
	REQUEST(w) = ++next_request;
	DONE(w) = 0;
	w->peer->reads_started++;
	LL_PREPEND(r->asked, w);
	return 1;
}

int shm_read_post(struct shm_rail *r, struct stmpi_net_work *w)
{
	int ret;

	if (w->peer->error != 0)
		return w->peer->error;
	DONE(w) = 0;
	if (w->bytes == 0)
		return 0;
	if (!r->has_cma)
		return ask(r, w);
	ret = copy_chunk(r, w);
	if (ret == 1)
		return 0;
	if (ret == 0) {
		w->peer->reads_started++;
		LL_APPEND(r->reads, w);
		return 1;
	}
	if (ret == -STMPI_ENOTSUP) {
		r->has_cma = 0;
		stmpi_log(STMPI_LOG_WARN,
			  "process_vm_readv is forbidden here: large messages of the same node "
			  "are copied twice (STMPI_SHM_CMA=off says so without this message)");
		return ask(r, w);
	}
	return ret;
}

/* ---- flags ---- */

static int write_flag(struct stmpi_net_work *w)
{
	struct stmpi_net_peer *p = w->peer;
	int ret;

	if (stmpi_unlikely(p->error != 0))
		return p->error;
	if (stmpi_unlikely(p->flags == NULL)) {
		ret = shm_flags_map(p);
		if (ret != 0)
			return ret;
	}
	/* Release: after the READ's copy, which a holder of the token made. Partner: the peer's
	 * stmpi_word_load. */
	stmpi_word_store(&p->flags[w->flag_index], w->value);
	return 0;
}

/* READs of one peer end in the order of their posts, so a FLAG waits for a number of them. */
int shm_flag_post(struct shm_rail *r, struct stmpi_net_work *w)
{
	struct stmpi_net_peer *p = w->peer;

	if (stmpi_likely(p->reads_ended == p->reads_started) || p->error != 0)
		return write_flag(w);
	READS(w) = p->reads_started;
	LL_APPEND(r->flags, w);
	return 1;
}

/* A READ that was in progress has ended: FLAGs that waited for it go out, then its owner hears. */
static void end_read(struct shm_rail *r, struct stmpi_net_work *read, int status)
{
	struct stmpi_net_peer *p = read->peer;
	struct stmpi_net_work *w = r->flags, *next;

	p->reads_ended++;
	for (; stmpi_unlikely(w != NULL); w = next) {
		next = w->next;
		if (w->peer != p || READS(w) > p->reads_ended)
			continue;
		LL_DELETE(r->flags, w);
		w->work.fn(&w->work, write_flag(w));
	}
	read->work.fn(&read->work, status);
}

/* ---- serving, for a peer that cannot read us ---- */

void shm_read_request(struct shm_rail *r, struct stmpi_net_peer *p, const struct stmpi_net_hdr *hdr)
{
	struct shm_serve *s = malloc(sizeof(*s));

	if (s == NULL) {
		stmpi_log(STMPI_LOG_ERROR, "no memory to serve a read");
		return;
	}
	*s = (struct shm_serve){hdr->w[0], hdr->w[1], 0, hdr->w[2], NULL};
	if (p->serves == NULL)
		r->serving++;
	LL_APPEND(p->serves, s);
}

static int serve(struct shm_rail *r, struct stmpi_net_peer *p)
{
	int sent = 0;

	while (p->serves != NULL && sent < SERVE_BURST) {
		struct shm_serve *s = p->serves;
		uint64_t n =
			s->bytes - s->offset < SHM_EAGER_MAX ? s->bytes - s->offset : SHM_EAGER_MAX;
		struct stmpi_net_hdr hdr = {{s->request, s->offset, 0}};

		if (shm_put(r, p, SHM_READ_DATA, &hdr, (void *)(uintptr_t)(s->addr + s->offset),
			    n) != 0)
			break;
		sent++;
		s->offset += n;
		if (s->offset < s->bytes)
			continue;
		LL_DELETE(p->serves, s);
		free(s);
	}
	if (p->serves == NULL)
		r->serving--;
	return sent;
}

void shm_read_data(struct shm_rail *r, const struct stmpi_net_hdr *hdr, const void *data,
		   size_t bytes)
{
	struct stmpi_net_work *w;

	LL_FOREACH (r->asked, w) {
		if (REQUEST(w) == hdr->w[0])
			break;
	}
	if (w == NULL)
		return;
	memcpy((char *)w->dst + hdr->w[1], data, bytes);
	DONE(w) += bytes;
	if (DONE(w) < w->bytes)
		return;
	LL_DELETE(r->asked, w);
	end_read(r, w, 0);
}

/* ---- one round ---- */

int shm_read_poll(struct shm_rail *r)
{
	struct stmpi_net_work *w = r->reads;
	struct stmpi_net_peer *p;
	int events = 0, ret;

	if (w != NULL) {
		events++;
		ret = copy_chunk(r, w);
		if (ret != 0) {
			LL_DELETE(r->reads, w);
			end_read(r, w, ret > 0 ? 0 : ret);
		}
	}
	if (r->serving > 0) {
		for (p = r->peers; p != NULL; p = p->next) {
			if (p->serves != NULL)
				events += serve(r, p);
		}
	}
	return events;
}

static void fail_list(struct shm_rail *r, struct stmpi_net_work **list, struct stmpi_net_peer *p)
{
	struct stmpi_net_work *w = *list, *next;

	for (; w != NULL; w = next) {
		next = w->next;
		if (w->peer != p)
			continue;
		LL_DELETE(*list, w);
		end_read(r, w, -STMPI_EPEER);
	}
}

void shm_read_fail(struct shm_rail *r, struct stmpi_net_peer *p)
{
	struct shm_serve *s;

	if (p->serves != NULL)
		r->serving--;
	while ((s = p->serves) != NULL) {
		LL_DELETE(p->serves, s);
		free(s);
	}
	fail_list(r, &r->reads, p);
	fail_list(r, &r->asked, p);
}
