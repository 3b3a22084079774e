/* SPDX-License-Identifier: BSD-3-Clause
 * The last slices of time of this process: a ring that threads write without a lock and without
 * memory of the allocator. Times are those of CLOCK_MONOTONIC in nanoseconds. trace_text.h prints
 * the ring. */
#ifndef RUNTIME_TRACE_H
#define RUNTIME_TRACE_H
#include <stddef.h>
#include <stdint.h>

enum { TRACE_SLICES = 1 << 16 };

enum trace_kind {
	TRACE_COMPRESS,
	TRACE_PUSH,
	TRACE_WAIT,
	TRACE_PULL,
	TRACE_APPLY,
	TRACE_DEVICE,  /* a wait for a GPU */
	TRACE_SUM,     /* a shard takes messages of workers */
	TRACE_PUBLISH, /* a shard takes the last messages of a step and publishes its change */
	TRACE_READ,    /* READs of publications are under way */
	TRACE_STEP,
	TRACE_KINDS
};

struct trace_slice {
	enum trace_kind kind;
	unsigned thread; /* 1: the first thread of the process that called trace_open() */
	uint32_t model;
	uint64_t step; /* of TRACE_STEP: its number */
	uint64_t begin_ns, end_ns;
};

/* Returns "compress", "push" and so on. */
const char *trace_kind_name(enum trace_kind kind);

struct trace;
/* Returns NULL if there is no memory. */
struct trace *trace_open(void);
void trace_close(struct trace **trace);
/* Any thread may call this. slice->thread is ignored: it is the calling thread. */
void trace_add(struct trace *trace, const struct trace_slice *slice);
/* Copies the slices, the oldest first, and sets *dropped to the number of older ones, which are
 * lost. out has TRACE_SLICES elements. Returns their number. Slices that are being written are left
 * out, and so is one whose thread was stopped while others filled the ring. */
size_t trace_copy(const struct trace *trace, struct trace_slice *out, uint64_t *dropped);
#endif
