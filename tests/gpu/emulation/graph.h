/* SPDX-License-Identifier: BSD-3-Clause
 * Streams that are captured into graphs, as CUDA treats them: what is forbidden meanwhile, and what is recorded
 * instead of done. graph.c; called by emulation.c. */
#ifndef EMULATED_GRAPH_H
#define EMULATED_GRAPH_H
#include "cuda_runtime.h"

enum node_kind { NODE_COPY, NODE_SET, NODE_KERNEL, NODE_TOGETHER };

struct node {
	enum node_kind kind;
	void *to;
	const void *from, *kernel; /* from: of a kernel, its arguments */
	size_t bytes;
	int byte;
	dim3 grid, threads;
};

/* Of an allocation or the like, which spoils what it is forbidden beside. */
cudaError_t graph_unsafe(void);
/* Of an operation on the stream, and of the host's waiting for it. */
cudaError_t graph_enqueues(cudaStream_t stream);
cudaError_t graph_waits(cudaStream_t stream);
/* Whether the stream is captured; then node goes into its graph. */
int graph_records(cudaStream_t stream);
cudaError_t graph_record(cudaStream_t stream, struct node node);
/* emulation.c: every call's answer passes it, and may be made a failure. */
cudaError_t emulated_answer(cudaError_t error);
#endif
