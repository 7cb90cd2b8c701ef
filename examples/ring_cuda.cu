/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_cuda.cu: ring.c on a GPU. Numbers go round a ring of any number of ranks, and each rank adds
 * its own on the way. A round is: kernel, send to the right, receive from the left, wait, kernel.
 *
 *	stmpinvcc ring_cuda.cu -o ring_cuda && stmpirun -n 4 ./ring_cuda
 *	stmpirun -n 4 ./ring_cuda sync
 *
 * All rounds are enqueued at once; the host waits once, at the end. With "sync" it is done as it is
 * without messages on streams: the host waits for the stream in each round, because MPI may send
 * only what the kernel has finished.
 *
 * Prints "ok" when every number is right, else how many are wrong and exits with 1.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda_example.h"

#define COUNT	20000 /* numbers in a message */
#define THREADS 256
#define BLOCKS	((COUNT + THREADS - 1) / THREADS)

/* Before a send: what came from the left goes on, with this rank's part added. */
extern "C" __global__ void ring_add_own(long *right, const long *left, int rank, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		right[i] = left[i] + rank + i;
}

/* After the wait. */
extern "C" __global__ void ring_add_up(long *sum, const long *left, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		sum[i] += left[i];
}

struct ring {
	int rank, ranks;
	cudaStream_t stream;
	MPI_Comm comm;		  /* of the stream */
	long *left, *right, *sum; /* on the device */
	long *host_left, *host_right;
};

static int from(const struct ring *r)
{
	return (r->rank + r->ranks - 1) % r->ranks;
}

static int to(const struct ring *r)
{
	return (r->rank + 1) % r->ranks;
}

/* Messages are work of the stream like the kernels. */
static void exchange_on_stream(struct ring *r)
{
	MPI_Request requests[2];

	MPIX_Irecv_enqueue(r->left, COUNT, MPI_LONG, from(r), 0, r->comm, &requests[0]);
	MPIX_Isend_enqueue(r->right, COUNT, MPI_LONG, to(r), 0, r->comm, &requests[1]);
	MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE);
}

/* The usual way: copy out, wait, plain MPI, copy in. */
static void exchange_synchronised(struct ring *r)
{
	MUST(cudaMemcpyAsync(r->host_right, r->right, COUNT * sizeof(long), cudaMemcpyDeviceToHost,
			     r->stream));
	MUST(cudaStreamSynchronize(r->stream));
	MPI_Sendrecv(r->host_right, COUNT, MPI_LONG, to(r), 0, r->host_left, COUNT, MPI_LONG,
		     from(r), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MUST(cudaMemcpyAsync(r->left, r->host_left, COUNT * sizeof(long), cudaMemcpyHostToDevice,
			     r->stream));
}

static void one_round(struct ring *r, int is_sync)
{
	ring_add_own<<<BLOCKS, THREADS, 0, r->stream>>>(r->right, r->left, r->rank, COUNT);
	MUST(cudaGetLastError());
	if (is_sync)
		exchange_synchronised(r);
	else
		exchange_on_stream(r);
	ring_add_up<<<BLOCKS, THREADS, 0, r->stream>>>(r->sum, r->left, COUNT);
	MUST(cudaGetLastError());
}

static void make_buffers(struct ring *r)
{
	long **device[] = {&r->left, &r->right, &r->sum};

	for (int i = 0; i < 3; i++) {
		MUST(cudaMalloc((void **)device[i], COUNT * sizeof(long)));
		MUST(cudaMemset(*device[i], 0, COUNT * sizeof(long)));
	}
	MUST(cudaMallocHost((void **)&r->host_left, COUNT * sizeof(long)));
	MUST(cudaMallocHost((void **)&r->host_right, COUNT * sizeof(long)));
}

/* In round k comes what the k ranks to the left have added. */
static long count_wrong(struct ring *r)
{
	long ranks_sum = 0, wrong = 0;

	for (int k = 1, added = 0; k <= r->ranks; k++) {
		added += (r->rank + r->ranks - k) % r->ranks;
		ranks_sum += added;
	}
	MUST(cudaMemcpy(r->host_left, r->sum, COUNT * sizeof(long), cudaMemcpyDeviceToHost));
	for (long i = 0; i < COUNT; i++)
		wrong += r->host_left[i] != ranks_sum + i * r->ranks * (r->ranks + 1) / 2;
	return wrong;
}

int main(int argc, char **argv)
{
	int is_sync = argc > 1 && strcmp(argv[1], "sync") == 0;
	struct ring r = {};
	long wrong, all_wrong;

	MPI_Init(&argc, &argv);
	MUST(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
	r.comm = make_comm(r.stream);
	MPI_Comm_rank(r.comm, &r.rank);
	MPI_Comm_size(r.comm, &r.ranks);
	make_buffers(&r);
	MUST(cudaDeviceSynchronize());

	for (int k = 0; k < r.ranks; k++)
		one_round(&r, is_sync);
	MUST(cudaStreamSynchronize(r.stream));

	wrong = count_wrong(&r);
	MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (r.rank == 0 && all_wrong == 0)
		printf("ok\n");
	else if (r.rank == 0)
		printf("%ld numbers are wrong\n", all_wrong);
	MPI_Comm_free(&r.comm);
	MPI_Finalize();
	return all_wrong == 0 ? 0 : 1;
}
