/* SPDX-License-Identifier: BSD-3-Clause
 * Deltas selected from a list of candidates, compared bit by bit with a selection from the whole
 * residual, for every kind of message, and also after the list became invalid. */
#include "shard/reduce.h"
#include "base/bytes.h"
#include "compress/sparse.h"
#include "random.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPAN = 20011, BUDGET = 40, STEPS = 40, SPANS = 5 };
#define ALL_OF_IT                                                                                  \
	{                                                                                          \
		{                                                                                  \
			0, SPAN, 0                                                                 \
		}                                                                                  \
	}

enum values { NORMAL, FEW_LEVELS, ONE_MAGNITUDE, ZEROS, GROWING };

/* The properties of a sequence of steps. */
struct story {
	enum values values;
	double density; /* density of a message */
	unsigned workers;
	int same_places;  /* 1: every step's messages have the same coordinates */
	int rounds;       /* 1: published values are less exact than the selected ones */
	int dense_every;  /* one message is dense every this many steps */
	int forget_every; /* the residual is replaced every this many steps, as in a restore */
	int wide_every;   /* k is too large for the list every this many steps, as in a warm-up */
	int drops;        /* 1: a worker is lost in the middle */
	struct span spans[SPANS];
	size_t n_spans;
};

struct side {
	float residual[SPAN], sum[SPAN];
	uint32_t index[SPAN];
	float value[SPAN];
	struct reduction reduction;
	size_t n;
};
static struct side plain, listed;

static float draw(enum values values, struct random *random, int step)
{
	const float sign = random_bits(random) & 1 ? -1.0f : 1.0f;

	switch (values) {
	case NORMAL: return random_normal(random);
	case FEW_LEVELS: return sign * (float)(random_bits(random) % 4);
	case ONE_MAGNITUDE: return sign * 0.5f;
	case ZEROS: return sign * 0.0f;
	case GROWING: return ldexpf(random_normal(random), step);
	}
	return 0;
}

static uint32_t make_message(const struct story *story, struct random *random, int step,
			     uint32_t *index, float *value)
{
	struct random places = { 77 };
	uint32_t n = 0;

	for (uint32_t i = 0; i < SPAN; i++)
		if (random_bits(story->same_places ? &places : random) % 1000000 <
		    story->density * 1e6) {
			index[n] = i;
			value[n++] = draw(story->values, random, step);
		}
	return n;
}

static size_t budget_of(const struct story *story, int step)
{
	return story->wide_every && step % story->wide_every == 0 ? (size_t)BUDGET * 20 : BUDGET;
}

static void add_and_change(struct side *s, const struct story *story, struct random random,
			   int step, unsigned workers, struct candidates *c,
			   struct select_call *call)
{
	static const struct update sgd = { .kind = UPDATE_SGD, .placement = STEP_INSIDE };
	static uint32_t index[SPAN];
	static float value[SPAN];
	struct change change = { .update = &sgd,
				 .divisor = workers,
				 .residual = s->residual,
				 .params = s->sum,
				 .candidates = c,
				 .selects = 1 };

	for (unsigned w = 0; w < workers; w++) {
		uint32_t n = make_message(story, &random, step, index, value);

		reduction_add(&s->reduction, index, value, n);
	}
	if (story->dense_every && step % story->dense_every == 0) {
		for (uint32_t i = 0; i < SPAN; i++)
			value[i] = draw(story->values, &random, step);
		reduction_add(&s->reduction, NULL, value, SPAN);
	}
	if (story->forget_every && step % story->forget_every == 0) {
		for (uint32_t i = 0; i < SPAN; i += 7)
			s->residual[i] = draw(story->values, &random, step);
		if (c)
			candidates_forget(c);
	}
	struct pick_call picks = { .vector = NULL };
	reduction_change(&s->reduction, &change, &picks);
	call->x = picks.vector;
	call->residual = s->residual;
	call->grad = picks.grad;
	call->scale = picks.scale;
}

