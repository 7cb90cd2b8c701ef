/* SPDX-License-Identifier: BSD-3-Clause */
/* none.c: the ofi rail of a build without libfabric's headers: every way in says so. */
#include <stdio.h>

#include "net/net.h"
#include "net/ofi/ofi.h"
#include "util/error.h"

#define WHY "this build has no libfabric (configure --with-libfabric)"

static int refuse(void)
{
	return stmpi_error_set(STMPI_ENODEV, "network between nodes: " WHY);
}

static int probe(char *why, size_t why_bytes)
{
	snprintf(why, why_bytes, WHY);
	return -STMPI_ENODEV;
}

static int rail_open(const struct stmpi_net_attr *attr, struct stmpi_rail **rail)
{
	(void)attr;
	(void)rail;
	return refuse();
}

static void rail_close(struct stmpi_rail *rail)
{
	(void)rail;
}

int stmpi_net_ofi_list(void (*line)(const char *text, void *arg), void *arg)
{
	(void)line;
	(void)arg;
	return refuse();
}

int stmpi_net_ofi_choose(char *text, size_t bytes)
{
	(void)text;
	(void)bytes;
	return refuse();
}

int stmpi_net_ofi_triggers(void (*line)(const char *text, void *arg), void *arg)
{
	(void)line;
	(void)arg;
	return refuse();
}

/* No rail is ever opened, so no other slot is reached. */
const struct stmpi_net_ops stmpi_net_ofi_ops = {
	.abi = STMPI_NET_ABI,
	.bytes = sizeof(struct stmpi_net_ops),
	.name = "ofi",
	.probe = probe,
	.open = rail_open,
	.close = rail_close,
};
