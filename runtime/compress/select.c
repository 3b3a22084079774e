/* SPDX-License-Identifier: BSD-3-Clause
 * Exact top-k without sorting. The bits of a float without its sign (the *key*) order as its
 * magnitude. A histogram of the upper bits of all keys tells in which bin the k-th largest lies; the
 * coordinates from that bin up are listed in a second pass, and the rest happens on the short list.
 * Where the list would be long (high density, many ties) the bin is split by further histograms over
 * the vector instead. Called by the worker for gradients and by the shard for deltas. */
#include "select.h"
#include "base/bytes.h"
#include "base/error.h"
#include "sluice.h"
#include <assert.h>
#include <stdlib.h>

/* A *rank* is key - 1: zeros wrap around to the top, beyond every bin, and so are never selected.
 * Its 31 bits are split over three histograms. */
enum {
	KEY_MASK = 0x7fffffff,
	KEY_INFINITY = 0x7f800000,
	FIRST_SHIFT = 20,
	FIRST_BINS = 1 << 11,
	NEXT_BITS = 10,
	NEXT_BINS = 1 << NEXT_BITS,
	ZERO_BIN = UINT32_MAX >> FIRST_SHIFT,
	/* Neighbours increment different counters of a bin: no increment waits for the last one. */
	COPIES = 4,
	BLOCK = 16,
	CHUNK = 1024
};

struct selector {
	size_t n, room;
	uint32_t *counts;  /* [bin][copy], ZERO_BIN + 1 bins */
	uint32_t *listed;  /* room + 1 positions, ascending */
	size_t n_listed;
	enum { LISTED_NONE, LISTED_BIN, LISTED_ALL } what;
};

/* Selected are keys above floor, and the first `ties` of those equal to it (ALL_TIES: all). */
#define ALL_TIES SIZE_MAX
struct cut {
	uint32_t floor;
	size_t ties;
};

static uint32_t key_of(float x)
{
	return float_bits(x) & KEY_MASK;
}

static size_t room_for(size_t n)
{
	/* Twice the usual densities; beyond, a third pass costs less than the memory. */
	return n / 8 + CHUNK;
}

static size_t counts_bytes(void)
{
	return (ZERO_BIN + 1) * COPIES * sizeof(uint32_t);
}

size_t selector_bytes(size_t n)
{
	return sizeof(struct selector) + counts_bytes() + (room_for(n) + 1) * sizeof(uint32_t);
}

int selector_open(size_t n, struct selector **out)
{
	struct selector *s;

	if (n > UINT32_MAX)
		return fail(SLUICE_EINVAL,
			    "cannot select from %zu coordinates: the largest number is %u", n,
			    UINT32_MAX);
	s = calloc(1, sizeof(*s));
	if (s) {
		s->n = n;
		s->room = room_for(n);
		s->counts = malloc(counts_bytes());
		s->listed = malloc((s->room + 1) * sizeof(*s->listed));
	}
	if (!s || !s->counts || !s->listed) {
		selector_close(&s);
		return fail(SLUICE_ENOMEM, "no memory for selecting from %zu coordinates", n);
	}
	*out = s;
	return 0;
}

void selector_close(struct selector **s)
{
	if (!s || !*s)
		return;
	free((*s)->counts);
	free((*s)->listed);
	free(*s);
	*s = NULL;
}

/* ---- finding and listing ---- */

typedef int32_t lanes __attribute__((vector_size(16)));

/* Whether one of x[0..BLOCK) has a key of at least floor, which is > 0 (as signed numbers, keys order
 * the same). */
static inline int block_reaches(const float *x, int32_t floor)
{
	const lanes mask = {KEY_MASK, KEY_MASK, KEY_MASK, KEY_MASK};
	const lanes below = {floor - 1, floor - 1, floor - 1, floor - 1};
	lanes v[BLOCK / 4], reached;
	uint64_t half[2];

	memcpy(v, x, sizeof(v));
	reached = ((v[0] & mask) > below) | ((v[1] & mask) > below) |
		  ((v[2] & mask) > below) | ((v[3] & mask) > below);
	memcpy(half, &reached, sizeof(half));
	return (half[0] | half[1]) != 0;
}

/* Lists in at[], ascending, the positions in [begin, end) with floor <= key <= ceiling; returns how
 * many. at[] has room for one more: storing always and counting sometimes needs no branch. */
