/* SPDX-License-Identifier: BSD-3-Clause */
/* plain.c: a program as others write it, against the runtime API: nothing in it knows of the
 * simulator. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                \
	do {                                                                                       \
		cudaError_t e = (call);                                                            \
		if (e != cudaSuccess) {                                                            \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e));                 \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

int main(void)
{
	int count, in[256], out[256] = {0}, *device;
	cudaStream_t stream;

	CHECK(cudaGetDeviceCount(&count));
	CHECK(cudaSetDevice(count - 1));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc((void **)&device, sizeof(in)));
	for (int i = 0; i < 256; i++)
		in[i] = rand();
	CHECK(cudaMemcpyAsync(device, in, sizeof(in), cudaMemcpyHostToDevice, stream));
	CHECK(cudaMemcpyAsync(out, device, sizeof(out), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	for (int i = 0; i < 256; i++)
		if (in[i] != out[i])
			return 1;
	CHECK(cudaFree(device));
	CHECK(cudaStreamDestroy(stream));
	printf("right\n");
	return 0;
}
