/* SPDX-License-Identifier: BSD-3-Clause
 * See reduce.h. Where few lines were added to, the change goes line by line, and the only pass over the
 * whole shard is that of the selection, which reads. Where there are many, the selection's pass adds. */
#include "shard/reduce.h"
#include "base/bytes.h"
#include "base/error.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>

/* AHEAD: lines that are asked for before they are needed. SPARSE: of so many lines one is marked where
 * going line by line and going over everything take equally long. */
enum { LINE = VECTOR_LINE, CHUNK = 1024, WORD = 64, AHEAD = 24, SPARSE = 4 };

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

uint64_t reduction_bytes(uint32_t span)
{
	return span * sizeof(float) + words_of(span) * sizeof(uint64_t);
}

int reduction_open(struct reduction *r, uint32_t span)
{
	*r = (struct reduction){ .span = span };
	r->sum = vector_open(span);
	r->lines = calloc(words_of(span), sizeof *r->lines);
	if (r->sum && r->lines)
		return 0;
	reduction_close(r);
	return fail(SLUICE_ENOMEM, "no memory for the sum of a shard of %u elements", span);
}

void reduction_close(struct reduction *r)
{
	vector_close(r->sum, r->span);
	free(r->lines);
	r->sum = NULL;
	r->lines = NULL;
}

void reduction_add(struct reduction *r, const uint32_t *index, const float *value, uint32_t count)
{
	if (!index)
		r->whole = 1;
	else
		for (uint32_t i = 0; i < count; i++)
			r->lines[index[i] / (LINE * WORD)] |= 1ull << index[i] / LINE % WORD;
	r->added += index ? count : 0;
	sparse_add(r->sum, index, value, count);
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

	if (candidates)
		candidates_begin(candidates);

	for (size_t word = 0; word < words_of(r->span);) {
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
			if (candidates)
				candidates_line(candidates, (uint32_t)at, residual + at, length);
		}
	}
	if (candidates)
		candidates_end(candidates);
	if (residual)
		unmark(r);
}

void reduction_run(struct reduction *r, float *running)
{
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
