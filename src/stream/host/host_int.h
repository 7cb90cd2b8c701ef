/* SPDX-License-Identifier: BSD-3-Clause */
/* host_int.h: the host backend's own structures. */
#ifndef STMPI_STREAM_HOST_HOST_INT_H
#define STMPI_STREAM_HOST_HOST_INT_H

#include <pthread.h>

#include "stmpi_host.h"
#include "stream/host/host.h"
#include "util/compiler.h"
#include "util/spscq.h"

enum host_entry_kind {
	HOST_DOORBELL, /* store b to *a, then tell port c */
	HOST_FIRE,     /* tell port c to fire work a, whose ticket is b */
	HOST_WRITE,    /* store b to *a */
	HOST_WAIT,     /* until *a has reached b */
	HOST_COPY,     /* b bytes from c to a */
	HOST_LAUNCH,   /* call a(c) */
	HOST_RECORD,   /* mark a */
	HOST_UNMARK,   /* drop a reference of mark a */
	HOST_NOTIFY,   /* wake the synchronising thread that waits on a */
	HOST_DETACH,   /* free port a */
	HOST_EXIT,     /* end the worker */
};

/* One queue entry. */
struct host_entry {
	uint64_t kind;
	union {
		void *a;
		void (*fn)(void *arg);
	};
	uint64_t b;
	const void *c;
};

struct stmpi_host_stream {
	pthread_mutex_t mutex;			   /* producers of q */
	struct stmpi_spscq q;			   /* consumer: the worker */
	_Atomic uint64_t queued;		   /* entries published; written under the mutex */
	STMPI_CACHE_ALIGNED _Atomic uint64_t done; /* entries ended; written by the worker */
	STMPI_CACHE_ALIGNED _Atomic uint32_t is_asleep; /* futex: the worker sleeps while it is 1 */
	_Atomic uint32_t refs; /* the user's, one per port, one per call in progress */
	pthread_t worker;
};

/* Where a stream records an event; one per record, shared by those that wait for that record. */
struct host_mark {
	_Atomic uint32_t refs;
	uint64_t reached; /* completion word: 1 when the stream has come by */
	uint64_t time_ns; /* written before `reached` */
};

struct stmpi_host_event {
	_Atomic uint32_t refs;	/* the user's and one per call in progress */
	pthread_mutex_t mutex;	/* guards mark */
	struct host_mark *mark; /* the newest record, a reference; NULL before the first */
};

struct host_port {
	struct stmpi_stream_port port;
	struct stmpi_host_stream *stream; /* a reference */
	const struct stmpi_stream_hook *hook;
	void *arg;
};

/* host.c: each _get takes a reference, NULL when the handle is not alive. */
struct stmpi_host_stream *host_stream_get(stmpi_host_stream_t handle);
void host_stream_put(struct stmpi_host_stream *stream);
struct stmpi_host_event *host_event_get(stmpi_host_event_t handle);
void host_event_put(struct stmpi_host_event *event);
/* handles.c: which handles are alive. */
enum host_handle_kind {
	HOST_STREAM,
	HOST_EVENT
};

int host_handle_add(const void *handle, enum host_handle_kind kind);
int host_handle_remove(const void *handle, enum host_handle_kind kind); /* 1 when it was alive */
int host_handle_is_live(const void *handle, enum host_handle_kind kind, size_t offset);

/* host.c: queue entries as one unit; 0 or -STMPI_ENOMEM */
int host_queue(struct stmpi_host_stream *stream, const struct host_entry *entries, int n);

/* worker.c */
int host_worker_start(struct stmpi_host_stream *stream);
void host_worker_wake(struct stmpi_host_stream *stream);
void host_mark_put(struct host_mark *mark);
/* Ports alive, and their hook: a worker that waits drives progress while there are any. */
void host_hook_add(const struct stmpi_stream_hook *hook);
void host_hook_remove(void);
/* Wait in the calling thread as a stream would, driving progress. */
void host_wait_word(const uint64_t *word, uint64_t value);
/* Block until *word is not 0; woken by HOST_NOTIFY. */
void host_notify_wait(_Atomic uint32_t *word);

#endif
