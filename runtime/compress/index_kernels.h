/* SPDX-License-Identifier: BSD-3-Clause
 * The hot loops of the delta coding, for full blocks of 128 gaps, and of reading raw positions and
 * bitmaps, in two versions with one meaning. Layout in message.h. Private to index_coding.c,
 * index_kernels.c, index_avx2.c and the tests. */
#ifndef COMPRESS_INDEX_KERNELS_H
#define COMPRESS_INDEX_KERNELS_H
#include <stddef.h>
#include <stdint.h>

/* SLACK: bytes beyond what is said that may be read (unpack) or written (pack). */
enum { INDEX_BLOCK = 128, INDEX_SLACK = 16, INDEX_WIDTH_MAX = 32 };

struct index_kernels {
	const char *name; /* as of the kernels of selection */
	int (*usable)(void);
	/* All gaps or'ed, so as many bits as the largest. */
	uint32_t (*largest)(const uint32_t *index, uint32_t next);
	/* gap[0] = index[0] - next, gap[i] = index[i] - index[i - 1] - 1; returns the same. */
	uint32_t (*gaps)(const uint32_t *index, uint32_t next, uint32_t *gap);
	/* Writes 16 * width bytes. */
	void (*pack)(const uint32_t *gap, unsigned width, uint8_t *out);
	/* The opposite of both: reads 16 * width bytes of any content, *next < 2^32 is the smallest
	 * index that could come and becomes that of the block behind, without wrapping. Returns the
	 * gaps or'ed. */
	uint32_t (*unpack)(const uint8_t *in, unsigned width, uint64_t *next, uint32_t *index);
	/* The gaps alone, of at most 24 bits: what pack wrote. Round's codes are packed in the same
	 * way. */
	void (*codes)(const uint8_t *in, unsigned width, uint32_t *gap);
	/* 1 if each of index[0..n) is larger than the one before it. */
	int (*ascends)(const uint32_t *index, size_t n);
	/* Positions of the ones in whole groups of 8 of the n bytes, while there is room for 64
	 * more; appended to index[*found]. Returns how many bytes were read. */
	size_t (*ones)(const uint8_t *in, size_t n, uint32_t room, uint32_t *index,
		       uint32_t *found);
};

extern const struct index_kernels index_portable;
#if defined(__x86_64__)
extern const struct index_kernels index_avx2;
#endif

/* Best first; NULL ends the list. */
extern const struct index_kernels *const index_versions[];
/* The one in use: chosen at the first call, as SLUICE_KERNELS says. */
const struct index_kernels *index_kernels(void);
#endif
