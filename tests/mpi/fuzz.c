/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz.c [BATCHES]: random plans of messages between all ranks, the own one too: enqueued with and
 * without wait, ordinary, synchronous; too short receives and wildcards; completed by the stream,
 * by every Wait and Test call of the host, or given up; communicators come and go.
 */
#include "kit.h"

enum {
	COMMS = 3,
	N = 60,		     /* messages of a batch, told apart by tags */
	MAX_BYTES = 1 << 17, /* of a message */
	GUARD = 64,	     /* bytes behind a receive that must not change */
};

enum kind {
	BLOCKING,    /* MPIX_Send_enqueue, MPIX_Recv_enqueue */
	NONBLOCKING, /* MPIX_Isend_enqueue, MPIX_Irecv_enqueue */
	ORDINARY,    /* MPI_Isend, MPI_Irecv */
	SYNCHRONOUS, /* MPI_Issend, MPI_Irecv with wildcards */
	KINDS
};

struct plan {
	int from, to, comm;
	size_t bytes, posted;
	enum kind send, recv;
	int is_any; /* the receive takes any source */
};

struct side {
	unsigned char *out, *in;
	MPI_Status status; /* of the receive */
};

static struct plan plan[N];
static struct side side[N];

/* All ranks draw the same plan from their own copy of one state. */
static uint64_t shared = 88172645463325252u;

static uint32_t draw(uint32_t below)
{
	shared ^= shared << 13;
	shared ^= shared >> 7;
	shared ^= shared << 17;
	return (uint32_t)(shared >> 24) % below;
}

static void make_plan(void)
{
	for (int i = 0; i < N; i++) {
		struct plan *p = &plan[i];

		p->from = (int)draw((uint32_t)kit_ranks);
		p->to = (int)draw((uint32_t)kit_ranks);
		p->comm = (int)draw(COMMS);
		p->bytes = draw(8) == 0 ? 0 : draw((1u << draw(18)) + 1);
		p->posted = p->bytes + draw(3) * 100;
		if (draw(8) == 0)
			p->posted = p->bytes / 8 / 2 * 8;
		p->send = (enum kind)draw(KINDS);
		p->recv = (enum kind)draw(KINDS);
		p->is_any = draw(4) == 0;
		/* A stream that sends to itself may not wait before it receives. */
		if (p->from == p->to && p->send == BLOCKING)
			p->send = NONBLOCKING;
		if (p->from == p->to && p->recv == BLOCKING)
			p->recv = NONBLOCKING;
	}
}

static MPI_Request start_send(struct kit *k, int i)
{
	struct plan *p = &plan[i];
	MPI_Request r = MPI_REQUEST_NULL;
	int n = (int)p->bytes;

	if (p->send == BLOCKING)
		kit_send(k, side[i].out, p->bytes, p->to, i);
	else if (p->send == NONBLOCKING)
		KIT(MPIX_Isend_enqueue(side[i].out, n, MPI_BYTE, p->to, i, k->comm, &r) ==
		    MPI_SUCCESS);
	else if (p->send == ORDINARY)
		KIT(MPI_Isend(side[i].out, n, MPI_BYTE, p->to, i, k->comm, &r) == MPI_SUCCESS);
	else
		KIT(MPI_Issend(side[i].out, n, MPI_BYTE, p->to, i, k->comm, &r) == MPI_SUCCESS);
	if (r != MPI_REQUEST_NULL && kit_random() % 6 == 0)
		KIT(MPI_Request_free(&r) == MPI_SUCCESS);
	return r;
}

static MPI_Request start_recv(struct kit *k, int i)
{
	struct plan *p = &plan[i];
	MPI_Request r = MPI_REQUEST_NULL;
	int n = (int)p->posted, source = p->is_any ? MPI_ANY_SOURCE : p->from;

	if (p->recv == BLOCKING)
		KIT(MPIX_Recv_enqueue(side[i].in, n, MPI_BYTE, source, i, k->comm,
				      &side[i].status) == MPI_SUCCESS);
	else if (p->recv == NONBLOCKING)
		KIT(MPIX_Irecv_enqueue(side[i].in, n, MPI_BYTE, source, i, k->comm, &r) ==
		    MPI_SUCCESS);
	else
		KIT(MPI_Irecv(side[i].in, n, MPI_BYTE, source, i, k->comm, &r) == MPI_SUCCESS);
	return r;
}

/* The status of a list's call, which has MPI_ERROR only when something failed. */
static void take_status(int i, const MPI_Status *s, int rc)
{
	side[i].status = *s;
	if (rc == MPI_SUCCESS)
		side[i].status.MPI_ERROR = MPI_SUCCESS;
}

/* Complete the list in one of many ways; message[i] < 0: a send. */
static void complete(MPI_Request *r, const int *message, int n)
{
	static MPI_Status s[2 * N];
	static int index[2 * N];
	int left = n, count, at, flag, rc;
	uint32_t way = kit_random() % 6;

	for (int i = 0; i < n; i++)
		left -= r[i] == MPI_REQUEST_NULL;
	if (way == 0) {
		rc = MPI_Waitall(n, r, s);
		for (int i = 0; i < n; i++)
			if (message[i] >= 0)
				take_status(message[i], &s[i], rc);
		return;
	}
	if (way == 1) {
		do
			rc = MPI_Testall(n, r, &flag, s);
		while (!flag);
		for (int i = 0; i < n; i++)
			if (message[i] >= 0)
				take_status(message[i], &s[i], rc);
		return;
	}
	while (left > 0) {
		count = 1;
		if (way == 2 || way == 3) {
			rc = way == 2 ? MPI_Waitsome(n, r, &count, index, s)
				      : MPI_Testsome(n, r, &count, index, s);
		} else {
			flag = 1;
			rc = way == 4 ? MPI_Waitany(n, r, &at, &s[0])
				      : MPI_Testany(n, r, &at, &flag, &s[0]);
			s[0].MPI_ERROR = rc;
			count = flag;
			index[0] = at;
		}
		KIT(count != MPI_UNDEFINED && count <= left);
		for (int i = 0; i < count; i++) {
			KIT(index[i] >= 0 && index[i] < n && r[index[i]] == MPI_REQUEST_NULL);
			if (message[index[i]] >= 0)
				take_status(message[index[i]], &s[i], rc);
		}
		left -= count;
	}
}

