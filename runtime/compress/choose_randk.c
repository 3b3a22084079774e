/* SPDX-License-Identifier: BSD-3-Clause
 * randk: k random coordinates, the same on all workers. The support follows from step and shard, so
 * no index is sent (CODING_SEEDED). message.c calls seeded_support() again to read a message. */
#include "choose.h"

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
