/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watchdog.c: run with a watchdog of 2 s. A send that it ended is never received, not even with
 * other data, and its error names what was asked for; a probe for a message that never comes ends,
 * too.
 */
#include "kit.h"

static void expect_error(int rc, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int n;

	KIT(rc != MPI_SUCCESS);
	MPI_Error_string(rc, text, &n);
	if (strstr(text, what) == NULL)
		fprintf(stderr, "\"%s\" is not in: %s\n", what, text);
	KIT(strstr(text, what) != NULL);
}

int main(int argc, char **argv)
{
	static unsigned char b[400000];
	MPI_Status status;
	struct kit k;
	int flag;

	kit_init(&argc, &argv);
	kit_open(&k, MPI_COMM_WORLD);
	if (kit_rank == 1) {
		kit_fill(b, sizeof(b), 1);
		expect_error(MPI_Send(b, (int)sizeof(b), MPI_BYTE, 0, 5, k.comm), "watchdog");
		memset(b, 99, sizeof(b)); /* ours again */
		KIT(MPI_Send(b, 1, MPI_BYTE, 0, 6, k.comm) == MPI_SUCCESS);
	} else {
		kit_sleep(5000);
		KIT(MPI_Recv(b, 1, MPI_BYTE, 1, 6, k.comm, &status) == MPI_SUCCESS);
		KIT(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, k.comm, &flag, &status) ==
			    MPI_SUCCESS &&
		    !flag);
		expect_error(MPI_Recv(b, (int)sizeof(b), MPI_BYTE, 1, 5, k.comm, &status),
			     "rank 1 with tag 5");
		expect_error(MPI_Probe(1, 5, k.comm, &status), "source");
	}
	kit_close(&k);
	return kit_end();
}
