/* SPDX-License-Identifier: BSD-3-Clause
 * Messages there and back. The layout is checked by a second reader written here, one bit at a time,
 * and the choice of coding by sizes computed here from the definition. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "compress/index_coding.h"
#include "compress/message.h"
#include "random.h"
#include "sluice.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static const enum index_coding codings[] = {CODING_DENSE, CODING_RAW, CODING_DELTA, CODING_BITMAP,
					   CODING_RICE, CODING_RUN};

static void *get_memory(size_t bytes)
{
	void *memory = malloc(bytes + !bytes);

	assert_non_null(memory);
	return memory;
}

static int densest; /* what senders allow */

static struct value_coding plain(enum value_type type)
{
	return (struct value_coding){ type, 0, 0, 0 };
}

static struct message example(uint32_t span, uint32_t count, enum value_type type)
{
	return (struct message){ .kind = MESSAGE_PUSH,
				 .values = { type, 0, 0, 0 },
				 .densest = densest,
				 .raised = 0x81,
				 .chosen = 3,
				 .phase = 2,
				 .part = 1,
				 .parts = 3,
				 .rank = 7,
				 .epoch = 4,
				 .model = 9,
				 .shard = 11,
				 .seq = (uint64_t)5 << 40,
				 .step = (uint64_t)6 << 40,
				 .have_version = 12,
				 .span = span,
				 .count = count,
				 .divisor = 0,
				 .anchor = 1,
				 .lr = 0.05f };
}

/* ---- the definition, slowly ---- */

static uint64_t up_to_4(uint64_t bytes)
{
	return (bytes + 3) / 4 * 4;
}

static unsigned slow_width(const uint32_t *index, uint32_t count, uint32_t block)
{
	unsigned width = 0;

	for (uint64_t i = (uint64_t)block * 128; i < count && i < (uint64_t)block * 128 + 128;
	     i++) {
		uint64_t gap = i ? index[i] - index[i - 1] - 1 : index[0];

		while (gap >> width)
			width++;
	}
	return width;
}

static unsigned slow_low_bits(uint32_t count, uint32_t span)
{
	unsigned low = 0;

	while (((uint64_t)count << (low + 1)) <= (uint64_t)span * 45426 / 65536)
		low++;
	return low;
}

static uint64_t slow_rice_bytes(const uint32_t *index, uint32_t count, uint32_t span)
{
	uint64_t low = count ? slow_low_bits(count, span) : 0, unary = 0;

	for (uint32_t i = 0; i < count; i++)
		unary += ((i ? index[i] - index[i - 1] - 1 : index[0]) >> low) + 1;
	return up_to_4((count * low + 7) / 8 + (unary + 7) / 8);
}

static uint64_t slow_bytes(enum index_coding coding, const uint32_t *index, uint32_t count,
			   uint32_t span)
{
	uint32_t blocks = (count + 127) / 128;
	uint64_t bytes = up_to_4(blocks);

	if (coding == CODING_DENSE)
		return 0;
	if (coding == CODING_RAW)
		return 4 * (uint64_t)count;
	if (coding == CODING_BITMAP)
		return up_to_4(((uint64_t)span + 7) / 8);
	if (coding == CODING_RICE)
		return slow_rice_bytes(index, count, span);
	if (coding == CODING_RUN)
		return count && index[count - 1] - index[0] + 1 == count ? 4 : UINT32_MAX;
	for (uint32_t b = 0; b < blocks; b++) {
		uint32_t n = count - b * 128 < 128 ? count - b * 128 : 128;

		bytes += (n * slow_width(index, count, b) + 7) / 8;
	}
	return up_to_4(bytes);
}

static unsigned bit_of(const uint8_t *bytes, uint64_t i)
{
	return bytes[i / 8] >> i % 8 & 1;
}

static void expect_rice(const uint8_t *in, const uint32_t *index, uint32_t count, uint32_t span)
{
	uint64_t low = count ? slow_low_bits(count, span) : 0, at = 0, end;
	uint64_t unary = (count * low + 7) / 8 * 8;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t gap = i ? index[i] - index[i - 1] - 1 : index[0], high = 0, lows = 0;

		for (; !bit_of(in, unary); unary++)
			high++;
		unary++;
		for (uint64_t bit = 0; bit < low; bit++)
			lows |= (uint64_t)bit_of(in, at++) << bit;
		assert_int_equal(high << low | lows, gap);
	}
	for (; at % 8; at++)
		assert_int_equal(bit_of(in, at), 0);
	end = slow_rice_bytes(index, count, span) * 8;
	for (; unary < end; unary++)
		assert_int_equal(bit_of(in, unary), 0);
}

