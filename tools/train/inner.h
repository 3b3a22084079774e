/* SPDX-License-Identifier: BSD-3-Clause
 * The optimizer of a worker that trains by itself (update=average, signal=drift): plain SGD, or
 * AdamW in host memory. Called by steps.c. */
#ifndef TRAIN_INNER_H
#define TRAIN_INNER_H
#include "tools/train/compute.h"

#include <stdint.h>

enum inner_kind { INNER_NONE, INNER_SGD, INNER_ADAMW };

/* The defaults of torch.optim.AdamW. */
#define INNER_BETA1 0.9f
#define INNER_BETA2 0.999f

/* The moments of AdamW, with the decoupled weight decay of torch.optim.AdamW and its defaults for
 * all but the betas. */
struct inner {
	enum inner_kind kind;
	float beta1, beta2;
	size_t count;
	float *first, *second; /* NULL with SGD */
	uint64_t steps;
};

/* Returns 0, or -1 if there is no memory. */
int inner_open(struct inner *inner, enum inner_kind kind, size_t count, float beta1, float beta2);
void inner_close(struct inner *inner);
/* Moves params against grad. Returns 0, or -1 after a failure of compute. */
int inner_step(struct inner *inner, const struct compute *compute, float *params, const float *grad,
	       float lr);
#endif
