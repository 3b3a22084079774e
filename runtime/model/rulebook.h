/* SPDX-License-Identifier: BSD-3-Clause
 * The rules for the steps of a model, which follow from its recipe and from its opening. Both
 * halves get the rule of a step from here, so they agree on it. Pure. */
#ifndef RUNTIME_RULEBOOK_H
#define RUNTIME_RULEBOOK_H
#include "model/plan.h"
#include "model/update.h"
#include "recipe/schedule.h"

struct rulebook {
	const struct recipe *recipe;
	const struct schedule *schedule;
	const struct path_plan *plan;
	const struct update *update;
	uint64_t first_step; /* number of exchanges that each worker had completed at open or in the
				restored checkpoint */
};

/* Returns the rule of step t = 1, 2, ... With auto, chosen is a packed choice (recipe/budgets.h).
 * With guard=raise, it is the number of times that the densities have doubled. With other recipes
 * it is 0. A worker's push proposes this value, the shard decides, and the shard's delta sends the
 * decision to all workers. */
struct step_rule rulebook_step(const struct rulebook *rules, uint64_t step, unsigned chosen);
/* With auto, returns the budget for which the codes are measured in this step. Returns 0 in all
 * other steps: those that are dense, and those that are not 1, 2, 4, 8 and so on. */
unsigned rulebook_learns(const struct rulebook *rules, uint64_t step, unsigned chosen);
/* Returns the largest value that `chosen` can have. */
unsigned rulebook_choices(const struct recipe *recipe);

/* Returns 1 if a step with this rate changes nothing. Such a step keeps the residual, because
 * nothing is added to it, sent or published. A step with rate 0 does change something in three
 * cases. The moments of Adam take the gradients of all steps. Without a residual, the update itself
 * multiplies by the rate. If a period sums steps with several rates, this step adds nothing, but
 * the sum of the other steps is exchanged. */
static inline int rulebook_stands(const struct recipe *recipe, float lr)
{
	return lr <= 0 && recipe->memory.kind != MEMORY_NONE && recipe->every.period == 1 &&
	       !recipe_variance(recipe) && !recipe_pulls_mean(recipe) &&
	       !recipe_pushes_params(recipe);
}
#endif
