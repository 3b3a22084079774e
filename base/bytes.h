/* SPDX-License-Identifier: BSD-3-Clause
 * Little-endian fields in byte buffers, CRC32C (Castagnoli), and the 64-bit digest. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H
#include "base/both.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

HOST_AND_DEVICE static inline void put_le16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}
HOST_AND_DEVICE static inline void put_le32(uint8_t *p, uint32_t v)
{
	put_le16(p, (uint16_t)v);
	put_le16(p + 2, (uint16_t)(v >> 16));
}
HOST_AND_DEVICE static inline void put_le64(uint8_t *p, uint64_t v)
{
	put_le32(p, (uint32_t)v);
	put_le32(p + 4, (uint32_t)(v >> 32));
}
HOST_AND_DEVICE static inline uint16_t get_le16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}
HOST_AND_DEVICE static inline uint32_t get_le32(const uint8_t *p)
{
	return get_le16(p) | (uint32_t)get_le16(p + 2) << 16;
}
HOST_AND_DEVICE static inline uint64_t get_le64(const uint8_t *p)
{
	return get_le32(p) | (uint64_t)get_le32(p + 4) << 32;
}
HOST_AND_DEVICE static inline uint32_t float_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, 4);
	return u;
}
HOST_AND_DEVICE static inline float bits_float(uint32_t u)
{
	float f;
	memcpy(&f, &u, 4);
	return f;
}
static inline uint64_t double_bits(double x)
{
	uint64_t u;
	memcpy(&u, &x, 8);
	return u;
}
static inline double bits_double(uint64_t u)
{
	double x;
	memcpy(&x, &u, 8);
	return x;
}

/* Extends the CRC of preceding data, 0 for none, by n bytes. Uses CPU instructions where they exist
 * (checked at run time) and tables elsewhere, with the same result. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);
/* The table version. crc32c() falls back to it, and tests compare crc32c() with it. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t n);
/* The CRC of a part of some data, and the part's length. crc32c_of_parts() combines the CRCs of n
 * consecutive parts. Only the first may continue an earlier CRC. */
struct crc_part {
	uint32_t crc;
	uint64_t bytes;
};
uint32_t crc32c_of_parts(const struct crc_part *part, unsigned n);
/* Returns a 64-bit hash that is the same on every machine and at every alignment. Two buffers of
 * equal length that differ only within one aligned group of 8 bytes never have the same digest. It
 * is not suitable for secrets. */
uint64_t digest64(const void *bytes, size_t n);
#endif
