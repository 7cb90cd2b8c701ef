/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.c: MPIX_Stream handles, and the info values that they are made from. Cold.
 *
 * A handle has the shape of MPICH's: 0xbc in the highest byte. Below are an index into the table
 * and the number of times that the entry was used before, so that a freed handle is known as such.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mpix_int.h"
#include "stmpi.h"
#include "util/error.h"

#define HANDLE_MARK 0xbc000000u
#define INDEX_BITS  14u
#define INDEX_MASK  ((1u << INDEX_BITS) - 1)
#define USES_MASK   ((1u << (26 - INDEX_BITS)) - 1)

struct entry {
	struct stmpi_stream *core; /* NULL while free */
	uint32_t uses;
};

/* Guards the table. No MPI call is made under it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static uint32_t n_entries;
static uint32_t
	next_entry; /* where the search for a free one begins: freed ones rest as long as can be */

static MPIX_Stream handle_of(uint32_t index)
{
	return (MPIX_Stream)(HANDLE_MARK | (entries[index].uses & USES_MASK) << INDEX_BITS | index);
}

/* Under the mutex. The entry of a live handle, or NULL. */
static struct entry *find(MPIX_Stream handle)
{
	uint32_t index = (uint32_t)handle & INDEX_MASK;

	if (index >= n_entries || entries[index].core == NULL || handle_of(index) != handle)
		return NULL;
	return &entries[index];
}

/* Under the mutex. Index of a free entry, or -1. */
static int free_entry(void)
{
	uint32_t more = n_entries == 0 ? 64 : n_entries * 2;
	struct entry *table;

	for (uint32_t i = 0; i < n_entries; i++) {
		uint32_t index = (next_entry + i) % n_entries;

		if (entries[index].core == NULL)
			return (int)index;
	}
	if (more > INDEX_MASK + 1)
		return -1;
	table = realloc(entries, more * sizeof(*table));
	if (table == NULL)
		return -1;
	memset(table + n_entries, 0, (more - n_entries) * sizeof(*table));
	entries = table;
	next_entry = n_entries;
	n_entries = more;
	return (int)next_entry;
}

/* Takes core over when it succeeds. */
static int add(struct stmpi_stream *core, MPIX_Stream *handle)
{
	int index;

	pthread_mutex_lock(&mutex);
	index = free_entry();
	if (index >= 0) {
		entries[index].core = core;
		*handle = handle_of((uint32_t)index);
		next_entry = (uint32_t)index + 1;
	}
	pthread_mutex_unlock(&mutex);
	return index >= 0 ? 0 : -STMPI_ENOMEM;
}

int mpix_stream_lookup(MPIX_Stream handle, struct stmpi_stream **core)
{
	struct entry *e;

	if (handle == MPIX_STREAM_NULL) {
		*core = NULL;
		return 0;
	}
	pthread_mutex_lock(&mutex);
	e = find(handle);
	if (e != NULL) {
		*core = e->core;
		stmpi_stream_get(e->core);
	}
	pthread_mutex_unlock(&mutex);
	if (e == NULL)
		return stmpi_error_set(STMPI_EINVAL,
				       "invalid argument stream = 0x%08x: freed, or never a stream",
				       (unsigned int)handle);
	return 0;
}

