/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c: buffers that are allocated, sent, freed and allocated again, at the same address with
 * another size, by malloc and by mmap; resident memory and open files stay flat.
 */
#include "kit.h"

#include <sys/mman.h>

static void exchange(struct kit *k, unsigned char *b, size_t bytes, uint64_t key)
{
	if (kit_rank == 0) {
		kit_fill(b, bytes, key);
		kit_send(k, b, bytes, 1, 0);
		kit_sync(k);
	} else {
		memset(b, 0, bytes);
		kit_recv(k, b, bytes, 0, 0);
		kit_sync(k);
		KIT(kit_check(b, bytes, key));
	}
}

/* Both ranks use the same sizes: a sequence of their own, not the seeded one. */
static size_t size_of(int i)
{
	return 4096 + (size_t)(((uint64_t)i * 2654435761u >> 7) % (2 << 20));
}

int main(int argc, char **argv)
{
	long rss = 0;
	int files = 0;
	struct kit k;

	kit_init(&argc, &argv);
	kit_open(&k, MPI_COMM_WORLD);
	for (int i = 0; i < 600; i++) {
		unsigned char *b = malloc(size_of(i));

		exchange(&k, b, size_of(i), (uint64_t)i);
		free(b);
		if (i == 100) {
			rss = kit_rss_kib();
			files = kit_files();
		}
	}
	for (int i = 0; i < 300; i++) {
		/* One place, sizes that differ: what was known of the place is wrong. */
		size_t bytes = size_of(i);
		unsigned char *b =
			mmap((void *)(uintptr_t)0x600000000000, bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		KIT(b != MAP_FAILED);
		exchange(&k, b, bytes, (uint64_t)i + 1000);
		munmap(b, bytes);
	}
	KIT(kit_rss_kib() - rss < 16 * 1024);
	KIT(kit_files() <= files);
	kit_close(&k);
	return kit_end();
}
