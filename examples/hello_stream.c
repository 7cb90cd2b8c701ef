/* SPDX-License-Identifier: BSD-3-Clause */
/* hello_stream.c: rank 0 computes a number on its stream and sends it; rank 1 goes on with it. */
#include <mpi.h>
#include <mpix.h>
#include <stdio.h>
#include <stmpi_host.h>

static void compute(void *arg)
{
	*(int *)arg += 21;
}

int main(int argc, char **argv)
{
	int rank, x = 0, rc = 0;
	stmpi_host_stream_t host;
	MPIX_Stream stream;
	MPI_Info info;
	MPI_Comm comm;

	MPI_Init(&argc, &argv); /* an error of an MPI call ends the program: MPI's default */
	rc |= stmpi_host_stream_create(&host);
	MPI_Info_create(&info);
	MPI_Info_set(info, "type", "stmpi_host_stream_t");
	MPIX_Info_set_hex(info, "value", &host, sizeof(host));
	MPIX_Stream_create(info, &stream);
	MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm);
	MPI_Comm_rank(comm, &rank);
	if (rank == 1) /* from here on each call only puts work on the stream */
		MPIX_Recv_enqueue(&x, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE);
	rc |= stmpi_host_stream_launch(host, compute, &x);
	if (rank == 0)
		MPIX_Send_enqueue(&x, 1, MPI_INT, 1, 0, comm);
	rc |= stmpi_host_stream_synchronize(host); /* the only wait */
	printf("rank %d: x = %d\n", rank, x);
	MPI_Comm_free(&comm);
	MPIX_Stream_free(&stream);
	rc |= stmpi_host_stream_destroy(host);
	return MPI_Finalize() != 0 || rc != 0;
}
