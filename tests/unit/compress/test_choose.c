/* SPDX-License-Identifier: BSD-3-Clause
 * The selectors other than top-k, and their random numbers: known answers of Philox, counts,
 * supports that two sides agree on, and means over many draws. */
#include "base/team.h"
#include "compress/choose.h"
#include "compress/message.h"
#include "random.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 20000 };
static float x[N], work[N];
static uint32_t chosen[N];
static const struct span whole = { 0, N, 0 };

enum shape { GAUSSIAN, LAPLACE, STUDENT3, CUBED, HARMONIC, UNIFORM, CONSTANT, SHAPES };

static void fill(enum shape shape)
{
	struct random r = { 3 };

	for (int i = 0; i < N; i++) {
		double u = 1 - random_unit(&r), z = (double)random_normal(&r);
		double sign = random_bits(&r) & 1 ? 1 : -1, chi = 0;

		for (int j = 0; j < 3; j++) {
			double v = (double)random_normal(&r);

			chi += v * v;
		}
		switch (shape) {
		case GAUSSIAN: x[i] = (float)z; break;
		case LAPLACE: x[i] = (float)(sign * -log(u)); break;
		case STUDENT3: x[i] = (float)(z / sqrt(chi / 3)); break;
		case CUBED: x[i] = (float)(sign * -pow(log(u), 3)); break;
		case HARMONIC: x[i] = (float)(sign / (i + 1)); break;
		case UNIFORM: x[i] = (float)(2 * u - 1); break;
		case CONSTANT: x[i] = (float)sign; break;
		case SHAPES: break;
		}
	}
}

TEST(random_quad__other_counters__other_numbers_and_again_the_same)
{
	struct random_stream s = { 1, 2, 3, 0 }, other = s;
	uint32_t a[4], b[4];

	random_quad(&s, 7, a);
	random_quad(&s, 7, b);
	assert_memory_equal(a, b, sizeof a);
	assert_int_equal(random_at(&s, 30), a[2]);
	for (int field = 0; field < 4; field++) {
		other = s;
		other.purpose += field == 0;
		other.rank += field == 1;
		other.step += field == 2;
		random_quad(&other, 7 + (field == 3), b);
		assert_memory_not_equal(a, b, sizeof a);
	}
}

TEST(random_run__any_beginning_and_length__is_the_same_as_one_at_a_time)
{
	const struct random_stream s = { 1, 2, (uint64_t)3 << 32 | 4, 5 };
	const uint64_t firsts[] = { 0, 1, 6, ((uint64_t)1 << 34) - 23, ((uint64_t)1 << 34) - 4 };
	uint32_t run[200];

	for (size_t f = 0; f < sizeof(firsts) / sizeof(firsts[0]); f++)
		for (size_t n = 0; n <= 200; n++) {
			random_run(&s, firsts[f], n, run);
			for (size_t i = 0; i < n; i++)
				assert_int_equal(run[i], random_at(&s, firsts[f] + i));
		}
}

TEST(random_normal_run__any_beginning_and_length__is_the_transform_of_its_pair)
{
	const struct random_stream s = { RANDOM_NOISE, 2, 3, 5 };
	const double turn = 2 * acos(-1);
	float run[400], again[400];

	random_normal_run(&s, 0, 400, run);
	for (int i = 0; i < 400; i += 2) {
		double radius = sqrt(
			-2 * log(((double)(random_at(&s, (uint64_t)i) >> 8) + 1) * 0x1p-24));
		double angle = turn * random_at(&s, (uint64_t)i + 1) * 0x1p-32;

		assert_true(fabs((double)run[i] - radius * cos(angle)) < 2e-6);
		assert_true(fabs((double)run[i + 1] - radius * sin(angle)) < 2e-6);
	}
	for (size_t first = 0; first < 10; first++)
		for (size_t n = 0; first + n <= 400; n += 13) {
			random_normal_run(&s, first, n, again);
			assert_memory_equal(again, run + first, n * sizeof(*run));
		}
}