static size_t list_range(const float *x, size_t begin, size_t end, uint32_t floor, uint32_t ceiling,
			 uint32_t *at)
{
	size_t n = 0, i = begin;

	for (; i + BLOCK <= end; i += BLOCK) {
		if (!block_reaches(x + i, (int32_t)floor))
			continue;
		for (size_t j = i; j < i + BLOCK; j++) {
			at[n] = (uint32_t)j;
			n += key_of(x[j]) - floor <= ceiling - floor;
		}
	}
	for (; i < end; i++) {
		at[n] = (uint32_t)i;
		n += key_of(x[i]) - floor <= ceiling - floor;
	}
	return n;
}

/* Moves to index[] those of at[0..n) that the cut selects, and uses up its ties. Filters in place
 * first: index[] has no room for the one that storing always would store too much. */
static size_t keep(const float *x, uint32_t *at, size_t n, struct cut *cut, uint32_t *index)
{
	const uint32_t floor = cut->floor;
	size_t kept = 0, ties = cut->ties;

	for (size_t i = 0; i < n; i++) {
		uint32_t key = key_of(x[at[i]]);
		size_t tie = (key == floor) & (ties > 0);

		at[kept] = at[i];
		kept += tie | (key > floor);
		ties -= tie;
	}
	if (cut->ties != ALL_TIES)
		cut->ties = ties;
	memcpy(index, at, kept * sizeof(*index));
	return kept;
}

/* The coordinates of [begin, end) that the cut selects, read from the vector. */
static size_t emit(const float *x, size_t begin, size_t end, struct cut *cut, uint32_t *index)
{
	uint32_t found[CHUNK + 1];
	size_t emitted = 0;

	for (size_t i = begin; i < end; i += CHUNK) {
		size_t stop = end - i < CHUNK ? end : i + CHUNK, n;

		if (!cut->ties && cut->floor < KEY_MASK) { /* no longer stop at the ties */
			cut->floor++;
			cut->ties = ALL_TIES;
		}
		n = list_range(x, i, stop, cut->floor, KEY_MASK, found);
		if (cut->ties == ALL_TIES) {
			memcpy(index + emitted, found, n * sizeof(*index));
			emitted += n;
		} else {
			emitted += keep(x, found, n, cut, index + emitted);
		}
	}
	return emitted;
}

/* ---- histograms ---- */

static void count_first(uint32_t *counts, const float *x, size_t begin, size_t end)
{
	size_t i = begin;

	for (; i + COPIES <= end; i += COPIES) {
		uint32_t a = (key_of(x[i]) - 1) >> FIRST_SHIFT;
		uint32_t b = (key_of(x[i + 1]) - 1) >> FIRST_SHIFT;
		uint32_t c = (key_of(x[i + 2]) - 1) >> FIRST_SHIFT;
		uint32_t d = (key_of(x[i + 3]) - 1) >> FIRST_SHIFT;

		counts[a * COPIES]++;
		counts[b * COPIES + 1]++;
		counts[c * COPIES + 2]++;
		counts[d * COPIES + 3]++;
	}
	for (; i < end; i++)
		counts[((key_of(x[i]) - 1) >> FIRST_SHIFT) * COPIES]++;
}

/* Counts a coordinate by the next bits if its rank lies in the bin `prefix` of the histogram before,
 * else in a bin that nobody reads: which of the two cannot be foretold, so there is no branch. */
static inline void count_next(uint32_t *counts, float x, size_t i, uint32_t prefix, unsigned shift)
{
	uint32_t rank = key_of(x) - 1, bin = rank >> shift & (NEXT_BINS - 1);

	bin = rank >> (shift + NEXT_BITS) == prefix ? bin : NEXT_BINS;
	counts[bin * COPIES + i % COPIES]++;
}

static void count_all(struct selector *s, const float *x, const struct span *spans, size_t n_spans,
		      uint32_t prefix, unsigned shift)
{
	memset(s->counts, 0, (ZERO_BIN + 1) * COPIES * sizeof(*s->counts));
	if (s->what != LISTED_NONE) {
		for (size_t i = 0; i < s->n_listed; i++)
			count_next(s->counts, x[s->listed[i]], i, prefix, shift);
		return;
	}
	for (size_t j = 0; j < n_spans; j++) {
		if (spans[j].exempt)
			continue;
		if (shift == FIRST_SHIFT) {
			count_first(s->counts, x, spans[j].begin, spans[j].end);
			continue;
		}
		for (size_t i = spans[j].begin; i < spans[j].end; i++)
			count_next(s->counts, x[i], i, prefix, shift);
	}
}

