/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.h: the engine of the simulated CUDA device: what its files share. The driver API (driver_*.c)
 * stands on it, the runtime API (libcudart, runtime_*.c) stands on the driver API. Nothing here
 * knows of stmpi.
 *
 * Locks: sim_lock, taken at the entry of each call and left while a call waits, guards everything
 * but what is marked otherwise. A queue's own lock comes after it, and is the only one that a
 * queue's thread takes while it runs work; memory_lock guards the table of memory for kernels, and
 * comes last.
 */
#ifndef CUDASIM_SIM_H
#define CUDASIM_SIM_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL 1
#endif
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cudasim_twin.h"

enum {
	DEVICES_MAX = 16,
	QUEUES_MAX = 128,
	DRIVER_VERSION = 13000
};
enum {
	STREAM_PRIORITY_LEAST = 0,
	STREAM_PRIORITY_GREATEST = -5
};

/* ---- config.c: what simrun passes on, by the environment ---- */

enum capability {
	CAP_MEMOPS = 1 << 0,
	CAP_MEMOPS64 = 1 << 1,
	CAP_WAIT_NOR = 1 << 2,
	CAP_IPC = 1 << 3,
	CAP_VMM = 1 << 4,
	CAP_MANAGED = 1 << 5,
	CAP_POOLS = 1 << 6,
	CAP_PEER = 1 << 7,
	CAP_HOST_REGISTER = 1 << 8,
	CAP_ALL = (1 << 9) - 1
};

struct failure {
	const char *call;
	unsigned long nth;
	unsigned long error; /* 0: as fits the call */
};

struct config {
	uint64_t seed;
	unsigned long delay_us, queues, devices, limit_s;
	unsigned capabilities;
	struct failure *failures;
	unsigned failure_count;
	const char *counts, *twins;
	bool is_bad;
};

extern struct config sim_config;
void config_read(void);
bool has(enum capability c);

/* ---- calls.c: every call by name: entry, count, failure of the nth ---- */

void sim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct entry {
	CUresult error;
	bool is_locked;
};

enum {
	NEEDS_NOTHING = 1,
	NEEDS_INIT = 2,
	NEEDS_CONTEXT = 4
};
struct entry sim_enter(int call, int needs);
void sim_leave(struct entry *e);
void sim_lock(void);
void sim_unlock(void); /* before its caller waits */
/* For what is not simulated: says so. */
CUresult sim_missing(const char *name);
CUresult calls_find(const char *base, int version, bool per_thread, void **fn,
		    CUdriverProcAddressQueryResult *status);
void calls_count_context(int device);
extern atomic_ulong calls_host_functions, calls_kernels, calls_undefined;
void calls_init(void);

