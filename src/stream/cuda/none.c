/* SPDX-License-Identifier: BSD-3-Clause */
/* none.c: in place of the CUDA backend, in a build without cuda.h: it says so. */
#include <stdio.h>

#include "stream/cuda/cuda_backend.h"
#include "util/error.h"

static int refuse(void)
{
	return stmpi_error_set(STMPI_ENODEV, "this build has no CUDA streams");
}

static int probe(char *why, size_t why_bytes)
{
	snprintf(why, why_bytes, "this build has no CUDA streams: configure found no cuda.h");
	return -STMPI_ENODEV;
}

static int attach(const void *handle, const struct stmpi_stream_hook *hook, void *hook_arg,
		  struct stmpi_stream_port **port)
{
	(void)handle;
	(void)hook;
	(void)hook_arg;
	(void)port;
	return refuse();
}

static void detach(struct stmpi_stream_port *port)
{
	(void)port;
}

static int map(struct stmpi_stream_port *port, void *addr, size_t bytes)
{
	(void)port;
	(void)addr;
	(void)bytes;
	return refuse();
}

static int check(struct stmpi_stream_port *port)
{
	(void)port;
	return refuse();
}

static enum stmpi_mem_kind mem_kind(struct stmpi_stream_port *port, const void *addr)
{
	(void)port;
	(void)addr;
	return STMPI_MEM_CPU;
}

static int batch(struct stmpi_stream_port *port, const struct stmpi_memop *ops, int n)
{
	(void)port;
	(void)ops;
	(void)n;
	return refuse();
}

static int move_now(struct stmpi_stream_port *port, void *addr, const void *src, size_t bytes)
{
	(void)port;
	(void)addr;
	(void)src;
	(void)bytes;
	return refuse();
}

static int query(struct stmpi_stream_port *port)
{
	(void)port;
	return 0;
}

static void fini(void)
{
}

const struct stmpi_stream_ops stmpi_stream_cuda_ops = {
	.abi = STMPI_STREAM_ABI,
	.bytes = sizeof(struct stmpi_stream_ops),
	.name = "cuda",
	.type_name = "cudaStream_t",
	.handle_bytes = sizeof(void *),
	.caps = 0,
	.probe = probe,
	.attach = attach,
	.detach = detach,
	.map = map,
	.check = check,
	.mem_kind = mem_kind,
	.batch = batch,
	.move_now = move_now,
	.query = query,
	.fini = fini,
};
