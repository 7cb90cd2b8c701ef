/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cxi.h: what we use of the extensions of libfabric's provider cxi, declared by ourselves, so that
 * every build can use them where they are: headers of libfabric come with or without
 * <rdma/fi_cxi_ext.h>. Names and layout are an ABI, and must not be changed here.
 *
 * Sources, in libfabric (ofiwg/libfabric) unless said otherwise:
 *   [ext] prov/cxi/include/fi_cxi_ext.h, installed as <rdma/fi_cxi_ext.h>
 *   [man] man/fi_cxi.7.md, "CXI Counter Extensions"
 *   [src] prov/cxi/src/cxip_cntr.c
 *   [hw]  libcxi's cxi_prov_hw.h: CT_..._OFFSET and cxi_ct_inc_success
 *   [drv] cxi-driver: cass_ct.c, and cxi_user_ct_alloc and the mmap call of cxi_user_core.c
 */
#ifndef STMPI_NET_OFI_CXI_H
#define STMPI_NET_OFI_CXI_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

/* The name for fi_open_ops on a counter; flags and context are ignored. [ext: FI_CXI_COUNTER_OPS]
 */
#define OFI_CXI_COUNTER_OPS "cxi_counter_ops"

/* In this order, and nothing behind it. [ext: struct fi_cxi_cntr_ops] */
struct ofi_cxi_counter_ops {
	/*
	 * Let the NIC write the counter's value to buf, 8 bytes, aligned to 8 [drv], host or GPU
	 * memory. Asks for one write at once [src]. ([man] has a const void *, [ext] has not.)
	 */
	int (*set_wb_buffer)(struct fid *fid, void *buf, size_t len);

	/*
	 * The counter's doorbell. *len is 8, the size of a pointer and not of the mapping [src]:
	 * that is one page, and the doorbell its first word [drv].
	 */
	int (*get_mmio_addr)(struct fid *fid, void **addr, size_t *len);
};

/*
 * Bytes from the doorbell's address; each takes a 64-bit store. The resets take only 0: no store
 * sets a counter to another value. [ext: fi_cxi_get_cntr_add_addr and the next three; hw]
 */
#define OFI_CXI_MMIO_ADD	   0u
#define OFI_CXI_MMIO_ADD_FAILURE   64u
#define OFI_CXI_MMIO_RESET	   128u
#define OFI_CXI_MMIO_RESET_FAILURE 192u

/*
 * What the NIC writes back: successes in the low 48 bits, failures in the next 7, 8 unused, and bit
 * 63, which is set by each write. [ext: FI_CXI_CNTR_SUCCESS_MAX and _FAILURE_MAX,
 * fi_cxi_cntr_wb_read and _wb_readerr, fi_cxi_gen_cntr_success]
 */
#define OFI_CXI_SUCCESS_MAX ((UINT64_C(1) << 48) - 1)
#define OFI_CXI_FAILURE_MAX ((UINT64_C(1) << 7) - 1)
#define OFI_CXI_WRITEBACK   (UINT64_C(1) << 63)

static inline uint64_t ofi_cxi_success(uint64_t written)
{
	return written & OFI_CXI_SUCCESS_MAX;
}

static inline uint64_t ofi_cxi_failure(uint64_t written)
{
	return written >> 48 & OFI_CXI_FAILURE_MAX;
}

static inline int ofi_cxi_is_written(uint64_t written)
{
	return (written & OFI_CXI_WRITEBACK) != 0;
}

/* The word to wait for: so many successes, up to OFI_CXI_SUCCESS_MAX, and no failure. */
static inline uint64_t ofi_cxi_written(uint64_t success)
{
	return OFI_CXI_WRITEBACK | success;
}

#endif
