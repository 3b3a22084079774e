/* SPDX-License-Identifier: BSD-3-Clause
 * The definition of a selection, by sorting. */
#ifndef TESTS_TOPK_ORACLE_H
#define TESTS_TOPK_ORACLE_H
#include "compress/select.h"

/* Sorts coordinates of x by descending magnitude, ties by index. */
void topk_order(const float *x, uint32_t *order, size_t n);
/* Sets chosen[i] to 1 if x[i] must be selected, else 0. Returns the number of selected
 * coordinates. */
size_t topk_oracle(const float *x, size_t n, const struct span *spans, size_t n_spans, size_t k,
		   uint8_t *chosen);
#endif
