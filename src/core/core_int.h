/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core_int.h: the core's own structures. For files of src/core only.
 *
 * The engine's token (progress.c) guards everything here that does not say otherwise.
 */
#ifndef STMPI_CORE_CORE_INT_H
#define STMPI_CORE_CORE_INT_H

#include <pthread.h>
#include <stdio.h>
#include <uthash.h>

#include "core/core.h"
#include "core/match.h"
#include "net/net.h"
#include "net/trigger.h"
#include "stream/stream.h"
#include "util/compiler.h"

/* ---- peers ---- */

/* A packet that carries no user data and found no room; sent from poll. */
struct stmpi_ctrl {
	struct stmpi_net_work net;
	struct stmpi_ctrl *next, *prev;
};

/* A peer process. Made at the first communicator with it, lives until the engine ends. */
struct stmpi_proc {
	uint64_t uid;
	struct stmpi_rail *rail;
	struct stmpi_net_peer *peer;
	size_t eager_max;      /* largest payload sent at once */
	int error;	       /* positive STMPI_E code once it is dead */
	int pidfd;	       /* watched by stmpi_proc_look; -1: not */
	uint64_t exit_seen_ns; /* when it was first seen to have exited; 0: never */
	uint32_t credits; /* eager packets that may still be sent before it must have received some
			   */
	uint32_t owed;	  /* its eager packets that were received here since it was last told */
	struct stmpi_op *sendq, *sendq_tail; /* started sends that found no room, in order */
	_Atomic uint32_t is_stuck; /* 1 while sendq is not empty: streams must not fire over it */
	struct stmpi_ctrl *ctrlq;  /* the same for control packets (utlist DL) */
	struct stmpi_proc *busy_next; /* in engine.busy while a queue is not empty */
	int is_busy;
	UT_hash_handle hh; /* by uid */
};

/* ---- packets for device memory (stage.c) ---- */

#define STMPI_STAGE_MIN	    12u /* the smallest packet has 4 KiB; each class twice the one before */
#define STMPI_STAGE_CLASSES 32u

struct stmpi_stage {
	void *mem;
	unsigned class;
	struct stmpi_stage *next; /* in one list of its stream's pool while not in use */
};

/* The packets of one stream. */
struct stmpi_stage_pool {
	struct stmpi_stage *local[STMPI_STAGE_CLASSES]; /* the stream's mutex */
	struct stmpi_stage *_Atomic returned;		/* pushed under the token */
	struct stmpi_stage_block *blocks;		/* all memory; the stream's mutex */
};

/* ---- operations ---- */

enum stmpi_op_state {
	STMPI_STATE_FREE,
	STMPI_STATE_QUEUED,  /* enqueued; the stream has not reached it */
	STMPI_STATE_SENDQ,   /* send: no room yet */
	STMPI_STATE_POSTED,  /* receive: no message yet */
	STMPI_STATE_RTS,     /* send: announced, the peer will read it and write the word */
	STMPI_STATE_ACK,     /* send: sent, the peer will write the word when it has matched */
	STMPI_STATE_SENDING, /* send: the rail still holds the buffer */
	STMPI_STATE_READING, /* receive: matched, data is being read */
	STMPI_STATE_DONE,
};

enum {
	STMPI_OP_F_STATUS = 1u << 0, /* a status image is, or may be, wanted */
	STMPI_OP_F_ORPHAN = 1u << 1, /* its owner gave it up: free it when it has ended */
	STMPI_OP_F_SPENT = 1u << 2,  /* ended by force: its word is never used again */
};

/* Payload of a ready-to-send packet. */
struct stmpi_rts {
	uint64_t addr, bytes, key;
};

/* Operations of one owner. Taken under the owner's lock, given back under the token. */
struct stmpi_op_pool {
	struct stmpi_op *local;		   /* owner's lock */
	struct stmpi_op *_Atomic returned; /* a list: put there under the token when NULL, taken
					      whole by the owner */
	struct stmpi_op *batch;		   /* token: given back since */
	struct stmpi_op_chunk
		*_Atomic chunks; /* all memory, newest first; pushed by the owner, read by all */
	_Atomic uint64_t taken;	 /* written by the owner only */
	_Atomic uint64_t given;	 /* written under the token only */
};

