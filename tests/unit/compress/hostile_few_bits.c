/* SPDX-License-Identifier: BSD-3-Clause
 * Hostile messages whose values are in few bits: steps, ranges and codes that no encoder writes. */
#include "hostile.h"
#include "base/bytes.h"

/* Starts a message of three values in few bits, with the positions of good_raw. The caller adds the
 * rest. */
static void few_bits_with(struct slot *s, enum value_type type, uint8_t bits, uint16_t block,
			  float scale)
{
	slot_start(s, CODING_RAW, type, SPAN, 3);
	s->bytes[89] = bits;
	put_le16(s->bytes + 90, block);
	put_le32(s->bytes + 60, float_bits(scale));
	slot_add32(s, 0);
	slot_add32(s, 7);
	slot_add32(s, 199);
}

/* Has a step of 0.5 and 4-bit codes from 0 to 14. */
static void uniform_with(struct slot *s, float step, uint16_t codes)
{
	few_bits_with(s, VALUE_UNIFORM, 4, 8, 1);
	slot_add32(s, float_bits(step));
	slot_add16(s, codes);
	slot_add16(s, 0);
	slot_seal(s);
}

static void grid_with(struct slot *s, uint8_t bits, float range, uint32_t codes)
{
	few_bits_with(s, VALUE_GRID, bits, 0, range);
	slot_add32(s, codes);
	slot_seal(s);
}

static void round_with(struct slot *s, uint8_t bits, float width, uint32_t codes)
{
	few_bits_with(s, VALUE_ROUND, bits, 0, width);
	slot_add32(s, codes);
	slot_seal(s);
}

static void twomeans_with(struct slot *s, uint16_t low, uint16_t high, uint8_t codes)
{
	few_bits_with(s, VALUE_TWOMEANS, 2, 512, 1);
	slot_add16(s, low);
	slot_add16(s, high);
	slot_add32(s, codes);
	slot_seal(s);
}

static void e3m0_with(struct slot *s, float scale, uint16_t codes)
{
	few_bits_with(s, VALUE_E3M0, 4, 512, 1);
	slot_add32(s, float_bits(scale));
	slot_add32(s, codes);
	slot_seal(s);
}

static void good_uniform(struct slot *s)
{
	uniform_with(s, 0.5f, 0xe70);
}
static void good_uniform_zero(struct slot *s)
{
	uniform_with(s, 0, 0x777);
}
static void good_grid(struct slot *s)
{
	grid_with(s, 3, 2, 7 << 6 | 5 << 3);
}
static void good_round(struct slot *s)
{
	round_with(s, 9, 0.25f, 300u << 18 | 5 << 9 | 2);
}
static void uniform_code_15(struct slot *s)
{
	uniform_with(s, 0.5f, 0xf70);
}
static void uniform_spare_bits(struct slot *s)
{
	uniform_with(s, 0.5f, 0x1e70);
}
static void uniform_step_nan(struct slot *s)
{
	uniform_with(s, bits_float(0x7fc00000), 0xe70);
}
static void uniform_step_negative(struct slot *s)
{
	uniform_with(s, -0.5f, 0xe70);
}
static void uniform_step_minus_zero(struct slot *s)
{
	uniform_with(s, -0.0f, 0x777);
}
static void uniform_step_overflows(struct slot *s)
{
	uniform_with(s, 3e38f, 0xe70);
}
static void uniform_zero_with_code(struct slot *s)
{
	uniform_with(s, 0, 0x778);
}
static void grid_range_negative(struct slot *s)
{
	grid_with(s, 3, -2, 0);
}
static void grid_range_infinite(struct slot *s)
{
	grid_with(s, 3, bits_float(0x7f800000), 0);
}
static void grid_9_bits(struct slot *s)
{
	grid_with(s, 9, 1, 0);
}
static void grid_spare_bits(struct slot *s)
{
	grid_with(s, 3, 2, 1 << 9);
}
static void grid_zero_with_code(struct slot *s)
{
	grid_with(s, 3, 0, 1);
}
static void round_23_bits(struct slot *s)
{
	round_with(s, 23, 1, 0);
}
static void round_too_wide(struct slot *s)
{
	round_with(s, 9, 1, 255 << 9);
}
static void round_overflows(struct slot *s)
{
	round_with(s, 3, 3e38f, 4);
}
static void round_width_zero(struct slot *s)
{
	round_with(s, 3, 0, 4);
}

