/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm_int.h: the shared-memory rail's own structures.
 *
 * All shared memory is anonymous memory files (memfd). A process finds a peer's through
 * /proc/PID/fd/N: there are no names, so nothing is stale after a kill, nothing can be guessed by
 * another user, and the size of /dev/shm does not matter.
 *
 * - Each process has a *mailbox*, in which peers announce channels to it.
 * - A *channel* is one-way: made by its sender at the first packet to that peer. Its cells are one
 * cache line each; a packet with up to SHM_INLINE bytes is one line, a longer one has its data in
 * the channel's data ring.
 */
#ifndef STMPI_NET_SHM_SHM_INT_H
#define STMPI_NET_SHM_SHM_INT_H

#include <sys/types.h>
#include <uthash.h>

#include "net/net.h"
#include "util/compiler.h"

#define SHM_CELLS      256u	      /* a power of two */
#define SHM_INLINE     32u	      /* payload bytes in the cell itself */
#define SHM_DATA       (512u * 1024u) /* bytes of the data ring, a power of two */
#define SHM_EAGER_MAX  (16u * 1024u)
#define SHM_EAGER_BEST 4096u	       /* measured: see docs/shm-rail.md */
#define SHM_MAILS      1024u	       /* a power of two */
#define SHM_CHUNK      (1024u * 1024u) /* bytes of a READ per round */

enum shm_cell_kind {
	SHM_PACKET = 1,	  /* payload in the cell */
	SHM_PACKET_DATA,  /* payload in the data ring, at struct shm_where */
	SHM_READ_REQUEST, /* hdr: address, bytes, request */
	SHM_READ_DATA,	  /* hdr: request, offset; data in the ring */
};

/* Where a cell's data lie; positions only grow, their place is the position modulo SHM_DATA. */
struct shm_where {
	uint64_t begin, end;
};

/*
 * Written by the sender, `seq` last and with release: the index of the packet + 1. The receiver
 * loads it with acquire. The sender writes a cell again only after `cells_done` has passed it.
 */
struct shm_cell {
	_Atomic uint32_t seq;
	uint16_t kind;
	uint16_t bytes;
	struct stmpi_net_hdr hdr;
	union {
		unsigned char payload[SHM_INLINE];
		struct shm_where where;
	};
};

_Static_assert(sizeof(struct shm_cell) == STMPI_CACHE_LINE, "a cell is one cache line");

struct shm_channel {
	/* Written by the receiver with release, after it has read cells and data; read by the
	 * sender when full. */
	STMPI_CACHE_ALIGNED _Atomic uint32_t cells_done;
	_Atomic uint64_t data_done;
	_Atomic uint32_t is_mapped; /* by the receiver: its sender may close the file */
	STMPI_CACHE_ALIGNED struct shm_cell cells[SHM_CELLS];
	unsigned char data[SHM_DATA];
};

/* One announcement. seq as in a bounded queue of many producers and one consumer. */
struct shm_mail {
	STMPI_CACHE_ALIGNED _Atomic uint64_t seq;
	uint64_t uid;
	int32_t pid;
	int32_t fd;
};

struct shm_mailbox {
	uint64_t nonce;
	_Atomic uint32_t is_closed;		   /* by its owner */
	STMPI_CACHE_ALIGNED _Atomic uint64_t tail; /* producers */
	struct shm_mail mails[SHM_MAILS];
};

/* What the rail's address is. */
struct shm_address {
	uint64_t uid, nonce;
	int32_t pid, mailbox_fd, flags_fd;
};

/* A READ in progress, or one that a peer asked us to serve. Reads are the works' own (by scratch).
 */
struct shm_serve {
	uint64_t addr, bytes, offset, request;
	struct shm_serve *next;
};

