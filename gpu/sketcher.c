/* SPDX-License-Identifier: BSD-3-Clause
 * See sketch.h. The scratch memory is one allocation on the device, made at open. */
#include "gpu/sketch.h"
#include "gpu/context.h"
#include "gpu/failure.h"
#include "gpu/plan.h"
#include <stdlib.h>

enum { SKETCH_BLOCK = 256 };

struct device_sketch {
	struct sketch_plan plan;
	unsigned multiprocessors, blocks_each;
	unsigned blocks; /* most that its kernel takes; 0: any number */
	int device;
	uint8_t *memory;
};

static int allocate_sketch(struct device_sketch *s)
{
	int multiprocessors, blocks_each;

	if (cuda_check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount,
					      s->device),
		       "asking for multiprocessors") ||
	    cuda_check(sketch_residents(&blocks_each), "loading the kernel sketch") ||
	    cuda_check(cudaMalloc((void **)&s->memory, s->plan.bytes), "allocating a sketch"))
		return -1;
	s->multiprocessors = (unsigned)multiprocessors;
	s->blocks_each = (unsigned)blocks_each;
	return 0;
}

int cuda_sketch_open(int device, uint32_t n, uint32_t columns, struct device_sketch **out)
{
	struct device_sketch *s = calloc(1, sizeof(*s));
	enum cudaStreamCaptureMode mode;
	int before, rc;

	if (!s)
		return cuda_refuse("no memory for a sketch");
	s->plan = sketch_plan(n, columns);
	s->device = device;
	if (device_enter(device, &before)) {
		free(s);
		return -1;
	}
	capture_allow(&mode);
	rc = allocate_sketch(s);
	capture_restore(mode);
	if (device_leave(device, before, rc)) {
		cuda_sketch_close(&s);
		return -1;
	}
	*out = s;
	return 0;
}

void sketch_limit(struct device_sketch *s, unsigned blocks)
{
	s->blocks = blocks;
}

void cuda_sketch_close(struct device_sketch **sketch)
{
	enum cudaStreamCaptureMode mode;

	if (!sketch || !*sketch)
		return;
	capture_allow(&mode);
	if (cudaFree((*sketch)->memory) != cudaSuccess)
		cudaGetLastError();
	capture_restore(mode);
	free(*sketch);
	*sketch = NULL;
}

static int enqueue_sketch(struct device_sketch *s, const struct device_sketch_call *call,
			  void *stream)
{
	const struct sketch_shape shape = { call->rows, call->columns, call->seed };
	const struct sketch_plan *p = &s->plan;
	const struct sketch_args args = { .x = call->x,
					  .cells = call->cells,
					  .n = call->n,
					  .rows = call->rows,
					  .columns = call->columns,
					  .hashes = sketch_hashes(&shape),
					  .barrier = (uint32_t *)(void *)(s->memory + p->barrier),
					  .begin = (uint32_t *)(void *)(s->memory + p->begin),
					  .end = (uint32_t *)(void *)(s->memory + p->end),
					  .list = (uint32_t *)(void *)(s->memory + p->list),
					  .block_sums = (uint64_t *)(void *)(s->memory +
									     p->block_sums) };
	const uint64_t items = call->n > call->columns ? call->n : call->columns;
	unsigned grid = list_grid(items, SKETCH_BLOCK, s->multiprocessors, s->blocks_each);

	grid = fewer_blocks(grid < GRID_MOST ? grid : GRID_MOST, s->blocks);
	if (cuda_check(cudaMemsetAsync(args.barrier, 0, sizeof(*args.barrier), stream),
		       "clearing a sketch"))
		return -1;
	return cuda_check(sketch_enqueue(&args, grid, stream), "starting the kernel sketch");
}

int cuda_sketch_add(struct device_sketch *s, const struct device_sketch_call *call, void *stream)
{
	int before;

	if (call->n > s->plan.n || call->columns > s->plan.columns || !call->columns ||
	    call->rows > SKETCH_ROWS_MAX)
		return cuda_refuse("a sketch of %u coordinates in %u x %u cells, but it was opened "
				   "for %u in %u columns",
				   call->n, call->rows, call->columns, s->plan.n, s->plan.columns);
	if (device_enter(s->device, &before))
		return -1;
	return device_leave(s->device, before, enqueue_sketch(s, call, stream));
}