TEST(random_normal_run__100000_numbers__are_normal)
{
	enum { COUNT = 100000 };
	static float v[COUNT];
	const struct random_stream s = { RANDOM_NOISE, 0, 1, 0 };
	double mean = 0, square = 0, fourth = 0, beyond = 0;

	random_normal_run(&s, 0, COUNT, v);
	for (int i = 0; i < COUNT; i++) {
		double z = (double)v[i];

		mean += z / COUNT;
		square += z * z / COUNT;
		fourth += z * z * z * z / COUNT;
		beyond += (fabs(z) > 1.959964) / (double)COUNT;
	}
	assert_true(fabs(mean) < 5 / sqrt(COUNT) && fabs(square - 1) < 5 * sqrt(2.0 / COUNT));
	assert_true(fabs(fourth - 3) < 5 * sqrt(96.0 / COUNT));
	assert_true(fabs(beyond - 0.05) < 5 * sqrt(0.05 * 0.95 / COUNT));
}

TEST(random_quad__bits__are_even)
{
	struct random_stream s = { 1, 0, 1, 0 };
	double sum = 0;

	for (uint64_t q = 0; q < 25000; q++) {
		uint32_t four[4];

		random_quad(&s, q, four);
		for (int i = 0; i < 4; i++)
			sum += four[i] * 0x1p-32;
	}
	assert_true(fabs(sum / 100000 - 0.5) < 5 * sqrt(1 / 12.0 / 100000));
}

TEST(choose_threshold__at_the_threshold__is_taken_zeros_are_not)
{
	float v[] = { 0.5f, -0.5f, 0.49f, 0, 2, -0.0f, 1e-20f };
	const struct span spans[] = { { 0, 5, 0 }, { 5, 7, 1 } };
	struct choice c = { .x = v, .spans = spans, .n_spans = 2, .level = 0.5f, .index = chosen };

	assert_int_equal(choose_threshold(&c), 4);
	assert_true(chosen[0] == 0 && chosen[1] == 1 && chosen[2] == 4 && chosen[3] == 6);
}

TEST(choose_gaussiank__every_shape__count_is_within_a_third)
{
	const double densities[] = { 0.001, 0.01, 0.1 };

	for (int shape = 0; shape < SHAPES; shape++) {
		fill((enum shape)shape);
		for (int i = 0; i < 3; i++) {
			uint64_t k = density_count(densities[i], N);
			struct choice c = { .x = x,
					    .spans = &whole,
					    .n_spans = 1,
					    .index = chosen,
					    .density = densities[i],
					    .k = k };
			size_t n = choose_gaussiank(&c);

			assert_true(3 * n >= 2 * k && 3 * n <= 4 * k);
		}
	}
}

TEST(choose_variance__ratio__is_one_plus_epsilon)
{
	for (int shape = 0; shape < UNIFORM; shape++) {
		double square = 0, expected = 0, least = 0;

		fill((enum shape)shape);
		memcpy(work, x, sizeof x);
		struct choice c = { .x = work,
				    .spans = &whole,
				    .n_spans = 1,
				    .index = chosen,
				    .level = 1,
				    .stream = { RANDOM_KEEP, 0, 1, 0 } };
		size_t n = choose_variance(&c);

		for (size_t i = 0; i < n; i++) /* a coordinate that was scaled has the magnitude
						  1 / lambda */
			if (work[chosen[i]] != x[chosen[i]])
				least = fabs((double)work[chosen[i]]);
		assert_true(least > 0);
		for (int i = 0; i < N; i++) {
			double a = fabs((double)x[i]);

			square += a * a;
			expected += a * (a < least ? least : a);
		}
		assert_true(fabs(expected / square - 2) < 0.02);
	}
}

