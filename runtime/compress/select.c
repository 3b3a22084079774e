/* SPDX-License-Identifier: BSD-3-Clause
 * Exact top-k in little more than one pass. A sample, or the boundary in the last vector, says
 * between which keys the k-th largest lies. A pass lists the coordinates above this interval (sure)
 * and, separately, those within it (near). The best of the near ones are then found exactly and
 * merged in. The pass counts, so a wrong estimate is noticed and narrows the next one. Called by
 * the worker for gradients and by the shard for deltas. */
#include "select.h"
#include "base/error.h"
#include "select_sweep.h"
#include "sluice.h"
#include <assert.h>
#include <stdlib.h>

/* ---- scratch ---- */

enum {
	ROOM_LEAST = 4096,
	MERGE_SHARED = 1 << 18 /* with fewer entries, one thread merges them before another one has
				  woken up */
};

struct sizes {
	size_t room, tile, stage;
};

static struct sizes sizes_for(size_t n, size_t room, unsigned threads)
{
	const size_t tile = threads > 1 ? TILE_SHARED : TILE;
	struct sizes z = { .room = room + ROOM_LEAST, .tile = n < tile ? n : tile };

	if (z.room > n)
		z.room = n; /* there can be no more near coordinates than this */
	z.stage = z.tile + LISTS_SLACK;
	return z;
}

static size_t usual_room(size_t n)
{
	return n / 64;
}

static size_t bytes_for(struct sizes z, unsigned threads)
{
	return sizeof(struct selector) + (z.room + 1) * (sizeof(uint32_t) + sizeof(float)) +
	       BINS * sizeof(uint32_t) +
	       threads * (sizeof(struct select_stage) +
			  2 * z.stage * (sizeof(uint32_t) + sizeof(float)));
}

size_t selector_bytes(size_t n)
{
	return bytes_for(sizes_for(n, usual_room(n), 1), 1);
}

/* One allocation holds the selector and its arrays. */
static int open_with(size_t n, size_t room, unsigned threads, struct selector **out)
{
	const struct sizes z = sizes_for(n, room, threads);
	struct selector *s;

	if (n > UINT32_MAX)
		return fail(SLUICE_EINVAL,
			    "cannot select from %zu coordinates: the largest number is %u", n,
			    UINT32_MAX);
	if (!select_best())
		return fail(SLUICE_ENOSUPP,
			    "SLUICE_KERNELS=%s: Sluice has no such version of its kernels, or this "
			    "processor lacks the instructions for it; choose auto, avx512, avx2 or "
			    "portable",
			    getenv("SLUICE_KERNELS"));
	s = malloc(bytes_for(z, threads));
	if (!s)
		return fail(SLUICE_ENOMEM, "no memory for selecting from %zu coordinates", n);
	*s = (struct selector){ .kernels = select_best(),
				.n = n,
				.tile = z.tile,
				.near_room = z.room,
				.merge_least = MERGE_SHARED,
				.threads = threads };
	s->stages = (void *)(s + 1);
	s->counts = (void *)(s->stages + threads);
	s->near_index = s->counts + BINS;
	s->near_value = (void *)(s->near_index + z.room + 1);
	float *at = s->near_value + z.room + 1;
	for (unsigned i = 0; i < threads; i++, at += 4 * z.stage)
		s->stages[i] = (struct select_stage){ .value = at,
						      .near_value = at + z.stage,
						      .index = (void *)(at + 2 * z.stage),
						      .near_index = (void *)(at + 3 * z.stage) };
	pthread_mutex_init(&s->lock, NULL);
	if (threads > 1 && select_pool_open(threads, &s->pool)) {
		selector_close(&s);
		return SLUICE_ENOMEM;
	}
	*out = s;
	return 0;
}

int selector_open(size_t n, struct selector **out)
{
	return open_with(n, usual_room(n), 1, out);
}

int selector_open_for(size_t n, size_t k, unsigned threads, struct selector **out)
{
	return open_with(n, (n / 100 + (k < n ? k : n)) / 2, threads, out);
}

void selector_close(struct selector **s)
{
	if (!s || !*s)
		return;
	select_pool_close(&(*s)->pool);
	pthread_mutex_destroy(&(*s)->lock);
	free(*s);
	*s = NULL;
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

/* Chosen once, because this is called often and for vectors of any length. */
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
