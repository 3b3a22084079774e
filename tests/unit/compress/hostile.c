/* SPDX-License-Identifier: BSD-3-Clause
 * Hostile messages made by hand, byte by byte and without the encoder. Checksums are right unless
 * the case is about them. Used by test_hostile.c. */
#include "hostile.h"
#include "base/bytes.h"

void slot_add8(struct slot *s, uint8_t v)
{
	slot_payload(s)[s->payload_bytes++] = v;
}
void slot_add16(struct slot *s, uint16_t v)
{
	put_le16(slot_payload(s) + s->payload_bytes, v);
	s->payload_bytes += 2;
}
void slot_add32(struct slot *s, uint32_t v)
{
	put_le32(slot_payload(s) + s->payload_bytes, v);
	s->payload_bytes += 4;
}

void slot_add_floats(struct slot *s, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		slot_add32(s, float_bits((float)i + 0.5f));
}

void slot_seal_header(struct slot *s)
{
	put_le32(s->bytes + 92, crc32c(0, s->bytes, 92));
}

void slot_seal(struct slot *s)
{
	put_le32(s->bytes + 76, s->payload_bytes);
	put_le32(s->bytes + 80, crc32c(0, slot_payload(s), s->payload_bytes));
	slot_seal_header(s);
}

void slot_spoil(struct slot *s, void (*good)(struct slot *s), size_t at, uint8_t byte)
{
	good(s);
	slot_payload(s)[at] = byte;
	slot_seal(s);
}

void slot_start(struct slot *s, enum index_coding coding, enum value_type type, uint32_t span,
		uint32_t count)
{
	uint8_t *h = s->bytes;

	memset(s, 0, sizeof(*s));
	memcpy(h, "SLC1", 4);
	put_le16(h + 4, SLUICE_WIRE_VERSION);
	h[6] = MESSAGE_PUSH;
	h[7] = (uint8_t)coding;
	h[8] = (uint8_t)type;
	put_le16(h + 10, 1);  /* phase */
	put_le32(h + 12, 3);  /* rank */
	put_le32(h + 16, 2);  /* epoch */
	put_le32(h + 20, 5);  /* shard */
	put_le64(h + 24, 40); /* seq */
	put_le64(h + 32, 41); /* step */
	put_le64(h + 40, 40); /* have_version */
	put_le32(h + 48, span);
	put_le32(h + 52, count);
	put_le32(h + 60, float_bits(1));
	put_le32(h + 64, float_bits(0.1f));
	put_le16(h + 68, 0);
	put_le16(h + 70, 1);
	put_le32(h + 84, 6); /* model */
}

/* ---- valid messages, which the cases below spoil ---- */

static void raw_with(struct slot *s, enum value_type type, const uint32_t *index, uint32_t n)
{
	slot_start(s, CODING_RAW, type, SPAN, n);
	for (uint32_t i = 0; i < n; i++)
		slot_add32(s, index[i]);
	if (type == VALUE_F32)
		slot_add_floats(s, n);
	for (uint32_t i = 0; type != VALUE_F32 && i < n; i++)
		slot_add16(s, (uint16_t)(0x3c00 + i));
	while (s->payload_bytes % 4)
		slot_add8(s, 0);
	slot_seal(s);
}

/* Has enough coordinates of the span for the encoder to choose the dense form. */
static void good_raw_nearly_all(struct slot *s)
{
	raw_with(s, VALUE_F16, (const uint32_t[]){ 0, 1, 3 }, 3);
	put_le32(s->bytes + 48, 4);
	slot_seal_header(s);
}

static void good_raw(struct slot *s)
{
	raw_with(s, VALUE_F32, (const uint32_t[]){ 0, 7, 199 }, 3);
}

static void good_raw_f16(struct slot *s)
{
	raw_with(s, VALUE_F16, (const uint32_t[]){ 0, 7, 199 }, 3);
}

static void good_raw_bf16(struct slot *s)
{
	raw_with(s, VALUE_BF16, (const uint32_t[]){ 0, 7, 199 }, 3);
}