static void mean_is_x(size_t (*run)(const struct choice *), struct choice c)
{
	enum { D = 500, DRAWS = 4000 };
	static double sum[D];
	const struct span spans = { 0, D, 0 };
	double square = 0, off = 0, spread = 0;

	fill(CUBED);
	memset(sum, 0, sizeof sum);
	c.x = work;
	c.spans = &spans;
	c.n_spans = 1;
	c.index = chosen;
	for (uint64_t step = 1; step <= DRAWS; step++) {
		memcpy(work, x, sizeof work);
		c.stream.step = step;
		size_t n = run(&c);

		for (size_t i = 0; i < n; i++) {
			double v = (double)work[chosen[i]];

			sum[chosen[i]] += v;
			spread += v * v;
		}
	}
	for (int i = 0; i < D; i++) {
		off += pow(sum[i] / DRAWS - (double)x[i], 2);
		square += (double)x[i] * (double)x[i];
	}
	/* E|mean - x|^2 = (E|q|^2 - |x|^2) / draws */
	double expected = (spread / DRAWS - square) / DRAWS;
	assert_true(expected > 0 && off < 2 * expected && off > expected / 2);
}

TEST(choose__unbiased_selectors_4000_draws__mean_is_the_vector)
{
	mean_is_x(choose_variance,
		  (struct choice){ .level = 1, .stream = { RANDOM_KEEP, 3, 0, 0 } });
	mean_is_x(choose_random,
		  (struct choice){ .density = 0.05, .stream = { RANDOM_KEEP, 3, 0, 0 } });
	mean_is_x(choose_randk, (struct choice){ .density = 0.25,
						 .scale = 1,
						 .stream = { RANDOM_SUPPORT_UP, 0, 0, 0 } });
}

TEST(choose_random__density__is_met)
{
	for (int shape = 0; shape < CONSTANT; shape++) {
		fill((enum shape)shape);
		memcpy(work, x, sizeof x);
		struct choice c = { .x = work,
				    .spans = &whole,
				    .n_spans = 1,
				    .index = chosen,
				    .density = 0.02,
				    .stream = { RANDOM_KEEP, 0, 9, 0 } };
		double n = (double)choose_random(&c);

		assert_true(fabs(n - 0.02 * N) < 5 * sqrt(0.02 * N));
	}
}

/* ---- threads ----------------------------------------------------------------- */

enum { LONG = 9 * TEAM_LEAST + 1237, THREADS = 8, CALLS = 8 };

/* The result of a selector, and its vector afterwards. */
struct drawn {
	float x[LONG];
	uint32_t index[LONG];
	size_t n;
};

static void run_call(int call, const struct span *spans, size_t n_spans, struct team *team,
		     const float *from, struct drawn *out)
{
	const struct choice c = { .x = out->x,
				  .spans = spans,
				  .n_spans = n_spans,
				  .density = call % 2 ? 0.3 : 0.01,
				  .k = LONG / (call % 2 ? 3 : 100),
				  .level = call % 2 ? 0.5f : 3,
				  .stream = { RANDOM_KEEP, 3, 9, 0 },
				  .team = team,
				  .index = out->index };
	static size_t (*const runs[])(const struct choice *) = { choose_random, choose_variance,
								 choose_threshold,
								 choose_gaussiank };

	memcpy(out->x, from, sizeof(out->x));
	out->n = runs[call / 2](&c);
}

/* The spans of a fragment: they do not begin with the vector, and the parts of threads end within
 * some of them. Equal magnitudes give gaussiank ties. */
