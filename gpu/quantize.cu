/* SPDX-License-Identifier: BSD-3-Clause
 * Values in few bits, byte for byte as few_bits_encode() makes them (runtime/compress/few_bits.c),
 * rounded by the same random numbers. One cooperative launch handles one list, or all parts of a
 * push, each with a team of blocks. It first computes the step of each block of values, one warp
 * per block, or the largest magnitude of all values. Then it computes codes, eight values per
 * thread, which fill whole bytes. For twomeans and e3m0 a warp does both for one block after the
 * other. Memory per value: 4 bytes read twice (twomeans: three times), 4 for its index, 4 written,
 * and its code. */
#include "gpu/compressor.h"
#include "gpu/kernel.h"
#include "gpu/quantize.h"
#include "runtime/compress/bit_pack.h"
#include "runtime/compress/few_bits_rules.h"
#include "runtime/compress/random_mix.h"
#include "runtime/compress/value_codes.h"

enum { CODES_AT_ONCE = 8, STEP_BYTES = 4 };

__device__ static inline uint32_t warp_largest(const struct quantize_args *a, uint64_t begin,
					       uint64_t end)
{
	uint32_t largest = 0;

	for (uint64_t i = begin + lane_id(); i < end; i += LANES) {
		uint32_t magnitude = float_bits(a->value[i]) & F32_MAGNITUDE;

		largest = magnitude > largest ? magnitude : largest;
	}
	return __reduce_max_sync(ALL_LANES, largest);
}

/* Every lane adds the values of all lanes one by one, so the values are added in their order. */
__device__ static inline float warp_mean(const struct quantize_args *a, uint64_t begin,
					 uint64_t end)
{
	double sum = 0;

	for (uint64_t from = begin; from < end; from += LANES) {
		const uint32_t here = end - from < LANES ? (uint32_t)(end - from) : (uint32_t)LANES;
		const uint32_t mine = lane_id() < here ? float_bits(a->value[from + lane_id()]) &
								 F32_MAGNITUDE :
							 0;

		for (uint32_t l = 0; l < here; l++)
			sum += (double)bits_float(__shfl_sync(ALL_LANES, mine, l));
	}
	return (float)(sum / (double)(end - begin));
}

__device__ static inline void write_steps(const struct quantize_args *a, struct team t)
{
	const uint32_t block = a->coding.block, blocks = a->count / block + (a->count % block != 0);

	for (uint64_t b = (uint64_t)t.block * WARPS + warp_id(); b < blocks;
	     b += (uint64_t)t.blocks * WARPS) {
		const uint64_t begin = b * block,
			       end = begin + block < a->count ? begin + block : a->count;
		const float step = a->coding.bits == 1 ?
					   warp_mean(a, begin, end) :
					   uniform_step(a->coding.bits,
							bits_float(warp_largest(a, begin, end)));

		if (lane_id() == 0)
			put_le32(a->out + b * STEP_BYTES, float_bits(step));
	}
}

/* For a grid: finds the largest magnitude. A warp reads 1024 values at a time. */
__device__ static inline void find_largest(const struct quantize_args *a, struct team t)
{
	const uint64_t each = 1024;
	uint32_t largest = 0;

	for (uint64_t from = ((uint64_t)t.block * WARPS + warp_id()) * each; from < a->count;
	     from += (uint64_t)t.blocks * WARPS * each) {
		uint32_t here = warp_largest(a, from,
					     from + each < a->count ? from + each : a->count);

		largest = here > largest ? here : largest;
	}
	if (lane_id() == 0 && largest)
		atomicMax(&a->state->largest, largest);
}

/* Returns the code of value i; *decoded receives the decoded value. */
__device__ static inline uint8_t uniform_of(const struct quantize_args *a,
					    const struct random_mixer *numbers, uint64_t i,
					    const struct uniform_scale *scale, float *decoded)
{
	const int levels = uniform_levels(a->coding.bits);
	uint8_t code = (uint8_t)levels;

	if (a->coding.bits == 1) {
		code = scale->step > 0 ? sign_code(a->value[i]) : code;
		*decoded = sign_value(code, scale->step);
		return code;
	}
	if (scale->step > 0)
		code = uniform_code(a->value[i],
				    random_mixed(numbers, a->first + (a->index ? a->index[i] : i)),
				    scale, a->coding.bits);
	*decoded = uniform_value(code, scale->step, levels);
	return code;
}

__device__ static inline uint8_t grid_of(const struct quantize_args *a, uint64_t i, float range,
					 float *decoded)
{
	const float width = grid_width(a->coding.bits, range);
	const uint8_t code = range > 0 ? grid_code(a->value[i], range, width,
						   (1 << a->coding.bits) - 1) :
					 0;

	*decoded = grid_value(code, range, width);
	return code;
}

