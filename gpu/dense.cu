/* SPDX-License-Identifier: BSD-3-Clause
 * A push that sends every coordinate. One cooperative launch adds the gradient to the residual,
 * makes the payloads of all parts, and subtracts their contents from the residual. The payloads are
 * byte for byte those of message_encode() without positions (runtime/compress/message.h). Each part
 * has a team of blocks, or each block has several parts; consecutive threads handle consecutive
 * coordinates. 256 threads, any number of blocks that are resident together. Shared memory: none.
 *
 * f32 and bf16 take one pass. f16 takes two, because the scale of a message follows from its
 * largest magnitude. For values in few bits this kernel only computes the sum, and quantize.cu,
 * which follows in the stream, encodes it.
 *
 * Memory per coordinate: f32 and bf16 read the gradient and the residual, write the payload, and
 * write the residual where it changes. With f32 it changes only where an earlier step of another
 * kind left a value. If no memory is kept, the residual is not accessed. f16 and few bits write the
 * sum to the residual, and read and write it again. */
#include "gpu/compressor.h"
#include "gpu/sweep.h"
#include "gpu/values.h"

enum { DENSE_AT_ONCE = 4 };

/* The values that one thread has found. */
struct dense_seen {
	uint32_t largest, bad, inverted;
};

__device__ static inline float gradient_at(const struct push_dense_args *a, uint64_t i)
{
	TOUCH(a->grad_type == VALUE_F32 ? 4 : value_eight(a->grad_type) ? 1 : 2);
	return a->grad_type == VALUE_F32 ? ((const float *)a->grad)[i] :
					   widened_at(a->grad, i, a->grad_type, a->grad_scale);
}

__device__ static inline void report_judged(const struct push_dense_args *a, uint32_t bad,
					    uint32_t inverted)
{
	if (!bad)
		return;
	atomicAdd(&a->summary->nonfinite, bad);
	atomicMax(&a->summary->inverted_first, inverted);
}

/* Checks the whole gradient for NaN and infinity before anything is changed. */
__device__ static inline void judge_gradient(const struct push_dense_args *a)
{
	uint32_t passed = 0, bad = 0, inverted = 0;

	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < a->n;
	     i += (uint64_t)gridDim.x * BLOCK)
		judge_one(gradient_at(a, i), i, &bad, &inverted);
	report_judged(a, bad, inverted);
	grid_barrier(a->barrier, &passed);
}

/* ---- one pass over a part ---------------------------------------------------- */

/* The arguments of one pass of a team over a part. */
struct dense_pass {
	uint64_t begin, span;
	uint64_t thread, threads;
	int adds;       /* 1: add the gradient; 0: the residual already is the sum */
	int writes;     /* 1: write the payload; 0: only the sum */
	uint8_t *to;    /* the payload */
	unsigned width; /* bytes per value in the payload */
	float scale, limit;
};

/* Returns the sum at coordinate i. *left receives the new value of the residual. */
__device__ static inline float dense_sum(const struct push_dense_args *a,
					 const struct dense_pass *s, uint64_t i, float *left,
					 struct dense_seen *seen)
{
	float g;

	*left = 0;
	if (a->keep || !s->adds) {
		TOUCH(sizeof(*left));
		*left = a->residual[i];
	}
	if (!s->adds)
		return *left;
	g = gradient_at(a, i);
	judge_one(g, i, &seen->bad, &seen->inverted);
	g = a->scale * g;
	return a->keep ? *left + g : g;
}

__device__ static inline void store_sum(const struct push_dense_args *a, uint64_t i, float v)
{
	TOUCH(sizeof(v));
	a->residual[i] = v;
}

/* Writes value v of coordinate i of the part, and what remains of it. */
__device__ static inline void send_one(const struct push_dense_args *a, const struct dense_pass *s,
				       uint64_t i, float v, float left)
{
	const float rest = v -
			   write_value(a->values.type, s->scale, s->limit, v, s->to + s->width * i);

	TOUCH(s->width);
	if (a->keep && float_bits(rest) != float_bits(left))
		store_sum(a, s->begin + i, rest);
}

