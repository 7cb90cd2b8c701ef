/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.c: which of libfabric's providers and devices the rail uses. Cold. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/ofi/ofi_int.h"
#include "util/error.h"
#include "util/params.h"
#include "util/topo.h"

/* Best first. sockets and libfabric's shm are never taken unasked. */
static const char *const preference[] = {"cxi", "verbs;ofi_rxm", "efa",		"psm3",
					 "opx", "tcp;ofi_rxm",	 "net;ofi_rxm", "udp;ofi_rxd"};

/* Short names that people use. */
static const char *const short_names[][2] = {
	{"tcp", "tcp;ofi_rxm"},
	{"verbs", "verbs;ofi_rxm"},
	{"net", "net;ofi_rxm"},
	{"udp", "udp;ofi_rxd"},
};

int ofi_is_provider(const struct fi_info *info, const char *name)
{
	const char *own = info->fabric_attr->prov_name;
	size_t n = strlen(name);

	return strncmp(own, name, n) == 0 && (own[n] == '\0' || own[n] == ';');
}

static struct fi_info *make_hints(const struct ofi_dl *dl, const char *provider, uint64_t caps)
{
	struct fi_info *h = dl->dupinfo(NULL);

	if (h == NULL)
		return NULL;
	h->caps = FI_MSG | FI_RMA | caps;
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	/* Deferred work is fired by the streams' threads, without the engine's token. */
	h->domain_attr->threading = caps & FI_TRIGGER ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
	h->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->tx_attr->msg_order = FI_ORDER_SAS;
	h->rx_attr->msg_order = FI_ORDER_SAS;
	if (provider != NULL)
		h->fabric_attr->prov_name = strdup(provider);
	return h;
}

/* All usable offers, or NULL; *ret is libfabric's code. */
static struct fi_info *offers(const struct ofi_dl *dl, const char *provider, uint64_t caps,
			      int *ret)
{
	struct fi_info *hints = make_hints(dl, provider, caps), *list = NULL;

	*ret = -FI_ENOMEM;
	if (hints == NULL)
		return NULL;
	*ret = dl->getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &list);
	dl->freeinfo(hints);
	return *ret == 0 ? list : NULL;
}

static int is_loopback(const struct fi_info *info)
{
	const unsigned char *a = info->src_addr;

	if (strcmp(info->domain_attr->name, "lo") == 0)
		return 1;
	/* struct sockaddr_in: family, port, address in network order. */
	return info->addr_format == FI_SOCKADDR_IN && a != NULL && info->src_addrlen >= 8 &&
	       a[4] == 127;
}

static int distance_of(const struct fi_info *info)
{
	char pci[32];

	if (info->nic != NULL && info->nic->bus_attr != NULL &&
	    info->nic->bus_attr->bus_type == FI_BUS_PCI) {
		const struct fi_pci_attr *p = &info->nic->bus_attr->attr.pci;

		snprintf(pci, sizeof(pci), "%04x:%02x:%02x.%x", p->domain_id, p->bus_id,
			 p->device_id, p->function_id);
		return stmpi_topo_distance(pci, NULL);
	}
	return stmpi_topo_distance(NULL, info->domain_attr->name);
}

/* Less is better; libfabric's own order decides between equals. */
static int cost_of(const struct fi_info *info)
{
	int distance = distance_of(info), cost;

	cost = (distance < 0 ? 50 : distance) * 10;
	if (is_loopback(info))
		cost += 100000;
	if (info->addr_format == FI_SOCKADDR_IN6)
		cost += 1000; /* link-local addresses do not travel well */
	return cost;
}

/* The best device of the exact provider; domain: "" or the only one allowed. */
static const struct fi_info *best_of(const struct fi_info *list, const char *provider,
				     const char *domain)
{
	const struct fi_info *best = NULL, *i;

	for (i = list; i != NULL; i = i->next) {
		if (strcmp(i->fabric_attr->prov_name, provider) != 0)
			continue;
		if (domain[0] != '\0' && strcmp(domain, i->domain_attr->name) != 0)
			continue;
		if (best == NULL || cost_of(i) < cost_of(best))
			best = i;
	}
	return best;
}