/* Checks that in[] is the coding of index[0..count). */
static void expect_layout(enum index_coding coding, const uint8_t *in, const uint32_t *index,
			  uint32_t count, uint32_t span)
{
	uint32_t blocks = (count + 127) / 128;
	uint64_t at = up_to_4(blocks) * 8, place = 0;

	if (coding == CODING_RAW)
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(get_le32(in + 4 * (size_t)i), index[i]);
	if (coding == CODING_BITMAP)
		for (uint64_t i = 0; i < up_to_4(((uint64_t)span + 7) / 8) * 8; i++) {
			unsigned expected = place < count && index[place] == i;

			assert_int_equal(bit_of(in, i), expected);
			place += expected;
		}
	if (coding == CODING_RUN)
		assert_int_equal(get_le32(in), index[0]);
	if (coding == CODING_RICE)
		expect_rice(in, index, count, span);
	if (coding != CODING_DELTA)
		return;
	for (uint32_t b = 0; b < blocks; b++) {
		unsigned width = slow_width(index, count, b);

		assert_int_equal(in[b], width);
		for (uint64_t i = (uint64_t)b * 128; i < count && i < (uint64_t)b * 128 + 128;
		     i++) {
			uint64_t gap = 0;

			for (unsigned bit = 0; bit < width; bit++)
				gap |= (uint64_t)bit_of(in, at++) << bit;
			assert_int_equal(gap, i ? index[i] - index[i - 1] - 1 : index[0]);
		}
		at = (at + 7) / 8 * 8;
	}
	for (; at < slow_bytes(coding, index, count, span) * 8; at++)
		assert_int_equal(bit_of(in, at), 0);
}

/* ---- there and back ---- */

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

/* Encodes, checks size, choice and layout, reads back. index == NULL: dense. */
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

	length = message_encode(&m, index, value, decoded, out, bound);
	assert_true(bound % 8 == 0 && length % 4 == 0 && length <= bound);
	assert_int_equal(length, MESSAGE_HEADER_BYTES + m.payload_bytes);
	for (size_t i = 0; i < COUNT_OF(codings); i++) {
		uint64_t bytes = codings[i] == CODING_DENSE ?
					 up_to_4((uint64_t)span * value_bytes(type)) :
				 !index || (codings[i] == CODING_RICE && !densest) ? UINT64_MAX :
					  values + slow_bytes(codings[i], index, count, span);

		best = bytes < best ? bytes : best;
		if (m.coding == codings[i])
			assert_int_equal(m.payload_bytes, bytes);
	}
	assert_int_equal(m.payload_bytes, best);
	if (index)
		expect_layout(m.coding, out + MESSAGE_HEADER_BYTES, index, count, span);

	/* Canonical: what lay in the buffer before does not show. */
	memset(again, 0x5a, bound);
	got = example(span, count, type);
	assert_int_equal(message_encode(&got, index, value, decoded, again, bound), length);
	assert_memory_equal(out, again, length);

	copy = get_memory(length);
	memset(&got, 0, sizeof(got));
	assert_int_equal(message_copy(out, length, copy, length, &got, &why), 0);
	expect_same_fields(&got, &m);
	assert_memory_equal(copy, out, length);
	memset(&got, 0, sizeof(got));
	assert_int_equal(message_copy(copy, length, copy, length, &got, &why), 0); /* in place */
	expect_same_fields(&got, &m);
	got_index = get_memory(4 * (size_t)got.count);
	got_value = get_memory(4 * (size_t)got.count);
	assert_int_equal(message_decode(&got, copy, got_index, got_value, &why), 0);
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

static uint32_t random_support(struct random *r, uint32_t span, double density, uint32_t *index)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < span; i++)
		if (random_unit(r) < density)
			index[count++] = i;
	return count;
}

