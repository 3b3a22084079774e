/* SPDX-License-Identifier: BSD-3-Clause
 * The versions of the loops over values in few bits: each has the bits of plain loops over
 * few_bits_rules.h and bit_pack.h, and accesses no memory outside its buffers. */
#include "base/bytes.h"
#include "compress/bit_pack.h"
#include "compress/value_kernels.h"
#include "random.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { ROUNDS = 300, GUARD = 0x5a, N = VALUE_PIECE };
static const size_t wholes[] = { VALUE_GROUP, 2 * VALUE_GROUP, 3 * VALUE_GROUP, N };

struct results {
	uint8_t codes[N + PACK_SLACK];
	struct twomeans_sums sums;
	float total;
	float v[N + 1];
	int32_t q[N];
};

static struct results expected, got;
static float v[N];
static uint32_t coordinates[N];
static struct value_numbers numbers;

/* ---- plain loops, one value at a time ---- */

static uint32_t plain_largest(const float *x, size_t n)
{
	uint32_t all = 0;

	for (size_t i = 0; i < n; i++)
		if ((float_bits(x[i]) & F32_MAGNITUDE) > all)
			all = float_bits(x[i]) & F32_MAGNITUDE;
	return all;
}

static void plain_sums(const float *const row[VALUE_SUMS], size_t n, double sum[VALUE_SUMS])
{
	for (size_t j = 0; j < VALUE_SUMS; j++) {
		sum[j] = 0;
		for (size_t i = 0; i < n; i++)
			sum[j] += fabs((double)row[j][i]);
	}
}

static void plain_uniform_values(const uint8_t *codes, float step, int levels, size_t n, float *to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = uniform_value(codes[i], step, levels);
}

static void plain_uniform(const float *x, const struct value_numbers *r,
			  const struct uniform_scale *scale, unsigned bits, size_t n,
			  uint8_t *codes, float *to)
{
	for (size_t i = 0; i < n; i++) {
		const uint32_t at = r->low + (r->index ? r->index[i] : (uint32_t)i);

		codes[i] = uniform_code(x[i], random_mix(&r->key, at), scale, bits);
	}
	plain_uniform_values(codes, scale->step, uniform_levels(bits), n, to);
}

static void plain_sign_values(const uint8_t *codes, float step, size_t n, float *to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = sign_value(codes[i], step);
}

static void plain_signs(const float *x, float step, size_t n, uint8_t *codes, float *to)
{
	for (size_t i = 0; i < n; i++)
		codes[i] = sign_code(x[i]);
	plain_sign_values(codes, step, n, to);
}

static void plain_grid_values(const uint8_t *codes, float range, float width, size_t n, float *to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = grid_value(codes[i], range, width);
}

static void plain_grid(const float *x, float range, float width, int most, size_t n, uint8_t *codes,
		       float *to)
{
	for (size_t i = 0; i < n; i++)
		codes[i] = grid_code(x[i], range, width, most);
	plain_grid_values(codes, range, width, n, to);
}

static float plain_halved(float lane[VALUE_GROUP])
{
	for (size_t half = VALUE_GROUP / 2; half; half /= 2)
		for (size_t j = 0; j < half; j++)
			lane[j] += lane[j + half];
	return lane[0];
}

static float plain_total(const float *x, size_t n)
{
	float lane[VALUE_GROUP] = { 0 };

	for (size_t i = 0; i < n; i++)
		lane[i % VALUE_GROUP] += fabsf(x[i]);
	return plain_halved(lane);
}

static void plain_split(const float *x, float mean, size_t n, uint8_t *codes,
			struct twomeans_sums *sums)
{
	float low[VALUE_GROUP] = { 0 }, high[VALUE_GROUP] = { 0 };
	uint32_t n_high = 0;

	for (size_t i = 0; i < n; i++) {
		codes[i] = twomeans_code(x[i], mean);
		n_high += codes[i] & 1;
		(codes[i] & 1 ? high : low)[i % VALUE_GROUP] += fabsf(x[i]);
	}
	*sums = (struct twomeans_sums){ plain_halved(low), plain_halved(high), n_high };
}

static void plain_exponents(const float *x, int32_t least, size_t n, uint8_t *codes)
{
	for (size_t i = 0; i < n; i++)
		codes[i] = e3m0_code(x[i], least);
}

