/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

int kit_rank, kit_ranks, kit_control, kit_violations;

static const char *program;
static uint64_t seed, first_seed;
static MPI_Request *control_requests;
static int control_count;

void kit_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: rank %d%s: failed: %s\n", file, line, kit_rank,
		kit_control ? " (control)" : "", what);
	fflush(stderr);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

void kit_init(int *argc, char ***argv)
{
	const char *text = getenv("STMPI_TEST_SEED");

	if (!argc || !*argc)
		exit(2);
	program = strrchr((*argv)[0], '/') ? strrchr((*argv)[0], '/') + 1 : (*argv)[0];
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &kit_ranks);
	seed = text ? strtoull(text, NULL, 10) : 20261201;
	if (kit_rank == 0)
		printf("%s: seed %llu\n", program, (unsigned long long)seed);
	first_seed = seed;
	seed = seed * 2654435761u + (uint64_t)kit_rank * 0x9e3779b97f4a7c15u + 1;
}

int kit_end(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (kit_rank == 0)
		printf("ok %s\n", program);
	MPI_Finalize();
	return 0;
}

uint32_t kit_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 16);
}

uint32_t kit_seed(void)
{
	return (uint32_t)first_seed;
}

void kit_open_on(struct kit *k, MPI_Comm parent)
{
	MPI_Info info;

	MPI_Info_create(&info);
	MPI_Info_set(info, "type", any_stream_type());
	KIT(MPIX_Info_set_hex(info, "value", &k->host, sizeof(k->host)) == MPI_SUCCESS);
	KIT(MPIX_Stream_create(info, &k->stream) == MPI_SUCCESS);
	MPI_Info_free(&info);
	KIT(MPIX_Stream_comm_create(parent, k->stream, &k->comm) == MPI_SUCCESS);
	MPI_Comm_set_errhandler(k->comm, MPI_ERRORS_RETURN);
}

void kit_open(struct kit *k, MPI_Comm parent)
{
	KIT(any_stream_create(&k->host) == 0);
	kit_open_on(k, parent);
}

void kit_close(struct kit *k)
{
	KIT(MPI_Comm_free(&k->comm) == MPI_SUCCESS);
	KIT(MPIX_Stream_free(&k->stream) == MPI_SUCCESS);
	KIT(any_stream_synchronize(k->host) == 0);
	KIT(any_stream_destroy(k->host) == 0);
}

void kit_order(const char *name, void (*body)(struct kit *k, size_t bytes), size_t bytes)
{
	int all;

	for (kit_control = 0; kit_control < 2; kit_control++) {
		struct kit k;

		kit_open(&k, MPI_COMM_WORLD);
		kit_violations = 0;
		body(&k, bytes);
		kit_sync(&k);
		kit_close(&k);
		MPI_Allreduce(&kit_violations, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		if (kit_control && all == 0) {
			fprintf(stderr, "%s, %zu bytes: the control was not detected\n", name,
				bytes);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
		if (kit_control && kit_rank == 0)
			printf("%s, %zu bytes: in order; without the trigger %d violations\n", name,
			       bytes, all);
	}
	kit_control = 0;
}

static MPI_Request *next_request(void)
{
	control_requests =
		realloc(control_requests, (size_t)(control_count + 1) * sizeof(MPI_Request));
	KIT(control_requests != NULL);
	return &control_requests[control_count++];
}

void kit_send(struct kit *k, const void *buf, size_t bytes, int dest, int tag)
{
	if (kit_control)
		KIT(MPI_Isend(buf, (int)bytes, MPI_BYTE, dest, tag, k->comm, next_request()) ==
		    MPI_SUCCESS);
	else
		KIT(MPIX_Send_enqueue(buf, (int)bytes, MPI_BYTE, dest, tag, k->comm) ==
		    MPI_SUCCESS);
}

void kit_recv(struct kit *k, void *buf, size_t bytes, int source, int tag)
{
	if (kit_control)
		KIT(MPI_Irecv(buf, (int)bytes, MPI_BYTE, source, tag, k->comm, next_request()) ==
		    MPI_SUCCESS);
	else
		KIT(MPIX_Recv_enqueue(buf, (int)bytes, MPI_BYTE, source, tag, k->comm,
				      MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

void kit_sync(struct kit *k)
{
	KIT(any_stream_synchronize(k->host) == 0);
	if (control_count > 0)
		KIT(MPI_Waitall(control_count, control_requests, MPI_STATUSES_IGNORE) ==
		    MPI_SUCCESS);
	control_count = 0;
}

static uint64_t word_of(uint64_t key, uint64_t index)
{
	uint64_t h = (key + 1) * 0x9e3779b97f4a7c15u ^ index * 0xbf58476d1ce4e5b9u;

	return h ^ h >> 31;
}

void kit_fill(void *buf, size_t bytes, uint64_t key)
{
	unsigned char *p = buf;
	uint64_t w;

	for (size_t i = 0; i < bytes; i += 8) {
		w = word_of(key, i / 8);
		memcpy(p + i, &w, bytes - i < 8 ? bytes - i : 8);
	}
}

int kit_check(const void *buf, size_t bytes, uint64_t key)
{
	const unsigned char *p = buf;
	uint64_t w;

	for (size_t i = 0; i < bytes; i += 8) {
		w = word_of(key, i / 8);
		if (memcmp(p + i, &w, bytes - i < 8 ? bytes - i : 8) != 0)
			return 0;
	}
	return 1;
}

void kit_gate(struct kit *k, uint64_t *gate)
{
	__atomic_store_n(gate, 0, __ATOMIC_SEQ_CST);
	KIT(any_stream_wait_value64(k->host, gate, 1) == 0);
}

void kit_gate_open(uint64_t *gate)
{
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
}

void kit_sleep(int ms)
{
	struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&ts, &ts) != 0)
		;
}

static void work(void *arg)
{
	kit_sleep((int)(intptr_t)arg);
}

void kit_work(struct kit *k, int ms)
{
	KIT(any_stream_launch(k->host, work, (void *)(intptr_t)ms) == 0);
}

long kit_rss_kib(void)
{
	long pages = 0, total = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f == NULL || fscanf(f, "%ld %ld", &total, &pages) != 2)
		pages = 0;
	if (f != NULL)
		fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int kit_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d != NULL && readdir(d) != NULL)
		n++;
	if (d != NULL)
		closedir(d);
	return n;
}
