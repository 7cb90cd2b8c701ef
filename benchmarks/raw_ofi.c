/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw_ofi.c: the floor of libfabric's rails: fi_send and fi_recv of the same provider, the
 * completion queue polled without a pause, nothing of our library.
 *
 * Manual progress, one endpoint and one queue. The libfabric that the MPI has loaded is used, else
 * the system's: two copies in one process do not work.
 */
#include "config.h"

#include "bench.h"

#include <stdio.h>

#ifdef HAVE_OFI

#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#define API_VERSION FI_VERSION(1, 15)
#define ADDR_BYTES  512
#define CONTEXTS    (2 * BENCH_WINDOW + 8)
#define INJECT_MAX  4096 /* above, providers copy more than it saves */

/* What libfabric exports; all else is inline. */
static struct {
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
		       struct fi_info **);
	void (*freeinfo)(struct fi_info *);
	struct fi_info *(*dupinfo)(const struct fi_info *);
	int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
	const char *(*strerror)(int);
} lib;

/* One outstanding operation. The first part is the provider's while it is posted. */
struct context {
	struct fi_context2 fi;
	int is_send;
};

static struct {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	struct fid_mr *smr, *rmr, *amr;
	fi_addr_t peer;
	struct context contexts[CONTEXTS];
	unsigned next;
	uint64_t sends, sent;	     /* posted and completed; injected ones count in neither */
	uint64_t receives, received; /* posted and completed */
	char answer[64];
} net;

/* ---- opening ---- */

static void *symbol(void *handle, const char *name)
{
	return dlsym(handle, name);
}

static int load(char *why, size_t bytes)
{
	void *h = dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (h == NULL)
		h = dlopen("libfabric.so.1", RTLD_NOW);
	if (h == NULL) {
		snprintf(why, bytes, "%s", dlerror());
		return -1;
	}
	*(void **)&lib.getinfo = symbol(h, "fi_getinfo");
	*(void **)&lib.freeinfo = symbol(h, "fi_freeinfo");
	*(void **)&lib.dupinfo = symbol(h, "fi_dupinfo");
	*(void **)&lib.fabric = symbol(h, "fi_fabric");
	*(void **)&lib.strerror = symbol(h, "fi_strerror");
	if (lib.getinfo == NULL || lib.freeinfo == NULL || lib.dupinfo == NULL ||
	    lib.fabric == NULL || lib.strerror == NULL) {
		snprintf(why, bytes, "libfabric.so.1 lacks a function");
		return -1;
	}
	return 0;
}

/* As the library chooses, so that both use the same provider and device. */
static const char *const preference[] = {"cxi", "verbs;ofi_rxm", "efa",		"psm3",
					 "opx", "tcp;ofi_rxm",	 "net;ofi_rxm", "udp;ofi_rxd"};

/* The utility provider that gives a core provider the reliable datagrams we need. */
static const char *full_name(const char *provider)
{
	static const char *const names[][2] = {{"tcp", "tcp;ofi_rxm"},
					       {"verbs", "verbs;ofi_rxm"},
					       {"net", "net;ofi_rxm"},
					       {"udp", "udp;ofi_rxd"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(provider, names[i][0]) == 0)
			return names[i][1];
	}
	return provider;
}

static int is_loopback(const struct fi_info *info)
{
	const struct sockaddr_in *in = info->src_addr;

	if (strcmp(info->domain_attr->name, "lo") == 0)
		return 1;
	return info->addr_format == FI_SOCKADDR_IN && in != NULL &&
	       ntohl(in->sin_addr.s_addr) >> 24 == 127;
}

/* Loopback devices and IPv6 last. */
static const struct fi_info *best_of(const struct fi_info *list, const char *provider)
{
	const char *domain = getenv("STMPI_OFI_DOMAIN");
	const struct fi_info *best = NULL;
	int best_cost = 0;

	for (const struct fi_info *i = list; i != NULL; i = i->next) {
		int cost = 2 * is_loopback(i) + (i->addr_format == FI_SOCKADDR_IN6);

		if (strcmp(i->fabric_attr->prov_name, provider) != 0)
			continue;
		if (domain != NULL && *domain != '\0' && strcmp(domain, i->domain_attr->name) != 0)
			continue;
		if (best == NULL || cost < best_cost) {
			best = i;
			best_cost = cost;
		}
	}
	return best;
}

