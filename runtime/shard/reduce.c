/* SPDX-License-Identifier: BSD-3-Clause
 * See reduce.h. Few coordinates stay in the lists that they came in, until all are there: then the lists are
 * added up in windows that the first caches hold, and each line's change goes from there to the residual.
 * What is too much for that is added to a sum of the whole shard: where few lines of it were added to, the
 * change goes line by line; where there are many, the pass of the selection adds. */
#include "shard/reduce.h"
#include "base/bytes.h"
#include "base/error.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>

/* AHEAD: lines that are asked for before they are needed. SPARSE: of so many lines one is marked where
 * going line by line and going over everything take equally long. */
enum { LINE = VECTOR_LINE, CHUNK = 1024, WORD = 64, AHEAD = 24, SPARSE = 4 };
/* Coordinates that are added up together: two windows fit into the first cache, and the lines of the residual
 * that one needs at a density of some per mille are as many as a processor waits for at once. */
enum { WINDOW = 4 * LINE * WORD };

static uint32_t lines_of(uint32_t span)
{
	return span / LINE + (span % LINE != 0);
}

static size_t words_of(uint32_t span)
{
	return lines_of(span) / WORD + (lines_of(span) % WORD != 0);
}

static void unmark(struct reduction *r)
{
	memset(r->lines, 0, words_of(r->span) * sizeof *r->lines);
	r->added = 0;
}

/* No more are worth listing than there may be lines in change_lines(). */
static uint32_t room_of(uint32_t span)
{
	return lines_of(span) / SPARSE;
}

uint64_t reduction_bytes(uint32_t span)
{
	return span * sizeof(float) + words_of(span) * sizeof(uint64_t) +
	       room_of(span) * (sizeof(uint32_t) + sizeof(float));
}

int reduction_open(struct reduction *r, uint32_t span)
{
	const uint32_t room = room_of(span);

	*r = (struct reduction){ .span = span, .room = room };
	r->sum = vector_open(span);
	r->lines = calloc(words_of(span), sizeof *r->lines);
	r->index = malloc(room * (sizeof *r->index + sizeof *r->value) + 1);
	if (r->sum && r->lines && r->index) {
		r->value = (void *)(r->index + room);
		return 0;
	}
	reduction_close(r);
	return fail(SLUICE_ENOMEM, "no memory for the sum of a shard of %u elements", span);
}

void reduction_close(struct reduction *r)
{
	vector_close(r->sum, r->span);
	free(r->lines);
	free(r->index);
	*r = (struct reduction){ 0 };
}

static uint32_t listed(const struct reduction *r)
{
	return r->n_lists ? r->ends[r->n_lists - 1] : 0;
}

static void add_to_sum(struct reduction *r, const uint32_t *index, const float *value, uint32_t count)
{
	if (!index)
		r->whole = 1;
	else
		for (uint32_t i = 0; i < count; i++)
			r->lines[index[i] / (LINE * WORD)] |= 1ull << index[i] / LINE % WORD;
	r->added += index ? count : 0;
	sparse_add(r->sum, index, value, count);
}

float *reduction_sum(struct reduction *r)
{
	for (uint32_t l = 0, at = 0; l < r->n_lists; at = r->ends[l++])
		add_to_sum(r, r->index + at, r->value + at, r->ends[l] - at);
	r->n_lists = 0;
	return r->sum;
}

void reduction_add(struct reduction *r, const uint32_t *index, const float *value, uint32_t count)
{
	const uint32_t at = listed(r);

	if (!index || r->whole || r->added || r->n_lists == REDUCTION_LISTS || count > r->room - at) {
		reduction_sum(r);
		add_to_sum(r, index, value, count);
		return;
	}
	memcpy(r->index + at, index, count * sizeof *index);
	memcpy(r->value + at, value, count * sizeof *value);
	r->ends[r->n_lists++] = at + count;
}

/* ---- line by line ------------------------------------------------------------------------- */

static int is_sparse(const struct reduction *r)
{
	const uint64_t most = lines_of(r->span) / SPARSE;
	uint64_t marked = 0;

	if (r->whole)
		return 0;
	if (r->added > most)
		for (size_t w = 0; w < words_of(r->span); w++)
			marked += (unsigned)__builtin_popcountll(r->lines[w]);
	return marked <= most;
}

