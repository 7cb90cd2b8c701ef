/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi_int.h: the ofi rail's own structures. */
#ifndef STMPI_NET_OFI_OFI_INT_H
#define STMPI_NET_OFI_OFI_INT_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>
#include <uthash.h>

#include "net/net.h"
#include "net/ofi/counter.h"
#include "net/ofi/ofi.h"
#include "net/ofi/regcache.h"
#include "util/compiler.h"

/* ---- dl.c: the one libfabric of the process, reached without linking it ---- */

struct ofi_dl {
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	const char *(*strerror)(int errnum);
	uint32_t (*version)(void);
};

/* NULL, with an error text, when libfabric is not to be had. The table is constant once found. */
const struct ofi_dl *ofi_dl_get(void);

/* ---- choose.c: which provider and device ---- */

/*
 * The chosen fi_info, to be freed with ofi_dl_get()->freeinfo; it has FI_TRIGGER among its caps
 * when triggers may be deferred (STMPI_TRIGGER) and the provider offers it. -STMPI_ENODEV with a
 * text.
 */
int ofi_choose(struct fi_info **info);

/* Is the provider a core part of info's name, such as "tcp" in "tcp;ofi_rxm"? */
int ofi_is_provider(const struct fi_info *info, const char *name);

/* ---- the rail ---- */

#define OFI_RX_BUFFERS 128u /* posted receives, unless the provider needs more */
#define OFI_TX_BUFFERS 128u /* packets in flight */
#define OFI_INJECT_MAX                                                                             \
	256u /* bytes of a packet that is injected: copied twice, but without a completion */
#define OFI_NAME_BYTES 160u

/* Of the provider sockets: see set_limits and sockets.c. */
#define OFI_SOCKETS_WINDOW 8u		     /* packets in flight */
#define OFI_SOCKETS_RX	   1024u	     /* posted receives */
#define OFI_SOCKETS_RCVBUF (4 * 1024 * 1024) /* bytes, as asked for */
#define OFI_KEEP_MAX	   4096u	     /* packets of processes that are not known yet */

/* What the rail's address is. */
struct ofi_address {
	uint64_t uid;
	uint64_t flags_addr, flags_key;
	uint32_t name_bytes;
	uint32_t pad;
	unsigned char name[OFI_NAME_BYTES];
};

enum ofi_wire_kind {
	OFI_WIRE_PACKET = 1,
	OFI_WIRE_FLAG, /* hdr: index, value */
	OFI_WIRE_BYE,  /* the last one; when it has left, those before it have */
	OFI_WIRE_VOID, /* an armed packet that was given up: nothing */
};

/* Before every payload. */
struct ofi_wire {
	uint64_t uid; /* of the sender */
	uint64_t kind;
	struct stmpi_net_hdr hdr;
};

/* One operation of the provider; its address is the context, so the provider's scratch comes first.
 */
struct ofi_req {
	struct fi_context2 context;
	enum {
		OFI_REQ_RX,
		OFI_REQ_TX,
		OFI_REQ_READ
	} kind;
	struct stmpi_net_peer *peer; /* TX, READ in flight; NULL: free, or its peer is lost */
	struct stmpi_net_work *work; /* READ */
	struct ofi_wire *wire;	     /* RX, TX: the packet buffer */
	struct ofi_req *next;	     /* in a pool */
};

struct stmpi_net_peer {
	uint64_t uid;
	void *user;
	fi_addr_t addr;
	uint64_t flags_addr, flags_key;
	int error; /* negative STMPI_E code once it is gone */
	int is_told;
	int is_used;	/* something was sent to it */
	uint32_t looks; /* sockets.c: how often its connection was looked for */
	struct stmpi_net_peer *next;
	UT_hash_handle hh;
};

/* A packet of a process that connect has not made known yet. */
struct ofi_kept {
	struct ofi_kept *next;
	size_t bytes;
	struct ofi_wire wire; /* and payload */
};

struct ofi_rail {
	struct stmpi_rail rail;
	struct stmpi_net_attr attr;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	size_t packet_bytes; /* wire and largest payload */
	size_t inject_max;   /* of a packet with its wire */
	int writes_flags;    /* completion words by RMA; else by packet */
	int is_sockets;	     /* the provider */
	uint64_t next_key;
	struct regcache cache;
	struct stmpi_net_mr *flags_mr;
	unsigned char *slab; /* all packet buffers */
	size_t slab_bytes;
	struct fid_mr *slab_mr;
	void *slab_desc;
	struct ofi_req *reqs; /* all of them */
	struct ofi_req *tx_pool, *read_pool;
	struct ofi_req *unposted; /* receives that could not be posted again yet */
	uint32_t tx_out, reads_out;
	uint32_t tx_max;		/* packets in flight at most */
	uint32_t rx_buffers;		/* receives posted */
	struct stmpi_net_work *partial; /* READs with chunks still to start; utlist LL */
	struct stmpi_net_peer *peers, *by_uid;
	struct ofi_kept *kept; /* utlist LL, in order */
	uint32_t kept_count;
	struct ofi_wire *scratch;      /* for injected packets */
	struct ofi_deferred *deferred; /* NULL: none */
};

/* One error text for all of the rail: what failed, and libfabric's reason. */
int ofi_net_error(struct ofi_rail *r, const char *what, int ret);

/* Register the packet buffers of the rail itself where the provider wants that. */
int ofi_reg_own(struct ofi_rail *r, void *buf, size_t bytes, struct fid_mr **mr);

/* ---- deferred.c: works that the provider fires ---- */

/*
 * Before the endpoint is enabled: bind what deferred work needs. After it: make the credits; the
 * rail has deferred work from then on, unless the provider turns out to have none: then it is
 * -STMPI_ENOTSUP with a text. Both 0 or -STMPI_E.
 */
int ofi_deferred_bind(struct ofi_rail *r);
int ofi_deferred_open(struct ofi_rail *r);
/* Close what must go before the memory regions and the endpoint, all lines being closed. */
void ofi_deferred_close(struct ofi_rail *r);
void ofi_deferred_free(struct ofi_rail *r); /* the rest, after the endpoint */
/* Look for fired works that have ended; the number of events. Hot. */
int ofi_deferred_poll(struct ofi_rail *r);
/* Now and then: wake works that the provider has released but not started. */
void ofi_deferred_nudge(struct ofi_rail *r);
/* A completion queue entry of a deferred work, good (0) or bad: 1 when the context is one's. */
int ofi_deferred_event(struct ofi_rail *r, void *context, int error, struct stmpi_net_peer **peer);
/* End the works to a peer that is gone. */
void ofi_deferred_lose(struct ofi_rail *r, struct stmpi_net_peer *p);
int ofi_deferred_is_busy(const struct ofi_rail *r);
/* For people: credits and doorbell with that provider. */
void ofi_deferred_describe(const struct fi_info *info, char *text, size_t bytes);

/* Tests begin near the end of what counters hold: the first value of completion counters. */
extern uint64_t ofi_deferred_test_start;

/* ---- sockets.c: what the provider sockets needs ---- */

/* After the endpoint is enabled; now and then; before it is closed. */
void ofi_sockets_open(struct ofi_rail *r);
void ofi_sockets_idle(struct ofi_rail *r);
void ofi_sockets_close(struct ofi_rail *r);

/* reg.c: registration; the cache's callbacks */
int ofi_mr_open(void *arg, const void *addr, size_t bytes, struct regcache_entry *entry);
void ofi_mr_close(void *arg, struct regcache_entry *entry);

#endif