/* What a test may not do although no error is returned: printed and counted as "undefined". */
void sim_undefined(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- handle.c: what a program holds is a number that is never used twice ---- */

enum handle_type {
	HANDLE_CONTEXT = 1,
	HANDLE_STREAM,
	HANDLE_EVENT,
	HANDLE_MODULE,
	HANDLE_FUNCTION,
	HANDLE_GRAPH,
	HANDLE_NODE,
	HANDLE_EXEC,
	HANDLE_POOL,
	HANDLE_PHYSICAL
};

void *handle_new(enum handle_type type, void *object);
void *handle_get(enum handle_type type, const void *handle);
void handle_drop(const void *handle);

/* ---- queue.c: hardware queues: in order, one thread each ---- */

struct work;
struct context;
struct queue;

/* A point in a queue: everything issued up to it. */
struct point {
	struct queue *queue;
	uint64_t seq;
};

struct queue {
	int device, index;
	pthread_mutex_t lock;
	pthread_cond_t has_work, has_done;
	struct op *head, *tail; /* lock */
	uint64_t issued;	/* sim_lock */
	atomic_uint_fast64_t done;
	uint64_t wanted; /* lock: the first seq that somebody sleeps for */
	bool is_started;
	uint64_t random; /* its thread */
	pthread_t thread;
};

struct queue *queue_get(int device, unsigned index);
bool point_is_done(struct point p);
/* Leaves sim_lock while it waits. */
void point_wait(struct point p);
uint64_t queue_issue(struct queue *q, struct context *ctx, struct work *work,
		     const struct point *after, unsigned after_count);
uint64_t random_next(uint64_t *state);
int64_t now_ns(void);
void sim_sleep_ns(long ns);

/* A loop that waits: spins, then yields, then sleeps. */
struct pause {
	unsigned turns;
	int64_t since_ns;
};
void pause_turn(struct pause *p);
/* While a loop waits for what: false when it must end: the context failed or died, or the limit is
 * over. */
bool may_wait(struct pause *p, struct context *ctx, const struct queue *q, const char *what,
	      const void *address);

/* ---- callback.c: the one thread in which host functions run ---- */

extern _Thread_local bool sim_in_callback;
void callback_run(void (*fn)(void *arg), void *arg);

/* ---- context.c, device.c ---- */

struct context {
	CUcontext handle;
	int device;
	unsigned flags, primary_refs;
	bool is_primary;
	uint64_t id;
	atomic_bool is_dead;
	atomic_int error; /* a CUresult that stays */
	struct stream *legacy;
	struct point legacy_last;
	uint64_t blocking_last[QUEUES_MAX], last[QUEUES_MAX]; /* per queue of the device */
	uint32_t peers;					      /* devices that it may reach */
	unsigned streams_made;
	struct module *modules;
};

struct context *context_current(void);
struct context *context_get(CUcontext handle);
CUresult context_push(struct context *ctx);
struct context *context_pop(void);
CUresult context_set(struct context *ctx);
CUresult context_create(int device, unsigned flags, struct context **out);
void context_destroy(struct context *ctx);
void context_fault(struct context *ctx, CUresult error, const char *why);
struct context *context_primary(int device);
CUresult context_primary_retain(int device, struct context **out);
CUresult context_wait(struct context *ctx);
unsigned context_points(const struct context *ctx, struct point *out);
bool device_is(CUdevice d);
CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice d);
extern const size_t device_memory_bytes;

/* ---- memory.c, pool.c, vmm.c, ipc.c ---- */

enum memory_kind {
	MEM_DEVICE,
	MEM_POOL,
	MEM_VMM,
	MEM_IPC,
	MEM_PINNED,
	MEM_REGISTERED,
	MEM_MANAGED
};

struct range {
	uintptr_t base;
	size_t bytes;
	enum memory_kind kind;
	int device;
	struct context *ctx;
	uint64_t id;
	unsigned flags;
	bool is_freed;	     /* by a call; what was queued before may still use it */
	atomic_bool is_live; /* false before the stream has reached its allocation, and after its
				free */
	atomic_int refs;     /* the table, and work that was issued */
	uint32_t access;     /* VMM: devices that may */
	bool is_read_only;   /* VMM */
	size_t reserved;     /* bytes that it takes in its window */
	int sync_memops;
	struct pool *pool;
	bool is_graphs;		 /* pool: of a graph, whose launches allocate it, at this address */
	bool is_allocated;	 /* of a graph: as issued, not as reached */
	struct point freed_at;	 /* pool */
	const void *free_stream; /* pool: its handle */
	int ipc_slot;
	struct ipc_import *import;
	struct physical *physical;
};

CUresult memory_init(void);
/* A piece of a device's window: addresses that nobody can touch, and behind them, at memory_cpu,
 * the memory. */
uintptr_t memory_window_take(int device, size_t bytes, size_t alignment);
void memory_window_give(int device, uintptr_t base, size_t bytes);
int memory_window_of(uintptr_t address); /* the device, or -1 */
int memory_window_fd(int device, uintptr_t address, off_t *offset);
void memory_window_reset(int device, uintptr_t base, size_t bytes);
void *memory_cpu(uintptr_t address);
size_t memory_in_use(int device);

struct range *memory_add(uintptr_t base, size_t bytes, enum memory_kind kind, int device,
			 struct context *ctx);
