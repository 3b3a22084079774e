/* SPDX-License-Identifier: BSD-3-Clause
 * How the selection kernels sweep a vector, for the instruction set of wide.h. Up to three walks go
 * over each block, but only the first one reads from memory. It rules out turns of 32 coordinates
 * without a candidate, which are most of them. Hardly any branch depends on data, because such
 * branches cannot be predicted at 1 %. While the other walks work, memory for the next block is
 * prefetched. */
#ifndef COMPRESS_SELECT_WIDE_H
#define COMPRESS_SELECT_WIDE_H
#include "select_kernels.h"
#include "wide.h"

enum { TURN = 32, LINE = 16, BLOCK = 1024, ADD = 1, VALUES = 2, CLEAR = 4 };
/* If this many turns of a block have a candidate, most of them have several. */
enum { MANY = BLOCK / TURN * 3 / 4 };

/* Returns the distance in coordinates by which memory is prefetched. It must be far enough for the
 * data to arrive in time, and near enough for the number of cache lines that the processor can load
 * at once. On Zen 4, distances of 48 to 96 take the same time, and 128 takes a tenth to a quarter
 * more. On Emerald Rapids, 512 takes a fifth less time than 64. If no gradient is added and few
 * turns are hit, 1024 takes another twentieth less than 512; otherwise it takes more than 512.
 * n_hits: number of turns that were hit in the previous block of this sweep, 0 in its first. */
FOR_WIDE size_t prefetch_distance(size_t n_hits, const int flags)
{
#if defined(__x86_64__)
	if (__builtin_cpu_is("intel"))
		return n_hits < MANY && !(flags & ADD) ? 1024 : 512;
#endif
	(void)n_hits, (void)flags;
	return 64;
}

FOR_WIDE void ask_for(const float *x, const float *grad, size_t i, const int flags)
{
	if (flags & ADD) {
		__builtin_prefetch(x + i, 1, 3);
		__builtin_prefetch(grad + i, 0, 3);
	} else {
		__builtin_prefetch(x + i, 0, 3);
	}
}

/* Adds the gradient if there is one, and records in hits[] the turns that have a candidate.
 * Prefetches memory `ahead` of the walk. */
FOR_WIDE size_t find(const float *x, float *residual, const float *grad, float scale, size_t begin,
		     size_t end, int32_t below, size_t ahead, uint32_t *hits, const int flags)
{
	size_t n = 0;

	for (size_t i = begin; i < end; i += TURN) {
		ints key[TURN / NARROW];

#pragma GCC unroll 8
		for (size_t j = 0; j < TURN / NARROW; j++) {
			const size_t at = i + j * NARROW;
			floats v = load_floats(x + at);

			if (flags & ADD) {
				v += scale * load_floats(grad + at);
				memcpy(residual + at, &v, sizeof(v));
			}
			key[j] = (ints)v & KEY_MASK;
		}
		ask_for(x, grad, i + ahead, flags);
		ask_for(x, grad, i + ahead + LINE, flags);
		hits[n] = (uint32_t)i;
		n += (size_t)any_above(key, below);
	}
	return n;
}

/* Returns a mask of the lanes of a turn whose key is above `below`. */
FOR_WIDE uint32_t candidates_of(const float *x, int32_t below)
{
	ints key[TURN / NARROW];

#pragma GCC unroll 8
	for (size_t j = 0; j < TURN / NARROW; j++)
		key[j] = load_ints(x + j * NARROW) & KEY_MASK;
	return all_above(key, below);
}

/* The walk over candidates[] that separates the sure ones from the near ones, and zeroes the sure
 * ones if requested. */
FOR_WIDE void separate(const float *x, float *residual, const float *grad,
		       const uint32_t *candidates, size_t n, int32_t above, size_t soon,
		       struct select_lists *out, const int flags)
{
	struct select_lists l = *out;

	for (size_t j = 0; j < n; j++, soon += LINE) {
		const uint32_t i = candidates[j];
		const float v = x[i];
		const int32_t key = (int32_t)key_of(v);
		const uint32_t sure = key > above;

		ask_for(x, grad, soon, flags);
		l.index[l.n] = i;
		if (flags & VALUES)
			l.value[l.n] = v;
		l.near_index[l.n_near] = i;
		l.near_value[l.n_near] = v;
		if (flags & CLEAR)
			residual[i] = bits_float(float_bits(v) & (sure - 1));
		l.n += sure;
		l.n_near += sure ^ 1;
		l.largest = key > l.largest ? key : l.largest;
	}
	*out = l;
}

