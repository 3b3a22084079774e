/* SPDX-License-Identifier: BSD-3-Clause
 * From a gradient to what will be compressed: judged, clipped, turned into the recipe's signal and
 * added to what earlier steps left unsent. */
#ifndef RUNTIME_SIGNAL_H
#define RUNTIME_SIGNAL_H
#include "model/model.h"

/* What a fold leaves to the selection that follows it. */
struct signal {
	const float
		*addend; /* the selection adds scale * addend to the residual; NULL: all is added */
	float scale;
	int summed; /* the application added it, and the selection looks for what is not finite */
};

/* The first turn of a push: grad[0..count), of coordinates from begin on, joins the residual as the
 * recipe's signal, or, where it is the whole, is left to the selection (*out). before: the second
 * gradient of a pair, of the same coordinates, else NULL. nonfinite=skip and clip= need the whole.
 * SLUICE_ENUMERIC: the job has ended. */
int signal_fold(sluice_model *model, const void *grad, const void *before, uint64_t begin,
		uint64_t count, struct signal *out);
/* A selection found, in grad or in what grad was added to, something that is not finite; nothing is
 * taken out of the residual. grad NULL: it looked at the residual. Judges it as the recipe's
 * nonfinite= says: 0 if every value that was pushed is finite, so that it is the sum that has
 * overflowed, or SLUICE_ENUMERIC. */
int signal_judge_sum(sluice_model *model, const float *grad);

/* What the recipe's nonfinite= says to n coordinates that are NaN or infinite, first at `bad` with
 * this value: 0 to go on, 1 to leave the gradient out, or an error. Token held. */
int signal_nonfinite_held(sluice_model *model, uint64_t bad, uint64_t n, float value);

/* Ends the job because worker.overflowed, a sum, has left the range of floats: SLUICE_ENUMERIC.
 * held: the token is. */
#define COORDINATE_UNKNOWN UINT64_MAX /* of a sum on a GPU, or of several in a cell of a sketch */
int signal_overflowed(sluice_model *model, int held);
#endif