static void check(int i, uint64_t key)
{
	struct plan *p = &plan[i];
	size_t n = p->posted < p->bytes ? p->posted : p->bytes;
	int count, class = MPI_SUCCESS;

	if (side[i].status.MPI_ERROR != MPI_SUCCESS)
		MPI_Error_class(side[i].status.MPI_ERROR, &class);
	KIT(class == (p->posted < p->bytes ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
	MPI_Get_count(&side[i].status, MPI_BYTE, &count);
	KIT((size_t)count == n);
	KIT(side[i].status.MPI_SOURCE == p->from && side[i].status.MPI_TAG == i);
	KIT(kit_check(side[i].in, n, key + (uint64_t)i));
	for (size_t at = n; at < p->posted + GUARD; at++)
		KIT(side[i].in[at] == 0x5a);
}

/* What one stream waits for, with statuses in stream order. */
struct waited {
	MPI_Request r[2 * N];
	MPI_Status s[2 * N];
	int message[2 * N];
	int count;
};

static struct waited waited[COMMS];

/* A random half of the enqueued ones is left to their streams. */
static void wait_on_streams(MPI_Request *r, int *message, const int *comm, int n)
{
	for (int c = 0; c < COMMS; c++) {
		struct waited *w = &waited[c];

		w->count = 0;
		for (int i = 0; i < n; i++) {
			if (comm[i] != c || r[i] == MPI_REQUEST_NULL || kit_random() % 2)
				continue;
			w->message[w->count] = message[i];
			w->r[w->count++] = r[i];
			r[i] = MPI_REQUEST_NULL;
			message[i] = -1;
		}
		KIT(MPIX_Waitall_enqueue(w->count, w->r, w->s) == MPI_SUCCESS);
	}
}

static void batch(struct kit *k, uint64_t key)
{
	static MPI_Request r[2 * N];
	static int message[2 * N], comm[2 * N];
	int n = 0;

	make_plan();
	for (int i = 0; i < N; i++) {
		struct plan *p = &plan[i];
		struct kit *c = &k[p->comm];

		if (kit_random() % 16 == 0)
			kit_work(c, (int)(kit_random() % 3));
		if (p->to == kit_rank) {
			memset(side[i].in, 0x5a, p->posted + GUARD);
			memset(&side[i].status, 0x5a, sizeof(side[i].status));
		}
		if (p->from == kit_rank)
			kit_fill(side[i].out, p->bytes, key + (uint64_t)i);
		/* Either first where the message is to the own rank. */
		for (int what = 0; what < 2; what++) {
			if (what == 0 && p->from == kit_rank) {
				comm[n] = p->send == NONBLOCKING ? p->comm : -1;
				message[n] = -1;
				r[n++] = start_send(c, i);
			} else if (what == 1 && p->to == kit_rank) {
				comm[n] = p->recv == NONBLOCKING ? p->comm : -1;
				r[n] = start_recv(c, i);
				message[n] = r[n] == MPI_REQUEST_NULL ? -1 : i;
				n++;
			}
		}
	}
	wait_on_streams(r, message, comm, n);
	complete(r, message, n);
	for (int c = 0; c < COMMS; c++) {
		kit_sync(&k[c]);
		for (int i = 0; i < waited[c].count; i++)
			if (waited[c].message[i] >= 0)
				side[waited[c].message[i]].status = waited[c].s[i];
	}
	for (int i = 0; i < N; i++)
		if (plan[i].to == kit_rank)
			check(i, key);
	MPI_Barrier(MPI_COMM_WORLD); /* the buffers of requests that were given up are free */
}

int main(int argc, char **argv)
{
	int batches, files = 0;
	struct kit k[COMMS];
	long rss = 0;

	kit_init(&argc, &argv);
	batches = argc > 1 ? atoi(argv[1]) : 200;
	shared ^= (uint64_t)kit_seed() << 20;
	for (int i = 0; i < N; i++) {
		side[i].out = calloc(1, MAX_BYTES + 1);
		side[i].in = calloc(1, MAX_BYTES + 1 + 200 + GUARD);
		KIT(side[i].out != NULL && side[i].in != NULL);
		memset(side[i].out, 1, MAX_BYTES + 1);
		memset(side[i].in, 1, MAX_BYTES + 1 + 200 + GUARD);
	}
	for (int c = 0; c < COMMS; c++)
		kit_open(&k[c], MPI_COMM_WORLD);
	for (int b = 0; b < batches; b++) {
		int c = b % COMMS;

		batch(k, (uint64_t)b * 1000);
		if (b % 10 == 9) {
			kit_close(&k[c]);
			kit_open(&k[c], MPI_COMM_WORLD);
		}
		if (b == batches / 5) {
			rss = kit_rss_kib();
			files = kit_files();
		}
	}
	KIT(kit_rss_kib() - rss < 4 * 1024);
	KIT(kit_files() <= files + kit_ranks);
	for (int c = 0; c < COMMS; c++)
		kit_close(&k[c]);
	for (int i = 0; i < N; i++) {
		free(side[i].out);
		free(side[i].in);
	}
	return kit_end();
}
