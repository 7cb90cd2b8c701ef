/* SPDX-License-Identifier: BSD-3-Clause */
/* channel.c: shared memory files, mailboxes, and the rings of a channel. shm_put and shm_take are
 * hot. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "net/shm/shm_int.h"
#include "util/error.h"
#include "util/log.h"

/* ---- memory files ---- */

static int file_make(const char *name, size_t bytes, void **map)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
		goto err;
	*map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*map != MAP_FAILED)
		return fd;
err:
	stmpi_error_set(STMPI_ENOMEM, "cannot make shared memory of %zu bytes: %s", bytes,
			strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static void *file_map(int32_t pid, int32_t fd, size_t bytes)
{
	char path[64];
	struct stat st;
	void *map;
	int own;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, (int)fd);
	own = open(path, O_RDWR | O_CLOEXEC);
	if (own < 0) {
		stmpi_error_set(STMPI_EPEER, "cannot open the shared memory of process %d (%s): %s",
				(int)pid, path, strerror(errno));
		return NULL;
	}
	/* A number that was given away again may be any file: a shorter one would kill us by
	 * SIGBUS. */
	if (fstat(own, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != bytes) {
		close(own);
		stmpi_error_set(STMPI_EPEER, "%s is not the shared memory of a peer", path);
		return NULL;
	}
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
	close(own);
	if (map != MAP_FAILED)
		return map;
	stmpi_error_set(STMPI_ENOMEM, "cannot map the shared memory of process %d: %s", (int)pid,
			strerror(errno));
	return NULL;
}

int shm_mailbox_make(struct shm_rail *r)
{
	void *map;

	r->mailbox_fd = file_make("stmpi-mailbox", sizeof(*r->mailbox), &map);
	if (r->mailbox_fd < 0)
		return -STMPI_ENOMEM;
	r->mailbox = map;
	if (getrandom(&r->mailbox->nonce, sizeof(r->mailbox->nonce), 0) < 0)
		r->mailbox->nonce = r->attr.uid;
	for (uint64_t i = 0; i < SHM_MAILS; i++)
		atomic_init(&r->mailbox->mails[i].seq, i);
	return 0;
}

int shm_peer_map(struct stmpi_net_peer *peer)
{
	peer->mailbox =
		file_map(peer->address.pid, peer->address.mailbox_fd, sizeof(*peer->mailbox));
	if (peer->mailbox == NULL)
		return -STMPI_EPEER;
	/* Another process with the same number, or another file under the same one? */
	if (peer->mailbox->nonce != peer->address.nonce) {
		munmap(peer->mailbox, sizeof(*peer->mailbox));
		peer->mailbox = NULL;
		return stmpi_error_set(STMPI_EPEER, "process %d is not the peer any more",
				       (int)peer->address.pid);
	}
	/* -1 where the kernel has or allows none: idle then asks for the number alone. */
	peer->pidfd = (int)syscall(SYS_pidfd_open, peer->address.pid, 0);
	return 0;
}

int shm_flags_map(struct stmpi_net_peer *peer)
{
	peer->flags = file_map(peer->address.pid, peer->address.flags_fd,
			       (size_t)STMPI_FLAGS_MAX * sizeof(uint64_t));
	return peer->flags != NULL ? 0 : -STMPI_EPEER;
}

void shm_peer_unmap(struct stmpi_net_peer *peer)
{
	if (peer->mailbox != NULL)
		munmap(peer->mailbox, sizeof(*peer->mailbox));
	if (peer->out != NULL)
		munmap(peer->out, sizeof(*peer->out));
	if (peer->out_fd >= 0)
		close(peer->out_fd);
	if (peer->in != NULL)
		munmap(peer->in, sizeof(*peer->in));
	if (peer->flags != NULL)
		munmap(peer->flags, (size_t)STMPI_FLAGS_MAX * sizeof(uint64_t));
	if (peer->pidfd >= 0)
		close(peer->pidfd);
}

/* ---- announcing channels ---- */

static int mail(struct shm_rail *r, struct stmpi_net_peer *peer)
{
	struct shm_mailbox *box = peer->mailbox;
	uint64_t at = atomic_load_explicit(&box->tail, memory_order_relaxed);
	struct shm_mail *m;

	for (;;) {
		m = &box->mails[at % SHM_MAILS];
		/* Partner: the owner's release of a read mail, in shm_mails_read. */
		if (atomic_load_explicit(&m->seq, memory_order_acquire) != at) {
			uint64_t now = atomic_load_explicit(&box->tail, memory_order_relaxed);

			if (now == at)
				return -STMPI_EAGAIN; /* full */
			at = now;
			continue;
		}
		if (atomic_compare_exchange_weak_explicit(
			    &box->tail, &at, at + 1, memory_order_relaxed, memory_order_relaxed))
			break;
	}
	m->uid = r->attr.uid;
	m->pid = (int32_t)r->pid;
	m->fd = peer->out_fd;
	atomic_store_explicit(&m->seq, at + 1, memory_order_release); /* partner: shm_mails_read */
	return 0;
}

int shm_channel_make(struct shm_rail *r, struct stmpi_net_peer *peer)
{
	void *map;
	int ret;

	if (peer->out_fd < 0) {
		peer->out_fd = file_make("stmpi-channel", sizeof(*peer->out), &map);
		if (peer->out_fd < 0)
			return -STMPI_ENOMEM;
		peer->out = map;
	}
	ret = mail(r, peer);
	if (ret != 0) { /* try again with the next post */
		munmap(peer->out, sizeof(*peer->out));
		close(peer->out_fd);
		peer->out = NULL;
		peer->out_fd = -1;
	}
	return ret;
}

static int add_in(struct shm_rail *r, struct stmpi_net_peer *peer)
{
	if (r->in_count == r->in_room) {
		uint32_t room = r->in_room ? 2 * r->in_room : 16;
		void *more = realloc(r->in, room * sizeof(r->in[0]));

		if (more == NULL)
			return -STMPI_ENOMEM;
		r->in = more;
		r->in_room = room;
	}
	r->in[r->in_count++] = peer;
	return 0;
}

/* A process that is not connected yet: it must not hold up the mails behind, so its channel is
 * mapped and kept. 0 or -STMPI_ENOMEM: try again later. */
static int keep_stranger(struct shm_rail *r, const struct shm_mail *m)
{
	struct shm_stranger *s = malloc(sizeof(*s));

	if (s == NULL)
		return -STMPI_ENOMEM;
	*s = (struct shm_stranger){m->uid, file_map(m->pid, m->fd, sizeof(*s->in)), NULL};
	if (s->in == NULL) { /* died before anybody knew it */
		stmpi_log(STMPI_LOG_INFO, "%s", stmpi_error_text());
		free(s);
		return 0;
	}
	atomic_store_explicit(&s->in->is_mapped, 1, memory_order_release); /* partner: is_busy */
	LL_APPEND(r->strangers, s);
	return 0;
}

int shm_stranger_adopt(struct shm_rail *r, struct stmpi_net_peer *peer)
{
	struct shm_stranger *s;

	LL_FOREACH (r->strangers, s) {
		if (s->uid == peer->uid)
			break;
	}
	if (s == NULL)
		return 0;
	if (add_in(r, peer) != 0)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a peer");
	peer->in = s->in;
	LL_DELETE(r->strangers, s);
	free(s);
	return 0;
}

void shm_strangers_free(struct shm_rail *r)
{
	struct shm_stranger *s;

	while ((s = r->strangers) != NULL) {
		r->strangers = s->next;
		munmap(s->in, sizeof(*s->in));
		free(s);
	}
}

static void map_in(struct shm_rail *r, struct stmpi_net_peer *peer, const struct shm_mail *m)
{
	struct shm_channel *in = file_map(m->pid, m->fd, sizeof(*in));

	if (in == NULL || add_in(r, peer) != 0) {
		/* A peer that has ended meanwhile is no news here: idle tells of it. */
		int is_gone =
			atomic_load_explicit(&peer->mailbox->is_closed, memory_order_acquire) ||
			kill((pid_t)m->pid, 0) != 0;

		stmpi_log(is_gone ? STMPI_LOG_INFO : STMPI_LOG_ERROR,
			  "a peer's channel is lost: %s", stmpi_error_text());
		if (in != NULL)
			munmap(in, sizeof(*in));
		peer->is_lost = 1;
		return;
	}
	peer->in = in;
	atomic_store_explicit(&in->is_mapped, 1, memory_order_release); /* partner: is_busy */
}

/* Read new announcements. */
void shm_mails_read(struct shm_rail *r)
{
	for (;;) {
		struct shm_mail *m = &r->mailbox->mails[r->mails_read % SHM_MAILS];
		struct stmpi_net_peer *peer;

		/* Partner: mail. */
		if (stmpi_likely(atomic_load_explicit(&m->seq, memory_order_acquire) !=
				 r->mails_read + 1))
			return;
		HASH_FIND(hh, r->by_uid, &m->uid, sizeof(m->uid), peer);
		if (peer == NULL) {
			if (keep_stranger(r, m) != 0)
				return;
		} else if (peer->in == NULL) {
			map_in(r, peer, m);
		}
		/* Free for the producer one lap ahead. Partner: mail. */
		atomic_store_explicit(&m->seq, r->mails_read + SHM_MAILS, memory_order_release);
		r->mails_read++;
	}
}

/* ---- sending ---- */

/* Room for one more cell? */
static inline int has_cell(struct stmpi_net_peer *p)
{
	if (stmpi_likely(p->sent - p->cells_done < SHM_CELLS))
		return 1;
	/* Partner: tell. */
	p->cells_done = atomic_load_explicit(&p->out->cells_done, memory_order_acquire);
	return p->sent - p->cells_done < SHM_CELLS;
}

/* Find room for bytes in one piece; fills w. */
static int find_data(struct stmpi_net_peer *p, size_t bytes, struct shm_where *w)
{
	uint64_t room = (bytes + STMPI_CACHE_LINE - 1) / STMPI_CACHE_LINE * STMPI_CACHE_LINE;
	uint64_t at = p->data_sent, left = SHM_DATA - at % SHM_DATA;

	if (left < room)
		at += left; /* no piece of that length before the end: skip it */
	if (at + room - p->data_done > SHM_DATA) {
		p->data_done = atomic_load_explicit(&p->out->data_done,
						    memory_order_acquire); /* partner: tell */
		if (at + room - p->data_done > SHM_DATA)
			return 0;
	}
	*w = (struct shm_where){at, at + room};
	return 1;
}

int shm_put(struct shm_rail *r, struct stmpi_net_peer *p, enum shm_cell_kind kind,
	    const struct stmpi_net_hdr *hdr, const void *data, size_t bytes)
{
	struct shm_cell *cell;
	struct shm_where where;
	int ret;

	if (stmpi_unlikely(p->error != 0))
		return p->error;
	if (stmpi_unlikely(p->out == NULL)) {
		ret = shm_channel_make(r, p);
		if (ret != 0)
			return ret;
	}
	if (stmpi_unlikely(!has_cell(p)))
		return -STMPI_EAGAIN;
	cell = &p->out->cells[p->sent % SHM_CELLS];
	if (bytes > SHM_INLINE || kind == SHM_READ_DATA) {
		if (!find_data(p, bytes, &where))
			return -STMPI_EAGAIN;
		memcpy(&p->out->data[where.begin % SHM_DATA], data, bytes);
		p->data_sent = where.end;
		cell->where = where;
		if (kind == SHM_PACKET)
			kind = SHM_PACKET_DATA;
	} else if (bytes == 8) {
		memcpy(cell->payload, data, 8); /* the common size, without a call */
	} else if (bytes > 0) {
		memcpy(cell->payload, data, bytes);
	}
	cell->kind = (uint16_t)kind;
	cell->bytes = (uint16_t)bytes;
	cell->hdr = *hdr;
	p->sent++;
	atomic_store_explicit(&cell->seq, p->sent, memory_order_release); /* partner: shm_take */
	return 0;
}

/* ---- receiving ---- */

/* Tell the sender what is free again; not for every cell, so that the line stays with the sender.
 */
static void tell(struct stmpi_net_peer *p)
{
	if (p->received - p->received_told >= SHM_CELLS / 4) {
		p->received_told = p->received;
		atomic_store_explicit(&p->in->cells_done, p->received, memory_order_release);
	}
	if (p->data_read - p->data_told >= SHM_DATA / 4) {
		p->data_told = p->data_read;
		atomic_store_explicit(&p->in->data_done, p->data_read, memory_order_release);
	}
}

static void take_cell(struct shm_rail *r, struct stmpi_net_peer *p, const struct shm_cell *cell)
{
	const struct stmpi_net_upcalls *up = r->attr.upcalls;
	const void *data;

	switch ((enum shm_cell_kind)cell->kind) {
	case SHM_PACKET:
		up->packet(up->arg, p->user, &cell->hdr, cell->payload, cell->bytes);
		return;
	case SHM_READ_REQUEST:
		shm_read_request(r, p, &cell->hdr);
		return;
	case SHM_PACKET_DATA:
	case SHM_READ_DATA:
		break;
	}
	data = &p->in->data[cell->where.begin % SHM_DATA];
	if (cell->kind == SHM_PACKET_DATA)
		up->packet(up->arg, p->user, &cell->hdr, data, cell->bytes);
	else
		shm_read_data(r, &cell->hdr, data, cell->bytes);
	p->data_read = cell->where.end;
}

int shm_take(struct shm_rail *r, struct stmpi_net_peer *p, uint32_t limit)
{
	uint32_t n;

	for (n = 0; n < limit; n++) {
		struct shm_cell *cell = &p->in->cells[p->received % SHM_CELLS];

		/* Partner: shm_put. */
		if (atomic_load_explicit(&cell->seq, memory_order_acquire) != p->received + 1)
			break;
		take_cell(r, p, cell);
		p->received++;
		tell(p);
	}
	return (int)n;
}