/* The marked lines of the words from *word on, at most CHUNK; *word moves on. */
static uint32_t marked_lines(const struct reduction *r, size_t *word, uint32_t found[CHUNK])
{
	uint32_t listed = 0;

	for (; *word < words_of(r->span) && listed + WORD <= CHUNK; ++*word)
		for (uint64_t bits = r->lines[*word]; bits; bits &= bits - 1)
			found[listed++] = (uint32_t)*word * WORD + (uint32_t)__builtin_ctzll(bits);
	return listed;
}

static uint32_t length_of(const struct reduction *r, uint32_t line)
{
	return r->span - line * LINE < LINE ? r->span - line * LINE : LINE;
}

/* As update_apply(), then added to the residual; the sum is zero behind it. */
static inline void move_line(float *restrict sum, float *restrict residual, uint32_t n, float share,
			     float by)
{
	for (uint32_t i = 0; i < n; i++) {
		residual[i] += by * (sum[i] * share);
		sum[i] = 0;
	}
}

static inline void scale_line(float *sum, uint32_t n, float share, float by)
{
	for (uint32_t i = 0; i < n; i++)
		sum[i] = by * (sum[i] * share);
}

static inline void ask_for(const struct reduction *r, const float *residual, uint32_t line)
{
	__builtin_prefetch(r->sum + (size_t)line * LINE, 1);
	if (residual)
		__builtin_prefetch(residual + (size_t)line * LINE, 1);
}

static void change_lines(struct reduction *r, float *residual, float share, float by,
			 struct candidates *candidates)
{
	uint32_t found[CHUNK], n;

	if (!residual)
		candidates = NULL; /* there is nothing that they could be of */
	if (candidates)
		candidates_begin(candidates);

	for (size_t word = 0, before; word < words_of(r->span);) {
		before = word;
		n = marked_lines(r, &word, found);
		for (uint32_t i = 0; i < n && i < AHEAD; i++)
			ask_for(r, residual, found[i]);
		for (uint32_t i = 0; i < n; i++) {
			size_t at = (size_t)found[i] * LINE;
			uint32_t length = length_of(r, found[i]);

			if (i + AHEAD < n)
				ask_for(r, residual, found[i + AHEAD]);
			if (!residual)
				scale_line(r->sum + at, length, share, by);
			else if (length == LINE) /* known to the compiler */
				move_line(r->sum + at, residual + at, LINE, share, by);
			else
				move_line(r->sum + at, residual + at, length, share, by);
		}
		if (candidates) {
			const size_t at = before * LINE * WORD, end = word * LINE * WORD;

			candidates_follow(candidates, (uint32_t)at, r->lines + before, residual + at,
					  (uint32_t)((end < r->span ? end : r->span) - at));
		}
	}
	if (candidates)
		candidates_end(candidates);
	if (residual)
		unmark(r);
}

/* ---- window by window ------------------------------------------------------------------------ */

/* Of the sum, which is zero, and of its marks two windows serve in turn. */
static uint32_t window_place(uint32_t begin)
{
	return begin / WINDOW % 2 * WINDOW;
}

/* What the lists have in the window from begin on is added up, in their order; next[] moves on. */
static void add_window(struct reduction *r, uint32_t begin, const float *residual, uint32_t next[])
{
	float *sum = r->sum + window_place(begin);
	uint64_t *lines = r->lines + window_place(begin) / (LINE * WORD);

	for (uint32_t l = 0; l < r->n_lists; l++) {
		uint32_t i = next[l], end = r->ends[l];

		for (; i < end && r->index[i] - begin < WINDOW; i++) {
			const uint32_t at = r->index[i] - begin;

			__builtin_prefetch(residual + r->index[i], 1);
			lines[at / (LINE * WORD)] |= 1ull << at / LINE % WORD;
			sum[at] += r->value[i];
		}
		next[l] = i;
	}
}