static void round_trip__all_densities_spans_and_types(void **state)
{
	const uint32_t spans[] = {0, 1, 2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1000, 20000};
	const double densities[] = { 0,   1e-3, 1e-2, 0.05, 0.1,   0.18, 0.25,
				     0.5, 0.9,  0.96, 0.98, 0.999, 1 };
	uint32_t index[20000];
	float value[20000];
	struct random r = {1};

	(void)state;
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

static void round_trip__a_million_elements(void **state)
{
	const double densities[] = {0, 1e-6, 1e-4, 1e-2, 0.2, 0.97, 1};
	const uint32_t span = 1000000;
	uint32_t *index = get_memory(4 * (size_t)span);
	float *value = get_memory(4 * (size_t)span);
	struct random r = {2};

	(void)state;
	for (uint32_t i = 0; i < span; i++)
		value[i] = random_normal(&r);
	for (size_t d = 0; d < COUNT_OF(densities); d++)
		expect_round_trip(index, value, random_support(&r, span, densities[d], index), span,
				  d % 3 == 0 ? VALUE_F32 : d % 3 == 1 ? VALUE_F16 : VALUE_BF16);
	expect_round_trip(NULL, value, span, span, VALUE_F16);
	free(index);
	free(value);
}

static void round_trip__gaps_of_every_width(void **state)
{
	const float value[300] = {1};
	uint32_t index[300];

	(void)state;
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
	index[0] = UINT32_MAX - 1; /* a gap of 32 bits */
	expect_round_trip(index, value, 1, UINT32_MAX, VALUE_F32);
}

static void round_trip__every_subset_of_small_spans_fits_the_bound(void **state)
{
	const float value[12] = {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12};

	(void)state;
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

static void bound__grows_with_count_and_holds_a_header(void **state)
{
	(void)state;
	for (uint32_t span = 0; span < 200; span++)
		for (enum value_type type = VALUE_F32; type <= VALUE_BF16; type++) {
			assert_true(message_bound(span, 0, plain(type)) >= MESSAGE_HEADER_BYTES);
			for (uint32_t count = 1; count <= span; count++)
				assert_true(message_bound(span, count, plain(type)) >=
					    message_bound(span, count - 1, plain(type)));
			assert_int_equal(message_bound(span, span + 5, plain(type)),
					 message_bound(span, span, plain(type)));
		}
	assert_int_equal(message_bound(UINT32_MAX, UINT32_MAX, plain(VALUE_F32)), 96 + ((size_t)4 << 32));
}

static void every_coding__reads_back_what_it_wrote(void **state)
{
	const double densities[] = {0, 0.003, 0.1, 0.7, 1};
	const uint32_t spans[] = {0, 1, 127, 128, 129, 5000};
	uint32_t index[5000], got[5001];
	struct random r = {3};
	const char *why;

	(void)state;
	for (size_t s = 0; s < COUNT_OF(spans); s++)
		for (size_t d = 0; d < COUNT_OF(densities); d++)
			for (size_t c = 1; c < COUNT_OF(codings); c++) {
				uint32_t count = random_support(&r, spans[s], densities[d], index);
				uint64_t bytes = index_bytes(codings[c], index, count, spans[s]);
				if (codings[c] == CODING_RUN && bytes == UINT32_MAX)
					continue; /* no run */

				uint8_t *coded = get_memory(bytes);

				assert_int_equal(bytes,
						 slow_bytes(codings[c], index, count, spans[s]));
				index_encode(codings[c], index, count, spans[s], coded, bytes);
				expect_layout(codings[c], coded, index, count, spans[s]);
				got[count] = 0xabcdef01;
				assert_int_equal(index_decode(codings[c], coded, bytes, count,
							      spans[s], got, &why),
						 0);
				if (count)
					assert_memory_equal(got, index, 4 * (size_t)count);
				assert_int_equal(got[count], 0xabcdef01);
				free(coded);
			}
}

static void canonical__all_values_with_or_without_index_give_equal_bytes(void **state)
{
	const uint32_t index[] = {0, 1, 2, 3, 4};
	const float value[] = {1, 2, 3, 4, 5};
	uint8_t with[256], without[256];

	(void)state;
	for (uint32_t span = 0; span <= 5; span++) {
		struct message a = example(span, span, VALUE_F16), b = example(span, 0, VALUE_F16);
		float decoded[5];
		size_t length = message_encode(&a, index, value, decoded, with, sizeof(with));

		assert_int_equal(message_encode(&b, NULL, value, decoded, without, sizeof(without)),
				 length);
		assert_memory_equal(with, without, length);
	}
}

static void choice__of_equal_lengths_raw_before_bitmap_before_delta_before_dense(void **state)
{
	const struct { uint32_t span, count, index[3]; enum index_coding best; } equal[] = {
		{1000, 0, {0}, CODING_RAW},         /* nothing, raw or delta */
		{32, 1, {31}, CODING_RAW},          /* 4 bytes raw or bitmap */
		{64, 2, {30, 61}, CODING_RAW},      /* 8 bytes raw, bitmap or delta */
		{64, 3, {5, 6, 9}, CODING_BITMAP},  /* 8 bytes bitmap or delta */
		{64, 3, {5, 6, 7}, CODING_RUN},     /* 4 bytes */
		{4, 3, {0, 1, 3}, CODING_BITMAP},   /* 16 bytes with values, as dense */
	};
	const float value[3] = {1, 2, 3};
	uint8_t out[256];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(equal); i++) {
		struct message m = example(equal[i].span, equal[i].count, VALUE_F32);
		float decoded[3];

		message_encode(&m, equal[i].index, value, decoded, out, sizeof(out));
		assert_int_equal(m.coding, equal[i].best);
	}
}

static void decoded__may_alias_value(void **state)
{
	const uint32_t few[] = {3, 900}, most[] = {0, 2};
	uint8_t out[256];

	(void)state;
	for (enum value_type type = VALUE_F32; type <= VALUE_BF16; type++) {
		float value[] = {0.1f, -70.3f}, decoded[2], in_place[2];
		struct message sparse = example(1000, 2, type), dense = example(3, 2, type);

		memcpy(in_place, value, sizeof(value));
		message_encode(&sparse, few, value, decoded, out, sizeof(out));
		message_encode(&sparse, few, in_place, in_place, out, sizeof(out));
		assert_memory_equal(in_place, decoded, sizeof(decoded));
		memcpy(in_place, value, sizeof(value));
		message_encode(&dense, most, in_place, in_place, out, sizeof(out));
		assert_memory_equal(in_place, decoded, sizeof(decoded));
	}
}

/* Within 0.3 bit of the least that random positions can cost. */
static void size__rice_costs_little_more_than_the_entropy(void **state)
{
	const double densities[] = { 1e-3, 1e-2, 0.1 };
	const uint32_t span = 2000000;
	uint32_t *index = get_memory(4 * (size_t)span);
	struct random r = {5};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(densities); i++) {
		uint32_t count = random_support(&r, span, densities[i], index);
		double p = (double)count / span;
		double entropy = -(p * log2(p) + (1 - p) * log2(1 - p)) / p;
		double bits = 8.0 * (double)index_bytes(CODING_RICE, index, count, span) / count;

		assert_true(bits >= entropy - 0.1 && bits < entropy + 0.3);
	}
	free(index);
}

