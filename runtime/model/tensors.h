/* SPDX-License-Identifier: BSD-3-Clause
 * The tensors of a model: their names, where they end, and their own settings in the update rule.
 * Called when a model is opened, for messages that name a coordinate, and by update.c. */
#ifndef RUNTIME_TENSORS_H
#define RUNTIME_TENSORS_H
#include "sluice.h"

struct tensors;

/* Whether the attributes have a rule by which weights decay. */
int tensors_decay(const sluice_model_attr *attr);
/* Copies what the attributes say, which have been checked. 0 or SLUICE_ENOMEM. */
int tensors_open(const sluice_model_attr *attr, struct tensors **out);
void tensors_close(struct tensors **tensors);
size_t tensors_number(const struct tensors *t);
/* Digests of names and lengths, and of learning rates and decays (0 if there are none). */
uint64_t tensors_digest(const struct tensors *t);
uint64_t tensors_rules_digest(const struct tensors *t);
/* "index 3 of tensor w1", or "index 3" if there are no tensors. */
void tensors_place(const struct tensors *t, uint64_t i, char *text, size_t cap);

/* Whether the update rule has something of its own for each tensor. */
int tensors_ruled(const struct tensors *t);
/* Coordinates up to `end`, behind the last of a tensor, with one rule. */
struct tensor_run {
	uint64_t end;
	float lr, decay;
};
/* From a coordinate on, if tensors_ruled(). */
struct tensor_run tensors_run(const struct tensors *t, uint64_t at);
#endif
