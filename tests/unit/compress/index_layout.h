/* SPDX-License-Identifier: BSD-3-Clause
 * A slow implementation of the index codings by their definition: the bytes that each takes, and a
 * second decoder that reads bit by bit. */
#ifndef TESTS_INDEX_LAYOUT_H
#define TESTS_INDEX_LAYOUT_H
#include "compress/index_coding.h"
#include <stdint.h>

enum { CODINGS = 6 };
extern const enum index_coding codings[CODINGS];

uint64_t up_to_4(uint64_t bytes);
/* Returns the bytes of the coded indices, or UINT32_MAX if the coding cannot represent them. */
uint64_t slow_bytes(enum index_coding coding, const uint32_t *index, uint32_t count, uint32_t span);
/* Checks that in[] is index[0..count) in this coding. */
void expect_layout(enum index_coding coding, const uint8_t *in, const uint32_t *index,
		   uint32_t count, uint32_t span);
#endif
