/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo_cuda.cu: heat spreads over a plate. The plate's rows are dealt out to the ranks in bands;
 * each band has a row of its upper and of its lower neighbour's beside it (the halo). A step is:
 * kernel, exchange of the outermost rows, wait, and the next kernel.
 *
 *	stmpinvcc halo_cuda.cu -o halo_cuda && stmpirun -n 4 ./halo_cuda
 *	stmpirun -n 4 ./halo_cuda sync
 *
 * All steps are enqueued at once; the host waits once, at the end. With "sync" the host waits for
 * the stream in each step, as programs do without messages on streams.
 *
 * Temperatures are whole numbers, so that the result must be that of one rank to the last bit.
 * Prints "ok" when it is, else how many cells are wrong and exits with 1.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda_example.h"

#define WIDTH	512 /* cells in a row */
#define ROWS	32  /* rows of a rank */
#define STEPS	40
#define THREADS 128

/* One step of rows 1 to `rows`; rows 0 and rows + 1 are the halo. The plate's rim stays as it is.
 */
extern "C" __global__ void halo_step(int *next, const int *now, int rows, int width)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	int x = i % width, y = i / width + 1;
	const int *at = now + (size_t)y * width + x;

	if (y > rows)
		return;
	if (x == 0 || x == width - 1)
		next[(size_t)y * width + x] = *at;
	else
		next[(size_t)y * width + x] = (at[-width] + at[width] + at[-1] + at[1]) / 4;
}

struct plate {
	int rank, ranks;
	int up, down; /* neighbours, or MPI_PROC_NULL */
	cudaStream_t stream;
	MPI_Comm comm; /* of the stream */
	int *cells[2]; /* on the device: now and next, ROWS + 2 rows each */
	int *host;     /* pinned, as large */
};

static int *row(int *cells, int y)
{
	return cells + (size_t)y * WIDTH;
}

/* Messages are work of the stream like the kernels. */
static void exchange_on_stream(struct plate *p, int *cells)
{
	MPI_Request r[4];

	MPIX_Irecv_enqueue(row(cells, 0), WIDTH, MPI_INT, p->up, 0, p->comm, &r[0]);
	MPIX_Irecv_enqueue(row(cells, ROWS + 1), WIDTH, MPI_INT, p->down, 0, p->comm, &r[1]);
	MPIX_Isend_enqueue(row(cells, 1), WIDTH, MPI_INT, p->up, 0, p->comm, &r[2]);
	MPIX_Isend_enqueue(row(cells, ROWS), WIDTH, MPI_INT, p->down, 0, p->comm, &r[3]);
	MPIX_Waitall_enqueue(4, r, MPI_STATUSES_IGNORE);
}

static void copy_row(struct plate *p, int *to, const int *from, cudaMemcpyKind kind)
{
	MUST(cudaMemcpyAsync(to, from, WIDTH * sizeof(int), kind, p->stream));
}

