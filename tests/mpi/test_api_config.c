/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks: 2 */
/*
 * test_api_config.c: settings that cannot work are MPI errors on every rank, with a text that names
 * parameter and value; nobody hangs. The argument chooses the case; settings are made before the
 * library's first use.
 */
#include <mpi.h>
#include <mpix.h>
#include <stdio.h>
#include <stdlib.h>
#include <stmpi_host.h>
#include <string.h>

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: rank %d: failed: %s\n", __FILE__, __LINE__, rank,  \
				#x);                                                               \
			MPI_Abort(MPI_COMM_WORLD, 1);                                              \
		}                                                                                  \
	} while (0)

static int rank;

struct config_case {
	const char *name;
	const char *env, *values[2]; /* of rank 0 and 1; NULL: not set */
	const char *words[3];	     /* all in the text on every rank that fails */
};

static const struct config_case cases[] = {
	{"differ", "STMPI_EAGER_CREDITS", {"512", "256"}, {"STMPI_EAGER_CREDITS", "512", "256"}},
	{"differ_unset",
	 "STMPI_EAGER_CREDITS",
	 {NULL, "256"},
	 {"STMPI_EAGER_CREDITS", "256", "rank 1"}},
	{"bad_value", "STMPI_EAGER_CREDITS", {"many", "many"}, {"STMPI_EAGER_CREDITS", "many", ""}},
	{"bad_value_one", "STMPI_PROGRESS", {NULL, "warp"}, {"STMPI_PROGRESS", "warp", ""}},
	{"provider", "STMPI_OFI_PROVIDER", {"nosuch", "nosuch"}, {"nosuch", "provider", ""}},
};

static void has_words(int code, const struct config_case *c)
{
	char text[MPI_MAX_ERROR_STRING + 1] = "";
	int length, class;

	MPI_Error_class(code, &class);
	MPI_Error_string(code, text, &length);
	for (int i = 0; i < 3; i++)
		if (class != MPI_ERR_OTHER || strstr(text, c->words[i]) == NULL) {
			fprintf(stderr, "rank %d: %s: class %d, text \"%s\", expected \"%s\"\n",
				rank, c->name, class, text, c->words[i]);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "differ";
	const struct config_case *c = NULL;
	MPI_Comm comm = MPI_COMM_NULL;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(cases[i].name, name) == 0)
			c = &cases[i];
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	CHECK(c != NULL);
	if (c->values[rank] != NULL)
		setenv(c->env, c->values[rank], 1);
	else
		unsetenv(c->env);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	/* Twice: the first failure has not left anything half made. */
	for (int i = 0; i < 2; i++) {
		has_words(MPIX_Stream_comm_create(MPI_COMM_WORLD, MPIX_STREAM_NULL, &comm), c);
		CHECK(comm == MPI_COMM_NULL);
	}
	/* MPI goes on. */
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	if (rank == 0)
		printf("ok\n");
	return 0;
}
