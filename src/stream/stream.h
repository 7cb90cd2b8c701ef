/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.h: what a stream can do for the core. One const table of operations per backend, one
 * folder each. It must not know of messages, matching or MPI.
 *
 * A backend stream that the user made (a stmpi_host_stream_t, a cudaStream_t) is attached
 * once per MPIX_Stream; the attachment is a *port*. Queueing calls on one port come from one thread
 * at a time (the core holds the stream's mutex); several ports of one backend stream may be used at
 * once.
 */
#ifndef STMPI_STREAM_STREAM_H
#define STMPI_STREAM_STREAM_H

#include <stddef.h>
#include <stdint.h>

#define STMPI_STREAM_ABI 2

/* Capability bits. */
enum {
	/* After each doorbell write the stream itself calls hook->doorbell, and hook->poll while it
	 * waits. */
	STMPI_STREAM_CAP_DRIVES_PROGRESS = 1u << 0,
	/* It can copy between any two places of host memory: COPY is allowed. */
	STMPI_STREAM_CAP_COPIES_HOST = 1u << 1,
	/* A port keeps the stream usable after the user destroyed it. */
	STMPI_STREAM_CAP_KEEPS_STREAM = 1u << 2,
	/* There is memory that only its device reaches: mem_kind must be asked. */
	STMPI_STREAM_CAP_DEVICE_MEM = 1u << 3,
};

/*
 * What a stream with CAP_DRIVES_PROGRESS calls, from its own thread, holding no lock.
 * Owned by the core; constant while any port lives.
 */
struct stmpi_stream_hook {
	/* The doorbell word of the port with this arg has just been written. */
	void (*doorbell)(void *arg);
	/* The stream has reached this work of the port with this arg: fire it, and store value to
	 * the port's doorbell word. */
	void (*fire)(void *arg, void *work, uint64_t value);
	/* Make progress on everything. Returns the number of events, 0 when nothing moved. */
	int (*poll)(void);
	/* Called at most every few milliseconds by a thread that waits: slow checks (watchdog, dead
	 * peers). */
	void (*idle)(void);
};

enum stmpi_memop_kind {
	STMPI_MEMOP_DOORBELL, /* store value to *addr, then hook->doorbell where the stream drives
				 progress */
	STMPI_MEMOP_FIRE,  /* hook->fire(arg, addr, value); only where the stream drives progress */
	STMPI_MEMOP_WRITE, /* store value to *addr; nobody is told */
	STMPI_MEMOP_WAIT,  /* wait until (int64_t)(*addr - value) >= 0 */
	STMPI_MEMOP_COPY,  /* copy `value` bytes of host memory from src to addr; only with
			      CAP_COPIES_HOST */
	STMPI_MEMOP_MOVE,  /* copy `value` bytes from src to addr: one is mapped memory, the other
			      is of kind STMPI_MEM_DEVICE */
};

/*
 * One entry of a batch: a 64-bit memory operation or a copy, in stream order. All words must have
 * been mapped.
 */
struct stmpi_memop {
	enum stmpi_memop_kind kind;
	void *addr;
	uint64_t value;
	const void *src; /* COPY and MOVE only */
};

enum stmpi_mem_kind {
	STMPI_MEM_CPU,	  /* the CPU may read and write it: host memory, pinned or not; managed */
	STMPI_MEM_DEVICE, /* only a MOVE may, or nobody: then the MOVE says so */
};

/* An attachment; the backend's own struct begins with it. */
struct stmpi_stream_port {
	const struct stmpi_stream_ops *ops;
};

struct stmpi_stream_ops {
	uint32_t abi;	       /* STMPI_STREAM_ABI */
	uint32_t bytes;	       /* sizeof(struct stmpi_stream_ops) */
	const char *name;      /* "host" */
	const char *type_name; /* info value of `type`: "stmpi_host_stream_t" */
	size_t handle_bytes;   /* size of the user's handle */
	uint32_t caps;

	/* 0 when usable here; else -STMPI_E with the reason in why. Any thread; may be slow. */
	int (*probe)(char *why, size_t why_bytes);

	/*
	 * Attach the user's stream whose handle is *handle. hook_arg is passed to hook->doorbell.
	 * -STMPI_EINVAL: not a live handle, or one that takes no work now (text set);
	 * -STMPI_ENODEV: it cannot do what is needed; -STMPI_ENOMEM.
	 */
	int (*attach)(const void *handle, const struct stmpi_stream_hook *hook, void *hook_arg,
		      struct stmpi_stream_port **port);

	/* Give the port up; queued work still runs. No queueing call may come after. Any thread,
	 * the progress thread too: a backend makes no call of its driver here. NULL is allowed. */
	void (*detach)(struct stmpi_stream_port *port);

	/*
	 * Make host memory of ours known to the device: from here on words in it may be written and
	 * waited for, and MOVEs may use it, on every port of this backend. Page aligned, and in use
	 * until fini. Memory that is mapped already is left as it is. -STMPI_ENOMEM.
	 */
	int (*map)(struct stmpi_stream_port *port, void *addr, size_t bytes);

	/*
	 * 0: the stream takes work now. Called before each operation, so that a stream that has
	 * been destroyed, or is being captured, is refused before anything has happened.
	 * -STMPI_EINVAL (text set).
	 */
	int (*check)(struct stmpi_stream_port *port);

	/* Whose memory a user's buffer is. Never stale: nothing is remembered about addresses. */
	enum stmpi_mem_kind (*mem_kind)(struct stmpi_stream_port *port, const void *addr);

	/*
	 * Queue n memory operations as one unit: all or (on error) none, but for MOVEs into mapped
	 * memory, which may have been queued. -STMPI_ENOMEM; -STMPI_EINVAL: the stream or a pointer
	 * of a MOVE is not good; -STMPI_ENODEV.
	 */
	int (*batch)(struct stmpi_stream_port *port, const struct stmpi_memop *ops, int n);

	/* A MOVE, made by the calling thread, which waits for it and for nothing else. As batch. */
	int (*move_now)(struct stmpi_stream_port *port, void *addr, const void *src, size_t bytes);

	/* 0: all queued work has ended; 1: not yet. */
	int (*query)(struct stmpi_stream_port *port);

	/* Undo all maps. No port lives and all queued work has ended; may wait for the device. */
	void (*fini)(void);
};

/* All backends of this build, NULL-terminated (src/stream/registry.c). */
extern const struct stmpi_stream_ops *const stmpi_stream_backends[];

/*
 * Find the usable backend for an info `type`. -STMPI_EINVAL: no backend has that type, or
 * STMPI_STREAM_BACKEND forbids it; -STMPI_ENODEV: it cannot be used here. The text names the type.
 */
int stmpi_stream_backend_find(const char *type_name, const struct stmpi_stream_ops **ops);

#endif
