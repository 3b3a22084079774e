/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of a push on the device other than selecting and packing, so that the host need not
 * wait in between. Every kernel has 256 threads per block.
 *
 * split finds begin and length of each shard's part of the selection, copies the host's request for
 * the place of its message, and clears its results. One thread per part searches the list by
 * bisection, in one block.
 *
 * gather_push copies the values that shards have requested into the payloads. Each part has a team
 * of blocks, or each block has several parts. It reads the positions from pinned memory.
 *
 * seal reads each payload once, 4 bytes per thread and turn, by a team of blocks for each part, and
 * computes its CRC32C. If the message is sent from host memory, seal writes exactly the payload's
 * bytes there, 128 per warp, so no transfer has to wait for the host to know the length. Payloads
 * whose lengths the host knows are f32, and seal checks their values as well, because no other
 * kernel reads each of them. Equal input gives equal sums for every grid, because exclusive or does
 * not depend on the order. Shared memory: 4 KiB.
 *
 * settle subtracts the contents of the messages from the residual, one thread per entry and turn.
 * Memory per entry: 8 bytes of lists and two sectors of 32 bytes of the residual. Every coordinate
 * belongs to one thread.
 *
 * report does the work of settle if every part was packed. Then the last block to finish writes the
 * results to pinned memory, followed by a number that the host polls. One launch does both, so the
 * residual is up to date when the host sees the number, and a launch that fails has done neither.
 * Shared memory: 8 bytes.
 *
 * Visibility: launches of one stream follow each other, so report comes after the writes of pack,
 * quantize and seal. Each thread's system-wide fence orders these writes and its own before the
 * number. The host, or a network card that the host starts, can therefore read the results without
 * calling CUDA: payloads in host memory, in a peer's window, and in the device's own memory. */
#include "gpu/compressor.h"
#include "gpu/tile.h"
#include <stddef.h>

/* ---- split ----------------------------------------------------------------- */