TEST(choose__selectors_by_level_with_1_to_8_threads__the_coordinates_and_values_of_one)
{
	const struct span spans[] = { { 1001, 90000, 0 },    { 90000, 90001, 1 },
				      { 90001, 90001, 0 },   { 90001, 170003, 0 },
				      { 170003, 230001, 1 }, { 230001, LONG - 7, 0 } };
	const struct span all = { 0, LONG, 0 };
	struct drawn *one = malloc(sizeof(*one)), *many = malloc(sizeof(*many));
	float *v = malloc(LONG * sizeof(*v));
	struct team *teams[THREADS + 1] = { NULL };
	struct random r = { 5 };

	assert_true(one && many && v);
	for (unsigned t = 2; t <= THREADS; t++)
		assert_int_equal(team_open(t, 16, &teams[t]), 0);
	for (int equal = 0; equal < 2; equal++) {
		for (size_t i = 0; i < LONG; i++) {
			v[i] = random_bits(&r) % 50 ? random_normal(&r) : 0;
			v[i] = equal && v[i] != 0 ? copysignf(4, v[i]) : v[i];
		}
		for (int call = 0; call < 2 * CALLS; call++) {
			const int cut = call >= CALLS;
			const struct span *s = cut ? spans : &all;
			const size_t n = cut ? sizeof(spans) / sizeof(*spans) : 1;

			run_call(call % CALLS, s, n, NULL, v, one);
			assert_true(one->n > 0);
			for (unsigned t = 2; t <= THREADS; t++) {
				if (thinned(t, THREADS / 2))
					continue;
				run_call(call % CALLS, s, n, teams[t], v, many);
				assert_int_equal(many->n, one->n);
				assert_memory_equal(many->index, one->index,
						    one->n * sizeof(*one->index));
				assert_memory_equal(many->x, one->x, sizeof(one->x));
			}
		}
	}
	for (unsigned t = 2; t <= THREADS; t++)
		team_close(&teams[t]);
	free(one);
	free(many);
	free(v);
}

TEST(message__seeded_support__is_read_without_an_index_on_the_wire)
{
	enum { SPAN = 1000, K = 37 };
	static uint8_t bytes[8192], copy[8192];
	uint32_t index[K], got[SPAN];
	float value[K], decoded[K], read[SPAN];
	struct message m = { .kind = MESSAGE_PUSH,
			     .seeded = 1,
			     .parts = 1,
			     .step = 12,
			     .shard = 3,
			     .span = SPAN,
			     .count = K },
		       back;
	const char *why;

	seeded_support(0, 0, 12, 3, SPAN, K, index);
	for (int i = 0; i < K; i++) {
		assert_true(index[i] < SPAN && (!i || index[i] > index[i - 1]));
		value[i] = (float)i;
	}
	size_t n = message_encode(NULL, &m, index, value, decoded, bytes, sizeof bytes);
	assert_int_equal(n, MESSAGE_HEADER_BYTES + 4 * K);
	assert_int_equal(message_copy(NULL, bytes, n, copy, sizeof copy, &back, &why), 0);
	assert_int_equal(message_decode(NULL, &back, copy, got, read, &why), 0);
	assert_memory_equal(got, index, sizeof index);
	assert_memory_equal(read, value, sizeof value);
	back.payload_bytes += 4;
	assert_int_not_equal(message_decode(NULL, &back, copy, got, read, &why), 0);
}

/* Ten tensors with ever smaller values: each sends its own share. */
TEST(choose__tensor_topk__each_tensor_sends_its_share)
{
	struct span tensors[11];
	struct selector *selector;

	fill(GAUSSIAN);
	for (int t = 0; t < 10; t++) {
		tensors[t] = (struct span){ (uint64_t)t * 1500, (uint64_t)t * 1500 + 1500, t == 3 };
		for (int i = 0; i < 1500; i++)
			x[t * 1500 + i] = ldexpf(x[t * 1500 + i], -5 * t);
	}
	tensors[10] = (struct span){ 15000, 15001, 0 }; /* has one coordinate, which is sent */
	assert_int_equal(selector_open(N, &selector), 0);
	size_t n = choose_tensor_topk(&(struct choice){ .x = x,
							.spans = tensors,
							.n_spans = 11,
							.density = 0.011,
							.selector = selector,
							.index = chosen });
	assert_int_equal(n, 9 * 17 + 1500 + 1); /* 16.5 rounded up for nine tensors, and the
						   exempt one whole */
	for (size_t i = 1; i < n; i++)
		assert_true(chosen[i] > chosen[i - 1]);
	for (int t = 0; t < 10; t++) {
		float least_sent = INFINITY, largest_kept = 0;
		static uint8_t sent[N];
		int count = 0;

		memset(sent, 0, sizeof(sent));
		for (size_t i = 0; i < n; i++)
			sent[chosen[i]] = 1;
		for (int i = t * 1500; i < t * 1500 + 1500; i++) {
			count += sent[i];
			if (sent[i])
				least_sent = fminf(least_sent, fabsf(x[i]));
			else
				largest_kept = fmaxf(largest_kept, fabsf(x[i]));
		}
		assert_int_equal(count, t == 3 ? 1500 : 17);
		assert_true(least_sent >= largest_kept);
	}
	selector_close(&selector);
}

