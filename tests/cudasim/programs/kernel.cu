/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel.cu: a program for nvcc: kernels of C++ and of C, a variable of the device, launches on streams. */
#include <cstdio>
#include <vector>

__device__ int total;

namespace solver
{
__global__ void saxpy(int n, float a, const float *x, float *y)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] += a * x[i];
}
}

extern "C" __global__ void count(int n, int *to)
{
	atomicAdd(to, n);
}

int main()
{
	const int n = 1000;
	std::vector<float> x(n, 2), y(n, 1);
	float *dx, *dy;
	int *address, seven = 7, result = 0;
	cudaStream_t s;

	cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
	cudaMalloc(&dx, n * sizeof(float));
	cudaMalloc(&dy, n * sizeof(float));
	cudaMemcpyAsync(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice, s);
	cudaMemcpyAsync(dy, y.data(), n * sizeof(float), cudaMemcpyHostToDevice, s);
	solver::saxpy<<<(n + 255) / 256, 256, 0, s>>>(n, 3, dx, dy);
	cudaMemcpyAsync(y.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost, s);
	cudaMemcpyToSymbol(total, &seven, sizeof(seven));
	cudaGetSymbolAddress((void **)&address, total);
	count<<<1, 1>>>(35, address);
	cudaMemcpyFromSymbol(&result, total, sizeof(result));
	cudaStreamSynchronize(s);
	cudaError_t e = cudaGetLastError();
	if (e != cudaSuccess || y[n - 1] != 7 || result != 42) {
		std::printf("wrong: %s, %g, %d\n", cudaGetErrorString(e), y[n - 1], result);
		return 1;
	}
	std::printf("right\n");
	return 0;
}
