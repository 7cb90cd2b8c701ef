/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpix_int.h: what the files of the MPI layer share. The only layer that knows mpi.h; it must not
 * know of networks or stream backends.
 *
 * Two naming rules: MPI_ and MPIX_ functions are what programs call; everything else here is mpix_
 * and hidden. Inside the layer MPI is called by its PMPI_ names only.
 */
#ifndef STMPI_MPIX_INT_H
#define STMPI_MPIX_INT_H

#include <mpi.h>
#include <stdint.h>

#include "mpix.h"

#include "core/core.h"
#include "map.h"
#include "util/compiler.h"

_Static_assert(STMPI_ANY_SOURCE == MPI_ANY_SOURCE && STMPI_ANY_TAG == MPI_ANY_TAG &&
		       STMPI_PROC_NULL == MPI_PROC_NULL,
	       "the core's special numbers are this MPI's");
_Static_assert(sizeof(MPI_Status) <= STMPI_STATUS_BYTES, "a status image has room for MPI_Status");
_Static_assert(sizeof(MPI_Comm) == 4 && sizeof(MPI_Request) == 4, "MPICH's ABI: handles are int");

static inline uint64_t mpix_key(int handle)
{
	return (uint32_t)handle;
}

/* ---- init.c: start and end ---- */

/* Is MPI initialised and not finalised? */
int mpix_mpi_is_up(void);

/*
 * Make what the layer needs from MPI, once. 0, or an MPI error code that has been through the error
 * handler of MPI_COMM_SELF. func names the caller's call.
 */
int mpix_start(const char *func);

/* Start the engine, after mpix_start. 0 or -STMPI_E with its text. */
int mpix_engine_start(void);

/* Of mpix_start: keyvals for communicators and datatypes, and a communicator that returns its
 * errors. */
extern int mpix_comm_keyval, mpix_type_keyval;
extern MPI_Comm mpix_private_comm;

/* ---- progress.c: what a call of MPI does while it waits here ---- */

/* Of mpix_start and the end. MPI's code. */
int mpix_progress_init(void);
void mpix_progress_fini(void);

/* Let MPI make progress once: a peer may need it before it does what we wait for. */
void mpix_mpi_progress(void);

/* A round of a wait has been fruitless: let MPI make progress, in some of the first rounds. */
static inline void mpix_mpi_tick(uint32_t *rounds)
{
	if (++*rounds % 64 == 0 || *rounds > 1024)
		mpix_mpi_progress();
}

/* Wait for the end of an operation, with our progress and MPI's. */
void mpix_op_wait(struct stmpi_op *op);

/* One round of both; is the operation done? */
int mpix_op_test(const struct stmpi_op *op);

/* ---- error.c ---- */

/*
 * Make an MPI error code of a predefined class with a text, tell the error handler of comm
 * (MPI_COMM_NULL: of MPI_COMM_SELF), and return the code. Before MPI_Init and after MPI_Finalize:
 * print, return the class.
 */
int mpix_fail(MPI_Comm comm, int class, const char *format, ...) stmpi_printf_like(3, 4);

/* The code alone, for statuses. */
int mpix_code(int class, const char *format, ...) stmpi_printf_like(2, 3);

/* Tell the error handler of comm of a code made before. Returns it. */
int mpix_raise(MPI_Comm comm, int code);

/* The MPI class of an STMPI_E code; the sign is ignored. */
int mpix_class(int error);

/* ---- stream.c: MPIX_Stream handles ---- */

/*
 * The core's stream of a handle, with a reference: *core is NULL for MPIX_STREAM_NULL. 0, or
 * -STMPI_EINVAL with a text: freed, or never a stream.
 */
int mpix_stream_lookup(MPIX_Stream handle, struct stmpi_stream **core);

/* Give all streams up. */
void mpix_stream_fini(void);

/* ---- comm.c: stream communicators ---- */

/* One per stream communicator. Type-stable: reused, freed after the last MPI call only. */
struct mpix_comm {
	MPI_Comm handle;     /* MPI_COMM_NULL while unused */
	uint32_t generation; /* counts the uses */
	struct stmpi_comm *core;
	struct stmpi_stream *stream; /* borrowed from core; NULL without one */
	MPIX_Stream stream_handle;
	int can_enqueue;
	int rank, ranks;
	int tag_ub;
	struct mpix_comm *next;
};

extern struct mpix_map mpix_comms;
extern _Atomic uint32_t mpix_comm_count;

/* The stream communicator of a handle, NULL when it is none. Hot: one branch where there are none
 * at all. */
static inline struct mpix_comm *mpix_comm_find(MPI_Comm comm)
{
	/* Relaxed: who has the handle of a stream communicator has synchronised with its making. */
	if (stmpi_likely(atomic_load_explicit(&mpix_comm_count, memory_order_relaxed) == 0))
		return NULL;
	return mpix_map_find(&mpix_comms, mpix_key(comm));
}

/* The attribute's delete callback. */
int mpix_comm_deleted(MPI_Comm comm, int keyval, void *value, void *extra);

/* Forget every stream communicator that is left. */
void mpix_comm_fini(void);

/* Make handle a stream communicator; takes core over. 0 or -STMPI_ENOMEM with a text. */
int mpix_comm_enter(MPI_Comm handle, struct stmpi_comm *core, MPIX_Stream stream);

