/* SPDX-License-Identifier: BSD-3-Clause
 * Exact top-k selection by magnitude, with ties resolved to the lower index. The result does not
 * depend on the processor, the number of threads or hints. README.md explains why it is fast.
 *
 * A selector holds the scratch memory for vectors of up to n elements, which is allocated once at
 * open. */
#ifndef COMPRESS_SELECT_H
#define COMPRESS_SELECT_H
#include "select_rules.h"
#include <stddef.h>
#include <stdint.h>

/* A range of the vector. Spans are ascending and do not overlap. In an exempt span every non-zero
 * coordinate is selected, in addition to the k others. */
struct span {
	uint64_t begin, end;
	int exempt;
};
/* Returns the number of the first span that ends after this coordinate, or n_spans. */
static inline size_t span_after(const struct span *spans, size_t n_spans, uint64_t coordinate)
{
	size_t before = 0, most = n_spans;

	while (before < most) {
		const size_t middle = before + (most - before) / 2;

		if (spans[middle].end <= coordinate)
			before = middle + 1;
		else
			most = middle;
	}
	return before;
}

struct selector;
int selector_open(size_t n,
		  struct selector **out); /* 0, SLUICE_EINVAL (n >= 2^32), SLUICE_ENOMEM */
void selector_close(struct selector **s);
size_t selector_bytes(size_t n); /* bytes of memory that selector_open(n) takes */
enum { SELECT_THREADS_MAX = 256 };
/* Does the same as selector_open(), for at most k of n coordinates, with 1 to SELECT_THREADS_MAX
 * threads. The scratch memory is n / 100 + k elements and one tile per thread. */
int selector_open_for(size_t n, size_t k, unsigned threads, struct selector **out);
struct team;
/* In shorter vectors, one thread finishes before another one wakes up. */
enum { SELECT_SHARED_LEAST = 1 << 20 };
/* Lets the selector use the threads of a team, which may be NULL and must outlive the selector.
 * While another selector uses the team, this one works alone. Each of the team's workers has
 * selector_team_memory() bytes. */
size_t selector_team_memory(void);
void selector_share(struct selector *s, struct team *team);

/* Selects the k coordinates of the non-exempt spans that are largest in magnitude, and all
 * non-zeros of the exempt spans. Writes them in ascending order to index[], which has room for k
 * and all exempt coordinates, and returns their number. Zeros of either sign are never selected. x
 * must have no NaN (see first_nonfinite); infinities rank above finite values. Allocates
 * nothing. */
size_t select_topk(struct selector *s, const float *x, const struct span *spans, size_t n_spans,
		   size_t k, uint32_t *index);

/* The options of a selection. Options that are not used are zero. */
struct select_call {
	/* The vector. If it is NULL, computes residual += scale * grad and selects from the
	 * residual. */
	const float *x;
	float *residual;
	const float *grad;
	float scale;
	int clear; /* with grad: 1 sets the selected coordinates of residual to 0 */
	const struct span *spans;
	size_t n_spans, k;
	uint32_t *index; /* as for select_topk */
	/* Receives the selected values; may be NULL, but not with clear. */
	float *value;
	struct select_hint *hint; /* read and updated; may be NULL */
};

/* Returns the number of selected coordinates. If there was a NaN, *nan_out becomes 1; nan_out may
 * be NULL. In that case the result is 0, and index and value are undefined. If there is a grad, the
 * residual is then the sum, of which nothing was cleared. */
size_t select_run(struct selector *s, const struct select_call *call, int *nan_out);

/* Selects the k coordinates that are largest in magnitude of each `length` consecutive ones, and
 * all non-zeros of exempt spans. Blocks are counted from coordinate 0. If a block has n < length
 * coordinates that are not exempt, block_quota() of them are selected. In other respects it works
 * like select_topk(). 0 < k <= length <= SELECT_BLOCK_MOST. If ends is not NULL, it has the ends of
 * the blocks, none of which is longer than `length`, and k of each block are selected, or all of a
 * shorter one; one thread then selects from all blocks. index[] has room for what is selected if no
 * coordinate is zero. */
size_t select_each_block(struct selector *s, const float *x, const struct span *spans,
			 size_t n_spans, uint32_t k, uint32_t length, const uint32_t *ends,
			 uint32_t *index);

/* Lists the non-zeros of x[0..n) in ascending order, but at most the first `room` of them. Used for
 * sparse representations of "all". */
size_t select_nonzero(const float *x, size_t n, uint32_t *index, size_t room);

/* Returns the index of the first NaN or infinity of x[0..n), or n if there is none. */
size_t first_nonfinite(const float *x, size_t n);
#endif
