/* SPDX-License-Identifier: BSD-3-Clause
 * Hostile messages whose indices are coded: gaps, bitmaps and Rice codes that no encoder writes. */
#include "hostile.h"
#include "base/bytes.h"

/* Has three gaps of 4 bits, 9, 15 and 2: indices 9, 25, 28. */
static void good_delta(struct slot *s)
{
	slot_start(s, CODING_DELTA, VALUE_F32, SPAN, 3);
	slot_add32(s, 4);
	slot_add8(s, 0xf9);
	slot_add8(s, 0x02);
	slot_add16(s, 0);
	slot_add_floats(s, 3);
	slot_seal(s);
}

static void good_bitmap(struct slot *s)
{
	slot_start(s, CODING_BITMAP, VALUE_F32, SPAN, 4);
	for (int i = 0; i < 7; i++)
		slot_add32(s, i == 2 ? 0x80000001 : i == 6 ? 0x81 : 0);
	slot_add_floats(s, 4);
	slot_seal(s);
}

/* Has three gaps with 5 low bits, 9, 15 and 5 * 32 + 13: indices 9, 25, 199. lows and unary are
 * little-endian. */
static void rice_with(struct slot *s, uint16_t lows, uint16_t unary)
{
	slot_start(s, CODING_RICE, VALUE_F32, SPAN, 3);
	slot_add16(s, lows);
	slot_add16(s, unary);
	slot_add_floats(s, 3);
	slot_seal(s);
}

static void good_rice(struct slot *s)
{
	rice_with(s, 9 | 15 << 5 | 13 << 10, 0x83);
}
static void rice_cut(struct slot *s)
{
	rice_with(s, 9 | 15 << 5 | 13 << 10, 0x03);
}
static void rice_beyond_span(struct slot *s)
{
	rice_with(s, 9 | 15 << 5 | 14 << 10, 0x83);
}
static void rice_long_run(struct slot *s)
{
	rice_with(s, 9 | 15 << 5 | 13 << 10, 0x8003);
}
static void rice_spare_bits(struct slot *s)
{
	rice_with(s, 0x8000 | 9 | 15 << 5 | 13 << 10, 0x83);
}
static void rice_bits_behind(struct slot *s)
{
	rice_with(s, 9 | 15 << 5 | 13 << 10, 0x0f);
}
static void rice_padding(struct slot *s)
{
	rice_with(s, 9 | 15 << 5 | 13 << 10, 0x0183);
}
static void rice_trailing(struct slot *s)
{
	good_rice(s);
	slot_add32(s, 0);
	slot_seal(s);
}

static void rice_no_codes(struct slot *s)
{
	slot_start(s, CODING_RICE, VALUE_F32, SPAN, 3);
	slot_add_floats(s, 3);
	slot_seal(s);
}

static void delta_trailing(struct slot *s)
{
	good_delta(s);
	slot_add32(s, 0);
	slot_seal(s);
}
static void bitmap_trailing(struct slot *s)
{
	good_bitmap(s);
	slot_add32(s, 0);
	slot_seal(s);
}

static void delta_without_widths(struct slot *s)
{
	slot_start(s, CODING_DELTA, VALUE_F32, SPAN, 3);
	slot_add_floats(s, 3);
	slot_seal(s);
}

static void delta_count_one_more(struct slot *s)
{
	good_delta(s);
	slot_count(s, SPAN, 4);
}

static void delta_with(struct slot *s, uint32_t count, uint8_t width, const uint8_t *packed,
		       uint32_t n)
{
	slot_start(s, CODING_DELTA, VALUE_F32, SPAN, count);
	slot_add32(s, width);
	for (uint32_t i = 0; i < n; i++)
		slot_add8(s, packed[i]);
	while (s->payload_bytes % 4)
		slot_add8(s, 0);
	slot_add_floats(s, count);
	slot_seal(s);
}

static void delta_out_of_range(struct slot *s)
{
	delta_with(s, 3, 8, (const uint8_t[]){ 0xff, 0, 0 }, 3);
}

static void delta_index_is_span(struct slot *s)
{
	delta_with(s, 1, 8, (const uint8_t[]){ SPAN }, 1);
}

static void delta_wraps(struct slot *s)
{
	delta_with(s, 3, 32,
		   (const uint8_t[]){ 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0 },
		   12);
}

static void delta_width_33(struct slot *s)
{
	delta_with(s, 1, 33, (const uint8_t[]){ 1, 0, 0, 0, 1 }, 5);
}

static void delta_width_255(struct slot *s)
{
	delta_with(s, 1, 255, (const uint8_t[32]){ 1 }, 32);
}

static void delta_wider_than_needed(struct slot *s)
{
	delta_with(s, 3, 8, (const uint8_t[]){ 9, 15, 2 }, 3);
}

static void delta_zeros_with_width(struct slot *s)
{
	delta_with(s, 3, 1, (const uint8_t[]){ 0 }, 1);
}

static void delta_spare_bits(struct slot *s)
{
	slot_spoil(s, good_delta, 5, 0x12);
}
static void delta_padding_after_widths(struct slot *s)
{
	slot_spoil(s, good_delta, 1, 1);
}
static void delta_padding_after_gaps(struct slot *s)
{
	slot_spoil(s, good_delta, 7, 1);
}

static void bitmap_beyond_span(struct slot *s)
{
	good_bitmap(s);
	slot_payload(s)[25] |= 1;    /* bit 200 */
	slot_payload(s)[24] &= 0x7f; /* keeps the number of bits right */
	slot_seal(s);
}

static void bitmap_padding_byte(struct slot *s)
{
	slot_spoil(s, good_bitmap, 27, 0x80);
}
static void bitmap_more_bits(struct slot *s)
{
	slot_spoil(s, good_bitmap, 0, 1);
}

static void bitmap_all_bits(struct slot *s)
{
	good_bitmap(s);
	memset(slot_payload(s), 0xff, 25);
	slot_seal(s);
}

static void bitmap_fewer_bits(struct slot *s)
{
	slot_spoil(s, good_bitmap, 8, 0);
}

const struct hostile hostile_indices[] = {
	{ "good-delta", good_delta, ACCEPTED, "", SPAN },
	{ "good-bitmap", good_bitmap, ACCEPTED, "", SPAN },
	{ "good-rice", good_rice, ACCEPTED, "", SPAN },
	{ "delta-trailing", delta_trailing, DECODE, "does not fit its delta widths", SPAN },
	{ "bitmap-trailing", bitmap_trailing, DECODE, "does not fit the bitmap", SPAN },
	{ "delta-without-widths", delta_without_widths, DECODE, "too short for its delta widths",
	  SPAN },
	{ "delta-count-one-more", delta_count_one_more, DECODE, "does not fit its delta widths",
	  SPAN },
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
	{ 0 },
};
