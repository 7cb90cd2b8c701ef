/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stmpi_host.h: streams and events on the host, for programs without a GPU.
 *
 * A host stream is one worker thread with an in-order queue: an entry starts when the one before it
 * has ended. The calls have the shape of their CUDA namesakes. Every call may be made from any
 * thread at any time, from inside a launched function too unless it says otherwise; calls that
 * queue work return before the work has run. All return 0 or the negative of an enum stmpi_error
 * value.
 */
#ifndef STMPI_HOST_H
#define STMPI_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "stmpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Handles. Pass the bytes of a stream handle to MPIX_Info_set_hex under the key "value". */
typedef struct stmpi_host_stream *stmpi_host_stream_t;
typedef struct stmpi_host_event *stmpi_host_event_t;

/**
 * Create a stream and start its worker thread.
 * @param stream out: the new stream; unchanged on error.
 * Errors: -STMPI_EINVAL (stream is NULL), -STMPI_ENOMEM (no memory or thread).
 */
int stmpi_host_stream_create(stmpi_host_stream_t *stream);

/**
 * Give up a stream. Returns at once; work that is queued still runs, after which the worker ends.
 * The handle is invalid for the caller from here on. An MPIX_Stream made from it stays usable.
 * Errors: -STMPI_EINVAL (not a live stream).
 */
int stmpi_host_stream_destroy(stmpi_host_stream_t stream);

/**
 * Queue a call of fn(arg), made by the worker thread.
 * @param fn may call this API on any stream, but not synchronise its own stream (-STMPI_EINVAL).
 * @param arg passed through; must live until fn has run.
 * Errors: -STMPI_EINVAL, -STMPI_ENOMEM.
 */
int stmpi_host_stream_launch(stmpi_host_stream_t stream, void (*fn)(void *arg), void *arg);

/**
 * Queue a 64-bit store of value to *addr, with release ordering for all earlier work of the stream.
 * @param addr 8-byte aligned; must stay valid until the store has happened.
 * Errors: -STMPI_EINVAL (NULL or misaligned), -STMPI_ENOMEM.
 */
int stmpi_host_stream_write_value64(stmpi_host_stream_t stream, uint64_t *addr, uint64_t value);

/**
 * Queue a wait until (int64_t)(*addr - value) >= 0; later work sees what was written before that
 * store.
 * @param addr 8-byte aligned; must stay valid until the wait has ended.
 * Errors: -STMPI_EINVAL, -STMPI_ENOMEM.
 */
int stmpi_host_stream_wait_value64(stmpi_host_stream_t stream, const uint64_t *addr,
				   uint64_t value);

/**
 * Queue a copy of bytes from src to dst. The ranges must not overlap and must live until it has
 * run. bytes may be 0, with NULL pointers then. Errors: -STMPI_EINVAL, -STMPI_ENOMEM.
 */
int stmpi_host_stream_memcpy_async(stmpi_host_stream_t stream, void *dst, const void *src,
				   size_t bytes);

/** Return 0 when all work queued so far has ended, 1 when some has not, -STMPI_EINVAL. */
int stmpi_host_stream_query(stmpi_host_stream_t stream);

/** Block until all work that was queued before the call has ended. Errors: -STMPI_EINVAL. */
int stmpi_host_stream_synchronize(stmpi_host_stream_t stream);

/** Make an event, not yet recorded. Errors: -STMPI_EINVAL, -STMPI_ENOMEM. */
int stmpi_host_event_create(stmpi_host_event_t *event);

/**
 * Give up an event. Returns at once; a queued record or wait that uses it still works.
 * Errors: -STMPI_EINVAL.
 */
int stmpi_host_event_destroy(stmpi_host_event_t event);

/**
 * Queue the recording of an event: it is ready when all earlier work of the stream has ended.
 * Recording again moves the event: later queries and waits mean the newest record.
 * Errors: -STMPI_EINVAL, -STMPI_ENOMEM.
 */
int stmpi_host_event_record(stmpi_host_event_t event, stmpi_host_stream_t stream);

/** Return 0 when the newest record has been reached or none was made, 1 when not, -STMPI_EINVAL. */
int stmpi_host_event_query(stmpi_host_event_t event);

/**
 * Block until stmpi_host_event_query would return 0. Not from a launched function whose own stream
 * still has the record queued: it would wait for itself. Errors: -STMPI_EINVAL.
 */
int stmpi_host_event_synchronize(stmpi_host_event_t event);

/**
 * Queue a wait for the newest record of event at the time of this call (none: no wait).
 * Errors: -STMPI_EINVAL, -STMPI_ENOMEM.
 */
int stmpi_host_stream_wait_event(stmpi_host_stream_t stream, stmpi_host_event_t event);

/**
 * Give the time between two recorded events, in nanoseconds (negative if end came first).
 * @param ns out: unchanged on error.
 * Errors: -STMPI_EINVAL; -STMPI_ENOTREADY (one was never recorded, or has not been reached).
 */
int stmpi_host_event_elapsed_ns(stmpi_host_event_t start, stmpi_host_event_t end, int64_t *ns);

#ifdef __cplusplus
}
#endif
#endif /* STMPI_HOST_H */
