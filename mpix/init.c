/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * init.c: start of the layer at its first use, and its end.
 *
 * Neither MPI_Init nor MPI_Finalize is intercepted: a program that makes no stream pays nothing,
 * and MPI_Finalize deletes the attributes of MPI_COMM_SELF, last set first, before it does anything
 * else. One of them is ours. So a library that cleans up in the same way may still use its stream
 * communicators.
 */
#include <pthread.h>

#include "mpix_int.h"
#include "util/log.h"

int mpix_comm_keyval = MPI_KEYVAL_INVALID;
int mpix_type_keyval = MPI_KEYVAL_INVALID;
MPI_Comm mpix_private_comm = MPI_COMM_NULL;

/* Guards state. The local, non-collective MPI calls of start() are made under it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static enum {
	STATE_NEW,
	STATE_UP,
	STATE_ENDED
} state;
static int self_keyval = MPI_KEYVAL_INVALID;

int mpix_mpi_is_up(void)
{
	int flag = 0;

	if (PMPI_Initialized(&flag) != MPI_SUCCESS || !flag)
		return 0;
	return PMPI_Finalized(&flag) == MPI_SUCCESS && !flag;
}

/* The delete callback: everything ends here, while MPI is still up. */
static int self_deleted(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm;
	(void)keyval;
	(void)value;
	(void)extra;
	pthread_mutex_lock(&mutex);
	state = STATE_ENDED;
	pthread_mutex_unlock(&mutex);
	if (stmpi_engine_is_up())
		stmpi_engine_drain();
	mpix_req_fini();
	mpix_comm_fini();
	mpix_stream_fini();
	if (stmpi_engine_is_up())
		stmpi_engine_fini();
	mpix_progress_fini();
	PMPI_Comm_free(&mpix_private_comm);
	PMPI_Comm_free_keyval(&mpix_comm_keyval);
	PMPI_Type_free_keyval(&mpix_type_keyval);
	return MPI_SUCCESS;
}

static int start(void)
{
	int rc;

	rc = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, mpix_comm_deleted, &mpix_comm_keyval,
				     NULL);
	if (rc != MPI_SUCCESS)
		return rc;
	rc = PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN,
				     &mpix_type_keyval, NULL);
	if (rc != MPI_SUCCESS)
		return rc;
	/* Not a dup: that would run the copy callbacks of the program's attributes. */
	rc = PMPI_Comm_split(MPI_COMM_SELF, 0, 0, &mpix_private_comm);
	if (rc != MPI_SUCCESS)
		return rc;
	rc = PMPI_Comm_set_errhandler(mpix_private_comm, MPI_ERRORS_RETURN);
	if (rc != MPI_SUCCESS)
		return rc;
	rc = mpix_progress_init();
	if (rc != MPI_SUCCESS)
		return rc;
	rc = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, self_deleted, &self_keyval, NULL);
	if (rc != MPI_SUCCESS)
		return rc;
	return PMPI_Comm_set_attr(MPI_COMM_SELF, self_keyval, NULL);
}

int mpix_start(const char *func)
{
	int rc = MPI_SUCCESS;
	int has_ended;

	if (!mpix_mpi_is_up())
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_OTHER,
				 "%s: called before MPI_Init or after MPI_Finalize", func);
	pthread_mutex_lock(&mutex);
	if (state == STATE_NEW) {
		rc = start();
		if (rc == MPI_SUCCESS)
			state = STATE_UP;
	}
	has_ended = state == STATE_ENDED;
	pthread_mutex_unlock(&mutex);
	if (has_ended)
		return mpix_fail(MPI_COMM_NULL, MPI_ERR_OTHER,
				 "%s: called after the streams ended in MPI_Finalize", func);
	return rc;
}

int mpix_engine_start(void)
{
	static const struct stmpi_engine_attr attr = {
		.format_status = mpix_status_format,
		.status_bytes = sizeof(MPI_Status),
	};

	return stmpi_engine_init(&attr);
}