void mpix_stream_fini(void)
{
	for (uint32_t i = 0; i < n_entries; i++)
		stmpi_stream_put(entries[i].core);
	free(entries);
	entries = NULL;
	n_entries = 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Returns the number of bytes, or -1. */
static int decode_hex(const char *text, unsigned char *bytes)
{
	size_t length = strlen(text);

	if (length == 0 || length % 2 != 0)
		return -1;
	for (size_t i = 0; i < length / 2; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return -1;
		bytes[i] = (unsigned char)(high * 16 + low);
	}
	return (int)(length / 2);
}

/* A stream of a type: MPI_SUCCESS or an error that has been raised. */
static int create_typed(MPI_Info info, const char *type, struct stmpi_stream **core)
{
	static const char func[] = "MPIX_Stream_create";
	char value[MPI_MAX_INFO_VAL + 1] = "";
	unsigned char handle[MPI_MAX_INFO_VAL / 2 + 1];
	int flag, length = sizeof(value), rc;

	rc = PMPI_Info_get_string(info, "value", &length, value, &flag);
	if (rc != MPI_SUCCESS)
		return rc;
	if (!flag)
		return mpix_fail(
			MPI_COMM_NULL, MPI_ERR_OTHER,
			"%s: info key \"value\" is missing: a stream of type \"%s\" needs it "
			"(MPIX_Info_set_hex sets it)",
			func, type);
	length = decode_hex(value, handle);
	if (length < 0)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_OTHER,
				 "%s: info key \"value\" = \"%.64s\" is not hexadecimal "
				 "(MPIX_Info_set_hex makes it)",
				 func, value);
	rc = stmpi_stream_create(type, handle, (size_t)length, core);
	if (rc != 0)
		return mpix_fail(MPI_COMM_NULL,
				 rc == -STMPI_ENOMEM ? MPI_ERR_NO_MEM : MPI_ERR_OTHER,
				 "%s: info \"type\" = \"%s\", \"value\" = \"%.64s\": %s", func,
				 type, value, stmpi_error_text());
	return MPI_SUCCESS;
}

int MPIX_Stream_create(MPI_Info info, MPIX_Stream *stream)
{
	static const char func[] = "MPIX_Stream_create";
	char type[MPI_MAX_INFO_VAL + 1] = "";
	int flag = 0, length = sizeof(type), rc;
	struct stmpi_stream *core;

	rc = mpix_start(func);
	if (rc != MPI_SUCCESS)
		return rc;
	if (stream == NULL)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_ARG, "%s: invalid argument stream = NULL",
				 func);
	if (mpix_engine_start() != 0)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_OTHER, "%s: %s", func, stmpi_error_text());
	if (info != MPI_INFO_NULL) {
		rc = PMPI_Info_get_string(info, "type", &length, type, &flag);
		if (rc != MPI_SUCCESS)
			return rc;
	}
	if (flag) {
		rc = create_typed(info, type, &core);
		if (rc != MPI_SUCCESS)
			return rc;
	} else if (stmpi_stream_create(NULL, NULL, 0, &core) != 0) {
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_NO_MEM, "%s: %s", func, stmpi_error_text());
	}
	if (add(core, stream) != 0) {
		stmpi_stream_put(core);
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_NO_MEM, "%s: out of stream handles", func);
	}
	return MPI_SUCCESS;
}

int MPIX_Stream_free(MPIX_Stream *stream)
{
	static const char func[] = "MPIX_Stream_free";
	struct stmpi_stream *core = NULL;
	struct entry *e;

	if (stream == NULL)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_ARG, "%s: invalid argument stream = NULL",
				 func);
	if (*stream == MPIX_STREAM_NULL)
		return mpix_fail(MPI_COMM_NULL, MPIX_ERR_STREAM,
				 "%s: invalid argument stream = MPIX_STREAM_NULL", func);
	pthread_mutex_lock(&mutex);
	e = find(*stream);
	if (e != NULL) {
		core = e->core;
		e->core = NULL;
		e->uses++;
	}
	pthread_mutex_unlock(&mutex);
	if (core == NULL)
		return mpix_fail(MPI_COMM_NULL, MPIX_ERR_STREAM,
				 "%s: invalid argument stream = 0x%08x: freed, or never a stream",
				 func, (unsigned int)*stream);
	stmpi_stream_put(core);
	*stream = MPIX_STREAM_NULL;
	return MPI_SUCCESS;
}

int MPIX_Info_set_hex(MPI_Info info, const char *key, const void *value, int value_size)
{
	static const char func[] = "MPIX_Info_set_hex";
	static const char digits[] = "0123456789abcdef";
	const unsigned char *bytes = value;
	char text[MPI_MAX_INFO_VAL];

	if (value_size < 0 || value_size > (MPI_MAX_INFO_VAL - 1) / 2)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_INFO_VALUE,
				 "%s: invalid argument value_size = %d: 0 to %d is possible", func,
				 value_size, (MPI_MAX_INFO_VAL - 1) / 2);
	if (value == NULL && value_size > 0)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_ARG, "%s: invalid argument value = NULL",
				 func);
	for (int i = 0; i < value_size; i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	text[2 * value_size] = '\0';
	return PMPI_Info_set(info, key, text);
}
