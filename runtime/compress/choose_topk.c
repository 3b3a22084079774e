/* SPDX-License-Identifier: BSD-3-Clause
 * topk and global, by select.c; and how many coordinates a density is. */
#include "choose.h"
#include <math.h>

size_t choose_topk(const struct choice *c)
{
	const struct select_call call = { .x = c->x,
					  .spans = c->spans,
					  .n_spans = c->n_spans,
					  .k = c->k,
					  .index = c->index,
					  .hint = c->hint };

	return select_run(c->selector, &call, NULL);
}

uint64_t density_count(double density, uint64_t n)
{
	double k = ceil(density * (double)n - 1e-9);

	return k < 1 ? n > 0 : k > (double)n ? n : (uint64_t)k;
}
