/* SPDX-License-Identifier: BSD-3-Clause
 * Exact top-k in little more than one pass. A sample, or the boundary in the last vector, gives an
 * interval of keys for the k-th largest. A pass lists the coordinates above this interval (sure)
 * and, separately, those within it (near). The largest of the near ones are then found exactly and
 * merged in. The pass also counts, so it detects a wrong estimate and narrows the next one. Called
 * by the worker for gradients and by the shard for deltas. */
#include "select.h"
#include "base/error.h"
#include "select_sweep.h"
#include "sluice.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ---- scratch ---- */

enum {
	ROOM_LEAST = 4096,
	MERGE_SHARED = 1 << 18 /* with fewer entries, one thread has merged them before another
				  one has woken up */
};

struct sizes {
	size_t room, tile;
};

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static struct sizes sizes_for(size_t n, size_t room)
{
	struct sizes z = { .room = room + ROOM_LEAST, .tile = least(n, TILE) };

	if (z.room > n)
		z.room = n; /* there cannot be more near coordinates than this */
	return z;
}

static size_t usual_room(size_t n)
{
	return n / 64;
}

static size_t bytes_for(struct sizes z)
{
	return sizeof(struct selector) + (z.room + 1) * (sizeof(uint32_t) + sizeof(float)) +
	       BINS * sizeof(uint32_t) + stage_bytes(z.tile);
}

size_t selector_bytes(size_t n)
{
	return bytes_for(sizes_for(n, usual_room(n)));
}

/* One allocation holds the selector and its arrays. */
static int open_with(size_t n, size_t room, struct selector **out)
{
	const struct sizes z = sizes_for(n, room);
	struct selector *s;

	if (n > UINT32_MAX)
		return fail(SLUICE_EINVAL, "cannot select from %zu coordinates: the maximum is %u",
			    n, UINT32_MAX);
	if (!select_best())
		return fail(SLUICE_ENOSUPP,
			    "SLUICE_KERNELS=%s: Sluice has no such version of its kernels, or this "
			    "processor lacks the instructions for it; choose auto, avx512, avx2 or "
			    "portable",
			    getenv("SLUICE_KERNELS"));
	s = malloc(bytes_for(z));
	if (!s)
		return fail(SLUICE_ENOMEM, "no memory for selecting from %zu coordinates", n);
	*s = (struct selector){ .kernels = select_best(),
				.n = n,
				.tile = z.tile,
				.shared_tile = least(n, TILE_SHARED),
				.near_room = z.room,
				.merge_least = MERGE_SHARED };
	s->counts = (void *)(s + 1);
	s->near_index = s->counts + BINS;
	s->near_value = (void *)(s->near_index + z.room + 1);
	s->stage = stage_in(s->near_value + z.room + 1, z.tile);
	pthread_mutex_init(&s->lock, NULL);
	*out = s;
	return 0;
}

int selector_open(size_t n, struct selector **out)
{
	return open_with(n, usual_room(n), out);
}

int selector_open_for(size_t n, size_t k, unsigned threads, struct selector **out)
{
	int rc = open_with(n, (n / 100 + (k < n ? k : n)) / 2, out);

	if (rc || threads < 2)
		return rc;
	rc = team_open(threads, stage_bytes((*out)->shared_tile), &(*out)->team);
	(*out)->owns_team = 1;
	if (rc)
		selector_close(out);
	return rc;
}

size_t selector_team_memory(void)
{
	return stage_bytes(TILE_SHARED);
}

void selector_share(struct selector *s, struct team *team)
{
	s->team = team;
}

void selector_close(struct selector **s)
{
	if (!s || !*s)
		return;
	if ((*s)->owns_team)
		team_close(&(*s)->team);
	pthread_mutex_destroy(&(*s)->lock);
	free(*s);
	*s = NULL;
}

/* ---- samples ----
 *
 * The positions of a sample are spread evenly and shifted pseudo-randomly, so that no regular data
 * can mislead it. */

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

/* The progress of a walk over the coordinates that are not exempt. It is in span j, and `passed` of
 * them are in earlier spans. */
struct walk {
	size_t j;
	uint64_t passed;
};

/* Returns the coordinate at this position among those that are not exempt. Positions must
 * ascend. */
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

/* Reads the values of about `want` of the `total` coordinates that are not exempt, or of all if
 * there are fewer. */
