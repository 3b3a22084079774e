/* SPDX-License-Identifier: BSD-3-Clause
 * Selectors that decide about each coordinate by one number for the whole vector, without sorting:
 * threshold (Sahu et al., 2021); gaussiank (Shi et al., 2019), which estimates the number from mean
 * and deviation and refines it by counting (gaussian_rules.h); and random and variance (Wangni et
 * al., 2018), which select at random. */
#include "choose.h"
#include "base/team.h"
#include "draw_rules.h"
#include "gaussian_rules.h"
#include "moments.h"
#include "sparse.h"
#include <float.h>
#include <math.h>

/* ---- parts ------------------------------------------------------------------- */

/* The threads of a team each decide about a part of the vector. The length of a part is a multiple
 * of a cache line, so that threads seldom write to the same one. */
enum { UNIT = VECTOR_LINE };

/* Lists the selected coordinates of begin ... end - 1. Returns their number. */
typedef size_t list_fn(const struct choice *c, const void *rule, uint64_t begin, uint64_t end,
		       uint32_t *index);

struct parts {
	const struct choice *c;
	list_fn *run;
	const void *rule;
	uint64_t first; /* the first coordinate of the spans */
	struct sparse_list list[TEAM_PARTS];
};

static void list_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct parts *p = context;
	uint32_t *index = p->c->index + begin;
	const size_t n = p->run(p->c, p->rule, p->first + begin, p->first + end, index);

	p->list[part] = (struct sparse_list){ index, n };
}

static uint64_t begin_of_spans(const struct choice *c)
{
	return c->n_spans ? c->spans[0].begin : 0;
}

/* Returns the number of coordinates from the first of the spans to the last. */
static uint64_t length_of_spans(const struct choice *c)
{
	return c->n_spans ? c->spans[c->n_spans - 1].end - begin_of_spans(c) : 0;
}

/* A list begins where it would if all coordinates before its part were selected. The lists are
 * then joined in order, so the result does not depend on the number of parts. */
static size_t list_in_parts(const struct choice *c, struct team *team, list_fn *run,
			    const void *rule)
{
	struct parts p = { .c = c, .run = run, .rule = rule, .first = begin_of_spans(c) };

	return sparse_join(p.list, team_split(team, length_of_spans(c), UNIT, list_part, &p));
}

/* Sets *piece to the part of the next span that is within begin ... end - 1, and advances *span.
 * Returns 0 if there is no such span. */
static int next_piece(const struct choice *c, size_t *span, uint64_t begin, uint64_t end,
		      struct span *piece)
{
	while (*span < c->n_spans && c->spans[*span].begin < end) {
		*piece = c->spans[(*span)++];
		piece->begin = piece->begin > begin ? piece->begin : begin;
		piece->end = piece->end < end ? piece->end : end;
		if (piece->begin < piece->end)
			return 1;
	}
	return 0;
}

/* ---- threshold --------------------------------------------------------------- */

/* Selects |x| >= level, or |x| > level if `strict` is set, and all non-zeros of exempt spans. Also
 * selects the first `ties` of the other coordinates with |x| > floor. */
struct level_rule {
	float level;
	int strict;
	float floor;
	uint64_t ties;
};

/* Returns the least magnitude that is selected for itself, or NaN if there is none. */
static float least_selected(const struct level_rule *r, int exempt)
{
	if (exempt)
		return FLT_TRUE_MIN;
	if (r->strict && r->level == INFINITY)
		return NAN;
	const float level = r->strict ? nextafterf(r->level, INFINITY) : r->level;

	return level <= 0 ? FLT_TRUE_MIN : level;
}

static size_t list_by_level(const struct choice *c, const void *rule, uint64_t begin, uint64_t end,
			    uint32_t *index)
{
	const struct level_rule *r = rule;
	const float *x = c->x;
	uint64_t ties = r->ties;
	size_t n = 0, span = span_after(c->spans, c->n_spans, begin);
	struct span at;

	while (next_piece(c, &span, begin, end, &at)) {
		const float least = least_selected(r, at.exempt),
			    floor = at.exempt ? FLT_MAX : r->floor;

		for (uint64_t i = at.begin; i < at.end; i++) {
			const float a = fabsf(x[i]);

			if (a >= least)
				index[n++] = (uint32_t)i;
			else if (ties && a > floor) {
				index[n++] = (uint32_t)i;
				ties--;
			}
		}
	}
	return n;
}

static size_t choose_by_level(const struct choice *c, const struct level_rule *rule)
{
	/* With ties, a part would depend on the ties of the earlier ones. */
	return list_in_parts(c, rule->ties ? NULL : c->team, list_by_level, rule);
}

size_t choose_threshold(const struct choice *c)
{
	return choose_by_level(c, &(struct level_rule){ .level = c->level, .floor = FLT_MAX });
}

/* ---- gaussiank ------------------------------------------------------------- */

/* Arguments and results of largest_in_part() and count_in_part(), which look at the coordinates
 * that are not exempt. */