/* Does what separate() does, if both bounds are equal: all n candidates are sure ones, and their
 * indices are in the list already. */
FOR_WIDE void take_all(const float *x, float *residual, const float *grad, size_t n, size_t soon,
		       struct select_lists *out, const int flags)
{
	const uint32_t *index = out->index + out->n;
	float *value = flags & VALUES ? out->value + out->n : NULL;
	int32_t largest = out->largest;

	for (size_t j = 0; j < n; j++, soon += LINE) {
		const float v = x[index[j]];
		const int32_t key = (int32_t)key_of(v);

		ask_for(x, grad, soon, flags);
		if (flags & VALUES)
			value[j] = v;
		if (flags & CLEAR)
			residual[index[j]] = 0;
		largest = key > largest ? key : largest;
	}
	out->n += n;
	out->largest = largest;
}

/* The second and third walk if few turns were hit. Lists one candidate after another. It always
 * stores two candidates of a turn, even if there are fewer, so that only a third one needs a branch
 * that depends on data. Meanwhile it prefetches memory from `soon` on, because the memory bus would
 * otherwise be idle. If both bounds are equal, it stores the candidates in the list at once. */
FOR_WIDE void list_few(const float *x, float *residual, const float *grad, const uint32_t *hits,
		       size_t n_hits, struct select_bounds b, size_t soon, struct select_lists *l,
		       const int flags)
{
	const int equal = b.above == b.below;
	uint32_t own[BLOCK + 1], *candidates = equal ? l->index + l->n : own;
	size_t n = 0, next;

	for (size_t h = 0; h < n_hits; h++, n = next, soon += LINE) {
		const uint32_t found = candidates_of(x + hits[h], b.below);
		/* Bit 32 stands for a second candidate if there is none. */
		uint64_t m = found | (uint64_t)1 << TURN;

		ask_for(x, grad, soon, flags);
		next = n + (size_t)__builtin_popcount(found);
		candidates[n++] = hits[h] + (uint32_t)__builtin_ctzll(m);
		m &= m - 1;
		candidates[n++] = hits[h] + (uint32_t)__builtin_ctzll(m);
		for (; n < next; n++) {
			m &= m - 1;
			candidates[n] = hits[h] + (uint32_t)__builtin_ctzll(m);
		}
	}
	if (equal)
		take_all(x, residual, grad, n, soon, l, flags);
	else
		separate(x, residual, grad, candidates, n, b.above, soon, l, flags);
}

#ifdef LANES
/* The second walk if many turns were hit. Lists the sure candidates, and zeroes them if requested.
 * Leaves in hits[] the turns with near candidates, and returns their number. */
FOR_WIDE size_t list_sure(const float *x, float *residual, const float *grad, uint32_t *hits,
			  size_t n_hits, struct select_bounds b, size_t soon,
			  struct select_lists *l, const int flags)
{
	lanes largest = { 0 };
	size_t n_near = 0;

	for (size_t h = 0; h < n_hits; h++, soon += flags & ADD ? LINE : TURN) {
		const uint32_t at = hits[h];
		numbers position = lane_numbers() + at;
		lanes near = { 0 };

		ask_for(x, grad, soon, flags);
		if (!(flags & ADD))
			ask_for(x, grad, soon + LINE, flags);
#pragma GCC unroll 8
		for (uint32_t i = 0; i < TURN; i += LANES) {
			const lanes v = load_lanes(x + at + i), key = v & KEY_MASK;
			const unsigned sure = mask_above(key, b.above);

			compress(l->index + l->n, (lanes)position, sure);
			if (flags & VALUES)
				compress(l->value + l->n, v, sure);
			if (flags & CLEAR) {
				const lanes rest = v & (key <= b.above);

				memcpy(residual + at + i, &rest, sizeof(rest));
			}
			l->n += (size_t)__builtin_popcount(sure);
			near = larger_up_to(near, key, b.above);
			position += LANES;
			largest = larger(largest, key);
		}
		hits[n_near] = at;
		n_near += mask_above(near, b.below) != 0;
	}
	for (size_t j = 0; j < LANES; j++)
		l->largest = largest[j] > l->largest ? largest[j] : l->largest;
	return n_near;
}

