/* SPDX-License-Identifier: BSD-3-Clause
 * Approximate, random and blockwise selection on the device against choose.h's on the CPU, bit by
 * bit: gaussiank, random, variance and block-topk. The kernels run on the CPU here and on a GPU in
 * tests/gpu/run. */

#include "base/team.h"
#include "compress/choose.h"
#include "compress/moments.h"
#include "gpu.h"
#include "gpu_vectors.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum way { GAUSSIAN, DENSITY, VARIANCE, BLOCKS };
enum { WAYS = 4, SEED = 5, RANK = 3 };
static const size_t sizes[] = { 0,    1,    31,   32,   33,   127,   128,   129,
				1023, 1024, 1025, 8191, 8193, 33000, 100007 };
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static size_t choose(enum way way, const struct choice *c)
{
	return way == BLOCKS   ? selection_kinds[SELECT_BLOCK_TOPK].run(c) :
	       way == GAUSSIAN ? choose_gaussiank(c) :
	       way == DENSITY  ? choose_random(c) :
				 choose_variance(c);
}

/* Computes residual += scale * grad (or = if fresh) and the selection, on both sides. */
static void expect_same_step(enum way way, struct device_selector *device, struct pair *residual,
			     const struct pair *grad, const struct spans *spans, double wanted,
			     uint64_t k, uint32_t block, uint64_t step, int fresh)
{
	struct lists cpu = lists_new(residual->n), got = lists_new(residual->n);
	struct selector *selector;
	assert_int_equal(selector_open(residual->n, &selector), 0);
	const struct choice choice = { .x = residual->here,
				       .selector = selector,
				       .block = block,
				       .spans = spans->all,
				       .n_spans = spans->n,
				       .density = wanted,
				       .level = (float)wanted,
				       .k = k,
				       .index = cpu.index,
				       .stream = { RANDOM_KEEP, RANK, step, SEED } };
	const struct device_selection call = { .call.residual = residual->there,
					       .call.grad = grad->there,
					       .call.scale = 0.5f,
					       .call.k = k,
					       .call.block = block,
					       .call.gaussian = way == GAUSSIAN,
					       .call.quantile = gaussian_quantile(wanted),
					       .call.draw = way == DENSITY  ? DEVICE_DRAW_DENSITY :
							    way == VARIANCE ? DEVICE_DRAW_VARIANCE :
									      DEVICE_DRAW_NONE,
					       .call.wanted = way == VARIANCE ?
								      (double)(float)wanted :
								      wanted,
					       .call.purpose = RANDOM_KEEP,
					       .call.rank = RANK,
					       .call.step = step,
					       .call.seed = SEED,
					       .call.fresh = fresh };
	struct device_selected out;
	float largest = 0;

	for (size_t i = 0; i < residual->n; i++) {
		float before = fresh ? 0 : residual->here[i];

		residual->here[i] = before + 0.5f * grad->here[i];
		largest = fabsf(residual->here[i]) > largest ? fabsf(residual->here[i]) : largest;
	}
	cpu.n = choose(way, &choice);
	for (size_t i = 0; i < cpu.n; i++)
		cpu.value[i] = residual->here[cpu.index[i]];
	assert_int_equal(gpu_kernels()->select(device, &call, NULL), 0);
	assert_int_equal(gpu_kernels()->selected(device, got.index, got.value, &out, NULL), 0);
	got.n = out.n;
	assert_int_equal(out.overfull, 0);
	assert_true(out.largest == largest);
	expect_same_lists(&cpu, &got);
	expect_same_vector(residual);
	selector_close(&selector);
	lists_free(&cpu);
	lists_free(&got);
}

