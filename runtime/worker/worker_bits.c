/* SPDX-License-Identifier: BSD-3-Clause
 * See worker_bits.h. A proposal travels with the push whose vector was measured. The lowest living
 * worker decides, and all ranks follow its choice from the next step on (rulebook_step()). */
#include "worker/worker_bits.h"
#include "model/bits.h"
#include "model/model.h"
#include "worker/hooks.h"
#include "worker/signal.h"
#include "worker/state.h"
#include "worker/watch.h"

static int bits_used(const struct worker *w)
{
	return w->rules.recipe->automatic;
}

static int bits_begin(struct worker *w)
{
	return bits_open(w->layout->count, &w->bits);
}

static void bits_end(struct worker *w)
{
	bits_close(&w->bits);
}

static uint64_t bits_take(const struct layout *l, const struct recipe *recipe)
{
	return recipe->automatic ? bits_memory(l->count) : 0;
}

/* Called when the vector is complete, except for the addend that the selection adds. It is in host
 * memory, because no recipe with auto compresses on a GPU. */
static void bits_folded(struct worker *w, struct signal *signal)
{
	const struct recipe *recipe = w->rules.recipe;
	const unsigned budget = rulebook_learns(&w->rules, w->step.number, w->step.chosen);
	const struct bits_vector v = { .x = worker_residual(w),
				       .addend = signal->addend,
				       .scale = signal->scale,
				       .count = w->layout->count };

	if (!budget || w->step.left_out || !is_first_worker(w->job))
		return;
	step_propose(&w->step,
		     choice_with_code(w->step.proposed, BUDGET_UP,
				      bits_choose(w->bits, &v, budget, BUDGET_UP,
						  recipe->coding == CODING_SMALL,
						  choice_unpack(w->step.chosen).code[BUDGET_UP])));
}

uint64_t bits_save(const struct worker *w)
{
	return w->step.chosen;
}

const char *bits_judge(const struct recipe *recipe, uint64_t number)
{
	return number <= rulebook_choices(recipe) ? NULL : "it holds a choice that does not exist";
}

void bits_restore(struct worker *w, uint64_t number)
{
	const unsigned chosen = choice_with_budget((unsigned)number, 0);
	const struct step_rule next = rulebook_step(&w->rules, w->step.number + 1, chosen);

	step_restore(&w->step, chosen, chosen, &next);
}

const struct step_hooks bits_hooks = { .used = bits_used,
				       .open = bits_begin,
				       .close = bits_end,
				       .memory = bits_take,
				       .folded = bits_folded };
