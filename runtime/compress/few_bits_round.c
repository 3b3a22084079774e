/* SPDX-License-Identifier: BSD-3-Clause
 * See few_bits_round.h. Values are processed in pieces of the same size as positions, so the loops
 * for wide codes of positions (index_kernels.h) are reused here. */
#include "few_bits_round.h"
#include "base/bytes.h"
#include "bit_pack.h"
#include "index_kernels.h"
#include "select.h"
#include "value_kernels.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* 2^21 - 1 is the largest integer to which a half can be added exactly. */
#define ROUND_LARGEST 2097151

/* Returns the largest integer that round may send. For larger integers, adding a half is not exact,
 * or the decoded value is not finite. */
static float round_limit(float width)
{
	float limit = width < FLT_MAX / ROUND_LARGEST ? ROUND_LARGEST : floorf(FLT_MAX / width);

	return isinf(limit * width) ? limit - 1 : limit;
}

static uint32_t zigzag(int32_t q)
{
	return (uint32_t)q << 1 ^ (uint32_t)(q >> 31);
}

unsigned round_bits(float width, const float *v, size_t n)
{
	const struct value_kernels *k = value_kernels();
	const float limit = round_limit(width);
	float piece[INDEX_BLOCK] = { 0 };
	int32_t q[INDEX_BLOCK];
	uint32_t all = 0;

	for (size_t at = 0, here; at < n; at += here) {
		here = n - at < INDEX_BLOCK ? n - at : INDEX_BLOCK;
		memset(piece, 0, here < INDEX_BLOCK ? sizeof(piece) : 0);
		memcpy(piece, v + at, here * sizeof(*v));
		k->nearest(piece, width, limit, INDEX_BLOCK, q, piece);
		for (size_t i = 0; i < INDEX_BLOCK; i++)
			all |= zigzag(q[i]);
	}
	return bit_length(all);
}

size_t round_encode(unsigned bits, float width, const float *v, size_t n, uint8_t *out,
		    float *decoded)
{
	const struct value_kernels *k = value_kernels();
	const float limit = round_limit(width);
	const uint8_t *end = out + bits_bytes(n, bits);
	float piece[INDEX_BLOCK] = { 0 };
	int32_t q[INDEX_BLOCK];
	uint32_t codes[INDEX_BLOCK];

	for (size_t at = 0, here; at < n; at += here) {
		struct bit_writer w = { .out = out };

		here = n - at < INDEX_BLOCK ? n - at : INDEX_BLOCK;
		if (first_nonfinite(v + at, here) < here)
			return at + first_nonfinite(v + at, here);
		memcpy(piece, v + at, here * sizeof(*v));
		k->nearest(piece, width, limit, INDEX_BLOCK, q, piece);
		memcpy(decoded + at, piece, here * sizeof(*v));
		if (!bits)
			continue;
		for (size_t i = 0; i < INDEX_BLOCK; i++)
			codes[i] = zigzag(q[i]);
		if (here == INDEX_BLOCK &&
		    (size_t)(end - out) >= bits_bytes(here, bits) + INDEX_SLACK) {
			index_kernels()->pack(codes, bits, out);
		} else {
			for (size_t i = 0; i < here; i++)
				bit_write(&w, codes[i], bits);
			bit_flush(&w);
		}
		out += bits_bytes(here, bits);
	}
	return n;
}

/* Reads the codes of one piece. Returns 0 if bits after the last code are not zero. */
static int round_codes(const uint8_t *in, const uint8_t *end, size_t n, unsigned bits,
		       uint32_t codes[INDEX_BLOCK])
{
	struct bit_reader r = { .in = in, .end = in + bits_bytes(n, bits) };

	if (n == INDEX_BLOCK && (size_t)(end - in) >= bits_bytes(n, bits) + INDEX_SLACK) {
		index_kernels()->codes(in, bits, codes);
		return 1;
	}
	memset(codes, 0, INDEX_BLOCK * sizeof(*codes));
	for (size_t i = 0; bits && i < n; i++)
		codes[i] = bit_read(&r, bits);
	return !r.held;
}

const char *round_decode(unsigned bits, float width, const uint8_t *in, size_t n, float *v)
{
	const float limit = round_limit(width);
	const uint8_t *end = in + bits_bytes(n, bits);
	uint32_t all = 0, codes[INDEX_BLOCK];

	for (size_t at = 0, here; at < n; at += here, in += bits_bytes(here, bits)) {
		float piece[INDEX_BLOCK];
		unsigned beyond = 0;

		here = n - at < INDEX_BLOCK ? n - at : INDEX_BLOCK;
		if (!round_codes(in, end, here, bits, codes))
			return "bits after the last code are not zero";
		for (int i = 0; i < INDEX_BLOCK; i++) {
			const float q = (float)((int32_t)(codes[i] >> 1) ^
						-(int32_t)(codes[i] & 1));

			all |= codes[i];
			beyond |= (unsigned)(q > limit) | (unsigned)(q < -limit);
			piece[i] = q * width;
		}
		memcpy(v + at, piece, here * sizeof(*v));
		if (beyond)
			return "a code is out of range";
	}
	return bit_length(all) == bits ? NULL : "codes are wider than the largest one needs";
}