/* The usual way: copy out, wait, plain MPI, copy in. */
static void exchange_synchronised(struct plate *p, int *cells)
{
	copy_row(p, row(p->host, 1), row(cells, 1), cudaMemcpyDeviceToHost);
	copy_row(p, row(p->host, ROWS), row(cells, ROWS), cudaMemcpyDeviceToHost);
	MUST(cudaStreamSynchronize(p->stream));
	MPI_Sendrecv(row(p->host, 1), WIDTH, MPI_INT, p->up, 0, row(p->host, ROWS + 1), WIDTH,
		     MPI_INT, p->down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Sendrecv(row(p->host, ROWS), WIDTH, MPI_INT, p->down, 0, row(p->host, 0), WIDTH,
		     MPI_INT, p->up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (p->up != MPI_PROC_NULL)
		copy_row(p, row(cells, 0), row(p->host, 0), cudaMemcpyHostToDevice);
	if (p->down != MPI_PROC_NULL)
		copy_row(p, row(cells, ROWS + 1), row(p->host, ROWS + 1), cudaMemcpyHostToDevice);
}

static void exchange(struct plate *p, int *cells, int is_sync)
{
	if (is_sync)
		exchange_synchronised(p, cells);
	else
		exchange_on_stream(p, cells);
}

static void step(struct plate *p, int k, int is_sync)
{
	int *now = p->cells[k % 2], *next = p->cells[(k + 1) % 2];

	halo_step<<<ROWS * WIDTH / THREADS, THREADS, 0, p->stream>>>(next, now, ROWS, WIDTH);
	MUST(cudaGetLastError());
	exchange(p, next, is_sync);
}

/* The plate at the beginning: hot and cold spots. Rows are counted from the plate's top, whose rim
 * is row -1. */
static int start(int y, int x)
{
	return (y * 7919 + x * 104729) % 1000 * 1000;
}

static void make_plate(struct plate *p)
{
	size_t bytes = (size_t)(ROWS + 2) * WIDTH * sizeof(int);

	MUST(cudaMallocHost((void **)&p->host, bytes));
	for (int y = 0; y < ROWS + 2; y++) {
		for (int x = 0; x < WIDTH; x++)
			row(p->host, y)[x] = start(p->rank * ROWS + y, x);
	}
	for (int i = 0; i < 2; i++) {
		MUST(cudaMalloc((void **)&p->cells[i], bytes));
		MUST(cudaMemcpy(p->cells[i], p->host, bytes, cudaMemcpyHostToDevice));
	}
}

/* The whole plate, by the CPU alone. */
static int *reference(int ranks)
{
	int rows = ranks * ROWS;
	size_t cells = (size_t)(rows + 2) * WIDTH;
	int *now = (int *)malloc(cells * sizeof(int)), *next = (int *)malloc(cells * sizeof(int));

	for (int y = 0; y < rows + 2; y++) {
		for (int x = 0; x < WIDTH; x++)
			row(now, y)[x] = row(next, y)[x] = start(y, x);
	}
	for (int k = 0; k < STEPS; k++) {
		int *swap = now;

		for (int y = 1; y <= rows; y++) {
			for (int x = 1; x < WIDTH - 1; x++) {
				const int *at = row(now, y) + x;

				row(next, y)[x] = (at[-WIDTH] + at[WIDTH] + at[-1] + at[1]) / 4;
			}
		}
		now = next;
		next = swap;
	}
	free(next);
	return now;
}

static long count_wrong(struct plate *p)
{
	int *right = reference(p->ranks);
	long wrong = 0;

	MUST(cudaMemcpy(p->host, p->cells[STEPS % 2], (size_t)(ROWS + 2) * WIDTH * sizeof(int),
			cudaMemcpyDeviceToHost));
	for (int y = 1; y <= ROWS; y++) {
		for (int x = 0; x < WIDTH; x++)
			wrong += row(p->host, y)[x] != row(right, p->rank * ROWS + y)[x];
	}
	free(right);
	return wrong;
}

int main(int argc, char **argv)
{
	int is_sync = argc > 1 && strcmp(argv[1], "sync") == 0;
	struct plate p = {};
	long wrong, all_wrong;

	MPI_Init(&argc, &argv);
	MUST(cudaStreamCreateWithFlags(&p.stream, cudaStreamNonBlocking));
	p.comm = make_comm(p.stream);
	MPI_Comm_rank(p.comm, &p.rank);
	MPI_Comm_size(p.comm, &p.ranks);
	p.up = p.rank > 0 ? p.rank - 1 : MPI_PROC_NULL;
	p.down = p.rank < p.ranks - 1 ? p.rank + 1 : MPI_PROC_NULL;
	make_plate(&p);

	for (int k = 0; k < STEPS; k++)
		step(&p, k, is_sync);
	MUST(cudaStreamSynchronize(p.stream));

	wrong = count_wrong(&p);
	MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (p.rank == 0 && all_wrong == 0)
		printf("ok\n");
	else if (p.rank == 0)
		printf("%ld cells are wrong\n", all_wrong);
	MPI_Comm_free(&p.comm);
	MPI_Finalize();
	return all_wrong == 0 ? 0 : 1;
}