static size_t sample(const struct select_call *call, int adding, size_t total, size_t want,
		     unsigned seed, float *out)
{
	enum { SOON = 12 }; /* number of groups that are prefetched before they are read */
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

/* Returns the rank-th largest key of the sample. */
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

/* Returns a sample size with which the near coordinates will fit. Such a sample costs little
 * compared with the pass. */
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

/* Samples the keys to estimate an interval for the next pass. The interval most probably contains
 * the k-th largest key. With each attempt, the sample is larger and the interval wider. */
static struct known estimate(struct selector *s, const struct select_call *call, int adding,
			     size_t total, struct known known, unsigned attempt)
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
	/* If many keys are equal, the interval becomes that key alone, because the coordinates with
	 * this key would not fit together with others. */
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

/* Returns 1 if a small sample confirms that the boundary is within the hint, and that there is room
 * for the near coordinates. */
static int hint_agrees(struct selector *s, const struct select_call *call, int adding, size_t total,
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

/* Finds the interval by counting when estimates have failed. It makes passes over x until there is
 * room for the near coordinates. */
static struct known narrow(struct selector *s, const float *x, const struct select_call *call,
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
			return (struct known){ 1, 0 }; /* fewer than k values are nonzero */
		known = known_bin(known, shift, bin);
		if (s->counts[bin] <= s->near_room)
			break;
	}
	return known;
}

/* ---- the call ---- */

static struct select_bounds bounds_of(struct known near)
{
	if (near.low > near.high)
		return BOUNDS_NONZERO;
	return (struct select_bounds){ (int32_t)near.high, (int32_t)near.low - 1 };
}

size_t select_run(struct selector *s, const struct select_call *asked, int *nan_out)
{
	enum { GUESSES = 3 };
	struct select_call call = *asked;
	struct known known = { 1, KEY_MASK }, near = { 1, 0 };
	size_t total = 0, exempt = 0, found = 0;
	int adding = call.grad != NULL, hinted, nan = 0;
	uint32_t boundary = 0;

	for (size_t j = 0; j < call.n_spans; j++) {
		size_t length = call.spans[j].end - call.spans[j].begin;

		assert(call.spans[j].begin <= call.spans[j].end && call.spans[j].end <= s->n);
		*(call.spans[j].exempt ? &exempt : &total) += length;
	}
	call.k = call.k < total ? call.k : total;
	hinted = call.hint && hint_foretells(call.hint) && call.k && call.k < total &&
		 hint_agrees(s, &call, adding, total, hint_around(call.hint));
	for (unsigned guess = 0;;) {
		if (hinted)
			near = hint_around(call.hint);
		else if (call.k && call.k < total && guess <= GUESSES)
			near = guess < GUESSES ?
				       estimate(s, &call, adding, total, known, guess) :
				       narrow(s, call.x ? call.x : call.residual, &call, known);
		guess += !hinted;
		hinted = 0;

		struct sweep w = { .s = s,
				   .call = &call,
				   .adding = adding,
				   .budget = call.k,
				   .room = call.k + exempt,
				   .one_key = near.low == near.high,
				   .bounds = call.k ? bounds_of(near) : BOUNDS_NOTHING };
		sweep_run(&w);
		nan = w.largest > KEY_INFINITY;
		if (w.end == SWEEP_COMPLETE && nan && adding && call.clear)
			for (size_t i = 0; i < w.n; i++)
				call.residual[call.index[i]] = call.value[i];
		if (nan)
			break;
		if (w.end == SWEEP_COMPLETE &&
		    (w.counted + w.n_near >= call.k || near.low <= known.low)) {
			found = sweep_finish(&w, near, &boundary);
			if (call.clear && !adding)
				for (size_t i = 0; i < found; i++)
					call.residual[call.index[i]] = 0;
			break;
		}
		if (w.end == SWEEP_COMPLETE && adding && call.clear)
			for (size_t i = 0; i < w.n; i++)
				call.residual[call.index[i]] = call.value[i];
		adding = 0;
		if (w.end == SWEEP_TOO_MANY)
			known.low = near.high + 1;
		else if (w.end == SWEEP_COMPLETE)
			known.high = near.low - 1;
	}
	if (call.hint && call.k && call.k < total && !nan)
		hint_remember(call.hint, boundary);
	if (nan_out)
		*nan_out = nan;
	return found;
}

size_t select_topk(struct selector *s, const float *x, const struct span *spans, size_t n_spans,
		   size_t k, uint32_t *index)
{
	const struct select_call call = {
		.x = x, .spans = spans, .n_spans = n_spans, .k = k, .index = index
	};

	return select_run(s, &call, NULL);
}

/* ---- without a selector ---- */

/* Chooses the kernels only once, because this is called often and for vectors of any length. */
static const struct select_kernels *usual_kernels(void)
{
	static const void *_Atomic chosen;

	return kernels_chosen(select_versions, &chosen);
}

size_t select_nonzero(const float *x, size_t n, uint32_t *index, size_t room)
{
	enum { CHUNK = 1024 };
	const struct select_kernels *kernels = usual_kernels();
	uint32_t found[CHUNK + LISTS_SLACK], near[CHUNK + LISTS_SLACK];
	float value[CHUNK + LISTS_SLACK];
	size_t listed = 0;

	for (size_t i = 0; i < n && listed < room; i += CHUNK) {
		struct select_lists l = { .index = found, .near_index = near, .near_value = value };

		kernels->list(x, i, n - i < CHUNK ? n : i + CHUNK, BOUNDS_NONZERO, &l);
		l.n = l.n < room - listed ? l.n : room - listed;
		memcpy(index + listed, found, l.n * sizeof(*index));
		listed += l.n;
	}
	return listed;
}

size_t first_nonfinite(const float *x, size_t n)
{
	return usual_kernels()->nonfinite(x, n);
}
