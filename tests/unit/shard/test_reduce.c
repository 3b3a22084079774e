/* SPDX-License-Identifier: BSD-3-Clause
 * A shard's sum and its addition to the residual, compared bit by bit with the plain loops that
 * define it: for each update rule, sparse and dense messages, few and many lines. */
#include "shard/reduce.h"
#include "base/bytes.h"
#include "compress/sparse.h"
#include "random.h"
#include "thinned.h"
#include "cases.h"
#include <stdlib.h>
#include <string.h>

enum { SPAN = 5003, STEPS = 6, MESSAGES = 5, BUDGET = 97 };

struct side {
	float sum[SPAN], residual[SPAN], velocity[SPAN], variance[SPAN], params[SPAN];
	uint32_t index[SPAN];
	float value[SPAN];
	size_t n;
};

/* The straightforward way: every loop covers all coordinates. */
static void plain_step(struct side *s, struct selector *selector, const struct change *c)
{
	const struct span all = { 0, SPAN, 0 };
	float *candidate = s->sum;

	update_apply(c->update, s->sum, (struct averages){ s->velocity, s->variance }, s->params,
		     SPAN, c->divisor, c->lr);
	if (c->residual) {
		for (size_t i = 0; i < SPAN; i++)
			s->residual[i] += s->sum[i];
		candidate = s->residual;
	}
	if (c->selects)
		s->n = select_topk(selector, candidate, &all, 1, BUDGET, s->index);
	else
		s->n = select_nonzero(candidate, SPAN, s->index, SPAN);
	for (size_t i = 0; i < s->n; i++)
		s->value[i] = candidate[s->index[i]];
}

static void step(struct side *s, struct reduction *r, struct selector *selector, struct change c)
{
	const struct span all = { 0, SPAN, 0 };
	struct pick_call call = { 0 };

	c.averages = (struct averages){ s->velocity, s->variance };
	c.params = s->params;
	c.residual = c.residual ? s->residual : NULL;
	reduction_change(r, &c, &call);
	if (c.selects) {
		const struct select_call select = { .x = call.vector,
						    .residual = s->residual,
						    .grad = call.grad,
						    .scale = call.scale,
						    .spans = &all,
						    .n_spans = 1,
						    .k = BUDGET,
						    .index = s->index,
						    .value = s->value };
		s->n = select_run(selector, &select, NULL);
	} else {
		s->n = select_nonzero(call.vector, SPAN, s->index, SPAN);
		sparse_gather(call.vector, s->index, s->value, (uint32_t)s->n);
	}
}

static uint32_t make_message(struct random *random, double density, uint32_t *index, float *value)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SPAN; i++)
		if (density >= 1 || random_bits(random) % 100000 < density * 100000) {
			index[n] = i;
			value[n++] = random_normal(random) * 1e-3f;
		}
	return n;
}

static void expect_same(const void *a, const void *b, size_t n)
{
	assert_memory_equal(a, b, n);
}

