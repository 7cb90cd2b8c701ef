/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * soak.c [MESSAGES [DELAY_US]]: messages of random size (0 B to 1 MiB), tag and direction on two
 * ranks, payload keyed to number and offset. Ends with the count of wrong and lost ones (none), and
 * compares memory and open files of the first and the last tenth. With DELAY_US, each rank by
 * itself holds up, at one operation of eight, the host or the stream for up to so many
 * microseconds (STMPI_TEST_SEED).
 */
#include <time.h>

#include "kit.h"

#define BATCH 64

struct plan {
	size_t bytes;
	int from;
	int tag;
};

/* Both ranks draw the same plan. */
static uint64_t state = 88172645463325252u;

static uint32_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20);
}

static struct plan next_plan(void)
{
	/* Most are small, as in programs; every size up to 1 MiB comes. */
	uint32_t bits = draw() % 21;
	struct plan p = {bits == 0 ? 0 : draw() % ((1u << bits) + 1), (int)(draw() % 2),
			 (int)(draw() % 8)};

	return p;
}

static void pause_us(void *us)
{
	struct timespec t = {0, (long)(intptr_t)us * 1000};

	nanosleep(&t, NULL);
}

static void delay(struct kit *k, uint32_t most_us)
{
	const uint32_t bits = kit_random();
	void *us;

	if (most_us == 0 || bits % 8 != 0)
		return;
	us = (void *)(intptr_t)(kit_random() % (most_us + 1));
	if (bits & 8)
		pause_us(us);
	else
		KIT(any_stream_launch(k->host, pause_us, us) == 0);
}

int main(int argc, char **argv)
{
	uint32_t delay_us;
	long count, done = 0, wrong = 0, rss = 0;
	static unsigned char *buf[BATCH];
	static MPI_Request r[BATCH];
	static MPI_Status s[BATCH];
	static struct plan plan[BATCH];
	struct kit k;
	int files = 0;

	kit_init(&argc, &argv);
	count = argc > 1 ? atol(argv[1]) : 20000;
	delay_us = argc > 2 ? (uint32_t)atol(argv[2]) : 0;
	for (int i = 0; i < BATCH; i++) {
		buf[i] = malloc(1 << 20);
		KIT(buf[i] != NULL);
		memset(buf[i], 1, 1 << 20);
	}
	kit_open(&k, MPI_COMM_WORLD);
	while (done < count) {
		int n = count - done < BATCH ? (int)(count - done) : BATCH;

		for (int i = 0; i < n; i++) {
			struct plan *p = &plan[i];

			*p = next_plan();
			delay(&k, delay_us);
			if (p->from == kit_rank) {
				kit_fill(buf[i], p->bytes, (uint64_t)(done + i));
				KIT(MPIX_Isend_enqueue(buf[i], (int)p->bytes, MPI_BYTE, !kit_rank,
						       p->tag, k.comm, &r[i]) == MPI_SUCCESS);
			} else {
				memset(buf[i], 0, p->bytes);
				KIT(MPIX_Irecv_enqueue(buf[i], 1 << 20, MPI_BYTE, !kit_rank, p->tag,
						       k.comm, &r[i]) == MPI_SUCCESS);
			}
		}
		KIT(MPIX_Waitall_enqueue(n, r, s) == MPI_SUCCESS);
		kit_sync(&k);
		for (int i = 0; i < n; i++) {
			int bytes;

			if (plan[i].from == kit_rank)
				continue;
			MPI_Get_count(&s[i], MPI_BYTE, &bytes);
			wrong += (size_t)bytes != plan[i].bytes || s[i].MPI_TAG != plan[i].tag ||
				 !kit_check(buf[i], plan[i].bytes, (uint64_t)(done + i));
		}
		KIT(wrong == 0);
		done += n;
		if (rss == 0 && done > count / 10) {
			rss = kit_rss_kib();
			files = kit_files();
		}
	}
	/* libfabric grows its own pools up to some 8 MiB, and then no more. */
	KIT(kit_rss_kib() - rss < 12 * 1024);
	KIT(kit_files() <= files);
	if (kit_rank == 0)
		printf("%ld messages, 0 wrong, 0 lost; resident memory %+ld KiB since the first "
		       "tenth\n",
		       done, kit_rss_kib() - rss);
	for (int i = 0; i < BATCH; i++)
		free(buf[i]);
	kit_close(&k);
	return kit_end();
}
