/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unsupported.c: calls of MPI that have no meaning on a stream communicator yet, and the calls of
 * MPICH's stream interface that are not here yet. They return MPI_ERR_UNSUPPORTED_OPERATION with a
 * text.
 *
 * They must come here: the MPI would match the first among themselves only, apart from the messages
 * of this library, and knows nothing of the handles that the second are given.
 */
#include "mpix_int.h"

static int no_call(const char *func, struct mpix_comm *c)
{
	return mpix_fail(
		c->handle, MPI_ERR_UNSUPPORTED_OPERATION,
		"%s: invalid argument comm = 0x%08x: not supported yet on a stream communicator",
		func, (unsigned int)c->handle);
}

/* ---- MPI's ---- */

int MPI_Bsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Bsend", c) : PMPI_Bsend(buf, count, datatype, dest, tag, comm);
}

int MPI_Bsend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
		MPI_Comm comm)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Bsend_c", c) : PMPI_Bsend_c(buf, count, datatype, dest, tag, comm);
}

/* Calls with the arguments of MPI_Isend, in both forms. */
#define ISEND_LIKE(name)                                                                           \
	int MPI_##name(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,       \
		       MPI_Comm comm, MPI_Request *request)                                        \
	{                                                                                          \
		struct mpix_comm *c = mpix_comm_find(comm);                                        \
                                                                                                   \
		return c ? no_call("MPI_" #name, c)                                                \
			 : PMPI_##name(buf, count, datatype, dest, tag, comm, request);            \
	}                                                                                          \
	int MPI_##name##_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest,      \
			   int tag, MPI_Comm comm, MPI_Request *request)                           \
	{                                                                                          \
		struct mpix_comm *c = mpix_comm_find(comm);                                        \
                                                                                                   \
		return c ? no_call("MPI_" #name "_c", c)                                           \
			 : PMPI_##name##_c(buf, count, datatype, dest, tag, comm, request);        \
	}

ISEND_LIKE(Ibsend)
ISEND_LIKE(Send_init)
ISEND_LIKE(Bsend_init)
ISEND_LIKE(Rsend_init)
ISEND_LIKE(Ssend_init)

int MPI_Recv_init(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
		  MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Recv_init", c)
		 : PMPI_Recv_init(buf, count, datatype, source, tag, comm, request);
}

int MPI_Recv_init_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
		    MPI_Comm comm, MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Recv_init_c", c)
		 : PMPI_Recv_init_c(buf, count, datatype, source, tag, comm, request);
}

int MPI_Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype datatype,
		   int dest, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Psend_init", c)
		 : PMPI_Psend_init(buf, partitions, count, datatype, dest, tag, comm, info,
				   request);
}

int MPI_Precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest,
		   int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Precv_init", c)
		 : PMPI_Precv_init(buf, partitions, count, datatype, dest, tag, comm, info,
				   request);
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Mprobe", c) : PMPI_Mprobe(source, tag, comm, message, status);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
		MPI_Status *status)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Improbe", c)
		 : PMPI_Improbe(source, tag, comm, flag, message, status);
}

int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype datatype, int dest, int sendtag,
			 int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Sendrecv_replace", c)
		 : PMPI_Sendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag, comm,
					 status);
}

int MPI_Sendrecv_replace_c(void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag,
			   int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Sendrecv_replace_c", c)
		 : PMPI_Sendrecv_replace_c(buf, count, datatype, dest, sendtag, source, recvtag,
					   comm, status);
}

int MPI_Isendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
		  void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
		  MPI_Comm comm, MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Isendrecv", c)
		 : PMPI_Isendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
				  recvtype, source, recvtag, comm, request);
}

int MPI_Isendrecv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
		    int sendtag, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
		    int source, int recvtag, MPI_Comm comm, MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Isendrecv_c", c)
		 : PMPI_Isendrecv_c(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
				    recvtype, source, recvtag, comm, request);
}

int MPI_Isendrecv_replace(void *buf, int count, MPI_Datatype datatype, int dest, int sendtag,
			  int source, int recvtag, MPI_Comm comm, MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Isendrecv_replace", c)
		 : PMPI_Isendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag,
					  comm, request);
}

int MPI_Isendrecv_replace_c(void *buf, MPI_Count count, MPI_Datatype datatype, int dest,
			    int sendtag, int source, int recvtag, MPI_Comm comm,
			    MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	return c ? no_call("MPI_Isendrecv_replace_c", c)
		 : PMPI_Isendrecv_replace_c(buf, count, datatype, dest, sendtag, source, recvtag,
					    comm, request);
}

/* ---- MPICH's stream interface: an mpi.h before 4.1 does not declare it ---- */

#if MPICH_NUMVERSION < 40100000
int MPIX_Stream_progress(MPIX_Stream stream);
int MPIX_Start_progress_thread(MPIX_Stream stream);
int MPIX_Stop_progress_thread(MPIX_Stream stream);
int MPIX_Stream_comm_create_multiplex(MPI_Comm comm, int count, MPIX_Stream array_of_streams[],
				      MPI_Comm *newcomm);
int MPIX_Stream_send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
		     MPI_Comm comm, int source_stream_index, int dest_stream_index);
int MPIX_Stream_send_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
		       MPI_Comm comm, int source_stream_index, int dest_stream_index);