static void compare(const struct update *update, int with_residual, int selects, double density,
		    unsigned workers, float lr, int senders)
{
	static unsigned sent[SPAN];
	static struct side plain, mine;
	static uint32_t index[SPAN];
	static float value[SPAN];
	struct random random = { workers * 7 + (uint64_t)(density * 1000) };
	struct selector *selector = NULL;
	struct candidates none = { 0 }; /* as in a shard whose recipe keeps no list */
	struct reduction r;

	memset(&plain, 0, sizeof plain);
	for (size_t i = 0; i < SPAN; i++)
		plain.params[i] = random_normal(&random);
	mine = plain;
	assert_int_equal(reduction_open(&r, SPAN, &(struct reduction_attr){ .senders = senders }),
			 0);
	memset(sent, 0, sizeof(sent));
	assert_int_equal(selector_open(SPAN, &selector), 0);
	for (int s = 0; s < STEPS; s++) {
		struct change c = { .update = update,
				    .params = plain.params,
				    .divisor = workers,
				    .lr = lr,
				    .residual = with_residual ? plain.residual : NULL,
				    .candidates = &none,
				    .selects = selects };

		for (unsigned w = 0; w < workers; w++) {
			uint32_t n = make_message(&random, density, index, value);
			int dense = n == SPAN;

			for (uint32_t i = 0; i < n; i++) {
				plain.sum[index[i]] += value[i];
				sent[index[i]] += value[i] != 0;
			}
			reduction_add(&r, dense ? NULL : index, value, n);
		}
		if (s % 3 ==
		    2) /* used only in some of the steps; the lists may omit it in the others */
			expect_same(plain.sum, reduction_sum(&r), sizeof plain.sum);
		for (size_t i = 0; i < SPAN && senders; i++) {
			plain.sum[i] *= 1.0f / (float)(sent[i] ? sent[i] : 1);
			sent[i] = 0;
			c.divisor = 1;
		}
		plain_step(&plain, selector, &c);
		c.divisor = workers;
		step(&mine, &r, selector, c);
		assert_int_equal(mine.n, plain.n);
		expect_same(mine.index, plain.index, plain.n * sizeof *index);
		expect_same(mine.value, plain.value, plain.n * sizeof *value);
		if (with_residual) {
			expect_same(mine.residual, plain.residual, sizeof plain.residual);
			sparse_subtract(mine.residual, mine.index, mine.value, (uint32_t)mine.n);
			for (size_t i = 0; i < plain.n; i++)
				plain.residual[plain.index[i]] -= plain.value[i];
		}
		expect_same(mine.velocity, plain.velocity, sizeof plain.velocity);
		expect_same(mine.variance, plain.variance, sizeof(plain.variance));
		sparse_add(mine.params, mine.index, mine.value, (uint32_t)mine.n);
		for (size_t i = 0; i < plain.n; i++)
			plain.params[plain.index[i]] += plain.value[i];
		expect_same(mine.params, plain.params, sizeof plain.params);
		memset(plain.sum, 0, sizeof plain.sum);
		reduction_clear(&r);
		for (size_t i = 0; i < SPAN; i++)
			assert_int_equal(float_bits(r.sum[i]), 0);
		for (size_t i = 0; i < SPAN / VECTOR_LINE / 64 + 1; i++)
			assert_int_equal(r.lines[i], 0);
	}
	reduction_close(&r);
	selector_close(&selector);
}

TEST(step__any_rule_density_and_residual__is_the_plain_loops_to_the_bit)
{
	static const double densities[] = { 0, 0.002, 0.01, 0.03, 0.4, 1 };
	static const unsigned workers[] = { 1, 3, MESSAGES };

	static const enum update_kind kinds[] = { UPDATE_NONE,     UPDATE_SGD,  UPDATE_MOMENTUM,
						  UPDATE_NESTEROV, UPDATE_ADAM, UPDATE_ADAMW };

	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
		for (unsigned bits = 0; bits < 16; bits++)
			for (size_t d = 0; d < sizeof densities / sizeof *densities; d++)
				for (size_t w = 0; w < 3; w++) {
					if (thinned(kind + bits + d + w, 5))
						continue;
					const struct update update = {
						.kind = kinds[kind],
						.momentum = 0.9f,
						.adam = { 0.9f, 0.99f, 1e-8f, 0, 0 },
						.unbias1 = 10,
						.unbias2 = 10,
						.decay = bits & 1 ? 0.01f : 0,
						.placement = bits & 2 ? STEP_INSIDE : STEP_OUTSIDE
					};
					compare(&update, (bits & 4) != 0, (bits & 8) != 0,
						densities[d], workers[w], 0.05f, 0);
					if (kind < 3)
						compare(&update, (bits & 4) != 0, (bits & 8) != 0,
							densities[d], workers[w], 0.05f, 1);
				}
}

/* ---- messages in lists ----------------------------------------------------- */

enum { LONG = 70001, FEW = 150, STRIDE = 29 };

/* Sums, residuals and messages of a long shard whose last line is incomplete, and to which little
 * is added. */
struct long_shard {
	float sum[LONG], residual[LONG], expected[LONG];
	uint32_t index[LONG];
	float value[LONG];
	struct reduction reduction;
};

static struct long_shard *open_long(void)
{
	struct long_shard *s = calloc(1, sizeof *s);
	struct random random = { 21 };

