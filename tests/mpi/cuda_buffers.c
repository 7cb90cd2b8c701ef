/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_buffers.c: messages from and to every kind of memory that a CUDA program has, on a CUDA
 * stream. Run with STMPI_TEST_STREAM=cuda; else it is skipped.
 *
 * cuda_buffers faults KIND: messages to itself, while one call of the driver fails (simrun --fail):
 * the call of ours that needed it fails, or none, and all the others are as ever.
 *
 * cuda_buffers calls N KIND: N blocking sends (rank 0) and receives (rank 1) of 8 bytes and nothing
 * else, for those who count the driver's calls.
 */
#include "kit.h"

#include <unistd.h>

enum kind {
	DEVICE,
	PINNED,
	MANAGED,
	HEAP,
	KINDS
};

static const char *const kind_names[] = {"device", "pinned", "managed", "heap"};

#define ROOM  128u /* bytes behind what a message fills */
#define EMPTY 0x5a

static void *alloc(enum kind kind, size_t bytes)
{
	void *p = kind == DEVICE    ? any_device_alloc(bytes)
		  : kind == PINNED  ? any_pinned_alloc(bytes)
		  : kind == MANAGED ? any_managed_alloc(bytes)
				    : malloc(bytes);

	KIT(p != NULL);
	return p;
}

struct copy {
	void *to;
	const void *from;
	size_t bytes;
};

static void copy_job(void *arg)
{
	struct copy *c = arg;

	memcpy(c->to, c->from, c->bytes);
	free(c);
}

/* A copy in the stream's order between a buffer and pinned memory. */
static void copy(struct kit *k, enum kind kind, void *to, const void *from, size_t bytes)
{
	struct copy *c;

	if (kind == DEVICE || kind == MANAGED) {
		KIT(any_device_copy_async(to, from, bytes, k->host) == 0);
		return;
	}
	c = malloc(sizeof(*c));
	KIT(c != NULL);
	*c = (struct copy){to, from, bytes};
	KIT(any_stream_launch(k->host, copy_job, c) == 0);
}

static int is_empty(const unsigned char *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i] != EMPTY)
			return 0;
	return 1;
}

/*
 * All of it behind a gate: work fills the buffer, it is sent, work overwrites it; the receiver's
 * buffer is longer than the message, and later work reads it. What lies behind stays as it was.
 */
static void one_message(struct kit *k, enum kind kind, size_t bytes, uint64_t key)
{
	static uint64_t gate;
	size_t all = bytes + ROOM;
	unsigned char *buf = alloc(kind, all);
	unsigned char *first = any_pinned_alloc(all), *after = any_pinned_alloc(all);
	MPI_Status status;
	int count;

	KIT(first != NULL && after != NULL);
	memset(after, EMPTY, all);
	kit_gate(k, &gate);
	if (kit_rank == 0) {
		kit_fill(first, bytes, key);
		copy(k, kind, buf, first, bytes);
		KIT(MPIX_Send_enqueue(buf, (int)bytes, MPI_BYTE, 1, 3, k->comm) == MPI_SUCCESS);
		copy(k, kind, buf, after, all);
		kit_gate_open(&gate);
		kit_sync(k);
	} else {
		memset(first, EMPTY, all);
		copy(k, kind, buf, first, all);
		memset(&status, 0xff, sizeof(status));
		KIT(MPIX_Recv_enqueue(buf, (int)all, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, k->comm,
				      &status) == MPI_SUCCESS);
		copy(k, kind, after, buf, all);
		kit_gate_open(&gate);
		kit_sync(k);
		KIT(MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS);
		KIT(count == (int)bytes && status.MPI_SOURCE == 0 && status.MPI_TAG == 3);
		KIT(kit_check(after, bytes, key));
		KIT(is_empty(after + bytes, ROOM));
	}
	if (kind == DEVICE || kind == MANAGED)
		KIT(any_device_free(buf) == 0);
	else if (kind == HEAP)
		free(buf);
}

static void messages(struct kit *k, enum kind kind)
{
	static const size_t sizes[] = {0, 1, 8, 4096 - ROOM, 4097, 65536, 3 << 20};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (uint64_t round = 0; round < 5; round++)
			one_message(k, kind, sizes[i], i * 100 + round);
	if (kit_rank == 0)
		printf("%s: as sent\n", kind_names[kind]);
}