struct stmpi_op {
	struct stmpi_work start;  /* queued on the stream's trigger */
	struct stmpi_work retire; /* the same, behind the wait */
	struct stmpi_work tell;	  /* the same, where the stream cannot copy the status itself */
	uint64_t *word; /* completion word: has reached gen when the operation has ended, gen + 1
			   when its status has been told */
	uint64_t gen;
	struct stmpi_comm *comm;     /* counted there until given back */
	struct stmpi_stream *stream; /* borrowed from comm; NULL when started by an ordinary call */
	struct stmpi_proc
		*proc; /* the peer; NULL for a null operation or a wildcard not yet matched */
	void *buf;
	uint64_t bytes;
	struct stmpi_stage *stage; /* the packet that buf is in; NULL: buf is the user's */
	void *user_buf;		   /* device memory; with stage only */
	void *status;  /* where the engine copies the image before the word; NULL: nowhere */
	void *tell_to; /* where `tell` copies it; set before its doorbell */
	int32_t peer;
	int32_t tag;
	uint32_t word_index;
	uint8_t kind; /* enum stmpi_op_kind */
	_Atomic uint8_t
		state; /* written by the owner until queued, then under the token; dumps read it */
	uint8_t flags; /* STMPI_OP_F_*: set by the owner before it is queued, ORPHAN under the token
			*/
	uint8_t armed_as;   /* proto.c: which packet was prepared for it; the token */
	uint8_t is_armable; /* its `net` is queued on the trigger in place of `start` */
	uint8_t is_landed;  /* staged receive: its data is, or will be, in user_buf; the owner's */
	_Atomic uint8_t untold; /* waited for without a status: an error must stick to the stream */
	uint32_t started_tick;	/* engine tick at the start */
	struct stmpi_result result;		 /* complete before the word is released */
	unsigned char image[STMPI_STATUS_BYTES]; /* the same, formatted */
	uint64_t user;
	struct stmpi_net_mr *mr; /* rendezvous: registration of buf */
	struct stmpi_op_pool *pool;
	struct stmpi_op *next; /* sendq, pool, orphans or read queue: in one of them at most */
	union {
		struct stmpi_match_recv match; /* receive, until matched */
		struct {
			struct stmpi_net_work net;
			union {
				struct stmpi_rts rts; /* send: payload of the announcement */
				uint64_t peer_cookie; /* receive: the sender's word */
			};
		};
	};
};

#define STMPI_OP_CHUNK 64u

struct stmpi_op_chunk {
	struct stmpi_op_chunk *next;
	struct stmpi_op ops[STMPI_OP_CHUNK];
};

/* ---- communicators and streams ---- */

/* Lives until its owner has dropped it and every operation that named it was given back. */
struct stmpi_comm {
	_Atomic uint64_t queued; /* operations enqueued; written under the stream's mutex */
	uint64_t started;	 /* operations begun by ordinary calls */
	uint64_t given;		 /* of both kinds, given back */
	int is_dropped;
	uint32_t ctx;
	int rank;
	int ranks;
	struct stmpi_stream *stream; /* a reference, or NULL */
	struct stmpi_proc *procs[];  /* by rank */
};

/*
 * Type-stable: a stream's memory is reused, never freed before the engine ends, because a worker
 * may still be inside the doorbell call of a stream whose last operation another thread has
 * retired.
 */
struct stmpi_stream {
	pthread_mutex_t mutex; /* guards ticket, pool and the order of queueing; taken before the
				  token, never after */
	_Atomic uint32_t refs;
	const struct stmpi_stream_ops *ops; /* NULL: a general stream */
	struct stmpi_stream_port *port;
	uint64_t *doorbell;	 /* written by the stream, read under the token */
	_Atomic uint64_t ticket; /* thresholds given out; written under the mutex */
	_Atomic uint64_t rung;	 /* the newest that the stream took; written under the mutex */
	uint32_t words_mapped;	 /* completion words known to its device; the mutex */
	int has_trailing;	 /* a copy is queued behind the newest doorbell write; the mutex */
	struct stmpi_stage_pool stages;
	uint64_t shots; /* given out to sends that can be armed; the mutex */
	struct stmpi_trigger *trigger;
	struct stmpi_op_pool pool; /* owner's lock: mutex */
	_Atomic int error;	   /* sticky: first failure nobody was told of */
	_Atomic int is_open;	   /* 1 while the engine must look at the doorbell */
	uint32_t id;		   /* for people */
	struct stmpi_stream *next; /* all streams ever made; constant */
};

/* The newest ticket; the mutex's holder is its only writer, so it needs no order. */
static inline uint64_t stmpi_stream_ticket(struct stmpi_stream *s)
{
	return atomic_load_explicit(&s->ticket, memory_order_relaxed);
}

/* ---- engine ---- */

struct stmpi_stats {
	uint64_t eager, rendezvous, received, unexpected, unexpected_now, unexpected_max;
	uint64_t no_room, no_credit, credit_packets, retired, truncated, failed;
};

struct stmpi_engine {
	/* The token: 0 free, 1 held, 2 held and another thread asks the holder to look again. */
	STMPI_CACHE_ALIGNED _Atomic uint32_t token;

	/* Under the token. */
	STMPI_CACHE_ALIGNED struct stmpi_rail *shm;
	struct stmpi_rail *_Atomic
		ofi; /* written under the token; the progress thread asks whether it is there */
	struct stmpi_proc *busy;	     /* peers with queues */
	struct stmpi_op *reads, *reads_tail; /* receives whose READ found no room */
	struct stmpi_op *orphans;	     /* given-up sends that end by a peer's write */
	struct stmpi_proc *procs;	     /* uthash by uid */
	struct stmpi_flags flags;	     /* also under flags_mutex, for pools of streams */
	struct stmpi_op_pool pool;	     /* ordinary operations; owner's lock: the token */
	struct stmpi_stats stats;
	_Atomic uint64_t
		polls; /* rounds made; written under the token, read by the progress thread */
	uint32_t dumps_asked; /* dump requests answered */
	struct stmpi_match match;