/* Bits per coordinate on uniformly random supports of 2e6, as computed for the design. */
static void size__delta_costs_what_the_design_says(void **state)
{
	const struct {
		double density, bits;
	} expected[] = { { 1e-3, 13.3 }, { 1e-2, 9.63 }, { 5e-2, 7.22 } };
	const uint32_t span = 2000000;
	uint32_t *index = get_memory(4 * (size_t)span);
	struct random r = {4};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(expected); i++) {
		uint32_t count = random_support(&r, span, expected[i].density, index);
		double bits = 8.0 * (double)index_bytes(CODING_DELTA, index, count, span) / count;
		float *value = calloc(count, sizeof(*value));
		size_t bound = message_bound(span, count, plain(VALUE_F32));
		uint8_t *out = get_memory(bound);
		struct message m = example(span, count, VALUE_F32);

		assert_non_null(value);
		assert_true(bits > 0.95 * expected[i].bits && bits < 1.05 * expected[i].bits);
		message_encode(&m, index, value, value, out, bound);
		assert_int_equal(m.coding, CODING_DELTA);
		free(value);
		free(out);
	}
	free(index);
}

static void header__fields_are_at_their_offsets(void **state)
{
	const float value[] = {1.5f, -40};
	const uint32_t index[] = {2, 70000};
	struct message m = example(100000, 2, VALUE_F16);
	float decoded[2];
	uint8_t h[256];
	size_t length;

	(void)state;
	m.kind = MESSAGE_DELTA;
	m.divisor = 8;
	length = message_encode(&m, index, value, decoded, h, sizeof(h));
	assert_memory_equal(h, "SLC1", 4);
	assert_int_equal(get_le16(h + 4), SLUICE_WIRE_VERSION);
	assert_int_equal(h[6], 2);
	assert_int_equal(h[7], 1); /* raw: two indices, each delta would need 17 bits and a width */
	assert_int_equal(h[8], 1);
	assert_int_equal(h[9], 0x81);
	assert_int_equal(get_le16(h + 10), 2);
	assert_int_equal(get_le32(h + 12), 7);
	assert_int_equal(get_le32(h + 16), 4);
	assert_int_equal(get_le32(h + 20), 11);
	assert_int_equal(get_le64(h + 24), (uint64_t)5 << 40);
	assert_int_equal(get_le64(h + 32), (uint64_t)6 << 40);
	assert_int_equal(get_le64(h + 40), 12);
	assert_int_equal(get_le32(h + 48), 100000);
	assert_int_equal(get_le32(h + 52), 2);
	assert_int_equal(get_le32(h + 56), 8);
	assert_true(bits_float(get_le32(h + 60)) == 512); /* 40 * 512 = 20480, in [2^14, 2^15) */
	assert_true(bits_float(get_le32(h + 64)) == 0.05f);
	assert_int_equal(get_le16(h + 68), 1);
	assert_int_equal(get_le16(h + 70), 3);
	assert_int_equal(get_le32(h + 72), 1);
	assert_int_equal(get_le32(h + 76), length - 96);
	assert_int_equal(get_le32(h + 80), crc32c(0, h + 96, length - 96));
	assert_int_equal(get_le32(h + 84), 9);
	assert_int_equal(get_le32(h + 88), 3); /* the choice; no bits, no block */
	assert_int_equal(get_le32(h + 92), crc32c(0, h, 92));
}

