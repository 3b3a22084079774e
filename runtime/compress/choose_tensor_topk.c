/* SPDX-License-Identifier: BSD-3-Clause
 * tensor-topk: the k largest magnitudes of each tensor, with k from the tensor's own length, so
 * that no tensor is left out because another one has larger gradients. layout.c makes a span for
 * each tensor if a recipe uses this. */
#include "choose.h"

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
