/* SPDX-License-Identifier: BSD-3-Clause
 * Selection on the device against selection on the CPU (select_run), bit by bit: sizes around warps
 * and tiles, ties, zeros, denormals, infinities, NaN, right and wrong hints, unaligned vectors. The
 * kernels run on the CPU here and on a GPU in tests/gpu/run. */

#include "base/bytes.h"
#include "compress/choose.h"
#include "gpu/plan.h"
#include "gpu.h"
#include "gpu_vectors.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Makes one step on both sides, and expects the same choice, values and residual. */
static unsigned expect_same_step(struct selector *cpu, struct device_selector *device,
				 struct pair *residual, struct pair *grad,
				 const struct spans *spans, int adding, int clear, size_t k)
{
	size_t most = k;

	for (size_t i = 0; i < spans->n_exempt; i++)
		most += spans->exempt[i].end - spans->exempt[i].begin;
	struct lists on_cpu = lists_new(most), on_device = lists_new(most);
	const float scale = 0.37f;
	const struct select_call call = { .x = adding ? NULL : residual->here,
					  .residual = residual->here,
					  .grad = adding ? grad->here : NULL,
					  .scale = scale,
					  .clear = clear && adding,
					  .spans = spans->all,
					  .n_spans = spans->n,
					  .k = k,
					  .index = on_cpu.index,
					  .value = on_cpu.value };
	const struct device_selection there = {
		.x = adding ? NULL : residual->there,
		.call.residual = residual->there,
		.call.grad = adding ? grad->there : NULL,
		.call.scale = scale,
		/* these have no effect on a vector that is only read */
		.clear = clear,
		.call.judge = !adding,
		.call.k = k
	};
	struct device_selected got;
	int nan;

	on_cpu.n = select_run(cpu, &call, &nan);
	assert_int_equal(gpu_kernels()->select(device, &there, NULL), 0);
	assert_int_equal(
		gpu_kernels()->selected(device, on_device.index, on_device.value, &got, NULL), 0);
	on_device.n = got.n;
	assert_int_equal(got.nan, nan);
	assert_int_equal(got.overfull, 0);
	expect_same_lists(&on_cpu, &on_device);
	expect_same_vector(residual);
	lists_free(&on_cpu);
	lists_free(&on_device);
	return got.passes;
}

/* Returns how many passes the last step took. */
static unsigned compare(int kind, size_t n, size_t k, uint64_t seed, int steps, int adding,
			int clear)
{
	struct random r = { seed };
	size_t shift = seed % (UNALIGNED_MOST + 1), other = seed / 7 % (UNALIGNED_MOST + 1);
	struct pair residual = pair_new(n, shift), grad = pair_new(n, seed % 2 ? shift : other);
	struct spans spans = spans_of(n, seed % 3 == 1, &r);
	struct device_selector *device;
	struct selector *cpu;
	unsigned passes = 0;

	assert_int_equal(selector_open(n, &cpu), 0);
	assert_int_equal(gpu_selector(n, k, spans.exempt, spans.n_exempt, &device), 0);
	for (size_t i = 0; i < n; i++)
		residual.here[i] = adding ? 0 : vector_value(kind, i, n, &r);
	pair_send(&residual);
	for (int step = 0; step < steps; step++) {
		/* sometimes no value is in the range of the hint */
		float factor = seed % 5 == 0 && step % 3 == 2 ? 64.0f : 1.0f;

		for (size_t i = 0; i < n; i++)
			grad.here[i] = vector_value(kind, i, n, &r) * factor;
		pair_send(&grad);
		passes = expect_same_step(cpu, device, &residual, &grad, &spans, adding, clear, k);
	}
	selector_close(&cpu);
	gpu_kernels()->selector_close(&device);
	pair_free(&residual);
	pair_free(&grad);
	return passes;
}

TEST(select__any_size_and_kind_gives_the_bits_of_the_cpu)
{
	static const size_t sizes[] = { 0,    1,    31,   32,   33,   255,  256,  257,   1023,
					1024, 1025, 3071, 3073, 8191, 8192, 8193, 24575, 24577 };

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (int kind = 0; kind < KINDS; kind++) {
			uint64_t seed = s * KINDS + (size_t)kind + 1;
			struct random r = { seed };
			size_t n = sizes[s], k = seed % 4 ? random_bits(&r) % (n / 10 + 2) : n;

			if (k > n)
				k = n;
			compare(kind, n, k, seed, 3, kind % 3 != 0, (int)seed % 2);
		}
}

TEST(select__no_or_all_coordinates_asked_for)
{
	for (int kind = 0; kind < KINDS; kind++) {
		compare(kind, 5000, 0, 3, 2, 1, 1);
		compare(kind, 5000, 5000, 4, 2, 1, 0);
		compare(kind, 5000, 4999, 5, 2, 1, 1);
	}
}