struct stmpi_net_peer {
	uint64_t uid;
	void *user;
	struct shm_address address;
	struct shm_mailbox *mailbox;
	/* sending */
	struct shm_channel *out;
	int out_fd;	     /* -1 once the receiver has mapped it */
	uint32_t sent;	     /* cells written */
	uint32_t cells_done; /* last look at the receiver's */
	uint64_t data_sent, data_done;
	/* receiving */
	struct shm_channel *in;
	uint32_t received, received_told;
	uint64_t data_read, data_told;
	/* the rest */
	uint64_t *flags;	/* its completion words, mapped at the first FLAG */
	int pidfd;		/* -1: none */
	int error;		/* negative STMPI_E code once it is gone */
	int is_lost;		/* its channel cannot be mapped: idle gives it up */
	uint64_t reads_started; /* READs of it that did not end in post */
	uint64_t reads_ended;
	struct shm_serve *serves;    /* READs of it that we serve, utlist LL */
	struct stmpi_net_peer *next; /* all peers */
	UT_hash_handle hh;	     /* by uid */
};

/* A channel of a process that we have not connected yet; connect takes it. */
struct shm_stranger {
	uint64_t uid;
	struct shm_channel *in;
	struct shm_stranger *next;
};

struct shm_mr {
	struct stmpi_net_mr mr;
	struct shm_mr *next; /* in the rail's pool */
};

struct shm_rail {
	struct stmpi_rail rail;
	struct stmpi_net_attr attr;
	struct shm_mailbox *mailbox;
	int mailbox_fd;
	uint64_t mails_read;
	struct stmpi_net_peer *peers;  /* list */
	struct stmpi_net_peer *by_uid; /* uthash */
	struct stmpi_net_peer **in;    /* those with a channel to us */
	uint32_t in_count, in_room;
	struct stmpi_net_work *reads; /* in progress, by process_vm_readv; utlist LL through next */
	struct stmpi_net_work *asked; /* in progress, served by the peer */
	struct stmpi_net_work *flags; /* FLAGs that wait for earlier READs of their peer */
	struct shm_stranger *strangers;
	struct shm_mr *mrs; /* descriptors not in use */
	uint32_t serving;   /* peers with serves */
	int has_cma;	    /* 0: forbidden or switched off */
	uint64_t idle_ns;
	pid_t pid;
};

/* channel.c */
int shm_mailbox_make(struct shm_rail *r);
int shm_peer_map(struct stmpi_net_peer *peer);
int shm_flags_map(struct stmpi_net_peer *peer);
int shm_channel_make(struct shm_rail *r, struct stmpi_net_peer *peer);
void shm_mails_read(struct shm_rail *r);
/* Take over what peer has announced before it was connected. 0 or -STMPI_ENOMEM. */
int shm_stranger_adopt(struct shm_rail *r, struct stmpi_net_peer *peer);
void shm_strangers_free(struct shm_rail *r);
void shm_peer_unmap(struct stmpi_net_peer *peer);
/* Put a packet or cell into the peer's channel. 0, -STMPI_EAGAIN, -STMPI_EPEER. */
int shm_put(struct shm_rail *r, struct stmpi_net_peer *peer, enum shm_cell_kind kind,
	    const struct stmpi_net_hdr *hdr, const void *data, size_t bytes);
/* Take everything that has come from peer, at most `limit` cells. Returns how many. */
int shm_take(struct shm_rail *r, struct stmpi_net_peer *peer, uint32_t limit);

/* read.c */
int shm_read_post(struct shm_rail *r, struct stmpi_net_work *work);
int shm_flag_post(struct shm_rail *r, struct stmpi_net_work *work);
int shm_read_poll(struct shm_rail *r);
void shm_read_request(struct shm_rail *r, struct stmpi_net_peer *peer,
		      const struct stmpi_net_hdr *hdr);
void shm_read_data(struct shm_rail *r, const struct stmpi_net_hdr *hdr, const void *data,
		   size_t bytes);
void shm_read_fail(struct shm_rail *r, struct stmpi_net_peer *peer);

#endif
