/* SPDX-License-Identifier: BSD-3-Clause */
/* args.c: argument checks of point-to-point calls. Hot until something is wrong. */
#include "mpix_int.h"

static int bad_args(const char *func, struct mpix_comm *c, int is_recv, const void *buf,
		    MPI_Count count, MPI_Datatype type, int peer, int tag)
{
	const char *peer_name = is_recv ? "source" : "dest";
	const char *why = NULL;
	int64_t size;

	if (count < 0)
		return mpix_fail(c->handle, MPI_ERR_COUNT,
				 "%s: invalid argument count = %lld: it must not be negative", func,
				 (long long)count);
	size = mpix_type_size(type, &why);
	if (size < 0)
		return mpix_fail(c->handle, (int)-size,
				 "%s: invalid argument datatype = 0x%08x: %s", func,
				 (unsigned int)type, why);
	if ((peer < 0 || peer >= c->ranks) && peer != MPI_PROC_NULL)
		return mpix_fail(c->handle, MPI_ERR_RANK,
				 "%s: invalid argument %s = %d: the communicator has ranks 0 to %d",
				 func, peer_name, peer, c->ranks - 1);
	if (tag < 0 || tag > c->tag_ub)
		return mpix_fail(c->handle, MPI_ERR_TAG,
				 "%s: invalid argument tag = %d: 0 to %d is possible", func, tag,
				 c->tag_ub);
	if (buf == NULL || buf == MPI_IN_PLACE)
		return mpix_fail(c->handle, MPI_ERR_BUFFER,
				 "%s: invalid argument buf = %s with count = %lld", func,
				 buf == NULL ? "NULL" : "MPI_IN_PLACE", (long long)count);
	return mpix_fail(c->handle, MPI_ERR_COUNT,
			 "%s: invalid argument count = %lld: more than 2^63 bytes with elements of "
			 "%lld bytes",
			 func, (long long)count, (long long)size);
}

int mpix_args(const char *func, struct mpix_comm *c, enum stmpi_op_kind kind, const void *buf,
	      MPI_Count count, MPI_Datatype type, int peer, int tag, struct stmpi_op_args *args)
{
	int is_recv = kind == STMPI_OP_RECV;
	const char *why;
	int64_t size = mpix_type_size(type, &why);
	int64_t bytes = 0;
	int ok;

	ok = count >= 0 && size >= 0 && !__builtin_mul_overflow(size, count, &bytes);
	ok &= (uint32_t)peer < (uint32_t)c->ranks || peer == MPI_PROC_NULL ||
	      (is_recv && peer == MPI_ANY_SOURCE);
	ok &= (uint32_t)tag <= (uint32_t)c->tag_ub || (is_recv && tag == MPI_ANY_TAG);
	ok &= (buf != NULL && buf != MPI_IN_PLACE) || bytes == 0;
	if (stmpi_unlikely(!ok)) {
		/* A wildcard is right here: not to be taken for what is wrong. */
		if (is_recv && peer == MPI_ANY_SOURCE)
			peer = MPI_PROC_NULL;
		if (is_recv && tag == MPI_ANY_TAG)
			tag = 0;
		return bad_args(func, c, is_recv, buf, count, type, peer, tag);
	}
	args->kind = kind;
	args->comm = c->core;
	args->buf = (void *)(uintptr_t)buf;
	args->bytes = (uint64_t)bytes;
	args->peer = peer;
	args->tag = tag;
	return MPI_SUCCESS;
}

int mpix_probe_args(const char *func, struct mpix_comm *c, int source, int tag)
{
	struct stmpi_op_args args;

	return mpix_args(func, c, STMPI_OP_RECV, NULL, 0, MPI_BYTE, source, tag, &args);
}