/* A peer that rewrites its slot all the time: what is accepted is one of the messages it meant. */
static void copy__slot_changing_meanwhile_gives_one_whole_message_or_none(void **state)
{
	enum { SPAN = 9000, BOUND = 96 + 4 * SPAN + 8, TRIES = 3000 };
	uint8_t *slot =
		mmap(NULL, BOUND, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint8_t *first = get_memory(BOUND), *second = get_memory(BOUND), *copy = get_memory(BOUND);
	float *value = get_memory(4 * SPAN), *decoded = get_memory(4 * SPAN);
	struct message m = example(SPAN, SPAN, VALUE_F32);
	size_t length;
	pid_t peer;

	(void)state;
	assert_true(slot != MAP_FAILED);
	for (int i = 0; i < SPAN; i++)
		value[i] = (float)i;
	length = message_encode(&m, NULL, value, decoded, first, BOUND);
	for (int i = 0; i < SPAN; i++)
		value[i] = (float)-i;
	assert_int_equal(message_encode(&m, NULL, value, decoded, second, BOUND), length);
	memcpy(slot, first, length);
	peer = fork();
	assert_true(peer >= 0);
	if (peer == 0)
		alarm(60); /* should this test fail and never come to kill it */
	while (peer == 0) {
		memcpy(slot, second, length);
		memcpy(slot, first, length);
	}
	for (int i = 0; i < TRIES; i++) {
		const char *why;

		if (message_copy(slot, BOUND, copy, BOUND, &m, &why))
			continue;
		assert_int_equal(message_decode(&m, copy, NULL, decoded, &why), 0);
		assert_true(!memcmp(copy, first, length) || !memcmp(copy, second, length));
	}
	kill(peer, SIGKILL);
	waitpid(peer, NULL, 0);
	munmap(slot, BOUND);
	free(first);
	free(second);
	free(copy);
	free(value);
	free(decoded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header__fields_are_at_their_offsets),
		cmocka_unit_test(size__rice_costs_little_more_than_the_entropy),
		cmocka_unit_test(round_trip__all_densities_spans_and_types),
		cmocka_unit_test(round_trip__a_million_elements),
		cmocka_unit_test(round_trip__gaps_of_every_width),
		cmocka_unit_test(round_trip__every_subset_of_small_spans_fits_the_bound),
		cmocka_unit_test(bound__grows_with_count_and_holds_a_header),
		cmocka_unit_test(every_coding__reads_back_what_it_wrote),
		cmocka_unit_test(canonical__all_values_with_or_without_index_give_equal_bytes),
		cmocka_unit_test(
			choice__of_equal_lengths_raw_before_bitmap_before_delta_before_dense),
		cmocka_unit_test(decoded__may_alias_value),
		cmocka_unit_test(size__delta_costs_what_the_design_says),
		cmocka_unit_test(copy__slot_changing_meanwhile_gives_one_whole_message_or_none),
	};

	const struct CMUnitTest round_trips[] = {
		cmocka_unit_test(round_trip__all_densities_spans_and_types),
		cmocka_unit_test(round_trip__a_million_elements),
		cmocka_unit_test(round_trip__gaps_of_every_width),
		cmocka_unit_test(round_trip__every_subset_of_small_spans_fits_the_bound),
	};
	int failed = cmocka_run_group_tests_name("message", tests, NULL, NULL);

	densest = 1;
	return failed + cmocka_run_group_tests_name("message, densest codings", round_trips, NULL, NULL);
}
