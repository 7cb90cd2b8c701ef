/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_stream.c: the stream under test, host or CUDA, its buffers, and the work that a benchmark
 * puts on it besides messages.
 *
 * Where the messages' memory is a device's, the CPU has a pinned twin of it: payloads are made and
 * verified there, and copied in stream order; and plain MPI, which need not know of devices, sends
 * from there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

#define PAGE_BYTES ((size_t)4096)

/* One piece of checking work on the stream; lives until the slice has ended. */
struct bench_hook {
	struct bench *b;
	const struct bench_slice *s;
	long k;
};

const char *const bench_buffer_names[BENCH_BUFFERS] = {"host", "pinned", "managed", "device"};

void bench_choose_stream(struct bench *b)
{
	const char *why = any_stream_open(b->is_cuda);

	if (why != NULL)
		bench_die(b, "rank %d: --stream cuda: %s", b->rank, why);
	any_device_name(b->device, sizeof(b->device));
}

void bench_open_stream(struct bench *b)
{
	MPI_Info info;

	if (b->queue != NULL)
		return;
	bench_must(b, any_stream_create(&b->queue), "creating a stream");
	bench_must(b, any_event_create(&b->start), "creating an event");
	bench_must(b, any_event_create(&b->stop), "creating an event");
	MPI_Info_create(&info);
	MPI_Info_set(info, "type", any_stream_type());
	MPIX_Info_set_hex(info, "value", &b->queue, sizeof(b->queue));
	MPIX_Stream_create(info, &b->stream);
	MPI_Info_free(&info);
	MPIX_Stream_comm_create(MPI_COMM_WORLD, b->stream, &b->comm);
}

void bench_close_stream(struct bench *b)
{
	if (b->queue == NULL)
		return;
	MPI_Comm_free(&b->comm);
	MPIX_Stream_free(&b->stream);
	any_event_destroy(b->start);
	any_event_destroy(b->stop);
	bench_must(b, any_stream_destroy(b->queue), "destroying the stream");
}

/* ---- buffers ---- */

static void *map_pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

