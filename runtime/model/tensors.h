/* SPDX-License-Identifier: BSD-3-Clause
 * The tensors of a model: their names, where they end, and their own settings in the update rule.
 * Called when a model is opened, for messages that name a coordinate, and by update.c. */
#ifndef RUNTIME_TENSORS_H
#define RUNTIME_TENSORS_H
#include "sluice.h"

struct tensors;

/* Returns 1 if the attributes have a tensor rule with a weight decay. */
int tensors_decay(const sluice_model_attr *attr);
/* Copies the checked attributes. Returns 0 or SLUICE_ENOMEM. */
int tensors_open(const sluice_model_attr *attr, struct tensors **out);
void tensors_close(struct tensors **tensors);
size_t tensors_number(const struct tensors *t);
/* tensors_digest() covers names and lengths. tensors_rules_digest() covers learning rates and
 * decays, and is 0 without rules. */
uint64_t tensors_digest(const struct tensors *t);
uint64_t tensors_rules_digest(const struct tensors *t);
/* Writes "index 3 of tensor w1", or "index 3" if there are no tensors. */
void tensors_place(const struct tensors *t, uint64_t i, char *text, size_t cap);

/* Returns 1 if some tensor has its own rate or decay. */
int tensors_ruled(const struct tensors *t);
/* A run of coordinates with the same rule. `end` is the end of a tensor. */
struct tensor_run {
	uint64_t end;
	float lr, decay;
};
/* Returns the run that begins at a coordinate. Requires tensors_ruled(). */
struct tensor_run tensors_run(const struct tensors *t, uint64_t at);
#endif
