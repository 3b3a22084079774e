/* SPDX-License-Identifier: BSD-3-Clause
 * The pushes of a recipe whose workers sketch: first each part's count sketch, made in its payload,
 * then, when the shards have said which coordinates they want, the values of these. What the vector
 * holds stays on the device; the host knows how long the payloads are. Places, checksums and the
 * way back are push.c's. */
#include "gpu/apply.h"
#include "gpu/failure.h"
#include "gpu/push.h"
#include "gpu/selector.h"
#include "gpu/sketch.h"
#include "gpu/topk.h"

enum { THREADS = 256, BLOCKS_EACH = 8, CELL_BYTES = 4 };

static uint64_t longest(const struct device_push *p, const struct device_part *parts)
{
	uint64_t most = 0;

	for (size_t i = 0; i < push_parts(p); i++)
		most = parts[i].bytes > most ? parts[i].bytes : most;
	return most / CELL_BYTES;
}

static int end(struct device_push *p, const struct device_select *call,
	       const struct device_part *parts, void *stream)
{
	return push_seal(p, longest(p, parts), stream) || push_report(p, call, stream) ? -1 : 0;
}

/* Part i's sketch, whose seed is i. */
static int sketch_part(struct device_sketch *sketch, const float *vector,
		       const struct device_part *part, size_t i, uint32_t rows, void *stream)
{
	const struct device_sketch_call call = { .x = vector + part->begin,
						 .cells = (float *)(void *)part->payload,
						 .n = part->span,
						 .rows = rows,
						 .columns = part->bytes / CELL_BYTES / rows,
						 .seed = i };

	if (cuda_check(cudaMemsetAsync(part->payload, 0, part->bytes, stream), "clearing a sketch"))
		return -1;
	return cuda_sketch_add(sketch, &call, stream);
}

static int enqueue_sketches(struct device_push *p, struct device_sketch *sketch,
			    const struct device_select *call, const struct device_part *parts,
			    uint32_t rows, void *stream)
{
	const uint32_t nothing = 0;
	struct device_select adding = *call;

	adding.list = &nothing;
	adding.listed = 0;
	adding.settle = 0;
	if (push_places(p, parts, stream) || push_select(p, &adding, 0, stream))
		return -1;
	for (size_t i = 0; i < push_parts(p); i++)
		if (sketch_part(sketch, call->residual, &parts[i], i, rows, stream))
			return -1;
	return end(p, &adding, parts, stream);
}

int cuda_push_sketches(struct device_push *p, struct device_sketch *sketch,
		       const struct device_select *call, const struct device_part *parts,
		       uint32_t rows, void *stream)
{
	int before;

	if (!rows)
		return cuda_refuse("sketches without rows");
	push_clear(p, 1);
	if (selector_enter(push_selector(p), &before))
		return -1;
	return selector_leave(push_selector(p), before,
			      enqueue_sketches(p, sketch, call, parts, rows, stream));
}

/* The lists take the place of a selection's. */
static int gather_parts(struct device_push *p, const float *vector, const struct device_part *parts,
			void *stream)
{
	const struct selector_view v = selector_view(push_selector(p));
	uint32_t at = 0;

	for (size_t i = 0; i < push_parts(p); i++) {
		const uint32_t count = parts[i].bytes / CELL_BYTES;
		const struct gather_args args = { .vector = vector + parts[i].begin,
						  .index = v.index + at,
						  .value = (float *)(void *)parts[i].payload,
						  .count = count,
						  .found = &v.selection->found };

		if (!count)
			continue;
		if (count > v.room - at)
			return cuda_refuse("values of more than %u coordinates, for which the "
					   "selector has room",
					   v.room);
		if (cuda_check(cudaMemcpyAsync(v.index + at, parts[i].index,
					       count * sizeof(*v.index), cudaMemcpyDefault, stream),
			       "copying indices to the device") ||
		    cuda_check(gather_enqueue(
				       &args,
				       list_grid(count, THREADS, v.multiprocessors, BLOCKS_EACH),
				       stream),
			       "starting the kernel gather"))
			return -1;
		at += count;
	}
	return 0;
}

static int enqueue_values(struct device_push *p, const float *vector,
			  const struct device_part *parts, void *stream)
{
	if (push_places(p, parts, stream) || gather_parts(p, vector, parts, stream))
		return -1;
	return end(p, NULL, parts, stream);
}

int cuda_push_values(struct device_push *p, const float *vector, const struct device_part *parts,
		     void *stream)
{
	int before;

	push_clear(p, 1);
	if (selector_enter(push_selector(p), &before))
		return -1;
	return selector_leave(push_selector(p), before, enqueue_values(p, vector, parts, stream));
}
