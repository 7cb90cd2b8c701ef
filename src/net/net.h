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
struct stmpi_net_work;

/* What --stats prints of deferred work. */
struct stmpi_defer_stats {
	uint32_t credits; /* works that may be armed at once */
	uint32_t armed;	  /* now */
	uint32_t highest; /* at once, so far */
	uint32_t lost;	  /* credits that the network never gave back */
	uint64_t total;	  /* works armed so far */
	const char *doorbell;
};

/* Header of every packet, carried untouched. Its meaning is the core's. */
struct stmpi_net_hdr {
	uint64_t w[3];
};

/* A registered buffer. addr and key are what a peer's READ names. Owned by the rail until dereg. */
struct stmpi_net_mr {
	uint64_t addr;
	uint64_t key;
};

#define STMPI_WORK_FIRED 1
#define STMPI_WORK_LATE	 2

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
	 * a queued work has ended in any way; status is 0 or -STMPI_E. A queued work that is
	 * armable (stmpi_net_armed.shot is not 0) is told of earlier, too: STMPI_WORK_FIRED, or
	 * STMPI_WORK_LATE: its trigger has been reached but it was not armed; it is the owner's
	 * again, who posts it.
	 */
	void (*fn)(struct stmpi_work *work, int status);
};

/* What stmpi_trigger_fire and the arming side agree on: the word `stage` of a work. */
#define STMPI_STAGE_OPEN   UINT64_C(0) /* neither armed nor passed by the stream */
#define STMPI_STAGE_PASSED UINT64_C(1) /* the stream has passed: too late to arm */
#define STMPI_STAGE_WHOLE  UINT64_C(2) /* armed, nothing to copy; above: where to copy src */

enum stmpi_armed_state {
	STMPI_ARMED_NOT,
	STMPI_ARMED_QUEUED, /* in the network, which fires it */
	STMPI_ARMED_FIRED,  /* the same, and its trigger has reached it */
};

/* What is asked of the owner just before a work is armed, under the token: the packet. */
struct stmpi_net_packet {
	struct stmpi_net_hdr hdr;
	const void *data; /* NULL: the stream copies src there when it comes by */
	size_t bytes;
	int ends_when_fired; /* 1: fn is not called any more after STMPI_WORK_FIRED */
};

/*
 * The part of a SEND that is for deferred work. `shot` counts the armable works of one trigger from
 * its first (0 means: not armable); each has one stmpi_trigger_fire in stream order. `stage` is
 * shared by the stream's thread and the token's holder; the rest is the token's.
 */
struct stmpi_net_armed {
	_Atomic uint64_t stage;
	uint64_t shot;
	/* While it is not 0, an earlier message to the same peer has found no room: the stream must
	 * not fire. */
	const _Atomic uint32_t *gate;
	/* Say what is to be sent; 0 or -STMPI_E: then it is not armed. */
	int (*prepare)(struct stmpi_net_work *work, struct stmpi_net_packet *packet);
	enum stmpi_armed_state state;
	_Atomic uint32_t may_arm; /* set by the owner when the stream has taken it */
	void *slot;		  /* the rail's own */
};

/* A network operation, complete before it is posted. */
struct stmpi_net_work {
	struct stmpi_work work;
	struct stmpi_rail *rail;
	struct stmpi_net_peer *peer;
	const void *src;	  /* SEND: payload, any memory of the process */
	size_t bytes;		  /* SEND, READ */
	struct stmpi_net_hdr hdr; /* SEND */
	union {
		struct {			 /* READ */
			void *dst;		 /* destination */
			struct stmpi_net_mr *mr; /* registration of dst, from this rail */
			uint64_t remote_addr;	 /* from the peer's stmpi_net_mr */
			uint64_t remote_key;
		};
		struct {		     /* FLAG */
			uint64_t value;	     /* to store */
			uint32_t flag_index; /* word in the peer's arena */
		};
		struct stmpi_net_armed
			armed; /* SEND that is queued on a trigger; zeroed otherwise */
	};
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
	uint32_t node_procs; /* processes of the job on this node, as far as known; at least 1 */
	const struct stmpi_net_upcalls *upcalls;
	struct stmpi_flags
		*flags; /* the process's completion words, to be made writable by peers */
	uint64_t uid;	/* unique number of this process in the job */
};

/*
 * Deferred work: works that the network itself fires. A *line* belongs to one trigger: a counter
 * per stretch of shots, which the stream's thread bumps by `fire`.
 */
struct stmpi_line {
	const struct stmpi_defer_ops *ops;
	_Atomic uint64_t ready; /* shots up to here may be fired: their counters are set up */
};

struct stmpi_defer_ops {
	/* A line whose first shot is `first`; stream_calls: the stream's own thread calls fire.
	 * -STMPI_ENOMEM, -STMPI_ENET. */
	int (*open)(struct stmpi_rail *rail, uint64_t first, int stream_calls,
		    struct stmpi_line **line);

	/*
	 * Works that are still armed are made void, fired, and waited for within a bounded time.
	 * Their fn is not called. NULL is allowed.
	 */
	void (*close)(struct stmpi_line *line);

	/* Under the token: make `ready` cover shot if its counter is free again; fired: shots fired
	 * so far. 1 when it does. */
	int (*make_ready)(struct stmpi_line *line, uint64_t shot, uint64_t fired);

	/*
	 * Under the token: queue a work in the network, to go when its shot is fired. Works are
	 * armed in order of shots. -STMPI_EAGAIN: no credit, or the counter is not free yet. 1: too
	 * late, the stream has passed it.
	 */
	int (*arm)(struct stmpi_line *line, struct stmpi_net_work *work, uint64_t fired);

	/* Fire the shots from+1 .. to, all ready. The stream's thread, or the token's holder in its
	 * place. Hot. */
	void (*fire)(struct stmpi_line *line, uint64_t from, uint64_t to);

	/* Under the token: a fired work has been reached: from now on poll looks whether it has
	 * ended. Tells fn of it (STMPI_WORK_FIRED), and may call it again at once when it ended. */
	void (*fly)(struct stmpi_line *line, struct stmpi_net_work *work);

	/* Under the token: fn will not be called any more. */
	void (*forget)(struct stmpi_net_work *work);

	/* Under the token: armed works at most, now, and their highest number so far. */
	void (*stats)(struct stmpi_rail *rail, struct stmpi_defer_stats *stats);
};

/* Common first part of every rail. Read-only for the core. */
struct stmpi_rail {
	const struct stmpi_net_ops *ops;
	const struct stmpi_defer_ops *defer; /* NULL: no deferred work */
	size_t eager_max;		     /* largest payload of a SEND, in bytes */
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

	/*
	 * The core has learnt by itself that the peer's process is gone, and polled for what it had
	 * sent: end the peer's works with an error and call peer_failed, unless that is done.
	 */
	void (*lose)(struct stmpi_rail *rail, struct stmpi_net_peer *peer);

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
