/* SPDX-License-Identifier: BSD-3-Clause
 * Recomputes the checksums of a changed checkpoint file, so that its content is checked: for
 * test_checkpoint_contents.c and the fuzz targets of checkpoints. */
#ifndef TESTS_RESEAL_H
#define TESTS_RESEAL_H
#include "base/bytes.h"
#include "checkpoint/checkpoint_file.h"
#include <stddef.h>

/* Sets the CRC field at *at to the CRC of all content before it. Does nothing beyond the end. */
static inline void reseal_field(uint8_t *bytes, size_t n, size_t *at, uint32_t crc)
{
	if (n - *at >= 4)
		put_le32(bytes + *at, crc);
	*at += n - *at < 4 ? n - *at : 4;
}

/* Counts bytes as content. Returns the CRC of all content. */
static inline uint32_t reseal_content(const uint8_t *bytes, size_t n, size_t *at, uint64_t length,
				      uint32_t crc)
{
	if (length > n - *at)
		length = n - *at;
	crc = crc32c(crc, bytes + *at, (size_t)length);
	*at += (size_t)length;
	return crc;
}

/* Corrects all CRC fields at the offsets that follow from the lengths in the file. Returns the last
 * one. */
static inline uint32_t reseal(uint8_t *bytes, size_t n)
{
	size_t at = 0;
	uint32_t crc = reseal_content(bytes, n, &at, CHECKPOINT_HEADER_BYTES - 4, 0);

	reseal_field(bytes, n, &at, crc);
	while (at < n) {
		uint64_t payload = n - at >= 16 ? get_le64(bytes + at + 8) : 0;

		crc = reseal_content(bytes, n, &at, 16, crc);
		reseal_field(bytes, n, &at, crc);
		crc = reseal_content(bytes, n, &at, payload, crc);
		reseal_field(bytes, n, &at, crc);
	}
	return crc;
}

/* Returns the offset of the payload of the first section of a kind in a complete file, or 0. */
static inline size_t section_payload(const uint8_t *bytes, size_t n, enum section_kind kind)
{
	for (size_t at = CHECKPOINT_HEADER_BYTES; n - at > CHECKPOINT_SECTION_BYTES;
	     at += CHECKPOINT_SECTION_BYTES + (size_t)get_le64(bytes + at + 8))
		if (get_le32(bytes + at) == (uint32_t)kind)
			return at + CHECKPOINT_SECTION_BYTES - 4;
	return 0;
}
#endif
