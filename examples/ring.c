/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.c: numbers go round a ring of any number of ranks, and each rank adds its own on the way.
 * A round is: compute, send to the right, receive from the left, wait, compute. All rounds are
 * enqueued at once; the host waits once, at the end.
 *
 *	stmpicc ring.c -o ring && stmpirun -n 4 ./ring
 *
 * Prints "ok" when every number is right, else how many are wrong and exits with 1.
 */
#include <mpi.h>
#include <mpix.h>
#include <stdio.h>
#include <stdlib.h>
#include <stmpi_host.h>

#define COUNT 20000 /* numbers in a message */

/* What the functions on the stream work on. */
struct state {
	int rank;
	long left[COUNT];  /* received */
	long right[COUNT]; /* sent */
	long sum[COUNT];   /* of all that was received */
};

/* Host stream calls return a code, as MPI's do where its error handler lets them. */
static void must(int code, const char *call)
{
	if (code == 0)
		return;
	fprintf(stderr, "ring: %s: %s\n", call, stmpi_strerror(code));
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Before a send: what came from the left goes on, with this rank's part added. */
static void add_own(void *arg)
{
	struct state *s = arg;

	for (int i = 0; i < COUNT; i++)
		s->right[i] = s->left[i] + s->rank + i;
}

/* After the wait. */
static void add_up(void *arg)
{
	struct state *s = arg;

	for (int i = 0; i < COUNT; i++)
		s->sum[i] += s->left[i];
}

static MPI_Comm make_comm(stmpi_host_stream_t host)
{
	MPIX_Stream stream;
	MPI_Info info;
	MPI_Comm comm;

	MPI_Info_create(&info);
	MPI_Info_set(info, "type", "stmpi_host_stream_t");
	MPIX_Info_set_hex(info, "value", &host, sizeof(host));
	MPIX_Stream_create(info, &stream);
	MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm);
	/* The communicator keeps the stream. */
	MPIX_Stream_free(&stream);
	MPI_Info_free(&info);
	return comm;
}

static void enqueue_round(stmpi_host_stream_t host, MPI_Comm comm, int ranks, struct state *s)
{
	MPI_Request requests[2];

	must(stmpi_host_stream_launch(host, add_own, s), "stmpi_host_stream_launch");
	MPIX_Irecv_enqueue(s->left, COUNT, MPI_LONG, (s->rank + ranks - 1) % ranks, 0, comm,
			   &requests[0]);
	MPIX_Isend_enqueue(s->right, COUNT, MPI_LONG, (s->rank + 1) % ranks, 0, comm, &requests[1]);
	MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE);
	must(stmpi_host_stream_launch(host, add_up, s), "stmpi_host_stream_launch");
}

/* In round k comes what the k ranks to the left have added. */
static long count_wrong(const struct state *s, int ranks)
{
	long ranks_sum = 0, wrong = 0;

	for (int k = 1, added = 0; k <= ranks; k++) {
		added += (s->rank + ranks - k) % ranks;
		ranks_sum += added;
	}
	for (long i = 0; i < COUNT; i++)
		wrong += s->sum[i] != ranks_sum + i * ranks * (ranks + 1) / 2;
	return wrong;
}

int main(int argc, char **argv)
{
	struct state *s = calloc(1, sizeof(*s));
	stmpi_host_stream_t host;
	long wrong, all_wrong;
	int ranks;
	MPI_Comm comm;

	MPI_Init(&argc, &argv);
	must(s == NULL ? -STMPI_ENOMEM : 0, "calloc");
	must(stmpi_host_stream_create(&host), "stmpi_host_stream_create");
	comm = make_comm(host);
	MPI_Comm_rank(comm, &s->rank);
	MPI_Comm_size(comm, &ranks);

	for (int k = 0; k < ranks; k++)
		enqueue_round(host, comm, ranks, s);
	must(stmpi_host_stream_synchronize(host), "stmpi_host_stream_synchronize");

	wrong = count_wrong(s, ranks);
	MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, comm);
	if (s->rank == 0 && all_wrong == 0)
		printf("ok\n");
	else if (s->rank == 0)
		printf("%ld numbers are wrong\n", all_wrong);
	must(stmpi_host_stream_destroy(host), "stmpi_host_stream_destroy");
	MPI_Comm_free(&comm);
	MPI_Finalize();
	free(s);
	return all_wrong == 0 ? 0 : 1;
}
