/* SPDX-License-Identifier: BSD-3-Clause
 * Selectors whose support follows from step and shard, so that it is the same on all workers: randk
 * sends no positions (CODING_SEEDED), and block sends only the first one (CODING_RUN). */
#include "choose.h"
#include <math.h>

/* Selects k random coordinates. message.c calls seeded_support() again to read a message. */
size_t choose_randk(const struct choice *c)
{
	size_t n = 0;

	for (size_t s = 0; s < c->n_spans; s++) {
		uint32_t span = (uint32_t)(c->spans[s].end - c->spans[s].begin);
		uint32_t count = (uint32_t)density_count(c->density, span);
		uint32_t *index = c->index + n;
		float factor = c->scale ? (float)span / (float)count : 1.0f;

		seeded_support(c->stream.purpose == RANDOM_SUPPORT_DOWN, c->stream.seed,
			       c->stream.step, c->first_shard + (uint32_t)s, span, count, index);
		for (uint32_t i = 0; i < count; i++) {
			index[i] += (uint32_t)c->spans[s].begin;
			if (c->scale)
				c->x[index[i]] *= factor;
		}
		n += count;
	}
	return n;
}

/* Selects one contiguous block of each shard in each step. The blocks follow each other, so that
 * every coordinate is sent once in 1/density steps (sparse parameter averaging; Jiang, Agrawal,
 * NeurIPS 2018). */
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
