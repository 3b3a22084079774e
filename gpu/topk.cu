/* SPDX-License-Identifier: BSD-3-Clause
 * Exact top-k of a vector in device memory, fused with residual += scale * grad: one cooperative launch
 * that decides everything itself, so the host never waits inside a step. The answer is select_run()'s
 * (runtime/compress/select.c), bit by bit, whatever grid, hint or device.
 *
 * 1. With a hint: one sweep that adds, lists what reaches the lower end of the hinted interval
 *    (candidates), and counts what is above its upper end (sure). If sure <= k <= candidates, that was it.
 * 2. Else, or without a hint: histograms of keys (the first one adds) narrow the interval until its
 *    candidates have room; then the sweep.
 * 3. Candidates are cut exactly by histograms of them: (floor, ties) means keys above floor and the first
 *    `ties` equal to it.
 * 4. Tiles are summed up in order and every selected coordinate is written to its place, ascending.
 *
 * A warp takes tiles of 1024 coordinates. Memory touched: 12 bytes a coordinate with a good hint, 16 without
 * (one histogram), up to 24 if most magnitudes are equal; plus the candidates. Shared memory: 8.4 KiB a block.
 * Where all near ones are ties that have no room, only what is above them is listed, and the tiles in which
 * ties are taken are read again. */
#include "gpu/kernel.h"
#include "gpu/topk.h"

struct cut {
	uint32_t floor;
	uint32_t ties;
};

/* Of one tile. Bit 4 * j + c of a lane is coordinate 128 * j + 4 * lane + c. */
struct marks {
	uint32_t listed, tied;
};

struct shared {
	uint32_t bins[BINS];
	uint64_t sums[WARPS];
	uint32_t bin, need, inside;
};

/* ---- reading a tile ---------------------------------------------------------------------------- */

enum { HALF = TILE_ROUNDS / 2 };

__device__ static inline int may_load_vectors(const void *a, const void *b)
{
	return (((uintptr_t)a | (uintptr_t)b) & 15) == 0;
}

__device__ static inline float one(const float *p, uint64_t at, uint64_t n)
{
	return at < n ? p[at] : 0.0f;
}

/* Four rounds of a lane; beyond the end zeros, which are never selected. */
__device__ static inline void load_half(const float *p, uint64_t at, uint64_t n, int vectors, float4 *v)
{
	if (vectors) {
		UNROLL
		for (unsigned j = 0; j < HALF; j++)
			v[j] = *(const float4 *)(p + at + j * ROUND_COORDINATES);
		return;
	}
	UNROLL
	for (unsigned j = 0; j < HALF; j++) {
		uint64_t i = at + j * ROUND_COORDINATES;

		v[j].x = one(p, i, n);
		v[j].y = one(p, i + 1, n);
		v[j].z = one(p, i + 2, n);
		v[j].w = one(p, i + 3, n);
	}
}

__device__ static inline void store_one(float *p, uint64_t at, uint64_t n, float v)
{
	if (at < n)
		p[at] = v;
}

__device__ static inline void store_half(float *p, uint64_t at, uint64_t n, int vectors, const float4 *v)
{
	UNROLL
	for (unsigned j = 0; j < HALF; j++) {
		uint64_t i = at + j * ROUND_COORDINATES;

		if (vectors) {
			*(float4 *)(p + i) = v[j];
			continue;
		}
		store_one(p, i, n, v[j].x);
		store_one(p, i + 1, n, v[j].y);
		store_one(p, i + 2, n, v[j].z);
		store_one(p, i + 3, n, v[j].w);
	}
}