/* There is room for k + n / 64 + 4096 candidates, which is less than the number of ties. */
TEST(select__more_ties_than_room_takes_the_first)
{
	for (int adding = 0; adding < 2; adding++) {
		compare(2, 60000, 100, 11, 2, adding, 1);
		compare(9, 60000, 1000, 12, 2, adding, 1);
		compare(9, 60001, 31000, 13, 1, adding, 0);
		compare(6, 60000, 20, 14, 2, adding, 1);
	}
}

TEST(select__a_sequence_with_hints_right_and_wrong)
{
	compare(0, 40000, 400, 20, 11, 1, 1); /* seed % 5 == 0: the scale changes suddenly */
	compare(0, 40000, 40, 21, 12, 1, 1);
	compare(10, 40000, 4000, 25, 9, 1, 0);
}

TEST(select__a_steady_sequence_takes_one_pass_a_step)
{
	/* The first vector is too short for a sample. */
	assert_int_equal(compare(0, 10000, 400, 21, 1, 1, 1), 2);
	assert_int_equal(compare(0, 10000, 400, 21, 12, 1, 1), 1);
	assert_int_equal(compare(0, 40000, 400, 21, 12, 1, 1), 1);
	assert_int_equal(compare(0, 40000, 400, 22, 12, 1, 1), 1);
}

/* Without a hint the first step is a sweep at the sample's interval. If most magnitudes are equal,
 * the sample gives no interval; and if it misleads, one more sweep follows. */
TEST(select__without_a_hint__a_sample_takes_one_pass)
{
	static const size_t ks[] = { 1, 60, 600, 6000, 30000, 59990 };

	for (size_t i = 0; i < sizeof(ks) / sizeof(ks[0]); i++)
		for (int adding = 0; adding < 2; adding++) {
			assert_int_equal(compare(0, 60000, ks[i], 22 + i, 1, adding, 1), 1);
			assert_int_equal(compare(VECTOR_KINDS, 60000, ks[i], 26, 1, adding, 1), 1);
		}
	for (int kind = 0; kind < KINDS; kind++)
		for (size_t i = 0; i < sizeof(ks) / sizeof(ks[0]); i += 2)
			assert_in_range(compare(kind, 30001, ks[i] / 2, 100 + i, 2, 1, 0), 1, 5);
}

/* The sample has heavier or lighter values than the rest of the vector. */
TEST(select__sample_misleads__the_result_is_exact)
{
	const size_t n = 40000, k = 4000;
	const uint32_t samples = sample_count(n);

	assert_in_range(samples, 1, n);
	for (int lighter = 0; lighter < 2; lighter++) {
		struct pair residual = pair_new(n, 0), grad = pair_new(n, 0);
		struct random r = { 8 };
		struct spans whole = spans_of(n, 0, &r);
		struct device_selector *device;
		struct selector *cpu;

		assert_int_equal(selector_open(n, &cpu), 0);
		assert_int_equal(gpu_selector(n, k, NULL, 0, &device), 0);
		for (size_t i = 0; i < n; i++) {
			residual.here[i] = 0;
			grad.here[i] = random_normal(&r);
		}
		for (uint32_t j = 0; j < samples; j++)
			grad.here[sample_place(n, samples, j)] *= lighter ? 0.01f : 100.0f;
		pair_send(&residual);
		pair_send(&grad);
		/* Both sides then need a histogram. */
		assert_int_equal(expect_same_step(cpu, device, &residual, &grad, &whole, 1, 1, k),
				 3);
		selector_close(&cpu);
		gpu_kernels()->selector_close(&device);
		pair_free(&residual);
		pair_free(&grad);
	}
}

TEST(select__a_million_and_seven)
{
	if (getenv("GPU_TEST_SMALL"))
		skip();
	compare(0, 1000007, 1000, 31, gpu_slow() ? 2 : 5, 1, 1);
	compare(0, 1000007, 10000, 32, gpu_slow() ? 1 : 5, 1, 1);
	if (gpu_slow())
		return;
	for (int kind = 0; kind < KINDS; kind++)
		compare(kind, 1000007, 100000, 40 + (uint64_t)kind, 4, 1, 1);
}

/* The vector has as many coordinates as fit on the device, up to a thousand million. */
TEST(select__a_thousand_million)
{
	size_t n = 1000000000;
	struct memory room;

	if (gpu_slow())
		skip();
	while (n > 1000007 && gpu()->alloc(MEMORY_DEVICE, n * 16, &room))
		n /= 2;
	gpu()->release(&room);
	compare(6, n, n / 1000, 51, 2, 1, 1);
}

TEST(select__nan_in_the_sum_selects_nothing)
{
	for (size_t at = 0; at < 5000; at += 1237)
		for (int hinted = 0; hinted < 2; hinted++) {
			struct random r = { at + 1 };
			struct spans whole = spans_of(5000, 0, &r);
			struct pair residual = pair_new(5000, 0), grad = pair_new(5000, 0);
			struct device_selector *device;
			struct selector *cpu;

			assert_int_equal(selector_open(5000, &cpu), 0);
			assert_int_equal(gpu_selector(5000, 50, NULL, 0, &device), 0);
			memset(residual.here, 0, 5000 * 4);
			pair_send(&residual);
			for (int step = 0; step <= 3 * hinted; step++) {
				for (size_t i = 0; i < 5000; i++)
					grad.here[i] = random_normal(&r);
				if (step == 3 * hinted)
					grad.here[at] = -NAN;
				pair_send(&grad);
				expect_same_step(cpu, device, &residual, &grad, &whole, 1, 1, 50);
			}
			selector_close(&cpu);
			gpu_kernels()->selector_close(&device);
			pair_free(&residual);
			pair_free(&grad);
		}
}