/* Writes the codes of values from .. from + here - 1, each of which is in a byte of `eight`. `from`
 * is a multiple of eight, and `here` is at most eight. */
__device__ static inline void put_codes(const struct quantize_args *a, uint64_t from, uint32_t here,
					uint64_t eight, uint8_t *codes)
{
	const unsigned bits = a->coding.bits;

	eight = bits_merge(eight, bits);
	for (uint32_t b = 0; b < bits_bytes(here, bits); b++)
		codes[from / CODES_AT_ONCE * bits + b] = (uint8_t)(eight >> 8 * b);
}

__device__ static inline uint32_t codes_here(uint64_t from, uint64_t end)
{
	return end - from < CODES_AT_ONCE ? (uint32_t)(end - from) : (uint32_t)CODES_AT_ONCE;
}

__device__ static inline void put_decoded(const struct quantize_args *a, uint64_t i, float decoded)
{
	a->decoded[i] = a->leave_rest ? a->value[i] - decoded : decoded;
}

/* Writes the codes of up to eight values. */
__device__ static inline void write_codes(const struct quantize_args *a,
					  const struct random_mixer *numbers, uint64_t from,
					  float range, uint8_t *codes)
{
	const unsigned bits = a->coding.bits;
	const uint32_t here = codes_here(from, a->count);
	const int uniform = a->coding.type == VALUE_UNIFORM;
	const float step = uniform ? bits_float(get_le32(a->out +
							 from / a->coding.block * STEP_BYTES)) :
				     0;
	const struct uniform_scale scale = uniform_scale(bits, step);
	uint64_t eight = 0;

	for (uint32_t c = 0; c < here; c++) {
		float decoded;
		uint64_t code = uniform ? uniform_of(a, numbers, from + c, &scale, &decoded) :
					  grid_of(a, from + c, range, &decoded);

		eight |= code << 8 * c;
		put_decoded(a, from + c, decoded);
	}
	put_codes(a, from, here, eight, codes);
}

/* ---- twomeans and e3m0 ------------------------------------------------------ */

/* Adds the sums of all lanes, in the order of value_kernels.h. */
__device__ static inline float warp_total(float sum)
{
	for (unsigned half = LANES / 2; half; half /= 2)
		sum += bits_float(__shfl_sync(ALL_LANES, float_bits(sum), lane_id() ^ half));
	return sum;
}

/* A block of values, and the data from which its codes follow. */
struct levels_block {
	uint64_t begin, end;
	float down; /* the factor by which values are multiplied */
	float mean;
	uint32_t word;
};

__device__ static inline float magnitude_in(const struct quantize_args *a,
					    const struct levels_block *b, uint64_t i)
{
	return bits_float(float_bits(a->value[i]) & F32_MAGNITUDE) * b->down;
}

__device__ static inline float block_mean(const struct quantize_args *a,
					  const struct levels_block *b)
{
	float sum = 0;

	for (uint64_t i = b->begin + lane_id(); i < b->end; i += LANES)
		sum += magnitude_in(a, b, i);
	return warp_total(sum) / (float)(b->end - b->begin);
}

__device__ static inline void find_means(const struct quantize_args *a, struct levels_block *b)
{
	struct twomeans_sums s = { 0, 0, 0 };

	b->down = 1;
	b->mean = block_mean(a, b);
	if (!(b->mean <= FLT_MAX)) { /* the same in all lanes */
		b->down = TWOMEANS_DOWN;
		b->mean = block_mean(a, b);
	}
	for (uint64_t i = b->begin + lane_id(); i < b->end; i += LANES) {
		const float magnitude = magnitude_in(a, b, i);
		const int above = magnitude > b->mean;

		s.low += above ? 0 : magnitude;
		s.high += above ? magnitude : 0;
		s.n_high += (uint32_t)above;
	}
	s.low = warp_total(s.low);
	s.high = warp_total(s.high);
	s.n_high = __reduce_add_sync(ALL_LANES, s.n_high);
	b->word = twomeans_word(&s, (uint32_t)(b->end - b->begin), 1 / b->down);
}

/* Writes the word and the codes of a block. All lanes of the warp call this. */
__device__ static inline void levels_encode_block(const struct quantize_args *a,
						  struct levels_block *b, uint8_t *codes)
{
	const int twomeans = a->coding.type == VALUE_TWOMEANS;

