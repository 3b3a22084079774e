/* SPDX-License-Identifier: BSD-3-Clause
 * block: in each step one contiguous block of each shard, the same on all workers. Blocks take
 * turns, so that every coordinate is sent once in 1/density steps (sparse parameter averaging;
 * Jiang, Agrawal, NeurIPS 2018). */
#include "choose.h"
#include <math.h>

size_t choose_block(const struct choice *c)
{
	const uint64_t blocks = (uint64_t)ceil(1 / c->density - 1e-9),
		       block = (c->stream.step - 1) % blocks;
	size_t n = 0;

	for (size_t s = 0; s < c->n_spans; s++) {
		uint64_t begin = c->spans[s].begin, span = c->spans[s].end - begin;

		for (uint64_t i = span * block / blocks; i < span * (block + 1) / blocks; i++)
			c->index[n++] = (uint32_t)(begin + i);
	}
	return n;
}
