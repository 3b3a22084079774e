/* SPDX-License-Identifier: BSD-3-Clause
 * The order of the calls of a step, and the state of a push that other ranks need; see push.c. */
#ifndef RUNTIME_WORKER_PUSH_H
#define RUNTIME_WORKER_PUSH_H
#include "sluice_vector.h"
#include "worker/state.h"

/* Refuses a call of `function` that this rank cannot make at all or cannot make now: returns
 * SLUICE_EINVAL, or the error with which the job has ended. `expected` is the state in which the
 * call is allowed. STEP_PUSHING means a push of a range, which may begin a step (STEP_DONE) or
 * continue one. While the ranges of a step are not complete, all other calls are refused. */
int step_check(sluice_model *model, const void *vector, const char *function,
	       enum step_state expected);
/* Refuses a vector with neither data nor segments, and a vector with both. */
int vector_check(const sluice_vector *vector, const char *function);
/* Pushes no gradient, for a step in which this worker has none. */
int push_nothing(struct worker *w);
int step_set_lr(struct worker *w, float lr);
int step_set_grad_scale(struct worker *w, float scale);
/* Return the fields of sluice_step_info() about the last step. */
int step_skipped(const struct worker *w);
unsigned step_raised(const struct worker *w);
/* Returns the number of steps whose whole gradient this rank has pushed. */
uint64_t step_pushed(const struct worker *w);
/* Returns the step of a waiting pull that cannot end because a worker has pushed only `pushed`
 * steps and will push no more. Returns 0 if there is none. The token must be held. */
uint64_t step_in_vain(const struct worker *w, uint64_t pushed);
#endif