static void take_out(struct side *s, const struct story *story, struct candidates *c)
{
	for (size_t i = 0; i < s->n; i++)
		if (story->rounds) /* rounds to the next power of two */
			s->value[i] = bits_float(float_bits(s->value[i]) & 0xff800000);
	sparse_subtract(s->residual, s->index, s->value, (uint32_t)s->n);
	if (c)
		candidates_published(c, s->value);
	reduction_clear(&s->reduction);
}

static size_t select_listed(struct candidates *c, struct selector *selector,
			    const struct select_call *call)
{
	if (call->x && candidates_serve(c, call->k))
		return candidates_select(c, selector, call);
	candidates_forget(c);
	return select_run(selector, call, NULL);
}

static void expect_same(void)
{
	assert_int_equal(listed.n, plain.n);
	assert_memory_equal(listed.index, plain.index, plain.n * sizeof *plain.index);
	assert_memory_equal(listed.value, plain.value, plain.n * sizeof *plain.value);
}

static void tell(struct story story)
{
	struct candidates c;
	struct selector *selector = NULL;
	struct select_hint hints[2] = { { 0 }, { 0 } };
	uint32_t exempt = 0;

	for (size_t i = 0; i < story.n_spans; i++)
		exempt += story.spans[i].exempt ?
				  (uint32_t)(story.spans[i].end - story.spans[i].begin) :
				  0;
	memset(&plain, 0, sizeof plain);
	memset(&listed, 0, sizeof listed);
	assert_int_equal(reduction_open(&plain.reduction, SPAN, &(struct reduction_attr){ 0 }), 0);
	assert_int_equal(reduction_open(&listed.reduction, SPAN, &(struct reduction_attr){ 0 }), 0);
	assert_int_equal(selector_open(SPAN, &selector), 0);
	struct candidates_size size = candidates_size(SPAN - exempt, BUDGET, 0, exempt);
	assert_true(size.room > 0);
	assert_int_equal(candidates_open(&c, size, story.spans, story.n_spans), 0);
	for (int step = 1; step <= STEPS; step++) {
		const unsigned workers = story.workers - (story.drops && step > STEPS / 2);
		const struct random random = { (uint64_t)step << 32 };
		struct select_call call = { .spans = story.spans,
					    .n_spans = story.n_spans,
					    .k = budget_of(&story, step),
					    .index = plain.index,
					    .value = plain.value,
					    .hint = &hints[0] };

		add_and_change(&plain, &story, random, step, workers, NULL, &call);
		plain.n = select_run(selector, &call, NULL);
		call.index = listed.index;
		call.value = listed.value;
		call.hint = &hints[1];
		add_and_change(&listed, &story, random, step, workers, &c, &call);
		listed.n = select_listed(&c, selector, &call);
		expect_same();
		take_out(&plain, &story, NULL);
		take_out(&listed, &story, &c);
		assert_memory_equal(listed.residual, plain.residual, sizeof plain.residual);
	}
	candidates_close(&c);
	selector_close(&selector);
	reduction_close(&plain.reduction);
	reduction_close(&listed.reduction);
}

TEST(select__any_messages__takes_what_a_selection_from_all_takes)
{
	static const double densities[] = { 0, 0.00002, 0.0005, 0.002, 0.0045, 0.01 };

	for (int values = NORMAL; values <= GROWING; values++)
		for (size_t d = 0; d < sizeof densities / sizeof *densities; d++)
			for (int variant = 0; variant < 4; variant++) {
				if (thinned((size_t)values + d + (size_t)variant, 4))
					continue;
				tell((struct story){ .values = (enum values)values,
						     .density = densities[d],
						     .workers = 3,
						     .same_places = variant & 1,
						     .rounds = variant >> 1,
						     .n_spans = 1,
						     .spans = ALL_OF_IT });
			}
}

