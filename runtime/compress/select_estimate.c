/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the keys between which the k-th largest lies, either from a sample or by counting. The
 * sample's places are spread evenly and shifted pseudo-randomly, so that no data can mislead it by
 * accident. */
#include "select_sweep.h"
#include <math.h>

/* ---- order statistics ---- */

struct cut cut_of(const float *v, size_t n, size_t need, uint32_t low, uint32_t high,
		  uint32_t counts[BINS])
{
	for (;;) {
		const struct known known = { low, high };
		unsigned shift = known_shift(known);
		uint32_t bin, width = high - low;

		memset(counts, 0, BINS * sizeof(*counts));
		for (size_t i = 0; i < n; i++) {
			uint32_t above_low = key_of(v[i]) - low;

			if (above_low <= width)
				counts[above_low >> shift]++;
		}
		for (bin = width >> shift; counts[bin] < need; bin--)
			need -= counts[bin];
		if (shift == 0)
			return (struct cut){ .floor = low + bin, .ties = need };
		low = known_bin(known, shift, bin).low;
		high = known_bin(known, shift, bin).high;
	}
}

/* ---- samples ---- */

enum {
	GROUP = 32,
	SMALLEST = 4096,
	FEW = 1 << 15,
	USUAL = 1 << 16,
	LARGEST = 1 << 18,
	GLANCE = 1 << 13
};

static uint64_t mix_bits(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static float value_at(const struct select_call *call, int adding, uint64_t i)
{
	if (adding)
		return call->residual[i] + call->scale * call->grad[i];
	return call->x ? call->x[i] : call->residual[i];
}

/* How far a walk over the coordinates that are not exempt has come: it is in span j, and `passed`
 * of them are in earlier spans. */
struct walk {
	size_t j;
	uint64_t passed;
};

/* The coordinate at this place among those that are not exempt. Places must ascend. */
static uint64_t walk_to(struct walk *w, const struct select_call *call, uint64_t place)
{
	const struct span *span = call->spans + w->j;

	while (span->exempt || place - w->passed >= span->end - span->begin) {
		w->passed += span->exempt ? 0 : span->end - span->begin;
		span = call->spans + ++w->j;
	}
	return span->begin + (place - w->passed);
}

static uint64_t place_of_group(size_t g, size_t stride, unsigned seed)
{
	uint64_t random = mix_bits(((uint64_t)seed << 32) + g + 1);

	return g * stride + (stride > GROUP ? random % (stride - GROUP) : 0);
}

static void prefetch_group(const struct select_call *call, int adding, uint64_t i)
{
	const float *x = call->x ? call->x : call->residual;

	for (size_t j = 0; j < GROUP; j += GROUP / 2) {
		__builtin_prefetch(x + i + j);
		if (adding)
			__builtin_prefetch(call->grad + i + j);
	}
}

/* Takes the values of about `want` of the `total` coordinates that are not exempt, or of all if
 * there are fewer. */
static size_t sample(const struct select_call *call, int adding, size_t total, size_t want,
		     unsigned seed, float *out)
{
	enum { SOON = 12 }; /* groups that are prefetched before they are read */
	const size_t groups = want / GROUP, stride = groups ? total / groups : 0;
	struct walk asked = { 0, 0 }, read = { 0, 0 };
	size_t n = 0;

	if (total <= want) {
		for (size_t j = 0; j < call->n_spans; j++)
			for (uint64_t i = call->spans[j].begin;
			     !call->spans[j].exempt && i < call->spans[j].end; i++)
				out[n++] = value_at(call, adding, i);
		return n;
	}
	for (size_t g = 0; g < groups + SOON; g++) {
		if (g < groups)
			prefetch_group(call, adding,
				       walk_to(&asked, call, place_of_group(g, stride, seed)));
		if (g < SOON)
			continue;

		uint64_t i = walk_to(&read, call, place_of_group(g - SOON, stride, seed));
		uint64_t end = i + GROUP, last = call->spans[read.j].end;

		for (; i < (end < last ? end : last); i++)
			out[n++] = value_at(call, adding, i);
	}
	return n;
}

/* The rank-th largest key of the sample. */
static uint32_t ranked(struct selector *s, size_t n, size_t rank)
{
	return cut_of(s->near_value, n, rank, 0, KEY_MASK, s->counts).floor;
}

static size_t count_within(const struct selector *s, size_t n, struct known k)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += key_of(s->near_value[i]) - k.low <= k.high - k.low;
	return count;
}

