/* SPDX-License-Identifier: BSD-3-Clause
 * See device.h. */
#include "gpu/device.h"
#include "gpu/failure.h"

int device_enter(int device, int *before)
{
	if (cuda_check(cudaGetDevice(before), "asking for the device"))
		return -1;
	return *before == device ? 0 : cuda_check(cudaSetDevice(device), "choosing the device");
}

int device_leave(int device, int before, int rc)
{
	if (before != device && cuda_check(cudaSetDevice(before), "choosing the device again"))
		return -1;
	return rc;
}
