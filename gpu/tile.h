/* SPDX-License-Identifier: BSD-3-Clause
 * How a warp handles one tile of a vector: it reads the tile, adds to it, marks coordinates and
 * writes them. A tile is 1024 coordinates. Bit 4 * j + c of a lane is coordinate 128 * j + 4 * lane
 * + c, so that every load is 16 bytes per lane. Called by sweep.h, histogram.h, in_order.h and
 * moments.h. */
#ifndef GPU_TILE_H
#define GPU_TILE_H
#include "gpu/kernel.h"
#include "gpu/topk.h"
#include "runtime/compress/value_codes.h"

enum { HALF = TILE_ROUNDS / 2 };

__device__ static inline uint32_t tiles_of(const struct topk_args *a)
{
	return (uint32_t)(((uint64_t)a->n + TILE_COORDINATES - 1) / TILE_COORDINATES);
}

/* Returns 1 if a tile ends within the vector. */
__device__ static inline int tile_whole(const struct topk_args *a, uint32_t tile)
{
	return tile < a->n / TILE_COORDINATES;
}

/* Returns this lane's first coordinate in a half of a tile. */
__device__ static inline uint64_t lane_at(uint32_t tile, unsigned half)
{
	return (uint64_t)tile * TILE_COORDINATES + half * HALF * ROUND_COORDINATES + 4 * lane_id();
}

/* ---- reading --------------------------------------------------------------- */

/* The application's vectors are only aligned to their elements. */
__device__ static inline int may_load_vectors(const void *p)
{
	return ((uintptr_t)p & 15) == 0;
}

/* Returns the number of coordinates from `at` on, limited to a tile. */
__device__ static inline uint32_t left_of(uint64_t at, uint64_t n)
{
	return at >= n ? 0 : n - at < TILE_COORDINATES ? (uint32_t)(n - at) : TILE_COORDINATES;
}

__device__ static inline float one(const float *p, uint32_t i, uint32_t left)
{
	if (i < left)
		TOUCH(sizeof(*p));
	return i < left ? p[i] : 0.0f;
}

/* Reads four rounds of a lane. Beyond the end it returns zeros, which are never selected. whole: 1
 * if the tile ends within n. */
__device__ static inline void load_half(const float *p, uint64_t at, uint64_t n, int whole,
					float4 *v)
{
	if (whole && may_load_vectors(p)) {
		TOUCH(HALF * sizeof(*v));
		UNROLL
		for (unsigned j = 0; j < HALF; j++)
			v[j] = *(const float4 *)(p + at + j * ROUND_COORDINATES);
		return;
	}
	const uint32_t left = left_of(at, n);

	UNROLL
	for (unsigned j = 0; j < HALF; j++) {
		const uint32_t i = j * ROUND_COORDINATES;

		v[j].x = one(p + at, i, left);
		v[j].y = one(p + at, i + 1, left);
		v[j].z = one(p + at, i + 2, left);
		v[j].w = one(p + at, i + 3, left);
	}
}

__device__ static inline void store_one(float *p, uint32_t i, uint32_t left, float v)
{
	if (i >= left)
		return;
	TOUCH(sizeof(*p));
	p[i] = v;
}

__device__ static inline void store_half(float *p, uint64_t at, uint64_t n, int whole,
					 const float4 *v)
{
	if (whole && may_load_vectors(p)) {
		TOUCH(HALF * sizeof(*v));
		UNROLL
		for (unsigned j = 0; j < HALF; j++)
			store_vector(p + at + j * ROUND_COORDINATES, v[j]);
		return;
	}
	const uint32_t left = left_of(at, n);

	UNROLL
	for (unsigned j = 0; j < HALF; j++) {
		const uint32_t i = j * ROUND_COORDINATES;

		store_one(p + at, i, left, v[j].x);
		store_one(p + at, i + 1, left, v[j].y);
		store_one(p + at, i + 2, left, v[j].z);
		store_one(p + at, i + 3, left, v[j].w);
	}
}

/* ---- gradients in 16 bits, or in 8 bits with a scale ---- */

/* Returns the exact value of one element of 8 or 16 bits. */
__device__ static inline float widened(uint32_t code, enum value_type type, float scale)
{
	if (type == VALUE_F16)
		return half_value((uint16_t)code);
	if (type == VALUE_BF16)
		return bits_float(code << 16);
	return scale * (type == VALUE_F8_E5M2 ? half_value((uint16_t)(code << 8)) :
						e4m3fn_decode_inline((uint8_t)code));
}

__device__ static inline float widened_at(const void *grad, uint64_t i, enum value_type type,
					  float scale)
{
	return widened(value_eight(type) ? ((const uint8_t *)grad)[i] : ((const uint16_t *)grad)[i],
		       type, scale);
}

/* Returns 1 if take_half() adds this tile's gradient, reading 8 or 4 bytes per lane and round.
 * Otherwise prepare() has already added it. */
