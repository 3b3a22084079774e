/* SPDX-License-Identifier: BSD-3-Clause
 * Streams and their enqueued work, and the calls that CUDA forbids while a stream is captured into
 * a graph. Called by runtime.c and lag.c. */
#ifndef EMULATED_STREAM_H
#define EMULATED_STREAM_H
#include "runtime.h"

enum node_kind { NODE_COPY, NODE_SET, NODE_KERNEL, NODE_TOGETHER };

struct node {
	enum node_kind kind;
	void *to;
	const void *from, *kernel; /* from: for a kernel, its arguments */
	size_t bytes;
	int byte;
	dim3 grid, threads;
};

/* Called by allocations and similar calls, which invalidate captures that forbid them. */
cudaError_t stream_unsafe(void);
/* Called by operations on a stream, and by waits of the host for it. */
cudaError_t stream_enqueues(cudaStream_t stream);
/* Returns 1 if the stream belongs to the thread's current device, as a kernel's stream must. */
int stream_is_here(cudaStream_t stream);
/* Returns a copy of a kernel's arguments, which belong to the caller. The copy is freed with
 * free(). */
void *stream_copy_of_arguments(const struct node *node);
/* runtime.c: now. */
void emulated_do(const struct node *node);
#endif