/* Returns the number of entries of the ascending index[0..n) that are below limit. */
__device__ static inline uint32_t below(const uint32_t *index, uint32_t n, uint64_t limit)
{
	uint32_t from = 0, to = n;

	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (index[middle] < limit)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

KERNEL(split, split_args)
{
	const struct topk_state *got = a.selection;
	const uint32_t found = got->found > a.room ? 0 : got->found;

	for (uint32_t p = threadIdx.x; p < a.parts; p += BLOCK) {
		const struct push_place place = a.asked[p];
		const uint64_t begin = place.begin;
		const uint32_t first = a.splits ? below(a.index, found, begin) : 0;
		struct push_part *part = &a.part[p];
		uint32_t *words = (uint32_t *)(void *)part;

		for (unsigned w = 0; w < sizeof(*part) / sizeof(*words); w++)
			words[w] = 0;
		a.place[p] = place;
		part->range.first = a.whole ? place.begin : first;
		part->range.count = a.whole  ? place.span :
				    a.splits ? below(a.index, found, begin + place.span) - first :
					       0;
	}
	if (threadIdx.x == 0) {
		a.summary->found = got->found;
		a.summary->nan = got->nan;
		a.summary->largest = got->largest;
		a.summary->passes = got->passes;
		a.summary->nonfinite = got->nonfinite;
		a.summary->inverted_first = got->inverted_first;
		a.summary->blocks = a.summary->settled = 0;
		a.summary->bad = 0;
		tell_host(a.selected, a.number);
	}
}

/* ---- gather_push ----------------------------------------------------------- */

KERNEL(gather_push, push_gather_args)
{
	uint32_t p;
	const struct team t = team_of(a.parts, &p);

	for (; p < a.parts; p += gridDim.x) {
		const struct push_place *place = &a.place[p];
		const uint32_t *index = a.index + place->listed;
		const float *from = a.vector + place->begin;
		float *to = (float *)(void *)place->payload;

		for (uint64_t i = (uint64_t)t.block * BLOCK + threadIdx.x;
		     i < place->bytes / sizeof(*to); i += (uint64_t)t.blocks * BLOCK)
			to[i] = from[index[i]];
	}
}

/* ---- seal ------------------------------------------------------------------ */

/* table[b][v] is the value v at byte b, multiplied by the power of x for the distance between a
 * thread's words. The table is needed only if threads have several words. */
enum { BYTES_OF_WORD = 4, BYTE_VALUES = 256, SEAL_AT_ONCE = 4 };

struct seal_shared {
	uint32_t table[BYTES_OF_WORD][BYTE_VALUES];
};

/* Bit 31 - i of a word stands for x^i. */
__device__ static inline void make_table(struct seal_shared *sh, uint32_t stride)
{
	uint32_t made[BYTES_OF_WORD] = { 0, 0, 0, 0 };

	UNROLL
	for (unsigned i = 0; i < 32; i++, stride = checksum_times_x(stride)) {
		const unsigned bit = 31 - i;

		made[bit / 8] ^= (0 - (threadIdx.x >> bit % 8 & 1)) & stride;
	}
	for (unsigned b = 0; b < BYTES_OF_WORD; b++)
		sh->table[b][threadIdx.x] = made[b];
	__syncthreads();
}

__device__ static inline uint32_t times_stride(const struct seal_shared *sh, uint32_t sum)
{
	return sh->table[0][sum & 0xff] ^ sh->table[1][sum >> 8 & 0xff] ^
	       sh->table[2][sum >> 16 & 0xff] ^ sh->table[3][sum >> 24];
}

/* Handles those words of a payload whose distance from the end is `mine` more than a multiple of
 * `stride`. The power of x for the last of them is thus the same for all payloads. Returns the
 * remainder of the words, not yet multiplied by that power. *largest receives their largest
 * magnitude as f32. */
__device__ static inline uint32_t seal_words(const struct seal_shared *sh,
					     const struct push_place *place, uint32_t words,
					     uint32_t mine, uint32_t stride, uint32_t *largest)
{
	const uint32_t *from = (const uint32_t *)(const void *)place->payload;
	uint32_t *to = (uint32_t *)(void *)place->copy;
	uint32_t i = (words - 1 - mine) % stride; /* there are fewer than 2^31 words */
	uint32_t sum = i == 0 ? CHECKSUM_BEGIN : 0;

	if (mine >= words)
		return 0;
	/* All loads of one iteration precede the products, so that several are under way. */
	for (; i < words; i += SEAL_AT_ONCE * stride) {
		uint32_t word[SEAL_AT_ONCE]; /* devices are little-endian */

		UNROLL
		for (unsigned j = 0; j < SEAL_AT_ONCE; j++)
			word[j] = i + j * stride < words ? from[i + j * stride] : 0;
		UNROLL
		for (unsigned j = 0; j < SEAL_AT_ONCE; j++) {
			const uint32_t at = i + j * stride;

			if (at >= words)
				break;
			if (to)
				to[at] = word[j];
			*largest = (word[j] & KEY_MASK) > *largest ? word[j] & KEY_MASK : *largest;
			sum ^= word[j];
			if (at + stride < words)
				sum = times_stride(sh, sum);
		}
	}
	return sum;
}

KERNEL(seal, seal_args)
{
	__shared__ struct seal_shared sh;
	uint32_t p;
	const struct team t = team_of(a.parts, &p);
	const uint32_t mine = t.block * BLOCK + threadIdx.x, stride = t.blocks * BLOCK;
	const uint32_t near = a.power.near[threadIdx.x];
	const uint32_t distance = t.block ? checksum_times(near, a.power.far[t.block]) : near;
	int made = 0;

	for (; p < a.parts; p += gridDim.x) {
		const uint32_t bytes = a.place[p].bytes ? a.place[p].bytes :
							  a.part[p].packing.payload_bytes;
		const uint32_t words = bytes / BYTES_OF_WORD;
		uint32_t largest = 0, sum;

		if (words > stride && !made) {
			make_table(&sh, a.power.far[t.blocks]);
			made = 1;
		}
		sum = seal_words(&sh, &a.place[p], words, mine, stride, &largest);
		sum = checksum_times(sum, distance);

		if (a.place[p].bytes && largest >= KEY_INFINITY)
			atomicOr(&a.part[p].nonfinite, 1u);
		if (mine == 0 && words)
			sum ^= CHECKSUM_BEGIN;
		sum = __reduce_xor_sync(ALL_LANES, sum);
		if (lane_id() == 0 && sum)
			atomicXor(&a.part[p].crc, sum);
	}
}

/* ---- settle ---------------------------------------------------------------- */

__device__ static inline void settle_entries(const struct settle_args *a, uint32_t count)
{
	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < count;
	     i += (uint64_t)gridDim.x * BLOCK) {
		const uint32_t at = a->index[i];

		a->residual[at] = a->value[i];
		if (a->velocity && !(a->unsent && a->unsent[i]) &&
		    !spans_reach(a->exempt, a->n_exempt, at, 1))
			a->velocity[at] = 0;
	}
}