static size_t limited(size_t want, const struct selector *s)
{
	return want > s->near_room ? s->near_room : want;
}

/* A size with which the near coordinates will fit, and which costs little compared with the
 * pass. */
static size_t sample_size(const struct selector *s, size_t total, double p, unsigned attempt)
{
	double share = (double)s->near_room / (double)total;
	double fits = p * (1 - p) * 256 / (share * share);
	size_t want = total / 256, most = p < 0.02 ? FEW : USUAL;

	want = want < SMALLEST ? SMALLEST : want > most ? most : want;
	if (fits > (double)want)
		want = fits > LARGEST ? LARGEST : (size_t)fits;
	return limited(want << 2 * attempt, s);
}

struct known estimate(struct selector *s, const struct select_call *call, int adding, size_t total,
		      struct known known, unsigned attempt)
{
	double p = (double)call->k / (double)total;
	size_t n = sample(call, adding, total, sample_size(s, total, p, attempt), attempt,
			  s->near_value);
	double rank = p * (double)n, sigmas = 4 + 2 * attempt;
	double margin = n == total ? 0 : sigmas * sqrt(rank * (1 - p)) + sigmas;
	size_t middle = n == total ? call->k : (size_t)rank;
	struct known near;

	middle = middle < 1 ? 1 : middle > n ? n : middle;
	for (;; margin = 2 * margin + 1) {
		double high = floor((double)middle - margin), low = ceil((double)middle + margin);

		near.high = high >= 1 ? ranked(s, n, (size_t)high) : KEY_MASK;
		near.low = low <= (double)n ? ranked(s, n, (size_t)low) : 1;
		near.low = near.low < known.low ? known.low : near.low;
		near.high = near.high > known.high ? known.high : near.high;
		if (near.low <= near.high)
			break;
		if (margin > (double)n)
			return known;
	}
	/* If many keys are equal, they would not fit together with others, so the interval becomes
	 * that key alone. */
	double within = (double)count_within(s, n, near) / (double)n * (double)total;
	if (within > 0.8 * (double)s->near_room && near.low < near.high) {
		uint32_t key = ranked(s, n, middle);
		struct known alone;

		key = key < near.low ? near.low : key > near.high ? near.high : key;
		alone.low = alone.high = key;
		if (count_within(s, n, alone) > n / 1000 + 8)
			return alone;
	}
	return near;
}

int hint_agrees(struct selector *s, const struct select_call *call, int adding, size_t total,
		struct known hinted)
{
	size_t n = sample(call, adding, total, limited(GLANCE, s), 0, s->near_value);
	double rank = (double)call->k / (double)total * (double)n, slack = 4 * sqrt(rank) + 4;
	const struct known above = { hinted.high < KEY_MASK ? hinted.high + 1 : KEY_MASK,
				     KEY_MASK };
	double sure = (double)count_within(s, n, above), near = (double)count_within(s, n, hinted);
	double room = (double)s->near_room / (double)total * (double)n;

	return sure <= rank + slack && sure + near >= rank - slack &&
	       near + 2 * sqrt(near) <= room + 4;
}

/* ---- counting ---- */

struct known narrow(struct selector *s, const float *x, const struct select_call *call,
		    struct known known)
{
	while (known.low < known.high) {
		uint32_t width = known.high - known.low, bin;
		size_t need = call->k;
		unsigned shift = known_shift(known);

		memset(s->counts, 0, BINS * sizeof(*s->counts));
		for (size_t j = 0; j < call->n_spans; j++)
			for (uint64_t i = call->spans[j].begin;
			     !call->spans[j].exempt && i < call->spans[j].end; i++) {
				uint32_t above_low = key_of(x[i]) - known.low;

				if (above_low <= width)
					s->counts[above_low >> shift]++;
				else if (above_low < 0x80000000u)
					need -= need > 0;
			}
		for (bin = width >> shift; bin && s->counts[bin] < need; bin--)
			need -= s->counts[bin];
		if (s->counts[bin] < need)
			return (struct known){ 1, 0 }; /* fewer than k values are not zero */
		known = known_bin(known, shift, bin);
		if (s->counts[bin] <= s->near_room)
			break;
	}
	return known;
}
