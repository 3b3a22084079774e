/* SPDX-License-Identifier: BSD-3-Clause
 * Count sketches on the device against runtime/compress/sketch.c, bit by bit: alone, and as the
 * payloads of a push, with the values that are asked for after it. */

#include "base/bytes.h"
#include "compress/sketch.h"
#include "gpu.h"
#include "random.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- alone ----------------------------------------------------------------- */

static void compare_sketch(uint32_t n, uint32_t rows, uint32_t columns, int kind)
{
	const struct sketch_shape shape = { rows, columns, n + columns };
	const size_t cells = (size_t)rows * columns * 4;
	struct random r = { n + rows };
	float *x = memory((size_t)n * 4), *here = memory(cells), *got = memory(cells);
	struct device_sketch *s;

	for (uint32_t i = 0; i < n; i++)
		x[i] = kind && random_bits(&r) % 3 ? 0.0f : gpu_value(kind, &r);
	for (uint32_t i = 0; i < rows * columns; i++)
		here[i] = random_normal(&r); /* the sketch is added to these values */
	float *x_there = gpu_memory(x, (size_t)n * 4), *there = gpu_memory(here, cells);
	const struct device_sketch_call call = { x_there, there, n, rows, columns, shape.seed };

	assert_int_equal(gpu_kernels()->sketch_open(0, n, columns, &s), 0);
	for (int times = 0; times < 2; times++) {
		sketch_add(&shape, x, n, here);
		assert_int_equal(gpu_kernels()->sketch_add(s, &call, NULL), 0);
	}
	gpu_fetch(got, there, cells);
	assert_memory_equal(got, here, cells);
	gpu_kernels()->sketch_close(&s);
	gpu_free(x_there);
	gpu_free(there);
	free(x);
	free(here);
	free(got);
}

TEST(sketch__any_shape_gives_the_bits_of_the_cpu)
{
	static const uint32_t sizes[] = { 0, 1, 31, 32, 33, 255, 257, 8191, 100007 };

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		compare_sketch(sizes[s], 5, sizes[s] / 20 + 1, 0);
		compare_sketch(sizes[s], 1, 1, 1); /* one list of all coordinates */
		compare_sketch(sizes[s], 3, sizes[s] + 300, 3);
	}
	compare_sketch(3000, SKETCH_ROWS_MAX, 257, 0);
}

TEST(sketch__more_than_it_was_opened_for_is_refused)
{
	const struct device_sketch_call call = { .n = 33, .rows = 1, .columns = 4 };
	const struct device_sketch_call wide = { .n = 32, .rows = 1, .columns = 5 };
	struct device_sketch *s;

	assert_int_equal(gpu_kernels()->sketch_open(0, 32, 4, &s), 0);
	assert_int_equal(gpu_kernels()->sketch_add(s, &call, NULL), -1);
	assert_int_equal(gpu_kernels()->sketch_add(s, &wide, NULL), -1);
	gpu_kernels()->sketch_close(&s);
}

/* ---- as payloads ----------------------------------------------------------- */

enum { PARTS = 4, ROWS = 3, N = 9001, ROOM = 16384, ASKED = 700 };
/* The most operations of a push, for any number of parts. */
enum { SKETCH_OPERATIONS = 8, VALUE_OPERATIONS = 5 };

static void skip_count(void)
{
	struct emulated_counts unused;

	gpu_count(&unused);
}

static void expect_operations(unsigned most)
{
	struct emulated_counts seen;

	gpu_count(&seen);
	assert_in_range(seen.kernels + seen.sets + seen.copies, 0, most);
	assert_int_equal(seen.pageable, 0);
}

static const uint32_t begins[PARTS + 1] = { 0, 1, 300, 7000, N };
static const uint32_t columns[PARTS] = { 1, 40, 1000, 333 };

struct sketched {
	struct device_compressor *c;
	struct device_part parts[PARTS];
	uint8_t *payloads, *pinned;
	struct memory landing;
	float *residual, *grad; /* memory of the device */
};