KERNEL(settle, settle_args)
{
	settle_entries(&a, a.count);
}

/* ---- report ---------------------------------------------------------------- */

/* *unpacked is shared by the block, and must be 0 before the call. */
__device__ static inline int all_packed(const struct report_args *a, uint32_t *unpacked)
{
	for (uint32_t p = threadIdx.x; p < a->parts; p += BLOCK)
		if (a->part[p].packing.verdict != PACK_DONE)
			atomicOr(unpacked, 1u);
	__syncthreads();
	return !*unpacked;
}

/* Returns the first non-finite value. */
__device__ static inline float bad_value(const struct report_args *a)
{
	const uint32_t at = ~a->summary->inverted_first;

	return a->grad_type == VALUE_F32 ? ((const float *)a->grad)[at] :
					   widened_at(a->grad, at, a->grad_type, a->grad_scale);
}

__device__ static inline void tell(const struct report_args *a, int settled)
{
	uint32_t *selection = (uint32_t *)(void *)a->selection;

	if (threadIdx.x == 0) {
		a->summary->settled = settled != 0;
		a->summary->bad = a->grad && a->summary->nonfinite ? bad_value(a) : 0.0f;
	}
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < a->words; i += BLOCK)
		a->to[i] = a->from[i];
	for (uint32_t i = threadIdx.x;
	     i < offsetof(struct topk_state, barrier) / sizeof(*selection); i += BLOCK)
		selection[i] = 0;
	__threadfence_system();
	__syncthreads();
	if (threadIdx.x == 0)
		tell_host(a->done, a->number);
}

KERNEL(report_push, report_args)
{
	__shared__ uint32_t unpacked, last;
	int settles;

	if (threadIdx.x == 0)
		unpacked = 0;
	__syncthreads();
	settles = a.settle.residual && all_packed(&a, &unpacked);
	if (settles)
		settle_entries(&a.settle, a.summary->found > a.settle.count ? 0 : a.summary->found);
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		last = atomicAdd(&a.summary->blocks, 1u) == gridDim.x - 1;
	__syncthreads();
	if (last)
		tell(&a, settles || a.settled);
}

/* ---- for C ----------------------------------------------------------------- */

FROM_C cudaError_t parts_load(void)
{
	const void *const kernels[] = { (const void *)split, (const void *)gather_push,
					(const void *)seal, (const void *)settle,
					(const void *)report_push };

	return load_kernels(kernels, sizeof(kernels) / sizeof(*kernels));
}

FROM_C cudaError_t split_enqueue(const struct split_args *args, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)split, blocks_of(1), blocks_of(BLOCK), arguments, 0,
				stream);
}

FROM_C cudaError_t gather_push_enqueue(const struct push_gather_args *args, unsigned grid,
				       cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)gather_push, blocks_of(grid), blocks_of(BLOCK),
				arguments, 0, stream);
}

FROM_C cudaError_t seal_enqueue(const struct seal_args *args, unsigned grid, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)seal, blocks_of(grid), blocks_of(BLOCK), arguments, 0,
				stream);
}

FROM_C cudaError_t settle_enqueue(const struct settle_args *args, unsigned grid,
				  cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)settle, blocks_of(grid), blocks_of(BLOCK), arguments,
				0, stream);
}

FROM_C cudaError_t report_enqueue(const struct report_args *args, unsigned grid,
				  cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)report_push, blocks_of(grid), blocks_of(BLOCK),
				arguments, 0, stream);
}
