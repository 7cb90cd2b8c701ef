/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda.c: the CUDA backend: the table of operations for the core, over the driver API.
 *
 * On the path of a message there are no more calls of the driver than the work itself: the context
 * is not asked for first. Memory operations need the stream's context to be current; where it is
 * not, the driver refuses the call, and only then the context is pushed, and popped again. Streams
 * whose handle means "of the current context" are the exception: there it is asked for. Warm:
 * check, mem_kind, batch.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stream/cuda/cuda_int.h"
#include "util/error.h"
#include "util/params.h"

#define MEMOPS_MAX 256 /* entries that the driver takes in one batch */

/* ---- attach ---- */

static int probe(char *why, size_t why_bytes)
{
	return cuda_driver_open(why, why_bytes);
}

static int attribute(CUdevice_attribute attribute, CUdevice device)
{
	int value = 0;

	return cuda_call.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value
											 : 0;
}

static int has_memops(CUdevice device)
{
	return attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device) &&
	       attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, device);
}

/* The kernel uses our mapped memory by its own addresses. */
static int get_kernel(struct cuda_port *p)
{
	if (!attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, p->device))
		return stmpi_error_set(STMPI_ENODEV,
				       "the device does not use host memory by its own addresses");
	return cuda_kernels_get(p->ctx, &p->words);
}

/* A kernel that waits is ended, and its context with it, where the driver limits their time. */
static int may_kernels_wait(const struct cuda_port *p)
{
	return !attribute(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, p->device);
}

/* Waits by the kernel, which is loaded now: later it may wait for a wait of ours. */
static int choose_kernel(struct cuda_port *p)
{
	char why[256];

	if (get_kernel(p) == 0) {
		p->by = CUDA_BY_KERNEL;
		return 0;
	}
	snprintf(why, sizeof(why), "%s", stmpi_error_text());
	return stmpi_error_set(STMPI_ENODEV, "STMPI_CUDA_WAIT=kernel: %s", why);
}

/* Choose how waits are made, by what the device has and what STMPI_CUDA_WAIT says. */
static int choose_wait(struct cuda_port *p)
{
	int has = has_memops(p->device);

	p->by = CUDA_BY_MEMOP;
	switch (stmpi_param_choice(STMPI_PARAM_CUDA_WAIT)) {
	case STMPI_CUDA_WAIT_KERNEL:
		return choose_kernel(p);
	case STMPI_CUDA_WAIT_HOSTFN:
		p->by = CUDA_BY_HOSTFN;
		return 0;
	case STMPI_CUDA_WAIT_MEMOP:
		return has ? 0
			   : stmpi_error_set(STMPI_ENODEV,
					     "STMPI_CUDA_WAIT=memop: the device has no "
					     "64-bit stream memory operations");
	default:
		if (!has && (!may_kernels_wait(p) || choose_kernel(p) != 0))
			p->by = CUDA_BY_HOSTFN;
		return 0;
	}
}

static int look_at_device(struct cuda_port *p)
{
	struct cuda_visit visit;
	CUresult e;

	e = cuda_enter(p->ctx, &visit);
	if (e == CUDA_SUCCESS) {
		e = cuda_call.cuCtxGetDevice(&p->device);
		cuda_leave(&visit);
	}
	if (e != CUDA_SUCCESS)
		return cuda_error_set(e, p->name, "cuCtxGetDevice");
	p->asks_driver = !attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, p->device);
	return choose_wait(p);
}

static int capturing(const struct cuda_port *p)
{
	return stmpi_error_set(
		STMPI_EINVAL, "%s: a capture is in progress, which cannot take this call", p->name);
}

static int is_capturing(struct cuda_port *p)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult e = cuda_call.cuStreamIsCapturing(p->stream, &status);
	struct cuda_visit visit;

	/* Perhaps only because no context is current, or another. */
	if (stmpi_unlikely(e != CUDA_SUCCESS) && e != CUDA_ERROR_STREAM_CAPTURE_IMPLICIT &&
	    cuda_enter(p->ctx, &visit) == CUDA_SUCCESS) {
		if (visit.is_pushed)
			e = cuda_call.cuStreamIsCapturing(p->stream, &status);
		cuda_leave(&visit);
	}
	if (e == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
		return capturing(p);
	if (e != CUDA_SUCCESS)
		return cuda_error_set(e, p->name, "not a live stream");
	return status == CU_STREAM_CAPTURE_STATUS_NONE ? 0 : capturing(p);
}

static void name_stream(struct cuda_port *p)
{
	p->is_default = p->stream == NULL || p->stream == CU_STREAM_LEGACY ||
			p->stream == CU_STREAM_PER_THREAD;
	p->is_per_thread = p->stream == CU_STREAM_PER_THREAD;
	p->thread = pthread_self();
	if (p->is_per_thread)
		snprintf(p->name, sizeof(p->name), "stream cudaStreamPerThread");
	else if (p->is_default)
		snprintf(p->name, sizeof(p->name), "the default stream");
	else
		snprintf(p->name, sizeof(p->name), "stream %p", (void *)p->stream);
}