__device__ static inline int adds_narrow(const struct topk_args *a, int whole)
{
	return whole && may_load_vectors(a->grad);
}

/* Reads four elements at once, from 8 or 4 aligned bytes. */
__device__ static inline float4 widened_four(const void *grad, uint64_t at, enum value_type type,
					     float scale)
{
	float4 v;

	if (value_eight(type)) {
		const uint32_t codes = *(const uint32_t *)(const void *)((const uint8_t *)grad +
									 at);
		TOUCH(sizeof(codes));

		v.x = widened(codes & 0xff, type, scale);
		v.y = widened(codes >> 8 & 0xff, type, scale);
		v.z = widened(codes >> 16 & 0xff, type, scale);
		v.w = widened(codes >> 24, type, scale);
		return v;
	}
	const uint64_t codes = *(const uint64_t *)(const void *)((const uint16_t *)grad + at);
	TOUCH(sizeof(codes));
	const uint32_t low = (uint32_t)codes, high = (uint32_t)(codes >> 32);

	v.x = widened(low & 0xffff, type, scale);
	v.y = widened(low >> 16, type, scale);
	v.z = widened(high & 0xffff, type, scale);
	v.w = widened(high >> 16, type, scale);
	return v;
}

__device__ static inline void add_narrow_half(const struct topk_args *a, uint64_t at, float4 *v)
{
	UNROLL
	for (unsigned j = 0; j < HALF; j++) {
		const float4 g = widened_four(a->grad, at + j * ROUND_COORDINATES, a->grad_type,
					      a->grad_scale);

		v[j].x += a->scale * g.x;
		v[j].y += a->scale * g.y;
		v[j].z += a->scale * g.z;
		v[j].w += a->scale * g.w;
	}
}

/* Reads half a tile of the vector to select from, after adding the gradient if requested. */
__device__ static inline void take_half(const struct topk_args *a, uint64_t at, int whole,
					int adding, float4 *v)
{
	load_half(a->x ? a->x : a->residual, at, a->n, whole, v);
	if (!adding)
		return;
	if (a->grad_type != VALUE_F32) {
		if (adds_narrow(a, whole))
			add_narrow_half(a, at, v);
	} else {
		float4 g[HALF];

		load_half((const float *)a->grad, at, a->n, whole, g);
		UNROLL
		for (unsigned j = 0; j < HALF; j++) {
			v[j].x += a->scale * g[j].x;
			v[j].y += a->scale * g[j].y;
			v[j].z += a->scale * g[j].z;
			v[j].w += a->scale * g[j].w;
		}
	}
	store_half(a->residual, at, a->n, whole, v);
}

/* ---- exempt coordinates ---------------------------------------------------- */