static void good_dense(struct slot *s)
{
	slot_start(s, CODING_DENSE, VALUE_F32, COUNT_MAX, COUNT_MAX);
	slot_add_floats(s, COUNT_MAX);
	slot_seal(s);
}

static void good_empty(struct slot *s)
{
	slot_start(s, CODING_RAW, VALUE_F32, SPAN, 0);
	slot_seal(s);
}

static void bits_of_f32(struct slot *s)
{
	good_raw(s);
	s->bytes[89] = 8;
	slot_seal_header(s);
}

/* ---- header ---- */

static void raw_field16(struct slot *s, size_t offset, uint16_t v)
{
	good_raw(s);
	put_le16(s->bytes + offset, v);
	slot_seal_header(s);
}

static void raw_field32(struct slot *s, size_t offset, uint32_t v)
{
	good_raw(s);
	put_le32(s->bytes + offset, v);
	slot_seal_header(s);
}

static void wrong_magic(struct slot *s)
{
	good_raw(s);
	s->bytes[3] = '2';
	slot_seal_header(s);
}
static void nothing_written(struct slot *s)
{
	memset(s, 0, sizeof(*s));
}
static void wrong_version(struct slot *s)
{
	raw_field16(s, 4, SLUICE_WIRE_VERSION + 1);
}
static void bad_header_crc(struct slot *s)
{
	good_raw(s);
	s->bytes[92] ^= 1;
}
static void header_bit_flipped(struct slot *s)
{
	good_raw(s);
	s->bytes[33] ^= 0x10;
}
static void bad_payload_crc(struct slot *s)
{
	good_raw(s);
	s->bytes[80] ^= 1;
	slot_seal_header(s);
}
static void payload_bit_flipped(struct slot *s)
{
	good_raw(s);
	slot_payload(s)[5] ^= 4;
}
static void unknown_kind(struct slot *s)
{
	good_raw(s);
	s->bytes[6] = 7;
	slot_seal_header(s);
}
static void kind_zero(struct slot *s)
{
	good_raw(s);
	s->bytes[6] = 0;
	slot_seal_header(s);
}
static void unknown_coding(struct slot *s)
{
	good_raw(s);
	s->bytes[7] = 6;
	slot_seal_header(s);
}
static void agreed_unasked(struct slot *s)
{
	good_raw(s);
	s->bytes[7] = 9;
	slot_seal_header(s);
}
static void unknown_value_type(struct slot *s)
{
	good_raw(s);
	s->bytes[8] = 6;
	slot_seal_header(s);
}
static void part_of_none(struct slot *s)
{
	raw_field16(s, 70, 0);
}
static void part_beyond_parts(struct slot *s)
{
	raw_field16(s, 68, 1);
}

static void with_scale(struct slot *s, float scale)
{
	good_raw_f16(s);
	put_le32(s->bytes + 60, float_bits(scale));
	slot_seal_header(s);
}

static void scale_nan(struct slot *s)
{
	with_scale(s, bits_float(0x7fc00000));
}
static void scale_zero(struct slot *s)
{
	with_scale(s, 0);
}
static void scale_negative(struct slot *s)
{
	with_scale(s, -2);
}
static void scale_infinite(struct slot *s)
{
	with_scale(s, bits_float(0x7f800000));
}
static void scale_denormal(struct slot *s)
{
	with_scale(s, 0x1p-140f);
}
static void scale_no_power_of_two(struct slot *s)
{
	with_scale(s, 3);
}
static void scale_of_f32(struct slot *s)
{
	raw_field32(s, 60, float_bits(2));
}
static void scale_that_overflows(struct slot *s)
{
	good_raw_f16(s);
	put_le32(s->bytes + 60, float_bits(0x1p-126f));
	put_le16(slot_payload(s) + 12, 0x4400); /* the step becomes 4, so the largest value is 4
						 * 2^126 */
	slot_seal(s);
}
static void lr_nan(struct slot *s)
{
	raw_field32(s, 64, 0x7fc00000);
}
static void lr_negative(struct slot *s)
{
	raw_field32(s, 64, float_bits(-1));
}

static void norm_nan(struct slot *s)
{
	raw_field32(s, 56, 0x7fc00000);
}