/* The change of that window goes to the residual; the window is zero behind it. */
static void change_window(struct reduction *r, uint32_t begin, float *residual, float share, float by,
			  struct candidates *candidates)
{
	float *sum = r->sum + window_place(begin);
	uint64_t *lines = r->lines + window_place(begin) / (LINE * WORD);
	const uint32_t span = r->span - begin < WINDOW ? r->span - begin : WINDOW;

	for (uint32_t word = 0; word < words_of(span); word++) {
		for (uint64_t bits = lines[word]; bits; bits &= bits - 1) {
			const uint32_t line = word * WORD + (uint32_t)__builtin_ctzll(bits), at = line * LINE;
			const uint32_t n = span - at < LINE ? span - at : LINE;

			if (n == LINE) /* known to the compiler */
				move_line(sum + at, residual + begin + at, LINE, share, by);
			else
				move_line(sum + at, residual + begin + at, n, share, by);
		}
	}
	if (candidates)
		candidates_follow(candidates, begin, lines, residual + begin, span);
	memset(lines, 0, words_of(span) * sizeof *lines);
}

/* A window is added up, which asks for its lines of the residual, before the one before is changed. */
static void change_windows(struct reduction *r, float *residual, float share, float by,
			   struct candidates *candidates)
{
	uint32_t next[REDUCTION_LISTS];

	for (uint32_t l = 0; l < r->n_lists; l++)
		next[l] = l ? r->ends[l - 1] : 0;
	if (candidates)
		candidates_begin(candidates);
	add_window(r, 0, residual, next);
	for (uint32_t begin = 0; begin < r->span; begin += WINDOW) {
		if (r->span - begin > WINDOW)
			add_window(r, begin + WINDOW, residual, next);
		change_window(r, begin, residual, share, by, candidates);
		if (r->span - begin <= WINDOW)
			break; /* the next one may not be a 32-bit number */
	}
	if (candidates)
		candidates_end(candidates);
	r->n_lists = 0;
}

void reduction_run(struct reduction *r, float *running)
{
	reduction_sum(r);
	for (uint32_t i = 0; i < r->span; i++)
		r->sum[i] = running[i] += r->sum[i];
	r->whole = 1;
}

/* ---- the step ------------------------------------------------------------------------------ */

void reduction_change(struct reduction *r, const struct change *c, struct select_call *call)
{
	float share = 1, by = 1;
	int scales = update_scales(c->update, c->divisor, c->lr, &share, &by);

	call->x = c->residual ? c->residual : r->sum;
	call->residual = NULL;
	call->grad = NULL;
	if (scales && !c->everywhere && c->residual && r->n_lists) {
		change_windows(r, c->residual, share, by, c->candidates);
		return;
	}
	reduction_sum(r);
	if (scales && !c->everywhere && is_sparse(r)) {
		change_lines(r, c->residual, share, by, c->candidates);
		return;
	}
	if (c->candidates)
		candidates_forget(c->candidates);
	r->whole = 1;
	if (c->selects && c->residual) {
		/* One factor gives the bits of two where one of the two changes nothing but the sign. */
		int one = scales && (by == 1 || by == -1 || share == 1);

		if (!one)
			update_apply(c->update, r->sum, c->velocity, c->params, r->span, c->divisor,
				     c->lr);
		call->x = NULL;
		call->residual = c->residual;
		call->grad = r->sum;
		call->scale = one ? by * share : 1;
		return;
	}
	update_apply(c->update, r->sum, c->velocity, c->params, r->span, c->divisor, c->lr);
	if (c->residual)
		sparse_add(c->residual, NULL, r->sum, r->span);
}

void reduction_clear(struct reduction *r)
{
	uint32_t found[CHUNK], n;

	r->n_lists = 0;
	if (!r->whole && !r->added)
		return;
	if (r->whole)
		memset(r->sum, 0, r->span * sizeof *r->sum);
	for (size_t word = 0; word < words_of(r->span) && !r->whole;) {
		n = marked_lines(r, &word, found);
		for (uint32_t i = 0; i < n; i++)
			memset(r->sum + (size_t)found[i] * LINE, 0,
			       length_of(r, found[i]) * sizeof *r->sum);
	}
	unmark(r);
	r->whole = 0;
}