static struct fi_info *make_hints(void)
{
	struct fi_info *hints = lib.dupinfo(NULL);

	if (hints == NULL)
		return NULL;
	hints->caps = FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	return hints;
}

static int get_info(const struct bench *b, char *why, size_t bytes)
{
	struct fi_info *hints = make_hints(), *list = NULL;
	const char *name = full_name(b->provider);
	const struct fi_info *best = NULL;
	int is_auto = strcmp(name, "auto") == 0;
	int ret;

	if (hints == NULL) {
		snprintf(why, bytes, "no memory");
		return -1;
	}
	if (!is_auto)
		hints->fabric_attr->prov_name = strdup(name);
	ret = lib.getinfo(API_VERSION, NULL, NULL, 0, hints, &list);
	lib.freeinfo(hints);
	if (ret == 0 && !is_auto)
		best = best_of(list, name);
	for (size_t i = 0;
	     ret == 0 && is_auto && best == NULL && i < sizeof(preference) / sizeof(preference[0]);
	     i++)
		best = best_of(list, preference[i]);
	if (best != NULL)
		net.info = lib.dupinfo(best);
	if (list != NULL)
		lib.freeinfo(list);
	if (net.info == NULL)
		snprintf(why, bytes, "libfabric has no provider \"%s\" here: %s", b->provider,
			 ret != 0 ? lib.strerror(-ret) : "only others");
	return net.info != NULL ? 0 : -1;
}

static int reg(void *buf, size_t bytes, struct fid_mr **mr)
{
	static uint64_t key = 0x57b0;
	int ret;

	if (!(net.info->domain_attr->mr_mode & FI_MR_LOCAL))
		return 0;
	ret = fi_mr_reg(net.domain, buf, bytes, FI_SEND | FI_RECV, 0, key++, 0, mr, NULL);
	if (ret == 0 && (net.info->domain_attr->mr_mode & FI_MR_ENDPOINT)) {
		ret = fi_mr_bind(*mr, &net.ep->fid, 0);
		if (ret == 0)
			ret = fi_mr_enable(*mr);
	}
	return ret;
}

static int open_endpoint(struct bench *b, const char **what)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = 1024};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	int ret;

	*what = "fi_fabric";
	if ((ret = lib.fabric(net.info->fabric_attr, &net.fabric, NULL)) != 0)
		return ret;
	*what = "fi_domain";
	if ((ret = fi_domain(net.fabric, net.info, &net.domain, NULL)) != 0)
		return ret;
	*what = "fi_cq_open";
	if ((ret = fi_cq_open(net.domain, &cq, &net.cq, NULL)) != 0)
		return ret;
	*what = "fi_av_open";
	if ((ret = fi_av_open(net.domain, &av, &net.av, NULL)) != 0)
		return ret;
	*what = "fi_endpoint";
	if ((ret = fi_endpoint(net.domain, net.info, &net.ep, NULL)) != 0)
		return ret;
	*what = "fi_ep_bind";
	if ((ret = fi_ep_bind(net.ep, &net.cq->fid, FI_TRANSMIT | FI_RECV)) != 0 ||
	    (ret = fi_ep_bind(net.ep, &net.av->fid, 0)) != 0)
		return ret;
	*what = "fi_enable";
	if ((ret = fi_enable(net.ep)) != 0)
		return ret;
	*what = "fi_mr_reg";
	if ((ret = reg(b->cpu_sbuf, b->pool_bytes, &net.smr)) != 0 ||
	    (ret = reg(b->cpu_rbuf, b->pool_bytes, &net.rmr)) != 0)
		return ret;
	return reg(net.answer, sizeof(net.answer), &net.amr);
}

struct address {
	int ok;
	char provider[64];
	char text[256]; /* why not ok */
	size_t bytes;
	char raw[ADDR_BYTES];
};

static void open_mine(struct bench *b, struct address *a)
{
	const char *what = "";
	int ret;

	if (load(a->text, sizeof(a->text)) != 0 || get_info(b, a->text, sizeof(a->text)) != 0)
		return;
	ret = open_endpoint(b, &what);
	if (ret == 0) {
		what = "fi_getname";
		a->bytes = sizeof(a->raw);
		ret = fi_getname(&net.ep->fid, a->raw, &a->bytes);
	}
	if (ret != 0) {
		snprintf(a->text, sizeof(a->text), "%s of provider %s: %s", what,
			 net.info->fabric_attr->prov_name, lib.strerror(-ret));
		return;
	}
	snprintf(a->provider, sizeof(a->provider), "%s", net.info->fabric_attr->prov_name);
	a->ok = 1;
}

