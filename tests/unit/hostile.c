/* SPDX-License-Identifier: BSD-3-Clause
 * Hostile messages made by hand, byte by byte and without the encoder. Checksums are right unless
 * they are the point. Used by test_hostile.c. */
#include "hostile.h"
#include "base/bytes.h"

static void add8(struct slot *s, uint8_t v) { slot_payload(s)[s->payload_bytes++] = v; }
static void add16(struct slot *s, uint16_t v)
{
	put_le16(slot_payload(s) + s->payload_bytes, v);
	s->payload_bytes += 2;
}
static void add32(struct slot *s, uint32_t v)
{
	put_le32(slot_payload(s) + s->payload_bytes, v);
	s->payload_bytes += 4;
}

static void add_floats(struct slot *s, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		add32(s, float_bits((float)i + 0.5f));
}

static void header_seal(struct slot *s)
{
	put_le32(s->bytes + 92, crc32c(0, s->bytes, 92));
}

void slot_seal(struct slot *s)
{
	put_le32(s->bytes + 76, s->payload_bytes);
	put_le32(s->bytes + 80, crc32c(0, slot_payload(s), s->payload_bytes));
	header_seal(s);
}

/* A good header of a push; the payload is the caller's. */
static void start(struct slot *s, enum index_coding coding, enum value_type type, uint32_t span,
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

/* ---- good ones, to spoil ---- */

static void raw_with(struct slot *s, enum value_type type, const uint32_t *index, uint32_t n)
{
	start(s, CODING_RAW, type, SPAN, n);
	for (uint32_t i = 0; i < n; i++)
		add32(s, index[i]);
	if (type == VALUE_F32)
		add_floats(s, n);
	for (uint32_t i = 0; type != VALUE_F32 && i < n; i++)
		add16(s, (uint16_t)(0x3c00 + i));
	while (s->payload_bytes % 4)
		add8(s, 0);
	slot_seal(s);
}

/* So many of the span that the encoder would send it densely. */
static void good_raw_nearly_all(struct slot *s)
{
	raw_with(s, VALUE_F16, (const uint32_t[]){0, 1, 3}, 3);
	put_le32(s->bytes + 48, 4);
	header_seal(s);
}

static void good_raw(struct slot *s)
{
	raw_with(s, VALUE_F32, (const uint32_t[]){0, 7, 199}, 3);
}

static void good_raw_f16(struct slot *s)
{
	raw_with(s, VALUE_F16, (const uint32_t[]){0, 7, 199}, 3);
}

static void good_raw_bf16(struct slot *s)
{
	raw_with(s, VALUE_BF16, (const uint32_t[]){0, 7, 199}, 3);
}

/* Three gaps of 4 bits, 9, 15 and 2: indices 9, 25, 28. */
static void good_delta(struct slot *s)
{
	start(s, CODING_DELTA, VALUE_F32, SPAN, 3);
	add32(s, 4);
	add8(s, 0xf9);
	add8(s, 0x02);
	add16(s, 0);
	add_floats(s, 3);
	slot_seal(s);
}

static void good_bitmap(struct slot *s)
{
	start(s, CODING_BITMAP, VALUE_F32, SPAN, 4);
	for (int i = 0; i < 7; i++)
		add32(s, i == 2 ? 0x80000001 : i == 6 ? 0x81 : 0);
	add_floats(s, 4);
	slot_seal(s);
}

/* Three gaps of 5 low bits, 9, 15 and 5 * 32 + 13: indices 9, 25, 199. lows, unary: little-endian. */
static void rice_with(struct slot *s, uint16_t lows, uint16_t unary)
{
	start(s, CODING_RICE, VALUE_F32, SPAN, 3);
	add16(s, lows);
	add16(s, unary);
	add_floats(s, 3);
	slot_seal(s);
}

static void good_rice(struct slot *s) { rice_with(s, 9 | 15 << 5 | 13 << 10, 0x83); }
static void rice_cut(struct slot *s) { rice_with(s, 9 | 15 << 5 | 13 << 10, 0x03); }
static void rice_beyond_span(struct slot *s) { rice_with(s, 9 | 15 << 5 | 14 << 10, 0x83); }
static void rice_long_run(struct slot *s) { rice_with(s, 9 | 15 << 5 | 13 << 10, 0x8003); }
static void rice_spare_bits(struct slot *s) { rice_with(s, 0x8000 | 9 | 15 << 5 | 13 << 10, 0x83); }
static void rice_bits_behind(struct slot *s) { rice_with(s, 9 | 15 << 5 | 13 << 10, 0x0f); }
static void rice_padding(struct slot *s) { rice_with(s, 9 | 15 << 5 | 13 << 10, 0x0183); }
static void rice_trailing(struct slot *s) { good_rice(s); add32(s, 0); slot_seal(s); }

static void rice_no_codes(struct slot *s)
{
	start(s, CODING_RICE, VALUE_F32, SPAN, 3);
	add_floats(s, 3);
	slot_seal(s);
}

static void good_dense(struct slot *s)
{
	start(s, CODING_DENSE, VALUE_F32, COUNT_MAX, COUNT_MAX);
	add_floats(s, COUNT_MAX);
	slot_seal(s);
}

static void good_empty(struct slot *s)
{
	start(s, CODING_RAW, VALUE_F32, SPAN, 0);
	slot_seal(s);
}

/* Three values in few bits: positions as in good_raw, then what the caller adds. */
static void few_bits_with(struct slot *s, enum value_type type, uint8_t bits, uint16_t block, float scale)
{
	start(s, CODING_RAW, type, SPAN, 3);
	s->bytes[89] = bits;
	put_le16(s->bytes + 90, block);
	put_le32(s->bytes + 60, float_bits(scale));
	add32(s, 0);
	add32(s, 7);
	add32(s, 199);
}

/* A step of 0.5 and four-bit codes, 0 to 14. */
static void uniform_with(struct slot *s, float step, uint16_t codes)
{
	few_bits_with(s, VALUE_UNIFORM, 4, 8, 1);
	add32(s, float_bits(step));
	add16(s, codes);
	add16(s, 0);
	slot_seal(s);
}

static void grid_with(struct slot *s, uint8_t bits, float range, uint32_t codes)
{
	few_bits_with(s, VALUE_GRID, bits, 0, range);
	add32(s, codes);
	slot_seal(s);
}

static void round_with(struct slot *s, uint8_t bits, float width, uint32_t codes)
{
	few_bits_with(s, VALUE_ROUND, bits, 0, width);
	add32(s, codes);
	slot_seal(s);
}

static void good_uniform(struct slot *s) { uniform_with(s, 0.5f, 0xe70); }
static void good_uniform_zero(struct slot *s) { uniform_with(s, 0, 0x777); }
static void good_grid(struct slot *s) { grid_with(s, 3, 2, 7 << 6 | 5 << 3); }
static void good_round(struct slot *s) { round_with(s, 9, 0.25f, 300u << 18 | 5 << 9 | 2); }
static void uniform_code_15(struct slot *s) { uniform_with(s, 0.5f, 0xf70); }
static void uniform_spare_bits(struct slot *s) { uniform_with(s, 0.5f, 0x1e70); }
static void uniform_step_nan(struct slot *s) { uniform_with(s, bits_float(0x7fc00000), 0xe70); }
static void uniform_step_negative(struct slot *s) { uniform_with(s, -0.5f, 0xe70); }
static void uniform_step_minus_zero(struct slot *s) { uniform_with(s, -0.0f, 0x777); }
static void uniform_step_overflows(struct slot *s) { uniform_with(s, 3e38f, 0xe70); }
static void uniform_zero_with_code(struct slot *s) { uniform_with(s, 0, 0x778); }
static void grid_range_negative(struct slot *s) { grid_with(s, 3, -2, 0); }
static void grid_range_infinite(struct slot *s) { grid_with(s, 3, bits_float(0x7f800000), 0); }
static void grid_9_bits(struct slot *s) { grid_with(s, 9, 1, 0); }
static void grid_spare_bits(struct slot *s) { grid_with(s, 3, 2, 1 << 9); }
static void grid_zero_with_code(struct slot *s) { grid_with(s, 3, 0, 1); }
static void round_23_bits(struct slot *s) { round_with(s, 23, 1, 0); }
static void round_too_wide(struct slot *s) { round_with(s, 9, 1, 255 << 9); }
static void round_overflows(struct slot *s) { round_with(s, 3, 3e38f, 4); }
static void round_width_zero(struct slot *s) { round_with(s, 3, 0, 4); }

static void uniform_block_12(struct slot *s)
{
	good_uniform(s);
	s->bytes[90] = 12;
	header_seal(s);
}

static void uniform_without_bits(struct slot *s)
{
	good_uniform(s);
	s->bytes[89] = 0;
	header_seal(s);
}

static void uniform_padding(struct slot *s)
{
	good_uniform(s);
	slot_payload(s)[s->payload_bytes - 1] = 1;
	slot_seal(s);
}

static void uniform_too_short(struct slot *s)
{
	good_uniform(s);
	s->payload_bytes -= 4;
	slot_seal(s);
}

static void bits_of_f32(struct slot *s)
{
	good_raw(s);
	s->bytes[89] = 8;
	header_seal(s);
}

/* ---- header ---- */

static void raw_field16(struct slot *s, size_t offset, uint16_t v)
{
	good_raw(s);
	put_le16(s->bytes + offset, v);
	header_seal(s);
}

static void raw_field32(struct slot *s, size_t offset, uint32_t v)
{
	good_raw(s);
	put_le32(s->bytes + offset, v);
	header_seal(s);
}

static void wrong_magic(struct slot *s) { good_raw(s); s->bytes[3] = '2'; header_seal(s); }
static void nothing_written(struct slot *s) { memset(s, 0, sizeof(*s)); }
static void wrong_version(struct slot *s) { raw_field16(s, 4, SLUICE_WIRE_VERSION + 1); }
static void bad_header_crc(struct slot *s) { good_raw(s); s->bytes[92] ^= 1; }
static void header_bit_flipped(struct slot *s) { good_raw(s); s->bytes[33] ^= 0x10; }
static void bad_payload_crc(struct slot *s) { good_raw(s); s->bytes[80] ^= 1; header_seal(s); }
static void payload_bit_flipped(struct slot *s) { good_raw(s); slot_payload(s)[5] ^= 4; }
static void unknown_kind(struct slot *s) { good_raw(s); s->bytes[6] = 7; header_seal(s); }
static void kind_zero(struct slot *s) { good_raw(s); s->bytes[6] = 0; header_seal(s); }
static void unknown_coding(struct slot *s) { good_raw(s); s->bytes[7] = 6; header_seal(s); }
static void agreed_unasked(struct slot *s) { good_raw(s); s->bytes[7] = 9; header_seal(s); }
static void unknown_value_type(struct slot *s)
{
	good_raw(s);
	s->bytes[8] = 6;
	header_seal(s);
}
static void part_of_none(struct slot *s) { raw_field16(s, 70, 0); }
static void part_beyond_parts(struct slot *s) { raw_field16(s, 68, 1); }

static void with_scale(struct slot *s, float scale)
{
	good_raw_f16(s);
	put_le32(s->bytes + 60, float_bits(scale));
	header_seal(s);
}

static void scale_nan(struct slot *s) { with_scale(s, bits_float(0x7fc00000)); }
static void scale_zero(struct slot *s) { with_scale(s, 0); }
static void scale_negative(struct slot *s) { with_scale(s, -2); }
static void scale_infinite(struct slot *s) { with_scale(s, bits_float(0x7f800000)); }
static void scale_denormal(struct slot *s) { with_scale(s, 0x1p-140f); }
static void scale_no_power_of_two(struct slot *s) { with_scale(s, 3); }
static void scale_of_f32(struct slot *s) { raw_field32(s, 60, float_bits(2)); }
static void scale_that_overflows(struct slot *s)
{
	good_raw_f16(s);
	put_le32(s->bytes + 60, float_bits(0x1p-126f));
	put_le16(slot_payload(s) + 12, 0x4400); /* 4, so 4 * 2^126 */
	slot_seal(s);
}
static void lr_nan(struct slot *s) { raw_field32(s, 64, 0x7fc00000); }
static void lr_negative(struct slot *s) { raw_field32(s, 64, float_bits(-1)); }

/* ---- lengths ---- */

static void payload_beyond_slot(struct slot *s)
{
	good_raw(s);
	put_le32(s->bytes + 76, SLOT_BYTES - MESSAGE_HEADER_BYTES + 4);
	header_seal(s);
}

static void payload_of_4_gigabytes(struct slot *s)
{
	good_raw(s);
	put_le32(s->bytes + 76, UINT32_MAX);
	header_seal(s);
}

static void payload_too_short(struct slot *s)
{
	good_raw(s);
	s->payload_bytes -= 4;
	slot_seal(s);
}
static void payload_empty(struct slot *s) { good_raw(s); s->payload_bytes = 0; slot_seal(s); }
static void payload_trailing(struct slot *s) { good_raw(s); add32(s, 0); slot_seal(s); }
static void payload_odd_length(struct slot *s) { good_raw(s); add8(s, 0); slot_seal(s); }
static void dense_trailing(struct slot *s) { good_dense(s); add32(s, 0); slot_seal(s); }
static void dense_too_short(struct slot *s)
{
	good_dense(s);
	s->payload_bytes -= 4;
	slot_seal(s);
}
static void delta_trailing(struct slot *s) { good_delta(s); add32(s, 0); slot_seal(s); }
static void bitmap_trailing(struct slot *s) { good_bitmap(s); add32(s, 0); slot_seal(s); }
static void delta_without_widths(struct slot *s)
{
	start(s, CODING_DELTA, VALUE_F32, SPAN, 3);
	add_floats(s, 3);
	slot_seal(s);
}

static void with_count(struct slot *s, uint32_t span, uint32_t count)
{
	put_le32(s->bytes + 48, span);
	put_le32(s->bytes + 52, count);
	header_seal(s);
}

static void count_over_span(struct slot *s) { good_raw(s); with_count(s, SPAN, SPAN + 1); }
static void count_over_slot(struct slot *s)
{
	good_raw(s);
	with_count(s, SPAN, COUNT_MAX + 1);
}
static void count_huge(struct slot *s) { good_raw(s); with_count(s, UINT32_MAX, UINT32_MAX); }
static void count_one_more(struct slot *s) { good_raw(s); with_count(s, SPAN, 4); }
static void count_one_less(struct slot *s) { good_raw(s); with_count(s, SPAN, 2); }
static void dense_count_differs(struct slot *s)
{
	good_dense(s);
	with_count(s, SPAN, COUNT_MAX);
}
static void dense_span_over_slot(struct slot *s) { good_dense(s); with_count(s, SPAN, SPAN); }
static void delta_count_one_more(struct slot *s) { good_delta(s); with_count(s, SPAN, 4); }

/* ---- addressed to somebody else ---- */

static void field(struct slot *s, size_t offset)
{
	good_raw(s);
	s->bytes[offset]++;
	header_seal(s);
}
static void wrong_kind(struct slot *s) { field(s, 6); }
static void wrong_phase(struct slot *s) { field(s, 10); }
static void wrong_rank(struct slot *s) { field(s, 12); }
static void wrong_epoch(struct slot *s) { field(s, 16); }
static void wrong_shard(struct slot *s) { field(s, 20); }
static void wrong_seq(struct slot *s) { field(s, 24); }
static void wrong_step(struct slot *s) { field(s, 32); }
static void wrong_step_high_half(struct slot *s) { field(s, 39); }
static void wrong_span(struct slot *s) { field(s, 48); }
static void wrong_model(struct slot *s) { field(s, 84); }

/* ---- indices ---- */

static void raw_out_of_range(struct slot *s)
{
	raw_with(s, VALUE_F32, (const uint32_t[]){0, 7, SPAN}, 3);
}
static void raw_huge(struct slot *s)
{
	raw_with(s, VALUE_F32, (const uint32_t[]){0, 7, UINT32_MAX}, 3);
}
static void raw_unsorted(struct slot *s)
{
	raw_with(s, VALUE_F32, (const uint32_t[]){7, 0, 199}, 3);
}
static void raw_huge_first(struct slot *s)
{
	raw_with(s, VALUE_F32, (const uint32_t[]){UINT32_MAX, 0, 5}, 3);
}
static void raw_duplicate(struct slot *s)
{
	raw_with(s, VALUE_F32, (const uint32_t[]){0, 7, 7}, 3);
}

static void delta_with(struct slot *s, uint32_t count, uint8_t width, const uint8_t *packed,
		       uint32_t n)
{
	start(s, CODING_DELTA, VALUE_F32, SPAN, count);
	add32(s, width);
	for (uint32_t i = 0; i < n; i++)
		add8(s, packed[i]);
	while (s->payload_bytes % 4)
		add8(s, 0);
	add_floats(s, count);
	slot_seal(s);
}

static void delta_out_of_range(struct slot *s)
{
	delta_with(s, 3, 8, (const uint8_t[]){0xff, 0, 0}, 3);
}
static void delta_index_is_span(struct slot *s) { delta_with(s, 1, 8, (const uint8_t[]){SPAN}, 1); }
static void delta_wraps(struct slot *s)
{
	delta_with(s, 3, 32,
		   (const uint8_t[]){ 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0 },
		   12);
}
static void delta_width_33(struct slot *s)
{
	delta_with(s, 1, 33, (const uint8_t[]){1, 0, 0, 0, 1}, 5);
}
static void delta_width_255(struct slot *s)
{
	delta_with(s, 1, 255, (const uint8_t[32]){1}, 32);
}
static void delta_wider_than_needed(struct slot *s)
{
	delta_with(s, 3, 8, (const uint8_t[]){9, 15, 2}, 3);
}
static void delta_zeros_with_width(struct slot *s)
{
	delta_with(s, 3, 1, (const uint8_t[]){0}, 1);
}
static void delta_spare_bits(struct slot *s)
{
	good_delta(s);
	slot_payload(s)[5] |= 0x10;
	slot_seal(s);
}
static void delta_padding_after_widths(struct slot *s)
{
	good_delta(s);
	slot_payload(s)[1] = 1;
	slot_seal(s);
}
static void delta_padding_after_gaps(struct slot *s)
{
	good_delta(s);
	slot_payload(s)[7] = 1;
	slot_seal(s);
}

static void bitmap_beyond_span(struct slot *s)
{
	good_bitmap(s);
	slot_payload(s)[25] |= 1;  /* bit 200 */
	slot_payload(s)[24] &= 0x7f; /* so that the number of bits is right */
	slot_seal(s);
}
static void bitmap_padding_byte(struct slot *s)
{
	good_bitmap(s);
	slot_payload(s)[27] = 0x80;
	slot_seal(s);
}
static void bitmap_more_bits(struct slot *s)
{
	good_bitmap(s);
	slot_payload(s)[0] = 1;
	slot_seal(s);
}
static void bitmap_all_bits(struct slot *s)
{
	good_bitmap(s);
	memset(slot_payload(s), 0xff, 25);
	slot_seal(s);
}
static void bitmap_fewer_bits(struct slot *s)
{
	good_bitmap(s);
	slot_payload(s)[8] = 0;
	slot_seal(s);
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
	good_raw_f16(s);
	slot_payload(s)[18] = 1;
	slot_seal(s);
}

/* ---- the table ---- */

const struct hostile hostile_messages[] = {
	{ "good-raw", good_raw, ACCEPTED, "", SPAN },
	{ "good-raw-f16", good_raw_f16, ACCEPTED, "", SPAN },
	{ "good-raw-bf16", good_raw_bf16, ACCEPTED, "", SPAN },
	{ "good-raw-nearly-all", good_raw_nearly_all, ACCEPTED, "", 4 },
	{ "good-delta", good_delta, ACCEPTED, "", SPAN },
	{ "good-bitmap", good_bitmap, ACCEPTED, "", SPAN },
	{ "good-rice", good_rice, ACCEPTED, "", SPAN },
	{ "good-empty", good_empty, ACCEPTED, "", SPAN },
	{ "good-dense", good_dense, ACCEPTED, "", COUNT_MAX },
	{ "good-uniform", good_uniform, ACCEPTED, "", SPAN },
	{ "good-uniform-zero", good_uniform_zero, ACCEPTED, "", SPAN },
	{ "good-grid", good_grid, ACCEPTED, "", SPAN },
	{ "good-round", good_round, ACCEPTED, "", SPAN },

	{ "uniform-code-15", uniform_code_15, DECODE, "code is out of range", SPAN },
	{ "uniform-spare-bits", uniform_spare_bits, DECODE, "behind the last code", SPAN },
	{ "uniform-step-nan", uniform_step_nan, DECODE, "step of a block", SPAN },
	{ "uniform-step-negative", uniform_step_negative, DECODE, "step of a block", SPAN },
	{ "uniform-step-minus-zero", uniform_step_minus_zero, DECODE, "step of a block", SPAN },
	{ "uniform-step-overflows", uniform_step_overflows, DECODE, "step of a block", SPAN },
	{ "uniform-zero-with-code", uniform_zero_with_code, DECODE, "code is out of range", SPAN },
	{ "uniform-block-12", uniform_block_12, COPY, "blocks of a multiple of 8", SPAN },
	{ "uniform-without-bits", uniform_without_bits, COPY, "1 to 8 bits", SPAN },
	{ "uniform-padding", uniform_padding, DECODE, "padding after the values", SPAN },
	{ "uniform-too-short", uniform_too_short, DECODE, "does not fit the number of raw", SPAN },
	{ "grid-range-negative", grid_range_negative, COPY, "range of a grid", SPAN },
	{ "grid-range-infinite", grid_range_infinite, COPY, "range of a grid", SPAN },
	{ "grid-9-bits", grid_9_bits, COPY, "1 to 8 bits", SPAN },
	{ "grid-spare-bits", grid_spare_bits, DECODE, "behind the last code", SPAN },
	{ "grid-zero-with-code", grid_zero_with_code, DECODE, "code is out of range", SPAN },
	{ "round-23-bits", round_23_bits, COPY, "at most 22 bits", SPAN },
	{ "round-too-wide", round_too_wide, DECODE, "wider than the largest", SPAN },
	{ "round-overflows", round_overflows, DECODE, "code is out of range", SPAN },
	{ "round-width-zero", round_width_zero, COPY, "width of rounding", SPAN },
	{ "bits-of-f32", bits_of_f32, COPY, "for values that have none", SPAN },

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
	{ "agreed-unasked", agreed_unasked, CHECK, "none are agreed", SPAN },
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

	{ "payload-beyond-slot", payload_beyond_slot, COPY, "exceeds the slot", SPAN },
	{ "payload-of-4-gigabytes", payload_of_4_gigabytes, COPY, "exceeds the slot", SPAN },
	{ "payload-too-short", payload_too_short, DECODE, "does not fit the number of raw", SPAN },
	{ "payload-empty", payload_empty, DECODE, "cannot hold 3 values", SPAN },
	{ "payload-trailing", payload_trailing, DECODE, "does not fit the number of raw", SPAN },
	{ "payload-odd-length", payload_odd_length, DECODE, "does not fit the number of raw",
	  SPAN },
	{ "dense-trailing", dense_trailing, DECODE, "one value per element", COUNT_MAX },
	{ "dense-too-short", dense_too_short, DECODE, "cannot hold 20 values", COUNT_MAX },
	{ "delta-trailing", delta_trailing, DECODE, "does not fit its delta widths", SPAN },
	{ "bitmap-trailing", bitmap_trailing, DECODE, "does not fit the bitmap", SPAN },
	{ "delta-without-widths", delta_without_widths, DECODE, "too short for its delta widths",
	  SPAN },
	{ "count-over-span", count_over_span, COPY, "201 coordinates for a shard of 200", SPAN },
	{ "count-over-slot", count_over_slot, CHECK, "21 coordinates where at most 20", SPAN },
	{ "count-huge", count_huge, CHECK, "span 4294967295 where 200", SPAN },
	{ "count-one-more", count_one_more, DECODE, "does not fit the number of raw", SPAN },
	{ "count-one-less", count_one_less, DECODE, "does not fit the number of raw", SPAN },
	{ "dense-count-differs", dense_count_differs, COPY, "dense message with 20 values", SPAN },
	{ "dense-span-over-slot", dense_span_over_slot, CHECK, "200 coordinates where at most 20",
	  SPAN },
	{ "delta-count-one-more", delta_count_one_more, DECODE, "does not fit its delta widths",
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
	{ "delta-out-of-range", delta_out_of_range, DECODE, "delta index lies beyond", SPAN },
	{ "delta-index-is-span", delta_index_is_span, DECODE, "delta index lies beyond", SPAN },
	{ "delta-wraps", delta_wraps, DECODE, "delta index lies beyond", SPAN },
	{ "delta-width-33", delta_width_33, DECODE, "exceeds 32 bits", SPAN },
	{ "delta-width-255", delta_width_255, DECODE, "exceeds 32 bits", SPAN },
	{ "delta-wider-than-needed", delta_wider_than_needed, DECODE, "not packed canonically",
	  SPAN },
	{ "delta-zeros-with-width", delta_zeros_with_width, DECODE, "not packed canonically",
	  SPAN },
	{ "delta-spare-bits", delta_spare_bits, DECODE, "not packed canonically", SPAN },
	{ "delta-padding-after-widths", delta_padding_after_widths, DECODE,
	  "after the delta widths", SPAN },
	{ "delta-padding-after-gaps", delta_padding_after_gaps, DECODE, "after the delta gaps",
	  SPAN },
	{ "rice-cut", rice_cut, DECODE, "within a Rice code", SPAN },
	{ "rice-beyond-span", rice_beyond_span, DECODE, "beyond the shard", SPAN },
	{ "rice-long-run", rice_long_run, DECODE, "beyond the shard", SPAN },
	{ "rice-spare-bits", rice_spare_bits, DECODE, "spare bits", SPAN },
	{ "rice-bits-behind", rice_bits_behind, DECODE, "bits follow", SPAN },
	{ "rice-padding", rice_padding, DECODE, "padding after the Rice codes", SPAN },
	{ "rice-trailing", rice_trailing, DECODE, "does not fit its Rice codes", SPAN },
	{ "rice-no-codes", rice_no_codes, DECODE, "too short for its Rice codes", SPAN },
	{ "bitmap-beyond-span", bitmap_beyond_span, DECODE, "bits beyond the shard", SPAN },
	{ "bitmap-padding-byte", bitmap_padding_byte, DECODE, "bits beyond the shard", SPAN },
	{ "bitmap-more-bits", bitmap_more_bits, DECODE, "more bits than", SPAN },
	{ "bitmap-all-bits", bitmap_all_bits, DECODE, "more bits than", SPAN },
	{ "bitmap-fewer-bits", bitmap_fewer_bits, DECODE, "fewer bits than", SPAN },
	{ "value-nan", value_nan, DECODE, "NaN or infinite", SPAN },
	{ "value-infinite", value_infinite, DECODE, "NaN or infinite", SPAN },
	{ "value-nan-f16", value_nan_f16, DECODE, "NaN or infinite", SPAN },
	{ "value-nan-bf16", value_nan_bf16, DECODE, "NaN or infinite", SPAN },
	{ "value-nan-dense", value_nan_dense, DECODE, "NaN or infinite", COUNT_MAX },
	{ "padding-after-values", padding_after_values, DECODE, "padding after the values", SPAN },
};
const size_t hostile_count = sizeof(hostile_messages) / sizeof(hostile_messages[0]);
