/* SPDX-License-Identifier: BSD-3-Clause
 * See choose.h. */
#include "gpu/choose.h"
#include "gpu/failure.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

int choose_count(int *n)
{
	cudaError_t error = cudaGetDeviceCount(n);

	if (error == cudaErrorInsufficientDriver) {
		cudaGetLastError();
		return cuda_refuse(
			"this node has no CUDA driver (libcuda.so.1), or one older than CUDA %d.%d",
			CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
	}
	if (error == cudaErrorNoDevice || (error == cudaSuccess && !*n)) {
		cudaGetLastError();
		return cuda_refuse("there is a CUDA driver, but it finds no GPU");
	}
	return cuda_check(error, "looking for GPUs");
}

/* Returns the number of this process on its node, or -1 if Slurm does not set it. */
static long local_rank(void)
{
	const char *text = getenv("SLURM_LOCALID");
	char *end;
	long rank;

	if (!text || !isdigit((unsigned char)*text))
		return -1;
	rank = strtol(text, &end, 10);
	return *end ? -1 : rank;
}

int choose_gpu(int *device, char *why, size_t cap)
{
	struct cudaDeviceProp properties;
	char bus_id[BUS_ID_BYTES], by[64];
	long rank = local_rank();
	int n, chosen;

	if (choose_count(&n))
		return -1;
	chosen = rank < 0 ? 0 : (int)(rank % n);
	if (cuda_check(cudaGetDeviceProperties(&properties, chosen), "looking for GPUs") ||
	    cuda_check(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), chosen),
		       "asking for a GPU's place on the bus"))
		return -1;
	if (n == 1)
		snprintf(by, sizeof(by), "the only one visible");
	else if (rank < 0)
		snprintf(by, sizeof(by), "the first, as there is no SLURM_LOCALID");
	else
		snprintf(by, sizeof(by), "by SLURM_LOCALID=%ld", rank);
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
