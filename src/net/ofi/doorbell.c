/* SPDX-License-Identifier: BSD-3-Clause */
/* doorbell.c: the three ways to add to a trigger counter. ring is hot. */
#include "net/ofi/counter.h"
#include "net/ofi/cxi.h"
#include "net/ofi/ofi_int.h"
#include "util/error.h"

static int open_call(struct ofi_counter *c)
{
	c->mmio = NULL;
	return 0;
}

/* Both providers refuse no value this small: sockets none, cxi those of more than 48 bits. */
static void ring_call(struct ofi_counter *c, uint64_t n)
{
	fi_cntr_add(c->cntr, n);
}

const struct ofi_doorbell_ops ofi_doorbell_worker = {
	.name = "worker",
	.open = open_call,
	.ring = ring_call,
	.is_callable = 1,
};

const struct ofi_doorbell_ops ofi_doorbell_word = {
	.name = "word",
	.open = open_call,
	.ring = ring_call,
	.is_callable = 0,
};

static int open_mmio(struct ofi_counter *c)
{
	const struct ofi_cxi_counter_ops *ops;
	void *table = NULL, *addr = NULL;
	size_t bytes = 0;
	int ret;

	ret = fi_open_ops(&c->cntr->fid, OFI_CXI_COUNTER_OPS, 0, &table, NULL);
	if (ret != 0)
		return stmpi_error_set(STMPI_ENODEV, "fi_open_ops(\"%s\") on a counter: %s",
				       OFI_CXI_COUNTER_OPS, ofi_dl_get()->strerror(-ret));
	ops = table;
	if (ops == NULL || ops->get_mmio_addr == NULL)
		return stmpi_error_set(STMPI_ENODEV,
				       "fi_open_ops(\"%s\") on a counter gave no get_mmio_addr",
				       OFI_CXI_COUNTER_OPS);
	/* bytes is the size of a pointer, whatever the mapping's (cxi.h): of no use. */
	ret = ops->get_mmio_addr(&c->cntr->fid, &addr, &bytes);
	if (ret != 0)
		return stmpi_error_set(STMPI_ENODEV, "cxi's get_mmio_addr: %s",
				       ofi_dl_get()->strerror(-ret));
	/* One store of 64 bits is what makes it an addition: it must be aligned. */
	if (addr == NULL || (uintptr_t)addr % sizeof(uint64_t) != 0)
		return stmpi_error_set(STMPI_ENODEV, "cxi's get_mmio_addr gave the address %p",
				       addr);
	c->mmio = (volatile uint64_t *)addr + OFI_CXI_MMIO_ADD / sizeof(uint64_t);
	return 0;
}

/*
 * Stores to memory before this reach it before the doorbell reaches the NIC, which then reads them
 * by DMA. The driver maps the page uncached, not write-combined (cxi.h, [drv]): so two rings stay
 * two stores, and on x86 the processor keeps the order; arm needs a barrier that also holds for
 * devices, which a C11 fence (dmb ish) does not promise.
 */
static inline void before_doorbell(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__asm__ __volatile__("" ::: "memory");
#elif defined(__aarch64__)
	__asm__ __volatile__("dmb oshst" ::: "memory");
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

static void ring_mmio(struct ofi_counter *c, uint64_t n)
{
	before_doorbell();
	*c->mmio = n;
}

const struct ofi_doorbell_ops ofi_doorbell_mmio = {
	.name = "mmio",
	.open = open_mmio,
	.ring = ring_mmio,
	.is_callable = 0,
};

const struct ofi_doorbell_ops *ofi_doorbell_choose(int is_cxi, int stream_calls)
{
	if (is_cxi)
		return &ofi_doorbell_mmio;
	return stream_calls ? &ofi_doorbell_worker : &ofi_doorbell_word;
}