static void plain_nearest(const float *x, float width, float limit, size_t n, int32_t *q, float *to)
{
	for (size_t i = 0; i < n; i++) {
		q[i] = (int32_t)rintf(fmaxf(fminf(x[i] / width, limit), -limit));
		to[i] = (float)q[i] * width;
	}
}

static void plain_level_values(const uint8_t *codes, const struct levels *levels, size_t n,
			       float *to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = level_value(levels, codes[i]);
}

static int plain_within(const uint8_t *codes, uint8_t least, uint8_t most, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (codes[i] < least || codes[i] > most)
			return 0;
	return 1;
}

static void plain_pack(const uint8_t *codes, unsigned bits, size_t n, uint8_t *out)
{
	bits_pack(codes, n, bits, out);
}

static const struct value_kernels plain = {
	.largest = plain_largest,
	.sums = plain_sums,
	.uniform = plain_uniform,
	.signs = plain_signs,
	.grid = plain_grid,
	.total = plain_total,
	.split = plain_split,
	.exponents = plain_exponents,
	.nearest = plain_nearest,
	.uniform_values = plain_uniform_values,
	.sign_values = plain_sign_values,
	.level_values = plain_level_values,
	.grid_values = plain_grid_values,
	.within = plain_within,
	.pack = plain_pack,
};

/* ---- the versions ---- */

static void clear(void)
{
	memset(&expected, GUARD, sizeof expected);
	memset(&got, GUARD, sizeof got);
}

/* The values are near one another or far apart, some are zero, and some are exactly on a level. */
static void fill(struct random *r, int round)
{
	for (int i = 0; i < N; i++) {
		v[i] = ldexpf(random_normal(r), -(int)(random_bits(r) % (round % 2 ? 3 : 100)));
		if (random_bits(r) % 10 == 0)
			v[i] = random_bits(r) % 2 ? 0.0f : -0.0f;
		if (random_bits(r) % 10 == 0)
			v[i] = (float)(int)(random_bits(r) % 16) - 8;
		coordinates[i] = random_bits(r) >> round % 20;
	}
	numbers = (struct value_numbers){ { random_bits(r), random_bits(r), random_bits(r) | 1 },
					  random_bits(r),
					  round % 3 ? coordinates : NULL };
}

static float largest_of_v(void)
{
	return bits_float(plain.largest(v, N));
}

static void check_to_codes(const struct value_kernels *k)
{
	const struct value_kernels *p = &plain;
	struct random r = { 21 };

	for (int round = 0; round < ROUNDS; round++) {
		size_t n = wholes[round % 4];
		unsigned bits = 2 + (unsigned)round % 7;
		int levels = (1 << (bits - 1)) - 1;
		struct uniform_scale scale;
		float most, step;

		fill(&r, round);
		for (int i = 0; i < N && round % 5 == 0; i++) /* on levels, or halfway between
								 two */
			v[i] = fmaxf(fminf(v[i], (float)levels), -(float)levels);
		for (int i = 0; i < N && round % 7 == 0; i++)
			v[i] = ldexpf(v[i], -120);
		most = largest_of_v();
		step = uniform_step(bits, most);
		scale = uniform_scale(bits, step);
		clear();
		p->uniform(v, &numbers, &scale, bits, n, expected.codes, expected.v);
		k->uniform(v, &numbers, &scale, bits, n, got.codes, got.v);
		assert_memory_equal(&got, &expected, sizeof got);
		clear();
		p->signs(v, step, n, expected.codes, expected.v);
		k->signs(v, step, n, got.codes, got.v);
		assert_memory_equal(&got, &expected, sizeof got);
		clear();
		most = round % 5 ? most : 3;
		p->grid(v, most, 2 * most / (float)((1 << bits) - 1), (1 << bits) - 1, n,
			expected.codes, expected.v);
		k->grid(v, most, 2 * most / (float)((1 << bits) - 1), (1 << bits) - 1, n, got.codes,
			got.v);
		assert_memory_equal(&got, &expected, sizeof got);
		clear();
		p->nearest(v, round % 5 ? step / 50 : 0.5f, round % 2 ? 2097151 : 5, n, expected.q,
			   expected.v);
		k->nearest(v, round % 5 ? step / 50 : 0.5f, round % 2 ? 2097151 : 5, n, got.q,
			   got.v);
		assert_memory_equal(&got, &expected, sizeof got);
		clear();
		expected.total = p->total(v, n);
		got.total = k->total(v, n);
		p->split(v, expected.total / (float)n, n, expected.codes, &expected.sums);
		k->split(v, expected.total / (float)n, n, got.codes, &got.sums);
		assert_memory_equal(&got, &expected, sizeof got);
		clear();
		p->exponents(v, (int32_t)(round % 254) + 1, n, expected.codes);
		k->exponents(v, (int32_t)(round % 254) + 1, n, got.codes);
		assert_memory_equal(&got, &expected, sizeof got);
		/* The decoded values may overwrite the input. */
		memcpy(got.v, v, sizeof v);
		k->uniform(got.v, &numbers, &scale, bits, n, got.codes, got.v);
		p->uniform(v, &numbers, &scale, bits, n, expected.codes, expected.v);
		assert_memory_equal(got.v, expected.v, n * sizeof *v);
	}
}

