/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core.h: the device, as the MPI layer sees it: engine, streams, communicators, operations.
 * It must not know of mpi.h: ranks, tags and sizes are plain numbers, statuses are images that the
 * MPI layer's callback formats.
 *
 * Threads: every call may be made by any thread unless it says otherwise. None calls MPI.
 * All int results are 0 or -STMPI_E with a text (util/error.h), unless stated.
 */
#ifndef STMPI_CORE_CORE_H
#define STMPI_CORE_CORE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define STMPI_ANY_SOURCE (-2)
#define STMPI_ANY_TAG	 (-1)
#define STMPI_PROC_NULL	 (-1)

#define STMPI_ADDRESS_BYTES 1024 /* one process's address, exchanged by the MPI layer */
#define STMPI_STATUS_BYTES  24	 /* room for a status image */

struct stmpi_stream;
struct stmpi_comm;
struct stmpi_op;

/* How an operation ended. For a send only `error` counts. */
struct stmpi_result {
	int32_t source; /* rank in the communicator; STMPI_PROC_NULL for a null operation */
	int32_t tag;	/* STMPI_ANY_TAG for a null operation */
	int32_t error;	/* 0 or a positive STMPI_E code */
	uint64_t bytes; /* received, at most the size posted */
};

/* ---- engine: one per process ---- */

struct stmpi_engine_attr {
	/*
	 * Format a status image from a result. Called by any thread, also a stream's worker or the
	 * progress thread: it must call neither MPI nor this library. status_bytes of the image are
	 * given to users.
	 */
	void (*format_status)(const struct stmpi_result *result, void *image);
	size_t status_bytes; /* at most STMPI_STATUS_BYTES */
};

/*
 * Start the engine: check parameters, open the shared-memory rail (or, when a provider is forced,
 * the ofi rail), start the progress thread. A second init is a no-op. -STMPI_ECONFIG,
 * -STMPI_ENODEV, -STMPI_ENOMEM.
 */
int stmpi_engine_init(const struct stmpi_engine_attr *attr);

/* Is the engine running? Cheap. */
int stmpi_engine_is_up(void);

/*
 * Wait until every operation that was begun or enqueued has ended and left the process.
 * -STMPI_ETIMEDOUT when the watchdog ended one. Drives progress.
 */
int stmpi_engine_drain(void);

/* Stop the progress thread and close the rails; prints statistics when STMPI_STATS is on. */
void stmpi_engine_fini(void);

/* Make progress once. Returns the number of events; 0 when nothing moved or another thread is at
 * it. */
int stmpi_engine_poll(void);

/*
 * Drive progress until ready(arg) is non-zero: spin, yield, then sleep. ready is called by this
 * thread between polls. 0, or -STMPI_ETIMEDOUT when the watchdog's time has passed.
 */
int stmpi_engine_wait(int (*ready)(void *arg), void *arg);

/*
 * Fill in this process's address (STMPI_ADDRESS_BYTES). It never fails: when the engine could not
 * start (init_error is its code, and the thread's error text says why) the address carries the
 * failure, so that stmpi_engine_check fails alike on every rank. with_net: open the ofi rail first
 * and include its address.
 */
void stmpi_engine_address(void *address, int init_error, int with_net);

/*
 * Look through the addresses of all ranks of a communicator. Every rank comes to the same verdict.
 * *need_net is set when some pair is on different nodes (exchange again with with_net = 1) and the
 * addresses lack the ofi part. -STMPI_ECONFIG: ranks disagree on a parameter (text names it, two
 * ranks and both values); or the code of a rank that could not start, with its text.
 */
int stmpi_engine_check(const void *addresses, int ranks, int *need_net);

/* ---- streams ---- */

/*
 * Make a core stream. type_name NULL: a general stream, on which nothing can be enqueued; else the
 * backend's type and the user's handle. -STMPI_EINVAL (unknown type, wrong handle size, not a live
 * handle), -STMPI_ENODEV.
 */
int stmpi_stream_create(const char *type_name, const void *handle, size_t handle_bytes,
			struct stmpi_stream **stream);
void stmpi_stream_get(struct stmpi_stream *stream);
/* Drop a reference; the last one frees it when its queued operations have ended. NULL is allowed.
 */
void stmpi_stream_put(struct stmpi_stream *stream);
/* 1 when operations can be enqueued on it (not general). */
int stmpi_stream_can_enqueue(const struct stmpi_stream *stream);
/* Take the sticky error: 0, or the positive STMPI_E code of the first failure nobody was told of.
 */
int stmpi_stream_take_error(struct stmpi_stream *stream);

/* ---- communicators ---- */

/*
 * Could this process use context id ctx for a new communicator? The MPI layer proposes ids and
 * agrees on one that is free everywhere. stmpi_context_propose never returns one twice.
 */