static int raw_open(struct bench *b, char *why, size_t why_bytes)
{
	struct address mine, all[2];
	int ok, both;

	memset(&mine, 0, sizeof(mine));
	open_mine(b, &mine);
	MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);
	for (int i = 0; i < 2; i++) {
		if (!all[i].ok) {
			snprintf(why, why_bytes, "%.250s", all[i].text);
			return -1;
		}
	}
	if (strcmp(all[0].provider, all[1].provider) != 0) {
		snprintf(why, why_bytes, "the ranks chose the providers %s and %s", all[0].provider,
			 all[1].provider);
		return -1;
	}
	ok = fi_av_insert(net.av, all[b->peer].raw, 1, &net.peer, 0, NULL) == 1;
	MPI_Allreduce(&ok, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (!both)
		snprintf(why, why_bytes, "provider %s does not accept the peer's address",
			 all[0].provider);
	return both ? 0 : -1;
}

/* ---- messages ---- */

static void poll_queue(struct bench *b)
{
	struct fi_cq_entry entries[16];
	struct fi_cq_err_entry error;
	ssize_t n = fi_cq_read(net.cq, entries, 16);

	if (n == -FI_EAGAIN)
		return;
	if (n < 0) {
		memset(&error, 0, sizeof(error));
		if (n == -FI_EAVAIL)
			fi_cq_readerr(net.cq, &error, 0);
		bench_die(b, "mode raw: rank %d: %s", b->rank,
			  lib.strerror(n == -FI_EAVAIL ? error.err : (int)-n));
	}
	for (ssize_t i = 0; i < n; i++) {
		const struct context *c = entries[i].op_context;

		if (c->is_send)
			net.sent++;
		else
			net.received++;
	}
}

static struct context *next_context(int is_send)
{
	struct context *c = &net.contexts[net.next];

	net.next = (net.next + 1) % CONTEXTS;
	c->is_send = is_send;
	return c;
}

static void *desc(struct fid_mr *mr)
{
	return mr != NULL ? fi_mr_desc(mr) : NULL;
}

static void post_send(struct bench *b, const void *buf, size_t bytes, struct fid_mr *mr)
{
	struct context *c = NULL;
	ssize_t ret;

	for (;;) {
		if (bytes <= net.info->tx_attr->inject_size && bytes <= INJECT_MAX) {
			ret = fi_inject(net.ep, buf, bytes, net.peer);
			if (ret == 0)
				return;
		} else {
			if (c == NULL)
				c = next_context(1);
			ret = fi_send(net.ep, buf, bytes, desc(mr), net.peer, &c->fi);
			if (ret == 0)
				break;
		}
		if (ret != -FI_EAGAIN)
			bench_die(b, "mode raw: rank %d: send: %s", b->rank,
				  lib.strerror((int)-ret));
		poll_queue(b);
	}
	net.sends++;
}

static void post_recv(struct bench *b, void *buf, size_t bytes, struct fid_mr *mr)
{
	struct context *c = next_context(0);
	ssize_t ret;

	while ((ret = fi_recv(net.ep, buf, bytes, desc(mr), FI_ADDR_UNSPEC, &c->fi)) == -FI_EAGAIN)
		poll_queue(b);
	if (ret != 0)
		bench_die(b, "mode raw: rank %d: fi_recv: %s", b->rank, lib.strerror((int)-ret));
	net.receives++;
}

/* The newest `pending` receives may stay open. */
static void wait_received(struct bench *b, uint64_t pending)
{
	while (net.received + pending < net.receives)
		poll_queue(b);
}

static void wait_sent(struct bench *b)
{
	while (net.sent < net.sends)
		poll_queue(b);
}