/* Magnitudes of 1 and 2 in bf16. */
static void good_twomeans(struct slot *s)
{
	twomeans_with(s, 0x3f80, 0x4000, 0x39);
}
static void good_twomeans_equal(struct slot *s)
{
	twomeans_with(s, 0x3f80, 0x3f80, 0x39);
}
static void good_twomeans_zero(struct slot *s)
{
	twomeans_with(s, 0, 0, 0);
}
static void twomeans_infinite(struct slot *s)
{
	twomeans_with(s, 0x3f80, 0x7f80, 0x39);
}
static void twomeans_nan(struct slot *s)
{
	twomeans_with(s, 0x3f80, 0x7fc0, 0x39);
}
static void twomeans_negative(struct slot *s)
{
	twomeans_with(s, 0x3f80, 0xc000, 0x39);
}
static void twomeans_low_negative(struct slot *s)
{
	twomeans_with(s, 0x8000, 0x4000, 0x39);
}
static void twomeans_out_of_order(struct slot *s)
{
	twomeans_with(s, 0x4000, 0x3f80, 0x39);
}
static void twomeans_spare_bits(struct slot *s)
{
	twomeans_with(s, 0x3f80, 0x4000, 0x79);
}
static void twomeans_zero_with_code(struct slot *s)
{
	twomeans_with(s, 0, 0, 2);
}
static void twomeans_block_256(struct slot *s)
{
	good_twomeans(s);
	put_le16(s->bytes + 90, 256);
	slot_seal_header(s);
}
static void twomeans_3_bits(struct slot *s)
{
	good_twomeans(s);
	s->bytes[89] = 3;
	slot_seal_header(s);
}
static void twomeans_scale_2(struct slot *s)
{
	good_twomeans(s);
	put_le32(s->bytes + 60, float_bits(2));
	slot_seal_header(s);
}
static void twomeans_too_short(struct slot *s)
{
	good_twomeans(s);
	s->payload_bytes -= 4;
	slot_seal(s);
}
static void good_e3m0(struct slot *s)
{
	e3m0_with(s, 0x1p-20f, 0xf17);
}
static void good_e3m0_zero(struct slot *s)
{
	e3m0_with(s, 0, 0);
}
static void e3m0_no_power(struct slot *s)
{
	e3m0_with(s, 0x1.8p-20f, 0xf17);
}
static void e3m0_negative(struct slot *s)
{
	e3m0_with(s, -0x1p-20f, 0xf17);
}
static void e3m0_infinite(struct slot *s)
{
	e3m0_with(s, bits_float(0x7f800000), 0xf17);
}
static void e3m0_too_small(struct slot *s)
{
	e3m0_with(s, 0x1p-120f, 0xf17);
}
static void e3m0_zero_with_code(struct slot *s)
{
	e3m0_with(s, 0, 8);
}
static void gradient_type(struct slot *s)
{
	good_e3m0(s);
	s->bytes[8] = VALUE_F8_E5M2;
	slot_seal_header(s);
}

static void uniform_block_12(struct slot *s)
{
	good_uniform(s);
	s->bytes[90] = 12;
	slot_seal_header(s);
}

static void uniform_without_bits(struct slot *s)
{
	good_uniform(s);
	s->bytes[89] = 0;
	slot_seal_header(s);
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

const struct hostile hostile_few_bits[] = {
	{ "good-uniform", good_uniform, ACCEPTED, "", SPAN },
	{ "good-uniform-zero", good_uniform_zero, ACCEPTED, "", SPAN },
	{ "good-grid", good_grid, ACCEPTED, "", SPAN },
	{ "good-round", good_round, ACCEPTED, "", SPAN },
	{ "uniform-code-15", uniform_code_15, DECODE, "code is out of range", SPAN },
	{ "uniform-spare-bits", uniform_spare_bits, DECODE, "after the last code", SPAN },
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
	{ "grid-spare-bits", grid_spare_bits, DECODE, "after the last code", SPAN },
	{ "grid-zero-with-code", grid_zero_with_code, DECODE, "code is out of range", SPAN },
	{ "round-23-bits", round_23_bits, COPY, "at most 22 bits", SPAN },
	{ "round-too-wide", round_too_wide, DECODE, "wider than the largest", SPAN },
	{ "round-overflows", round_overflows, DECODE, "code is out of range", SPAN },
	{ "round-width-zero", round_width_zero, COPY, "width of rounding", SPAN },
	{ "good-twomeans", good_twomeans, ACCEPTED, "", SPAN },
	{ "good-twomeans-equal", good_twomeans_equal, ACCEPTED, "", SPAN },
	{ "good-twomeans-zero", good_twomeans_zero, ACCEPTED, "", SPAN },
	{ "twomeans-infinite", twomeans_infinite, DECODE, "no encoder writes", SPAN },
	{ "twomeans-nan", twomeans_nan, DECODE, "no encoder writes", SPAN },
	{ "twomeans-negative", twomeans_negative, DECODE, "no encoder writes", SPAN },
	{ "twomeans-low-negative", twomeans_low_negative, DECODE, "no encoder writes", SPAN },
	{ "twomeans-out-of-order", twomeans_out_of_order, DECODE, "no encoder writes", SPAN },
	{ "twomeans-spare-bits", twomeans_spare_bits, DECODE, "after the last code", SPAN },
	{ "twomeans-zero-with-code", twomeans_zero_with_code, DECODE, "code is out of range",
	  SPAN },
	{ "twomeans-block-256", twomeans_block_256, COPY, "blocks of 512", SPAN },
	{ "twomeans-3-bits", twomeans_3_bits, COPY, "2 and 4 bits", SPAN },
	{ "twomeans-scale-2", twomeans_scale_2, COPY, "the scale 1", SPAN },
	{ "twomeans-too-short", twomeans_too_short, DECODE, "does not fit the number of raw",
	  SPAN },
	{ "good-e3m0", good_e3m0, ACCEPTED, "", SPAN },
	{ "good-e3m0-zero", good_e3m0_zero, ACCEPTED, "", SPAN },
	{ "e3m0-no-power", e3m0_no_power, DECODE, "no encoder writes", SPAN },
	{ "e3m0-negative", e3m0_negative, DECODE, "no encoder writes", SPAN },
	{ "e3m0-infinite", e3m0_infinite, DECODE, "no encoder writes", SPAN },
	{ "e3m0-too-small", e3m0_too_small, DECODE, "no encoder writes", SPAN },
	{ "e3m0-zero-with-code", e3m0_zero_with_code, DECODE, "code is out of range", SPAN },
	{ "gradient-type", gradient_type, COPY, "unknown value type 7", SPAN },
	{ 0 },
};