static const char *full_name(const char *name)
{
	for (size_t i = 0; i < stmpi_array_len(short_names); i++) {
		if (strcmp(name, short_names[i][0]) == 0)
			return short_names[i][1];
	}
	return name;
}

static int refuse(const struct ofi_dl *dl, const char *asked, const char *domain)
{
	const char *filter = NULL;
	char have[256] = "";
	struct fi_info *list, *i;
	size_t n = 0;
	int ret;

	list = offers(dl, NULL, 0, &ret);
	for (i = list; i != NULL && n < sizeof(have) - 40; i = i->next) {
		const char *name = i->fabric_attr->prov_name;

		if (strstr(have, name) == NULL)
			n += (size_t)snprintf(have + n, sizeof(have) - n, "%s%s", n ? ", " : "",
					      name);
	}
	dl->freeinfo(list);
	filter = stmpi_params_foreign("FI_PROVIDER");
	return stmpi_error_set(STMPI_ENODEV,
			       "STMPI_OFI_PROVIDER=%s: libfabric offers no such provider%s%s with "
			       "the capabilities "
			       "needed here; it offers %s%s%s",
			       asked, domain[0] ? " on domain " : "", domain,
			       have[0] ? have : "none", filter ? "; FI_PROVIDER limits it to " : "",
			       filter ? filter : "");
}

/* Ask for the same device with deferred work, when triggers may be deferred. */
static int defer(const struct ofi_dl *dl, struct fi_info **info)
{
	int64_t trigger = stmpi_param_choice(STMPI_PARAM_TRIGGER);
	const char *name = (*info)->fabric_attr->prov_name;
	const struct fi_info *same = NULL;
	struct fi_info *list, *with;
	int ret;

	/* A provider may offer what it was not asked for. */
	(*info)->caps &= ~FI_TRIGGER;
	if (trigger == STMPI_TRIGGER_SOFTWARE)
		return 0;
	list = offers(dl, name, FI_TRIGGER, &ret);
	same = list != NULL ? best_of(list, name, (*info)->domain_attr->name) : NULL;
	if (same == NULL && trigger == STMPI_TRIGGER_DEFERRED) {
		ret = stmpi_error_set(STMPI_ENODEV,
				      "STMPI_TRIGGER=deferred: provider %s has no deferred work "
				      "(FI_TRIGGER); cxi and sockets have",
				      name);
		dl->freeinfo(list);
		dl->freeinfo(*info);
		*info = NULL;
		return ret;
	}
	with = same != NULL ? dl->dupinfo(same) : NULL;
	dl->freeinfo(list);
	if (with == NULL)
		return 0;
	dl->freeinfo(*info);
	*info = with;
	return 0;
}

int ofi_choose(struct fi_info **info)
{
	const char *asked = stmpi_param_string(STMPI_PARAM_OFI_PROVIDER);
	const char *domain = stmpi_param_string(STMPI_PARAM_OFI_DOMAIN);
	const struct ofi_dl *dl = ofi_dl_get();
	const struct fi_info *best = NULL;
	struct fi_info *list;
	int ret;

	if (dl == NULL)
		return -STMPI_ENODEV;
	list = offers(dl, asked[0] ? full_name(asked) : NULL, 0, &ret);
	if (asked[0] != '\0')
		best = best_of(list, full_name(asked), domain);
	for (size_t i = 0; asked[0] == '\0' && best == NULL && i < stmpi_array_len(preference); i++)
		best = best_of(list, preference[i], domain);
	*info = best != NULL ? dl->dupinfo(best) : NULL;
	dl->freeinfo(list);
	if (*info != NULL)
		return defer(dl, info);
	return refuse(dl, asked[0] ? asked : "(automatic)", domain);
}