void memory_remove(struct range *r);
void memory_put(struct range *r);
struct range *memory_find(uintptr_t address); /* for calls */
struct range *memory_find_base(uintptr_t base);
bool memory_overlaps(uintptr_t base, size_t bytes);
/* For a kernel that runs: NULL if the device may not touch it. */
void *memory_for_kernel(struct context *ctx, uintptr_t address);
CUresult memory_alloc(struct context *ctx, size_t bytes, uintptr_t *out);
CUresult memory_alloc_host(struct context *ctx, size_t bytes, unsigned flags, void **out);
CUresult memory_alloc_managed(struct context *ctx, size_t bytes, unsigned flags, uintptr_t *out);
CUresult memory_free(uintptr_t base);
CUresult memory_free_host(void *p);
CUresult memory_register(struct context *ctx, void *p, size_t bytes, unsigned flags);
CUresult memory_unregister(void *p);
CUresult memory_attribute(void *data, CUpointer_attribute attribute, uintptr_t address);
bool memory_is_device(const struct range *r);
bool memory_is_pinned(const struct range *r);
/* Whether the device of ctx may read and write all of it; *first is the range that holds the start.
 */
CUresult memory_reach(struct context *ctx, uintptr_t address, size_t bytes, bool is_write,
		      struct range **first);

struct pool {
	CUmemoryPool handle;
	int device;
	bool is_default;
	uint32_t access; /* other devices that may */
	uint64_t threshold, used, used_high, reserved, reserved_high;
	struct range **cached;
	unsigned cached_count;
	int reuse[3];
};

struct stream;
struct pool *pool_default(int device);
struct pool *pool_current(int device);
void pool_set_current(int device, struct pool *p);
struct pool *pool_create(int device);
void pool_destroy(struct pool *p);
void pool_synchronized(int device);
CUresult pool_alloc(struct pool *p, struct stream *s, size_t bytes, uintptr_t *out);
CUresult pool_free(struct range *r, struct stream *s); /* s NULL: by cuMemFree */
void pool_trim(struct pool *p, size_t keep);

CUresult ipc_export(struct range *r, CUipcMemHandle *out);
CUresult ipc_import(struct context *ctx, const CUipcMemHandle *in, uintptr_t *out);
CUresult ipc_close(uintptr_t base);
void ipc_owner_freed(struct range *r);
bool ipc_is_gone(const struct range *r);

/* ---- work.c: what a stream can be given ---- */

enum work_kind {
	WORK_NOTHING,
	WORK_COPY,
	WORK_SET,
	WORK_BATCH,
	WORK_KERNEL,
	WORK_HOST,
	WORK_CALLBACK,
	WORK_RECORD,
	WORK_WAIT_SHARED,
	WORK_LIVE,  /* the stream has reached an allocation */
	WORK_DEAD,  /* and its free */
	WORK_CHILD, /* in graphs alone */
	WORK_WAIT_EVENT
};

/* Up to three dimensions; a plain copy has height and depth 1. Addresses are as the program gave
 * them. */
struct copy {
	uintptr_t dst, src;
	size_t width, height, depth, dst_pitch, src_pitch, dst_slice, src_slice;
	void *staged; /* a copy of the source that was made at the call */
};

struct set {
	uintptr_t dst;
	size_t width, height, pitch; /* width in bytes */
	unsigned value, element_bytes;
};

struct kernel_launch {
	struct function *function;
	struct cudasim_launch launch;
	void *arguments; /* one block, as function->sizes says */
};

struct event;
struct stream;

struct work {
	enum work_kind kind;
	union {
		struct copy copy;
		struct set set;
		struct {
			unsigned count;
			CUstreamBatchMemOpParams *items;
		} batch;
		struct kernel_launch kernel;
		struct {
			CUhostFn fn;
			void *data;
		} host;
		struct {
			CUstreamCallback fn;
			CUstream stream;
			void *data;
		} callback;
		struct {
			CUevent event;	   /* in graphs: to record, or to wait for */
			struct mark *mark; /* in queues */
		} record;
		struct {
			atomic_uint_fast64_t *word;
			uint64_t value;
		} shared;
		struct range *range;
		struct graph *child;
	};
	/* Memory that is used, held from the issue to the end. */
	struct range **uses;
	unsigned use_count;
};

