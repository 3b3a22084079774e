/* SPDX-License-Identifier: BSD-3-Clause
 * Which coordinates are sent. Exact top-k by histogram of magnitude keys; ties to the lower index.
 *
 * A selector holds the scratch for vectors of up to n elements (allocated once at open). */
#ifndef COMPRESS_SELECT_H
#define COMPRESS_SELECT_H
#include <stddef.h>
#include <stdint.h>

/* A range of the vector. Spans are ascending and do not overlap. In an exempt span every non-zero
 * coordinate is selected, outside of the budget k. */
struct span {
	uint64_t begin, end;
	int exempt;
};

struct selector;
int selector_open(size_t n, struct selector **out); /* 0, SLUICE_EINVAL (n >= 2^32), SLUICE_ENOMEM */
void selector_close(struct selector **s);
size_t selector_bytes(size_t n); /* of memory that selector_open(n) takes */

/* Writes to index[] (ascending, room for k + sum of exempt spans) the k coordinates of the
 * non-exempt spans that are largest in magnitude and all non-zeros of the exempt ones; zeros (either
 * sign) are never selected. Returns how many. x must hold no NaN (see first_nonfinite); infinities
 * rank above finite values. No allocation. */
size_t select_topk(struct selector *s, const float *x, const struct span *spans, size_t n_spans,
		   size_t k, uint32_t *index);

/* All non-zeros of x[0..n), ascending; for sparse representations of "all". */
size_t select_nonzero(const float *x, size_t n, uint32_t *index);

/* Index of the first NaN or infinity of x[0..n), n if there is none. */
size_t first_nonfinite(const float *x, size_t n);
#endif