int stmpi_net_ofi_choose(char *text, size_t bytes)
{
	struct fi_info *info;
	int ret = ofi_choose(&info), distance;

	if (ret != 0)
		return ret;
	distance = distance_of(info);
	snprintf(text, bytes, "%s on %s (%s)", info->fabric_attr->prov_name,
		 info->domain_attr->name,
		 distance < 0	 ? "distance unknown"
		 : distance == 0 ? "closest to this process's cores"
				 : "farther than the nearest locality");
	ofi_dl_get()->freeinfo(info);
	return 0;
}

int stmpi_net_ofi_triggers(void (*line)(const char *text, void *arg), void *arg)
{
	const char *wait, *name;
	struct fi_info *info;
	char text[256];
	int ret = stmpi_params_check();

	if (ret == 0)
		ret = ofi_choose(&info);
	if (ret != 0)
		return ret;
	name = info->fabric_attr->prov_name;
	if (info->caps & FI_TRIGGER) {
		snprintf(text, sizeof(text), "deferred: %s fires enqueued sends itself%s", name,
			 ofi_is_provider(info, "cxi") ? " (not tested on a card)" : "");
		line(text, arg);
		ofi_deferred_describe(info, text, sizeof(text));
	} else if (stmpi_param_choice(STMPI_PARAM_TRIGGER) == STMPI_TRIGGER_SOFTWARE) {
		snprintf(text, sizeof(text), "software: STMPI_TRIGGER=software");
	} else {
		snprintf(text, sizeof(text), "software: %s has no deferred work (FI_TRIGGER)",
			 name);
	}
	line(text, arg);
	if (ofi_is_provider(info, "sockets")) {
		wait = stmpi_params_foreign("FI_SOCKETS_PE_WAITTIME");
		snprintf(text, sizeof(text),
			 "sockets: FI_SOCKETS_PE_WAITTIME=%s, manual progress, window %u, "
			 "no inject, %u posted receives, receive buffers of %d KiB asked for",
			 wait != NULL ? wait : "(unset)", OFI_SOCKETS_WINDOW, OFI_SOCKETS_RX,
			 OFI_SOCKETS_RCVBUF / 1024);
		line(text, arg);
	}
	ofi_dl_get()->freeinfo(info);
	return 0;
}

#define LISTED_CAPS (FI_MSG | FI_RMA | FI_ATOMIC | FI_HMEM | FI_TRIGGER)

/* libfabric offers a device once per address and protocol; people want it once. */
static int is_listed(const struct fi_info *list, const struct fi_info *info)
{
	for (; list != info; list = list->next) {
		if (((list->caps ^ info->caps) & LISTED_CAPS) == 0 &&
		    strcmp(list->fabric_attr->prov_name, info->fabric_attr->prov_name) == 0 &&
		    strcmp(list->domain_attr->name, info->domain_attr->name) == 0)
			return 1;
	}
	return 0;
}

int stmpi_net_ofi_list(void (*line)(const char *text, void *arg), void *arg)
{
	const struct ofi_dl *dl = ofi_dl_get();
	struct fi_info *list = NULL, *i, *hints;
	char text[256];
	int n = 0;

	if (dl == NULL)
		return -STMPI_ENODEV;
	hints = dl->dupinfo(NULL);
	if (hints == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory to list providers");
	hints->ep_attr->type = FI_EP_RDM;
	hints->mode = ~UINT64_C(0);
	hints->domain_attr->mode = ~UINT64_C(0);
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	(void)dl->getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &list);
	for (i = list; i != NULL; i = i->next) {
		if (is_listed(list, i))
			continue;
		snprintf(text, sizeof(text), "%-16s %-10s%s%s%s%s%s", i->fabric_attr->prov_name,
			 i->domain_attr->name, i->caps & FI_MSG ? " msg" : "",
			 i->caps & FI_RMA ? " rma" : "", i->caps & FI_ATOMIC ? " atomic" : "",
			 i->caps & FI_HMEM ? " hmem" : "", i->caps & FI_TRIGGER ? " trigger" : "");
		line(text, arg);
		n++;
	}
	dl->freeinfo(list);
	dl->freeinfo(hints);
	return n;
}
