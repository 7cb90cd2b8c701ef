/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matching.c: messages of one stream arrive in its order: behind gates, across the eager/rendezvous
 * edge, with tags in reverse; wildcards (run on 4 ranks) report the true source and tag, in stream
 * order.
 */
#include "kit.h"

/* One hundred messages of one tag, whose gates open in any order: 0..99 arrive in order. */
static void gates(struct kit *k, size_t count)
{
	static uint64_t gate[100], out[100], in[100];
	int n = (int)count;

	if (kit_rank == 0) {
		for (int i = 0; i < n; i++) {
			kit_gate(k, &gate[i]);
			out[i] = (uint64_t)-1;
			kit_send(k, &out[i], 8, 1, 5);
		}
		kit_sleep(100); /* time for a broken trigger to send too early */
		for (int i = 0; i < n; i++)
			out[i] = (uint64_t)i;
		for (int i = n - 1; i >= 0; i--)
			kit_gate_open(&gate[i]);
		kit_sync(k);
	} else if (kit_rank == 1) {
		for (int i = 0; i < n; i++)
			kit_recv(k, &in[i], 8, 0, 5);
		kit_sync(k);
		for (int i = 0; i < n; i++)
			KIT_ORDER(in[i] == (uint64_t)i);
	}
}

static size_t edge_size(int i)
{
	static const size_t sizes[] = {8,  1 << 20, 4096, 0,	 4097,	65536,
				       33, 8192,    32,	  16384, 16385, 300000};

	return sizes[i % (int)(sizeof(sizes) / sizeof(sizes[0]))];
}

/* One tag, sizes on both sides of every protocol's edge: never overtaken. */
static void edges(struct kit *k)
{
	enum {
		N = 240
	};
	static unsigned char *buf[N];

	for (int i = 0; i < N; i++) {
		buf[i] = malloc(edge_size(i) + 1);
		if (kit_rank == 0) {
			kit_fill(buf[i], edge_size(i), (uint64_t)i);
			kit_send(k, buf[i], edge_size(i), 1, 1);
		} else if (kit_rank == 1) {
			MPI_Status *status = malloc(sizeof(*status));

			kit_recv(k, buf[i], edge_size(i), 0, 1);
			free(status);
		}
	}
	kit_sync(k);
	for (int i = 0; i < N; i++) {
		if (kit_rank == 1)
			KIT(kit_check(buf[i], edge_size(i), (uint64_t)i));
		free(buf[i]);
	}
}

/* Tags in reverse, the largest one that MPI allows among them. */
static void reversed(struct kit *k)
{
	enum {
		N = 200
	};
	static uint64_t value[N];
	static MPI_Request r[N];
	int *ub, flag;

	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &ub, &flag);
	KIT(flag);
	if (kit_rank > 1)
		return;
	for (int i = 0; i < N; i++) {
		int t = kit_rank == 0 ? i : N - 1 - i, tag = t == 0 ? *ub : t;

		value[t] = kit_rank == 0 ? (uint64_t)t * 3 : 0;
		if (kit_rank == 0)
			KIT(MPIX_Isend_enqueue(&value[t], 8, MPI_BYTE, 1, tag, k->comm, &r[i]) ==
			    MPI_SUCCESS);
		else
			KIT(MPIX_Irecv_enqueue(&value[t], 8, MPI_BYTE, 0, tag, k->comm, &r[i]) ==
			    MPI_SUCCESS);
	}
	KIT(MPIX_Waitall_enqueue(N, r, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	kit_sync(k);
	for (int t = 0; t < N; t++)
		KIT(value[t] == (uint64_t)t * 3);
}

struct seen {
	MPI_Status *status;
	uint64_t *value;
	int is_right;
};

static void look(void *arg)
{
	struct seen *s = arg;
	int count;

	MPI_Get_count(s->status, MPI_BYTE, &count);
	s->is_right = count == 8 && s->value[0] >> 32 == (uint64_t)s->status->MPI_SOURCE &&
		      (s->value[0] & 0xffffffff) == (uint64_t)s->status->MPI_TAG &&
		      s->status->MPI_ERROR == 0;
}

/* Three senders; one status variable is used again and again, so it must be written in stream
 * order. */
static void wildcards(struct kit *k)
{
	enum {
		EACH = 200
	};
	static uint64_t out[EACH], in[3 * EACH];
	static struct seen seen[3 * EACH];
	static int got[4];
	MPI_Status status;

	if (kit_rank != 0) {
		for (int i = 0; i < EACH; i++) {
			out[i] = (uint64_t)kit_rank << 32 | (uint64_t)i;
			kit_send(k, &out[i], 8, 0, i);
		}
		kit_sync(k);
		return;
	}
	for (int i = 0; i < (kit_ranks - 1) * EACH; i++) {
		KIT(MPIX_Recv_enqueue(&in[i], 8, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, k->comm,
				      &status) == MPI_SUCCESS);
		seen[i] = (struct seen){&status, &in[i], 0};
		KIT(any_stream_launch(k->host, look, &seen[i]) == 0);
	}
	kit_sync(k);
	for (int i = 0; i < (kit_ranks - 1) * EACH; i++) {
		int source = (int)(in[i] >> 32);

		KIT(seen[i].is_right);
		KIT((int)(in[i] & 0xffffffff) == got[source]); /* each sender's in order */
		got[source]++;
	}
}

int main(int argc, char **argv)
{
	struct kit k;

	kit_init(&argc, &argv);
	kit_order("gates", gates, 100);
	kit_open(&k, MPI_COMM_WORLD);
	edges(&k);
	reversed(&k);
	MPI_Barrier(k.comm);
	wildcards(&k);
	MPI_Barrier(k.comm);
	kit_close(&k);
	return kit_end();
}
