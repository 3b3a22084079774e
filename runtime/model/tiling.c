/* SPDX-License-Identifier: BSD-3-Clause
 * A set of coordinates as a sorted list of ranges (tiling.h). Back-propagation completes its
 * buckets from the last tensor to the first, so the list nearly always has a single range. */
#include "model/tiling.h"
#include "base/error.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>

/* Returns the first range that ends after x, or n if there is none. */
static size_t find_tile(const struct tiling *t, uint64_t x)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->tiles[middle].end > x)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static int grow(struct tiling *t)
{
	size_t room = t->room ? 2 * t->room : 16;
	struct tile *tiles;

	if (t->n < t->room)
		return 0;
	tiles = realloc(t->tiles, room * sizeof *tiles);
	if (!tiles)
		return fail(SLUICE_ENOMEM, "no memory for a list of %zu ranges", room);
	t->tiles = tiles;
	t->room = room;
	return 0;
}

int tiling_add(struct tiling *t, uint64_t begin, uint64_t end, uint64_t *taken_out)
{
	size_t at = find_tile(t, begin);
	int after, before;

	if (at < t->n && t->tiles[at].begin < end) {
		*taken_out = t->tiles[at].begin > begin ? t->tiles[at].begin : begin;
		return SLUICE_EINVAL;
	}
	after = at > 0 && t->tiles[at - 1].end == begin;
	before = at < t->n && t->tiles[at].begin == end;
	if (after && before) {
		t->tiles[at - 1].end = t->tiles[at].end;
		memmove(t->tiles + at, t->tiles + at + 1, (t->n - at - 1) * sizeof *t->tiles);
		t->n--;
	} else if (after) {
		t->tiles[at - 1].end = end;
	} else if (before) {
		t->tiles[at].begin = begin;
	} else {
		if (grow(t))
			return SLUICE_ENOMEM;
		memmove(t->tiles + at + 1, t->tiles + at, (t->n - at) * sizeof *t->tiles);
		t->tiles[at] = (struct tile){ begin, end };
		t->n++;
	}
	return 0;
}

int tiling_covers(const struct tiling *t, uint64_t begin, uint64_t end)
{
	size_t at = find_tile(t, begin);

	return at < t->n && t->tiles[at].begin <= begin && end <= t->tiles[at].end;
}

uint64_t tiling_gap(const struct tiling *t)
{
	return t->n && t->tiles[0].begin == 0 ? t->tiles[0].end : 0;
}

void tiling_clear(struct tiling *t)
{
	t->n = 0;
}

void tiling_free(struct tiling *t)
{
	free(t->tiles);
	*t = (struct tiling){ 0 };
}
