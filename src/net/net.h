/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net.h: what a network can do for the core. One const table of operations per backend (shm, ofi),
 * one folder each; an open instance is a *rail*. It must not know of matching, streams or MPI.
 *
 * Threads: the engine calls post, poll and trigger functions while it holds its token, so a rail is
 * entered by one thread at a time, not always the same one. open, close, address, connect, reg and
 * dereg are called under the token too. Callbacks run inside poll and idle only, with the token
 * held; post runs none. Hot: post and poll allocate nothing, take no lock and format nothing once a
 * peer is connected.
 */
#ifndef STMPI_NET_NET_H
#define STMPI_NET_NET_H

#include <stddef.h>
#include <stdint.h>

#include "net/flags.h"

#define STMPI_NET_ABI	     1
#define STMPI_NET_ADDR_BYTES 256 /* room for a rail's address */

struct stmpi_rail;
struct stmpi_net_peer; /* opaque to the core; the rail's own */

/* Header of every packet, carried untouched. Its meaning is the core's. */
struct stmpi_net_hdr {
	uint64_t w[3];
};

/* A registered buffer. addr and key are what a peer's READ names. Owned by the rail until dereg. */
struct stmpi_net_mr {
	uint64_t addr;
	uint64_t key;
};

enum stmpi_work_kind {
	STMPI_WORK_CALL, /* no network operation: fn(work, 0) is the work (software receives,
			    retirement) */
	STMPI_WORK_SEND, /* one packet: hdr and payload, at most eager_max bytes */
	STMPI_WORK_READ, /* read `bytes` from the peer's registered memory into buf */
	STMPI_WORK_FLAG, /* store one 64-bit value into a completion word of the peer, after earlier
			    READs of this rail from that peer have completed */
};

/*
 * The part of a work descriptor that triggers know. A work belongs to its owner before it is posted
 * or queued and again from the start of fn.
 */
struct stmpi_work {
	enum stmpi_work_kind kind;
	/*
	 * CALL: the work itself. Others: called once when a post that returned 1 has ended, or when
	 * a queued work has ended in any way; status is 0 or -STMPI_E.
	 */
	void (*fn)(struct stmpi_work *work, int status);
};

/* A network operation, complete before it is posted. */
struct stmpi_net_work {
	struct stmpi_work work;
	struct stmpi_rail *rail;
	struct stmpi_net_peer *peer;
	const void *src;	 /* SEND: payload, any memory of the process */
	void *dst;		 /* READ: destination */
	size_t bytes;		 /* SEND, READ */
	struct stmpi_net_mr *mr; /* READ: registration of dst, from this rail */
	uint64_t remote_addr;	 /* READ: from the peer's stmpi_net_mr */
	uint64_t remote_key;
	uint64_t value;		  /* FLAG: value to store */
	uint32_t flag_index;	  /* FLAG: word in the peer's arena */
	struct stmpi_net_hdr hdr; /* SEND */
	/* The rail's own while the work is posted. */
	struct stmpi_net_work *next;
	uint64_t scratch[3];
};

/* What the rail calls. Constant; arg is passed back. */
struct stmpi_net_upcalls {
	void *arg;
	/*
	 * A packet of peer_user (connect's argument) has come. hdr and payload are valid during the
	 * call only. payload is aligned to 8 bytes. The callee may post works on the same rail.
	 */
	void (*packet)(void *arg, void *peer_user, const struct stmpi_net_hdr *hdr,
		       const void *payload, size_t bytes);
	/* The peer died or its connection broke (error is -STMPI_E), or it closed in order (0);
	 * called once. Its posted works have ended before, with an error. */
	void (*peer_failed)(void *arg, void *peer_user, int error);
};

struct stmpi_net_attr {
	const struct stmpi_net_upcalls *upcalls;
	struct stmpi_flags
		*flags; /* the process's completion words, to be made writable by peers */
	uint64_t uid;	/* unique number of this process in the job */
};

/* Common first part of every rail. Read-only for the core. */
struct stmpi_rail {
	const struct stmpi_net_ops *ops;
	size_t eager_max;     /* largest payload of a SEND, in bytes */
	size_t eager_best;    /* payloads up to here are faster as SEND than by READ */
	char description[96]; /* for people: "tcp;ofi_rxm on eth0" */
};

struct stmpi_net_ops {
	uint32_t abi;	  /* STMPI_NET_ABI */
	uint32_t bytes;	  /* sizeof(struct stmpi_net_ops) */
	const char *name; /* "shm", "ofi" */

	/* 0 when it can be opened here; else -STMPI_E and the reason in why. May be slow. */
	int (*probe)(char *why, size_t why_bytes);

	/* Open the one rail of this process. -STMPI_ENODEV, -STMPI_ENOMEM, -STMPI_ENET, with a
	 * text. */
	int (*open)(const struct stmpi_net_attr *attr, struct stmpi_rail **rail);

	/*
	 * Close. Posted works that have not ended are dropped without a callback; what the network
	 * still holds is drained first, within a bounded time. NULL is allowed.
	 */
	void (*close)(struct stmpi_rail *rail);

	/* Write this process's address, at most STMPI_NET_ADDR_BYTES; *bytes out. */
	int (*address)(struct stmpi_rail *rail, void *addr, size_t *bytes);

	/*
	 * Make a peer known by its address. Cheap: resources come with the first post to it. user
	 * is handed to the upcalls. The peer lives until close. An own address makes a loopback
	 * peer.
	 */
	int (*connect)(struct stmpi_rail *rail, const void *addr, size_t bytes, void *user,
		       struct stmpi_net_peer **peer);

	/*
	 * Start a work (never a CALL) now. Works to one peer start in post order; packets arrive in
	 * that order. 0: ended, src may be reused, fn will not be called. 1: started, fn will be
	 * called. -STMPI_EAGAIN: nothing happened, full for now. -STMPI_EPEER, -STMPI_ENET: nothing
	 * happened.
	 */
	int (*post)(struct stmpi_rail *rail, struct stmpi_net_work *work);

	/* Look once at everything; run upcalls and fn. Returns the number of events, 0 when none.
	 */
	int (*poll)(struct stmpi_rail *rail);

	/* Slow checks, every few milliseconds while somebody waits: dead peers. */
	void (*idle)(struct stmpi_rail *rail);

	/* Register memory that peers may READ (and that READ may fill). A cache may answer. */
	int (*reg)(struct stmpi_rail *rail, const void *addr, size_t bytes,
		   struct stmpi_net_mr **mr);
	void (*dereg)(struct stmpi_rail *rail, struct stmpi_net_mr *mr);

	/* 1 while posted works or buffered packets have not left this process, else 0. */
	int (*is_busy)(struct stmpi_rail *rail);
};

extern const struct stmpi_net_ops stmpi_net_shm_ops;
extern const struct stmpi_net_ops stmpi_net_ofi_ops;

#endif
