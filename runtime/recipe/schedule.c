/* SPDX-License-Identifier: BSD-3-Clause
 * The phases of a recipe and the density of each step. Called by model_open.c, worker.c and
 * shard.c. */
#include "recipe/schedule.h"
#include "base/error.h"
#include "sluice.h"
#include <math.h>

/* Deep Gradient Compression starts its warm-up at 25 %. */
static const double warmup_density = 0.25;

static struct phase phase_of(enum phase_direction direction, const struct direction *d)
{
	int all = d->select == SELECT_ALL;
	return (struct phase){ .direction = direction,
			       .payload = all ? PAYLOAD_VALUES : PAYLOAD_PAIRS,
			       .close = CLOSE_ALL_LIVING };
}

static void add_phase(struct schedule *s, struct phase phase)
{
	s->phases[s->n_phases++] = phase;
	s->n_downs += phase.direction == PHASE_DOWN;
}

/* Adds two phases: the shard requests coordinates, and every worker sends its values there. */
static void agree(struct schedule *s)
{
	add_phase(s, (struct phase){ PHASE_DOWN, PAYLOAD_INDICES, CLOSE_ALL_LIVING });
	add_phase(s, (struct phase){ PHASE_UP, PAYLOAD_AGREED, CLOSE_ALL_LIVING });
}

int schedule_compile(const struct recipe *recipe, uint64_t steps_per_epoch, int decays,
		     struct schedule *out)
{
	double steps = recipe->warmup.length;
	if (recipe->warmup.unit == WARMUP_EPOCHS && recipe->warmup.length > 0) {
		if (!steps_per_epoch)
			return fail(SLUICE_EINVAL,
				    "recipe: warmup=%gepoch, but the model was opened without "
				    "steps_per_epoch: set it, or give the warm-up in steps "
				    "(warmup=500steps)",
				    recipe->warmup.length);
		steps *= (double)steps_per_epoch;
	}
	out->warmup_steps = (uint64_t)(steps /
				       /* Densities depend on the number of exchanges and not on the
					* number of steps. */
				       recipe->every.period);
	out->warmup_dense = recipe->warmup.dense;
	if (recipe->adam.freeze > out->warmup_steps)
		return fail(SLUICE_EINVAL,
			    "recipe: freeze=%llu is after the dense warm-up of %llu steps "
			    "(warmup=): the variance of the sparse steps between them would be far "
			    "too large; write a longer warm-up, or an earlier step",
			    (unsigned long long)recipe->adam.freeze,
			    (unsigned long long)out->warmup_steps);
	out->reset = recipe->reset;
	out->raises = recipe->guard == GUARD_RAISE;
	out->n_phases = 0;
	out->n_downs = 0;
	out->anchor_period = 0;
	out->moves_all = recipe->decay > 0 || decays || recipe_velocity(recipe) ||
			 recipe_variance(recipe);
	switch (selection_kinds[recipe->up.select].exchange) {
	case EXCHANGE_OWN:
		add_phase(out, phase_of(PHASE_UP, &recipe->up));
		if (recipe->when == WHEN_ASYNC)
			out->phases[0].close = CLOSE_ANY;
		if (recipe->quorum.workers)
			out->phases[0].close = CLOSE_QUORUM;
		break;
	case EXCHANGE_LEADER:
		add_phase(out, (struct phase){ PHASE_UP, PAYLOAD_INDICES, CLOSE_ALL_LIVING });
		agree(out);
		break;
	case EXCHANGE_SKETCH:
		add_phase(out, (struct phase){ PHASE_UP, PAYLOAD_SKETCH, CLOSE_ALL_LIVING });
		agree(out);
		break;
	}
	struct phase last = phase_of(PHASE_DOWN, &recipe->down);
	if (selection_kinds[recipe->up.select].exchange == EXCHANGE_LEADER && !out->moves_all)
		last = (struct phase){ PHASE_DOWN, PAYLOAD_AGREED, CLOSE_ALL_LIVING };
	add_phase(out, last);
	return 0;
}

void schedule_anchors(struct schedule *s, const struct recipe *recipe, int workers)
{
	const uint64_t all = (uint64_t)workers, svrg = recipe->signal.svrg_steps;

	s->anchor_period = svrg ? (svrg + all - 1) / all + 1 : 0;
}

int schedule_at_anchor(const struct schedule *s, uint64_t step)
{
	return s->anchor_period && (step - 1) % s->anchor_period == 0;
}

int schedule_before_anchor(const struct schedule *s, uint64_t step)
{
	return s->anchor_period && step % s->anchor_period == 0;
}

int schedule_leader(uint64_t step, int workers)
{
	return (int)((step - 1) % (uint64_t)workers);
}

uint64_t schedule_publications(const struct schedule *s, uint64_t step, unsigned phase)
{
	uint64_t downs = 0;
	for (unsigned p = 0; p <= phase && p < s->n_phases; p++)
		downs += s->phases[p].direction == PHASE_DOWN;
	return (step - 1) * s->n_downs + downs;
}

uint64_t schedule_exchanges(const struct recipe *recipe, uint32_t fragment, uint64_t steps)
{
	const uint64_t all = steps / recipe_interval(recipe);

	return all / recipe->every.fragments + (all % recipe->every.fragments > fragment);
}

uint64_t schedule_exchange_step(const struct recipe *recipe, uint32_t fragment, uint64_t t)
{
	return ((t - 1) * recipe->every.fragments + fragment + 1) * recipe_interval(recipe);
}

uint32_t schedule_next_fragment(const struct recipe *recipe, uint64_t steps)
{
	return (uint32_t)(steps / recipe_interval(recipe) % recipe->every.fragments);
}

double schedule_density(const struct schedule *s, const struct direction *d, uint64_t step)
{
	if (d->select == SELECT_ALL || step > s->warmup_steps || s->warmup_dense ||
	    d->density >= warmup_density)
		return d->density;
	double done = (double)(step - 1) / (double)s->warmup_steps;
	return warmup_density * pow(d->density / warmup_density, done);
}

double schedule_largest_density(const struct schedule *s, const struct direction *d)
{
	return s->raises && d->select != SELECT_ALL ? 1 : schedule_density(s, d, 1);
}

unsigned schedule_raises_most(const struct recipe *recipe)
{
	double least = recipe->up.density < recipe->down.density ? recipe->up.density :
								   recipe->down.density;
	unsigned n = 0;

	for (; recipe->guard == GUARD_RAISE && least < 1; least *= 2)
		n++;
	return n;
}

double schedule_raised(const struct direction *d, double density, unsigned doublings)
{
	const double raised = ldexp(density, (int)doublings);

	return d->select == SELECT_ALL ? density : raised < 1 ? raised : 1;
}

int schedule_sends_all(const struct schedule *s, uint64_t step)
{
	return (s->reset && step % s->reset == 0) || schedule_at_anchor(s, step);
}

int schedule_warms_up_dense(const struct schedule *s, uint64_t step)
{
	return s->warmup_dense && step <= s->warmup_steps && !schedule_sends_all(s, step);
}

struct value_coding schedule_values(const struct schedule *s, const struct direction *d,
				    uint64_t step)
{
	if (schedule_sends_all(s, step))
		return (struct value_coding){ VALUE_F32, 0, 0, 0 };
	if (schedule_warms_up_dense(s, step))
		return WARMUP_VALUES;
	return d->values;
}

uint64_t schedule_count(double density, uint64_t n)
{
	return density_count(density, n);
}