/* Checks infinities, NaN, and the smallest and largest magnitudes in the loops that allow them. */
static void check_special(const struct value_kernels *k)
{
	static const uint32_t special[] = { 0x7f800000, 0x7fc00000, 0x7fffffff, 0x7f7fffff,
					    1,          0x007fffff, 0x00800000, 0 };
	struct random r = { 27 };

	for (int round = 0; round < ROUNDS; round++) {
		const int32_t least = (int32_t)(random_bits(&r) % 247) + 1;
		const float mean = ldexpf(1, (int)(random_bits(&r) % 250) - 125);

		fill(&r, round);
		for (int i = 0; i < N; i++)
			if (random_bits(&r) % 3 == 0)
				v[i] = bits_float(special[random_bits(&r) % 8] |
						  random_bits(&r) << F32_SIGN_SHIFT);
		clear();
		plain.signs(v, mean, N, expected.codes, expected.v);
		k->signs(v, mean, N, got.codes, got.v);
		assert_memory_equal(&got, &expected, sizeof got);
		plain.exponents(v, least, N, expected.codes);
		k->exponents(v, least, N, got.codes);
		assert_memory_equal(&got, &expected, sizeof got);
		plain.split(v, mean, N, expected.codes, &expected.sums);
		k->split(v, mean, N, got.codes, &got.sums);
		assert_memory_equal(got.codes, expected.codes, sizeof got.codes);
		assert_int_equal(got.sums.n_high, expected.sums.n_high);
		plain.nearest(v, mean, 2097151, N, expected.q, expected.v);
		k->nearest(v, mean, 2097151, N, got.q, got.v);
		assert_memory_equal(got.q, expected.q, sizeof got.q);
		assert_memory_equal(got.v, expected.v, sizeof got.v);
		for (int i = 0; i < N; i++)
			v[i] = isnan(v[i]) ? INFINITY : v[i];
		plain.grid(v, mean, mean / 100, 200, N, expected.codes, expected.v);
		k->grid(v, mean, mean / 100, 200, N, got.codes, got.v);
		assert_memory_equal(got.codes, expected.codes, sizeof got.codes);
		assert_memory_equal(got.v, expected.v, sizeof got.v);
	}
}

static void check_from_codes(const struct value_kernels *k)
{
	const struct value_kernels *p = &plain;
	struct random r = { 22 };
	struct levels levels;
	uint8_t codes[N];

	for (int round = 0; round < ROUNDS; round++) {
		size_t n = wholes[round % 4];
		unsigned bits = 1 + (unsigned)round % 8;
		uint8_t least = (uint8_t)random_bits(&r), most = (uint8_t)random_bits(&r);
		float step = random_normal(&r) * random_normal(&r);

		for (int i = 0; i < N; i++)
			codes[i] = (uint8_t)(random_bits(&r) >> (32 - bits));
		clear();
		p->uniform_values(codes, step, (1 << bits) / 2 - 1, n, expected.v);
		k->uniform_values(codes, step, (1 << bits) / 2 - 1, n, got.v);
		assert_memory_equal(&got, &expected, sizeof got);
		p->grid_values(codes, step, step / 3, n, expected.v);
		k->grid_values(codes, step, step / 3, n, got.v);
		assert_memory_equal(&got, &expected, sizeof got);
		for (int i = 0; i < N; i++)
			codes[i] &= 15;
		for (int i = 0; i < 4; i++)
			levels.four[i] = (uint64_t)random_bits(&r) << 32 | random_bits(&r);
		clear();
		p->level_values(codes, &levels, n, expected.v);
		k->level_values(codes, &levels, n, got.v);
		assert_memory_equal(&got, &expected, sizeof got);
		for (int i = 0; i < N; i++)
			codes[i] &= 1;
		p->sign_values(codes, step, n, expected.v);
		k->sign_values(codes, step, n, got.v);
		assert_memory_equal(&got, &expected, sizeof got);
		/* One code, at a random position, is equal to a limit of the valid range, or one
		 * less or greater. */
		memset(codes, least < most ? least : most, sizeof codes);
		codes[random_bits(&r) % n] = (uint8_t)(most + round % 3 - 1);
		assert_int_equal(k->within(codes, least, most, n),
				 p->within(codes, least, most, n));
		memset(codes, most, sizeof codes);
		codes[random_bits(&r) % n] = (uint8_t)(least + round % 3 - 1);
		assert_int_equal(k->within(codes, least, most, n),
				 p->within(codes, least, most, n));
		memset(codes, 3, sizeof codes);
		assert_true(k->within(codes, 3, 3, n));
		codes[n - 1] = 2;
		assert_false(k->within(codes, 3, 3, n));
	}
}

