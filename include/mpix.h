/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpix.h: the MPIX_Stream calls, for programs that include mpi.h too.
 *
 * An MPI from MPICH 4.1 on declares them in mpi.h itself; then this header adds nothing. Names,
 * types and handle values are MPICH's, so one source compiles with either. The calls of MPICH that
 * are not declared here (MPIX_Stream_send and its like, multiplex communicators, progress threads,
 * MPIX_Allreduce_enqueue) are not supported yet: with an mpi.h that declares them they compile, and
 * return an error of class MPI_ERR_UNSUPPORTED_OPERATION.
 *
 * Common to all calls: they may be made between MPI_Init and MPI_Finalize by any thread that may
 * call MPI. Wrong arguments are reported at the call, with an error of the class named and a text
 * with argument and value, through the error handler of the communicator of the call, or of
 * MPI_COMM_SELF where it has none. A call that fails has done nothing.
 *
 * What fails after an enqueue cannot be returned by that call. It is in the MPI_ERROR field of the
 * operation's status, the stream goes on, and where no status was asked for the next call that
 * enqueues on that stream returns it, once, and enqueues nothing.
 */
#ifndef STMPI_MPIX_H
#define STMPI_MPIX_H

#include <mpi.h>

#ifndef MPIX_STREAM_NULL

#ifdef __cplusplus
extern "C" {
#endif

/* A stream: a CUDA stream, a stmpi_host_stream_t, ... as MPI sees it. */
typedef int MPIX_Stream;

/* No stream. Valid for MPIX_Stream_comm_create only. */
#define MPIX_STREAM_NULL ((MPIX_Stream)0x3c000000)

/* Error class: a stream handle that is null, was freed, or never was one. */
#define MPIX_ERR_STREAM 106

/**
 * Make an MPIX_Stream from a stream of the program.
 *
 * @param info MPI_INFO_NULL, or without the key "type": a general stream, on which nothing can be
 * enqueued. Else the keys "type", the name of the stream's C type ("stmpi_host_stream_t"), and
 * "value", the bytes of the handle as MPIX_Info_set_hex writes them. Read during the call only.
 * @param stream out: the new handle. Free it with MPIX_Stream_free.
 *
 * The program's stream may be destroyed at any time afterwards; what is enqueued still runs. Local;
 * may block for a short time, allocates. The first stream starts the library's engine.
 * Errors: MPI_ERR_ARG (stream is NULL); MPI_ERR_OTHER: unknown "type", "value" missing, not
 * hexadecimal, of the wrong length or not a live stream; no provider, or a parameter with an
 * impossible value.
 */
int MPIX_Stream_create(MPI_Info info, MPIX_Stream *stream);

/**
 * Give up a stream handle; *stream becomes MPIX_STREAM_NULL.
 *
 * Communicators made from it keep the stream and stay usable, and operations that are enqueued
 * still run. Local, never blocks. Errors: MPI_ERR_ARG (stream is NULL), MPIX_ERR_STREAM (null or
 * freed stream).
 */
int MPIX_Stream_free(MPIX_Stream *stream);

/**
 * Make a communicator with the processes of comm, on which this process's operations can be
 * enqueued on stream.
 *
 * @param comm an intracommunicator. Its attributes are copied as by MPI_Comm_dup.
 * @param stream this process's stream. Each process passes its own, of any type, or
 * MPIX_STREAM_NULL: that process uses ordinary calls on the communicator, which match enqueued
 * ones.
 * @param newcomm out: free it with MPI_Comm_free, at any time after the last enqueue.
 *
 * Collective over comm, blocks until all have called. MPI_Comm_dup, MPI_Comm_dup_with_info,
 * MPI_Comm_idup and MPI_Comm_idup_with_info of newcomm inherit the stream; other constructors make
 * plain communicators. (The idup calls of a stream communicator get on in Wait and Test calls that
 * name a request of such a call.) Errors, the same on every process, the text names the process
 * that failed: MPI_ERR_COMM (intercommunicator), MPIX_ERR_STREAM (freed stream), MPI_ERR_OTHER
 * (settings that differ between processes, an unknown provider, no provider, a process that cannot
 * be reached), MPI_ERR_NO_MEM. MPI_ERR_ARG (newcomm is NULL) is local.
 */
int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm);

/**
 * Return the stream of a communicator.
 *
 * @param idx 0; a larger one has no stream.
 * @param stream out: this process's stream, MPIX_STREAM_NULL when comm has none or is no stream
 * communicator. The handle is not a new one: it must not be freed twice, and is of no more use once
 * it was freed. Local, never blocks. Errors: MPI_ERR_COMM, MPI_ERR_ARG (negative idx, stream is
 * NULL).
 */
int MPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream *stream);