/* Returns the first of n ascending spans that ends after coordinate i, or n if no span does. */
__device__ static inline uint32_t span_behind(const struct device_span *spans, uint32_t n,
					      uint64_t i)
{
	uint32_t from = 0, to = n;

	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (spans[middle].end <= i)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* Returns 1 if one of the `length` coordinates from i on is in a span. */
__device__ static inline int spans_reach(const struct device_span *spans, uint32_t n, uint64_t i,
					 unsigned length)
{
	uint32_t span = n ? span_behind(spans, n, i) : 0;

	return span < n && spans[span].begin < i + length;
}

/* Returns 1 if one of the `length` coordinates from i on is exempt. */
__device__ static inline int exempt_within(const struct topk_args *a, uint64_t i, unsigned length)
{
	return spans_reach(a->exempt, a->n_exempt, i, length);
}

/* Returns this lane's exempt coordinates of a tile, as bits. Few tiles have any. Separate loops
 * mark them, so that the loops for most tiles stay short. */
__device__ static inline uint32_t exempt_bits(const struct topk_args *a, uint32_t tile)
{
	const uint64_t first = lane_at(tile, 0);
	uint32_t bits = 0;

	if (!exempt_within(a, (uint64_t)tile * TILE_COORDINATES, TILE_COORDINATES))
		return 0;
	for (unsigned bit = 0; bit < 32; bit++)
		bits |= (uint32_t)exempt_within(a, first + bit / 4 * ROUND_COORDINATES + bit % 4, 1)
			<< bit;
	return bits;
}

/* ---- marking --------------------------------------------------------------- */

/* The coordinates that a warp has found in one tile. */
struct marks {
	uint32_t listed, tied;
};

/* The keys for which a sweep searches, and the result. */
struct search {
	uint32_t low;        /* keys from this one on are listed */
	uint32_t above;      /* keys above this one are certainly selected, so they are only
				counted */
	uint32_t tie, below; /* keys tie - below .. tie are marked as ties; tie 0: there are no
				ties */
};

struct seen {
	uint32_t sure, largest, exempt;
};

__device__ static inline void mark_one(struct marks *m, unsigned bit, float v, int exempt,
				       struct search s, struct seen *seen)
{
	uint32_t key = key_of(v);

	m->listed |= (uint32_t)(key >= (exempt ? 1 : s.low)) << bit;
	m->tied |= (uint32_t)(s.tie - key <= s.below && key && !exempt) << bit;
	seen->sure += key > s.above && !exempt;
	seen->exempt += exempt && key;
	seen->largest = key > seen->largest ? key : seen->largest;
}

/* exempt: a bit for each of these sixteen coordinates, from bit 0 on. */
__device__ static inline void mark_half(struct marks *m, unsigned half, const float4 *v,
					uint32_t exempt, struct search s, struct seen *seen)
{
	UNROLL
	for (unsigned j = 0; j < HALF; j++) {
		const float each[4] = { v[j].x, v[j].y, v[j].z, v[j].w };

		UNROLL
		for (unsigned c = 0; c < 4; c++)
			mark_one(m, 4 * (half * HALF + j) + c, each[c], exempt >> (4 * j + c) & 1,
				 s, seen);
	}
}

__device__ static inline struct marks mark_tile(const struct topk_args *a, uint32_t tile,
						int adding, struct search s, struct seen *seen)
{
	const int whole = tile_whole(a, tile);
	const uint32_t exempt = a->n_exempt ? exempt_bits(a, tile) : 0;
	struct marks m;

	m.listed = m.tied = 0;
	for (unsigned half = 0; half < 2; half++) {
		float4 v[HALF];

		take_half(a, lane_at(tile, half), whole, adding, v);
		if (exempt)
			mark_half(&m, half, v, exempt >> 4 * HALF * half, s, seen);
		else
			mark_half(&m, half, v, 0, s, seen);
	}
	return m;
}

/* ---- ranks ----------------------------------------------------------------- */

/* The number of coordinates that the lower lanes have marked in each round, and the number that all
 * lanes have marked: 8 bits per round. The order within a tile is round, lane, component. */
struct ranks {
	uint32_t even_before, odd_before, even_all, odd_all;
};

__device__ static inline struct ranks rank_marks(uint32_t marks)
{
	uint32_t pairs = marks - (marks >> 1 & 0x55555555u);
	uint32_t nibbles = (pairs & 0x33333333u) + (pairs >> 2 & 0x33333333u);
	uint32_t even = nibbles & 0x0f0f0f0fu, odd = nibbles >> 4 & 0x0f0f0f0fu;
	uint32_t even_through = warp_inclusive(even), odd_through = warp_inclusive(odd);
	struct ranks r;

	r.even_before = even_through - even;
	r.odd_before = odd_through - odd;
	r.even_all = __shfl_sync(ALL_LANES, even_through, LANES - 1);
	r.odd_all = __shfl_sync(ALL_LANES, odd_through, LANES - 1);
	return r;
}

__device__ static inline uint32_t round_field(uint32_t even, uint32_t odd, unsigned round)
{
	return (round & 1 ? odd : even) >> 8 * (round / 2) & 0xff;
}

/* Returns the number of marked coordinates of a tile that precede coordinate `bit` of this lane. */
__device__ static inline uint32_t rank_of(const struct ranks *r, uint32_t marks, unsigned bit)
{
	const unsigned round = bit / 4;
	const uint32_t lower = marks & ((1u << bit) - 1) & 0xfu << 4 * round;
	uint32_t rank = round_field(r->even_before, r->odd_before, round);

	for (unsigned j = 0; j < round; j++)
		rank += round_field(r->even_all, r->odd_all, j);
	return rank + (uint32_t)__popc((int)lower);
}

__device__ static inline uint32_t rank_total(const struct ranks *r)
{
	/* Adds 8-bit fields of at most 128, as pairs of 16 bits. */
	uint32_t pairs = (r->even_all & 0x00ff00ffu) + (r->even_all >> 8 & 0x00ff00ffu) +
			 (r->odd_all & 0x00ff00ffu) + (r->odd_all >> 8 & 0x00ff00ffu);

	return (pairs & 0xffff) + (pairs >> 16);
}

/* ---- writing --------------------------------------------------------------- */

/* Writes the marked coordinates of a tile to index[at ...) and value[at ...). */
__device__ static inline void write_marks(const struct topk_args *a, uint32_t tile, uint32_t marks,
					  const struct ranks *r, uint32_t at, uint32_t *index,
					  float *value, int clear)
{
	const float *from = a->x ? a->x : a->residual;

	for (uint32_t left = marks; left; left &= left - 1) {
		unsigned bit = (unsigned)__ffs((int)left) - 1;
		uint32_t to = at + rank_of(r, marks, bit);
		uint32_t i = tile * TILE_COORDINATES + bit / 4 * ROUND_COORDINATES + 4 * lane_id() +
			     bit % 4;

		index[to] = i;
		value[to] = from[i];
		if (clear)
			a->residual[i] = 0;
	}
}
#endif
