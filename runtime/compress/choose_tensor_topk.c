/* SPDX-License-Identifier: BSD-3-Clause
 * tensor-topk: of each tensor the k largest magnitudes, k from its own length: no tensor is left
 * out because another one has larger gradients. layout.c keeps a span for each tensor where a
 * recipe asks for this. */
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
