/* SPDX-License-Identifier: BSD-3-Clause
 * See sketch.h. The scratch memory is one allocation on the device, made at open. A push copies the
 * kernel's data about the parts there from pinned memory if the parts differ from those of the
 * previous push, which happens only in the first push. */
#include "gpu/sketch.h"
#include "gpu/compressor.h"
#include "gpu/context.h"
#include "gpu/failure.h"
#include "gpu/plan.h"
#include <stdlib.h>
#include <string.h>

enum { SKETCH_BLOCK = 256, CELL_BYTES = 4 };

struct device_sketch {
	struct sketch_plan plan;
	unsigned multiprocessors, blocks_each;
	unsigned blocks; /* most blocks of the kernel; 0: any number */
	int device;
	uint32_t rows, columns;   /* shape in the last push; rows is 0 before the first push */
	struct sketch_part *part; /* pinned memory */
	size_t parts;
	uint8_t *memory;
};

static int allocate_sketch(struct device_sketch *s)
{
	int multiprocessors, blocks_each;
	void *part = NULL;

	if (cuda_check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount,
					      s->device),
		       "asking for multiprocessors") ||
	    cuda_check(sketch_residents(&blocks_each), "loading the kernel sketch") ||
	    cuda_check(cudaMalloc((void **)&s->memory, s->plan.bytes), "allocating a sketch") ||
	    cuda_check(cudaHostAlloc(&part, s->parts * sizeof(*s->part), cudaHostAllocDefault),
		       "allocating pinned memory"))
		return -1;
	s->part = part;
	s->multiprocessors = (unsigned)multiprocessors;
	s->blocks_each = (unsigned)blocks_each;
	return 0;
}

int sketcher_open(const struct sketcher_shape *shape, struct device_sketch **out)
{
	struct device_sketch *s = calloc(1, sizeof(*s));
	enum cudaStreamCaptureMode mode;
	int before, rc;

	if (!s)
		return cuda_refuse("no memory for a sketch");
	s->plan = sketch_plan(shape->n, shape->columns, shape->parts * sizeof(*s->part));
	s->parts = shape->parts;
	s->blocks = shape->blocks;
	s->device = shape->device;
	if (device_enter(s->device, &before)) {
		free(s);
		return -1;
	}
	capture_allow(&mode);
	rc = allocate_sketch(s);
	capture_restore(mode);
	if (device_leave(s->device, before, rc)) {
		cuda_sketch_close(&s);
		return -1;
	}
	*out = s;
	return 0;
}

void cuda_sketch_close(struct device_sketch **sketch)
{
	enum cudaStreamCaptureMode mode;

	if (!sketch || !*sketch)
		return;
	capture_allow(&mode);
	if (cudaFree((*sketch)->memory) != cudaSuccess)
		cudaGetLastError();
	if ((*sketch)->part && cudaFreeHost((*sketch)->part) != cudaSuccess)
		cudaGetLastError();
	capture_restore(mode);
	free(*sketch);
	*sketch = NULL;
}

static void *part_of(const struct device_sketch *s, size_t offset)
{
	return s->memory + offset;
}

/* Returns the kernel's arguments, except the vector to sketch and the address of the cells. */
static struct sketch_args args_of(const struct device_sketch *s, uint32_t rows)
{
	const struct sketch_plan *p = &s->plan;

	return (struct sketch_args){ .part = part_of(s, p->parts),
				     .rows = rows,
				     .barrier = part_of(s, p->barrier),
				     .begin = part_of(s, p->begin),
				     .end = part_of(s, p->end),
				     .list = part_of(s, p->list),
				     .block_sums = part_of(s, p->block_sums) };
}

static int send_parts(struct device_sketch *s, void *stream)
{
	return cuda_check(cudaMemcpyAsync(part_of(s, s->plan.parts), s->part,
					  s->parts * sizeof(*s->part), cudaMemcpyDefault, stream),
			  "copying the shapes of sketches");
}

