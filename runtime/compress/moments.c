/* SPDX-License-Identifier: BSD-3-Clause
 * See moments.h. */
#include "moments.h"
#include "base/team.h"
#include <string.h>

/* Two sums at once, in registers that every current machine has. */
typedef double pair __attribute__((vector_size(16)));

static inline pair pair_at(const float *x)
{
	float v __attribute__((vector_size(8)));

	memcpy(&v, x, sizeof(v));
	return __builtin_convertvector(v, pair);
}

static double by_neighbours(double *v, unsigned n)
{
	for (; n > 1; n /= 2)
		for (unsigned i = 0; i < n / 2; i++)
			v[i] = v[2 * i] + v[2 * i + 1];
	return v[0];
}

void moments_join(struct moment_sum *s, struct moments of_group)
{
	const uint64_t lane = s->groups++ % MOMENT_LANES;

	s->of_all.first[lane] += of_group.first;
	s->of_all.second[lane] += of_group.second;
}

static void end_group(struct moment_sum *s)
{
	moments_join(s,
		     (struct moments){ .first = by_neighbours(s->of_group.first, MOMENT_LANES),
				       .second = by_neighbours(s->of_group.second, MOMENT_LANES) });
	memset(&s->of_group, 0, sizeof(s->of_group));
}

/* Adds x and x^2 of a tile, and then neighbours, so each array gets MOMENT_ROW / 2 sums. The sums
 * of 8 columns stay in registers through all rows. These reads are not in the order of memory, so
 * the next tile is prefetched. first: may be NULL. */
__attribute__((always_inline)) static inline void add_rows(const float *x, double *first,
							   double *second)
{
	enum { PAIRS = 4 };

	for (unsigned column = 0; column < MOMENT_ROW; column += 2 * PAIRS) {
		pair sum[PAIRS] = { { 0 } }, squares[PAIRS] = { { 0 } };

		for (unsigned row = column; row < MOMENT_TILE; row += MOMENT_ROW) {
			__builtin_prefetch(x + row + MOMENT_TILE);
#pragma GCC unroll 4
			for (unsigned i = 0; i < PAIRS; i++) {
				const pair v = pair_at(x + row + 2 * i);

				if (first)
					sum[i] += v;
				squares[i] += v * v;
			}
		}
#pragma GCC unroll 4
		for (unsigned i = 0; i < PAIRS; i++) {
			if (first)
				first[column / 2 + i] = sum[i][0] + sum[i][1];
			second[column / 2 + i] = squares[i][0] + squares[i][1];
		}
	}
}

struct tile_sums {
	double first, second;
	uint64_t left_out; /* number of coordinates that have no terms */
};

/* Returns how many coordinates have no terms. */
static uint64_t add_magnitudes(struct moment_terms terms, const float *x, double *first,
			       double *second)
{
	uint64_t left_out = 0;

	memset(first, 0, MOMENT_ROW * sizeof(*first));
	memset(second, 0, MOMENT_ROW * sizeof(*second));
	for (unsigned row = 0; row < MOMENT_TILE; row += MOMENT_ROW)
		for (unsigned i = 0; i < MOMENT_ROW; i++)
			left_out += (uint64_t)moment_add(terms, x[row + i], &first[i], &second[i]);
	return left_out;
}

/* terms: NULL adds only the squares. */
static struct tile_sums sum_tile(const struct moment_terms *terms, const float *x)
{
	double first[MOMENT_ROW], second[MOMENT_ROW];
	unsigned sums = MOMENT_ROW / 2;
	uint64_t left_out = 0;

	if (!terms) {
		add_rows(x, NULL, second);
	} else if (!terms->magnitudes) {
		add_rows(x, first, second);
	} else {
		left_out = add_magnitudes(*terms, x, first, second);
		sums = MOMENT_ROW;
	}
	return (struct tile_sums){ .first = terms ? by_neighbours(first, sums) : 0,
				   .second = by_neighbours(second, sums),
				   .left_out = left_out };
}

