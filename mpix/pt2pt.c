/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pt2pt.c: MPI's own point-to-point calls, for stream communicators: they match enqueued operations
 * there. On other communicators they go straight to MPI: one branch.
 */
#include "mpix_int.h"
#include "stmpi.h"
#include "util/error.h"

static int start(const char *func, struct mpix_comm *c, enum stmpi_op_kind kind, const void *buf,
		 MPI_Count count, MPI_Datatype type, int peer, int tag, struct stmpi_op **op)
{
	struct stmpi_op_args args;
	int rc = mpix_args(func, c, kind, buf, count, type, peer, tag, &args);

	if (rc != MPI_SUCCESS)
		return rc;
	rc = stmpi_op_start(&args, op);
	if (rc != 0)
		return mpix_fail(c->handle, mpix_class(rc), "%s: %s", func, stmpi_error_text());
	return MPI_SUCCESS;
}

/* Wait for an operation and free it. Its code, not raised. */
static int end(const char *func, struct stmpi_op *op, MPI_Status *status)
{
	struct stmpi_result result;

	mpix_op_wait(op);
	stmpi_op_result(op, &result);
	stmpi_op_free(op);
	mpix_status_set(status, &result);
	return mpix_result_code(func, &result);
}

static int blocking(const char *func, struct mpix_comm *c, enum stmpi_op_kind kind, const void *buf,
		    MPI_Count count, MPI_Datatype type, int peer, int tag, MPI_Status *status)
{
	MPI_Comm comm = c->handle;
	struct stmpi_op *op;
	int rc = start(func, c, kind, buf, count, type, peer, tag, &op);

	if (rc != MPI_SUCCESS)
		return rc;
	rc = end(func, op, status);
	return stmpi_likely(rc == MPI_SUCCESS) ? rc : mpix_raise(comm, rc);
}

static int nonblocking(const char *func, struct mpix_comm *c, enum stmpi_op_kind kind,
		       const void *buf, MPI_Count count, MPI_Datatype type, int peer, int tag,
		       MPI_Request *request)
{
	struct mpix_req *req;
	int rc;

	if (request == NULL)
		return mpix_fail(c->handle, MPI_ERR_ARG, "%s: invalid argument request = NULL",
				 func);
	rc = mpix_req_get(func, c, &req);
	if (rc != MPI_SUCCESS)
		return rc;
	rc = start(func, c, kind, buf, count, type, peer, tag, &req->op);
	if (rc != MPI_SUCCESS) {
		mpix_req_put(req);
		return rc;
	}
	*request = req->handle;
	return MPI_SUCCESS;
}

static int sendrecv(const char *func, struct mpix_comm *c, const void *sendbuf, MPI_Count sendcount,
		    MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf,
		    MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag,
		    MPI_Status *status)
{
	struct stmpi_op_args send, recv;
	struct stmpi_op *send_op, *recv_op;
	MPI_Comm comm = c->handle;
	int rc, send_rc;

	rc = mpix_args(func, c, STMPI_OP_SEND, sendbuf, sendcount, sendtype, dest, sendtag, &send);
	if (rc == MPI_SUCCESS)
		rc = mpix_args(func, c, STMPI_OP_RECV, recvbuf, recvcount, recvtype, source,
			       recvtag, &recv);
	if (rc != MPI_SUCCESS)
		return rc;
	rc = stmpi_op_start(&recv, &recv_op);
	if (rc != 0)
		return mpix_fail(comm, mpix_class(rc), "%s: %s", func, stmpi_error_text());
	rc = stmpi_op_start(&send, &send_op);
	if (rc != 0) {
		/* The receive stays posted; a message may still come for it. */
		stmpi_op_free(recv_op);
		return mpix_fail(comm, mpix_class(rc), "%s: %s", func, stmpi_error_text());
	}
	rc = end(func, recv_op, status);
	send_rc = end(func, send_op, MPI_STATUS_IGNORE);
	if (rc == MPI_SUCCESS)
		rc = send_rc;
	return rc == MPI_SUCCESS ? rc : mpix_raise(comm, rc);
}

/* ---- sends; ready mode is standard mode ---- */

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Send(buf, count, datatype, dest, tag, comm);
	return blocking("MPI_Send", c, STMPI_OP_SEND, buf, count, datatype, dest, tag,
			MPI_STATUS_IGNORE);
}

int MPI_Send_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
	       MPI_Comm comm)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Send_c(buf, count, datatype, dest, tag, comm);
	return blocking("MPI_Send_c", c, STMPI_OP_SEND, buf, count, datatype, dest, tag,
			MPI_STATUS_IGNORE);
}

int MPI_Rsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Rsend(buf, count, datatype, dest, tag, comm);
	return blocking("MPI_Rsend", c, STMPI_OP_SEND, buf, count, datatype, dest, tag,
			MPI_STATUS_IGNORE);
}

int MPI_Rsend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
		MPI_Comm comm)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Rsend_c(buf, count, datatype, dest, tag, comm);
	return blocking("MPI_Rsend_c", c, STMPI_OP_SEND, buf, count, datatype, dest, tag,
			MPI_STATUS_IGNORE);
}

int MPI_Ssend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Ssend(buf, count, datatype, dest, tag, comm);
	return blocking("MPI_Ssend", c, STMPI_OP_SSEND, buf, count, datatype, dest, tag,
			MPI_STATUS_IGNORE);
}

int MPI_Ssend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
		MPI_Comm comm)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Ssend_c(buf, count, datatype, dest, tag, comm);
	return blocking("MPI_Ssend_c", c, STMPI_OP_SSEND, buf, count, datatype, dest, tag,
			MPI_STATUS_IGNORE);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Isend(buf, count, datatype, dest, tag, comm, request);
	return nonblocking("MPI_Isend", c, STMPI_OP_SEND, buf, count, datatype, dest, tag, request);
}

