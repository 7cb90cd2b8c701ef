/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi.h: what stmpi_info asks the ofi rail, beside its table of operations. */
#ifndef STMPI_NET_OFI_OFI_H
#define STMPI_NET_OFI_OFI_H

#include <stddef.h>

/*
 * Call line(text, arg) for each provider and device of libfabric, with its capabilities. Returns
 * how many; negative with an error text when libfabric is not here. May be slow.
 */
int stmpi_net_ofi_list(void (*line)(const char *text, void *arg), void *arg);

/* Say which provider and device the rail would use, and why. 0 or -STMPI_E with a text. May be
 * slow. */
int stmpi_net_ofi_choose(char *text, size_t bytes);

/*
 * Call line(text, arg) with what triggers would be with that provider: deferred or software and
 * why, credits, doorbell, and what is set for the provider. 0 or -STMPI_E with a text. May be slow.
 */
int stmpi_net_ofi_triggers(void (*line)(const char *text, void *arg), void *arg);

#endif
