/* SPDX-License-Identifier: BSD-3-Clause
 * signal=innovation and when=lazy at the worker. A worker sends the difference between its gradient
 * and its reference, which is the gradient as the shards know it. The shards keep the sum of all
 * references. An upload can therefore be skipped: the reference then stays as it is. The rule for
 * skipping is that of lazily aggregated gradients (LAG; Chen, Giannakis, Sun, Yin, NeurIPS 2018)
 * and of their quantised form (LAQ; Sun, Chen, Giannakis, Yang, NeurIPS 2019). lazy.c owns all of
 * the worker's state for this. */
#ifndef RUNTIME_LAZY_H
#define RUNTIME_LAZY_H
#include "worker/hooks.h"

/* ---- the rule, as a pure function ---- */

struct lazy_rule {
	uint32_t window;               /* number of past model changes in the rule */
	double weight;                 /* weight of each of these changes (xi) */
	uint64_t longest;              /* most consecutive pushes that may be skipped; 0: no
					  limit */
	double moved[LAZY_WINDOW_MAX]; /* squared norms of these changes; change t at index t %
					  window, and zero before the first */
	uint64_t changes;              /* number of changes so far */
	double last_error;             /* squared norm of the rounding error of the last upload */
	uint64_t skipped;              /* number of pushes skipped since the last upload */
	int uploaded;                  /* 1: at least one upload was made */
};

/* lazy_save() writes the state as numbers, without the recipe's values. */
enum { LAZY_NUMBERS = LAZY_WINDOW_MAX + 4 };
void lazy_save(const struct lazy_rule *l, uint64_t numbers[LAZY_NUMBERS]);
/* Returns NULL, or the reason why a worker cannot have these numbers after `steps` steps. l must
 * have the recipe's values. */
const char *lazy_judge(const struct lazy_rule *l, uint64_t steps,
		       const uint64_t numbers[LAZY_NUMBERS]);
/* Records that the model changed by a vector of this squared norm. */
void lazy_moved(struct lazy_rule *l, double squared);
/* Returns the squared error that a stale gradient may have if the objective is the mean over the
 * workers: weight * sum of the last changes / lr^2. */
double lazy_allowance(const struct lazy_rule *l, float lr);
/* Returns 1 if the upload of an innovation can be skipped. innovation and error are the squared
 * norms of the innovation and of its rounding error. */
int lazy_skips(const struct lazy_rule *l, float lr, double innovation, double error);
/* As lazy_skips(), without a gradient: decides by the squared distance that the model has moved
 * since the worker's last upload, and the smoothness of the worker's loss (the Lipschitz constant
 * of its gradient). */
int lazy_skips_unseen(const struct lazy_rule *l, float lr, float smoothness, double distance);
/* Record the decision in the rule. error: squared norm of the upload's rounding error. */
void lazy_uploaded(struct lazy_rule *l, double error);
void lazy_skipped(struct lazy_rule *l);

/* ---- a worker's part: worker.lazy is NULL unless the recipe has signal=innovation ----------- */

struct lazy;

/* Returns the vector with which gradients are compared, or NULL if there is none. */
const float *lazy_reference(const struct lazy *lazy);
/* For checkpoints, which also save the vectors. lazy_refreshes() returns 1 if the next upload
 * restarts the references. lazy_rule_of() returns the rule. */
int lazy_refreshes(const struct lazy *lazy);
const struct lazy_rule *lazy_rule_of(const struct lazy *lazy); /* NULL: no upload is skipped */
/* numbers: the result of lazy_save(), or NULL if there is no rule. */
void lazy_restore(struct worker *w, const uint64_t *numbers, int refresh);

/* Returns 0 if the next step needs no gradient (when=lazy-server), otherwise 1. */
int lazy_wants(const struct worker *w);
int lazy_set_smoothness(struct worker *w, float smoothness);

extern const struct step_hooks lazy_hooks;
#endif
