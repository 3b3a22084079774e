/* SPDX-License-Identifier: BSD-3-Clause
 * The blocks of transform=: their sides divide those of the tensors, they cover the vector once,
 * shards hold whole units, and what was transformed returns. */
#include "model/layout.h"
#include "model/transform.h"
#include "random.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 8, COUNT = 96 * 130 + 128 + 101 * 70 + 70 * 101 + 97 + 13 * 17 + 50 + 3 };
static const sluice_tensor tensors[TENSORS] = {
	{ "matrix", 96 * 130 },        { "vector", 128 }, { "prime.rows", 101 * 70 },
	{ "prime.columns", 70 * 101 }, { "prime", 97 },   { "primes", 13 * 17 },
	{ "exempt.bias", 50 },         { "three", 3 },
};
static const uint64_t columns[TENSORS] = { 130, 0, 70, 101, 0, 17, 10, 1 };
/* The sides of the blocks with S = 64. */
static const uint32_t sides[TENSORS][2] = { { 48, 26 }, { 1, 64 },  { 1, 35 }, { 35, 1 },
					    { 1, 1 },   { 13, 17 }, { 1, 1 },  { 3, 1 } };

static const sluice_model_attr attr = { .size = sizeof(attr),
					.count = COUNT,
					.tensors = tensors,
					.n_tensors = TENSORS,
					.columns = columns };

static struct recipe recipe_of(const char *text)
{
	struct recipe r;

	assert_int_equal(recipe_parse(text, &r), 0);
	return r;
}

#define RECIPE "up=block-topk(32,4096) down=all transform=dct(64)"

static struct transform *opened(const sluice_model_attr *of, const char *text)
{
	const struct recipe r = recipe_of(text);
	struct transform *t;

	assert_int_equal(transform_open(of, &r, &t), 0);
	return t;
}

TEST(transform_block_at__tensors_of_any_shape__are_covered_by_blocks_of_their_divisors)
{
	struct transform *t = opened(&attr, RECIPE);
	unsigned *seen = calloc(COUNT, sizeof(*seen));
	uint64_t at = 0;

	for (size_t i = 0; i < TENSORS; i++) {
		const uint64_t begin = at, end = at + tensors[i].count;

		while (at < end) {
			const struct transform_block b = transform_block_at(t, at);

			assert_int_equal(b.begin, at);
			if (sides[i][0] * sides[i][1] > 1) {
				assert_int_equal(b.rows, sides[i][0]);
				assert_int_equal(b.columns, sides[i][1]);
			}
			for (uint32_t r = 0; r < b.rows; r++)
				for (uint32_t c = 0; c < b.columns; c++) {
					const uint64_t p = b.origin + r * b.stride + c;

					assert_in_range(p, begin, end - 1);
					seen[p]++;
				}
			at += (uint64_t)b.rows * b.columns;
		}
		assert_int_equal(at, end);
	}
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(seen[i], 1);
	free(seen);
	transform_close(&t);
}

TEST(transform_invert__any_range_of_units__returns_what_was_transformed)
{
	struct transform *t = opened(&attr, RECIPE);
	float *v = malloc(COUNT * sizeof(*v)), *coefficients = malloc(COUNT * sizeof(*v)), *room;
	static float block[DCT_MOST * DCT_MOST];
	struct random random = { 5 };

	room = malloc(transform_longest_unit(t, 0, COUNT) * sizeof(*room));
	for (size_t i = 0; i < COUNT; i++)
		v[i] = i < 48 * 130 ? 0.0f : random_normal(&random); /* the first unit is zero */
	for (uint64_t at = 0; at < COUNT;) {
		const struct transform_block b = transform_block_at(t, at);

		for (uint32_t r = 0; r < b.rows; r++)
			memcpy(block + r * DCT_MOST, v + b.origin + r * b.stride,
			       b.columns * sizeof(*block));
		transform_forward(t, &b, block, coefficients + at);
		at += (uint64_t)b.rows * b.columns;
	}
	/* Each shard transforms its units back. */
	for (uint64_t at = 0, end; at < COUNT; at = end) {
		end = transform_unit_at(t, at + COUNT / 5 < COUNT ? at + COUNT / 5 : COUNT - 1).end;
		assert_int_equal(transform_unit_at(t, at).begin, at);
		transform_invert(t, at, coefficients + at, end - at, room);
	}
	for (size_t i = 0; i < COUNT; i++)
		assert_true(i < 48 * 130 ? coefficients[i] == 0.0f && !signbit(coefficients[i]) :
					   fabsf(coefficients[i] - v[i]) < 1e-5f);
	free(v);
	free(coefficients);
	free(room);
	transform_close(&t);
}

