/* SPDX-License-Identifier: BSD-3-Clause
 * Count sketches against their definition, coordinate by coordinate, and the versions of their
 * kernels against plain loops: all to the bit. */
#include "base/bytes.h"
#include "compress/sketch_kernels.h"
#include "vector_kinds.h"
#include "cases.h"
#include <stdlib.h>
#include <string.h>

static void each_version(void (*check)(const struct sketch_kernels *))
{
	for (size_t i = 0; sketch_versions[i]; i++)
		if (sketch_versions[i]->usable())
			check(sketch_versions[i]);
		else
			print_message("%s: not on this processor\n", sketch_versions[i]->name);
}

static void *memory(size_t bytes)
{
	void *p = calloc(bytes + 1, 1);

	assert_non_null(p);
	return p;
}

/* ---- the definition ---- */

static int compare_floats(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static void define_add(const struct sketch_shape *shape, const float *x, uint32_t n, float *cells)
{
	const struct sketch_hashes h = sketch_hashes(shape);

	for (uint32_t j = 0; j < n; j++)
		for (uint32_t r = 0; r < shape->rows && x[j] != 0; r++) {
			float *cell = cells + (size_t)r * shape->columns +
				      sketch_bucket(&h, r, j, shape->columns);

			*cell += sketch_signs(&h, j) >> r & 1 ? -x[j] : x[j];
		}
}

static float define_estimate(const struct sketch_shape *shape, const struct sketch_hashes *h,
			     const float *cells, uint32_t j)
{
	float rows[SKETCH_ROWS_MAX];

	for (uint32_t r = 0; r < shape->rows; r++) {
		float cell =
			cells[(size_t)r * shape->columns + sketch_bucket(h, r, j, shape->columns)];

		rows[r] = sketch_signs(h, j) >> r & 1 ? -cell : cell;
	}
	qsort(rows, shape->rows, sizeof(*rows), compare_floats);
	return rows[shape->rows / 2];
}

/* Cells start with values of earlier sums, including -0. Infinities must keep their signs. */
static void check_shape(uint32_t n, uint32_t rows, uint32_t columns, int kind)
{
	const struct sketch_shape shape = { rows, columns, n + 3 * columns };
	const struct sketch_hashes h = sketch_hashes(&shape);
	const size_t cells = (size_t)rows * columns;
	struct random r = { n + rows };
	float *x = memory(n * sizeof(*x)), *out = memory((n + 1) * sizeof(*out));
	float *want = memory(cells * sizeof(*want)), *got = memory(cells * sizeof(*got));

	for (uint32_t j = 0; j < n; j++)
		x[j] = value_of(kind, &r);
	for (size_t i = 0; i < cells; i++)
		want[i] = got[i] = i % 5 ? random_normal(&r) : -0.0f;
	define_add(&shape, x, n, want);
	sketch_add(&shape, x, n, got);
	for (size_t i = 0; i < cells; i++)
		assert_true(float_bits(want[i]) == float_bits(got[i]) ||
			    (isnan(want[i]) && isnan(got[i])));
	for (size_t i = 0; i < cells; i++)
		got[i] = isnan(got[i]) ? INFINITY : got[i]; /* NaN cannot be ordered */
	out[n] = 12345;
	sketch_estimate(&shape, got, n, out);
	assert_true(out[n] == 12345);
	for (uint32_t j = 0; j < n; j++)
		assert_true(out[j] == define_estimate(&shape, &h, got, j));
	free(x);
	free(out);
	free(want);
	free(got);
}

static void check_definition(const struct sketch_kernels *version)
{
	static const uint32_t sizes[] = {
		0, 1, 7, 8, 9, 31, SKETCH_RUN - 1, SKETCH_RUN, SKETCH_RUN + 1, 2 * SKETCH_RUN + 5
	};

	sketch_kernels_use(version);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (uint32_t rows = 1; rows <= SKETCH_ROWS_MAX; rows += 2) {
			check_shape(sizes[s], rows, sizes[s] / 20 + 1, (int)(rows / 2 + s) % 9);
			check_shape(sizes[s], rows, rows % 4 == 1 ? 1 : sizes[s] + 300, 0);
		}
	sketch_kernels_use(NULL);
}

TEST(sketch__any_shape_and_values__is_as_defined_coordinate_by_coordinate)
{
	each_version(check_definition);
}

/* ---- versions ---- */

/* Returns a first coordinate at which sums of the polynomial's differences, or the coordinate's
 * number, wrap around. */
static uint32_t some_first(struct random *r)
{
	static const uint32_t firsts[] = { 0, 8, 4096, 0x7ffffff9, 0xfffff000 };

	return random_bits(r) % 3 ? firsts[random_bits(r) % 5] : random_bits(r) & 0xfffff7ff;
}

static void check_hashes(const struct sketch_kernels *version)
{
	static uint32_t want[SKETCH_RUN], got[SKETCH_RUN];
	struct random r = { 8 };

	for (unsigned round = 0; round < 400; round++) {
		const struct sketch_shape shape = { SKETCH_ROWS_MAX, 1, round };
		struct sketch_hashes h = sketch_hashes(&shape);
		const uint32_t first = some_first(&r), row = random_bits(&r) % SKETCH_ROWS_MAX;
		const uint32_t columns = 1 + (random_bits(&r) >> random_bits(&r) % 32) % UINT32_MAX;
		const size_t n = SKETCH_GROUP * (1 + random_bits(&r) % (SKETCH_RUN / SKETCH_GROUP));

		/* In some rounds all coefficients are at the ends of the field's range. */
		for (int i = 0; i < 4; i++)
			if (round % 4 == 0)
				h.sign[i] = random_bits(&r) % 2 ? 0 : SKETCH_PRIME - 1;
		for (size_t i = 0; i < n; i++)
			want[i] = (uint32_t)sketch_signs(&h, first + (uint32_t)i);
		version->signs(&h, first, n, got);
		assert_memory_equal(got, want, n * sizeof(*want));
		for (size_t i = 0; i < n; i++)
			want[i] = sketch_bucket(&h, row, first + (uint32_t)i, columns);
		version->buckets(&h, row, first, columns, n, got);
		assert_memory_equal(got, want, n * sizeof(*want));
		for (size_t i = 0; i < n; i++)
			assert_true(got[i] < columns);
	}
}

TEST(signs_and_buckets__any_version__are_as_defined)
{
	each_version(check_hashes);
}

static void check_addends(const struct sketch_kernels *version)
{
	static float x[SKETCH_RUN], want[SKETCH_RUN], got[SKETCH_RUN + 1];
	static uint32_t sign[SKETCH_RUN];
	struct random r = { 10 };

	for (unsigned round = 0; round < 300; round++) {
		const uint32_t row = random_bits(&r) % SKETCH_ROWS_MAX;
		const size_t n = random_bits(&r) % 70;

		for (size_t i = 0; i < n; i++) {
			x[i] = random_bits(&r) % 50 ? value_of((int)(round % VECTOR_KINDS), &r) :
						      NAN;
			sign[i] = random_bits(&r);
		}
		got[n] = 12345;
		for (size_t i = 0; i < n; i++)
			want[i] = sketch_addend(x[i], sign[i], row);
		version->addends(x, sign, row, n, got);
		assert_memory_equal(got, want, n * sizeof(*want));
		assert_true(got[n] == 12345);
	}
}

TEST(addends__any_version__are_as_defined)
{
	each_version(check_addends);
}

/* With NaN, the order of comparisons decides the result, so it must be that of the kernels. */
static float median(float (*cells)[SKETCH_RUN], uint32_t rows, uint32_t sign, size_t i)
{
	float v[SKETCH_ROWS_MAX];

	for (uint32_t row = 0; row < rows; row++)
		v[row] = bits_float(float_bits(cells[row][i]) ^ (sign >> row & 1) << 31);
	for (uint32_t front = 0; front <= rows / 2; front++)
		for (uint32_t at = rows - 1; at > front; at--) {
			const float a = v[at - 1], b = v[at];

			v[at - 1] = a < b ? a : b;
			v[at] = a > b ? a : b;
		}
	return v[rows / 2];
}

static void check_medians(const struct sketch_kernels *version)
{
	static float cells[SKETCH_ROWS_MAX][SKETCH_RUN], want[SKETCH_RUN], got[SKETCH_RUN];
	static uint32_t sign[SKETCH_RUN];
	struct random r = { 9 };

	for (unsigned round = 0; round < 300; round++) {
		const uint32_t rows = 1 + 2 * (random_bits(&r) % 8);
		const size_t n = SKETCH_GROUP * (1 + random_bits(&r) % 16);

		for (uint32_t row = 0; row < rows; row++)
			for (size_t i = 0; i < n; i++)
				cells[row][i] = round % 10 == 0 && random_bits(&r) % 20 == 0 ?
							NAN :
							value_of((int)(round % VECTOR_KINDS), &r);
		for (size_t i = 0; i < n; i++)
			sign[i] = random_bits(&r);
		for (size_t i = 0; i < n; i++)
			want[i] = median(cells, rows, sign[i], i);
		version->medians(cells, rows, sign, n, got);
		assert_memory_equal(got, want, n * sizeof(*want));
	}
}

/* The values include NaN and zeros of both signs. */
TEST(medians__any_version__are_as_defined)
{
	each_version(check_medians);
}
