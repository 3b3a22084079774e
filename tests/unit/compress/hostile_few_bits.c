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
	{ 0 },
};