int MPIX_Stream_isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
		      MPI_Comm comm, int source_stream_index, int dest_stream_index,
		      MPI_Request *request);
int MPIX_Stream_isend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
			MPI_Comm comm, int source_stream_index, int dest_stream_index,
			MPI_Request *request);
int MPIX_Stream_recv(void *buf, int count, MPI_Datatype datatype, int source, int tag,
		     MPI_Comm comm, int source_stream_index, int dest_stream_index,
		     MPI_Status *status);
int MPIX_Stream_recv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
		       MPI_Comm comm, int source_stream_index, int dest_stream_index,
		       MPI_Status *status);
int MPIX_Stream_irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag,
		      MPI_Comm comm, int source_stream_index, int dest_stream_index,
		      MPI_Request *request);
int MPIX_Stream_irecv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
			MPI_Comm comm, int source_stream_index, int dest_stream_index,
			MPI_Request *request);
int MPIX_Allreduce_enqueue(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
			   MPI_Op op, MPI_Comm comm);
int MPIX_Allreduce_enqueue_c(const void *sendbuf, void *recvbuf, MPI_Count count,
			     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
#endif

static int not_yet(const char *func, MPI_Comm comm)
{
	return mpix_fail(comm, MPI_ERR_UNSUPPORTED_OPERATION, "%s: not supported yet by stmpi",
			 func);
}

int MPIX_Stream_progress(MPIX_Stream stream)
{
	(void)stream;
	return not_yet("MPIX_Stream_progress", MPI_COMM_NULL);
}

int MPIX_Start_progress_thread(MPIX_Stream stream)
{
	(void)stream;
	return not_yet("MPIX_Start_progress_thread", MPI_COMM_NULL);
}

int MPIX_Stop_progress_thread(MPIX_Stream stream)
{
	(void)stream;
	return not_yet("MPIX_Stop_progress_thread", MPI_COMM_NULL);
}

int MPIX_Stream_comm_create_multiplex(MPI_Comm comm, int count, MPIX_Stream array_of_streams[],
				      MPI_Comm *newcomm)
{
	(void)count;
	(void)array_of_streams;
	(void)newcomm;
	return not_yet("MPIX_Stream_comm_create_multiplex", comm);
}

#define UNUSED_MESSAGE (void)buf, (void)count, (void)datatype, (void)tag
#define UNUSED_INDICES (void)source_stream_index, (void)dest_stream_index

int MPIX_Stream_send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
		     MPI_Comm comm, int source_stream_index, int dest_stream_index)
{
	UNUSED_MESSAGE, UNUSED_INDICES, (void)dest;
	return not_yet("MPIX_Stream_send", comm);
}

int MPIX_Stream_send_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
		       MPI_Comm comm, int source_stream_index, int dest_stream_index)
{
	UNUSED_MESSAGE, UNUSED_INDICES, (void)dest;
	return not_yet("MPIX_Stream_send_c", comm);
}

int MPIX_Stream_isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
		      MPI_Comm comm, int source_stream_index, int dest_stream_index,
		      MPI_Request *request)
{
	UNUSED_MESSAGE, UNUSED_INDICES, (void)dest, (void)request;
	return not_yet("MPIX_Stream_isend", comm);
}

int MPIX_Stream_isend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
			MPI_Comm comm, int source_stream_index, int dest_stream_index,
			MPI_Request *request)
{
	UNUSED_MESSAGE, UNUSED_INDICES, (void)dest, (void)request;
	return not_yet("MPIX_Stream_isend_c", comm);
}

int MPIX_Stream_recv(void *buf, int count, MPI_Datatype datatype, int source, int tag,
		     MPI_Comm comm, int source_stream_index, int dest_stream_index,
		     MPI_Status *status)
{
	UNUSED_MESSAGE, UNUSED_INDICES, (void)source, (void)status;
	return not_yet("MPIX_Stream_recv", comm);
}

int MPIX_Stream_recv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
		       MPI_Comm comm, int source_stream_index, int dest_stream_index,
		       MPI_Status *status)
{
	UNUSED_MESSAGE, UNUSED_INDICES, (void)source, (void)status;
	return not_yet("MPIX_Stream_recv_c", comm);
}

int MPIX_Stream_irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag,
		      MPI_Comm comm, int source_stream_index, int dest_stream_index,
		      MPI_Request *request)
{
	UNUSED_MESSAGE, UNUSED_INDICES, (void)source, (void)request;
	return not_yet("MPIX_Stream_irecv", comm);
}

int MPIX_Stream_irecv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
			MPI_Comm comm, int source_stream_index, int dest_stream_index,
			MPI_Request *request)
{
	UNUSED_MESSAGE, UNUSED_INDICES, (void)source, (void)request;
	return not_yet("MPIX_Stream_irecv_c", comm);
}

int MPIX_Allreduce_enqueue(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
			   MPI_Op op, MPI_Comm comm)
{
	(void)sendbuf, (void)recvbuf, (void)count, (void)datatype, (void)op;
	return not_yet("MPIX_Allreduce_enqueue", comm);
}

int MPIX_Allreduce_enqueue_c(const void *sendbuf, void *recvbuf, MPI_Count count,
			     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
	(void)sendbuf, (void)recvbuf, (void)count, (void)datatype, (void)op;
	return not_yet("MPIX_Allreduce_enqueue_c", comm);
}
