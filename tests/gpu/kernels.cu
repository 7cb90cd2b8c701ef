/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.cu: kernels before and after messages, two ranks. A kernel that takes its time makes a
 * message's data, the message goes, and a kernel of the other rank looks at it as soon as the
 * stream lets it: a message that leaves too early, or a wait that ends too early, shows as wrong
 * numbers. The host waits once for each kind of memory.
 *
 *	kernels [MESSAGES]
 *
 * STMPI_TEST_NO_WAIT=1 leaves out the waits: then it must fail.
 */
#include <stdlib.h>
#include <string.h>

#include "../../examples/cuda_example.h"

#define WORDS_MAX (1 << 18)
#define THREADS	  128

/* Wait some clock ticks, then make the numbers of message `key`. */
extern "C" __global__ void slow_fill(unsigned long long *to, int words, unsigned long long key,
				     long long ticks)
{
	long long begin = clock64();

	while (clock64() - begin < ticks)
		;
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
		to[i] = key * 1000003 + i;
}

/* Count in *wrong the numbers that are not those of message `key`; then spoil them. */
extern "C" __global__ void check_spoil(unsigned long long *from, int words, unsigned long long key,
				       unsigned long long *wrong)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
	     i += gridDim.x * blockDim.x) {
		if (from[i] != key * 1000003 + i)
			atomicAdd(wrong, 1ull);
		from[i] = ~0ull;
	}
}

struct test {
	int rank;
	cudaStream_t stream, other;
	cudaEvent_t arrived, checked;
	MPI_Comm comm;
	unsigned long long *wrong;
	int has_wait;
};

static void *allocate(const char *kind, size_t bytes)
{
	void *p = NULL;

	if (strcmp(kind, "device") == 0)
		MUST(cudaMalloc(&p, bytes));
	else if (strcmp(kind, "pinned") == 0)
		MUST(cudaMallocHost(&p, bytes));
	else
		MUST(cudaMallocManaged(&p, bytes));
	return p;
}

static unsigned long long key_of(int rank, int k)
{
	return (unsigned long long)k * 2 + rank + 1;
}

/* Words of message k: mostly few, sometimes many. */
static int words_of(int k)
{
	static const int words[] = {1, 2, 512, 1, 2048, 8192, 1, WORDS_MAX, 33, 3};

	return words[k % 10];
}

/* Both ways at once; what came is looked at on another stream, after an event. */
static void exchange(struct test *t, int k, unsigned long long *out, unsigned long long *in)
{
	int words = words_of(k);
	MPI_Request r[2];

	slow_fill<<<4, THREADS, 0, t->stream>>>(out, words, key_of(t->rank, k),
						20000 + k % 7 * 30000);
	MUST(cudaGetLastError());
	MPIX_Irecv_enqueue(in, words, MPI_UNSIGNED_LONG_LONG, !t->rank, 0, t->comm, &r[0]);
	MPIX_Isend_enqueue(out, words, MPI_UNSIGNED_LONG_LONG, !t->rank, 0, t->comm, &r[1]);
	if (t->has_wait) {
		MPIX_Waitall_enqueue(2, r, MPI_STATUSES_IGNORE);
	} else {
		MPI_Request_free(&r[0]);
		MPI_Request_free(&r[1]);
	}
	MUST(cudaEventRecord(t->arrived, t->stream));
	MUST(cudaStreamWaitEvent(t->other, t->arrived, 0));
	check_spoil<<<4, THREADS, 0, t->other>>>(in, words, key_of(!t->rank, k), t->wrong);
	MUST(cudaGetLastError());
	MUST(cudaEventRecord(t->checked, t->other));
	MUST(cudaStreamWaitEvent(t->stream, t->checked, 0));
}

static unsigned long long test_kind(struct test *t, const char *kind, int messages)
{
	size_t bytes = WORDS_MAX * sizeof(unsigned long long);
	unsigned long long *out = (unsigned long long *)allocate(kind, bytes), wrong = 0;
	unsigned long long *in = (unsigned long long *)allocate(kind, bytes), all;

	MUST(cudaMemset(t->wrong, 0, sizeof(wrong)));
	MUST(cudaDeviceSynchronize());
	for (int k = 0; k < messages; k++)
		exchange(t, k, out, in);
	MUST(cudaStreamSynchronize(t->stream));
	MUST(cudaMemcpy(&wrong, t->wrong, sizeof(wrong), cudaMemcpyDeviceToHost));
	MPI_Allreduce(&wrong, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (t->rank == 0)
		printf("%s memory: %d messages each way, %llu numbers wrong\n", kind, messages,
		       all);
	return all;
}

int main(int argc, char **argv)
{
	static const char *const kinds[] = {"device", "pinned", "managed"};
	int messages = argc > 1 ? atoi(argv[1]) : 200;
	unsigned long long wrong = 0;
	struct test t = {};

	MPI_Init(&argc, &argv);
	t.has_wait = getenv("STMPI_TEST_NO_WAIT") == NULL;
	MUST(cudaStreamCreateWithFlags(&t.stream, cudaStreamNonBlocking));
	MUST(cudaStreamCreateWithFlags(&t.other, cudaStreamNonBlocking));
	MUST(cudaEventCreateWithFlags(&t.arrived, cudaEventDisableTiming));
	MUST(cudaEventCreateWithFlags(&t.checked, cudaEventDisableTiming));
	MUST(cudaMalloc((void **)&t.wrong, sizeof(*t.wrong)));
	t.comm = make_comm(t.stream);
	MPI_Comm_rank(t.comm, &t.rank);
	for (int i = 0; i < 3; i++)
		wrong += test_kind(&t, kinds[i], messages);
	if (t.rank == 0 && wrong == 0)
		printf("ok\n");
	MPI_Comm_free(&t.comm);
	MPI_Finalize();
	return wrong == 0 ? 0 : 1;
}