TEST(select__exempt_tensors__takes_what_a_selection_from_all_takes)
{
	for (int values = NORMAL; values <= GROWING; values++)
		for (int rounds = 0; rounds < 2; rounds++)
			tell((struct story){ .values = (enum values)values,
					     .density = 0.003,
					     .workers = 2,
					     .rounds = rounds,
					     .n_spans = 5,
					     .spans = { { 0, 19, 1 },
							{ 19, 5000, 0 },
							{ 5000, 5003, 1 },
							{ 5003, SPAN - 40, 0 },
							{ SPAN - 40, SPAN, 1 } } });
}

TEST(select__residual_changed_unseen__takes_what_a_selection_from_all_takes)
{
	static const struct story stories[] = {
		{ .dense_every = 7, .density = 0.001 },
		{ .dense_every = 12, .rounds = 1 }, /* after which no message comes */
		{ .forget_every = 5, .density = 0.001 },
		{ .wide_every = 6, .density = 0.001 },
		{ .wide_every = 1, .density = 0.001 },
		{ .drops = 1, .density = 0.001 },
		{ .dense_every = 9,
		  .forget_every = 4,
		  .wide_every = 5,
		  .drops = 1,
		  .density = 0.001 },
	};

	for (size_t i = 0; i < sizeof stories / sizeof *stories; i++)
		for (int values = NORMAL; values <= GROWING; values++) {
			struct story story = stories[i];

			if (thinned(i + (size_t)values, 3))
				continue;
			story.values = (enum values)values;
			story.workers = 3;
			story.n_spans = 1;
			story.spans[0] = (struct span){ 0, SPAN, 0 };
			tell(story);
		}
}

/* ---- that it is a list, and a whole one ------------------------------------ */

static struct span whole[] = ALL_OF_IT;

static void open_filled(struct candidates *c, struct selector **selector, float *residual,
			struct random *random)
{
	for (size_t i = 0; i < SPAN; i++)
		residual[i] = random_normal(random);
	assert_int_equal(candidates_open(c, candidates_size(SPAN, BUDGET, 0, 0), whole, 1), 0);
	assert_int_equal(selector_open(SPAN, selector), 0);
}

/* The function must not access this vector. */
TEST(select__list_is_long_enough__does_not_read_the_residual)
{
	static float residual[SPAN], other[SPAN], value[SPAN];
	static uint32_t index[SPAN], first[SPAN];
	struct select_call call = { .x = residual,
				    .spans = whole,
				    .n_spans = 1,
				    .k = BUDGET,
				    .index = first,
				    .value = value };
	struct selector *selector = NULL;
	struct random random = { 5 };
	struct candidates c;

	open_filled(&c, &selector, residual, &random);
	size_t n = candidates_select(&c, selector, &call);
	assert_int_equal(n, BUDGET);
	sparse_subtract(residual, first, value, BUDGET);
	candidates_published(&c, value);
	candidates_begin(&c);
	residual[1600] = 1000; /* one line is changed */
	const uint64_t lines[] = { 0, 1ull << (1600 - 1024) / VECTOR_LINE };
	candidates_follow(&c, 0, lines, residual, 1024 + 1000);
	candidates_end(&c);
	for (size_t i = 0; i < SPAN; i++)
		other[i] = 1e6f;
	call.x = other;
	call.index = index;
	n = candidates_select(&c, selector, &call);
	call.x = residual;
	call.index = first;
	assert_int_equal(n, select_run(selector, &call, NULL));
	assert_memory_equal(index, first, n * sizeof *index);
	int found = 0;
	for (size_t i = 0; i < n; i++)
		found += index[i] == 1600;
	assert_int_equal(found, 1);
	candidates_close(&c);
	selector_close(&selector);
}

