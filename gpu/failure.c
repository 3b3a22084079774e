/* SPDX-License-Identifier: BSD-3-Clause
 * See failure.h. */
#include "gpu/failure.h"
#include <stdarg.h>
#include <stdio.h>

static _Thread_local char text[512];

int cuda_refuse(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return -1;
}

int cuda_check(cudaError_t error, const char *what)
{
	int device = -1;

	if (error == cudaSuccess)
		return 0;
	if (cudaGetDevice(&device) != cudaSuccess)
		device = -1;
	cudaGetLastError(); /* clears the error, so that the next call does not return it */
	if (device < 0)
		return cuda_refuse("%s failed: %s (%s)", what, cudaGetErrorName(error),
				   cudaGetErrorString(error));
	return cuda_refuse("%s failed on GPU %d: %s (%s)", what, device, cudaGetErrorName(error),
			   cudaGetErrorString(error));
}

const char *cuda_failure(void)
{
	return text;
}
