/* SPDX-License-Identifier: BSD-3-Clause
 * See context.h. */
#include "gpu/context.h"
#include "gpu/failure.h"

int cuda_ready(void *stream)
{
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	const cudaError_t error = cudaStreamIsCapturing(stream, &status);

	if (error == cudaErrorStreamCaptureImplicit) {
		cudaGetLastError();
		return cuda_refuse(
			"the default stream cannot be used while another one is captured into a "
			"graph: call outside of the capture, or give the model a stream");
	}
	if (cuda_check(error, "asking whether a stream is captured"))
		return -1;
	if (status == cudaStreamCaptureStatusNone)
		return 0;
	return cuda_refuse("the stream is being captured into a graph, which would not repeat the "
			   "host's part of this call: call outside of the capture");
}

void capture_allow(enum cudaStreamCaptureMode *before)
{
	*before = cudaStreamCaptureModeRelaxed;
	if (cudaThreadExchangeStreamCaptureMode(before) == cudaSuccess)
		return;
	cudaGetLastError(); /* the failed allocation reports this error itself */
	*before = cudaStreamCaptureModeGlobal;
}

void capture_restore(enum cudaStreamCaptureMode before)
{
	if (cudaThreadExchangeStreamCaptureMode(&before) != cudaSuccess)
		cudaGetLastError();
}

int capture_stream_open(cudaStream_t *out)
{
	return cuda_check(cudaStreamCreateWithFlags(out, cudaStreamNonBlocking), "making a stream");
}

int capture_stream_close(cudaStream_t stream, int rc, const char *what)
{
	if (!rc)
		rc = cuda_check(cudaStreamSynchronize(stream), what);
	if (cudaStreamDestroy(stream) != cudaSuccess)
		cudaGetLastError();
	return rc;
}

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