	if (twomeans)
		find_means(a, b);
	else
		b->word = e3m0_word(warp_largest(a, b->begin, b->end));
	if (lane_id() == 0)
		put_le32(a->out + b->begin / a->coding.block * STEP_BYTES, b->word);
	for (uint64_t from = b->begin + CODES_AT_ONCE * lane_id(); from < b->end;
	     from += CODES_AT_ONCE * LANES) {
		const uint32_t here = codes_here(from, b->end);
		uint64_t eight = 0;

		for (uint32_t c = 0; c < here; c++) {
			const float v = a->value[from + c];
			uint8_t code = 0;
			float decoded = 0;

			if (b->word && twomeans) {
				code = twomeans_code(v * b->down, b->mean);
				decoded = twomeans_value(b->word, code);
			} else if (b->word) {
				code = e3m0_code(v, e3m0_least(b->word));
				decoded = e3m0_value(b->word, code);
			}
			eight |= (uint64_t)code << 8 * c;
			put_decoded(a, from + c, decoded);
		}
		put_codes(a, from, here, eight, codes);
	}
}

__device__ static inline void levels_encode(const struct quantize_args *a, struct team t,
					    uint8_t *codes)
{
	const uint64_t block = a->coding.block, warps = (uint64_t)t.blocks * WARPS;
	struct levels_block b = { 0, 0, 1, 0, 0 };

	for (b.begin = block * ((uint64_t)t.block * WARPS + warp_id()); b.begin < a->count;
	     b.begin += block * warps) {
		b.end = b.begin + block < a->count ? b.begin + block : a->count;
		levels_encode_block(a, &b, codes);
	}
}

/* Returns the range that a grid covers. */
__device__ static inline float range_of(const struct quantize_args *a)
{
	uint32_t most = look(&a->state->largest);
	float range;

	if (!a->count)
		return 0;
	if (a->most && *a->most > most)
		most = *a->most;
	range = bits_float(most);
	return grid_range(a->coding.bits, range > a->range ? range : a->range);
}

/* Encodes one list. All blocks of the team call this with the same a. */
__device__ static inline void quantize_list(const struct quantize_args *a, struct team t)
{
	const int uniform = a->coding.type == VALUE_UNIFORM;
	struct random_mixer numbers;
	uint8_t *codes = a->out;
	uint32_t passed = 0;
	float range = 1;

	codes += codes_bytes(0, a->coding.block, a->count);
	if (value_bits(a->coding.type)) {
		levels_encode(a, t, codes);
		if (t.block == 0 && threadIdx.x == 0)
			a->state->scale = range;
		return;
	}
	random_mixer_open(&a->stream, a->first, &numbers);
	if (uniform)
		write_steps(a, t);
	else
		find_largest(a, t);
	team_barrier(&a->state->barrier, &passed, t.blocks);
	if (!uniform)
		range = range_of(a);
	for (uint64_t from = CODES_AT_ONCE * ((uint64_t)t.block * BLOCK + threadIdx.x);
	     from < a->count; from += CODES_AT_ONCE * ((uint64_t)t.blocks * BLOCK))
		write_codes(a, &numbers, from, range, codes);
	if (t.block == 0 && threadIdx.x == 0)
		a->state->scale = range;
}

KERNEL(quantize, quantize_args)
{
	quantize_list(&a, whole_grid());
}

/* Encodes the values of all parts by a team of blocks. The codes of a part follow its positions. If
 * a part was not packed, the whole team skips it. */
KERNEL(quantize_push, push_quantize_args)
{
	uint32_t p;
	const struct team t = team_of(a.parts, &p);

	for (; p < a.parts; p += gridDim.x) {
		struct push_part *part = &a.part[p];
		struct quantize_args here;

		if (part->packing.verdict != PACK_DONE)
			continue;
		here.index = a.index ? a.index + part->range.first : NULL;
		here.value = a.value + part->range.first;
		here.decoded = a.value + part->range.first;
		here.leave_rest = 1;
		here.out = a.place[p].payload + part->packing.indices;
		here.count = part->range.count;
		here.coding = a.coding;
		here.range = 0;
		here.most = a.most;
		here.stream = a.stream;
		here.first = a.first + (a.index ? 0 : part->range.first);
		here.state = &part->quantizing;
		quantize_list(&here, t);
	}
}

FROM_C cudaError_t quantize_residents(int *blocks_each)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each, (const void *)quantize,
							     BLOCK, 0);
}

FROM_C cudaError_t quantize_push_residents(int *blocks_each)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each,
							     (const void *)quantize_push, BLOCK, 0);
}

FROM_C cudaError_t quantize_push_enqueue(const struct push_quantize_args *args, unsigned grid,
					 cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchCooperativeKernel((const void *)quantize_push, blocks_of(grid),
					   blocks_of(BLOCK), arguments, 0, stream);
}

FROM_C cudaError_t quantize_enqueue(const struct quantize_args *args, unsigned grid,
				    cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchCooperativeKernel((const void *)quantize, blocks_of(grid),
					   blocks_of(BLOCK), arguments, 0, stream);
}
