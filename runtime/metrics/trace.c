/* SPDX-License-Identifier: BSD-3-Clause
 * See trace.h. */
#include "metrics/trace.h"
#include <stdatomic.h>
#include <stdlib.h>

/* An entry is valid for slice number i if its sequence number is i + 1 before and after it is
 * copied. While a thread writes an entry, the number is BUSY. */
#define BUSY UINT64_MAX
struct entry {
	atomic_uint_least64_t sequence;
	atomic_uint_least64_t begin_ns, end_ns;
	atomic_uint_least64_t what; /* kind: 8 bits, thread: 8, model: 16, step: 32 */
};

struct trace {
	atomic_uint_least64_t next;
	struct entry entries[TRACE_SLICES];
};

static unsigned this_thread(void)
{
	static atomic_uint threads;
	static _Thread_local unsigned number;

	if (!number)
		number = atomic_fetch_add(&threads, 1) + 1;
	return number;
}

const char *trace_kind_name(enum trace_kind kind)
{
	static const char *const names[TRACE_KINDS] = { "compress", "push",   "wait", "pull",
							"apply",    "device", "sum",  "publish",
							"read",     "step" };

	return names[kind];
}

struct trace *trace_open(void)
{
	this_thread();
	return calloc(1, sizeof(struct trace));
}

void trace_close(struct trace **trace)
{
	free(*trace);
	*trace = NULL;
}

void trace_add(struct trace *trace, const struct trace_slice *slice)
{
	const uint64_t i = atomic_fetch_add_explicit(&trace->next, 1, memory_order_relaxed);
	struct entry *e = &trace->entries[i % TRACE_SLICES];
	const uint64_t what = (uint64_t)slice->kind | (uint64_t)(this_thread() & 0xff) << 8 |
			      (uint64_t)(slice->model & 0xffff) << 16 | slice->step << 32;

	uint64_t before = atomic_load_explicit(&e->sequence, memory_order_relaxed);

	/* A thread that was interrupted while others filled the ring does not write: its slice is
	 * older than the one that is there. */
	if (before > i ||
	    !atomic_compare_exchange_strong_explicit(&e->sequence, &before, BUSY,
						     memory_order_relaxed, memory_order_relaxed))
		return;
	atomic_store_explicit(&e->begin_ns, slice->begin_ns, memory_order_release);
	atomic_store_explicit(&e->end_ns, slice->end_ns, memory_order_release);
	atomic_store_explicit(&e->what, what, memory_order_release);
	atomic_store_explicit(&e->sequence, i + 1, memory_order_release);
}

/* Returns 1 if the entry holds slice number i. */
static int copy_entry(const struct entry *e, uint64_t i, struct trace_slice *out)
{
	if (atomic_load_explicit(&e->sequence, memory_order_acquire) != i + 1)
		return 0;
	out->begin_ns = atomic_load_explicit(&e->begin_ns, memory_order_acquire);
	out->end_ns = atomic_load_explicit(&e->end_ns, memory_order_acquire);

	const uint64_t what = atomic_load_explicit(&e->what, memory_order_acquire);

	out->kind = (enum trace_kind)(what & 0xff);
	out->thread = what >> 8 & 0xff;
	out->model = what >> 16 & 0xffff;
	out->step = what >> 32;
	return atomic_load_explicit(&e->sequence, memory_order_relaxed) == i + 1;
}

size_t trace_copy(const struct trace *trace, struct trace_slice *out, uint64_t *dropped)
{
	const uint64_t end = atomic_load_explicit(&trace->next, memory_order_acquire);
	size_t n = 0;

	*dropped = end > TRACE_SLICES ? end - TRACE_SLICES : 0;
	for (uint64_t i = *dropped; i < end; i++)
		n += (size_t)copy_entry(&trace->entries[i % TRACE_SLICES], i, &out[n]);
	return n;
}