char *bench_alloc(const struct bench *b, enum bench_buffer kind, size_t bytes)
{
	void *p = NULL;

	bytes = (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	switch (kind) {
	case BENCH_HOST:
		p = map_pages(bytes);
		break;
	case BENCH_PINNED:
		p = any_pinned_alloc(bytes);
		break;
	case BENCH_MANAGED:
		p = any_managed_alloc(bytes);
		break;
	case BENCH_DEVICE:
		p = any_device_alloc(bytes);
		break;
	}
	if (p == NULL)
		bench_die(b, "rank %d: no memory for a buffer of %zu bytes", b->rank, bytes);
	if (kind != BENCH_DEVICE)
		memset(p, 1, bytes); /* every page is there before anything is timed */
	return p;
}

/* What the CPU uses in a buffer's place. */
static char *twin(const struct bench *b, char *buf)
{
	return b->buffer == BENCH_DEVICE ? bench_alloc(b, BENCH_PINNED, b->pool_bytes) : buf;
}

void bench_open_buffers(struct bench *b)
{
	if (b->sbuf != NULL)
		return;
	b->pool_bytes = b->max_bytes > BENCH_POOL_BYTES ? b->max_bytes : BENCH_POOL_BYTES;
	b->pool_bytes = (b->pool_bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	b->sbuf = bench_alloc(b, b->buffer, b->pool_bytes);
	b->rbuf = bench_alloc(b, b->buffer, b->pool_bytes);
	b->cpu_sbuf = twin(b, b->sbuf);
	b->cpu_rbuf = twin(b, b->rbuf);
	if (b->buffer == BENCH_DEVICE)
		bench_must(b, any_device_copy(b->sbuf, b->cpu_sbuf, b->pool_bytes), "a copy");
}

static void copy_enqueue(const struct bench *b, char *to, const char *from, size_t bytes)
{
	if (b->buffer == BENCH_DEVICE && bytes > 0)
		bench_must(b, any_device_copy_async(to, from, bytes, b->queue), "a copy");
}

/* ---- gates and stream work ---- */

void bench_gate_close(struct bench *b)
{
	bench_must(b, any_stream_wait_value64(b->queue, &b->gate, ++b->gate_target),
		   "waiting for a value");
}

void bench_gate_open(struct bench *b)
{
	MPI_Barrier(MPI_COMM_WORLD);
	/* Partner: the stream's wait, which acquires. */
	__atomic_store_n(&b->gate, b->gate_target, __ATOMIC_RELEASE);
	bench_synchronize(b);
}

void bench_synchronize(const struct bench *b)
{
	bench_must(b, any_stream_synchronize(b->queue), "synchronising the stream");
}

void bench_record(const struct bench *b, any_event_t event)
{
	bench_must(b, any_event_record(event, b->queue), "recording an event");
}

double bench_elapsed(const struct bench *b)
{
	int64_t ns = 0;

	bench_must(b, any_event_elapsed_ns(b->start, b->stop, &ns), "the time between two events");
	return (double)ns * 1e-9;
}

static void nothing(void *arg)
{
	(void)arg;
}

void bench_stream_work(struct bench *b, size_t offset, size_t bytes)
{
	if (b->buffer == BENCH_DEVICE)
		copy_enqueue(b, b->cpu_sbuf + offset, b->sbuf + offset, bytes);
	else
		bench_must(b, any_stream_launch(b->queue, nothing, NULL), "launching a function");
}

void bench_stream_take(struct bench *b, size_t offset, size_t bytes)
{
	copy_enqueue(b, b->rbuf + offset, b->cpu_rbuf + offset, bytes);
}

/* ---- checking work ---- */

static void hook_fill(void *arg)
{
	const struct bench_hook *h = arg;

	bench_fill(h->b, h->s, h->k);
}

static void hook_spoil(void *arg)
{
	const struct bench_hook *h = arg;

	bench_spoil(h->b, h->s, h->k);
}

static void hook_verify(void *arg)
{
	const struct bench_hook *h = arg;

	bench_verify(h->b, h->s, h->k);
}

static void hook_enqueue(struct bench *b, const struct bench_slice *s, long k, void (*fn)(void *))
{
	struct bench_hook *h;

	if (b->hook_count == b->hook_room)
		bench_die(b, "more checking work than was prepared for");
	h = &b->hooks[b->hook_count++];
	h->b = b;
	h->s = s;
	h->k = k;
	bench_must(b, any_stream_launch(b->queue, fn, h), "launching a function");
}

void bench_make_hooks(struct bench *b, size_t count)
{
	b->hook_room = count;
	b->hooks = realloc(b->hooks, count * sizeof(*b->hooks));
	if (b->hooks == NULL)
		bench_die(b, "no memory");
}

static size_t slots_bytes(const struct bench_slice *s)
{
	return (size_t)s->slots * s->stride;
}

void bench_fill_enqueue(struct bench *b, const struct bench_slice *s, long k)
{
	if (!s->is_check)
		return;
	hook_enqueue(b, s, k, hook_fill);
	copy_enqueue(b, b->sbuf, b->cpu_sbuf, slots_bytes(s));
}

void bench_spoil_enqueue(struct bench *b, const struct bench_slice *s, long k)
{
	if (!s->is_check)
		return;
	hook_enqueue(b, s, k, hook_spoil);
	copy_enqueue(b, b->rbuf, b->cpu_rbuf, slots_bytes(s));
}

void bench_verify_enqueue(struct bench *b, const struct bench_slice *s, long k)
{
	if (!s->is_check)
		return;
	copy_enqueue(b, b->cpu_rbuf, b->rbuf, slots_bytes(s));
	hook_enqueue(b, s, k, hook_verify);
}
