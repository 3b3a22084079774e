/* SPDX-License-Identifier: BSD-3-Clause
 * See graph.h. One stream is captured at a time, by one thread. */
#include "graph.h"
#include <stdlib.h>

enum { NODES_MOST = 64, KERNELS_MOST = 32 };

struct emulated_graph {
	struct node node[NODES_MOST];
	unsigned n, owners;
};

struct emulated_stream {
	int blocking, device;
};

static struct {
	cudaStream_t stream; /* the captured one; NULL: none is */
	enum cudaStreamCaptureMode mode;
	int spoilt;
	struct emulated_graph *graph;
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

void *graph_copy_of_arguments(const struct node *node)
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

cudaError_t graph_unsafe(void)
{
	const int of_this = captures_here && capture.mode != cudaStreamCaptureModeRelaxed;
	const int of_others = capture.mode == cudaStreamCaptureModeGlobal &&
			      thread_mode == cudaStreamCaptureModeGlobal;

	if (!capture.stream || thread_mode == cudaStreamCaptureModeRelaxed ||
	    !(of_this || of_others))
		return cudaSuccess;
	return spoil(cudaErrorStreamCaptureUnsupported);
}

/* The default stream would wait for the captured one. */
static int is_implicit(cudaStream_t stream)
{
	return !stream && capture.stream && capture.stream->blocking;
}

cudaError_t graph_enqueues(cudaStream_t stream)
{
	if (is_implicit(stream))
		return spoil(cudaErrorStreamCaptureImplicit);
	return stream && stream == capture.stream && capture.spoilt ?
		       cudaErrorStreamCaptureInvalidated :
		       cudaSuccess;
}

cudaError_t graph_waits(cudaStream_t stream)
{
	if (is_implicit(stream))
		return spoil(cudaErrorStreamCaptureImplicit);
	return stream && stream == capture.stream ? spoil(cudaErrorStreamCaptureUnsupported) :
						    cudaSuccess;
}

int graph_is_here(cudaStream_t stream)
{
	return !stream || stream->device == emulated_current();
}

int graph_records(cudaStream_t stream)
{
	return stream && stream == capture.stream;
}

cudaError_t graph_record(cudaStream_t stream, struct node node)
{
	(void)stream;
	if (capture.graph->n == NODES_MOST)
		abort();
	if (node.kernel)
		node.from = graph_copy_of_arguments(&node);
	capture.graph->node[capture.graph->n++] = node;
	return cudaSuccess;
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
	capture.graph = calloc(1, sizeof *capture.graph);
	if (!capture.graph)
		return emulated_answer(cudaErrorMemoryAllocation);
	capture.graph->owners = 1;
	capture.stream = stream;
	capture.mode = mode;
	capture.spoilt = 0;
	captures_here = 1;
	return emulated_answer(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
	if (!stream || stream != capture.stream)
		return emulated_answer(cudaErrorInvalidValue);
	capture.stream = NULL;
	captures_here = 0;
	*out = capture.graph;
	if (!capture.spoilt)
		return emulated_answer(cudaSuccess);
	*out = NULL;
	cudaGraphDestroy(capture.graph);
	return emulated_answer(cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	if (!stream)
		emulated_context();
	*status = !graph_records(stream) ? cudaStreamCaptureStatusNone :
		  capture.spoilt         ? cudaStreamCaptureStatusInvalidated :
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

/* ---- graphs ---------------------------------------------------------------- */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
	(void)flags;
	graph->owners++;
	*out = graph;
	return emulated_answer(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
	cudaError_t error = graph_records(stream) ? cudaErrorStreamCaptureUnsupported : cudaSuccess;

	for (unsigned i = 0; i < graph->n && !error; i++) {
		const struct node *n = &graph->node[i];
		void *args[] = { (void *)n->from };

		switch (n->kind) {
		case NODE_COPY:
			error = cudaMemcpyAsync(n->to, n->from, n->bytes, cudaMemcpyDefault,
						stream);
			break;
		case NODE_SET: error = cudaMemsetAsync(n->to, n->byte, n->bytes, stream); break;
		case NODE_KERNEL:
			error = cudaLaunchKernel(n->kernel, n->grid, n->threads, args, 0, stream);
			break;
		case NODE_TOGETHER:
			error = cudaLaunchCooperativeKernel(n->kernel, n->grid, n->threads, args, 0,
							    stream);
			break;
		}
	}
	return emulated_answer(error);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	if (--graph->owners)
		return emulated_answer(cudaSuccess);
	for (unsigned i = 0; i < graph->n; i++)
		if (graph->node[i].kernel)
			free((void *)graph->node[i].from);
	free(graph);
	return emulated_answer(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
	return cudaGraphDestroy(graph);
}
