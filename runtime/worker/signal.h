/* SPDX-License-Identifier: BSD-3-Clause
 * Turns a gradient into the vector that will be compressed: checks it, clips it, makes it the
 * recipe's signal, and adds it to the residual of earlier steps. */
#ifndef RUNTIME_SIGNAL_H
#define RUNTIME_SIGNAL_H
#include "model/model.h"
#include "model/vector.h"

/* Returns a vector of count elements that the program pushes. */
struct vector signal_vector(const struct worker *w, const void *data, uint64_t count);

/* The part of the addition that a fold leaves to the selection. */
struct signal {
	/* The selection adds scale * addend to the residual; NULL: everything was added already. */
	const float *addend;
	float scale;
	int summed; /* the application added the gradient itself (sluice_accumulator), and nothing
		       is left to add; the selection must check that the sum is finite */
};

/* The fold of a push: adds count elements of grad, at the coordinates from begin on, to the
 * residual as the recipe's signal. If grad is the whole gradient and also the signal, the
 * selection does the addition instead, and *out describes it. With nonfinite=abort and without
 * clip=, the selection also checks for NaN. before is the second gradient of a pair, at
 * the same coordinates, or NULL. nonfinite=skip and clip= need the whole gradient. Returns 0
 * (worker.skip is set if nonfinite=skip leaves this gradient out), or SLUICE_ENUMERIC: the job
 * has ended. */
int signal_fold(struct worker *w, const struct vector *grad, const struct vector *before,
		uint64_t begin, uint64_t count, struct signal *out);
/* Looks for NaN and infinity before anything is added, as nonfinite=skip-all needs. Returns 1 if
 * the gradient, or the second gradient of a pair, has such a value, else 0. */
int signal_spoilt(struct worker *w, const struct vector *grad, const struct vector *before);
/* Called after a selection has met a value that is not finite, and has put back what it had
 * taken out of the residual. The value is in grad, or in the vector to which grad was added.
 * grad NULL: the application added the gradient to the residual itself, so the residual is
 * checked instead. Returns SLUICE_ENUMERIC if a pushed value is not finite and the recipe has
 * nonfinite=abort. Otherwise returns 0: the sum has overflowed, and the encoder will report
 * that. */
int signal_judge_sum(struct worker *w, const struct vector *grad);
/* Applies the recipe's nonfinite= to n coordinates that are NaN or infinite. The first of them is
 * coordinate `bad` and has this value. Returns 0 to continue, 1 to leave out the gradient, or an
 * error. held: the token is held. */
int signal_nonfinite(struct worker *w, int held, uint64_t bad, uint64_t n, float value);

/* Ends the job because the sum at coordinate worker.overflowed is beyond the range of floats.
 * Returns SLUICE_ENUMERIC. held: the token is held. */
/* the sum is on a GPU, or several sums share a cell of a sketch */
#define COORDINATE_UNKNOWN UINT64_MAX
int signal_overflowed(struct worker *w, int held);
#endif
