/* SPDX-License-Identifier: BSD-3-Clause
 * Which coordinates are sent: exact top-k by magnitude, ties to the lower index. The answer does
 * not depend on the processor, the number of threads, or hints. README.md says how it is fast.
 *
 * A selector holds the scratch for vectors of up to n elements (allocated once at open). */
#ifndef COMPRESS_SELECT_H
#define COMPRESS_SELECT_H
#include "select_rules.h"
#include <stddef.h>
#include <stdint.h>

/* A range of the vector. Spans are ascending and do not overlap. In an exempt span every non-zero
 * coordinate is selected, outside of the budget k. */
struct span {
	uint64_t begin, end;
	int exempt;
};

struct selector;
int selector_open(size_t n,
		  struct selector **out); /* 0, SLUICE_EINVAL (n >= 2^32), SLUICE_ENOMEM */
void selector_close(struct selector **s);
size_t selector_bytes(size_t n); /* of memory that selector_open(n) takes */
enum { SELECT_THREADS_MAX = 256 };
/* The same for at most k of n, with 1 to SELECT_THREADS_MAX threads; the scratch is n / 100 + k
 * elements and a tile per thread. */
int selector_open_for(size_t n, size_t k, unsigned threads, struct selector **out);

/* Writes to index[] (ascending, room for k + sum of exempt spans) the k coordinates of the
 * non-exempt spans that are largest in magnitude and all non-zeros of the exempt ones; zeros
 * (either sign) are never selected. Returns how many. x must hold no NaN (see first_nonfinite);
 * infinities rank above finite values. No allocation. */
size_t select_topk(struct selector *s, const float *x, const struct span *spans, size_t n_spans,
		   size_t k, uint32_t *index);

/* All that can be asked for in one selection. Fields that are not set are zero. */
struct select_call {
	const float *x; /* the vector; NULL: residual += scale * grad, and select from that */
	float *residual;
	const float *grad;
	float scale;
	int clear; /* with grad: selected coordinates of residual become 0 */
	const struct span *spans;
	size_t n_spans, k;
	uint32_t *index;          /* as for select_topk */
	float *value;             /* selected values beside them; NULL: none (not with clear) */
	struct select_hint *hint; /* read and replaced; NULL: none */
};

/* Returns how many were selected. *nan_out (may be NULL): 1 if a NaN was met; then the number is 0,
 * index and value are undefined, and with grad residual is the sum, nothing cleared. */
size_t select_run(struct selector *s, const struct select_call *call, int *nan_out);

/* The non-zeros of x[0..n), ascending, the first `room` of them; for sparse representations of
 * "all". */
size_t select_nonzero(const float *x, size_t n, uint32_t *index, size_t room);

/* Index of the first NaN or infinity of x[0..n), n if there is none. */
size_t first_nonfinite(const float *x, size_t n);
#endif