static int attach(const void *handle, const struct stmpi_stream_hook *hook, void *hook_arg,
		  struct stmpi_stream_port **port)
{
	struct cuda_port *p = calloc(1, sizeof(*p));
	CUresult e;
	int ret;

	(void)hook; /* no thread of ours runs for it: the engine looks at the doorbell */
	(void)hook_arg;
	if (p == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a stream's port");
	p->port.ops = &stmpi_stream_cuda_ops;
	memcpy(&p->stream, handle, sizeof(p->stream));
	name_stream(p);
	e = cuda_call.cuStreamGetCtx(p->stream, &p->ctx);
	ret = e == CUDA_SUCCESS ? is_capturing(p) : cuda_error_set(e, p->name, "not a live stream");
	if (ret == 0)
		ret = look_at_device(p);
	if (ret != 0) {
		free(p);
		return ret;
	}
	*port = &p->port;
	return 0;
}

static void detach(struct stmpi_stream_port *port)
{
	free(port);
}

static int map(struct stmpi_stream_port *port, void *addr, size_t bytes)
{
	return cuda_map(((struct cuda_port *)port)->ctx, addr, bytes);
}

static void fini(void)
{
	cuda_kernels_fini();
	cuda_map_fini();
}

/* ---- the path of a message ---- */

static int check(struct stmpi_stream_port *port)
{
	struct cuda_port *p = (struct cuda_port *)port;

	if (stmpi_unlikely(p->is_per_thread && !pthread_equal(p->thread, pthread_self())))
		return stmpi_error_set(STMPI_EINVAL,
				       "%s: another thread's; this one has a stream of its own",
				       p->name);
	/* The legacy stream cannot be captured, and refuses work while another one is. */
	if (p->is_default && !p->is_per_thread)
		return 0;
	return is_capturing(p);
}

/* May the CPU read it? The kernel says so at the price of a system call that does nothing: it
 * reads the set before it finds that the request is none. */
static int is_readable(const void *addr)
{
	uintptr_t word = (uintptr_t)addr & ~(uintptr_t)(sizeof(uint64_t) - 1);

	return syscall(SYS_rt_sigprocmask, ~0, word, NULL, sizeof(uint64_t)) == 0 ||
	       errno != EFAULT;
}

/*
 * The driver is not asked: memory that the CPU can read is used as it is, wherever it is, and what
 * it cannot read is copied by the stream, which says so when it is no memory of the driver's.
 * Managed memory on a device that cannot share it while it works is such memory, too.
 */
static enum stmpi_mem_kind mem_kind(struct stmpi_stream_port *port, const void *addr)
{
	const struct cuda_port *p = (const struct cuda_port *)port;
	unsigned int is_managed = 0;

	if (stmpi_unlikely(p->asks_driver) &&
	    cuda_call.cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
					    (CUdeviceptr)(uintptr_t)addr) == CUDA_SUCCESS &&
	    is_managed)
		return STMPI_MEM_DEVICE;
	return is_readable(addr) ? STMPI_MEM_CPU : STMPI_MEM_DEVICE;
}

static void fill_param(CUstreamBatchMemOpParams *to, const struct stmpi_memop *m)
{
	memset(to, 0, sizeof(*to));
	if (m->kind == STMPI_MEMOP_WAIT) {
		/* Cyclic, as stmpi_word_reached. */
		to->waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
		to->waitValue.address = (CUdeviceptr)(uintptr_t)m->addr;
		to->waitValue.value64 = m->value;
		to->waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
	} else {
		/* With its barrier: who sees the word sees what the stream wrote before. */
		to->writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
		to->writeValue.address = (CUdeviceptr)(uintptr_t)m->addr;
		to->writeValue.value64 = m->value;
		to->writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
	}
}

