/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * any_stream.h: streams of one kind for all MPI tests: host streams, or CUDA streams when
 * STMPI_TEST_STREAM=cuda is set (then the program runs under simrun, or where there is a GPU).
 * Calls return 0 on success; what they do is what stmpi_host.h says of theirs.
 */
#ifndef STMPI_TESTS_ANY_STREAM_H
#define STMPI_TESTS_ANY_STREAM_H

#include <stddef.h>
#include <stdint.h>

typedef void *any_stream_t;
typedef void *any_event_t;

/* Choose, before any other call: 1 for CUDA streams. NULL, or why there are none. Without it the
 * environment chooses, at the first call. */
const char *any_stream_open(int cuda);
/* 1: CUDA streams. */
int any_stream_is_cuda(void);
/* The info value of `type`. */
const char *any_stream_type(void);

int any_stream_create(any_stream_t *stream);
int any_stream_destroy(any_stream_t stream);
int any_stream_launch(any_stream_t stream, void (*fn)(void *arg), void *arg);
int any_stream_wait_value64(any_stream_t stream, uint64_t *word, uint64_t value);
int any_stream_write_value64(any_stream_t stream, uint64_t *word, uint64_t value);
int any_stream_query(any_stream_t stream);
int any_stream_synchronize(any_stream_t stream);

int any_event_create(any_event_t *event);
int any_event_destroy(any_event_t event);
int any_event_record(any_event_t event, any_stream_t stream);
int any_event_query(any_event_t event);
int any_event_synchronize(any_event_t event);
int any_event_elapsed_ns(any_event_t start, any_event_t stop, int64_t *ns);
int any_stream_wait_event(any_stream_t stream, any_event_t event);

/* CUDA only: memory that the CPU cannot touch, and copies that are over when they return. */
void *any_device_alloc(size_t bytes);
int any_device_free(void *addr);
int any_device_copy(void *to, const void *from, size_t bytes);
/* A copy in the stream's order; host memory must be pinned: any_pinned_alloc. */
int any_device_copy_async(void *to, const void *from, size_t bytes, any_stream_t stream);
void *any_pinned_alloc(size_t bytes);
void *any_managed_alloc(size_t bytes);
/* Memory from its allocation to its free in the stream's order. */
void *any_device_alloc_async(size_t bytes, any_stream_t stream);
int any_device_free_async(void *addr, any_stream_t stream);
/* From begin on, until end, the stream's work goes into a graph, which is thrown away. */
int any_capture_begin(any_stream_t stream);
int any_capture_end(any_stream_t stream);
/* A call of the CUDA driver that this header lacks, by its symbol; NULL: there is none. */
void *any_driver(const char *name);
/* "" for host streams. */
void any_device_name(char *name, size_t bytes);
/* The calling thread's current context, as a number. */
uint64_t any_context(void);

#endif