TEST(select__nan_in_the_residual__takes_nothing_until_it_is_gone)
{
	static float residual[SPAN], value[SPAN];
	static uint32_t index[SPAN];
	struct select_call call = { .x = residual,
				    .spans = whole,
				    .n_spans = 1,
				    .k = BUDGET,
				    .index = index,
				    .value = value };
	struct selector *selector = NULL;
	struct random random = { 9 };
	struct candidates c;

	open_filled(&c, &selector, residual, &random);
	assert_int_equal(candidates_select(&c, selector, &call), BUDGET);
	for (int seen = 0; seen < 2; seen++) {
		residual[SPAN - 3] = NAN;
		if (seen) {
			const uint64_t last = 1;

			candidates_begin(&c);
			candidates_follow(&c, SPAN - SPAN % VECTOR_LINE, &last,
					  residual + SPAN - SPAN % VECTOR_LINE, SPAN % VECTOR_LINE);
			candidates_end(&c);
		} else {
			candidates_forget(&c);
		}
		assert_int_equal(candidates_select(&c, selector, &call), 0);
		candidates_published(&c, value);
		residual[SPAN - 3] = 0;
		assert_int_equal(candidates_select(&c, selector, &call), BUDGET);
	}
	candidates_close(&c);
	selector_close(&selector);
}

TEST(room__dense_or_tiny_selection__is_none)
{
	assert_int_equal(candidates_size(SPAN, 0, 0, 0).room, 0);
	assert_int_equal(candidates_size(SPAN, SPAN / 10, 0, 0).room, 0);
	assert_int_equal(candidates_size(100, 1, 0, 3).room, 0);
	assert_true(candidates_size(SPAN, BUDGET, 0, 7).room > 2 * BUDGET);
	assert_true(candidates_size(SPAN, BUDGET, 0, 7).room < SPAN);
	assert_int_equal(candidates_bytes((struct candidates_size){ 0 }, 3), 0);
}

/* Steps with more arrivals are not followed in detail. */
TEST(room__any_number_of_arrivals__is_less_than_one_line_in_four)
{
	const struct candidates_size few = candidates_size(SPAN, 1, 0, 0),
				     many = candidates_size(SPAN, 1, UINT64_MAX, 0);

	assert_int_equal(few.wanted, many.wanted);
	assert_true(many.room > few.room);
	assert_true(many.room - many.wanted <= SPAN / VECTOR_LINE / 4);
}

/* Many workers send values that are larger than all values in the list. The list includes them
 * without a pass over the residual. */
TEST(select__many_workers_messages__are_all_listed)
{
	enum { WORKERS = 7, LINE_WORDS = SPAN / VECTOR_LINE / 64 + 1 };
	static float residual[SPAN], value[SPAN];
	static uint32_t index[SPAN];
	struct select_call call = { .x = residual,
				    .spans = whole,
				    .n_spans = 1,
				    .k = BUDGET,
				    .index = index,
				    .value = value };
	struct selector *selector = NULL;
	struct random random = { 11 };
	struct candidates c;

	for (size_t i = 0; i < SPAN; i++)
		residual[i] = random_normal(&random);
	assert_int_equal(
		candidates_open(&c, candidates_size(SPAN, BUDGET, WORKERS * BUDGET, 0), whole, 1),
		0);
	assert_int_equal(selector_open(SPAN, &selector), 0);
	assert_int_equal(candidates_select(&c, selector, &call), BUDGET);
	sparse_subtract(residual, index, value, BUDGET);
	candidates_published(&c, value);
	for (uint32_t step = 1; step <= 10; step++) {
		uint64_t lines[LINE_WORDS] = { 0 };

		for (uint32_t i = 0; i < WORKERS * BUDGET; i++) {
			const uint32_t at = (uint32_t)(random_bits(&random) % SPAN);

			residual[at] = 10.0f * (float)step + random_normal(&random);
			lines[at / VECTOR_LINE / 64] |= 1ull << at / VECTOR_LINE % 64;
		}
		candidates_begin(&c);
		candidates_follow(&c, 0, lines, residual, SPAN);
		candidates_end(&c);
		assert_true(c.known);
		assert_int_equal(candidates_select(&c, selector, &call), BUDGET);
		sparse_subtract(residual, index, value, BUDGET);
		candidates_published(&c, value);
	}
	candidates_close(&c);
	selector_close(&selector);
}
