/* SPDX-License-Identifier: BSD-3-Clause
 * cyclic: what the leader of a step selects for all workers (ScaleCom; Chen and others, NeurIPS
 * 2020). It is the leader's top k, or the largest coordinate of each chunk of equal length, which
 * takes one pass and no threshold. */
#include "choose.h"
#include <math.h>

/* The first coordinate of largest magnitude in [begin, end); end if all are zero. */
static uint64_t first_largest(const float *x, uint64_t begin, uint64_t end)
{
	uint64_t at = end;
	float most = 0;

	for (uint64_t i = begin; i < end; i++)
		if (fabsf(x[i]) > most) {
			most = fabsf(x[i]);
			at = i;
		}
	return at;
}

uint64_t chunk_length(double density)
{
	return density < 1 ? (uint64_t)floor(1 / density + 1e-9) : 1;
}

size_t choose_cyclic(const struct choice *c)
{
	const uint64_t chunk = chunk_length(c->density);
	size_t n = 0;

	if (!c->chunks)
		return choose_topk(c);
	for (size_t s = 0; s < c->n_spans; s++) {
		const struct span *span = &c->spans[s];
		uint64_t step = span->exempt ? 1 : chunk;

		for (uint64_t begin = span->begin; begin < span->end; begin += step) {
			uint64_t end = span->end - begin < step ? span->end : begin + step;
			uint64_t at = first_largest(c->x, begin, end);

			if (at < end)
				c->index[n++] = (uint32_t)at;
		}
	}
	return n;
}