/* Blocks are counted from coordinate 0, whatever the spans are. Of the coordinates that a block
 * lacks, because it is the last one or because they are exempt, the count loses its share. */
TEST(choose__block_topk__each_block_sends_its_share_of_what_is_not_exempt)
{
	enum { LENGTH = 4096, K = 64, EXEMPT = 5000, END = 5512, LAST = N / LENGTH * LENGTH };
	const struct span spans[] = { { 0, EXEMPT, 0 }, { EXEMPT, END, 1 }, { END, N, 0 } };
	struct selector *selector;
	size_t of_block[N / LENGTH + 1] = { 0 }, n;

	fill(LAPLACE);
	for (int i = 0; i < LENGTH; i++) /* a block of small values sends as many as the others */
		x[i] *= 1e-9f;
	assert_int_equal(selector_open(N, &selector), 0);
	n = selection_kinds[SELECT_BLOCK_TOPK].run(&(struct choice){ .x = x,
								     .spans = spans,
								     .n_spans = 3,
								     .density = (double)K / LENGTH,
								     .block = LENGTH,
								     .selector = selector,
								     .index = chosen });
	for (size_t i = 0; i < n; i++) {
		assert_true(i == 0 || chosen[i] > chosen[i - 1]);
		of_block[chosen[i] / LENGTH]++;
	}
	assert_int_equal(of_block[0], K);
	assert_int_equal(of_block[1], K - K * (END - EXEMPT) / LENGTH + END - EXEMPT);
	assert_int_equal(of_block[2], K);
	assert_int_equal(of_block[N / LENGTH], ((N - LAST) * K + LENGTH - 1) / LENGTH);
	selector_close(&selector);
}

/* What a worker of SparseLoCo sends at an exchange. The entropy of the positions is 7.36 bits. */
TEST(message__64_of_each_4096_in_twomeans_with_the_small_coding__takes_9_7_bits_a_coordinate)
{
	enum { COUNT = 1 << 20, LENGTH = 4096, K = 64, SENT = COUNT / LENGTH * K };
	const struct span all = { 0, COUNT, 0 };
	struct message m = { .kind = MESSAGE_PUSH,
			     .values = { VALUE_TWOMEANS, 2, UNIFORM_BLOCK, 0 },
			     .densest = 1,
			     .parts = 1,
			     .span = COUNT,
			     .count = SENT };
	const size_t bound = message_bound(COUNT, SENT, m.values);
	float *v = malloc(COUNT * sizeof(*v)), *value = malloc(SENT * sizeof(*value));
	uint32_t *index = malloc(SENT * sizeof(*index));
	uint8_t *out = malloc(bound);
	struct selector *selector;
	struct random r = { 9 };

	assert_true(v && value && index && out);
	for (size_t i = 0; i < COUNT; i++)
		v[i] = random_normal(&r);
	assert_int_equal(selector_open(COUNT, &selector), 0);
	assert_int_equal(select_each_block(selector, v, &all, 1, K, LENGTH, NULL, index), SENT);
	for (size_t i = 0; i < SENT; i++)
		value[i] = v[index[i]];

	const size_t bytes = message_encode(NULL, &m, index, value, value, out, bound);

	assert_int_equal(m.coding, CODING_RICE);
	assert_in_range(8 * bytes * 10, 1, 97 * (size_t)SENT);
	selector_close(&selector);
	free(v);
	free(value);
	free(index);
	free(out);
}

TEST(chunk_length__any_density__is_a_length)
{
	assert_true(chunk_length(1) == 1 && chunk_length(0.01) == 100);
	assert_true(chunk_length(0x1p-30) == 1 << 30);
	assert_true(chunk_length(1e-20) == UINT32_MAX && chunk_length(5e-324) == UINT32_MAX);
}