uint32_t stmpi_context_propose(void);
int stmpi_context_is_free(
	uint32_t ctx); /* 1 also when this process proposed it and uses it nowhere */

/*
 * Make a communicator. addresses: of all ranks in rank order, checked, may be freed after. stream
 * may be NULL; a reference is taken. Connects to all ranks. From the return on, messages of ctx are
 * matched here: every rank must have returned from it before any rank sends (the MPI layer's
 * barrier).
 */
int stmpi_comm_create(uint32_t ctx, int rank, int ranks, const void *addresses,
		      struct stmpi_stream *stream, struct stmpi_comm **comm);
/* The same processes and rank under a new ctx and stream, without addresses. */
int stmpi_comm_dup(const struct stmpi_comm *comm, uint32_t ctx, struct stmpi_stream *stream,
		   struct stmpi_comm **copy);
/* Drop the caller's reference: freed when its operations have ended. NULL is allowed. */
void stmpi_comm_put(struct stmpi_comm *comm);
struct stmpi_stream *stmpi_comm_stream(const struct stmpi_comm *comm); /* borrowed; may be NULL */
int stmpi_comm_rank(const struct stmpi_comm *comm);
int stmpi_comm_ranks(const struct stmpi_comm *comm);

/* ---- operations ---- */

enum stmpi_op_kind {
	STMPI_OP_SEND,	/* standard mode: may end when the buffer can be reused */
	STMPI_OP_SSEND, /* synchronous mode: ends when it has been matched */
	STMPI_OP_RECV,
};

/* What to do. Ranks, tags and sizes have been checked by the caller. */
struct stmpi_op_args {
	enum stmpi_op_kind kind;
	struct stmpi_comm *comm;
	void *buf; /* bytes of it; not written for sends; the user's until the operation has ended
		    */
	uint64_t bytes;
	int32_t peer; /* rank, STMPI_PROC_NULL, or for receives STMPI_ANY_SOURCE */
	int32_t tag;  /* or for receives STMPI_ANY_TAG */
};

/*
 * Begin an operation now, as an ordinary call does. *op belongs to the caller until stmpi_op_free.
 * -STMPI_ENOMEM; other failures end the operation.
 */
int stmpi_op_start(const struct stmpi_op_args *args, struct stmpi_op **op);

/*
 * Queue an operation on the communicator's stream: it begins when the stream reaches it. *op as
 * above; it must be given to stmpi_op_enqueue_wait or stmpi_op_free.
 */
int stmpi_op_enqueue(const struct stmpi_op_args *args, struct stmpi_op **op);

/*
 * The same with its wait behind it, as one unit; nothing is left to free. The image of its status
 * (status_bytes) is copied to *status in stream order; status may be NULL, and must else stay valid
 * until the stream has passed.
 */
int stmpi_op_enqueue_blocking(const struct stmpi_op_args *args, void *status);

/*
 * Queue the waits for n operations, all enqueued on the same stream, none waited for before
 * (checked by the caller with stmpi_op_stream). statuses[i] as for the blocking form; statuses may
 * be NULL. Takes the operations over. On error nothing has been queued and the operations stay the
 * caller's.
 */
int stmpi_op_enqueue_wait(struct stmpi_op *const *ops, int n, void *const *statuses);

/* The stream that it was enqueued on; NULL for one that was started. */
struct stmpi_stream *stmpi_op_stream(const struct stmpi_op *op);

/* 1 when it has ended (acquire: its data and result may be read). No progress is made. */
int stmpi_op_is_done(const struct stmpi_op *op);

/*
 * How it ended; only after stmpi_op_is_done. What was received into device memory is put there now,
 * when no stream has been told to wait for it: then this call waits for that copy.
 */
void stmpi_op_result(struct stmpi_op *op, struct stmpi_result *result);

/*
 * A word of the caller's own per operation (the MPI layer keeps its request there). Not read by the
 * core.
 */
void stmpi_op_set_user(struct stmpi_op *op, uint64_t user);
uint64_t stmpi_op_user(const struct stmpi_op *op);

/* Give an operation up. One that has not ended still runs to its end first. NULL is allowed. */
void stmpi_op_free(struct stmpi_op *op);

/* Drive progress until op has ended, by itself or by the watchdog. Always 0: see its result. */
void stmpi_op_wait(struct stmpi_op *op);

/*
 * Look for a message without receiving it, after one round of progress. Returns 1 and *result when
 * there is one, 0 when not, -STMPI_EPEER when the source (a rank) is dead.
 */
int stmpi_probe(struct stmpi_comm *comm, int32_t source, int32_t tag, struct stmpi_result *result);

#endif