/* The bin that holds the need-th largest rank, its count, and how many ranks lie in higher bins.
 * Returns 0 if there are not so many. */
static int boundary_bin(const uint32_t *counts, uint32_t bins, size_t need, uint32_t *bin,
			size_t *in_bin, size_t *above)
{
	size_t higher = 0;

	for (uint32_t b = bins; b-- > 0;) {
		size_t here = 0;

		for (size_t c = 0; c < COPIES; c++)
			here += counts[b * COPIES + c];
		if (higher + here >= need) {
			*bin = b;
			*in_bin = here;
			*above = higher;
			return 1;
		}
		higher += here;
	}
	return 0;
}

/* Lists what is left to judge, if it fits: best everything that may be selected (so that the vector
 * need not be read again), else the boundary bin alone. */
static void list_candidates(struct selector *s, const float *x, const struct span *spans,
			    size_t n_spans, struct cut cut, uint32_t ceiling, size_t in_bin,
			    size_t above)
{
	if (s->what != LISTED_NONE || in_bin > s->room)
		return;
	s->what = LISTED_BIN;
	if (in_bin + above <= s->room) {
		s->what = LISTED_ALL;
		ceiling = KEY_MASK;
	}
	s->n_listed = 0;
	for (size_t j = 0; j < n_spans; j++)
		if (!spans[j].exempt)
			s->n_listed += list_range(x, spans[j].begin, spans[j].end, cut.floor,
						  ceiling, s->listed + s->n_listed);
}

/* The cut that selects the k largest of the non-exempt spans. */
static struct cut find_cut(struct selector *s, const float *x, const struct span *spans,
			   size_t n_spans, size_t k)
{
	const struct cut all_nonzeros = {.floor = 1, .ties = ALL_TIES};
	uint32_t prefix = 0, bins = FIRST_BINS, bin;
	size_t need = k, in_bin, above;

	for (unsigned shift = FIRST_SHIFT;; shift -= NEXT_BITS, bins = NEXT_BINS) {
		struct cut cut = {.ties = ALL_TIES};

		count_all(s, x, spans, n_spans, prefix, shift);
		if (!boundary_bin(s->counts, bins, need, &bin, &in_bin, &above))
			return all_nonzeros;
		need -= above;
		prefix = shift == FIRST_SHIFT ? bin : prefix << NEXT_BITS | bin;
		cut.floor = (prefix << shift) + 1;
		if (in_bin == need)
			return cut;
		if (shift == 0) {
			cut.ties = need;
			return cut;
		}
		list_candidates(s, x, spans, n_spans, cut, cut.floor + ((1u << shift) - 1), in_bin,
				k - need);
	}
}

size_t select_topk(struct selector *s, const float *x, const struct span *spans, size_t n_spans,
		   size_t k, uint32_t *index)
{
	struct cut cut = {.floor = 1, .ties = ALL_TIES}, exempt = cut;
	size_t total = 0, next = 0, n = 0;

	for (size_t j = 0; j < n_spans; j++) {
		assert(spans[j].begin <= spans[j].end && spans[j].end <= s->n);
		if (!spans[j].exempt)
			total += spans[j].end - spans[j].begin;
	}
	s->what = LISTED_NONE;
	if (k && k < total)
		cut = find_cut(s, x, spans, n_spans, k);
	for (size_t j = 0; j < n_spans; j++) {
		size_t first = next;

		if (spans[j].exempt) {
			n += emit(x, spans[j].begin, spans[j].end, &exempt, index + n);
		} else if (k && s->what == LISTED_ALL) {
			while (next < s->n_listed && s->listed[next] < spans[j].end)
				next++;
			n += keep(x, s->listed + first, next - first, &cut, index + n);
		} else if (k) {
			n += emit(x, spans[j].begin, spans[j].end, &cut, index + n);
		}
	}
	return n;
}

size_t select_nonzero(const float *x, size_t n, uint32_t *index)
{
	struct cut cut = {.floor = 1, .ties = ALL_TIES};

	return emit(x, 0, n, &cut, index);
}

size_t first_nonfinite(const float *x, size_t n)
{
	size_t i = 0;

	while (i + BLOCK <= n && !block_reaches(x + i, KEY_INFINITY))
		i += BLOCK;
	while (i < n && key_of(x[i]) < KEY_INFINITY)
		i++;
	return i;
}
