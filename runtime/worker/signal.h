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
	/* The selection adds scale * addend to the residual. NULL: everything was already added. */
	const float *addend;
	float scale;
	int summed; /* 1: the application has added the gradient itself (sluice_accumulator), and
		       the selection must check that the sum is finite */
};

/* Folds a push: adds count elements of grad, at the coordinates from begin on, to the residual, as
 * the recipe's signal= requires. With signal=drift, grad has all coordinates, of which this range
 * is read. If grad is the whole gradient and also the signal, the addition is left to the
 * selection, and *out describes it. With nonfinite=abort and without clip=, the selection also
 * checks for NaN. before is the second gradient of a pair, at the same coordinates, or NULL.
 * nonfinite=skip and clip= need the whole gradient. Returns 0 (step.left_out is then 1 if
 * nonfinite=skip leaves this gradient out), or SLUICE_ENUMERIC after the job has ended. */
int signal_fold(struct worker *w, const struct vector *grad, const struct vector *before,
		uint64_t begin, uint64_t count, struct signal *out);
/* Looks for NaN and infinity before anything is added, as nonfinite=skip-all requires. Returns 1 if
 * the gradient or the second gradient of a pair has one, otherwise 0. */
int signal_spoilt(struct worker *w, const struct vector *grad, const struct vector *before);
/* Called after a selection has found a value that is not finite, and has put the values that it had
 * taken back into the residual. The bad value is in grad, or in the vector to which grad was added.
 * If grad is NULL, the application added the gradient to the residual itself, so this checks the
 * residual. Returns SLUICE_ENUMERIC if a pushed value is not finite and the recipe has
 * nonfinite=abort. Otherwise returns 0: the sum has overflowed, and the encoder will report
 * that. */
int signal_judge_sum(struct worker *w, const struct vector *grad);
#endif
