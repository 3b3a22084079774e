/* SPDX-License-Identifier: BSD-3-Clause
 * The table of selectors (choose.h), and those of them that select the largest magnitudes: topk and
 * global, tensor-topk, block-topk and cyclic. */
#include "choose.h"
#include <math.h>

/* ---- topk, global ------------------------------------------------------------ */

static size_t choose_topk(const struct choice *c)
{
	const struct select_call call = { .x = c->x,
					  .spans = c->spans,
					  .n_spans = c->n_spans,
					  .k = c->k,
					  .index = c->index,
					  .hint = c->hint };

	return select_run(c->selector, &call, NULL);
}

/* ---- tensor-topk ------------------------------------------------------------- */

/* k follows from each tensor's length, so that no tensor is omitted because another one has larger
 * gradients. layout.c makes a span for each tensor if the recipe has this selector. */
size_t choose_tensor_topk(const struct choice *c)
{
	size_t n = 0;

	for (size_t s = 0; s < c->n_spans; s++) {
		const struct span *tensor = &c->spans[s];
		uint64_t length = tensor->end - tensor->begin;
		size_t k = tensor->exempt ? 0 : density_count(c->density, length);

		n += select_topk(c->selector, c->x, tensor, 1, k, c->index + n);
	}
	return n;
}

/* ---- block-topk -------------------------------------------------------------- */

/* Each block of the vector sends its largest coordinates, so all messages have about the same
 * length (DeMo; Peng and others, 2024, and SparseLoCo; Sarfi and others, 2025). */
static size_t choose_block_topk(const struct choice *c)
{
	const uint32_t k = (uint32_t)density_count(c->density, c->block);

	return select_each_block(c->selector, c->x, c->spans, c->n_spans, k, c->block, c->ends,
				 c->index);
}

/* ---- cyclic ------------------------------------------------------------------ */

/* The leader of a step selects for all workers (ScaleCom; Chen and others, NeurIPS 2020). It
 * selects its top k, or the largest coordinate of each chunk of equal length, for which one pass
 * and no threshold is enough. */

/* Returns the first coordinate of largest magnitude in [begin, end), or end if all are zero. */
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
	if (density < 1.0 / UINT32_MAX) /* a vector has fewer coordinates than this */
		return UINT32_MAX;
	return density < 1 ? (uint64_t)floor(1 / density + 1e-9) : 1;
}

static size_t choose_cyclic(const struct choice *c)
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

/* ---- the table --------------------------------------------------------------- */

const struct selection_kind selection_kinds[SELECTIONS] = {
	[SELECT_ALL] = { .argument = ARGUMENT_NONE, .by_coordinate = 1 },
	[SELECT_TOPK] = { .argument = ARGUMENT_DENSITY,
			  .counted = 1,
			  .adds = 1,
			  .run = choose_topk },
	[SELECT_THRESHOLD] = { .argument = ARGUMENT_LEVEL,
			       .varies = 1,
			       .by_coordinate = 1,
			       .run = choose_threshold },
	[SELECT_GAUSSIANK] = { .argument = ARGUMENT_DENSITY,
			       .counted = 1,
			       .varies = 1,
			       .run = choose_gaussiank },
	[SELECT_RANDOM] = { .argument = ARGUMENT_DENSITY,
			    .counted = 1,
			    .unbiased = 1,
			    .varies = 1,
			    .run = choose_random },
	[SELECT_VARIANCE] = { .argument = ARGUMENT_LEVEL,
			      .unbiased = 1,
			      .varies = 1,
			      .run = choose_variance },
	[SELECT_CYCLIC] = { .argument = ARGUMENT_CYCLIC,
			    .counted = 1,
			    .exchange = EXCHANGE_LEADER,
			    .run = choose_cyclic },
	[SELECT_SKETCH] = { .argument = ARGUMENT_SKETCH,
			    .counted = 1,
			    .exchange = EXCHANGE_SKETCH },
	[SELECT_BLOCK] = { .argument = ARGUMENT_DENSITY,
			   .seeded = 1,
			   .contiguous = 1,
			   .run = choose_block },
	[SELECT_RANDK] = { .argument = ARGUMENT_DENSITY,
			   .counted = 1,
			   .seeded = 1,
			   .run = choose_randk },
	[SELECT_TENSOR_TOPK] = { .argument = ARGUMENT_DENSITY,
				 .by_tensor = 1,
				 .run = choose_tensor_topk },
	[SELECT_BLOCK_TOPK] = { .argument = ARGUMENT_BLOCK,
				.by_block = 1,
				.run = choose_block_topk },
	[SELECT_GLOBAL] = { .argument = ARGUMENT_GLOBAL,
			    .counted = 1,
			    .varies = 1,
			    .global = 1,
			    .adds = 1,
			    .run = choose_topk },
};
