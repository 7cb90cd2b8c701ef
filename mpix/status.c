/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * status.c: MPI_Status from results, without calling MPI: a stream's worker may do it.
 * MPICH's ABI fixes the layout: 63 bits of count over two ints, the lowest bit of the second is
 * "cancelled".
 */
#include "mpix_int.h"

_Static_assert(sizeof(MPI_Status) == 20 && offsetof(MPI_Status, count_lo) == 0 &&
		       offsetof(MPI_Status, count_hi_and_cancelled) == 4 &&
		       offsetof(MPI_Status, MPI_SOURCE) == 8 &&
		       offsetof(MPI_Status, MPI_TAG) == 12 && offsetof(MPI_Status, MPI_ERROR) == 16,
	       "MPICH's ABI: layout of MPI_Status");

static void set_count(MPI_Status *status, uint64_t bytes)
{
	status->count_lo = (int)(uint32_t)bytes;
	status->count_hi_and_cancelled = (int)(uint32_t)(bytes >> 32 << 1);
}

void mpix_status_set(MPI_Status *status, const struct stmpi_result *result)
{
	if (status == MPI_STATUS_IGNORE)
		return;
	set_count(status, result->bytes);
	status->MPI_SOURCE = result->source;
	status->MPI_TAG = result->tag;
}

void mpix_status_format(const struct stmpi_result *result, void *image)
{
	MPI_Status *status = image;

	mpix_status_set(status, result);
	status->MPI_ERROR = result->error == 0 ? MPI_SUCCESS : mpix_class(result->error);
}

void mpix_status_empty(MPI_Status *status)
{
	if (status == MPI_STATUS_IGNORE)
		return;
	set_count(status, 0);
	status->MPI_SOURCE = MPI_ANY_SOURCE;
	status->MPI_TAG = MPI_ANY_TAG;
	status->MPI_ERROR = MPI_SUCCESS;
}
