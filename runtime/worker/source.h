/* SPDX-License-Identifier: BSD-3-Clause
 * The sources of a push: a gradient, the two gradients of a pair, or parameters. Each has a row
 * with the call that brings it and the way the host reads it. Called by push.c and signal.c. */
#ifndef RUNTIME_WORKER_SOURCE_H
#define RUNTIME_WORKER_SOURCE_H
#include "model/model.h"
#include "model/vector.h"

/* The vectors of a push. */
struct pushed {
	const struct vector *vector, *before; /* before: the second gradient of a pair, or NULL */
	float newest, older;                  /* the factors of a pair */
};

struct source_row {
	const char *call;   /* the public function that pushes it */
	const char *needs;  /* words of the recipe that this source needs; NULL: none */
	const char *wanted; /* why the step wants it, and which call brings it */
	/* Elements at .. at + n - 1 as floats: where they lie, or made in room. zeros: a coordinate
	 * with NaN or infinity counts as 0. */
	const float *(*read)(const struct pushed *p, int zeros, uint64_t at, size_t n, float *room);
};
extern const struct source_row source_rows[SOURCES];

/* The source that the beginning step needs. With signal=svrg, an anchor needs one gradient. */
enum source source_of_step(const sluice_model *model);
/* SLUICE_EINVAL unless the beginning step needs the source that `function` brings. */
int source_check(const sluice_model *model, enum source given, const char *function);
/* SLUICE_EINVAL unless the recipe pushes one gradient, which may come in pieces. */
int source_check_pieces(const sluice_model *model, const char *function);
/* The push of vector and before, with the factors of the step, which has begun. */
struct pushed source_pushed(const sluice_model *model, const struct vector *vector,
			    const struct vector *before);
#endif
