/* SPDX-License-Identifier: BSD-3-Clause
 * Streams that are captured into graphs, as CUDA treats them: what is forbidden meanwhile, and what
 * is recorded instead of done. graph.c; called by runtime.c. */
#ifndef EMULATED_GRAPH_H
#define EMULATED_GRAPH_H
#include "runtime.h"

enum node_kind { NODE_COPY, NODE_SET, NODE_KERNEL, NODE_TOGETHER };

struct node {
	enum node_kind kind;
	void *to;
	const void *from, *kernel; /* from: of a kernel, its arguments */
	size_t bytes;
	int byte;
	dim3 grid, threads;
};

/* Called by allocations and the like, which invalidate captures that forbid them. */
cudaError_t graph_unsafe(void);
/* Called by operations on a stream, and by waits of the host for it. */
cudaError_t graph_enqueues(cudaStream_t stream);
cudaError_t graph_waits(cudaStream_t stream);
/* Whether the stream belongs to the thread's current device, as a kernel's must. */
int graph_is_here(cudaStream_t stream);
/* Whether the stream is captured; then node goes into its graph. */
int graph_records(cudaStream_t stream);
cudaError_t graph_record(cudaStream_t stream, struct node node);
/* The arguments of a kernel, which are the caller's; to free(). */
void *graph_copy_of_arguments(const struct node *node);
/* runtime.c: now. */
void emulated_do(const struct node *node);
#endif