int MPI_Isend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
		MPI_Comm comm, MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Isend_c(buf, count, datatype, dest, tag, comm, request);
	return nonblocking("MPI_Isend_c", c, STMPI_OP_SEND, buf, count, datatype, dest, tag,
			   request);
}

int MPI_Irsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
	       MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Irsend(buf, count, datatype, dest, tag, comm, request);
	return nonblocking("MPI_Irsend", c, STMPI_OP_SEND, buf, count, datatype, dest, tag,
			   request);
}

int MPI_Irsend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
		 MPI_Comm comm, MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Irsend_c(buf, count, datatype, dest, tag, comm, request);
	return nonblocking("MPI_Irsend_c", c, STMPI_OP_SEND, buf, count, datatype, dest, tag,
			   request);
}

int MPI_Issend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
	       MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Issend(buf, count, datatype, dest, tag, comm, request);
	return nonblocking("MPI_Issend", c, STMPI_OP_SSEND, buf, count, datatype, dest, tag,
			   request);
}

int MPI_Issend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
		 MPI_Comm comm, MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Issend_c(buf, count, datatype, dest, tag, comm, request);
	return nonblocking("MPI_Issend_c", c, STMPI_OP_SSEND, buf, count, datatype, dest, tag,
			   request);
}

/* ---- receives ---- */

int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
	     MPI_Status *status)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Recv(buf, count, datatype, source, tag, comm, status);
	return blocking("MPI_Recv", c, STMPI_OP_RECV, buf, count, datatype, source, tag, status);
}

int MPI_Recv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
	       MPI_Comm comm, MPI_Status *status)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Recv_c(buf, count, datatype, source, tag, comm, status);
	return blocking("MPI_Recv_c", c, STMPI_OP_RECV, buf, count, datatype, source, tag, status);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Irecv(buf, count, datatype, source, tag, comm, request);
	return nonblocking("MPI_Irecv", c, STMPI_OP_RECV, buf, count, datatype, source, tag,
			   request);
}

int MPI_Irecv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
		MPI_Comm comm, MPI_Request *request)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Irecv_c(buf, count, datatype, source, tag, comm, request);
	return nonblocking("MPI_Irecv_c", c, STMPI_OP_RECV, buf, count, datatype, source, tag,
			   request);
}

int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
		 void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
		 MPI_Comm comm, MPI_Status *status)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,
				     recvcount, recvtype, source, recvtag, comm, status);
	return sendrecv("MPI_Sendrecv", c, sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,
			recvcount, recvtype, source, recvtag, status);
}

int MPI_Sendrecv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
		   int sendtag, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
		   int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
	struct mpix_comm *c = mpix_comm_find(comm);

	if (stmpi_likely(c == NULL))
		return PMPI_Sendrecv_c(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,
				       recvcount, recvtype, source, recvtag, comm, status);
	return sendrecv("MPI_Sendrecv_c", c, sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,
			recvcount, recvtype, source, recvtag, status);
}

/* ---- probes ---- */

struct probe {
	struct stmpi_comm *comm;
	int source, tag;
	struct stmpi_result result;
	int found; /* as of stmpi_probe */
	uint32_t rounds;
};

static int look(void *arg)
{
	struct probe *p = arg;

	p->found = stmpi_probe(p->comm, p->source, p->tag, &p->result);
	if (p->found == 0)
		mpix_mpi_tick(&p->rounds);
	return p->found != 0;
}

/* The checks and what MPI says of MPI_PROC_NULL: then p->found is 1 at once. */
static int probe_open(const char *func, struct mpix_comm *c, int source, int tag, struct probe *p)
{
	*p = (struct probe){
		.comm = c->core,
		.source = source,
		.tag = tag,
		.result = {.source = MPI_PROC_NULL, .tag = MPI_ANY_TAG},
		.found = source == MPI_PROC_NULL,
	};
	return mpix_probe_args(func, c, source, tag);
}

static int probe_close(const char *func, struct mpix_comm *c, const struct probe *p,
		       MPI_Status *status)
{
	if (p->found < 0)
		return mpix_fail(c->handle, mpix_class(p->found), "%s: source = %d: %s", func,
				 p->source, stmpi_strerror(p->found));
	if (p->found)
		mpix_status_set(status, &p->result);
	return MPI_SUCCESS;
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	static const char func[] = "MPI_Probe";
	struct mpix_comm *c = mpix_comm_find(comm);
	struct probe p;
	int rc;

	if (stmpi_likely(c == NULL))
		return PMPI_Probe(source, tag, comm, status);
	rc = probe_open(func, c, source, tag, &p);
	if (rc != MPI_SUCCESS)
		return rc;
	if (!p.found) {
		rc = stmpi_engine_wait(look, &p);
		if (rc != 0 && p.found == 0)
			p.found = rc;
	}
	return probe_close(func, c, &p, status);
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
	static const char func[] = "MPI_Iprobe";
	struct mpix_comm *c = mpix_comm_find(comm);
	struct probe p;
	int rc;

	if (stmpi_likely(c == NULL))
		return PMPI_Iprobe(source, tag, comm, flag, status);
	rc = probe_open(func, c, source, tag, &p);
	if (rc != MPI_SUCCESS)
		return rc;
	if (!p.found && !look(&p))
		mpix_mpi_progress();
	if (p.found >= 0)
		*flag = p.found;
	return probe_close(func, c, &p, status);
}
