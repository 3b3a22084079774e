/* SPDX-License-Identifier: BSD-3-Clause
 * For recipe=auto: a worker proposes the code of the pushes (model/bits.h). */
#ifndef RUNTIME_WORKER_BITS_H
#define RUNTIME_WORKER_BITS_H
#include "worker/hooks.h"

extern const struct step_hooks bits_hooks;
/* Save and restore the choice between two steps, for checkpoints. bits_judge() returns NULL, or the
 * reason why a worker or a shard cannot have this choice. The budget of a job that compares times
 * is decided again. */
uint64_t bits_save(const struct worker *w);
const char *bits_judge(const struct recipe *recipe, uint64_t number);
void bits_restore(struct worker *w, uint64_t number);
#endif