static int enqueue_sketch(struct device_sketch *s, const struct sketch_args *args, void *stream)
{
	const uint64_t items = args->n > args->columns ? args->n : args->columns;
	unsigned grid = list_grid(items, SKETCH_BLOCK, s->multiprocessors, s->blocks_each);

	grid = fewer_blocks(grid < GRID_MOST ? grid : GRID_MOST, s->blocks);
	if (cuda_check(cudaMemsetAsync(args->barrier, 0, sizeof(*args->barrier), stream),
		       "clearing a sketch"))
		return -1;
	return cuda_check(sketch_enqueue(args, grid, stream), "starting the kernel sketch");
}

/* ---- the parts of a push ----------------------------------------------------- */

/* Returns 1 if the parts that are on the device equal these parts. */
static int same_parts(const struct device_sketch *s, const struct device_part *parts, uint32_t rows)
{
	size_t i = 0;

	while (i < s->parts && s->part[i].begin == parts[i].begin &&
	       s->part[i].span == parts[i].span &&
	       s->part[i].columns == parts[i].bytes / CELL_BYTES / rows)
		i++;
	return s->rows == rows && i == s->parts;
}

static int describe_parts(struct device_sketch *s, const struct device_part *parts, uint32_t rows)
{
	uint64_t columns = 0;

	for (size_t i = 0; i < s->parts; i++) {
		const struct sketch_shape shape = { rows, parts[i].bytes / CELL_BYTES / rows, i };

		s->part[i] = (struct sketch_part){ .begin = parts[i].begin,
						   .span = parts[i].span,
						   .columns = shape.columns,
						   .first_bucket = (uint32_t)columns,
						   .hashes = sketch_hashes(&shape) };
		columns += shape.columns;
	}
	if (columns > s->plan.columns)
		return cuda_refuse("the sketches have %llu columns, but the compressor was opened "
				   "for at most %u",
				   (unsigned long long)columns, s->plan.columns);
	s->rows = rows;
	s->columns = (uint32_t)columns;
	return 0;
}

int sketcher_push(struct device_sketch *s, const float *x, const struct device_part *parts,
		  const struct push_place *places, uint32_t rows, void *stream)
{
	struct sketch_args args = args_of(s, rows);

	if (!same_parts(s, parts, rows)) {
		s->rows = 0;
		if (describe_parts(s, parts, rows) || send_parts(s, stream))
			return -1;
	}
	args.x = x;
	args.place = places;
	args.parts = (uint32_t)s->parts;
	args.n = s->plan.n;
	args.columns = s->columns;
	args.fresh = 1;
	return enqueue_sketch(s, &args, stream);
}

/* ---- one sketch -------------------------------------------------------------- */

int cuda_sketch_open(int device, uint32_t n, uint32_t columns, struct device_sketch **out)
{
	const struct sketcher_shape shape = {
		.device = device, .n = n, .columns = columns, .parts = 1
	};

	return sketcher_open(&shape, out);
}

int cuda_sketch_add(struct device_sketch *s, const struct device_sketch_call *call, void *stream)
{
	const struct sketch_shape shape = { call->rows, call->columns, call->seed };
	struct sketch_args args = args_of(s, call->rows);
	int before;

	if (call->n > s->plan.n || call->columns > s->plan.columns || !call->columns ||
	    call->rows > SKETCH_ROWS_MAX)
		return cuda_refuse("the sketch has %u coordinates in %u x %u cells, but the "
				   "sketcher was opened for %u coordinates in %u columns",
				   call->n, call->rows, call->columns, s->plan.n, s->plan.columns);
	if (device_enter(s->device, &before))
		return -1;
	*s->part = (struct sketch_part){ .span = call->n,
					 .columns = call->columns,
					 .hashes = sketch_hashes(&shape) };
	args.x = call->x;
	args.cells = call->cells;
	args.parts = 1;
	args.n = call->n;
	args.columns = call->columns;
	return device_leave(s->device, before,
			    send_parts(s, stream) || enqueue_sketch(s, &args, stream) ? -1 : 0);
}
