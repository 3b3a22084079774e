/* SPDX-License-Identifier: BSD-3-Clause
 * What a push needs on the device beside selecting and packing, so that the host need not wait
 * between.
 *
 * split: where each shard's part of the selection begins and how long it is, one thread a part. One
 * block of 256 threads; a binary search of the list each.
 *
 * seal: reads each payload once, 4 bytes a thread and turn: its CRC32C, and, where the message
 * leaves from host memory, exactly its bytes are written there meanwhile, 128 of them a warp: no
 * transfer waits for the host to know how many. Payloads whose lengths the host knows are f32, and
 * judged meanwhile: nobody else looks at each value. 256 threads, any grid. Shared memory: 4 KiB.
 * Equal input gives equal sums, whatever the grid: exclusive or knows no order.
 *
 * Who sees it: pack's writes are before seal's reads, as launches of one stream are. What seal
 * writes to host memory is the host's to read once report.cu has told it, and then visible to whom
 * the host tells. */
#include "gpu/compressor.h"
#include "gpu/kernel.h"

/* ---- split ----------------------------------------------------------------- */

/* How many of index[0..n), ascending, are below limit. */
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
		const uint64_t begin = a.place[p].begin;
		const uint32_t first = below(a.index, found, begin);

		a.part[p].range.first = first;
		a.part[p].range.count = below(a.index, found, begin + a.place[p].span) - first;
	}
	if (threadIdx.x == 0) {
		a.summary->found = got->found;
		a.summary->nan = got->nan;
		a.summary->largest = got->largest;
		a.summary->passes = got->passes;
		a.summary->nonfinite = got->nonfinite;
		a.summary->inverted_first = got->inverted_first;
		tell_host(a.selected, a.turn);
	}
}

/* ---- seal ------------------------------------------------------------------ */

/* table[b][v]: v at byte b, multiplied by what lies between a thread's words. */
enum { BYTES_OF_WORD = 4, BYTE_VALUES = 256 };

struct seal_shared {
	uint32_t table[BYTES_OF_WORD][BYTE_VALUES];
};

__device__ static inline void make_table(struct seal_shared *sh, uint32_t stride)
{
	for (unsigned b = 0; b < BYTES_OF_WORD; b++)
		sh->table[b][threadIdx.x] = checksum_times(threadIdx.x << 8 * b, stride);
	__syncthreads();
}

__device__ static inline uint32_t times_stride(const struct seal_shared *sh, uint32_t sum)
{
	return sh->table[0][sum & 0xff] ^ sh->table[1][sum >> 8 & 0xff] ^
	       sh->table[2][sum >> 16 & 0xff] ^ sh->table[3][sum >> 24];
}

/* This thread's words of a payload: their part of the checksum; *largest: of their magnitudes as
 * f32. */
__device__ static inline uint32_t seal_words(const struct seal_args *a,
					     const struct seal_shared *sh,
					     const struct push_place *place, uint32_t words,
					     uint32_t *largest)
{
	const uint32_t *from = (const uint32_t *)(const void *)place->payload;
	uint32_t *to = (uint32_t *)(void *)place->copy;
	const uint64_t first = (uint64_t)blockIdx.x * BLOCK + threadIdx.x,
		       stride = (uint64_t)gridDim.x * BLOCK;
	uint64_t last = first;
	uint32_t sum = 0;

	if (first >= words)
		return 0;
	for (uint64_t i = first; i < words; i += stride) {
		const uint32_t word = from[i]; /* devices are little-endian */

		if (to)
			to[i] = word;
		*largest = (word & KEY_MASK) > *largest ? word & KEY_MASK : *largest;
		sum = times_stride(sh, sum) ^ word;
		last = i;
	}
	return checksum_times(sum, checksum_shift(a->power, words - (uint32_t)last));
}

KERNEL(seal, seal_args)
{
	__shared__ struct seal_shared sh;

	make_table(&sh, checksum_shift(a.power, gridDim.x * BLOCK));
	for (uint32_t p = 0; p < a.parts; p++) {
		const uint32_t bytes = a.place[p].bytes ? a.place[p].bytes :
							  a.part[p].packing.payload_bytes;
		const uint32_t words = bytes / BYTES_OF_WORD;
		uint32_t largest = 0, sum = seal_words(&a, &sh, &a.place[p], words, &largest);

		if (a.place[p].bytes && largest >= KEY_INFINITY)
			atomicOr(&a.part[p].nonfinite, 1u);
		if (blockIdx.x == 0 && threadIdx.x == 0)
			sum ^= checksum_times(CHECKSUM_BEGIN, checksum_shift(a.power, words)) ^
			       CHECKSUM_BEGIN;
		sum = __reduce_xor_sync(ALL_LANES, sum);
		if (lane_id() == 0 && sum)
			atomicXor(&a.part[p].crc, sum);
	}
}

/* ---- for C ----------------------------------------------------------------- */

FROM_C cudaError_t split_enqueue(const struct split_args *args, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)split, blocks_of(1), blocks_of(BLOCK), arguments, 0,
				stream);
}

FROM_C cudaError_t seal_enqueue(const struct seal_args *args, unsigned grid, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)seal, blocks_of(grid), blocks_of(BLOCK), arguments, 0,
				stream);
}
