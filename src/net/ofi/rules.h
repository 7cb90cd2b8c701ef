/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules.h: what a deferred work must look like to be queued (FI_QUEUE_WORK). The rules are those of
 * the providers cxi and sockets together, so that what passes with one works with the other. Must
 * know nothing of messages: it sees one work at a time.
 */
#ifndef STMPI_NET_OFI_RULES_H
#define STMPI_NET_OFI_RULES_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_trigger.h>

struct ofi_rules {
	struct fid_ep *ep; /* the only endpoint works may use */
	size_t send_max;   /* largest SEND that cxi offloads, in bytes */
	uint32_t armed;	   /* works queued that have not ended */
	uint32_t credits;  /* how many there may be */
};

/*
 * Check a work that is complete and not queued yet. Its counters are those of struct ofi_counter
 * (counter.h), whose pending and pending_threshold do not count it yet. NULL when it may be queued,
 * else the name of the first rule it breaks: a constant text, one of ofi_rules_names. Allocates and
 * formats nothing. Any thread that may read the counters.
 */
const char *ofi_rules_check(const struct ofi_rules *rules, const struct fi_deferred_work *work);

/* The same: 0, or -STMPI_EINVAL with a text that names the rule. A broken one is our own bug. */
int ofi_rules_enforce(const struct ofi_rules *rules, const struct fi_deferred_work *work);

/* All names, ended by NULL. */
extern const char *const ofi_rules_names[];

#endif
