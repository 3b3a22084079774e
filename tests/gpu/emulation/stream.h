/* SPDX-License-Identifier: BSD-3-Clause
 * Streams, and what is enqueued there; what CUDA forbids while a stream is captured into a graph.
 * stream.c; called by runtime.c and lag.c. */
#ifndef EMULATED_STREAM_H
#define EMULATED_STREAM_H
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
cudaError_t stream_unsafe(void);
/* Called by operations on a stream, and by waits of the host for it. */
cudaError_t stream_enqueues(cudaStream_t stream);
/* Whether the stream belongs to the thread's current device, as a kernel's must. */
int stream_is_here(cudaStream_t stream);
/* The arguments of a kernel, which are the caller's; to free(). */
void *stream_copy_of_arguments(const struct node *node);
/* runtime.c: now. */
void emulated_do(const struct node *node);
#endif