static void check_largest(const struct value_kernels *k)
{
	static const uint32_t special[] = { 0x7f800000, 0xff800000, 0x7fc00000,
					    0xffffffff, 1,          0x80000001 };
	struct random r = { 23 };
	uint32_t none = 0;

	for (size_t n = 0; n <= N; n++) {
		fill(&r, 1);
		if (n % 3 == 0)
			v[random_bits(&r) % N] = bits_float(special[n / 3 % 6]);
		assert_int_equal(k->largest(v, n), plain.largest(v, n));
		for (size_t i = 0; i < n; i++) /* no value exceeds the result */
			none |= (float_bits(v[i]) & 0x7fffffff) > k->largest(v, n);
	}
	assert_int_equal(none, 0);
}

static void check_pack(const struct value_kernels *k)
{
	struct random r = { 24 };

	for (unsigned bits = 1; bits <= 8; bits++)
		for (int round = 0; round < 40; round++) {
			size_t n = wholes[round % 4], bytes = n * bits / 8;
			uint8_t codes[N], back[N + 1], in[N + PACK_SLACK];

			for (size_t i = 0; i < N; i++)
				codes[i] = (uint8_t)(random_bits(&r) >> (32 - bits));
			clear();
			plain.pack(codes, bits, n, expected.codes);
			k->pack(codes, bits, n, got.codes);
			assert_memory_equal(got.codes, expected.codes, bytes);
			for (size_t i = bytes + PACK_SLACK; i < sizeof got.codes; i++)
				assert_int_equal(got.codes[i], GUARD);
			/* The function must not read bytes after the end. */
			memcpy(in, got.codes, bytes);
			memset(in + bytes, 0xff, sizeof in - bytes);
			memset(back, GUARD, sizeof back);
			k->unpack(in, bits, n, back);
			assert_memory_equal(back, codes, n);
			assert_int_equal(back[n], GUARD);
		}
}

static void check_sums(const struct value_kernels *k)
{
	struct random r = { 26 };
	double wanted[VALUE_SUMS], sums[VALUE_SUMS];
	const float *row[VALUE_SUMS];

	for (size_t n = 0; n <= N / 2; n++) {
		fill(&r, (int)n);
		for (size_t j = 0; j < VALUE_SUMS; j++)
			row[j] = v + random_bits(&r) % (N - n);
		plain.sums(row, n, wanted);
		k->sums(row, n, sums);
		assert_memory_equal(sums, wanted, sizeof wanted);
	}
}

static void each_version(void (*check)(const struct value_kernels *))
{
	for (size_t i = 0; value_versions[i]; i++)
		if (value_versions[i]->usable())
			check(value_versions[i]);
}

TEST(special_values__any_version__is_as_plain)
{
	each_version(check_special);
}

TEST(to_codes__any_version__is_as_plain)
{
	each_version(check_to_codes);
}

TEST(from_codes__any_version__is_as_plain)
{
	each_version(check_from_codes);
}

TEST(largest__any_length__is_as_plain)
{
	each_version(check_largest);
}

TEST(sums__any_rows_and_length__are_as_plain_in_this_order)
{
	each_version(check_sums);
}

TEST(pack__every_width__comes_back_and_takes_no_more)
{
	each_version(check_pack);
}
