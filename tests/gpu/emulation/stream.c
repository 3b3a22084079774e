/* SPDX-License-Identifier: BSD-3-Clause
 * See stream.h. One stream is captured at a time, by one thread. */
#include "stream.h"
#include <stdlib.h>

enum { KERNELS_MOST = 32 };

struct emulated_graph {
	int nothing;
};

struct emulated_stream {
	int blocking, device;
};

static struct {
	cudaStream_t stream; /* the stream that is captured, or NULL */
	enum cudaStreamCaptureMode mode;
	int spoilt;
} capture;
static _Thread_local enum cudaStreamCaptureMode thread_mode;
static _Thread_local int captures_here;
static struct {
	const void *kernel;
	size_t bytes;
	const char *name;
	int loaded;
} known[KERNELS_MOST];

/* ---- kernels' arguments ---------------------------------------------------- */

void emulated_kernel(const void *kernel, size_t bytes, const char *name)
{
	unsigned i = 0;

	while (i < KERNELS_MOST && known[i].kernel)
		i++;
	if (i == KERNELS_MOST)
		abort();
	known[i].kernel = kernel;
	known[i].bytes = bytes;
	known[i].name = name;
}

static unsigned number_of(const void *kernel)
{
	unsigned i = 0;

	while (i < KERNELS_MOST && known[i].kernel != kernel)
		i++;
	if (i == KERNELS_MOST)
		abort();
	return i;
}

const char *emulated_name(const void *kernel, size_t *bytes)
{
	const unsigned i = number_of(kernel);

	*bytes = known[i].bytes;
	return known[i].name;
}

int emulated_load(const void *kernel)
{
	return __atomic_exchange_n(&known[number_of(kernel)].loaded, 1, __ATOMIC_SEQ_CST);
}

void *stream_copy_of_arguments(const struct node *node)
{
	const unsigned i = number_of(node->kernel);
	void *copy = malloc(known[i].bytes);

	if (!copy)
		abort();
	return memcpy(copy, node->from, known[i].bytes);
}

/* ---- rules ----------------------------------------------------------------- */

static cudaError_t spoil(cudaError_t error)
{
	capture.spoilt = 1;
	return error;
}

cudaError_t stream_unsafe(void)
{
	const int of_this = captures_here && capture.mode != cudaStreamCaptureModeRelaxed;
	const int of_others = capture.mode == cudaStreamCaptureModeGlobal &&
			      thread_mode == cudaStreamCaptureModeGlobal;

	if (!capture.stream || thread_mode == cudaStreamCaptureModeRelaxed ||
	    !(of_this || of_others))
		return cudaSuccess;
	return spoil(cudaErrorStreamCaptureUnsupported);
}

/* Returns 1 for the default stream, which would wait for the captured stream. */
static int is_implicit(cudaStream_t stream)
{
	return !stream && capture.stream && capture.stream->blocking;
}

static int is_captured(cudaStream_t stream)
{
	return stream && stream == capture.stream;
}

/* CUDA would record the work. Here it is an error, because the library must not enqueue work
 * there. */
cudaError_t stream_enqueues(cudaStream_t stream)
{
	if (is_implicit(stream))
		return spoil(cudaErrorStreamCaptureImplicit);
	return is_captured(stream) ? spoil(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

int stream_is_here(cudaStream_t stream)
{
	return !stream || stream->device == emulated_current();
}

/* ---- streams --------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
	const cudaError_t error = emulated_answer(cudaSuccess);

	emulated_context();
	if (error)
		return error;
	*out = malloc(sizeof **out);
	if (!*out)
		return emulated_answer(cudaErrorMemoryAllocation);
	(*out)->blocking = !(flags & cudaStreamNonBlocking);
	(*out)->device = emulated_current();
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	free(stream);
	return emulated_answer(cudaSuccess);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	if (!stream || capture.stream)
		return emulated_answer(cudaErrorStreamCaptureUnsupported);
	capture.stream = stream;
	capture.mode = mode;
	capture.spoilt = 0;
	captures_here = 1;
	return emulated_answer(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
	if (!is_captured(stream))
		return emulated_answer(cudaErrorInvalidValue);
	capture.stream = NULL;
	captures_here = 0;
	*out = capture.spoilt ? NULL : malloc(sizeof **out);
	return emulated_answer(!capture.spoilt ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	if (!stream)
		emulated_context();
	*status = !is_captured(stream) ? cudaStreamCaptureStatusNone :
		  capture.spoilt       ? cudaStreamCaptureStatusInvalidated :
					 cudaStreamCaptureStatusActive;
	return emulated_answer(is_implicit(stream) ? cudaErrorStreamCaptureImplicit : cudaSuccess);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	const enum cudaStreamCaptureMode before = thread_mode;
	const cudaError_t error = emulated_answer(cudaSuccess);

	if (error)
		return error;
	thread_mode = *mode;
	*mode = before;
	return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	free(graph);
	return emulated_answer(cudaSuccess);
}