	assert_non_null(s);
	for (uint32_t i = 0; i < LONG; i++)
		s->residual[i] = s->expected[i] = i % 5 ? random_normal(&random) : -0.0f;
	assert_int_equal(reduction_open(&s->reduction, LONG, &(struct reduction_attr){ 0 }), 0);
	return s;
}

static void close_long(struct long_shard *s)
{
	reduction_close(&s->reduction);
	free(s);
}

/* Makes a message of at most n ascending coordinates, many of which another message also has. */
static uint32_t fill(struct long_shard *s, struct random *random, uint32_t n, float scale)
{
	uint32_t at = random_bits(random) % 3 * STRIDE;

	for (uint32_t i = 0; i < n;
	     i++, at += (1 + random_bits(random) % (2 * LONG / FEW / STRIDE)) * STRIDE) {
		if (at >= LONG)
			return i;
		s->index[i] = at;
		s->value[i] = scale * random_normal(random);
	}
	return n;
}

static void add_both(struct long_shard *s, uint32_t n, int dense)
{
	for (uint32_t i = 0; i < n; i++)
		s->sum[dense ? i : s->index[i]] += s->value[i];
	reduction_add(&s->reduction, dense ? NULL : s->index, s->value, n);
}

/* Computes the change by definition. Zeros are handled line by line: a line to which nothing was
 * added does not change. */
static void change_both(struct long_shard *s, unsigned divisor, int everywhere)
{
	static const struct update sgd = { .kind = UPDATE_SGD, .placement = STEP_INSIDE };
	const struct change c = { .update = &sgd,
				  .params = s->sum,
				  .divisor = divisor,
				  .lr = 0.1f,
				  .residual = s->residual };
	struct pick_call call = { 0 };

	update_apply(&sgd, s->sum, (struct averages){ NULL, NULL }, NULL, LONG, divisor, 0.1f);
	for (uint32_t i = 0; i < LONG; i++)
		if (everywhere || float_bits(s->sum[i]) << 1)
			s->expected[i] += s->sum[i];
	reduction_change(&s->reduction, &c, &call);
	assert_ptr_equal(call.vector, s->residual);
	for (uint32_t i = 0; i < LONG; i++) /* zeros compare by value, because the line of a
					       neighbour may have been added to */
		if (s->expected[i] != 0 || s->residual[i] != 0)
			assert_int_equal(float_bits(s->residual[i]), float_bits(s->expected[i]));
	reduction_clear(&s->reduction);
	memset(s->sum, 0, sizeof s->sum);
	expect_same(reduction_sum(&s->reduction), s->sum, sizeof s->sum);
	for (size_t i = 0; i < LONG / VECTOR_LINE / 64 + 1; i++)
		assert_int_equal(s->reduction.lines[i], 0);
}

TEST(change__lists_of_few_coordinates__is_the_sum_in_the_order_of_messages)
{
	struct long_shard *s = open_long();
	struct random random = { 4 };

	for (int step = 0; step < 40; step++) {
		const unsigned workers = 1 + (unsigned)step % 7;

		for (unsigned w = 0; w < workers;
		     w++) /* so different in size that every other order gives other bits */
			add_both(s, fill(s, &random, w == 2 ? 0 : FEW, w % 2 ? 1e6f : 1), 0);
		assert_int_equal(s->reduction.n_lists, workers);
		change_both(s, workers, 0);
		assert_int_equal(s->reduction.n_lists, 0);
	}
	close_long(s);
}

TEST(change__lists_that_overflow_in_the_middle__is_the_sum_in_the_order_of_messages)
{
	struct long_shard *s = open_long();
	struct random random = { 5 };

	for (int step = 0; step < 30; step++) {
		const uint32_t full = s->reduction.room;
		const int dense = step % 3 == 1;
		uint32_t n = 0;

		add_both(s, fill(s, &random, FEW, 1e6f), 0);
		assert_int_equal(s->reduction.n_lists, 1);
		for (uint32_t i = 0; i < LONG && (dense || n < full); i += dense ? 1 : 2) {
			s->index[n] = i;
			s->value[n++] = random_normal(&random);
		}
		add_both(s, n, dense);
		assert_int_equal(s->reduction.n_lists, 0);
		add_both(s, fill(s, &random, FEW, 1), 0); /* few coordinates, but added to those
							     of other messages */
		assert_int_equal(s->reduction.n_lists, 0);
		change_both(s, 3, dense);
	}
	close_long(s);
}