/* Half a tile as it is selected from, added first if asked. */
__device__ static inline void take_half(const struct topk_args *a, uint64_t at, int whole, int adding,
					float4 *v)
{
	const float *from = a->x ? a->x : a->residual;
	int vectors = whole && may_load_vectors(from, adding ? a->grad : from);
	float4 g[HALF];

	load_half(from, at, a->n, vectors, v);
	if (!adding)
		return;
	load_half(a->grad, at, a->n, vectors, g);
	UNROLL
	for (unsigned j = 0; j < HALF; j++) {
		v[j].x += a->scale * g[j].x;
		v[j].y += a->scale * g[j].y;
		v[j].z += a->scale * g[j].z;
		v[j].w += a->scale * g[j].w;
	}
	store_half(a->residual, at, a->n, vectors, v);
}

/* ---- one tile ---------------------------------------------------------------------------------- */

/* What a sweep looks for, and what it saw. */
struct search {
	uint32_t low;                /* keys from here on are listed */
	uint32_t tie;                /* keys equal to it are marked; 0: nothing is */
	uint32_t above;              /* keys above it are counted as sure */
};

struct seen {
	uint32_t sure, largest, exempt;
};

/* The first exempt span that ends behind coordinate i; n_exempt if there is none. */
__device__ static inline uint32_t exempt_behind(const struct topk_args *a, uint64_t i)
{
	uint32_t from = 0, to = a->n_exempt;

	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (a->exempt[middle].end <= i)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* Whether one of `length` coordinates from i on is exempt. */
__device__ static inline int exempt_within(const struct topk_args *a, uint64_t i, unsigned length)
{
	uint32_t span = a->n_exempt ? exempt_behind(a, i) : 0;

	return span < a->n_exempt && a->exempt[span].begin < i + length;
}

__device__ static inline void mark_one(struct marks *m, unsigned bit, float v, int exempt, struct search s,
				       struct seen *seen)
{
	uint32_t key = key_of(v);

	m->listed |= (uint32_t)(key >= (exempt ? 1 : s.low)) << bit;
	m->tied |= (uint32_t)(key == s.tie && key && !exempt) << bit;
	seen->sure += key > s.above && !exempt;
	seen->exempt += exempt && key;
	seen->largest = key > seen->largest ? key : seen->largest;
}

__device__ static inline struct marks mark_tile(const struct topk_args *a, uint32_t tile, int adding,
						struct search s, struct seen *seen)
{
	const uint64_t first = (uint64_t)tile * TILE_COORDINATES;
	const int whole = first + TILE_COORDINATES <= a->n;
	const int some_exempt = exempt_within(a, first, TILE_COORDINATES);
	struct marks m;

	m.listed = m.tied = 0;
	for (unsigned half = 0; half < 2; half++) {
		const uint64_t at = first + half * HALF * ROUND_COORDINATES + 4 * lane_id();
		float4 v[HALF];

		take_half(a, at, whole, adding, v);
		UNROLL
		for (unsigned j = 0; j < HALF; j++) {
			const float each[4] = { v[j].x, v[j].y, v[j].z, v[j].w };

			UNROLL
			for (unsigned c = 0; c < 4; c++) {
				int exempt = some_exempt &&
					     exempt_within(a, at + j * ROUND_COORDINATES + c, 1);

				mark_one(&m, 4 * (half * HALF + j) + c, each[c], exempt, s, seen);
			}
		}
	}
	return m;
}

/* How many of each round the lanes below have (8 bits a round) and all lanes: the order of a tile is round,
 * lane, component. */
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

/* Coordinates of a tile that are marked before this lane's first of the round. */
__device__ static inline uint32_t rank_of(const struct ranks *r, unsigned round)
{
	uint32_t rank = round_field(r->even_before, r->odd_before, round);

	for (unsigned j = 0; j < round; j++)
		rank += round_field(r->even_all, r->odd_all, j);
	return rank;
}

__device__ static inline uint32_t rank_total(const struct ranks *r)
{
	/* 8-bit fields of at most 128, in pairs of 16 bits */
	uint32_t pairs = (r->even_all & 0x00ff00ffu) + (r->even_all >> 8 & 0x00ff00ffu) +
			 (r->odd_all & 0x00ff00ffu) + (r->odd_all >> 8 & 0x00ff00ffu);

	return (pairs & 0xffff) + (pairs >> 16);
}

/* Writes the marked coordinates of a tile to index[at ...) and value[at ...). */
__device__ static inline void write_marks(const struct topk_args *a, uint32_t tile, uint32_t marks,
					  const struct ranks *r, uint32_t at, uint32_t *index,
					  float *value, int clear)
{
	const float *from = a->x ? a->x : a->residual;

	for (uint32_t left = marks; left; left &= left - 1) {
		unsigned bit = (unsigned)__ffs((int)left) - 1, round = bit / 4;
		uint32_t lower = marks & ((1u << bit) - 1) & 0xfu << 4 * round;
		uint32_t to = at + rank_of(r, round) + (uint32_t)__popc((int)lower);
		uint32_t i = tile * TILE_COORDINATES + round * ROUND_COORDINATES + 4 * lane_id() + bit % 4;

		index[to] = i;
		value[to] = from[i];
		if (clear)
			a->residual[i] = 0;
	}
}

/* ---- sweeping the vector ----------------------------------------------------------------------- */

__device__ static inline uint32_t tiles_of(const struct topk_args *a)
{
	return (uint32_t)(((uint64_t)a->n + TILE_COORDINATES - 1) / TILE_COORDINATES);
}

/* What the lanes of a warp counted goes up once. */
__device__ static inline void report(const struct topk_args *a, const struct seen *seen, unsigned attempt)
{
	uint32_t sure = __reduce_add_sync(ALL_LANES, seen->sure);
	uint32_t exempt = a->n_exempt ? __reduce_add_sync(ALL_LANES, seen->exempt) : 0;

	if (lane_id() == 0 && sure)
		atomicAdd(&a->state->sure[attempt], sure);
	if (lane_id() == 0 && exempt)
		atomicAdd(&a->state->exempt[attempt], exempt);
	if (seen->largest > KEY_INFINITY)
		a->state->nan = 1;
}

/* Lists what s asks for while there is room, ascending within a tile. counts: how many of a tile are listed,
 * and in the upper half how many are ties. */
__device__ static inline void sweep(const struct topk_args *a, int adding, struct search s,
				    unsigned attempt)
{
	const uint32_t tiles = tiles_of(a);
	struct seen seen = { 0, 0, 0 };

	for (uint64_t t = (uint64_t)blockIdx.x * WARPS + warp_id(); t < tiles;
	     t += (uint64_t)gridDim.x * WARPS) {
		uint32_t tile = (uint32_t)t, counts = 0, first = 0;
		struct marks m = mark_tile(a, tile, adding, s, &seen);

		if (__any_sync(ALL_LANES, m.listed != 0)) {
			struct ranks r = rank_marks(m.listed);

			counts = rank_total(&r);
			if (lane_id() == 0)
				first = atomicAdd(&a->state->listed[attempt], counts);
			first = __shfl_sync(ALL_LANES, first, 0);
			if (first <= a->room && counts <= a->room - first)
				write_marks(a, tile, m.listed, &r, first, a->candidate_index,
					    a->candidate_value, 0);
			else
				counts = 0; /* this attempt has failed; by level: the last ones */
		}
		if (s.tie)
			counts |= __reduce_add_sync(ALL_LANES, (uint32_t)__popc((int)m.tied)) << 16;
		if (lane_id() == 0) {
			a->first[tile] = first;
			a->counts[tile] = counts;
		}
	}
	report(a, &seen, attempt);
}

/* ---- histograms -------------------------------------------------------------------------------- */

__device__ static inline void clear_bins(struct shared *sh)
{
	__syncthreads();
	for (unsigned i = threadIdx.x; i < BINS; i += BLOCK)
		sh->bins[i] = 0;
	__syncthreads();
}

__device__ static inline void bins_up(struct shared *sh, uint32_t *counts)
{
	__syncthreads();
	for (unsigned i = threadIdx.x; i < BINS; i += BLOCK)
		if (sh->bins[i])
			atomicAdd(&counts[i], sh->bins[i]);
}

/* All lanes call it. Where a warp's keys share a bin, as in sorted or constant vectors, one lane counts for
 * all: 32 additions to one word would wait for each other. */
__device__ static inline void count_one(struct shared *sh, struct known known, unsigned shift, float v)
{
	uint32_t above_low = key_of(v) - known.low;
	uint32_t bin = above_low <= known.high - known.low ? above_low >> shift : (uint32_t)BINS;
	uint32_t of_first = __shfl_sync(ALL_LANES, bin, 0);

	if (__all_sync(ALL_LANES, bin == of_first)) {
		if (lane_id() == 0 && bin < BINS)
			atomicAdd(&sh->bins[bin], (uint32_t)LANES);
	} else if (bin < BINS) {
		atomicAdd(&sh->bins[bin], 1u);
	}
}

__device__ static inline void count_vector(const struct topk_args *a, struct shared *sh, int adding,
					   struct known known, unsigned pass)
{
	const uint32_t tiles = tiles_of(a);
	const unsigned shift = known_shift(known);
	struct seen seen = { 0, 0, 0 };

	clear_bins(sh);
	for (uint64_t t = (uint64_t)blockIdx.x * WARPS + warp_id(); t < tiles;
	     t += (uint64_t)gridDim.x * WARPS) {
		const uint64_t first = t * TILE_COORDINATES;
		const int whole = first + TILE_COORDINATES <= a->n;
		const int some_exempt = exempt_within(a, first, TILE_COORDINATES);

		for (unsigned half = 0; half < 2; half++) {
			const uint64_t at = first + half * HALF * ROUND_COORDINATES + 4 * lane_id();
			float4 v[HALF];

			take_half(a, at, whole, adding, v);
			UNROLL
			for (unsigned j = 0; j < HALF; j++) {
				const float each[4] = { v[j].x, v[j].y, v[j].z, v[j].w };

				UNROLL
				for (unsigned c = 0; c < 4; c++) {
					uint32_t key = key_of(each[c]);
					int exempt = some_exempt &&
						     exempt_within(a, at + j * ROUND_COORDINATES + c, 1);

					count_one(sh, known, shift, exempt ? 0.0f : each[c]);
					seen.largest = key > seen.largest ? key : seen.largest;
				}
			}
		}
	}
	if (seen.largest > KEY_INFINITY)
		a->state->nan = 1;
	bins_up(sh, a->state->of_vector[pass]);
}

__device__ static inline void count_candidates(const struct topk_args *a, struct shared *sh,
					       uint32_t listed, struct known known, unsigned pass)
{
	const unsigned shift = known_shift(known);

	clear_bins(sh);
	/* whole warps go on together */
	for (uint64_t from = (uint64_t)blockIdx.x * BLOCK; from < listed; from += (uint64_t)gridDim.x * BLOCK) {
		uint64_t i = from + threadIdx.x;
		int counts = i < listed && !exempt_within(a, a->candidate_index[i], 1);

		count_one(sh, known, shift, counts ? a->candidate_value[i] : 0.0f);
	}
	bins_up(sh, a->state->of_candidates[pass]);
}

/* From the highest bin down: the one in which the need-th is. sh->bin (BINS: there are fewer), sh->need:
 * how many of it, sh->inside: how many are in it. Every block finds the same. */
__device__ static inline void find_bin(struct shared *sh, const uint32_t *counts, uint32_t need)
{
	enum { EACH = BINS / BLOCK };
	uint32_t mine[EACH];
	uint64_t sum = 0, before, all;

	for (unsigned i = 0; i < EACH; i++)
		sum += mine[i] = counts[BINS - 1 - (threadIdx.x * EACH + i)];
	before = block_before(sum, sh->sums, &all);
	if (threadIdx.x == 0)
		sh->bin = BINS;
	__syncthreads();
	for (unsigned i = 0; i < EACH; i++) {
		if (before < need && before + mine[i] >= need) {
			sh->bin = BINS - 1 - (threadIdx.x * EACH + i);
			sh->need = need - (uint32_t)before;
			sh->inside = mine[i];
		}
		before += mine[i];
	}
	__syncthreads();
}

/* ---- the result, in order ---------------------------------------------------------------------- */

/* Which candidates of a tile the cut takes: how many surely in the lower half, how many ties above. */
__device__ static inline uint64_t tile_counts(const struct topk_args *a, uint32_t tile, struct cut cut,
					      int ties_apart)
{
	const uint32_t counts = a->counts[tile], first = a->first[tile];
	uint64_t sure = 0, ties = 0;

	if (ties_apart)
		return (counts & 0xffff) | (uint64_t)(counts >> 16) << 32;
	for (uint32_t i = first; i < first + (counts & 0xffff); i++) {
		uint32_t key = key_of(a->candidate_value[i]);
		int exempt = exempt_within(a, a->candidate_index[i], 1);

		sure += key > cut.floor || exempt;
		ties += key == cut.floor && !exempt;
	}
	return sure | ties << 32;
}

/* One thread writes what the cut takes of one tile; tie: how many ties there are before. */
__device__ static inline void write_candidates(const struct topk_args *a, uint32_t tile, struct cut cut,
					       uint32_t to, uint32_t tie)
{
	const uint32_t first = a->first[tile], end = first + (a->counts[tile] & 0xffff);

	for (uint32_t i = first; i < end; i++) {
		float v = a->candidate_value[i];
		uint32_t key = key_of(v);
		int taken = key > cut.floor || exempt_within(a, a->candidate_index[i], 1);

		if (key == cut.floor && !taken)
			taken = tie++ < cut.ties;
		if (!taken || to >= a->room)
			continue;
		a->index[to] = a->candidate_index[i];
		a->value[to] = v;
		if (a->clear)
			a->residual[a->candidate_index[i]] = 0;
		to++;
	}
}

/* A warp reads a tile again and writes what is above the floor and the ties that are left. */
__device__ static inline void write_ties(const struct topk_args *a, uint32_t tile, struct cut cut,
					 uint32_t to, uint32_t tie)
{
	const struct search s = { cut.floor + 1, cut.floor, KEY_MASK };
	struct seen unused = { 0, 0, 0 };
	struct marks m = mark_tile(a, tile, 0, s, &unused);
	struct ranks r = rank_marks(m.tied);
	uint32_t taken = 0;

	for (uint32_t left = m.tied; left; left &= left - 1) {
		unsigned bit = (unsigned)__ffs((int)left) - 1, round = bit / 4;
		uint32_t lower = m.tied & ((1u << bit) - 1) & 0xfu << 4 * round;

		if (tie + rank_of(&r, round) + (uint32_t)__popc((int)lower) < cut.ties)
			taken |= 1u << bit;
	}
	taken |= m.listed;
	r = rank_marks(taken);
	write_marks(a, tile, taken, &r, to, a->index, a->value, a->clear);
}

__device__ static inline uint32_t fewer(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* A block takes a run of tiles, each thread one of 256 at a time. Both counts in one word: sums stay below
 * 2^32 each. Returns how many are selected, on every thread. */
__device__ static inline uint32_t put_in_order(const struct topk_args *a, struct shared *sh, struct cut cut,
					       int ties_apart, uint32_t *passed)
{
	const uint32_t tiles = tiles_of(a);
	const uint32_t begin = (uint32_t)((uint64_t)tiles * blockIdx.x / gridDim.x);
	const uint32_t end = (uint32_t)((uint64_t)tiles * (blockIdx.x + 1) / gridDim.x);
	uint64_t sum = 0, before = 0, whole = 0, all, earlier;

	for (uint32_t t = begin + threadIdx.x; t < end; t += BLOCK)
		sum += tile_counts(a, t, cut, ties_apart);
	block_before(sum, sh->sums, &all);
	if (threadIdx.x == 0)
		a->block_sums[blockIdx.x] = all;
	grid_barrier(&a->state->barrier, passed);
	for (unsigned b = threadIdx.x; b < gridDim.x; b += BLOCK) {
		uint64_t of_block = a->block_sums[b];

		whole += of_block;
		before += b < blockIdx.x ? of_block : 0;
	}
	block_before(before, sh->sums, &earlier);
	block_before(whole, sh->sums, &all);
	for (uint32_t from = begin; from < end; from += BLOCK) {
		const uint32_t t = from + threadIdx.x;
		uint64_t mine = t < end ? tile_counts(a, t, cut, ties_apart) : 0, of_turn;
		uint64_t here = earlier + block_before(mine, sh->sums, &of_turn);
		uint32_t tie = (uint32_t)(here >> 32), to = (uint32_t)here + fewer(tie, cut.ties);
		int again = ties_apart && mine >> 32 && tie < cut.ties;

		if (t < end && !again)
			write_candidates(a, t, cut, to, tie);
		for (unsigned l = 0; l < LANES; l++) {
			if (!__shfl_sync(ALL_LANES, (uint32_t)again, l))
				continue;
			write_ties(a, __shfl_sync(ALL_LANES, t, l), cut, __shfl_sync(ALL_LANES, to, l),
				   __shfl_sync(ALL_LANES, tie, l));
		}
		earlier += of_turn;
	}
	return (uint32_t)all + fewer((uint32_t)(all >> 32), cut.ties);
}

/* ---- the whole selection ----------------------------------------------------------------------- */

/* Counts NaN and infinities of grad; 1 if there are any. */
__device__ static inline int judge(const struct topk_args *a, uint32_t *passed)
{
	uint32_t bad = 0, inverted = 0;

	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < a->n; i += (uint64_t)gridDim.x * BLOCK)
		if (key_of(a->grad[i]) >= KEY_INFINITY) {
			bad++;
			inverted = ~(uint32_t)i > inverted ? ~(uint32_t)i : inverted;
		}
	if (bad) {
		atomicAdd(&a->state->nonfinite, bad);
		atomicMax(&a->state->inverted_first, inverted);
	}
	grid_barrier(&a->state->barrier, passed);
	return look(&a->state->nonfinite) != 0;
}

/* Whether what is above an interval, with what is in it, has room; the need-th of the interval is wanted. */
__device__ static inline int fits(const struct topk_args *a, uint32_t need, uint32_t inside)
{
	return (uint64_t)(a->k - need) + inside + a->exempt_coordinates <= a->room;
}

/* The interval that holds the k-th largest key and whose candidates have room, by counting. *need: which
 * of the interval's keys, from the top, is wanted; low > high: fewer than k are not zero. */
__device__ static inline struct known narrow(const struct topk_args *a, struct shared *sh, int adding,
					     uint32_t *passed, uint32_t *passes)
{
	struct known known = { 1, KEY_MASK };
	const struct known all_nonzero = { 1, 0 };
	uint32_t need = a->k;

	for (unsigned pass = 0; pass < NARROWINGS; pass++) {
		const unsigned shift = known_shift(known);

		count_vector(a, sh, adding, known, pass);
		adding = 0;
		*passes += 1;
		grid_barrier(&a->state->barrier, passed);
		find_bin(sh, a->state->of_vector[pass], need);
		if (sh->bin == BINS)
			return all_nonzero;
		need = sh->need;
		known = known_bin(known, shift, sh->bin);
		if (fits(a, sh->need, sh->inside))
			break;
	}
	return known;
}

/* The need-th largest key among the candidates in the interval, and how many equal to it are wanted. */
__device__ static inline struct cut cut_of(const struct topk_args *a, struct shared *sh, uint32_t listed,
					   struct known known, uint32_t need, uint32_t *passed)
{
	struct cut cut;

	for (unsigned pass = 0; pass < NARROWINGS && known.low < known.high; pass++) {
		const unsigned shift = known_shift(known);

		count_candidates(a, sh, listed, known, pass);
		grid_barrier(&a->state->barrier, passed);
		find_bin(sh, a->state->of_candidates[pass], need);
		need = sh->need;
		known = known_bin(known, shift, sh->bin);
	}
	cut.floor = known.low;
	cut.ties = need;
	return cut;
}

/* 256 threads, any number of blocks that are resident together. */
KERNEL(topk, topk_args)
{
	__shared__ struct shared sh;
	struct topk_state *state = a.state;
	struct known near = { 1, 0 };
	struct cut cut = { 0, 0 };
	struct search s;
	uint32_t passed = 0, attempt = 0, passes = 1, listed, within, sure, found, boundary = 0;
	int adding = !a.x, ready = 0, ties_apart = 0;
	const int seeks = !a.by_level && a.k && a.k < a.n - a.exempt_coordinates;

	if (a.judge && judge(&a, &passed))
		return;
	if (seeks && a.hint && hint_foretells(a.hint)) {
		near = hint_around(a.hint);
		s.low = near.low;
		s.tie = 0;
		s.above = near.high;
		sweep(&a, adding, s, 0);
		adding = 0;
		grid_barrier(&state->barrier, &passed);
		listed = look(&state->listed[0]);
		ready = look(&state->sure[0]) <= a.k && listed - look(&state->exempt[0]) >= a.k &&
			listed <= a.room;
		attempt = !ready;
		passes += !ready;
	}
	if (!ready) {
		if (seeks) {
			near = narrow(&a, &sh, adding, &passed, &passes);
			adding = 0;
			ties_apart = near.low == near.high && !fits(&a, sh.need, sh.inside);
		}
		/* Everything that is not zero is sure where k is not the limit, nothing but NaN if k is 0. */
		s.low = a.by_level ? a.level : !a.k ? KEY_INFINITY + 1u : near.low > near.high ? 1 : near.low;
		s.tie = 0;
		s.above = near.low > near.high ? s.low - 1 : near.high;
		if (ties_apart) {
			s.low = near.low + 1;
			s.tie = near.low;
		}
		sweep(&a, adding, s, attempt);
		grid_barrier(&state->barrier, &passed);
	}
	if (look(&state->nan))
		return;
	listed = look(&state->listed[attempt]);
	within = listed - look(&state->exempt[attempt]);
	sure = look(&state->sure[attempt]);
	if (listed > a.room) { /* by level only: which tiles had room is chance, so none is taken */
		if (blockIdx.x == 0 && threadIdx.x == 0)
			state->found = listed;
		return;
	}
	if (!seeks || near.low > near.high) {
		cut.floor = s.low - 1; /* all that is listed */
	} else if (ties_apart) {
		boundary = cut.floor = near.low;
		cut.ties = a.k - sure;
	} else if (sure == a.k) {
		boundary = cut.floor = near.high;
	} else if (within == a.k) {
		boundary = near.low;
		cut.floor = near.low - 1;
	} else {
		cut = cut_of(&a, &sh, listed, near, a.k - sure, &passed);
		boundary = cut.floor;
	}
	found = put_in_order(&a, &sh, cut, ties_apart, &passed);
	if (blockIdx.x == 0 && threadIdx.x == 0) {
		state->found = found;
		state->passes = passes;
		if (a.hint && seeks)
			hint_remember(a.hint, boundary);
	}
}

/* ---- for C ------------------------------------------------------------------------------------- */

FROM_C cudaError_t topk_residents(int *blocks_each)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each, (const void *)topk, BLOCK, 0);
}

FROM_C cudaError_t topk_enqueue(const struct topk_args *args, unsigned grid, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };
	cudaError_t error = cudaMemsetAsync(args->state, 0, sizeof(*args->state), stream);

	if (error != cudaSuccess)
		return error;
	return cudaLaunchCooperativeKernel((const void *)topk, blocks_of(grid), blocks_of(BLOCK), arguments, 0,
					   stream);
}
