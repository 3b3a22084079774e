/* SPDX-License-Identifier: BSD-3-Clause
 * The rules of exact selection that the CPU's passes and the GPU's kernels share: how magnitudes
 * are ordered, how an interval is cut into bins, and where the next boundary is expected. Pure,
 * inline. */
#ifndef COMPRESS_SELECT_RULES_H
#define COMPRESS_SELECT_RULES_H
#include "base/bytes.h"
#include <stdint.h>

/* The *key* of a float is its bits without the sign. Keys have the order of magnitudes, with NaN
 * above infinity. */
enum { KEY_MASK = 0x7fffffff, KEY_INFINITY = 0x7f800000 };

HOST_AND_DEVICE static inline uint32_t key_of(float x)
{
	return float_bits(x) & KEY_MASK;
}

/* ---- intervals ------------------------------------------------------------- */

/* An interval that contains the k-th largest key: low <= key <= high. Bins are counted from low. */
struct known {
	uint32_t low, high;
};
enum { BINS = 2048 };

/* Returns the shift. A bin is 2^shift keys wide. */
HOST_AND_DEVICE static inline unsigned known_shift(struct known known)
{
	unsigned shift = 0;

	while ((known.high - known.low) >> shift >= BINS)
		shift++;
	return shift;
}

HOST_AND_DEVICE static inline struct known known_bin(struct known known, unsigned shift,
						     uint32_t bin)
{
	known.low += bin << shift;
	if (known.high - known.low >= 1u << shift)
		known.high = known.low + (1u << shift) - 1;
	return known;
}

/* ---- blocks ---------------------------------------------------------------- */

/* The longest block of block-topk, which is the tile of a selector (select_sweep.h), and the
 * shortest block from which a GPU selects with all threads of a thread block. */
enum { SELECT_BLOCK_MOST = 16384, SELECT_BLOCK_ON_DEVICE = 256 };

/* Returns how many of n coordinates are selected if k of `length` are, rounded up. */
HOST_AND_DEVICE static inline uint32_t block_quota(uint32_t k, uint32_t length, uint32_t n)
{
	return (uint32_t)(((uint64_t)k * n + length - 1) / length);
}

/* ---- hints ----------------------------------------------------------------- */

/* last: the boundary in the last vector of a sequence, as the bits of a magnitude. next: the
 * boundary that is expected in the next vector, within `width`. With width 0, nothing is expected.
 * Must be zeroed before the first vector. A wrong hint costs time, at most about one pass. */
struct select_hint {
	uint32_t last, next, width;
};
enum { HINT_NARROWEST = 1 << 13, HINT_WIDEST = 1 << 20 };

HOST_AND_DEVICE static inline int hint_foretells(const struct select_hint *hint)
{
	return hint->width && hint->next < KEY_INFINITY;
}

HOST_AND_DEVICE static inline struct known hint_around(const struct select_hint *hint)
{
	struct known k = { 1, KEY_MASK };

	if (hint->next > hint->width)
		k.low = hint->next - hint->width;
	if (hint->width < KEY_INFINITY - hint->next)
		k.high = hint->next + hint->width;
	return k;
}

HOST_AND_DEVICE static inline uint32_t key_distance(uint32_t a, uint32_t b)
{
	return a > b ? a - b : b - a;
}

/* Expects the boundary to repeat its last movement. The interval is as wide as the last error, and
 * narrows slowly, because one good prediction may be luck. */
HOST_AND_DEVICE static inline void hint_remember(struct select_hint *hint, uint32_t key)
{
	uint32_t moved = key_distance(key, hint->last), off = key_distance(key, hint->next);
	uint32_t width = moved / 8 + (off < HINT_WIDEST ? 3 * off : HINT_WIDEST);
	uint32_t least = hint->width - hint->width / 4;

	if (hint->last == 0 || moved > HINT_WIDEST) {
		hint->next = key;
		width = 0; /* the boundary moves too fast to predict it */
	} else {
		hint->next = key + (key - hint->last);
		least = least < HINT_NARROWEST ? HINT_NARROWEST : least;
		width = width < least ? least : width > HINT_WIDEST ? HINT_WIDEST : width;
	}
	hint->last = key;
	hint->width = width;
}
#endif
