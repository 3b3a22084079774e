/* SPDX-License-Identifier: BSD-3-Clause
 * Numbers of a worker that are NaN or infinite: what nonfinite= does with them, and the messages
 * that end the job. Called by all files that read or add gradients and parameters. */
#ifndef RUNTIME_WORKER_NONFINITE_H
#define RUNTIME_WORKER_NONFINITE_H
#include <stdint.h>

struct worker;

/* Applies the recipe's nonfinite= to a push in which n coordinates are NaN or infinite. `bad` is
 * the first of these coordinates, and `value` is its value. Returns 0 to continue, 1 to leave out
 * the gradient, or an error. held: the caller holds the token. */
int nonfinite_pushed(struct worker *w, int held, uint64_t bad, uint64_t n, float value);

/* `bad` if the coordinate is not known: the sum is on a GPU, or several coordinates share a cell of
 * a sketch. */
#define COORDINATE_UNKNOWN UINT64_MAX
/* Ends the job because the sum of the gradient and the residual is beyond the range of floats, at
 * the coordinate that the step has recorded. Returns SLUICE_ENUMERIC. held: the caller holds
 * the token. */
int nonfinite_sum(struct worker *w, int held);
/* Ends the job because the parameter at coordinate `at` is beyond the range of floats. Returns
 * SLUICE_ENUMERIC. */
int nonfinite_params(struct worker *w, uint64_t at, float value);
#endif
