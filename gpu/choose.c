/* SPDX-License-Identifier: BSD-3-Clause
 * See choose.h. */
#include "gpu/choose.h"
#include "gpu/failure.h"
#include "base/local_rank.h"
#include <stdio.h>
#include <stdlib.h>

int choose_count(int *n)
{
	cudaError_t error = cudaGetDeviceCount(n);

	if (error == cudaErrorInsufficientDriver) {
		cudaGetLastError();
		return cuda_refuse("this node has no CUDA driver (libcuda.so.1), or its driver is "
				   "older than CUDA %d.%d",
				   CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
	}
	if (error == cudaErrorNoDevice || (error == cudaSuccess && !*n)) {
		cudaGetLastError();
		return cuda_refuse("there is a CUDA driver, but it finds no GPU");
	}
	return cuda_check(error, "looking for GPUs");
}

int choose_gpu(int *device, char *why, size_t cap)
{
	struct cudaDeviceProp properties;
	char bus_id[BUS_ID_BYTES], by[64];
	const struct local_rank local = local_rank_find();
	int n, chosen;

	if (choose_count(&n))
		return -1;
	chosen = local.rank % n;
	if (cuda_check(cudaGetDeviceProperties(&properties, chosen), "looking for GPUs") ||
	    cuda_check(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), chosen),
		       "asking for a GPU's place on the bus"))
		return -1;
	if (n == 1)
		snprintf(by, sizeof(by), "the only one visible");
	else if (!local.variable)
		snprintf(by, sizeof(by), "the first one, because no launcher set a local rank");
	else
		snprintf(by, sizeof(by), "by %s=%d", local.variable, local.rank);
	snprintf(why, cap, "GPU %d of %d (%.64s, %s), %s", chosen, n, properties.name, bus_id, by);
	*device = chosen;
	return 0;
}

int choose_and_use(char *why, size_t cap)
{
	int device;

	return choose_gpu(&device, why, cap) ||
			       cuda_check(cudaSetDevice(device), "choosing the GPU") ?
		       -1 :
		       0;
}

int choose_bus_id(char *text, size_t cap)
{
	char why[256];
	int device;

	if (cuda_check(cudaGetDevice(&device), "asking for the device") ||
	    (device == 0 && choose_gpu(&device, why, sizeof(why))))
		return -1;
	return cuda_check(cudaDeviceGetPCIBusId(text, (int)cap, device),
			  "asking for a GPU's place on the bus");
}
