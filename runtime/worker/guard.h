/* SPDX-License-Identifier: BSD-3-Clause
 * guard=warn and guard=raise: the worker observes the values that it sends and that the shards
 * publish, if only a part of the coordinates is selected and the rest stays in a residual. If the
 * training diverges because of that, warn reports it once, and raise makes all ranks double their
 * densities. The first worker of the job reports for all. */
#ifndef RUNTIME_GUARD_H
#define RUNTIME_GUARD_H
#include "model/growth.h"
#include "worker/hooks.h"

/* Save and restore the state of guard=raise between two steps, for checkpoints: the number of
 * doublings and the observations since the last doubling. guard_judge() returns NULL, or the reason
 * why these numbers are impossible after `step` steps. */
enum { GUARD_NUMBERS = 3 + 2 * GROWTH_NUMBERS };
void guard_save(const struct worker *w, uint64_t numbers[GUARD_NUMBERS]);
const char *guard_judge(const struct recipe *recipe, const uint64_t numbers[GUARD_NUMBERS],
			uint64_t step);
void guard_restore(struct worker *w, const uint64_t numbers[GUARD_NUMBERS]);

extern const struct step_hooks guard_hooks;
#endif
