/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flood.c: far more messages than their receiver takes. Blocking ones stop their sender
 * (back-pressure) and do not fill the receiver's memory; nonblocking ones never stop one that the
 * receiver wants first; both sides may send ten thousand before they receive any.
 */
#include "kit.h"

/* A receiver that is away for a second, then takes all in order. */
static void sleepy(struct kit *k)
{
	enum {
		N = 100000
	};
	uint64_t *v = malloc(N * sizeof(*v));
	long before, after;

	KIT(v != NULL);
	for (uint64_t i = 0; i < N; i++)
		v[i] = kit_rank == 0 ? i : 0;
	MPI_Barrier(MPI_COMM_WORLD);
	if (kit_rank == 0) {
		for (int i = 0; i < N; i++)
			kit_send(k, &v[i], 8, 1, 0);
		kit_sleep(300);
		KIT(any_stream_query(k->host) == 1); /* stopped: the receiver has taken none */
		kit_sync(k);
	} else {
		before = kit_rss_kib();
		kit_sleep(1000);
		after = kit_rss_kib();
		KIT(after - before < 32 * 1024);
		for (int i = 0; i < N; i++)
			kit_recv(k, &v[i], 8, 0, 0);
		kit_sync(k);
		for (uint64_t i = 0; i < N; i++)
			KIT(v[i] == i);
	}
	free(v);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Nonblocking sends of tag 1, then one of tag 2, which is received first. */
static void other_first(struct kit *k)
{
	enum {
		N = 10000
	};
	static uint64_t v[N + 1];
	static MPI_Request r[N + 1];

	for (int i = 0; i <= N; i++) {
		int n = kit_rank == 0 ? i : N - i, tag = n == N ? 2 : 1;

		/* The receiver: first tag 2, and only when that has come, the others in order. */
		if (kit_rank == 1) {
			n = i == 0 ? N : i - 1;
			tag = i == 0 ? 2 : 1;
			kit_recv(k, &v[n], 8, 0, tag);
			continue;
		}
		v[n] = (uint64_t)n * 7;
		KIT(MPIX_Isend_enqueue(&v[n], 8, MPI_BYTE, 1, tag, k->comm, &r[i]) == MPI_SUCCESS);
	}
	if (kit_rank == 0)
		KIT(MPIX_Waitall_enqueue(N + 1, r, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	kit_sync(k);
	for (int i = 0; i <= N; i++)
		KIT(v[i] == (uint64_t)i * 7);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void both_ways(struct kit *k)
{
	enum {
		N = 10000
	};
	static uint64_t in[N], out[N];
	static MPI_Request r[N];

	for (int i = 0; i < N; i++) {
		out[i] = (uint64_t)(i + kit_rank);
		KIT(MPIX_Isend_enqueue(&out[i], 8, MPI_BYTE, !kit_rank, 3, k->comm, &r[i]) ==
		    MPI_SUCCESS);
	}
	for (int i = 0; i < N; i++)
		kit_recv(k, &in[i], 8, !kit_rank, 3);
	KIT(MPIX_Waitall_enqueue(N, r, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	kit_sync(k);
	for (int i = 0; i < N; i++)
		KIT(in[i] == (uint64_t)(i + !kit_rank));
}

int main(int argc, char **argv)
{
	struct kit k;

	kit_init(&argc, &argv);
	kit_open(&k, MPI_COMM_WORLD);
	sleepy(&k);
	other_first(&k);
	both_ways(&k);
	kit_close(&k);
	return kit_end();
}