/* ---- agree.c: the part of making one that all its processes do together ---- */

/*
 * Agrees on a context id, makes the core's communicator and enters it; in steps, so that
 * MPI_Comm_idup need not block. The caller sets the first fields, the rest zero.
 */
struct mpix_agree {
	MPI_Comm comm; /* new, with the right processes */
	MPIX_Stream stream_handle;
	struct stmpi_stream *stream;
	const struct stmpi_comm *parent; /* to be duplicated; or NULL: */
	const void *addresses;		 /* of all processes */

	int step, is_begun;
	MPI_Request pending; /* of a step that is begun */
	uint32_t proposal, context;
	int mine, all;
	int error; /* negative STMPI_E code when this process failed */
};

/*
 * Go on as far as possible. 0: some process is awaited (on pending); 1: ended, ->all is the lowest
 * rank that failed, or INT_MAX and comm is a stream communicator; negative: MPI failed, the code
 * negated.
 */
int mpix_agree_step(struct mpix_agree *a);

/* All steps, blocking. MPI_SUCCESS or MPI's code; see ->all. */
int mpix_agree_run(struct mpix_agree *a);

/* ---- datatype.c ---- */

/*
 * Bytes of one element of a contiguous, committed datatype. Negative: -MPI class, and *why says
 * what is wrong.
 */
int64_t mpix_type_size_slow(MPI_Datatype type, const char **why);

/* Sizes of predefined types, filled as they are met: handle in the upper half, size + 1 below. */
extern _Atomic uint64_t mpix_type_cache[256];

static inline int64_t mpix_type_size(MPI_Datatype type, const char **why)
{
	/* Relaxed: one word, complete in itself. */
	uint64_t e =
		atomic_load_explicit(&mpix_type_cache[(uint32_t)type & 255], memory_order_relaxed);

	if (stmpi_likely(e >> 32 == (uint32_t)type && (uint32_t)e != 0))
		return (int64_t)((uint32_t)e - 1);
	return mpix_type_size_slow(type, why);
}

/* ---- args.c ---- */

/*
 * Check the arguments of a point-to-point call and fill *args in. MPI_SUCCESS, or the error code
 * after the handler of the communicator was told.
 */
int mpix_args(const char *func, struct mpix_comm *c, enum stmpi_op_kind kind, const void *buf,
	      MPI_Count count, MPI_Datatype type, int peer, int tag, struct stmpi_op_args *args);

/* Check a source and tag for a probe. */
int mpix_probe_args(const char *func, struct mpix_comm *c, int source, int tag);

/* ---- status.c ---- */

/* stmpi_engine_attr.format_status: a whole MPI_Status. */
void mpix_status_format(const struct stmpi_result *result, void *image);

/* Set all but MPI_ERROR, as calls that complete one operation do. status may be MPI_STATUS_IGNORE.
 */
void mpix_status_set(MPI_Status *status, const struct stmpi_result *result);

/* The status of a null request. */
void mpix_status_empty(MPI_Status *status);

/* ---- request.c: requests and their operations ---- */

/*
 * One per generalised request of ours. A request that MPI has not completed goes back to a pool
 * with its handle when its operation is over, so that a request costs no call of MPI.
 */
struct mpix_req {
	MPI_Request handle;
	uint32_t comm_generation;
	struct mpix_comm *comm;
	struct stmpi_op *op;	 /* NULL in the pool */
	_Atomic int is_complete; /* MPI has been told: cannot be reused */
	int mark;		 /* scratch of a call that looks for duplicates */
	struct mpix_req *next;	 /* in the pool */
};

extern struct mpix_map mpix_reqs;
extern _Atomic uint32_t mpix_req_count; /* handles in the map, held by the program or in the pool */

/* Has MPI no request of ours at all? Hot. */
static inline int mpix_req_none(void)
{
	/* Relaxed: who has a request of ours has synchronised with its making. */
	return stmpi_likely(atomic_load_explicit(&mpix_req_count, memory_order_relaxed) == 0);
}

/*
 * Our request of a handle; NULL when it is the MPI's. One with op == NULL is stale, completed or
 * freed before: it must not be passed on to MPI, which would wait for ever or free it.
 */
static inline struct mpix_req *mpix_req_find(MPI_Request request)
{
	return mpix_map_find(&mpix_reqs, mpix_key(request));
}

/* Report a stale request. */
int mpix_req_stale(const char *func, MPI_Request request);

/* Take a request for an operation to come. MPI_SUCCESS or an MPI error code (already raised). */
int mpix_req_get(const char *func, struct mpix_comm *c, struct mpix_req **req);

/* Give it back; its operation has been freed or handed over. Its handle is invalid then. */
void mpix_req_put(struct mpix_req *req);

/* The communicator to whose error handler its errors go; MPI_COMM_NULL when it has been freed. */
MPI_Comm mpix_req_comm(const struct mpix_req *req);

/* Complete a request whose operation is done: *result, and free both. */
void mpix_req_finish(struct mpix_req *req, struct stmpi_result *result);

/* Complete a request in MPI when its operation is done, so that MPI's own calls see it. */
void mpix_req_tell(struct mpix_req *req);

/* MPI code for the result of an operation: MPI_SUCCESS, or an error with a text. Not raised. */
int mpix_result_code(const char *func, const struct stmpi_result *result);

/* Complete and free what the pool holds. */
void mpix_req_fini(void);

#endif
