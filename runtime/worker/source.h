/* SPDX-License-Identifier: BSD-3-Clause
 * The sources of a push: a gradient, the two gradients of a pair, parameters, or their drift from
 * those of the last pull. Each has a row with the call that passes it and the function by which the
 * host reads it. Called by push.c and signal.c. */
#ifndef RUNTIME_WORKER_SOURCE_H
#define RUNTIME_WORKER_SOURCE_H
#include "model/model.h"
#include "model/vector.h"

/* The vectors of a push. */
struct pushed {
	const struct vector *vector, *before; /* before: the second gradient of a pair, or NULL */
	float newest, older;                  /* the factors of a pair */
	const struct local *local;            /* for a drift: the parameters of the last pull */
};

struct source_row {
	const char *call;   /* the public function that pushes these vectors */
	const char *needs;  /* words that the recipe must have for this source, or NULL */
	const char *wanted; /* the reason why a step needs this source, and the call that pushes
			       it */
	int computed;       /* 1: an element is computed from several vectors */
	/* Returns elements at .. at + n - 1 as floats. Uses the memory `room` if they must be
	 * computed. zeros: NaN and infinity count as 0. */
	const float *(*read)(const struct pushed *p, int zeros, uint64_t at, size_t n, float *room);
};
extern const struct source_row source_rows[SOURCES];

/* Returns the source that the next step needs. With signal=svrg, an anchor needs one gradient. */
enum source source_of_step(const struct worker *w);
/* Returns SLUICE_EINVAL unless the next step needs the source that `function` pushes. */
int source_check(const struct worker *w, enum source given, const char *function);
/* Returns SLUICE_EINVAL unless the recipe pushes one gradient or a drift, which may be in pieces.
 */
int source_check_pieces(const struct recipe *recipe, const char *function);
/* Returns the vectors of a push, with the factors of the step that has begun. */
struct pushed source_pushed(const struct worker *w, const struct vector *vector,
			    const struct vector *before);
#endif