static void norm_negative(struct slot *s)
{
	raw_field32(s, 56, float_bits(-1));
}

/* ---- lengths ---- */

static void payload_beyond_slot(struct slot *s)
{
	good_raw(s);
	put_le32(s->bytes + 76, SLOT_BYTES - MESSAGE_HEADER_BYTES + 4);
	slot_seal_header(s);
}

static void payload_of_4_gigabytes(struct slot *s)
{
	good_raw(s);
	put_le32(s->bytes + 76, UINT32_MAX);
	slot_seal_header(s);
}

static void payload_too_short(struct slot *s)
{
	good_raw(s);
	s->payload_bytes -= 4;
	slot_seal(s);
}
static void payload_empty(struct slot *s)
{
	good_raw(s);
	s->payload_bytes = 0;
	slot_seal(s);
}
static void payload_trailing(struct slot *s)
{
	good_raw(s);
	slot_add32(s, 0);
	slot_seal(s);
}
static void payload_odd_length(struct slot *s)
{
	good_raw(s);
	slot_add8(s, 0);
	slot_seal(s);
}
static void dense_trailing(struct slot *s)
{
	good_dense(s);
	slot_add32(s, 0);
	slot_seal(s);
}
static void dense_too_short(struct slot *s)
{
	good_dense(s);
	s->payload_bytes -= 4;
	slot_seal(s);
}

void slot_count(struct slot *s, uint32_t span, uint32_t count)
{
	put_le32(s->bytes + 48, span);
	put_le32(s->bytes + 52, count);
	slot_seal_header(s);
}

static void count_over_span(struct slot *s)
{
	good_raw(s);
	slot_count(s, SPAN, SPAN + 1);
}
static void count_over_slot(struct slot *s)
{
	good_raw(s);
	slot_count(s, SPAN, COUNT_MAX + 1);
}
static void count_huge(struct slot *s)
{
	good_raw(s);
	slot_count(s, UINT32_MAX, UINT32_MAX);
}
static void count_one_more(struct slot *s)
{
	good_raw(s);
	slot_count(s, SPAN, 4);
}
static void count_one_less(struct slot *s)
{
	good_raw(s);
	slot_count(s, SPAN, 2);
}
static void dense_count_differs(struct slot *s)
{
	good_dense(s);
	slot_count(s, SPAN, COUNT_MAX);
}
static void dense_span_over_slot(struct slot *s)
{
	good_dense(s);
	slot_count(s, SPAN, SPAN);
}

/* ---- messages for another receiver ---- */

static void field(struct slot *s, size_t offset)
{
	good_raw(s);
	s->bytes[offset]++;
	slot_seal_header(s);
}
static void wrong_kind(struct slot *s)
{
	field(s, 6);
}
static void wrong_phase(struct slot *s)
{
	field(s, 10);
}
static void wrong_rank(struct slot *s)
{
	field(s, 12);
}
static void wrong_epoch(struct slot *s)
{
	field(s, 16);
}
static void wrong_shard(struct slot *s)
{
	field(s, 20);
}
static void wrong_seq(struct slot *s)
{
	field(s, 24);
}
static void wrong_step(struct slot *s)
{
	field(s, 32);
}
static void wrong_step_high_half(struct slot *s)
{
	field(s, 39);
}
static void wrong_span(struct slot *s)
{
	field(s, 48);
}
static void wrong_model(struct slot *s)
{
	field(s, 84);
}

/* ---- indices ---- */

static void raw_out_of_range(struct slot *s)
{
	raw_with(s, VALUE_F32, (const uint32_t[]){ 0, 7, SPAN }, 3);
}
static void raw_huge(struct slot *s)
{
	raw_with(s, VALUE_F32, (const uint32_t[]){ 0, 7, UINT32_MAX }, 3);
}
static void raw_unsorted(struct slot *s)
{
	raw_with(s, VALUE_F32, (const uint32_t[]){ 7, 0, 199 }, 3);
}
static void raw_huge_first(struct slot *s)
{
	raw_with(s, VALUE_F32, (const uint32_t[]){ UINT32_MAX, 0, 5 }, 3);
}
static void raw_duplicate(struct slot *s)
{
	raw_with(s, VALUE_F32, (const uint32_t[]){ 0, 7, 7 }, 3);
}