static void open_sketched(struct sketched *g, const float *residual)
{
	const struct device_span exempt = { 0, 100 };
	const struct device_shape shape = { .n = N,
					    .k = PARTS * ASKED,
					    .exempt = &exempt,
					    .n_exempt = 1,
					    .parts = PARTS,
					    .sketch_columns = 1 + 40 + 1000 + 333,
					    .landed = PARTS * ASKED };

	assert_int_equal(gpu()->open(&shape, &g->c), 0);
	assert_int_equal(gpu()->alloc(MEMORY_HOST, PARTS * ROOM, &g->landing), 0);
	g->pinned = g->landing.address;
	g->payloads = gpu_memory(NULL, PARTS * ROOM);
	g->residual = gpu_memory(residual, N * sizeof(float));
	g->grad = gpu_memory(NULL, N * sizeof(float));
	for (size_t p = 0; p < PARTS; p++)
		g->parts[p] = (struct device_part){ .begin = begins[p],
						    .span = begins[p + 1] - begins[p],
						    .payload = g->payloads + p * ROOM,
						    .copy = p % 2 ? g->pinned + p * ROOM : NULL };
}

static void close_sketched(struct sketched *g)
{
	gpu()->close(&g->c);
	gpu()->release(&g->landing);
	gpu_free(g->payloads);
	gpu_free(g->residual);
	gpu_free(g->grad);
}

/* Checks the payload of part p, and that nothing after it was written. */
static void expect_payload(const struct sketched *g, size_t p, const float *wanted,
			   const struct device_sent *sent)
{
	const size_t bytes = g->parts[p].bytes;
	uint8_t *got = memory(ROOM);

	assert_int_equal(sent->packed, 1);
	assert_int_equal(sent->payload_bytes, bytes);
	assert_int_equal(sent->crc, crc32c(0, (const uint8_t *)wanted, bytes));
	gpu_fetch(got, g->parts[p].payload, ROOM);
	assert_memory_equal(got, wanted, bytes);
	if (g->parts[p].copy) {
		assert_memory_equal(g->parts[p].copy, wanted, bytes);
		for (size_t i = bytes; i < ROOM; i++)
			assert_int_equal(g->parts[p].copy[i], POISON);
	}
	free(got);
}

static void expect_sketches(struct sketched *g, const float *residual,
			    const struct device_sent *sent)
{
	for (size_t p = 0; p < PARTS; p++) {
		const struct sketch_shape shape = { ROWS, columns[p], p };
		float *cells = calloc(ROWS * columns[p], sizeof(*cells));

		assert_non_null(cells);
		sketch_add(&shape, residual + begins[p], g->parts[p].span, cells);
		expect_payload(g, p, cells, &sent[p]);
		free(cells);
	}
}

/* Requests about every third coordinate of each part except the first. */
static void ask_for_values(struct sketched *g, const float *residual, struct random *r)
{
	static uint32_t index[PARTS][ASKED];
	float wanted[PARTS][ASKED];
	struct device_selected nothing;
	struct device_sent sent[PARTS];

	memset(g->pinned, POISON, PARTS * ROOM);
	for (size_t p = 0; p < PARTS; p++) {
		uint32_t n = 0;

		for (uint32_t i = 0; p && i < g->parts[p].span && n < ASKED; i++)
			if (random_bits(r) % 3 == 0) {
				wanted[p][n] = residual[begins[p] + i];
				index[p][n++] = i;
			}
		g->parts[p].bytes = n * (uint32_t)sizeof(float);
		g->parts[p].index = index[p];
	}
	const struct device_push push = { .payload = DEVICE_VALUES,
					  .vector = g->residual,
					  .parts = g->parts };
	skip_count();
	assert_int_equal(gpu()->push(g->c, &push, NULL), 0);
	expect_operations(VALUE_OPERATIONS);
	memset(index, 0xff, sizeof(index)); /* the caller may now reuse the lists */
	assert_int_equal(gpu()->pushed(g->c, &nothing, sent, NULL), 0);
	for (size_t p = 0; p < PARTS; p++)
		expect_payload(g, p, wanted[p], &sent[p]);
}

