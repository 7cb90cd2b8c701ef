/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * domains.c: a thread that is inside a blocking call of one kind does not hold up messages of
 * another: of another stream communicator, of MPI itself, of a duplicate. Rank 1 makes the call of
 * rank 0 return only after the other message has gone, which takes rank 0's help.
 */
#include "kit.h"

enum {
	BYTES = 3 << 20
};

enum call {
	RECV_OTHER,  /* MPI_Recv on another stream communicator */
	RECV_WORLD,  /* MPI_Recv of MPI itself */
	BARRIER,     /* of the same communicator */
	PROBE,	     /* of a duplicate */
	SYNCHRONIZE, /* of another host stream */
	CALLS
};

static void block(enum call call, struct kit *k, struct kit *other, MPI_Comm dup, uint64_t *v)
{
	switch (call) {
	case RECV_OTHER:
		KIT(MPI_Recv(v, 8, MPI_BYTE, 1, 1, other->comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		break;
	case RECV_WORLD:
		KIT(MPI_Recv(v, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
		    MPI_SUCCESS);
		break;
	case BARRIER:
		KIT(MPI_Barrier(k->comm) == MPI_SUCCESS);
		break;
	case PROBE:
		KIT(MPI_Probe(1, 1, dup, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		KIT(MPI_Recv(v, 8, MPI_BYTE, 1, 1, dup, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		break;
	case SYNCHRONIZE:
	case CALLS:
		kit_recv(other, v, 8, 1, 1);
		kit_sync(other);
		break;
	}
}

static void release(enum call call, struct kit *k, struct kit *other, MPI_Comm dup, uint64_t *v)
{
	MPI_Comm comm = call == RECV_WORLD ? MPI_COMM_WORLD : call == PROBE ? dup : other->comm;

	if (call == BARRIER)
		KIT(MPI_Barrier(k->comm) == MPI_SUCCESS);
	else
		KIT(MPI_Send(v, 8, MPI_BYTE, 0, 1, comm) == MPI_SUCCESS);
}

/* Rank 0 sends or receives a large message by its stream, and blocks in `call` meanwhile. */
static void one(enum call call, int is_sender, struct kit *k, struct kit *other, MPI_Comm dup,
		unsigned char *b)
{
	uint64_t v = 0, key = (uint64_t)call * 2 + (uint64_t)is_sender;

	kit_fill(b, BYTES, is_sender == (kit_rank == 0) ? key : 99);
	MPI_Barrier(MPI_COMM_WORLD);
	if (kit_rank == 0) {
		kit_work(k, 20); /* so that it starts when rank 0 is inside the call */
		if (is_sender)
			kit_send(k, b, BYTES, 1, 0);
		else
			kit_recv(k, b, BYTES, 1, 0);
		block(call, k, other, dup, &v);
		KIT(call == BARRIER || v == key + 1);
	} else {
		if (is_sender)
			kit_recv(k, b, BYTES, 0, 0);
		else
			kit_send(k, b, BYTES, 0, 0);
		kit_sync(k);
		v = key + 1;
		release(call, k, other, dup, &v);
	}
	kit_sync(k);
	KIT(kit_check(b, BYTES, key));
}

int main(int argc, char **argv)
{
	struct kit k, other;
	unsigned char *b;
	MPI_Comm dup;

	kit_init(&argc, &argv);
	b = malloc(BYTES);
	KIT(b != NULL);
	kit_open(&k, MPI_COMM_WORLD);
	kit_open(&other, MPI_COMM_WORLD);
	KIT(MPI_Comm_dup(k.comm, &dup) == MPI_SUCCESS);
	for (int call = 0; call < CALLS; call++) {
		one((enum call)call, 0, &k, &other, dup, b);
		one((enum call)call, 1, &k, &other, dup, b);
	}
	KIT(MPI_Comm_free(&dup) == MPI_SUCCESS);
	kit_close(&other);
	kit_close(&k);
	free(b);
	return kit_end();
}
