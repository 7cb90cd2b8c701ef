/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.h: a counter of libfabric as deferred works use it, and the doorbells that add to it.
 * Must know nothing of works, rails and requests.
 */
#ifndef STMPI_NET_OFI_COUNTER_H
#define STMPI_NET_OFI_COUNTER_H

#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

/* Never both: a SEND whose completion starts another work hangs the provider sockets (rules.c). */
enum ofi_counter_role {
	OFI_COUNTER_TRIGGER = 1, /* works wait for it */
	OFI_COUNTER_COMPLETION	 /* works add to it when they end; starts nothing */
};

struct ofi_doorbell_ops;

/* Written under the rail's lock; ring reads cntr, doorbell and mmio, which do not change. */
struct ofi_counter {
	struct fid_cntr *cntr; /* its fid.context points back to this struct */
	enum ofi_counter_role role;
	uint32_t rank;		    /* it may bump only counters of a higher rank: no cycles */
	uint32_t sources;	    /* who adds: 1 = the stream only, 2 = the stream and a peer */
	uint32_t pending;	    /* works queued on it that have not ended */
	uint64_t pending_threshold; /* of those, where sources is 2 */
	const struct ofi_doorbell_ops *doorbell;
	volatile uint64_t *mmio; /* doorbell "mmio": a store of n adds n; else NULL */
};

/* How a stream adds to a trigger counter. */
struct ofi_doorbell_ops {
	const char *name; /* "worker", "word", "mmio" */

	/*
	 * Get c->cntr, which is open, ready for ring; sets c->mmio. 0 or -STMPI_ENODEV with a text,
	 * c unchanged. Nothing needs to be closed: what it found goes with the counter.
	 */
	int (*open)(struct ofi_counter *c);

	/*
	 * Add n, up to INT32_MAX, to an opened counter. What the caller stored before is in memory
	 * when a work that this starts reads it. Any thread; locks are the provider's own; may
	 * start works in this thread (sockets), so never under a lock that a completion takes.
	 */
	void (*ring)(struct ofi_counter *c, uint64_t n);

	int is_callable; /* 1: the stream's own thread rings by a call; 0: it stores into memory */
};

/* The host stream's worker calls ring. */
extern const struct ofi_doorbell_ops ofi_doorbell_worker;

/* The stream, a GPU, stores into a word of ours; the engine, which looks at it, calls ring. */
extern const struct ofi_doorbell_ops ofi_doorbell_word;

/*
 * The NIC's own counter: ring is one 64-bit store of n to c->mmio, and a GPU that has the page
 * registered may store instead. Only with the provider cxi.
 */
extern const struct ofi_doorbell_ops ofi_doorbell_mmio;

/* Never NULL. stream_calls: the stream has a thread of its own that calls us. */
const struct ofi_doorbell_ops *ofi_doorbell_choose(int is_cxi, int stream_calls);

#endif
