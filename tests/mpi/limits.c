/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limits.c: messages longer than their receive, zero bytes, null processes, the own rank, arrays of
 * every length for MPIX_Waitall_enqueue, statuses of all of them.
 */
#include "kit.h"

static void truncated(struct kit *k)
{
	static const size_t sent[] = {100, 300000}, posted[] = {60, 0, 200000};
	static unsigned char b[300000];
	MPI_Status status;
	int count;

	for (int i = 0; i < 2; i++) {
		for (int j = 0; j < 3; j++) {
			if (posted[j] >= sent[i])
				continue;
			if (kit_rank == 0) {
				kit_fill(b, sent[i], 1);
				kit_send(k, b, sent[i], 1, 0);
				kit_sync(k);
				continue;
			}
			memset(b, 0x55, sizeof(b));
			KIT(MPIX_Recv_enqueue(b, (int)posted[j], MPI_BYTE, 0, 0, k->comm,
					      &status) == MPI_SUCCESS);
			kit_sync(k);
			KIT(status.MPI_ERROR == MPI_ERR_TRUNCATE);
			KIT(status.MPI_SOURCE == 0 && status.MPI_TAG == 0);
			MPI_Get_count(&status, MPI_BYTE, &count);
			KIT(count == (int)posted[j] && kit_check(b, posted[j] / 8 * 8, 1));
			for (size_t n = posted[j]; n < sizeof(b); n++)
				KIT(b[n] == 0x55);
		}
	}
}

static void nothing(struct kit *k)
{
	static uint64_t gate;
	MPI_Status status[3];
	MPI_Request r[3];
	int count;

	kit_gate(k, &gate);
	memset(status, 0x77, sizeof(status));
	KIT(MPIX_Isend_enqueue(NULL, 0, MPI_BYTE, !kit_rank, 1, k->comm, &r[0]) == MPI_SUCCESS);
	KIT(MPIX_Irecv_enqueue(NULL, 0, MPI_INT, !kit_rank, 1, k->comm, &r[1]) == MPI_SUCCESS);
	KIT(MPIX_Irecv_enqueue(NULL, 0, MPI_INT, MPI_PROC_NULL, 1, k->comm, &r[2]) == MPI_SUCCESS);
	KIT(MPIX_Waitall_enqueue(3, r, status) == MPI_SUCCESS);
	KIT(status[2].MPI_SOURCE == 0x77777777); /* not before the stream is there */
	kit_gate_open(&gate);
	kit_sync(k);
	MPI_Get_count(&status[1], MPI_INT, &count);
	KIT(status[1].MPI_SOURCE == !kit_rank && status[1].MPI_TAG == 1 && count == 0);
	MPI_Get_count(&status[2], MPI_INT, &count);
	KIT(status[2].MPI_SOURCE == MPI_PROC_NULL && status[2].MPI_TAG == MPI_ANY_TAG &&
	    count == 0);
	KIT(MPIX_Send_enqueue(NULL, 0, MPI_INT, MPI_PROC_NULL, 1, k->comm) == MPI_SUCCESS);
	KIT(MPIX_Recv_enqueue(NULL, 0, MPI_INT, MPI_PROC_NULL, 1, k->comm, &status[0]) ==
	    MPI_SUCCESS);
	kit_sync(k);
	KIT(status[0].MPI_SOURCE == MPI_PROC_NULL);
}

static void to_self(struct kit *k)
{
	static const size_t sizes[] = {0, 8, 5000, 300000};

	for (int i = 0; i < 4; i++) {
		unsigned char *out = malloc(sizes[i] + 1), *in = malloc(sizes[i] + 1);
		MPI_Request r[2];

		kit_fill(out, sizes[i], (uint64_t)i);
		KIT(MPIX_Isend_enqueue(out, (int)sizes[i], MPI_BYTE, kit_rank, 2, k->comm, &r[0]) ==
		    MPI_SUCCESS);
		KIT(MPIX_Irecv_enqueue(in, (int)sizes[i], MPI_BYTE, kit_rank, 2, k->comm, &r[1]) ==
		    MPI_SUCCESS);
		KIT(MPIX_Waitall_enqueue(2, r, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
		kit_sync(k);
		KIT(kit_check(in, sizes[i], (uint64_t)i));
		free(out);
		free(in);
	}
}

static void arrays(struct kit *k)
{
	static const int lengths[] = {0, 1, 2, 255, 256, 257, 5000};
	MPI_Request *r = malloc(5000 * sizeof(*r));
	MPI_Status *s = malloc(5000 * sizeof(*s));
	uint64_t *v = malloc(5000 * sizeof(*v));

	for (int l = 0; l < 7; l++) {
		int n = lengths[l];

		for (int i = 0; i < n; i++) {
			v[i] = kit_rank == 0 ? (uint64_t)i : 99;
			if (i % 5 == 4)
				r[i] = MPI_REQUEST_NULL;
			else if (kit_rank == 0)
				KIT(MPIX_Isend_enqueue(&v[i], 8, MPI_BYTE, 1, i, k->comm, &r[i]) ==
				    MPI_SUCCESS);
			else
				KIT(MPIX_Irecv_enqueue(&v[i], 8, MPI_BYTE, 0, i, k->comm, &r[i]) ==
				    MPI_SUCCESS);
		}
		KIT(MPIX_Waitall_enqueue(n, r, s) == MPI_SUCCESS);
		for (int i = 0; i < n; i++)
			KIT(r[i] == MPI_REQUEST_NULL);
		memset(r, 0xff, 5000 * sizeof(*r)); /* ours again at once */
		kit_sync(k);
		for (int i = 0; i < n && kit_rank == 1; i++) {
			if (i % 5 == 4)
				continue;
			KIT(v[i] == (uint64_t)i && s[i].MPI_TAG == i &&
			    s[i].MPI_ERROR == MPI_SUCCESS);
		}
	}
	r[0] = r[1] = r[2] = MPI_REQUEST_NULL;
	KIT(MPIX_Waitall_enqueue(3, r, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	KIT(MPIX_Wait_enqueue(&r[0], MPI_STATUS_IGNORE) == MPI_SUCCESS);
	free(r);
	free(s);
	free(v);
}

int main(int argc, char **argv)
{
	struct kit k;

	kit_init(&argc, &argv);
	kit_open(&k, MPI_COMM_WORLD);
	truncated(&k);
	nothing(&k);
	to_self(&k);
	arrays(&k);
	kit_close(&k);
	return kit_end();
}