static void compare(enum way way, int kind, size_t n, double wanted, uint64_t seed)
{
	struct random r = { seed };
	struct pair residual = pair_new(n, seed % 2),
		    grad = pair_new(n, seed / 2 % (UNALIGNED_MOST + 1));
	struct spans spans = spans_of(n, seed % 3 == 1, &r);
	static const uint32_t lengths[] = { 256, 257, 777, 1000, 1024, 4096, SELECT_BLOCK_MOST };
	const uint32_t block = way == BLOCKS ? lengths[seed % 7] : 0;
	struct device_selector *device;
	size_t exempt = 0;

	for (size_t i = 0; i < spans.n_exempt; i++)
		exempt += spans.exempt[i].end - spans.exempt[i].begin;
	assert_int_equal(gpu_selector(n, n, spans.exempt, spans.n_exempt, &device), 0);
	for (size_t i = 0; i < n; i++)
		residual.here[i] = vector_value(kind, i, n, &r);
	pair_send(&residual);
	for (uint64_t step = 1; step <= 2; step++) {
		for (size_t i = 0; i < n; i++)
			grad.here[i] = vector_value(kind, i, n, &r);
		pair_send(&grad);
		expect_same_step(way, device, &residual, &grad, &spans, wanted,
				 density_count(wanted, block ? block : n - exempt), block, step,
				 way != GAUSSIAN || kind % 2);
	}
	gpu_kernels()->selector_close(&device);
	pair_free(&residual);
	pair_free(&grad);
}

TEST(select__any_way_size_and_kind_gives_the_bits_of_the_cpu)
{
	static const double wanted[] = { 0.3, 0.01 };

	for (int way = 0; way < WAYS; way++)
		for (size_t s = 0; s < SIZES; s++)
			for (int kind = 0; kind < KINDS; kind++) {
				uint64_t seed = s * KINDS + (size_t)kind + 1;

				if (kind == 7 || (sizes[s] > 10000 && kind % 3 && gpu_slow()))
					continue; /* infinities: apart */
				compare((enum way)way, kind, sizes[s], wanted[seed % 2], seed);
			}
	if (getenv("GPU_TEST_SMALL"))
		return;
	compare(GAUSSIAN, 0, (1 << 20) + 1025, 0.01, 3); /* more than one group of tiles */
	compare(DENSITY, 10, (1 << 20) + 1025, 0.01, 4);
	compare(BLOCKS, 0, (1 << 20) + 1025, 1.0 / 64, 5);
}

/* The vector may have infinities. With a NaN, nothing is selected. */
TEST(gaussian__infinities_give_the_choice_of_the_cpu_and_nan_none)
{
	const size_t n = 3000;
	struct pair x = pair_new(n, 0);
	struct random r = { 9 };
	struct device_selector *s;
	struct device_selected out;
	struct span whole = { 0, n, 0 };

	assert_int_equal(gpu_selector(n, n, NULL, 0, &s), 0);
	for (int nan = 0; nan < 2; nan++) {
		struct lists cpu = lists_new(n), got = lists_new(n);

		for (size_t i = 0; i < n; i++)
			x.here[i] = vector_value(7, i, n, &r);
		if (nan)
			x.here[1234] = NAN;
		pair_send(&x);
		const struct choice choice = { .x = x.here,
					       .spans = &whole,
					       .n_spans = 1,
					       .density = 0.02,
					       .k = 60,
					       .index = cpu.index };
		const struct device_selection call = { .x = x.there,
						       .call.k = 60,
						       .call.gaussian = 1,
						       .call.quantile = gaussian_quantile(0.02) };
		cpu.n = nan ? 0 : choose_gaussiank(&choice);
		for (size_t i = 0; i < cpu.n; i++)
			cpu.value[i] = x.here[cpu.index[i]];
		assert_int_equal(gpu_kernels()->select(s, &call, NULL), 0);
		assert_int_equal(gpu_kernels()->selected(s, got.index, got.value, &out, NULL), 0);
		got.n = out.n;
		assert_int_equal(out.nan, nan);
		expect_same_lists(&cpu, &got);
		lists_free(&cpu);
		lists_free(&got);
	}
	gpu_kernels()->selector_close(&s);
	pair_free(&x);
}

