/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error.c: MPI error codes with class and text.
 *
 * MPI_Add_error_code and MPI_Add_error_string give a code of our own on any class. A code lives for
 * ever, so each class has a few that take turns: the text of an error is valid until some later
 * errors of its class. MPICH 4.0 forgets two things that 4.1 does: the bit that marks an added
 * code, without which MPI_Error_string finds another text, and to mask it out in MPI_Error_class;
 * so the bit is set here and MPI_Error_class is ours.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mpix_int.h"
#include "stmpi.h"
#include "util/log.h"

#define CODES_PER_CLASS	 16
#define MPICH_ADDED_CODE 0x40000000

/* Codes of one class; made one by one, then reused in turn. */
struct code_ring {
	int codes[CODES_PER_CLASS];
	int made;
	int next;
};

/* Every class that is reported here. */
static const int classes[] = {
	MPI_ERR_BUFFER,	  MPI_ERR_COUNT,	MPI_ERR_TYPE,
	MPI_ERR_TAG,	  MPI_ERR_COMM,		MPI_ERR_RANK,
	MPI_ERR_ARG,	  MPI_ERR_TRUNCATE,	MPI_ERR_OTHER,
	MPI_ERR_REQUEST,  MPI_ERR_INFO,		MPI_ERR_NO_MEM,
	MPI_ERR_INFO_KEY, MPI_ERR_INFO_VALUE,	MPI_ERR_IN_STATUS,
	MPIX_ERR_STREAM,  MPIX_ERR_PROC_FAILED, MPI_ERR_UNSUPPORTED_OPERATION,
};

/* Guards rings. PMPI_Add_error_* are called under it: they are local and call nobody back. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct code_ring rings[stmpi_array_len(classes)];

int mpix_class(int error)
{
	switch (error < 0 ? -error : error) {
	case STMPI_SUCCESS:
		return MPI_SUCCESS;
	case STMPI_EINVAL:
		return MPI_ERR_ARG;
	case STMPI_ENOMEM:
		return MPI_ERR_NO_MEM;
	case STMPI_ENOTSUP:
		return MPI_ERR_UNSUPPORTED_OPERATION;
	case STMPI_ETRUNCATE:
		return MPI_ERR_TRUNCATE;
	case STMPI_EPEER:
		return MPIX_ERR_PROC_FAILED;
	default:
		return MPI_ERR_OTHER;
	}
}

/* Does MPI know this code and its text? */
static int has_text(int code, const char *text)
{
	char found[MPI_MAX_ERROR_STRING + 1];
	int length = 0;

	return PMPI_Error_string(code, found, &length) == MPI_SUCCESS && strcmp(found, text) == 0;
}

static int code_with_text(int class, const char *text)
{
	struct code_ring *ring = NULL;
	int code;

	for (size_t i = 0; i < stmpi_array_len(classes); i++)
		if (classes[i] == class)
			ring = &rings[i];
	if (ring == NULL)
		return class;
	if (ring->made < CODES_PER_CLASS) {
		if (PMPI_Add_error_code(class, &code) != MPI_SUCCESS)
			return class;
		ring->codes[ring->made++] = code | MPICH_ADDED_CODE;
		ring->next = ring->made - 1;
	}
	code = ring->codes[ring->next];
	ring->next = (ring->next + 1) % CODES_PER_CLASS;
	if (PMPI_Add_error_string(code, text) == MPI_SUCCESS && has_text(code, text))
		return code;
	/* An MPI that numbers its codes in another way: the class at least is right. */
	stmpi_log(STMPI_LOG_ERROR, "%s", text);
	return class;
}

static int stmpi_printf_like(2, 0) vcode(int class, const char *format, va_list args)
{
	char text[MPI_MAX_ERROR_STRING];
	int code;

	vsnprintf(text, sizeof(text), format, args);
	if (!mpix_mpi_is_up()) {
		stmpi_log(STMPI_LOG_ERROR, "%s", text);
		return class;
	}
	pthread_mutex_lock(&mutex);
	code = code_with_text(class, text);
	pthread_mutex_unlock(&mutex);
	return code;
}

int mpix_code(int class, const char *format, ...)
{
	va_list args;
	int code;

	va_start(args, format);
	code = vcode(class, format, args);
	va_end(args);
	return code;
}

int mpix_raise(MPI_Comm comm, int code)
{
	if (mpix_mpi_is_up())
		PMPI_Comm_call_errhandler(comm == MPI_COMM_NULL ? MPI_COMM_SELF : comm, code);
	return code;
}

int mpix_fail(MPI_Comm comm, int class, const char *format, ...)
{
	va_list args;
	int code;

	va_start(args, format);
	code = vcode(class, format, args);
	va_end(args);
	return mpix_raise(comm, code);
}

/* Ours for the codes made above only. */
int MPI_Error_class(int errorcode, int *errorclass)
{
	int found = 0;

	if (!(errorcode & MPICH_ADDED_CODE))
		return PMPI_Error_class(errorcode, errorclass);
	pthread_mutex_lock(&mutex);
	for (size_t i = 0; i < stmpi_array_len(classes) && !found; i++)
		for (int k = 0; k < rings[i].made && !found; k++)
			if (rings[i].codes[k] == errorcode) {
				*errorclass = classes[i];
				found = 1;
			}
	pthread_mutex_unlock(&mutex);
	return found ? MPI_SUCCESS : PMPI_Error_class(errorcode, errorclass);
}