/* ---- values ---- */

static void value_nan(struct slot *s)
{
	good_raw(s);
	put_le32(slot_payload(s) + 16, 0x7fc00000);
	slot_seal(s);
}
static void value_infinite(struct slot *s)
{
	good_raw(s);
	put_le32(slot_payload(s) + 20, 0xff800000);
	slot_seal(s);
}
static void value_nan_f16(struct slot *s)
{
	good_raw_f16(s);
	put_le16(slot_payload(s) + 12, 0x7e00);
	slot_seal(s);
}
static void value_nan_bf16(struct slot *s)
{
	good_raw_bf16(s);
	put_le16(slot_payload(s) + 16, 0x7fc0);
	slot_seal(s);
}
static void value_nan_dense(struct slot *s)
{
	good_dense(s);
	put_le32(slot_payload(s) + 76, 0x7f800001);
	slot_seal(s);
}
static void padding_after_values(struct slot *s)
{
	slot_spoil(s, good_raw_f16, 18, 1);
}

/* ---- the table ---- */

static const struct hostile plain[] = {
	{ "good-raw", good_raw, ACCEPTED, "", SPAN },
	{ "good-raw-f16", good_raw_f16, ACCEPTED, "", SPAN },
	{ "good-raw-bf16", good_raw_bf16, ACCEPTED, "", SPAN },
	{ "good-raw-nearly-all", good_raw_nearly_all, ACCEPTED, "", 4 },
	{ "good-empty", good_empty, ACCEPTED, "", SPAN },
	{ "good-dense", good_dense, ACCEPTED, "", COUNT_MAX },

	{ "bits-of-f32", bits_of_f32, COPY, "for values without bits and blocks", SPAN },

	{ "nothing-written", nothing_written, COPY, "magic", SPAN },
	{ "wrong-magic", wrong_magic, COPY, "magic", SPAN },
	{ "wrong-version", wrong_version, COPY, "wire version", SPAN },
	{ "bad-header-crc", bad_header_crc, COPY, "header's checksum", SPAN },
	{ "header-bit-flipped", header_bit_flipped, COPY, "header's checksum", SPAN },
	{ "bad-payload-crc", bad_payload_crc, COPY, "payload's checksum", SPAN },
	{ "payload-bit-flipped", payload_bit_flipped, COPY, "payload's checksum", SPAN },
	{ "unknown-kind", unknown_kind, COPY, "unknown message kind 7", SPAN },
	{ "kind-zero", kind_zero, COPY, "unknown message kind 0", SPAN },
	{ "unknown-coding", unknown_coding, COPY, "unknown index coding 6", SPAN },
	{ "agreed-unasked", agreed_unasked, CHECK, "no support is agreed", SPAN },
	{ "unknown-value-type", unknown_value_type, COPY, "unknown value type 6", SPAN },
	{ "part-of-none", part_of_none, COPY, "part 0 of 0 parts", SPAN },
	{ "part-beyond-parts", part_beyond_parts, COPY, "part 1 of 1 parts", SPAN },
	{ "scale-nan", scale_nan, COPY, "scale", SPAN },
	{ "scale-zero", scale_zero, COPY, "scale 0", SPAN },
	{ "scale-negative", scale_negative, COPY, "scale -2", SPAN },
	{ "scale-infinite", scale_infinite, COPY, "scale inf", SPAN },
	{ "scale-denormal", scale_denormal, COPY, "scale", SPAN },
	{ "scale-no-power-of-two", scale_no_power_of_two, COPY, "scale 3", SPAN },
	{ "scale-of-f32", scale_of_f32, COPY, "scale 2", SPAN },
	{ "scale-that-overflows", scale_that_overflows, DECODE, "NaN or infinite", SPAN },
	{ "lr-nan", lr_nan, COPY, "learning rate", SPAN },
	{ "lr-negative", lr_negative, COPY, "learning rate -1", SPAN },
	{ "norm-nan", norm_nan, COPY, "norm nan is not", SPAN },
	{ "norm-negative", norm_negative, COPY, "norm -1 is not", SPAN },

	{ "payload-beyond-slot", payload_beyond_slot, COPY, "exceeds the slot", SPAN },
	{ "payload-of-4-gigabytes", payload_of_4_gigabytes, COPY, "exceeds the slot", SPAN },
	{ "payload-too-short", payload_too_short, DECODE, "does not fit the number of raw", SPAN },
	{ "payload-empty", payload_empty, DECODE, "cannot hold 3 values", SPAN },
	{ "payload-trailing", payload_trailing, DECODE, "does not fit the number of raw", SPAN },
	{ "payload-odd-length", payload_odd_length, DECODE, "does not fit the number of raw",
	  SPAN },
	{ "dense-trailing", dense_trailing, DECODE, "one value per element", COUNT_MAX },
	{ "dense-too-short", dense_too_short, DECODE, "cannot hold 20 values", COUNT_MAX },
	{ "count-over-span", count_over_span, COPY, "201 coordinates for a shard of 200", SPAN },
	{ "count-over-slot", count_over_slot, CHECK, "21 coordinates where at most 20", SPAN },
	{ "count-huge", count_huge, CHECK, "span 4294967295 where 200", SPAN },
	{ "count-one-more", count_one_more, DECODE, "does not fit the number of raw", SPAN },
	{ "count-one-less", count_one_less, DECODE, "does not fit the number of raw", SPAN },
	{ "dense-count-differs", dense_count_differs, COPY,
	  "a dense message has 20 values, but the shard has", SPAN },
	{ "dense-span-over-slot", dense_span_over_slot, CHECK, "200 coordinates where at most 20",
	  SPAN },

	{ "wrong-kind", wrong_kind, CHECK, "kind 2 where 1", SPAN },
	{ "wrong-phase", wrong_phase, CHECK, "phase 2 where 1", SPAN },
	{ "wrong-rank", wrong_rank, CHECK, "rank 4 where 3", SPAN },
	{ "wrong-epoch", wrong_epoch, CHECK, "epoch 3 where 2", SPAN },
	{ "wrong-shard", wrong_shard, CHECK, "shard 6 where 5", SPAN },
	{ "wrong-seq", wrong_seq, CHECK, "seq 41 where 40", SPAN },
	{ "wrong-step", wrong_step, CHECK, "step 42 where 41", SPAN },
	{ "wrong-step-high-half", wrong_step_high_half, CHECK, "step 72057594037927977 where 41",
	  SPAN },
	{ "wrong-span", wrong_span, CHECK, "span 201 where 200", SPAN },
	{ "wrong-model", wrong_model, CHECK, "model 7 where 6", SPAN },

	{ "raw-out-of-range", raw_out_of_range, DECODE, "raw index lies beyond", SPAN },
	{ "raw-huge", raw_huge, DECODE, "raw index lies beyond", SPAN },
	{ "raw-unsorted", raw_unsorted, DECODE, "not strictly increasing", SPAN },
	{ "raw-huge-first", raw_huge_first, DECODE, "not strictly increasing", SPAN },
	{ "raw-duplicate", raw_duplicate, DECODE, "not strictly increasing", SPAN },
	{ "value-nan", value_nan, DECODE, "NaN or infinite", SPAN },
	{ "value-infinite", value_infinite, DECODE, "NaN or infinite", SPAN },
	{ "value-nan-f16", value_nan_f16, DECODE, "NaN or infinite", SPAN },
	{ "value-nan-bf16", value_nan_bf16, DECODE, "NaN or infinite", SPAN },
	{ "value-nan-dense", value_nan_dense, DECODE, "NaN or infinite", COUNT_MAX },
	{ "padding-after-values", padding_after_values, DECODE, "padding after the values", SPAN },
	{ 0 },
};

const struct hostile *hostile_message(size_t i)
{
	static const struct hostile *const tables[] = { plain, hostile_indices, hostile_few_bits };

	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct hostile *h = tables[t]; h->name; h++)
			if (i-- == 0)
				return h;
	return NULL;
}