TEST(select__judged_gradient_with_infinity_changes_nothing)
{
	struct pair residual = pair_new(3000, 0), grad = pair_new(3000, 0);
	struct device_selector *device;
	struct device_selected got;
	uint32_t index[100];

	assert_int_equal(gpu_selector(3000, 30, NULL, 0, &device), 0);
	for (size_t i = 0; i < 3000; i++) {
		residual.here[i] = (float)i;
		grad.here[i] = 1;
	}
	grad.here[1234] = INFINITY;
	grad.here[1300] = NAN;
	grad.here[2999] = -INFINITY;
	pair_send(&residual);
	pair_send(&grad);
	const struct device_selection call = { .call.residual = residual.there,
					       .call.grad = grad.there,
					       .call.scale = 1,
					       .call.judge = DEVICE_JUDGE_FIRST,
					       .clear = 1,
					       .call.k = 30 };
	assert_int_equal(gpu_kernels()->select(device, &call, NULL), 0);
	assert_int_equal(gpu_kernels()->selected(device, index, NULL, &got, NULL), 0);
	assert_int_equal(got.n, 0);
	assert_int_equal(got.nonfinite, 3);
	assert_int_equal(got.first_nonfinite, 1234);
	expect_same_vector(&residual);
	grad.here[1234] = grad.here[1300] = grad.here[2999] = 1;
	pair_send(&grad);
	assert_int_equal(gpu_kernels()->select(device, &call, NULL), 0);
	assert_int_equal(gpu_kernels()->selected(device, index, NULL, &got, NULL), 0);
	assert_int_equal(got.n, 30);
	assert_int_equal(got.nonfinite, 0);
	assert_int_equal(index[29], 2999);
	gpu_kernels()->selector_close(&device);
	pair_free(&residual);
	pair_free(&grad);
}

TEST(select_by_level__selects_what_the_threshold_selector_does)
{
	static const float levels[] = { 0, 1e-40f, 0.25f, 1, 2.5f, INFINITY };

	for (int kind = 0; kind < KINDS; kind++)
		for (size_t l = 0; l < sizeof(levels) / sizeof(levels[0]); l++) {
			const size_t n = 6000;
			struct random r = { (uint64_t)kind + 1 };
			struct pair x = pair_new(n, 0);
			struct lists cpu = lists_new(n), device = lists_new(n);
			struct device_selector *s;
			struct device_selected got;
			struct span whole = { 0, n, 0 };

			for (size_t i = 0; i < n; i++)
				x.here[i] = vector_value(kind, i, n, &r);
			pair_send(&x);
			const struct choice choice = { .x = x.here,
						       .spans = &whole,
						       .n_spans = 1,
						       .level = levels[l],
						       .index = cpu.index };
			cpu.n = choose_threshold(&choice);
			for (size_t i = 0; i < cpu.n; i++)
				cpu.value[i] = x.here[cpu.index[i]];
			assert_int_equal(gpu_selector(n, n, NULL, 0, &s), 0);
			const struct device_selection call = { .x = x.there,
							       .call.by_level = 1,
							       .call.level = levels[l] };
			assert_int_equal(gpu_kernels()->select(s, &call, NULL), 0);
			assert_int_equal(
				gpu_kernels()->selected(s, device.index, device.value, &got, NULL),
				0);
			device.n = got.n;
			expect_same_lists(&cpu, &device);
			gpu_kernels()->selector_close(&s);
			lists_free(&cpu);
			lists_free(&device);
			pair_free(&x);
		}
}

TEST(select_by_level__more_than_the_room_is_said)
{
	const size_t n = 60000;
	struct pair x = pair_new(n, 0);
	struct device_selector *s;
	struct device_selected got;
	uint32_t *index = malloc(n * 4);

	assert_non_null(index);
	for (size_t i = 0; i < n; i++)
		x.here[i] = 1;
	pair_send(&x);
	assert_int_equal(gpu_selector(n, 100, NULL, 0, &s), 0);
	const struct device_selection call = { .x = x.there,
					       .call.by_level = 1,
					       .call.level = 0.5f };
	assert_int_equal(gpu_kernels()->select(s, &call, NULL), 0);
	assert_int_equal(gpu_kernels()->selected(s, index, NULL, &got, NULL), 0);
	assert_int_equal(got.overfull, 1);
	assert_int_equal(got.n, 0);
	gpu_kernels()->selector_close(&s);
	pair_free(&x);
	free(index);
}