TEST(push_sketches__each_part_has_its_sketch_and_then_its_values)
{
	struct random r = { 5 };
	float *residual = memory(N * sizeof(float)), *grad = memory(N * sizeof(float));
	struct device_selected selected;
	struct device_sent sent[PARTS];
	struct sketched g;

	for (size_t i = 0; i < N; i++)
		residual[i] = random_normal(&r);
	open_sketched(&g, residual);
	for (int step = 0; step < 6; step++) {
		const int refused = step == 2;
		const struct device_push push = { .payload = DEVICE_SKETCHES,
						  .select = { .residual = g.residual,
							      .grad = g.grad,
							      .scale = 0.5f,
							      .k = 7,
							      .judge = 1 },
						  .rows = ROWS,
						  .parts = g.parts };

		for (size_t i = 0; i < N; i++)
			grad[i] = gpu_value(step % 2 * 3, &r);
		if (refused)
			grad[4321] = NAN;
		for (size_t i = 0; i < N && !refused; i++)
			residual[i] += 0.5f * grad[i];
		memset(g.pinned, POISON, PARTS * ROOM);
		for (size_t p = 0; p < PARTS; p++)
			g.parts[p].bytes = ROWS * columns[p] * (uint32_t)sizeof(float);
		assert_int_equal(gpu()->copy(g.grad, grad, N * sizeof(float), NULL), 0);
		skip_count();
		assert_int_equal(gpu()->push(g.c, &push, NULL), 0);
		expect_operations(SKETCH_OPERATIONS + !step); /* the first push sends the parts */
		assert_int_equal(gpu()->pushed(g.c, &selected, sent, NULL), 0);
		assert_int_equal(selected.n, 0);
		assert_int_equal(selected.nonfinite, refused);
		expect_sketches(&g, residual, sent);
		ask_for_values(&g, residual, &r);
		for (size_t p = 0; p < PARTS; p++)
			assert_int_equal(sent[p].nonfinite, 0);
		gpu_fetch(grad, g.residual, N * sizeof(float));
		assert_memory_equal(grad, residual, N * sizeof(float));
	}
	close_sketched(&g);
	free(residual);
	free(grad);
}

/* One coordinate of part 2, which is in one cell per row of that part's sketch. */
TEST(push_sketches__infinity_or_nan__part_is_named)
{
	static const float bad[] = { INFINITY, -INFINITY, NAN };
	struct device_selected selected;
	struct device_sent sent[PARTS];
	struct sketched g;
	float *residual = memory(N * sizeof(float));

	for (size_t b = 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
		for (size_t i = 0; i < N; i++)
			residual[i] = 1;
		residual[begins[3] - 1] = bad[b];
		open_sketched(&g, residual);
		const struct device_push push = { .payload = DEVICE_SKETCHES,
						  .select = { .residual = g.residual,
							      .grad = g.grad },
						  .rows = ROWS,
						  .parts = g.parts };

		assert_int_equal(gpu()->zero(g.grad, N * sizeof(float), NULL), 0);
		for (size_t p = 0; p < PARTS; p++)
			g.parts[p].bytes = ROWS * columns[p] * (uint32_t)sizeof(float);
		assert_int_equal(gpu()->push(g.c, &push, NULL), 0);
		assert_int_equal(gpu()->pushed(g.c, &selected, sent, NULL), 0);
		for (size_t p = 0; p < PARTS; p++)
			assert_int_equal(sent[p].nonfinite, p == 2);
		close_sketched(&g);
	}
	free(residual);
}

TEST(push_values__more_than_there_is_room_for_is_refused)
{
	static const uint32_t index[N];
	struct sketched g;
	float *residual = memory(N * sizeof(float));
	struct device_push push = { .payload = DEVICE_VALUES, .parts = g.parts };

	open_sketched(&g, residual);
	for (size_t p = 0; p < PARTS; p++) {
		g.parts[p].bytes = ROOM;
		g.parts[p].index = index;
	}
	push.vector = g.residual;
	assert_int_equal(gpu()->push(g.c, &push, NULL), -1);
	push.payload = DEVICE_SKETCHES; /* without rows */
	assert_int_equal(gpu()->push(g.c, &push, NULL), -1);
	close_sketched(&g);
	free(residual);
}