	/* Constant after init. */
	struct stmpi_engine_attr attr;
	struct stmpi_net_upcalls upcalls;
	uint64_t uid;
	uint64_t node;
	uint32_t credits;	     /* per peer */
	_Atomic uint32_t node_procs; /* most ranks of one communicator on this node so far */
	uint32_t watchdog_ticks;     /* 0: none */
	int forces_ofi;
	int forces_shm;
	unsigned char image_send[STMPI_STATUS_BYTES]; /* status of a send that went well */

	/* Any thread. */
	_Atomic int is_up;
	_Atomic uint32_t tick; /* 10 ms units since init; moved, only forwards, by whoever looks at
				  the clock */
	_Atomic uint32_t next_ctx;
	struct stmpi_stream *_Atomic streams; /* list through next, newest first */
	pthread_mutex_t mutex;		      /* contexts, stream reuse, flags; innermost lock */
	unsigned char *ctx_used;	      /* mutex: a bit per context id */
	uint32_t ctx_bits;
	uint64_t start_ns;

	/* Progress thread. */
	pthread_t thread;
	int has_thread;
	_Atomic int stop;
	_Atomic uint32_t naps; /* futex: 1 while the progress thread naps */
	uint32_t watch_tick;   /* token: when the watchdog last looked */
	uint32_t look_tick;    /* token: when dead peers were last looked for */
};

extern struct stmpi_engine stmpi_engine;

/* Ticks from then to now; 0 when `then` is the later one: threads that look at the clock may be
 * held up between their look and what they do with it. */
static inline uint32_t stmpi_ticks_between(uint32_t then, uint32_t now)
{
	return (int32_t)(now - then) > 0 ? now - then : 0;
}

/* Does the stream tell us when it has written its doorbell, or must we look? */
static inline int stmpi_stream_drives(const struct stmpi_stream *s)
{
	return (s->ops->caps & STMPI_STREAM_CAP_DRIVES_PROGRESS) != 0;
}

/* progress.c: the token and everything that waits */
int stmpi_token_try(void);
void stmpi_token_lock(void);
void stmpi_token_release(void);
int stmpi_progress_poll_locked(void);
int stmpi_progress_start(void);
void stmpi_progress_stop(void);
/* Something is pending on a stream that nobody but the progress thread looks after. Any thread. */
void stmpi_progress_wake(void);
extern const struct stmpi_stream_hook stmpi_progress_hook;

/* op.c: write the doorbell behind the copies that are queued behind its last write. Takes the
 * mutex. */
void stmpi_stream_flush(struct stmpi_stream *s);

/* stage.c; all but _put under the stream's mutex, or while nobody else has the stream */
int stmpi_stage_open(struct stmpi_stream *s);	   /* after the port was attached */
int stmpi_stage_map_words(struct stmpi_stream *s); /* all words handed out so far */
int stmpi_stage_get(struct stmpi_stream *s, size_t bytes, struct stmpi_stage **packet);
void stmpi_stage_put(struct stmpi_stream *s, struct stmpi_stage *packet);
void stmpi_stage_free(struct stmpi_stream *s, struct stmpi_stage *packet);
void stmpi_stage_forget(struct stmpi_stream *s); /* packets that may still be in use: never used
						    again */
void stmpi_stage_fini(struct stmpi_stream *s);

/* proc.c: peers */
int stmpi_proc_get(const void *address, struct stmpi_proc **proc);
void stmpi_proc_failed(void *arg, void *user, int error);
void stmpi_proc_look(void);
void stmpi_proc_free_all(void);

/* comm.c */
void stmpi_comm_free_if_unused(struct stmpi_comm *comm);

/* op.c: pools and completion; all but _alloc under the token */
struct stmpi_op *stmpi_op_alloc(struct stmpi_op_pool *pool);
void stmpi_op_release(struct stmpi_op *op);
void stmpi_op_complete(struct stmpi_op *op, int error);
void stmpi_op_pool_fini(struct stmpi_op_pool *pool);
void stmpi_op_scan_orphans(void);
/* Call fn for every operation in use; it may end the operation. Under the token. */
void stmpi_op_for_each(void (*fn)(struct stmpi_op *op, void *arg), void *arg);

/* proto.c: protocols; all under the token */
void stmpi_proto_start(struct stmpi_op *op);
void stmpi_proto_packet(void *arg, void *user, const struct stmpi_net_hdr *hdr, const void *payload,
			size_t bytes);
int stmpi_proto_push(void);
/* End an operation that waits for its peer; 1 when it did. */
int stmpi_proto_abandon(struct stmpi_op *op, int error);
void stmpi_proto_fini(void);
/* A send on a stream that its rail may arm: see stmpi_net_armed. */
void stmpi_proto_make_armable(struct stmpi_op *op, uint64_t shot);

/* dump.c: the list of pending operations, one line each; under the token */
void stmpi_engine_dump(FILE *out);
int stmpi_dump_install(void);
uint32_t stmpi_dump_requests(void);
void stmpi_dump_stats(FILE *out);

#endif