void work_copy(struct work *to, const struct work *from); /* for a graph: without uses */
void work_release(struct work *w);
void work_use(struct work *w, struct range *r);
void work_run(struct work *w, struct context *ctx, struct queue *q);

/* ---- stream.c, event.c ---- */

struct stream {
	CUstream handle;
	struct context *ctx;
	unsigned flags;
	int priority;
	struct queue *queue;
	uint64_t last, id;
	bool is_legacy, is_per_thread;
	struct capture *capture;
	struct node **tips; /* capture: what the next node depends on */
	unsigned tip_count;
	CUgraphNode *told; /* what the last question after them was answered with */
};

CUresult stream_get(CUstream handle, struct stream **out);
/* And its context must be current. */
CUresult stream_get_current(CUstream handle, struct stream **out);
CUresult stream_create(struct context *ctx, unsigned flags, int priority, struct stream **out);
CUresult stream_destroy(struct stream *s);
/* Takes the work: into the queue, or into the graph that is captured. */
CUresult stream_submit(struct stream *s, struct work *w);
CUresult stream_issue(struct stream *s, struct work *w, const struct point *after,
		      unsigned after_count);
struct point stream_point(const struct stream *s);
CUresult stream_query(struct stream *s);
CUresult stream_wait(struct stream *s);
CUresult stream_wait_event(struct stream *s, struct event *e);

/* One recording of an event. */
struct mark {
	atomic_int refs;
	struct point point;
	atomic_int_fast64_t time_ns;
	struct event_shared *shared;
	uint64_t shared_count;
};

struct event_shared {
	atomic_uint_fast64_t issued, done;
};

struct event {
	CUevent handle;
	struct context *ctx;
	unsigned flags;
	struct mark *mark;
	struct event_shared *shared; /* between processes */
	struct capture *capture;     /* last recorded in it */
	uint64_t capture_id;
	struct node **tips;
	unsigned tip_count;
	int fd;
};

struct event *event_get(CUevent handle);
CUresult event_create(struct context *ctx, unsigned flags, struct event **out);
void event_destroy(struct event *e);
CUresult event_record(struct event *e, struct stream *s);
CUresult event_issue_record(struct event *e, struct stream *s);
/* The mark of a recording that is about to be issued; m->point is the caller's to set. */
struct mark *event_new_mark(struct event *e);
CUresult event_query(struct event *e);
CUresult event_wait(struct event *e);
CUresult event_elapsed(float *ms, struct event *start, struct event *end);
CUresult event_export(struct event *e, CUipcEventHandle *out);
CUresult event_import(struct context *ctx, const CUipcEventHandle *in, struct event **out);
void mark_put(struct mark *m);

/* ---- copy.c, memop.c ---- */

enum side {
	SIDE_ANY,
	SIDE_HOST,
	SIDE_DEVICE
};
CUresult copy_from_3d(const CUDA_MEMCPY3D *p, struct copy *c, enum side *dst, enum side *src);
CUresult copy_submit(struct stream *s, struct copy *c, enum side dst, enum side src, bool is_async);
CUresult copy_check(struct context *ctx, struct work *w);
CUresult set_submit(struct stream *s, const struct set *set, bool is_async);
CUresult set_check(struct context *ctx, struct work *w);
CUresult memop_submit(struct stream *s, unsigned count, const CUstreamBatchMemOpParams *items,
		      unsigned flags);
CUresult memop_check(struct context *ctx, struct work *w);
void memop_run(struct work *w, struct context *ctx, struct queue *q);

/* ---- module.c: kernels and their twins ---- */