/* Many at once, nonblocking, waited for by one call with statuses; then by the host. */
static void many(struct kit *k, int by_host)
{
	enum {
		N = 60,
		BYTES = 5000
	};
	unsigned char *dev = alloc(DEVICE, N * BYTES), *pinned = any_pinned_alloc(N * BYTES);
	MPI_Status statuses[N];
	MPI_Request r[N];
	int count;

	memset(pinned, EMPTY, N * BYTES);
	for (int i = 0; i < N && kit_rank == 0; i++)
		kit_fill(pinned + i * BYTES, (size_t)(BYTES - i), (uint64_t)i);
	KIT(any_device_copy(dev, pinned, N * BYTES) == 0);
	for (int i = 0; i < N; i++) {
		void *b = dev + i * BYTES;

		if (kit_rank == 0)
			KIT(MPIX_Isend_enqueue(b, BYTES - i, MPI_BYTE, 1, i, k->comm, &r[i]) ==
			    MPI_SUCCESS);
		else
			KIT(MPIX_Irecv_enqueue(b, BYTES, MPI_BYTE, 0, i, k->comm, &r[i]) ==
			    MPI_SUCCESS);
	}
	if (by_host) {
		KIT(MPI_Waitall(N, r, statuses) == MPI_SUCCESS);
	} else {
		KIT(MPIX_Waitall_enqueue(N, r, statuses) == MPI_SUCCESS);
		kit_sync(k);
	}
	KIT(any_device_copy(pinned, dev, N * BYTES) == 0);
	for (int i = 0; i < N && kit_rank == 1; i++) {
		KIT(kit_check(pinned + i * BYTES, (size_t)(BYTES - i), (uint64_t)i));
		KIT(is_empty(pinned + (i + 1) * BYTES - i, (size_t)i));
		KIT(MPI_Get_count(&statuses[i], MPI_BYTE, &count) == MPI_SUCCESS);
		KIT(count == BYTES - i && statuses[i].MPI_TAG == i);
	}
	kit_sync(k);
	KIT(any_device_free(dev) == 0);
}

/* Ordinary calls with device memory, and such that meet enqueued ones. */
static void ordinary(struct kit *k)
{
	enum {
		BYTES = 50000
	};
	unsigned char *dev = alloc(DEVICE, BYTES), *back = alloc(DEVICE, BYTES);
	unsigned char *pinned = any_pinned_alloc(BYTES);
	int other = 1 - kit_rank, count;
	MPI_Status status;
	MPI_Request r;

	for (uint64_t i = 0; i < 10; i++) {
		size_t bytes = i % 2 ? BYTES : 100;

		kit_fill(pinned, BYTES, i);
		KIT(any_device_copy(dev, pinned, BYTES) == 0);
		memset(pinned, EMPTY, BYTES);
		KIT(any_device_copy(back, pinned, BYTES) == 0);
		if (i < 5) {
			KIT(MPI_Sendrecv(dev, (int)bytes, MPI_BYTE, other, 1, back, BYTES, MPI_BYTE,
					 other, 1, k->comm, &status) == MPI_SUCCESS);
		} else if (kit_rank == 0) {
			KIT(MPI_Ssend(dev, (int)bytes, MPI_BYTE, 1, 1, k->comm) == MPI_SUCCESS);
			KIT(MPI_Irecv(back, BYTES, MPI_BYTE, 1, 1, k->comm, &r) == MPI_SUCCESS);
			KIT(MPI_Wait(&r, &status) == MPI_SUCCESS);
		} else {
			KIT(MPIX_Recv_enqueue(back, BYTES, MPI_BYTE, 0, 1, k->comm, &status) ==
			    MPI_SUCCESS);
			kit_send(k, dev, bytes, 0, 1);
			kit_sync(k);
		}
		KIT(MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS);
		KIT(count == (int)bytes);
		KIT(any_device_copy(pinned, back, BYTES) == 0);
		KIT(kit_check(pinned, bytes, i));
		KIT(is_empty(pinned + bytes, BYTES - bytes));
	}
	KIT(any_device_free(dev) == 0 && any_device_free(back) == 0);
}

/* A status is written in the stream's order: work before the wait still sees the one before. */
struct seen {
	const MPI_Status *status;
	int tag;
};

