/* SPDX-License-Identifier: BSD-3-Clause
 * Messages of all densities, spans and types, encoded and decoded. The layout is checked by the
 * second reader of index_layout.h, and the choice of coding by sizes computed from the
 * definition. */
#include "base/bytes.h"
#include "index_layout.h"
#include "message_example.h"
#include "cases.h"
#include <string.h>

static int densest; /* the densest coding that senders may use */

static void expect_same_fields(const struct message *a, const struct message *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->coding, b->coding);
	assert_int_equal(a->values.type, b->values.type);
	assert_int_equal(a->raised, b->raised);
	assert_int_equal(a->chosen, b->chosen);
	assert_int_equal(a->phase, b->phase);
	assert_int_equal(a->part, b->part);
	assert_int_equal(a->parts, b->parts);
	assert_int_equal(a->rank, b->rank);
	assert_int_equal(a->epoch, b->epoch);
	assert_int_equal(a->model, b->model);
	assert_int_equal(a->shard, b->shard);
	assert_int_equal(a->seq, b->seq);
	assert_int_equal(a->step, b->step);
	assert_int_equal(a->have_version, b->have_version);
	assert_int_equal(a->span, b->span);
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->divisor, b->divisor);
	assert_int_equal(a->anchor, b->anchor);
	assert_true(a->scale == b->scale);
	assert_true(a->lr == b->lr);
	assert_int_equal(a->payload_bytes, b->payload_bytes);
}

/* Encodes, checks size, coding and layout, and decodes. index == NULL: dense. */
static void expect_round_trip(const uint32_t *index, const float *value, uint32_t count,
			      uint32_t span, enum value_type type)
{
	struct message m = example(span, count, type), got;
	size_t bound = message_bound(span, index ? count : span, plain(type)), length;
	uint8_t *out = get_memory(bound), *again = get_memory(bound), *copy;
	uint32_t *got_index;
	float *decoded = get_memory(4 * (size_t)count), *got_value;
	uint64_t best = UINT64_MAX, values = up_to_4((uint64_t)count * value_bytes(type));
	const char *why = "";

	m.densest = densest;
	length = message_encode(NULL, &m, index, value, decoded, out, bound);
	assert_true(bound % 8 == 0 && length % 4 == 0 && length <= bound);
	assert_int_equal(length, MESSAGE_HEADER_BYTES + m.payload_bytes);
	for (size_t i = 0; i < CODINGS; i++) {
		uint64_t bytes = codings[i] == CODING_DENSE ?
					 up_to_4((uint64_t)span * value_bytes(type)) :
				 !index || (codings[i] == CODING_RICE && !densest) ?
					 UINT64_MAX :
					 values + slow_bytes(codings[i], index, count, span);

		best = bytes < best ? bytes : best;
		if (m.coding == codings[i])
			assert_int_equal(m.payload_bytes, bytes);
	}
	assert_int_equal(m.payload_bytes, best);
	if (index)
		expect_layout(m.coding, out + MESSAGE_HEADER_BYTES, index, count, span);

	/* The earlier content of the buffer must not affect the message. */
	memset(again, 0x5a, bound);
	got = example(span, count, type);
	got.densest = densest;
	assert_int_equal(message_encode(NULL, &got, index, value, decoded, again, bound), length);
	assert_memory_equal(out, again, length);

	copy = get_memory(length);
	memset(&got, 0, sizeof(got));
	assert_int_equal(message_copy(NULL, out, length, copy, length, &got, &why), 0);
	expect_same_fields(&got, &m);
	assert_memory_equal(copy, out, length);
	memset(&got, 0, sizeof(got));
	assert_int_equal(message_copy(NULL, copy, length, copy, length, &got, &why),
			 0); /* in place */
	expect_same_fields(&got, &m);
	got_index = get_memory(4 * (size_t)got.count);
	got_value = get_memory(4 * (size_t)got.count);
	assert_int_equal(message_decode(NULL, &got, copy, got_index, got_value, &why), 0);
	if (m.coding == CODING_DENSE && index) {
		for (uint32_t i = 0, place = 0; i < span; i++) {
			int sent = place < count && index[place] == i;

			assert_int_equal(float_bits(got_value[i]),
					 sent ? float_bits(decoded[place]) : 0);
			place += (uint32_t)sent;
		}
	} else {
		assert_int_equal(got.count, count);
		assert_memory_equal(got_value, decoded, 4 * (size_t)count);
		if (m.coding != CODING_DENSE)
			assert_memory_equal(got_index, index, 4 * (size_t)count);
	}
	if (type == VALUE_F32)
		assert_memory_equal(decoded, value, 4 * (size_t)count);
	free(out);
	free(again);
	free(copy);
	free(decoded);
	free(got_index);
	free(got_value);
}

