/* SPDX-License-Identifier: BSD-3-Clause */
/* reg.c: registering memory with libfabric; what the registration cache calls. */
#include "net/ofi/ofi_int.h"
#include "util/error.h"

int ofi_mr_open(void *arg, const void *addr, size_t bytes, struct regcache_entry *entry)
{
	struct ofi_rail *r = arg;
	const uint64_t access =
		FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	uint64_t mode = (uint64_t)r->info->domain_attr->mr_mode;
	struct fid_mr *mr;
	int ret;

	ret = fi_mr_reg(r->domain, addr, bytes, access, 0, mode & FI_MR_PROV_KEY ? 0 : r->next_key,
			0, &mr, NULL);
	if (ret != 0)
		goto err;
	if (mode & FI_MR_ENDPOINT) {
		ret = fi_mr_bind(mr, &r->ep->fid, 0);
		if (ret == 0)
			ret = fi_mr_enable(mr);
		if (ret != 0) {
			fi_close(&mr->fid);
			goto err;
		}
	}
	r->next_key++;
	entry->handle = mr;
	entry->desc = fi_mr_desc(mr);
	entry->key = fi_mr_key(mr);
	entry->base = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)addr : 0;
	return 0;
err:
	return stmpi_error_set(STMPI_ENET, "%s cannot register %zu bytes at %p: %s",
			       r->rail.description, bytes, addr, ofi_dl_get()->strerror(-ret));
}

void ofi_mr_close(void *arg, struct regcache_entry *entry)
{
	struct fid_mr *mr = entry->handle;

	(void)arg;
	fi_close(&mr->fid);
}

int ofi_reg_own(struct ofi_rail *r, void *buf, size_t bytes, struct fid_mr **mr)
{
	int ret =
		fi_mr_reg(r->domain, buf, bytes, FI_SEND | FI_RECV, 0, r->next_key++, 0, mr, NULL);

	if (ret == 0 && r->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		ret = fi_mr_bind(*mr, &r->ep->fid, 0);
		if (ret == 0)
			ret = fi_mr_enable(*mr);
	}
	return ret == 0 ? 0 : ofi_net_error(r, "registering packet buffers", ret);
}