static void join_tile(struct moment_sum *s, struct tile_sums of_tile)
{
	const uint64_t lane = s->tiles++ % MOMENT_LANES;

	s->of_group.first[lane] += of_tile.first;
	s->of_group.second[lane] += of_tile.second;
	s->left_out += of_tile.left_out;
	if (s->tiles % MOMENT_GROUP == 0)
		end_group(s);
}

void moments_add_squares(struct moment_sum *s, const float *x, size_t n)
{
	float tile[MOMENT_TILE] = { 0 };
	size_t at = 0;

	for (; n - at >= MOMENT_TILE; at += MOMENT_TILE)
		join_tile(s, sum_tile(NULL, x + at));
	if (at == n)
		return;
	memcpy(tile, x + at, (n - at) * sizeof(*tile));
	join_tile(s, sum_tile(NULL, tile));
}

struct moments moments_end(struct moment_sum *s)
{
	if (s->tiles % MOMENT_GROUP)
		end_group(s);
	return (struct moments){ .first = by_neighbours(s->of_all.first, MOMENT_LANES),
				 .second = by_neighbours(s->of_all.second, MOMENT_LANES) };
}

double squares_of(const float *x, size_t n)
{
	struct moment_sum s = { .tiles = 0 };

	moments_add_squares(&s, x, n);
	return moments_end(&s).second;
}

/* Reads a tile that is not within a single span. *span: the first span that may reach into it. */
static void gather_tile(const float *x, uint64_t begin, const struct span *spans, size_t n_spans,
			size_t *span, float *tile)
{
	const uint64_t end = begin + MOMENT_TILE;

	memset(tile, 0, MOMENT_TILE * sizeof(*tile));
	while (*span < n_spans && spans[*span].end <= begin)
		*span += 1;
	for (size_t p = *span; p < n_spans && spans[p].begin < end; p++) {
		uint64_t from = spans[p].begin > begin ? spans[p].begin : begin;
		uint64_t to = spans[p].end < end ? spans[p].end : end;

		if (!spans[p].exempt && from < to)
			memcpy(tile + (from - begin), x + from, (to - from) * sizeof(*tile));
	}
}

/* Arguments and results of sum_tiles(). */
struct tiles {
	struct moment_terms terms;
	const float *x;
	const struct span *spans;
	size_t n_spans;
	uint64_t first; /* coordinate of the first tile */
	struct tile_sums *of_tile;
};

static void sum_tiles(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct tiles *t = context;
	size_t span = span_after(t->spans, t->n_spans, t->first + begin);
	float tile[MOMENT_TILE];

	(void)part;
	for (uint64_t i = begin; i < end; i += MOMENT_TILE) {
		const uint64_t at = t->first + i;
		const struct span *here = &t->spans[span];
		const float *x = t->x + at;

		if (here->exempt || here->begin > at || here->end < at + MOMENT_TILE) {
			gather_tile(t->x, at, t->spans, t->n_spans, &span, tile);
			x = tile;
		}
		t->of_tile[i / MOMENT_TILE] = sum_tile(&t->terms, x);
	}
}

struct moments moments_of(struct team *team, struct moment_terms terms, const float *x,
			  const struct span *spans, size_t n_spans)
{
	const uint64_t end = n_spans ? spans[n_spans - 1].end : 0;
	const uint64_t most = (uint64_t)MOMENT_GROUP * MOMENT_TILE;
	struct tile_sums of_tile[MOMENT_GROUP];
	struct tiles t = {
		.terms = terms, .x = x, .spans = spans, .n_spans = n_spans, .of_tile = of_tile
	};
	struct moment_sum s = { .tiles = 0 };
	struct moments m;

	for (uint64_t n; t.first < end; t.first += n) {
		n = end - t.first < most ? end - t.first : most;
		team_split(team, n, MOMENT_TILE, sum_tiles, &t);
		for (uint64_t i = 0; i < n; i += MOMENT_TILE)
			join_tile(&s, of_tile[i / MOMENT_TILE]);
	}
	m = moments_end(&s);
	for (size_t p = 0; p < n_spans; p++)
		if (!spans[p].exempt)
			m.n += spans[p].end - spans[p].begin;
	m.n -= s.left_out;
	return m;
}