TEST(select__what_must_be_written_and_may_not_is_refused)
{
	const float zeros[32] = { 0 };
	float *x = gpu_memory(zeros, sizeof(zeros));
	struct device_selector *s;
	const struct device_selection drawn = { .x = x,
						.call.draw = DEVICE_DRAW_DENSITY,
						.call.wanted = 0.5 };
	const struct device_selection fresh = { .x = x, .call.fresh = 1, .call.k = 1 };

	assert_int_equal(gpu_selector(32, 32, NULL, 0, &s), 0);
	assert_int_equal(gpu_kernels()->select(s, &drawn, NULL), -1);
	assert_int_equal(gpu_kernels()->select(s, &fresh, NULL), -1);
	gpu_kernels()->selector_close(&s);
	gpu_free(x);
}

/* ---- the order of sums ----------------------------------------------------- */

/* Computes the sum in the order that moments.h describes, in the most direct way. */
static double sum_by_the_book(const double *term, size_t n)
{
	size_t tiles = (n + MOMENT_TILE - 1) / MOMENT_TILE,
	       groups = (tiles + MOMENT_GROUP - 1) / MOMENT_GROUP;
	double all[MOMENT_LANES] = { 0 };

	for (size_t g = 0; g < groups; g++) {
		double lanes[MOMENT_LANES] = { 0 };

		for (size_t t = g * MOMENT_GROUP; t < tiles && t < (g + 1) * MOMENT_GROUP; t++) {
			double row[MOMENT_ROW] = { 0 };

			for (size_t i = 0; i < MOMENT_TILE && t * MOMENT_TILE + i < n; i++)
				row[i % MOMENT_ROW] += term[t * MOMENT_TILE + i];
			for (size_t by = 1; by < MOMENT_ROW; by *= 2)
				for (size_t i = 0; i < MOMENT_ROW; i += 2 * by)
					row[i] += row[i + by];
			lanes[t % MOMENT_LANES] += row[0];
		}
		for (size_t by = 1; by < MOMENT_LANES; by *= 2)
			for (size_t i = 0; i < MOMENT_LANES; i += 2 * by)
				lanes[i] += lanes[i + by];
		all[g % MOMENT_LANES] += lanes[0];
	}
	for (size_t by = 1; by < MOMENT_LANES; by *= 2)
		for (size_t i = 0; i < MOMENT_LANES; i += 2 * by)
			all[i] += all[i + by];
	return all[0];
}

TEST(moments__any_size_spans_and_threads__sums_in_the_stated_order)
{
	static const size_t lengths[] = { 1, 1023, 1025, 40000, 2 * 1024 * 1024 + 77 };

	for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++)
		for (int magnitudes = 0; magnitudes < 2; magnitudes++) {
			const struct moment_terms terms = { magnitudes, 0.7 };
			size_t n = lengths[l], left = 0;
			struct random r = { n };
			struct spans spans = spans_of(n, 1, &r);
			float *x = malloc(n * sizeof(*x));
			double *first = calloc(n, sizeof(*first)),
			       *second = calloc(n, sizeof(*second));

			assert_true(x && first && second);
			for (size_t i = 0; i < n; i++)
				x[i] = random_normal(&r);
			for (size_t s = 0; s < spans.n; s++)
				for (uint64_t i = spans.all[s].begin;
				     i < spans.all[s].end && !spans.all[s].exempt; i++) {
					double v = magnitudes ? fabs((double)x[i]) : (double)x[i];

					if (magnitudes && !(0.7 * v < 1))
						continue;
					first[i] = v;
					second[i] = v * v;
					left++;
				}
			const double sum = sum_by_the_book(first, n);
			const double squares = sum_by_the_book(second, n);

			for (unsigned threads = 1; threads <= 8; threads++) {
				struct team *team = NULL;

				assert_int_equal(team_open(threads, 16, &team), 0);
				struct moments m = moments_of(team, terms, x, spans.all, spans.n);
				assert_true(m.first == sum && m.second == squares);
				assert_int_equal(m.n, left);
				team_close(&team);
			}
			free(x);
			free(first);
			free(second);
		}
}