struct function {
	CUfunction handle;
	struct module *module;
	char *name;
	cudasim_twin_fn *twin;
	const size_t *sizes; /* of its arguments, 0 at the end */
	unsigned argument_count;
	size_t argument_bytes;
	struct function *next;
};

struct variable {
	char *name;
	uintptr_t address;
	size_t bytes;
	struct variable *next;
};

struct module {
	CUmodule handle;
	struct context *ctx;
	const char *image;
	bool is_text, is_opaque;
	struct function *functions;
	struct variable *variables;
	struct module *next;
};

CUresult module_load(struct context *ctx, const void *image, struct module **out);
CUresult module_function(struct module *m, const char *name, struct function **out);
CUresult module_variable(struct module *m, const char *name, size_t bytes, struct variable **out);
void module_unload(struct module *m);
CUresult kernel_prepare(struct work *w, struct function *f, const unsigned grid[3],
			const unsigned block[3], unsigned shared_bytes, void **arguments,
			void **extra);
void kernel_run(struct work *w, struct context *ctx, struct queue *q);

/* ---- capture.c, graph.c ---- */

struct capture {
	struct graph *graph;
	uint64_t id;
	CUstreamCaptureMode mode;
	struct stream *origin;
	pthread_t thread;
	bool is_invalid, is_users; /* the graph was given */
	struct stream **streams;
	unsigned stream_count;
	struct capture *next;
};

/* Before a call that capture may prohibit. */
CUresult capture_allows_unsafe(void);
/* Before a use of a stream that is no work: a query, a synchronisation. */
CUresult capture_allows_sync(struct stream *s);
CUresult capture_allows_context_sync(struct context *ctx);
/* Before a use of the legacy stream. */
CUresult capture_allows_legacy(struct context *ctx);
bool capture_is_blocking(const struct context *ctx);
CUresult capture_add(struct stream *s, struct work *w);
CUresult capture_record(struct event *e, struct stream *s);
CUresult capture_wait(struct stream *s, struct event *e);
/* into NULL: a new graph. */
CUresult capture_begin(struct stream *s, CUstreamCaptureMode mode, struct graph *into);
CUresult capture_end(struct stream *s, struct graph **out);
void capture_invalidate(struct capture *c);
void capture_stream_ends(struct stream *s);
CUresult capture_set_tips(struct stream *s, struct node *const *nodes, unsigned count, bool is_add);
CUresult capture_mode_exchange(CUstreamCaptureMode *mode);
bool capture_is_live(const struct capture *c, uint64_t id);

struct node {
	CUgraphNode handle;
	CUgraphNodeType type;
	struct graph *graph;
	struct work work;
	struct node **deps;
	unsigned dep_count, index;
	bool is_enabled;
	CUgraphNode from_handle;
};

struct graph {
	CUgraph handle;
	struct context *ctx;
	struct node **nodes;
	unsigned node_count;
};

struct exec {
	CUgraphExec handle;
	struct context *ctx;
	struct graph *graph; /* its own */
	unsigned long long flags;
	struct point last;
	uint64_t random;
};

struct graph *graph_new(void);
void graph_free(struct graph *g);
struct graph *graph_clone(const struct graph *g);
CUresult graph_add(struct graph *g, CUgraphNodeType type, struct work *w, struct node *const *deps,
		   unsigned dep_count, struct node **out);
CUresult graph_depend(struct node *to, struct node *from, bool is_add);
CUresult graph_remove(struct node *n);
bool graph_has_cycle(const struct graph *g);
CUresult exec_create(struct context *ctx, struct graph *g, unsigned long long flags,
		     struct exec **out);
void exec_free(struct exec *x);
CUresult exec_launch(struct exec *x, struct stream *s);
CUresult exec_update(struct exec *x, struct graph *g, CUgraphExecUpdateResultInfo *info);
struct node *exec_node(struct exec *x, CUgraphNode handle);

/* ---- small ---- */

void *sim_alloc(size_t bytes); /* zeroed; ends the process when there is none, for the simulator
				  itself is then lost */
void *sim_grow(void *array, unsigned count, size_t element_bytes);

#endif