TEST(transform__exempt_tensors_and_sides_of_1__are_left_as_they_are)
{
	struct transform *t = opened(&attr, "up=all down=all transform=dct(1)");
	float block[DCT_MOST * DCT_MOST] = { 1, 2, 3 }, out[DCT_MOST];
	struct transform_block b = transform_block_at(t, 100);

	assert_int_equal(b.rows, 1);
	assert_int_equal(b.origin, 100);
	transform_forward(t, &b, block, out);
	assert_memory_equal(out, block, 3 * sizeof(*out));
	assert_int_equal(transform_unit_at(t, 7).end, 8);
	transform_close(&t);
	t = opened(&attr, RECIPE);
	/* 32 of each block, all of a shorter one, and nothing of what dense= sends whole. */
	assert_int_equal(transform_selected(t, 0, COUNT, 32),
			 10 * 32 + 2 * 32 + 202 * 32 + 202 * 32 + 97 + 32 + 0 + 3);
	transform_close(&t);
	t = opened(&attr, "up=all down=all");
	assert_null(t);
}

static int shape(uint32_t shards, int workers, const char *text, struct layout *l)
{
	sluice_model_attr of = attr;
	struct recipe r = recipe_of(text);
	struct schedule schedule;

	of.shards = shards;
	assert_int_equal(schedule_compile(&r, 0, 0, &schedule), 0);
	return layout_make(&of, &r, &schedule, workers, workers, l);
}

TEST(layout__shards_of_a_transform__begin_with_a_unit_and_have_room_for_each_block)
{
	for (uint32_t shards = 1; shards < 40; shards++) {
		struct layout l;
		uint64_t at = 0;

		assert_int_equal(shape(shards, 3, RECIPE, &l), 0);
		for (uint32_t s = 0; s < l.n_shards; s++) {
			const struct shard_layout *of = &l.shards[s];

			assert_int_equal(of->begin, at);
			assert_true(of->span > 0);
			at += of->span;
			assert_int_equal(transform_unit_at(l.transform, of->begin).begin,
					 of->begin);
			assert_true(of->up_capacity >=
				    transform_selected(l.transform, of->begin, at, 32));
			assert_int_equal(of->down_capacity, of->span);
		}
		assert_int_equal(at, COUNT);
		layout_free(&l);
	}
}

TEST(layout__fewer_units_than_shards__are_refused_or_reduce_the_default)
{
	const sluice_tensor one = { "one", 64 * 5000 };
	const uint64_t width = 5000;
	sluice_model_attr of = { .size = sizeof(of),
				 .count = 64 * 5000,
				 .tensors = &one,
				 .n_tensors = 1,
				 .columns = &width };
	struct recipe r = recipe_of(RECIPE);
	struct schedule schedule;
	struct layout l;

	assert_int_equal(schedule_compile(&r, 0, 0, &schedule), 0);
	assert_int_equal(layout_make(&of, &r, &schedule, 4, 4, &l), 0);
	assert_int_equal(l.n_shards, 1);
	layout_free(&l);
	of.shards = 2;
	assert_int_equal(layout_make(&of, &r, &schedule, 4, 4, &l), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "set fewer shards, or 0"));
}

TEST(transform_single__counts_tensors_without_blocks)
{
	struct transform *t = opened(&attr, RECIPE);

	assert_int_equal(transform_single(t), 97); /* "prime"; dense= names the bias */
	transform_close(&t);
}