/* The third walk: lists the near candidates of the turns that the second one left. */
FOR_WIDE void list_near(const float *x, const uint32_t *hits, size_t n_hits, struct select_bounds b,
			struct select_lists *l)
{
	for (size_t h = 0; h < n_hits; h++) {
		numbers position = lane_numbers() + hits[h];

#pragma GCC unroll 8
		for (uint32_t i = 0; i < TURN; i += LANES) {
			const lanes v = load_lanes(x + hits[h] + i), key = v & KEY_MASK;
			const unsigned near = mask_above(key, b.above) ^ mask_above(key, b.below);

			compress(l->near_index + l->n_near, (lanes)position, near);
			compress(l->near_value + l->n_near, v, near);
			l->n_near += (size_t)__builtin_popcount(near);
			position += LANES;
		}
	}
}

FOR_WIDE void list_many(const float *x, float *residual, const float *grad, uint32_t *hits,
			size_t n_hits, struct select_bounds b, size_t soon, struct select_lists *l,
			const int flags)
{
	n_hits = list_sure(x, residual, grad, hits, n_hits, b, soon, l, flags);
	list_near(x, hits, n_hits, b, l);
}
#else
#define list_many list_few
#endif

/* Sweeps as select_kernels.h says. residual is the same as x if a gradient is added, and otherwise
 * NULL. */
FOR_WIDE void sweep(const float *x, float *residual, const float *grad, float scale, size_t begin,
		    size_t end, struct select_bounds b, struct select_lists *out, const int flags)
{
	const size_t whole = end - (end - begin) % TURN;
	uint32_t hits[BLOCK / TURN + 1], last[TURN];
	struct select_lists l = *out;
	size_t i = begin, next, n = 0, ahead;

	l.n = l.n_near = 0;
	for (; i < whole; i = next) {
		next = whole - i < BLOCK ? whole : i + BLOCK;
		ahead = prefetch_distance(n, flags);
		n = find(x, residual, grad, scale, i, next, b.below, ahead, hits, flags);
		if (n < MANY)
			list_few(x, residual, grad, hits, n, b, next + ahead, &l, flags);
		else
			list_many(x, residual, grad, hits, n, b, next + ahead, &l, flags);
	}
	for (n = 0; i < end; i++) {
		if (flags & ADD)
			residual[i] = x[i] + scale * grad[i];
		last[n] = (uint32_t)i;
		n += (int32_t)key_of(x[i]) > b.below;
	}
	separate(x, residual, grad, last, n, b.above, i, &l, flags);
	*out = l;
}

WIDE_TARGET static void list(const float *x, size_t begin, size_t end, struct select_bounds b,
			     struct select_lists *l)
{
	sweep(x, NULL, NULL, 0, begin, end, b, l, 0);
}

WIDE_TARGET static void list_values(const float *x, size_t begin, size_t end,
				    struct select_bounds b, struct select_lists *l)
{
	sweep(x, NULL, NULL, 0, begin, end, b, l, VALUES);
}

WIDE_TARGET static void add_list(float *residual, const float *grad, float scale, size_t begin,
				 size_t end, struct select_bounds b, struct select_lists *l)
{
	sweep(residual, residual, grad, scale, begin, end, b, l, ADD);
}

WIDE_TARGET static void add_take(float *residual, const float *grad, float scale, size_t begin,
				 size_t end, struct select_bounds b, struct select_lists *l)
{
	sweep(residual, residual, grad, scale, begin, end, b, l, ADD | VALUES | CLEAR);
}

/* Tests two turns at a time. A difference is negative if the value is NaN or infinite. */
WIDE_TARGET static size_t nonfinite(const float *x, size_t n)
{
	size_t i = 0;

	for (; i + 2 * TURN <= n; i += 2 * TURN) {
		ints full = { 0 };

#pragma GCC unroll 16
		for (size_t j = i; j < i + 2 * TURN; j += NARROW)
			full |= KEY_INFINITY - 1 - (load_ints(x + j) & KEY_MASK);
		if (any_negative(full))
			break;
	}
	while (i < n && key_of(x[i]) < KEY_INFINITY)
		i++;
	return i;
}

WIDE_TARGET static size_t keep_above(const float *value, uint32_t *index, size_t n, int32_t level)
{
	size_t kept = 0;

#ifdef LANES
	for (size_t i = 0; i < n; i += LANES) {
		const unsigned above = mask_above(load_lanes(value + i) & KEY_MASK, level);

		compress(index + kept, load_lanes(index + i), above);
		kept += (size_t)__builtin_popcount(above);
	}
#else
	for (size_t i = 0; i < n; i++) {
		index[kept] = index[i];
		kept += (int32_t)key_of(value[i]) > level;
	}
#endif
	return kept;
}

const struct select_kernels WIDE(select) = { WIDE_NAME, WIDE_USABLE, list,      list_values,
					     add_list,  add_take,    nonfinite, keep_above };
#endif
