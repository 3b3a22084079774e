/* SPDX-License-Identifier: BSD-3-Clause
 * See rulebook.h. */
#include "model/rulebook.h"
#include "model/worth.h"

/* Returns the budget of a step of recipe=auto. */
static unsigned budget_of(const struct rulebook *rules, uint64_t step, unsigned chosen)
{
	return rules->recipe->budget ?
		       rules->recipe->budget :
		       worth_candidate(step - 1 - rules->first_step, choice_unpack(chosen).budget);
}

static struct step_rule automatic_step(const struct rulebook *rules, uint64_t step, unsigned chosen)
{
	const unsigned budget = budget_of(rules, step, chosen);
	const struct auto_choice c = choice_unpack(chosen);
	const enum code up = c.code[BUDGET_UP], down = c.code[BUDGET_DOWN];
	struct step_rule rule = plan_step(rules->plan, rules->recipe, rules->schedule, step,
					  budget_density(budget, BUDGET_UP, up),
					  budget_density(budget, BUDGET_DOWN, down));

	if (!rule.reset)
		plan_values(&rule, budget_values(budget, up), budget_values(budget, down));
	return rule;
}

unsigned rulebook_learns(const struct rulebook *rules, uint64_t step, unsigned chosen)
{
	/* A job that compares times begins again when it is resumed, with codes that fit its last
	 * budget. A job with a given budget continues as if it had not stopped. */
	const uint64_t t = rules->recipe->budget ? step : step - rules->first_step;

	return !rules->recipe->automatic || t & (t - 1) ||
			       schedule_sends_all(rules->schedule, step) ?
		       0 :
		       budget_of(rules, step, chosen);
}

struct step_rule rulebook_step(const struct rulebook *rules, uint64_t step, unsigned chosen)
{
	const struct recipe *recipe = rules->recipe;
	const struct schedule *schedule = rules->schedule;
	double up, down;

	if (recipe->automatic)
		return automatic_step(rules, step, chosen);
	up = schedule_density(schedule, &recipe->up, step);
	down = schedule_density(schedule, &recipe->down, step);
	if (recipe->guard == GUARD_RAISE) {
		up = schedule_raised(&recipe->up, up, chosen);
		down = schedule_raised(&recipe->down, down, chosen);
	}
	return plan_step(rules->plan, recipe, schedule, step, up, down);
}

unsigned rulebook_choices(const struct recipe *recipe)
{
	return recipe->budget    ? AUTO_CODES * AUTO_CODES - 1 :
	       recipe->automatic ? AUTO_CHOICES - 1 :
				   schedule_raises_most(recipe);
}
