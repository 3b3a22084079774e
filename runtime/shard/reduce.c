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
enum { LINE = VECTOR_LINE, CHUNK = 512, WORD = 8, AHEAD = 16, SPARSE = 4 };

static uint32_t lines_of(uint32_t span)
{
	return span / LINE + (span % LINE != 0);
}

/* Looked at by words, little-endian ones: the last one is whole. */
static size_t marks_of(uint32_t span)
{
	return ((size_t)lines_of(span) + WORD - 1) / WORD * WORD;
}

uint64_t reduction_bytes(uint32_t span)
{
	return span * sizeof(float) + marks_of(span);
}

int reduction_open(struct reduction *r, uint32_t span)
{
	*r = (struct reduction){ .span = span };
	r->sum = vector_open(span);
	r->lines = calloc(marks_of(span), 1);
	if (r->sum && r->lines)
		return 0;
	reduction_close(r);
	return fail(SLUICE_ENOMEM, "no memory for the sum of a shard of %u elements", span);
}

void reduction_close(struct reduction *r)
{
	free(r->sum);
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
			r->lines[index[i] / LINE] = 1;
	sparse_add(r->sum, index, value, count);
}

/* ---- line by line ------------------------------------------------------------------------- */

static uint64_t word_of(const struct reduction *r, uint32_t line)
{
	return get_le64(r->lines + line);
}

static int is_sparse(const struct reduction *r)
{
	uint32_t n = lines_of(r->span), marked = 0;

	if (r->whole)
		return 0;
	for (uint32_t line = 0; line < n; line += WORD)
		marked += (uint32_t)(word_of(r, line) * 0x0101010101010101u >> 56); /* sum of its bytes */
	return marked <= n / SPARSE;
}

/* The marked ones of the lines from *line on, at most CHUNK; *line moves on. */
static uint32_t marked_lines(const struct reduction *r, uint32_t *line, uint32_t found[CHUNK])
{
	uint32_t n = lines_of(r->span), listed = 0;

	for (; *line < n && listed + WORD <= CHUNK; *line += WORD)
		for (uint64_t word = word_of(r, *line); word; word &= word - 1)
			found[listed++] = *line + (uint32_t)__builtin_ctzll(word) / 8;
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

static void change_lines(struct reduction *r, float *residual, float share, float by)
{
	uint32_t found[CHUNK], n;

	for (uint32_t line = 0; line < lines_of(r->span);) {
		n = marked_lines(r, &line, found);
		for (uint32_t i = 0; i < n; i++) {
			size_t ahead = (size_t)found[i + AHEAD < n ? i + AHEAD : n - 1] * LINE;
			size_t at = (size_t)found[i] * LINE;
			uint32_t length = length_of(r, found[i]);

			__builtin_prefetch(r->sum + ahead, 1);
			if (residual)
				__builtin_prefetch(residual + ahead, 1);
			if (!residual)
				scale_line(r->sum + at, length, share, by);
			else if (length == LINE) /* known to the compiler */
				move_line(r->sum + at, residual + at, LINE, share, by);
			else
				move_line(r->sum + at, residual + at, length, share, by);
		}
	}
	if (residual)
		memset(r->lines, 0, marks_of(r->span));
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
		change_lines(r, c->residual, share, by);
		return;
	}
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

	if (r->whole)
		memset(r->sum, 0, r->span * sizeof *r->sum);
	for (uint32_t line = 0; line < lines_of(r->span) && !r->whole;) {
		n = marked_lines(r, &line, found);
		for (uint32_t i = 0; i < n; i++)
			memset(r->sum + (size_t)found[i] * LINE, 0,
			       length_of(r, found[i]) * sizeof *r->sum);
	}
	memset(r->lines, 0, marks_of(r->span));
	r->whole = 0;
}
