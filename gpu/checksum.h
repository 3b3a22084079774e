/* SPDX-License-Identifier: BSD-3-Clause
 * CRC32C (base/bytes.h) computed in pieces. A message is a polynomial over GF(2), and the checksum
 * is its remainder. So threads can multiply their words by a power of x for the distance from the
 * end, and combine the products by exclusive or. Used by parts.cu and, for the powers, by
 * encoder.c. */
#ifndef GPU_CHECKSUM_H
#define GPU_CHECKSUM_H
#include "base/both.h"
#include <stdint.h>

/* Bit 31 is the coefficient of x^0, and bit 0 that of x^31, as in the checksum itself. */
#define CHECKSUM_POLYNOMIAL 0x82f63b78u
#define CHECKSUM_ONE        0x80000000u
/* The initial checksum. Adding this constant to the first word has the same effect as beginning
 * with it. It is added once more after the last word. */
#define CHECKSUM_BEGIN 0xffffffffu
enum { CHECKSUM_NEAR = 256, CHECKSUM_FAR = 512 };

HOST_AND_DEVICE static inline uint32_t checksum_times_x(uint32_t a)
{
	return a >> 1 ^ ((0 - (a & 1)) & CHECKSUM_POLYNOMIAL);
}

HOST_AND_DEVICE static inline uint32_t checksum_times(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (unsigned i = 0; i < 32; i++, a <<= 1, b = checksum_times_x(b))
		product ^= (0 - (a >> 31)) & b;
	return product;
}

/* The factors that account for the words after a word. If i words follow, the factor is near[i] =
 * x^(32 * (i + 1)). If i * CHECKSUM_NEAR more words follow, it is multiplied by far[i] = x^(32 *
 * CHECKSUM_NEAR * i). */
struct checksum_powers {
	uint32_t near[CHECKSUM_NEAR], far[CHECKSUM_FAR];
};

static inline void checksum_powers(struct checksum_powers *p)
{
	uint32_t word = CHECKSUM_ONE;

	for (int i = 0; i < 32; i++)
		word = checksum_times_x(word);
	p->near[0] = word;
	for (int i = 1; i < CHECKSUM_NEAR; i++)
		p->near[i] = checksum_times(p->near[i - 1], word);
	p->far[0] = CHECKSUM_ONE;
	for (int i = 1; i < CHECKSUM_FAR; i++)
		p->far[i] = checksum_times(p->far[i - 1], p->near[CHECKSUM_NEAR - 1]);
}
#endif
