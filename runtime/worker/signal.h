/* SPDX-License-Identifier: BSD-3-Clause
 * From a gradient to what will be compressed: judged, clipped, turned into the recipe's signal and
 * added to what earlier steps left unsent. */
#ifndef RUNTIME_SIGNAL_H
#define RUNTIME_SIGNAL_H
#include "model/model.h"
#include "model/vector.h"

/* One vector of count elements as the program pushes it. */
struct vector signal_vector(const sluice_model *model, const void *data, uint64_t count);

/* What a fold leaves to the selection that follows it. */
struct signal {
	const float
		*addend; /* the selection adds scale * addend to the residual; NULL: all is added */
	float scale;
	int summed; /* the application added the gradient itself (sluice_accumulator), and nothing
		       is left to add; the selection must check that the sum is finite */
};

/* The first turn of a push: count elements of grad, the coordinates from begin on, join the
 * residual as the recipe's signal. Where grad is the whole gradient and the recipe's signal is the
 * gradient itself, the addition is left to the selection, and *out says what it has to add; with
 * nonfinite=abort and without clip= the check for NaN follows there too. before is the second
 * gradient of a pair, of the same coordinates, or NULL. nonfinite=skip and clip= need the whole
 * gradient. Returns 0; worker.skip then says whether nonfinite=skip leaves this gradient out.
 * SLUICE_ENUMERIC: the job has ended. */
int signal_fold(sluice_model *model, const struct vector *grad, const struct vector *before,
		uint64_t begin, uint64_t count, struct signal *out);
/* Looks for NaN and infinity where nonfinite=skip-all has to know before anything is added. Returns
 * 1 if the gradient, or the second one of a pair, has any, else 0. */
int signal_spoilt(sluice_model *model, const struct vector *grad, const struct vector *before);
/* A selection met a value that is not finite, in grad or in what grad was added to, and what it had
 * taken out of the residual has been put back. grad NULL: the application added the gradient to the
 * residual itself, which is looked at instead. Returns SLUICE_ENUMERIC if a pushed value is not
 * finite and the recipe says nonfinite=abort. Else returns 0: it is the sum that has overflowed,
 * and the encoder will say so. */
int signal_judge_sum(sluice_model *model, const struct vector *grad);
/* What the recipe's nonfinite= says to n coordinates that are NaN or infinite, first at `bad` with
 * this value: 0 to go on, 1 to leave the gradient out, or an error. Token held. */
int signal_nonfinite_held(sluice_model *model, uint64_t bad, uint64_t n, float value);

/* Ends the job because worker.overflowed, a sum, has left the range of floats: SLUICE_ENUMERIC.
 * held: the token is. */
#define COORDINATE_UNKNOWN UINT64_MAX /* of a sum on a GPU, or of several in a cell of a sketch */
int signal_overflowed(sluice_model *model, int held);
#endif
