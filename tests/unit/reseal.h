/* SPDX-License-Identifier: BSD-3-Clause
 * Makes the checksums of a changed checkpoint file right again, so that what is judged is its
 * content: for test_checkpoint_contents.c and the fuzz targets of checkpoints. */
#ifndef TESTS_RESEAL_H
#define TESTS_RESEAL_H
#include "base/bytes.h"
#include "checkpoint/checkpoint_file.h"
#include <stddef.h>

/* The CRC field at *at gets the CRC of all content before it; nothing happens beyond the end. */
static inline void reseal_field(uint8_t *bytes, size_t n, size_t *at, uint32_t crc)
{
	if (n - *at >= 4)
		put_le32(bytes + *at, crc);
	*at += n - *at < 4 ? n - *at : 4;
}

/* Bytes that count as content; returns the CRC of all content. */
static inline uint32_t reseal_content(const uint8_t *bytes, size_t n, size_t *at, uint64_t length,
				      uint32_t crc)
{
	if (length > n - *at)
		length = n - *at;
	crc = crc32c(crc, bytes + *at, (size_t)length);
	*at += (size_t)length;
	return crc;
}

/* Puts right all CRC fields where the lengths in the file say they are; returns the last one. */
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

/* Where the payload of the first section of a kind lies in a file that is whole; 0: there is
 * none. */
static inline size_t section_payload(const uint8_t *bytes, size_t n, enum section_kind kind)
{
	for (size_t at = CHECKPOINT_HEADER_BYTES; n - at > CHECKPOINT_SECTION_BYTES;
	     at += CHECKPOINT_SECTION_BYTES + (size_t)get_le64(bytes + at + 8))
		if (get_le32(bytes + at) == (uint32_t)kind)
			return at + CHECKPOINT_SECTION_BYTES - 4;
	return 0;
}
#endif