/* One call for n memory operations, at most MEMOPS_MAX. */
static CUresult memops(struct cuda_port *p, const struct stmpi_memop *m, int n)
{
	CUstreamBatchMemOpParams few[8], *params = few;
	CUdeviceptr addr = (CUdeviceptr)(uintptr_t)m->addr;
	CUresult e;

	if (p->by == CUDA_BY_HOSTFN)
		return cuda_hostfn_queue(p->stream, m, n);
	if (p->by == CUDA_BY_KERNEL)
		return cuda_kernels_words(p->words, p->stream, m, n);
	if (n == 1 && m->kind == STMPI_MEMOP_WAIT)
		return cuda_call.cuStreamWaitValue64(p->stream, addr, m->value,
						     CU_STREAM_WAIT_VALUE_GEQ);
	if (n == 1)
		return cuda_call.cuStreamWriteValue64(p->stream, addr, m->value,
						      CU_STREAM_WRITE_VALUE_DEFAULT);
	if ((size_t)n > stmpi_array_len(few)) {
		params = malloc((size_t)n * sizeof(*params));
		if (params == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (int i = 0; i < n; i++)
		fill_param(&params[i], &m[i]);
	e = cuda_call.cuStreamBatchMemOp(p->stream, (unsigned int)n, params, 0);
	if (params != few)
		free(params);
	return e;
}

/* How many entries, from m on, one call takes. */
static int run_length(const struct cuda_port *p, const struct stmpi_memop *m, int n)
{
	int most = p->by == CUDA_BY_KERNEL ? CUDA_WORDS_MAX : MEMOPS_MAX, i = 1;

	if (m->kind == STMPI_MEMOP_MOVE)
		return 1;
	while (i < n && i < most && m[i].kind != STMPI_MEMOP_MOVE)
		i++;
	return i;
}

static CUresult queue(struct cuda_port *p, const struct stmpi_memop *m, int n)
{
	if (m->kind == STMPI_MEMOP_MOVE)
		return cuda_call.cuMemcpyAsync((CUdeviceptr)(uintptr_t)m->addr,
					       (CUdeviceptr)(uintptr_t)m->src, m->value, p->stream);
	return memops(p, m, n);
}

/* Queue them all; *done says how many have been, also when it fails. */
static CUresult queue_all(struct cuda_port *p, const struct stmpi_memop *m, int n, int *done)
{
	CUresult e = CUDA_SUCCESS;
	int length;

	while (*done < n) {
		length = run_length(p, m + *done, n - *done);
		e = queue(p, m + *done, length);
		if (stmpi_unlikely(e != CUDA_SUCCESS))
			break;
		*done += length;
	}
	return e;
}

static int queue_failed(const struct cuda_port *p, const struct stmpi_memop *m, CUresult error)
{
	static const char *const calls[] = {
		[CUDA_BY_MEMOP] = "cuStreamBatchMemOp",
		[CUDA_BY_KERNEL] = "cuLaunchKernel",
		[CUDA_BY_HOSTFN] = "cuLaunchHostFunc",
	};
	char what[96];

	if (m->kind != STMPI_MEMOP_MOVE)
		return cuda_error_set(error, p->name, calls[p->by]);
	snprintf(what, sizeof(what), "%s: buffer of %llu bytes, which the CPU cannot read", p->name,
		 (unsigned long long)m->value);
	return cuda_error_set(error, what, "cuMemcpyAsync");
}

static int batch(struct stmpi_stream_port *port, const struct stmpi_memop *ops, int n)
{
	struct cuda_port *p = (struct cuda_port *)port;
	struct cuda_visit visit = {0};
	CUresult e = CUDA_SUCCESS;
	int done = 0;

	if (stmpi_unlikely(p->is_default))
		e = cuda_enter(p->ctx, &visit);
	if (stmpi_likely(e == CUDA_SUCCESS))
		e = queue_all(p, ops, n, &done);
	/* Perhaps only because another context is current. */
	if (stmpi_unlikely(e != CUDA_SUCCESS) && !p->is_default &&
	    cuda_enter(p->ctx, &visit) == CUDA_SUCCESS && visit.is_pushed)
		e = queue_all(p, ops, n, &done);
	cuda_leave(&visit);
	return stmpi_likely(e == CUDA_SUCCESS) ? 0 : queue_failed(p, &ops[done], e);
}

/* On a stream of its own, which waits for no other. */
static int move_now(struct stmpi_stream_port *port, void *addr, const void *src, size_t bytes)
{
	struct cuda_port *p = (struct cuda_port *)port;
	struct cuda_visit visit;
	CUstream stream;
	CUresult e;

	e = cuda_enter(p->ctx, &visit);
	if (e != CUDA_SUCCESS)
		return cuda_error_set(e, p->name, "its context");
	e = cuda_call.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	if (e == CUDA_SUCCESS) {
		e = cuda_call.cuMemcpyAsync((CUdeviceptr)(uintptr_t)addr,
					    (CUdeviceptr)(uintptr_t)src, bytes, stream);
		if (e == CUDA_SUCCESS)
			e = cuda_call.cuStreamSynchronize(stream);
		(void)cuda_call.cuStreamDestroy(stream);
	}
	cuda_leave(&visit);
	return e == CUDA_SUCCESS ? 0 : cuda_error_set(e, "copy to device memory", "cuMemcpyAsync");
}

static int query(struct stmpi_stream_port *port)
{
	struct cuda_port *p = (struct cuda_port *)port;
	struct cuda_visit visit;
	CUresult e;

	e = cuda_enter(p->ctx, &visit);
	if (e != CUDA_SUCCESS)
		return 0;
	e = cuda_call.cuStreamQuery(p->stream);
	cuda_leave(&visit);
	return e == CUDA_ERROR_NOT_READY;
}

const struct stmpi_stream_ops stmpi_stream_cuda_ops = {
	.abi = STMPI_STREAM_ABI,
	.bytes = sizeof(struct stmpi_stream_ops),
	.name = "cuda",
	.type_name = "cudaStream_t",
	.handle_bytes = sizeof(CUstream),
	.caps = STMPI_STREAM_CAP_DEVICE_MEM,
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
