/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dies.c: rank 1 is killed while sends to it, small and large, wait behind slow work, and receives
 * from it are posted. All end, those that need it with an error, long before the watchdog; a call
 * that comes later is told, too. Run by dies.sh.
 */
#include <signal.h>
#include <unistd.h>

#include "kit.h"

#define LARGE (1 << 20)

enum {
	SMALL_SENDS = 5,
	LARGE_SENDS = 2,
	DYING_SENDS = 60,
	ALL = SMALL_SENDS + LARGE_SENDS + 1
};

static void expect_peer_error(int rc)
{
	int class;

	KIT(MPI_Error_class(rc, &class) == MPI_SUCCESS);
	if (class != MPIX_ERR_PROC_FAILED)
		fprintf(stderr, "class %d\n", class);
	KIT(class == MPIX_ERR_PROC_FAILED);
}

/*
 * Set before the library's own attribute and so deleted after it, at the start of MPI_Finalize:
 * what comes then is MPICH's own end, which may wait for the dead rank for ever.
 */
static int ours_has_ended(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm;
	(void)keyval;
	(void)value;
	(void)extra;
	puts("ok dies");
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	unsigned char *large = calloc(1, LARGE), small[8] = {0}, in[8];
	MPI_Request reqs[ALL], plain;
	MPI_Status statuses[ALL], dying[DYING_SENDS], status;
	struct kit k;
	int n = 0, keyval, rc;

	kit_init(&argc, &argv);
	KIT(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, ours_has_ended, &keyval, NULL) ==
	    MPI_SUCCESS);
	KIT(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL) == MPI_SUCCESS);
	kit_open(&k, MPI_COMM_WORLD);
	if (kit_rank == 1) {
		KIT(MPI_Recv(in, 8, MPI_BYTE, 0, 0, k.comm, &status) == MPI_SUCCESS);
		kit_sleep(300);
		raise(SIGKILL);
	}
	KIT(MPI_Send(small, 8, MPI_BYTE, 1, 0, k.comm) == MPI_SUCCESS);
	KIT(MPI_Irecv(in, 8, MPI_BYTE, 1, 7, k.comm, &plain) == MPI_SUCCESS);
	for (int i = 0; i < DYING_SENDS; i++) { /* before the death, at it, and after it */
		rc = MPIX_Isend_enqueue(large, i % 2 == 0 ? 8 : LARGE, MPI_BYTE, 1, 6, k.comm,
					&reqs[0]);
		if (rc != MPI_SUCCESS)
			break; /* known at the call */
		KIT(MPIX_Wait_enqueue(&reqs[0], &dying[i]) == MPI_SUCCESS);
		kit_sleep(10);
	}
	kit_work(&k, 700);
	for (int i = 0; i < SMALL_SENDS; i++)
		KIT(MPIX_Isend_enqueue(small, 8, MPI_BYTE, 1, i, k.comm, &reqs[n++]) ==
		    MPI_SUCCESS);
	for (int i = 0; i < LARGE_SENDS; i++)
		KIT(MPIX_Isend_enqueue(large, LARGE, MPI_BYTE, 1, i, k.comm, &reqs[n++]) ==
		    MPI_SUCCESS);
	KIT(MPIX_Irecv_enqueue(large, LARGE, MPI_BYTE, 1, 9, k.comm, &reqs[n++]) == MPI_SUCCESS);
	KIT(MPIX_Waitall_enqueue(n, reqs, statuses) == MPI_SUCCESS);
	(void)any_stream_synchronize(k.host);
	/* A small message may have left before the death was known. */
	for (int i = SMALL_SENDS; i < n; i++)
		expect_peer_error(statuses[i].MPI_ERROR);
	expect_peer_error(MPI_Wait(&plain, &status));
	rc = MPI_Send(small, 8, MPI_BYTE, 1, 3, k.comm);
	expect_peer_error(rc);
	free(large);
	MPI_Finalize();
	return 0;
}
