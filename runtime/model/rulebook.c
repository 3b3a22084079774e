/* SPDX-License-Identifier: BSD-3-Clause
 * See rulebook.h. */
#include "model/rulebook.h"
#include "model/worth.h"

struct step_rule rulebook_step(const struct rulebook *rules, uint64_t step, unsigned chosen)
{
	const struct recipe *recipe = rules->recipe;
	const struct schedule *schedule = rules->schedule;
	struct candidate share;

	if (recipe->automatic)
		share = worth_candidates[worth_candidate(step - 1 - rules->first_step, chosen)];
	else
		share = (struct candidate){ schedule_density(schedule, &recipe->up, step),
					    schedule_density(schedule, &recipe->down, step) };
	if (recipe->guard == GUARD_RAISE) {
		share.up = schedule_raised(&recipe->up, share.up, chosen);
		share.down = schedule_raised(&recipe->down, share.down, chosen);
	}
	return plan_step(rules->plan, recipe, schedule, step, share.up, share.down);
}

unsigned rulebook_choices(const struct recipe *recipe)
{
	return recipe->automatic ? WORTH_CANDIDATES : schedule_raises_most(recipe);
}