static void see(void *arg)
{
	struct seen *s = arg;

	s->tag = s->status->MPI_TAG;
}

static void statuses_in_order(struct kit *k)
{
	struct seen seen[2];
	MPI_Status status;
	MPI_Request r[2];
	uint64_t v[2] = {1, 2};

	for (int i = 0; i < 2; i++) {
		if (kit_rank == 0)
			kit_send(k, &v[i], 8, 1, i);
		else
			KIT(MPIX_Irecv_enqueue(&v[i], 8, MPI_BYTE, 0, i, k->comm, &r[i]) ==
			    MPI_SUCCESS);
	}
	for (int i = 0; i < 2 && kit_rank == 1; i++) {
		seen[i] = (struct seen){&status, -1};
		KIT(MPIX_Wait_enqueue(&r[i], &status) == MPI_SUCCESS);
		kit_work(k, 20);
		KIT(any_stream_launch(k->host, see, &seen[i]) == 0);
	}
	kit_sync(k);
	KIT(kit_rank == 0 || (seen[0].tag == 0 && seen[1].tag == 1));
}

/* Memory of the stream's own pool, given back right behind the operation. */
static void pool_memory(struct kit *k)
{
	enum {
		BYTES = 10000
	};
	unsigned char *pinned = any_pinned_alloc(BYTES);

	for (uint64_t i = 0; i < 50; i++) {
		unsigned char *dev = any_device_alloc_async(BYTES, k->host);

		KIT(dev != NULL);
		if (kit_rank == 0) {
			kit_fill(pinned, BYTES, i);
			KIT(any_device_copy_async(dev, pinned, BYTES, k->host) == 0);
			kit_send(k, dev, BYTES, 1, 0);
		} else {
			KIT(any_device_copy_async(dev, pinned, BYTES, k->host) == 0);
			kit_recv(k, dev, BYTES, 0, 0);
			KIT(any_device_copy_async(pinned, dev, BYTES, k->host) == 0);
		}
		KIT(any_device_free_async(dev, k->host) == 0);
		kit_sync(k);
		KIT(kit_rank == 0 || kit_check(pinned, BYTES, i));
	}
}

/* The call has failed, and its text has the words in it. */
static void fails(int code, int class, const char *word)
{
	char text[MPI_MAX_ERROR_STRING];
	int found, length;

	MPI_Error_class(code, &found);
	MPI_Error_string(code, text, &length);
	if (found != class || strstr(text, word) == NULL)
		fprintf(stderr, "class %d for %d, text: %s\n", found, class, text);
	KIT(found == class && strstr(text, word) != NULL);
}

/* An error at the call; what was enqueued before and what comes after is whole. */
static void errors(struct kit *k)
{
	uint64_t *dev = alloc(DEVICE, 64), *gone = alloc(DEVICE, 64), v = 7, in = 0;
	int other = 1 - kit_rank;
	uint64_t context = any_context();

	KIT(any_device_free(gone) == 0);
	fails(MPIX_Send_enqueue(gone, 64, MPI_BYTE, other, 0, k->comm), MPI_ERR_ARG, "buffer");
	fails(MPIX_Recv_enqueue(gone, 64, MPI_BYTE, other, 0, k->comm, MPI_STATUS_IGNORE),
	      MPI_ERR_ARG, "buffer");
	fails(MPIX_Send_enqueue(dev, 1 << 20, MPI_BYTE, other, 0, k->comm), MPI_ERR_ARG,
	      "1048576 bytes");
	KIT(any_capture_begin(k->host) == 0);
	fails(MPIX_Send_enqueue(&v, 8, MPI_BYTE, other, 0, k->comm), MPI_ERR_ARG, "capture");
	KIT(any_capture_end(k->host) == 0);
	KIT(any_context() == context);
	if (kit_rank == 0) {
		kit_send(k, &v, 8, 1, 0);
	} else {
		kit_recv(k, &in, 8, 0, 0);
		kit_sync(k);
		KIT(in == 7);
	}
	kit_sync(k);
}