/* All loads of one iteration precede its stores, so that no load waits for a store. */
__device__ static inline void pass_over(const struct push_dense_args *a, const struct dense_pass *s,
					struct dense_seen *seen)
{
	for (uint64_t from = s->thread; from < s->span; from += DENSE_AT_ONCE * s->threads) {
		float v[DENSE_AT_ONCE], left[DENSE_AT_ONCE];

		UNROLL
		for (unsigned j = 0; j < DENSE_AT_ONCE; j++) {
			const uint64_t i = from + j * s->threads;

			v[j] = left[j] = 0;
			if (i < s->span)
				v[j] = dense_sum(a, s, s->begin + i, &left[j], seen);
		}
		UNROLL
		for (unsigned j = 0; j < DENSE_AT_ONCE; j++) {
			const uint64_t i = from + j * s->threads;
			const uint32_t key = key_of(v[j]);

			seen->largest = key > seen->largest ? key : seen->largest;
			if (i < s->span && s->writes)
				send_one(a, s, i, v[j], left[j]);
			else if (i < s->span && s->adds)
				store_sum(a, s->begin + i, v[j]);
		}
	}
}

/* ---- a part ------------------------------------------------------------------ */

/* Returns the scale of an f16 message, which follows from the largest magnitude that any thread of
 * the team has found. */
__device__ static inline float scale_of_team(struct pack_state *state, uint32_t largest,
					     struct team t)
{
	uint32_t passed = 0;

	largest = __reduce_max_sync(ALL_LANES, largest);
	if (lane_id() == 0 && largest)
		atomicMax(&state->largest, largest);
	team_barrier(&state->barrier, &passed, t.blocks);
	return f16_scale_of(look(&state->largest));
}

/* Sends one part. All blocks of the team call this. */
__device__ static inline void dense_part(const struct push_dense_args *a, uint32_t p, struct team t,
					 int adds, struct dense_seen *all)
{
	const struct push_place *place = &a->place[p];
	struct pack_state *state = &a->part[p].packing;
	const int few_bits = value_few_bits(a->values.type), twice = a->values.type == VALUE_F16;
	struct dense_seen seen = { 0, 0, 0 };
	struct dense_pass pass;

	pass.begin = place->begin;
	pass.span = place->span;
	pass.thread = (uint64_t)t.block * BLOCK + threadIdx.x;
	pass.threads = (uint64_t)t.blocks * BLOCK;
	pass.adds = adds;
	pass.writes = !few_bits && !twice;
	pass.to = place->payload;
	pass.width = a->values.type == VALUE_F32 ? 4 : 2;
	pass.scale = pass.limit = 1;
	pass_over(a, &pass, &seen);
	if (twice) {
		pass.scale = scale_of_team(state, seen.largest, t);
		pass.limit = f16_limit(pass.scale);
		pass.adds = 0;
		pass.writes = 1;
		pass_over(a, &pass, &seen);
	}
	all->largest = seen.largest > all->largest ? seen.largest : all->largest;
	all->bad += seen.bad;
	all->inverted = seen.inverted > all->inverted ? seen.inverted : all->inverted;
	if (pass.thread)
		return;
	state->payload_bytes = (uint32_t)section_of_values(place->span, &a->values);
	zero_between(place->payload, values_length(place->span, &a->values), state->payload_bytes);
	state->coding = CODING_DENSE;
	state->scale = pass.scale;
	state->verdict = PACK_DONE;
}

/* Makes the part's message empty, for a refused gradient. */
__device__ static inline void empty_part(struct push_part *part)
{
	part->range.first = part->range.count = 0;
	part->packing.payload_bytes = 0;
	part->packing.coding = CODING_RAW;
	part->packing.scale = 1;
	part->packing.verdict = PACK_DONE;
}

KERNEL(dense_push, push_dense_args)
{
	struct dense_seen seen = { 0, 0, 0 };
	uint32_t p;
	const struct team t = team_of(a.parts, &p);
	int refused;

	if (a.adds && a.judge == DEVICE_JUDGE_FIRST)
		judge_gradient(&a);
	refused = a.judge == DEVICE_JUDGE_FIRST && look(&a.summary->nonfinite);
	for (; p < a.parts; p += gridDim.x) {
		if (!refused || a.sends_left)
			dense_part(&a, p, t, a.adds && !refused, &seen);
		else if (t.block == 0 && threadIdx.x == 0)
			empty_part(&a.part[p]);
	}
	if (a.judge == DEVICE_JUDGE_LATE)
		report_judged(&a, seen.bad, seen.inverted);
	seen.largest = __reduce_max_sync(ALL_LANES, seen.largest);
	if (lane_id() == 0 && seen.largest)
		atomicMax(&a.summary->largest, seen.largest);
}

FROM_C cudaError_t dense_push_residents(int *blocks_each)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each, (const void *)dense_push,
							     BLOCK, 0);
}

FROM_C cudaError_t dense_push_enqueue(const struct push_dense_args *args, unsigned grid,
				      cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchCooperativeKernel((const void *)dense_push, blocks_of(grid),
					   blocks_of(BLOCK), arguments, 0, stream);
}
