/* SPDX-License-Identifier: BSD-3-Clause
 * The hot loops of the delta coding, for full blocks of 128 gaps, and of reading raw positions and
 * bitmaps, in two versions with the same results. message.h has the layout. Private to
 * few_bits_round.c, index_coding.c, index_kernels.c, index_wide.h and the tests. */
#ifndef COMPRESS_INDEX_KERNELS_H
#define COMPRESS_INDEX_KERNELS_H
#include "kernels.h"
#include <stddef.h>
#include <stdint.h>

/* INDEX_SLACK: the most bytes beyond the end that unpack may read and pack may write. */
enum { INDEX_BLOCK = 128, INDEX_SLACK = 16, INDEX_WIDTH_MAX = 32 };

struct index_kernels {
	const char *name;
	int (*usable)(void);
	/* Returns the bitwise or of all gaps, which has as many bits as the largest gap. */
	uint32_t (*largest)(const uint32_t *index, uint32_t next);
	/* Sets gap[0] = index[0] - next and gap[i] = index[i] - index[i - 1] - 1. Returns the
	 * bitwise or of all gaps. */
	uint32_t (*gaps)(const uint32_t *index, uint32_t next, uint32_t *gap);
	/* Packs the gaps into 16 * width bytes. */
	void (*pack)(const uint32_t *gap, unsigned width, uint8_t *out);
	/* Reverses pack and gaps. Reads 16 * width bytes, which may have any content. *next < 2^32
	 * is the smallest possible index. It becomes the smallest possible index of the following
	 * block, without wrapping. Returns the bitwise or of the gaps. */
	uint32_t (*unpack)(const uint8_t *in, unsigned width, uint64_t *next, uint32_t *index);
	/* Reads only the gaps that pack wrote, which have at most 24 bits. The codes of the value
	 * type round are packed in the same way. */
	void (*codes)(const uint8_t *in, unsigned width, uint32_t *gap);
	/* Returns 1 if each of index[0..n) is larger than its predecessor. */
	int (*ascends)(const uint32_t *index, size_t n);
	/* Appends the positions of the ones in the n bytes to index[*found]. Works on whole groups
	 * of 8 bytes, as long as there is room for 64 more positions. Returns how many bytes it has
	 * read. */
	size_t (*ones)(const uint8_t *in, size_t n, uint32_t room, uint32_t *index,
		       uint32_t *found);
};

extern const struct index_kernels index_portable;
#if defined(__x86_64__)
extern const struct index_kernels index_avx2;
#endif

/* The best version comes first; NULL ends the list. */
extern const struct index_kernels *const index_versions[];
/* Returns the version in use, which is chosen at the first call according to SLUICE_KERNELS. */
const struct index_kernels *index_kernels(void);
#endif