static void destroyed(void)
{
	MPI_Request r;
	uint64_t v = 7;
	struct kit k;

	kit_open(&k, MPI_COMM_WORLD);
	if (kit_rank == 0)
		KIT(MPIX_Isend_enqueue(&v, 8, MPI_BYTE, 1, 0, k.comm, &r) == MPI_SUCCESS);
	else
		KIT(MPIX_Irecv_enqueue(&v, 8, MPI_BYTE, 0, 0, k.comm, &r) == MPI_SUCCESS);
	KIT(any_stream_destroy(k.host) == 0);
	fails(MPIX_Send_enqueue(&v, 8, MPI_BYTE, 0, 0, k.comm), MPI_ERR_ARG, "stream");
	KIT(MPI_Wait(&r, MPI_STATUS_IGNORE) == MPI_SUCCESS && v == 7);
	KIT(MPI_Comm_free(&k.comm) == MPI_SUCCESS);
	KIT(MPIX_Stream_free(&k.stream) == MPI_SUCCESS);
}

static enum kind kind_of(const char *name)
{
	enum kind kind = 0;

	while (kind < KINDS && strcmp(kind_names[kind], name) != 0)
		kind++;
	KIT(kind < KINDS);
	return kind;
}

/* One message to oneself. The receive is there before the send, else the stream would wait for
 * ever: what fails is done again, once. Returns the number of calls that failed. */
static int to_self(struct kit *k, unsigned char *in, unsigned char *out, int tag)
{
	MPI_Request r[2];
	int failed = 0;

	for (int i = 0; i < 2; i++) {
		int rc = i == 0 ? MPIX_Irecv_enqueue(in, 8, MPI_BYTE, kit_rank, tag, k->comm, &r[0])
				: MPIX_Isend_enqueue(out, 8, MPI_BYTE, kit_rank, tag, k->comm,
						     &r[1]);

		if (rc != MPI_SUCCESS && ++failed < 3)
			i--;
	}
	while (MPIX_Waitall_enqueue(2, r, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
		KIT(++failed < 3);
	return failed;
}

static int faults(const char *name)
{
	enum {
		N = 6
	};
	enum kind kind = kind_of(name);
	unsigned char *in = alloc(kind, N * 8), *out = alloc(kind, N * 8), *pinned;
	int failed = 0;
	struct kit k;

	kit_open(&k, MPI_COMM_SELF);
	pinned = any_pinned_alloc(N * 8);
	KIT(pinned != NULL);
	kit_fill(pinned, N * 8, 1);
	copy(&k, kind, out, pinned, N * 8);
	kit_sync(&k);
	for (int i = 0; i < N; i++)
		failed += to_self(&k, in + i * 8, out + i * 8, i);
	memset(pinned, 0, N * 8);
	copy(&k, kind, pinned, in, N * 8);
	kit_sync(&k);
	KIT(kit_check(pinned, N * 8, 1));
	printf("%d calls failed\n", failed);
	kit_close(&k);
	return kit_end();
}

static void count_calls(struct kit *k, int n, const char *name)
{
	uint64_t *buf = alloc(kind_of(name), 8);

	for (int i = 0; i < n; i++) {
		if (kit_rank == 0)
			KIT(MPIX_Send_enqueue(buf, 8, MPI_BYTE, 1, 0, k->comm) == MPI_SUCCESS);
		else
			KIT(MPIX_Recv_enqueue(buf, 8, MPI_BYTE, 0, 0, k->comm, MPI_STATUS_IGNORE) ==
			    MPI_SUCCESS);
	}
	kit_sync(k);
}

int main(int argc, char **argv)
{
	struct kit k;

	if (!any_stream_is_cuda()) {
		printf("skip: STMPI_TEST_STREAM=cuda is not set\n");
		return 77;
	}
	kit_init(&argc, &argv);
	if (argc == 3)
		return faults(argv[2]);
	kit_open(&k, MPI_COMM_WORLD);
	if (argc > 3) {
		count_calls(&k, atoi(argv[2]), argv[3]);
		printf("rank %d is %d\n", kit_rank, (int)getpid());
		kit_close(&k);
		return kit_end();
	}
	for (enum kind kind = 0; kind < KINDS; kind++)
		messages(&k, kind);
	many(&k, 0);
	many(&k, 1);
	ordinary(&k);
	statuses_in_order(&k);
	pool_memory(&k);
	errors(&k);
	kit_close(&k);
	destroyed();
	return kit_end();
}