/* A receive is always posted before the message that it answers to is sent. */
static void exchange(struct bench *b, const struct bench_slice *s, long from, long to)
{
	for (long k = from; k < to; k++) {
		bench_fill(b, s, k);
		if (b->rank == 0)
			post_send(b, b->cpu_sbuf, s->bytes, net.smr);
		wait_received(b, 0);
		bench_verify(b, s, k);
		bench_spoil(b, s, k);
		if (b->rank == 0)
			wait_sent(b);
		if (k + 1 < s->warm + s->n)
			post_recv(b, b->cpu_rbuf, s->bytes, net.rmr);
		if (b->rank == 1) {
			post_send(b, b->cpu_sbuf, s->bytes, net.smr);
			wait_sent(b);
		}
	}
}

/* What was injected may need our progress to leave: go on until both ranks have all. */
static void settle(struct bench *b)
{
	MPI_Request request;
	int is_done = 0;

	MPI_Ibarrier(MPI_COMM_WORLD, &request);
	while (!is_done) {
		poll_queue(b);
		MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
	}
}

static double raw_pingpong(struct bench *b, const struct bench_slice *s)
{
	double seconds;

	bench_spoil(b, s, 0);
	post_recv(b, b->cpu_rbuf, s->bytes, net.rmr);
	MPI_Barrier(MPI_COMM_WORLD);
	exchange(b, s, 0, s->warm);
	seconds = -bench_now();
	exchange(b, s, s->warm, s->warm + s->n);
	seconds += bench_now();
	settle(b);
	return seconds;
}

static int window_messages(const struct bench_slice *s)
{
	return s->is_check ? s->slots : BENCH_WINDOW;
}

static void post_window(struct bench *b, const struct bench_slice *s, long k)
{
	bench_spoil(b, s, k);
	for (int j = 0; j < window_messages(s); j++)
		post_recv(b, b->cpu_rbuf + (size_t)(j % s->slots) * s->stride, s->bytes, net.rmr);
}

static void windows(struct bench *b, const struct bench_slice *s, long from, long to)
{
	for (long k = from; k < to; k++) {
		bench_fill(b, s, k);
		if (b->rank == 0) {
			post_recv(b, net.answer, sizeof(net.answer), net.amr);
			for (int j = 0; j < window_messages(s); j++)
				post_send(b, b->cpu_sbuf + (size_t)(j % s->slots) * s->stride,
					  s->bytes, net.smr);
			wait_sent(b);
			wait_received(b, 0);
		} else {
			wait_received(b, 0);
			bench_verify(b, s, k);
			if (k + 1 < s->warm + s->n)
				post_window(b, s, k + 1);
			post_send(b, net.answer, 4, net.amr);
			wait_sent(b);
		}
	}
}

static double raw_window(struct bench *b, const struct bench_slice *s)
{
	double seconds;

	if (b->rank == 1)
		post_window(b, s, 0);
	MPI_Barrier(MPI_COMM_WORLD);
	windows(b, s, 0, s->warm);
	seconds = -bench_now();
	windows(b, s, s->warm, s->warm + s->n);
	seconds += bench_now();
	settle(b);
	return seconds;
}

static int raw_variants(size_t bytes)
{
	(void)bytes;
	return 1;
}

#define CLOSE(object)                                                                              \
	do {                                                                                       \
		if ((object) != NULL)                                                              \
			fi_close(&(object)->fid);                                                  \
	} while (0)

static void raw_close(void)
{
	if (net.info == NULL)
		return;
	CLOSE(net.smr);
	CLOSE(net.rmr);
	CLOSE(net.amr);
	CLOSE(net.ep);
	CLOSE(net.av);
	CLOSE(net.cq);
	CLOSE(net.domain);
	CLOSE(net.fabric);
	lib.freeinfo(net.info);
	memset(&net, 0, sizeof(net));
}

#else /* HAVE_OFI */

static int raw_open(struct bench *b, char *why, size_t why_bytes)
{
	(void)b;
	snprintf(why, why_bytes, "built without libfabric's headers");
	return -1;
}

static int raw_variants(size_t bytes)
{
	(void)bytes;
	return 1;
}

/* Not reached: the mode is left out when open fails. */
static double raw_pingpong(struct bench *b, const struct bench_slice *s)
{
	(void)b;
	(void)s;
	return 0;
}

#define raw_window raw_pingpong

static void raw_close(void)
{
}

#endif

const struct raw_ops raw_ofi_ops = {
	.name = "libfabric",
	.open = raw_open,
	.variants = raw_variants,
	.pingpong = raw_pingpong,
	.window = raw_window,
	.close = raw_close,
};
