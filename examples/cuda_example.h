/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_example.h: what the CUDA examples share: the end on an error, and a communicator whose
 * messages go with a stream. */
#ifndef CUDA_EXAMPLE_H
#define CUDA_EXAMPLE_H

#include <cuda_runtime.h>
#include <mpi.h>
#include <mpix.h>
#include <stdio.h>

/* End all ranks when a CUDA call failed. MPI's calls end the program by themselves. */
#define MUST(call)                                                                                 \
	do {                                                                                       \
		cudaError_t error_ = (call);                                                       \
		if (error_ != cudaSuccess) {                                                       \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));            \
			MPI_Abort(MPI_COMM_WORLD, 1);                                              \
		}                                                                                  \
	} while (0)

/* From here on, enqueued messages of this communicator are work of this rank's stream. */
static MPI_Comm make_comm(cudaStream_t cuda)
{
	MPIX_Stream stream;
	MPI_Info info;
	MPI_Comm comm;

	MPI_Info_create(&info);
	MPI_Info_set(info, "type", "cudaStream_t");
	MPIX_Info_set_hex(info, "value", &cuda, sizeof(cuda));
	MPIX_Stream_create(info, &stream);
	MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm);
	/* The communicator keeps the stream. */
	MPIX_Stream_free(&stream);
	MPI_Info_free(&info);
	return comm;
}

#endif