TEST(round_trip__all_densities_spans_and_types)
{
	const uint32_t spans[] = { 0, 1, 2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1000, 20000 };
	const double densities[] = { 0,   1e-3, 1e-2, 0.05, 0.1,   0.18, 0.25,
				     0.5, 0.9,  0.96, 0.98, 0.999, 1 };
	uint32_t index[20000];
	float value[20000];
	struct random r = { 1 };

	for (size_t i = 0; i < COUNT_OF(value); i++)
		value[i] = random_normal(&r);
	for (size_t s = 0; s < COUNT_OF(spans); s++)
		for (enum value_type type = VALUE_F32; type <= VALUE_BF16; type++) {
			expect_round_trip(NULL, value, spans[s], spans[s], type);
			for (size_t d = 0; d < COUNT_OF(densities); d++)
				expect_round_trip(index, value,
						  random_support(&r, spans[s], densities[d], index),
						  spans[s], type);
		}
}

TEST(round_trip__a_million_elements)
{
	const double densities[] = { 0, 1e-6, 1e-4, 1e-2, 0.2, 0.97, 1 };
	const uint32_t span = 1000000;
	uint32_t *index = get_memory(4 * (size_t)span);
	float *value = get_memory(4 * (size_t)span);
	struct random r = { 2 };

	for (uint32_t i = 0; i < span; i++)
		value[i] = random_normal(&r);
	for (size_t d = 0; d < COUNT_OF(densities); d++)
		expect_round_trip(index, value, random_support(&r, span, densities[d], index), span,
				  d % 3 == 0 ? VALUE_F32 :
				  d % 3 == 1 ? VALUE_F16 :
					       VALUE_BF16);
	expect_round_trip(NULL, value, span, span, VALUE_F16);
	free(index);
	free(value);
}

TEST(round_trip__gaps_of_every_width)
{
	const float value[300] = { 1 };
	uint32_t index[300];

	for (unsigned width = 0; width < 32; width++)
		for (uint32_t count = 1; count <= 300; count += count < 4 ? 1 : 37) {
			uint64_t at = width ? (uint64_t)1 << (width - 1) : 0;

			index[0] = (uint32_t)at;
			for (uint32_t i = 1; i < count; i++) {
				at = at + 1 +
				     (width && i % 64 == 1 ? (uint64_t)1 << (width - 1) :
							     i % 2 && width > 1);
				if (at >= UINT32_MAX)
					break;
				index[i] = (uint32_t)at;
			}
			if (at < UINT32_MAX)
				expect_round_trip(index, value, count, UINT32_MAX, VALUE_F32);
		}
	index[0] = UINT32_MAX - 1; /* makes a gap of 32 bits */
	expect_round_trip(index, value, 1, UINT32_MAX, VALUE_F32);
}

TEST(round_trip__every_subset_of_small_spans_fits_the_bound)
{
	const float value[12] = { 1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12 };

	for (uint32_t span = 0; span <= 9; span++)
		for (uint32_t subset = 0; subset < 1u << span; subset++)
			for (enum value_type type = VALUE_F32; type <= VALUE_BF16; type++) {
				uint32_t index[12], count = 0;

				for (uint32_t i = 0; i < span; i++)
					if (subset >> i & 1)
						index[count++] = i;
				expect_round_trip(index, value, count, span, type);
			}
}

int main(void)
{
	int failed = run_cases(NULL, NULL);

	densest = 1;
	return failed + run_cases(NULL, NULL);
}