/**
 * Set an info key to bytes, written as hexadecimal digits: two per byte, in memory order.
 *
 * @param value value_size bytes, read during the call; may be NULL when value_size is 0.
 * @param value_size 0 to 511 bytes.
 * Local. Errors: MPI_ERR_INFO, MPI_ERR_INFO_KEY, MPI_ERR_ARG (value is NULL), MPI_ERR_INFO_VALUE
 * (too long or negative value_size).
 */
int MPIX_Info_set_hex(MPI_Info info, const char *key, const void *value, int value_size);

/**
 * Enqueue a standard-mode send on the communicator's stream; later work of the stream waits until
 * buf may be reused.
 *
 * When it returns the operation has been queued only. It begins when the stream reaches it, as if
 * MPI_Send was called then.
 *
 * @param buf read after the stream has reached the operation, until it has passed it. May be NULL
 * for no bytes.
 * @param count, datatype what to send: a contiguous datatype, committed; it may be freed after the
 * call.
 * @param dest, tag as for MPI_Send; MPI_PROC_NULL and the own rank are allowed.
 * @param comm a stream communicator with a stream here.
 *
 * Never waits for the message. Errors: MPI_ERR_COMM (not a communicator), MPI_ERR_OTHER (not a
 * stream communicator, no stream here that can be enqueued on; or a failure of the stream's earlier
 * work), MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_RANK, MPI_ERR_TAG, MPI_ERR_BUFFER, MPI_ERR_NO_MEM.
 */
int MPIX_Send_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
		      MPI_Comm comm);
/** MPIX_Send_enqueue with a large count. */
int MPIX_Send_enqueue_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
			MPI_Comm comm);

/**
 * Enqueue a receive; later work of the stream waits until the message is in buf.
 *
 * @param buf not written before the stream has reached the operation, nor after it has passed it. A
 * message longer than count elements is cut: MPI_ERR_TRUNCATE in the status, no byte beyond is
 * changed.
 * @param source, tag as for MPI_Recv, wildcards and MPI_PROC_NULL too.
 * @param status MPI_STATUS_IGNORE, or written in stream order, MPI_ERROR included (MPI_SUCCESS or
 * an error class): it must stay valid until the stream has passed the operation. Otherwise as
 * MPIX_Send_enqueue.
 */
int MPIX_Recv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag,
		      MPI_Comm comm, MPI_Status *status);
/** MPIX_Recv_enqueue with a large count. */
int MPIX_Recv_enqueue_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
			MPI_Comm comm, MPI_Status *status);

/**
 * Enqueue the start of a send; later work of the stream does not wait for it.
 *
 * @param request out: to be completed by MPIX_Wait_enqueue or MPIX_Waitall_enqueue, or from the
 * host by the MPI_Wait and MPI_Test families or MPI_Request_free. buf must not be changed before
 * the request is complete. Otherwise as MPIX_Send_enqueue.
 */
int MPIX_Isend_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
		       MPI_Comm comm, MPI_Request *request);
/** MPIX_Isend_enqueue with a large count. */
int MPIX_Isend_enqueue_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
			 MPI_Comm comm, MPI_Request *request);

/**
 * Enqueue the start of a receive; later work of the stream does not wait for it. See
 * MPIX_Isend_enqueue and MPIX_Recv_enqueue.
 */
int MPIX_Irecv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag,
		       MPI_Comm comm, MPI_Request *request);
/** MPIX_Irecv_enqueue with a large count. */
int MPIX_Irecv_enqueue_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
			 MPI_Comm comm, MPI_Request *request);

/**
 * Enqueue the wait for one operation on the stream that it was enqueued on.
 *
 * @param request in: from MPIX_Isend_enqueue or MPIX_Irecv_enqueue; out: MPI_REQUEST_NULL.
 * MPI_REQUEST_NULL: nothing is enqueued, the status is made empty at once.
 * @param status MPI_STATUS_IGNORE, or written in stream order as by MPIX_Recv_enqueue.
 *
 * Never waits for the message. Errors: MPI_ERR_ARG (request is NULL), MPI_ERR_REQUEST (not a
 * request of those calls), MPI_ERR_OTHER (a failure of the stream's earlier work), MPI_ERR_NO_MEM;
 * the request is unchanged then.
 */
int MPIX_Wait_enqueue(MPI_Request *request, MPI_Status *status);

/**
 * Enqueue the wait for several operations of one stream.
 *
 * @param count 0 or more.
 * @param array_of_requests as for MPIX_Wait_enqueue, all of one stream, none twice. The array is
 * copied: it may be reused at once.
 * @param array_of_statuses MPI_STATUSES_IGNORE, or count statuses.
 * Errors: as MPIX_Wait_enqueue; MPI_ERR_COUNT; MPI_ERR_REQUEST also for requests of two streams, or
 * one twice.
 */
int MPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[], MPI_Status *array_of_statuses);

#ifdef __cplusplus
}
#endif

#endif /* MPIX_STREAM_NULL */
#endif /* STMPI_MPIX_H */