TEST(add__exactly_the_room_or_one_more__waits_or_is_summed)
{
	struct long_shard *s = open_long();
	const uint32_t full = s->reduction.room;

	assert_true(full > 100 && full < LONG / 2);
	for (uint32_t over = 0; over < 2; over++) {
		for (uint32_t i = 0; i < full + over; i++) {
			s->index[i] = 2 * i;
			s->value[i] = (float)i + 1;
		}
		add_both(s, full - 50, 0);
		for (uint32_t i = 0; i < 50 + over; i++)
			s->index[i] = LONG - 51 + i;
		add_both(s, 50 + over, 0);
		assert_int_equal(s->reduction.n_lists, over ? 0 : 2);
		change_both(s, 2, 0);
	}
	close_long(s);
}

TEST(add__more_messages_than_lists__is_summed)
{
	struct long_shard *s = open_long();
	struct random random = { 6 };

	for (int more = 0; more < 3; more++) {
		for (uint32_t l = 0; l < REDUCTION_LISTS + (uint32_t)more; l++)
			add_both(s, fill(s, &random, l % 3, 1), 0);
		assert_int_equal(s->reduction.n_lists, more ? 0 : REDUCTION_LISTS);
		change_both(s, 5, 0);
	}
	close_long(s);
}

TEST(clear__messages_wait__forgets_them)
{
	struct long_shard *s = open_long();
	struct random random = { 7 };

	reduction_add(&s->reduction, s->index, s->value, fill(s, &random, FEW, 1));
	reduction_clear(&s->reduction);
	expect_same(reduction_sum(&s->reduction), s->sum, sizeof s->sum);
	change_both(s, 1, 0);
	close_long(s);
}

/* Coordinates without messages must keep their values: nothing is read or written there. */
TEST(change__few_lines_and_a_residual__leaves_the_other_lines_alone)
{
	const struct update update = { .kind = UPDATE_SGD, .placement = STEP_OUTSIDE };
	static float residual[SPAN], params[SPAN];
	const uint32_t index[] = { 0, 17, SPAN - 1 };
	const float value[] = { 1, 2, 3 };
	struct pick_call call = { 0 };
	struct reduction r;

	assert_int_equal(reduction_open(&r, SPAN, &(struct reduction_attr){ 0 }), 0);
	for (size_t i = 0; i < SPAN; i++)
		residual[i] = -0.0f; /* adding a zero of the other sign would change this value */
	reduction_add(&r, index, value, 3);
	const struct change c = { .update = &update,
				  .params = params,
				  .divisor = 2,
				  .lr = -0.5f,
				  .residual = residual,
				  .selects = 1 };
	reduction_change(&r, &c, &call);
	assert_ptr_equal(call.vector, residual);
	assert_null(call.grad);
	assert_true(residual[0] == 0.25f && residual[17] == 0.5f && residual[SPAN - 1] == 0.75f);
	for (size_t i = 2 * VECTOR_LINE; i < SPAN - VECTOR_LINE; i++)
		assert_int_equal(float_bits(residual[i]), 0x80000000);
	reduction_clear(&r);
	reduction_close(&r);
}

TEST(sparse__any_count__is_the_plain_loop)
{
	static float a[SPAN], b[SPAN], value[SPAN], got[SPAN];
	static uint32_t index[SPAN];
	struct random random = { 3 };

	for (int round = 0; round < 40; round++) {
		uint32_t n = make_message(&random, round / 40.0, index, value);

		sparse_add(a, index, value, n);
		for (uint32_t i = 0; i < n; i++)
			b[index[i]] += value[i];
		expect_same(a, b, sizeof a);
		sparse_gather(a, index, got, n);
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(float_bits(got[i]), float_bits(b[index[i]]));
		make_message(&random, 1, index, value);
		sparse_subtract(a, NULL, value, SPAN);
		for (uint32_t i = 0; i < SPAN; i++)
			b[i] -= value[i];
		expect_same(a, b, sizeof a);
	}
}
