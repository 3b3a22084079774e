/* SPDX-License-Identifier: BSD-3-Clause
 * Packs codes of a few bits, least significant bit first, without gaps. few_bits.c uses it for
 * codes of up to 8 bits, which are stored one per byte and packed in groups of eight, and for wider
 * codes through a writer and a reader. All functions are inline, because each is only a few
 * operations. */
#ifndef COMPRESS_BIT_PACK_H
#define COMPRESS_BIT_PACK_H
#include "base/bytes.h"
#include <stddef.h>

HOST_AND_DEVICE static inline uint64_t bits_bytes(uint64_t n, unsigned bits)
{
	return (n * bits + 7) / 8;
}

static inline unsigned bit_length(uint32_t v)
{
	return v ? 32 - (unsigned)__builtin_clz(v) : 0;
}

/* Turns eight bytes below 2^bits into 8 * bits bits: merges neighbours into pairs, pairs into
 * fours, and fours into eight. */
HOST_AND_DEVICE static inline uint64_t bits_merge(uint64_t x, unsigned bits)
{
	x = (x & 0x00ff00ff00ff00ffu) | (x & 0xff00ff00ff00ff00u) >> (8 - bits);
	x = (x & 0x0000ffff0000ffffu) | (x & 0xffff0000ffff0000u) >> (16 - 2 * bits);
	return (x & 0x00000000ffffffffu) | (x & 0xffffffff00000000u) >> (32 - 4 * bits);
}

static inline uint64_t bits_spread(uint64_t x, unsigned bits)
{
	const uint64_t four = ((uint64_t)1 << 4 * bits) - 1, two = ((uint64_t)1 << 2 * bits) - 1;
	const uint64_t one = ((uint64_t)1 << bits) - 1;

	x = (x & four) | (x & four << 4 * bits) << (32 - 4 * bits);
	x = (x & two * 0x0000000100000001u) | (x & (two << 2 * bits) * 0x0000000100000001u)
						      << (16 - 2 * bits);
	return (x & one * 0x0001000100010001u) | (x & (one << bits) * 0x0001000100010001u)
							 << (8 - bits);
}

/* Packs n codes into bits_bytes(n, bits) bytes. bits is 1 to 8. */
static inline void bits_pack(const uint8_t *codes, size_t n, unsigned bits, uint8_t *out)
{
	uint8_t last[8] = { 0 }, eight[8];
	size_t i = 0;

	for (; (n - i) * bits >= 64; i += 8, out += bits) /* as long as there is room to write
							     eight bytes */
		put_le64(out, bits_merge(get_le64(codes + i), bits));
	for (; i < n; i += 8, out += bits) {
		size_t here = n - i < 8 ? n - i : 8;

		memcpy(last, codes + i, here);
		memset(last + here, 0, 8 - here);
		put_le64(eight, bits_merge(get_le64(last), bits));
		memcpy(out, eight, bits_bytes(here, bits));
	}
}

/* Unpacks n codes from bits_bytes(n, bits) bytes. Returns 0 if bits after the last code are not
 * zero. */
static inline int bits_unpack(const uint8_t *in, size_t n, unsigned bits, uint8_t *codes)
{
	size_t i = 0;

	for (; (n - i) * bits >= 64; i += 8, in += bits)
		put_le64(codes + i,
			 bits_spread(get_le64(in) & (UINT64_MAX >> (64 - 8 * bits)), bits));
	for (; i < n; i += 8, in += bits) {
		size_t here = n - i < 8 ? n - i : 8;
		uint8_t eight[8] = { 0 };
		uint64_t x;

		memcpy(eight, in, bits_bytes(here, bits));
		x = get_le64(eight);
		if (here < 8 && x >> here * bits)
			return 0;
		put_le64(eight, bits_spread(x, bits));
		memcpy(codes + i, eight, here);
	}
	return 1;
}

struct bit_writer {
	uint8_t *out;
	uint64_t held;
	unsigned fill;
};

/* bits is at most 32. */
static inline void bit_write(struct bit_writer *w, uint32_t code, unsigned bits)
{
	w->held |= (uint64_t)code << w->fill;
	w->fill += bits;
	if (w->fill < 32)
		return;
	put_le32(w->out, (uint32_t)w->held);
	w->out += 4;
	w->held >>= 32;
	w->fill -= 32;
}

static inline void bit_flush(struct bit_writer *w)
{
	for (unsigned bit = 0; bit < w->fill; bit += 8)
		*w->out++ = (uint8_t)(w->held >> bit);
}

struct bit_reader {
	const uint8_t *in, *end;
	uint64_t held; /* the bits after the last code that was read */
	unsigned fill;
};

static inline uint32_t bit_read(struct bit_reader *r, unsigned bits)
{
	uint32_t code;

	if (r->fill < bits && r->end - r->in >= 4) {
		r->held |= (uint64_t)get_le32(r->in) << r->fill;
		r->in += 4;
		r->fill += 32;
	}
	for (; r->fill < bits && r->in < r->end; r->fill += 8)
		r->held |= (uint64_t)*r->in++ << r->fill;
	code = (uint32_t)(r->held & (((uint64_t)1 << bits) - 1));
	r->held >>= bits;
	r->fill -= bits < r->fill ? bits : r->fill;
	return code;
}
#endif
