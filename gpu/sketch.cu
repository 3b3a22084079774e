/* SPDX-License-Identifier: BSD-3-Clause
 * Adds a vector to a count sketch with the same bits as sketch_add() (runtime/compress/sketch.c).
 * The float sum of a cell depends on the order of its coordinates. They are therefore listed by
 * bucket, each list is sorted, and one thread adds it up. One cooperative launch handles one row at
 * a time, for all parts of the vector together: the buckets of a part follow those of the previous
 * part. The average list has as many entries as there are coordinates per column. Memory per row
 * and coordinate: x and a hash three times, and 4 bytes of list that are written and read at random
 * places, which costs up to 96 bytes in 32-byte sectors. Shared memory: 64 bytes per block. */
#include "gpu/compressor.h"
#include "gpu/kernel.h"
#include "gpu/sketch.h"

__device__ static inline uint32_t sketch_thread(void)
{
	return blockIdx.x * BLOCK + threadIdx.x;
}

__device__ static inline uint32_t sketch_threads(void)
{
	return gridDim.x * BLOCK;
}

/* The part of a coordinate or bucket that a thread has found. A thread searches in ascending order,
 * so it passes each part only once. */
struct found_part {
	const struct sketch_part *part;
	uint32_t number;
};

__device__ static inline struct found_part first_part(const struct sketch_args *a)
{
	struct found_part f;

	f.part = a->part;
	f.number = 0;
	return f;
}

/* Returns the bucket of coordinate j, counted over all parts. */
__device__ static inline uint32_t bucket_of(const struct sketch_args *a, struct found_part *f,
					    uint32_t row, uint32_t j)
{
	while (f->number + 1 < a->parts && j >= f->part[1].begin) {
		f->part++;
		f->number++;
	}
	return f->part->first_bucket +
	       sketch_bucket(&f->part->hashes, row, j - f->part->begin, f->part->columns);
}

/* Returns the cell of a bucket. */
__device__ static inline float *cell_of(const struct sketch_args *a, struct found_part *f,
					uint32_t row, uint32_t bucket)
{
	float *cells = a->cells;

	while (f->number + 1 < a->parts && bucket >= f->part[1].first_bucket) {
		f->part++;
		f->number++;
	}
	if (!cells)
		cells = (float *)(void *)a->place[f->number].payload;
	return cells + (uint64_t)row * f->part->columns + (bucket - f->part->first_bucket);
}

/* Sets end[b] to the number of coordinates in bucket b. */
__device__ static inline void count_buckets(const struct sketch_args *a, uint32_t row,
					    uint32_t *passed)
{
	struct found_part f = first_part(a);

	for (uint64_t b = sketch_thread(); b < a->columns; b += sketch_threads())
		a->end[b] = 0;
	grid_barrier(a->barrier, passed);
	for (uint64_t j = sketch_thread(); j < a->n; j += sketch_threads())
		if (a->x[j] != 0)
			atomicAdd(&a->end[bucket_of(a, &f, row, (uint32_t)j)], 1u);
	grid_barrier(a->barrier, passed);
}

/* Sets begin and end of each bucket to the start of its list. A block handles a run of buckets. */
__device__ static inline void place_buckets(const struct sketch_args *a, uint64_t *sums,
					    uint32_t *passed)
{
	const uint32_t first = (uint32_t)((uint64_t)a->columns * blockIdx.x / gridDim.x);
	const uint32_t last = (uint32_t)((uint64_t)a->columns * (blockIdx.x + 1) / gridDim.x);
	uint64_t sum = 0, before = 0, all;

	for (uint64_t b = (uint64_t)first + threadIdx.x; b < last; b += BLOCK)
		sum += a->end[b];
	block_before(sum, sums, &all);
	if (threadIdx.x == 0)
		a->block_sums[blockIdx.x] = all;
	grid_barrier(a->barrier, passed);
	for (unsigned b = threadIdx.x; b < blockIdx.x; b += BLOCK)
		before += a->block_sums[b];
	block_before(before, sums, &before);
	for (uint64_t from = first; from < last; from += BLOCK) {
		const uint64_t b = from + threadIdx.x;
		uint64_t here = before + block_before(b < last ? a->end[b] : 0, sums, &all);

		if (b < last)
			a->begin[b] = a->end[b] = (uint32_t)here;
		before += all;
	}
	grid_barrier(a->barrier, passed);
}

/* Lists the coordinates by bucket, in any order. Afterwards end[b] is the end of list b. */
__device__ static inline void list_coordinates(const struct sketch_args *a, uint32_t row,
					       uint32_t *passed)
{
	struct found_part f = first_part(a);

	for (uint64_t j = sketch_thread(); j < a->n; j += sketch_threads())
		if (a->x[j] != 0) {
			uint32_t b = bucket_of(a, &f, row, (uint32_t)j);

			a->list[atomicAdd(&a->end[b], 1u)] = (uint32_t)j;
		}
	grid_barrier(a->barrier, passed);
}

/* Moves list[at] down in the heap below it. */
__device__ static inline void sink(uint32_t *list, uint32_t at, uint32_t n)
{
	const uint32_t sinking = list[at];

	for (uint64_t child = 2 * (uint64_t)at + 1; child < n; child = 2 * (uint64_t)at + 1) {
		if (child + 1 < n && list[child + 1] > list[child])
			child++;
		if (list[child] <= sinking)
			break;
		list[at] = list[child];
		at = (uint32_t)child;
	}
	list[at] = sinking;
}

/* Sorts in ascending order by heapsort, so that the time for a long list is not quadratic. */
__device__ static inline void sort_list(uint32_t *list, uint32_t n)
{
	for (uint32_t at = n / 2; at; at--)
		sink(list, at - 1, n);
	for (uint32_t last = n ? n - 1 : 0; last; last--) {
		const uint32_t largest = list[0];

		list[0] = list[last];
		list[last] = largest;
		sink(list, 0, last);
	}
}

__device__ static inline void add_lists(const struct sketch_args *a, uint32_t row, uint32_t *passed)
{
	struct found_part f = first_part(a);

	for (uint64_t b = sketch_thread(); b < a->columns; b += sketch_threads()) {
		uint32_t *list = a->list + a->begin[b], n = a->end[b] - a->begin[b];
		float *at = cell_of(a, &f, row, (uint32_t)b), cell = a->fresh ? 0.0f : *at;

		sort_list(list, n);
		for (uint32_t i = 0; i < n; i++) {
			const uint32_t j = list[i] - f.part->begin;
			float v = a->x[list[i]];

			cell += sketch_signs(&f.part->hashes, j) >> row & 1 ? -v : v;
		}
		*at = cell;
	}
	grid_barrier(a->barrier, passed); /* the next row reuses the lists */
}

KERNEL(sketch, sketch_args)
{
	__shared__ uint64_t sums[WARPS];
	uint32_t passed = 0;

	for (uint32_t row = 0; row < a.rows; row++) {
		count_buckets(&a, row, &passed);
		place_buckets(&a, sums, &passed);
		list_coordinates(&a, row, &passed);
		add_lists(&a, row, &passed);
	}
}

FROM_C cudaError_t sketch_residents(int *blocks_each)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each, (const void *)sketch,
							     BLOCK, 0);
}

FROM_C cudaError_t sketch_enqueue(const struct sketch_args *args, unsigned grid,
				  cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchCooperativeKernel((const void *)sketch, blocks_of(grid), blocks_of(BLOCK),
					   arguments, 0, stream);
}
