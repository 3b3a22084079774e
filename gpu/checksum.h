/* SPDX-License-Identifier: BSD-3-Clause
 * CRC32C (base/bytes.h) computed in pieces. A message is a polynomial over the field of two
 * elements, and the checksum is its remainder. The words that different threads hold can therefore
 * be combined by exclusive or, after each is multiplied by a power of x for its distance from the
 * end. Used by parts.cu and, for the powers, by compressor.c. */
#ifndef GPU_CHECKSUM_H
#define GPU_CHECKSUM_H
#include "base/both.h"
#include <stdint.h>

/* Bit 31 is the coefficient of 1, bit 0 that of x^31, as in the checksum itself. */
#define CHECKSUM_POLYNOMIAL 0x82f63b78u
#define CHECKSUM_ONE        0x80000000u
/* The checksum starts with this before the first word, and this is added after the last. */
#define CHECKSUM_BEGIN 0xffffffffu
enum { CHECKSUM_POWERS = 32 };

HOST_AND_DEVICE static inline uint32_t checksum_times_x(uint32_t a)
{
	return a >> 1 ^ (a & 1 ? CHECKSUM_POLYNOMIAL : 0);
}

HOST_AND_DEVICE static inline uint32_t checksum_times(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1, b = checksum_times_x(b))
		product ^= a & CHECKSUM_ONE ? b : 0;
	return product;
}

/* power[i] = x^(32 * 2^i). A word is multiplied by it if 2^i words follow, including itself. */
HOST_AND_DEVICE static inline void checksum_powers(uint32_t power[CHECKSUM_POWERS])
{
	uint32_t p = CHECKSUM_ONE;

	for (int i = 0; i < 32; i++)
		p = checksum_times_x(p);
	for (int i = 0; i < CHECKSUM_POWERS; i++, p = checksum_times(p, p))
		power[i] = p;
}

/* x^(32 * words) */
HOST_AND_DEVICE static inline uint32_t checksum_shift(const uint32_t power[CHECKSUM_POWERS],
						      uint32_t words)
{
	uint32_t shift = CHECKSUM_ONE;

	for (int i = 0; words; i++, words >>= 1)
		shift = words & 1 ? checksum_times(shift, power[i]) : shift;
	return shift;
}
#endif
