/* SPDX-License-Identifier: BSD-3-Clause
 * The portable version, which tests compare with the other one, and the choice between them. */
#include "index_kernels.h"
#include "base/bytes.h"

static uint32_t largest_gap(const uint32_t *index, uint32_t next)
{
	uint32_t all = index[0] - next;

	for (int i = 1; i < INDEX_BLOCK; i++)
		all |= index[i] - index[i - 1] - 1;
	return all;
}

static uint32_t gaps(const uint32_t *index, uint32_t next, uint32_t *gap)
{
	uint32_t all = gap[0] = index[0] - next;

	for (int i = 1; i < INDEX_BLOCK; i++)
		all |= gap[i] = index[i] - index[i - 1] - 1;
	return all;
}

static void pack_gaps(const uint32_t *gap, unsigned width, uint8_t *out)
{
	uint64_t held = 0;
	unsigned fill = 0; /* the number of bits held, which is below 8 between gaps */

	for (int i = 0; i < INDEX_BLOCK; i++) {
		held |= (uint64_t)gap[i] << fill;
		put_le64(out, held);
		fill += width;
		out += fill / 8;
		held >>= fill & ~7u;
		fill &= 7;
	}
}

static uint32_t unpack_gaps(const uint8_t *in, unsigned width, uint64_t *next, uint32_t *index)
{
	const uint64_t mask = ((uint64_t)1 << width) - 1;
	uint64_t at = *next, all = 0;

	for (unsigned i = 0, bit = 0; i < INDEX_BLOCK; i++, bit += width) {
		uint64_t gap = get_le64(in + bit / 8) >> bit % 8 & mask;

		all |= gap;
		at += gap;
		index[i] = (uint32_t)at++;
	}
	*next = at;
	return (uint32_t)all;
}

static void gap_codes(const uint8_t *in, unsigned width, uint32_t *gap)
{
	const uint64_t mask = ((uint64_t)1 << width) - 1;

	for (unsigned i = 0, bit = 0; i < INDEX_BLOCK; i++, bit += width)
		gap[i] = (uint32_t)(get_le64(in + bit / 8) >> bit % 8 & mask);
}

static int ascends(const uint32_t *index, size_t n)
{
	int disordered = 0;

	for (size_t i = 1; i < n; i++)
		disordered |= index[i] <= index[i - 1];
	return !disordered;
}

static size_t ones(const uint8_t *in, size_t n, uint32_t room, uint32_t *index, uint32_t *found)
{
	size_t at = 0;

	for (; at + 8 <= n && room - *found >= 64; at += 8)
		for (uint64_t word = get_le64(in + at); word; word &= word - 1)
			index[(*found)++] = (uint32_t)(8 * at) + (uint32_t)__builtin_ctzll(word);
	return at;
}

const struct index_kernels index_portable = { "portable", kernels_anywhere, largest_gap,
					      gaps,       pack_gaps,        unpack_gaps,
					      gap_codes,  ascends,          ones };

/* ---- the choice ------------------------------------------------------------ */

const struct index_kernels *const index_versions[] = {
#if defined(__x86_64__)
	&index_avx2,
#endif
	&index_portable, NULL
};

const struct index_kernels *index_kernels(void)
{
	static const void *_Atomic chosen;

	return kernels_chosen(index_versions, &chosen);
}