struct scan {
	const struct choice *c;
	uint64_t first;
	float level;
	float largest[TEAM_PARTS];
	uint64_t above[TEAM_PARTS];
};

static void largest_in_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct scan *s = context;
	const struct choice *c = s->c;
	size_t span = span_after(c->spans, c->n_spans, s->first + begin);
	float largest = 0;
	struct span at;

	while (next_piece(c, &span, s->first + begin, s->first + end, &at))
		for (uint64_t i = at.exempt ? at.end : at.begin; i < at.end; i++)
			largest = fabsf(c->x[i]) > largest ? fabsf(c->x[i]) : largest;
	s->largest[part] = largest;
}

static float largest_not_exempt(const struct choice *c)
{
	struct scan s = { .c = c, .first = begin_of_spans(c) };
	const unsigned parts = team_split(c->team, length_of_spans(c), UNIT, largest_in_part, &s);
	float largest = 0;

	for (unsigned p = 0; p < parts; p++)
		largest = s.largest[p] > largest ? s.largest[p] : largest;
	return largest;
}

static void count_in_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct scan *s = context;
	const struct choice *c = s->c;
	const float level = s->level;
	size_t span = span_after(c->spans, c->n_spans, s->first + begin);
	uint64_t n = 0;
	struct span at;

	while (next_piece(c, &span, s->first + begin, s->first + end, &at))
		for (uint64_t i = at.exempt ? at.end : at.begin; i < at.end; i++)
			n += fabsf(c->x[i]) > level;
	s->above[part] = n;
}

static uint64_t count_above_level(const struct choice *c, float level)
{
	struct scan s = { .c = c, .first = begin_of_spans(c), .level = level };
	const unsigned parts = team_split(c->team, length_of_spans(c), UNIT, count_in_part, &s);
	uint64_t n = 0;

	for (unsigned p = 0; p < parts; p++)
		n += s.above[p];
	return n;
}

double gaussian_quantile(double share)
{
	double low = 0, high = 40;

	for (int i = 0; i < 60; i++) {
		double z = (low + high) / 2;

		if (erfc(z * 0.70710678118654752) > share)
			low = z;
		else
			high = z;
	}
	return (low + high) / 2;
}

size_t choose_gaussiank(const struct choice *c)
{
	const struct moment_terms terms = { .magnitudes = 0 };
	const struct moments m = moments_of(c->team, terms, c->x, c->spans, c->n_spans);
	struct gaussian g;
	struct gaussian_cut cut;
	int counting = gaussian_begin(&g, m.first, m.second, m.n, largest_not_exempt(c),
				      gaussian_quantile(c->density), c->k, &cut);

	while (counting)
		counting = gaussian_count(&g, count_above_level(c, (float)g.level), &cut);
	return choose_by_level(c, &(struct level_rule){ cut.above, 1, cut.floor, cut.ties });
}

/* ---- random, variance -------------------------------------------------------- */

/* Coordinate j is kept with probability p = min(1, lambda |x_j|) and then divided by p, so its mean
 * is x_j. lambda follows either from the wanted density or from the allowed variance. */

/* Draws each coordinate once. If a coordinate is kept, it gets its scaled value. The numbers are
 * functions of the coordinate. */
static size_t draw(const struct choice *c, const void *rule, uint64_t begin, uint64_t end,
		   uint32_t *index)
{
	const double lambda = *(const double *)rule;
	const float step = draw_value(lambda);
	uint32_t four[4];
	uint64_t have = UINT64_MAX;
	size_t n = 0, span = span_after(c->spans, c->n_spans, begin);
	struct span at;

	while (next_piece(c, &span, begin, end, &at))
		for (uint64_t i = at.begin; i < at.end; i++) {
			double p = draw_probability(lambda, c->x[i]);

			if (c->x[i] == 0)
				continue;
			if (!at.exempt && p < 1) {
				if (have != i / 4) {
					have = i / 4;
					random_quad(&c->stream, have, four);
				}
				if (!draw_keeps(p, four[i % 4]))
					continue;
				c->x[i] = copysignf(step, c->x[i]);
			}
			index[n++] = (uint32_t)i;
		}
	return n;
}

static size_t search_and_draw(const struct choice *c, int by_variance, double wanted)
{
	struct moment_terms terms = { .magnitudes = 1, .factor = 0 };
	struct moments below = moments_of(c->team, terms, c->x, c->spans, c->n_spans);
	struct draw_search s;
	uint64_t total = 0;

	for (size_t p = 0; p < c->n_spans; p++)
		total += c->spans[p].exempt ? 0 : c->spans[p].end - c->spans[p].begin;
	draw_begin(&s, by_variance, wanted, total);
	while (draw_next(&s, &below)) {
		terms.factor = s.lambda;
		below = moments_of(c->team, terms, c->x, c->spans, c->n_spans);
	}
	return list_in_parts(c, c->team, draw, &s.lambda);
}

size_t choose_random(const struct choice *c)
{
	return search_and_draw(c, 0, c->density);
}

size_t choose_variance(const struct choice *c)
{
	return search_and_draw(c, 1, (double)c->level);
}
