/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/flags.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/error.h"

int stmpi_flags_init(struct stmpi_flags *flags)
{
	const size_t bytes = (size_t)STMPI_FLAGS_MAX * sizeof(uint64_t);
	void *map;
	int fd;

	fd = memfd_create("stmpi-flags", MFD_CLOEXEC);
	if (fd < 0)
		return stmpi_error_set(STMPI_ENOMEM,
				       "cannot make the memory of completion words: %s",
				       strerror(errno));
	if (ftruncate(fd, (off_t)bytes) != 0)
		goto err;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (map == MAP_FAILED)
		goto err;
	*flags = (struct stmpi_flags){map, bytes, fd, 0};
	return 0;
err:
	stmpi_error_set(STMPI_ENOMEM, "cannot map the memory of completion words: %s",
			strerror(errno));
	close(fd);
	return -STMPI_ENOMEM;
}

void stmpi_flags_fini(struct stmpi_flags *flags)
{
	if (flags->words == NULL)
		return;
	munmap(flags->words, flags->bytes);
	close(flags->fd);
	flags->words = NULL;
}

int stmpi_flags_alloc(struct stmpi_flags *flags, uint32_t count, uint32_t *first)
{
	if (count > STMPI_FLAGS_MAX - flags->used)
		return stmpi_error_set(STMPI_ENOMEM, "all %u completion words are in use",
				       STMPI_FLAGS_MAX);
	*first = flags->used;
	flags->used += count;
	return 0;
}
