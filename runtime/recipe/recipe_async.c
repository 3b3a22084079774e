/* SPDX-License-Identifier: BSD-3-Clause
 * The words of a recipe that concern asynchronous steps: when=async, signal=svrg,
 * update=accelerated. They are read here, and refused where they do not fit the others. Called by
 * recipe_when.c and recipe_dynamics.c. */
#include "recipe/recipe_words.h"
#include "base/error.h"
#include "sluice.h"

#include <string.h>

int read_async(const struct word *w, const struct item *item, struct recipe *r)
{
	static const char rule[] =
		"async(TAU) takes the largest staleness, 1 to 1000000 updates, at least the number "
		"of workers less one; async(TAU,whole) publishes parameters rather than their "
		"difference to the anchor";
	const char *text = item->argument;

	if (!text)
		return refuse_number(w, item->name, rule);
	r->staleness = read_whole(&text, 1, 1000000);
	r->whole = strcmp(text, ",whole") == 0;
	return !r->staleness || (*text && !r->whole) ? refuse_number(w, item->argument, rule) :
						       SLUICE_OK;
}

int read_svrg(const struct word *w, const struct item *item, struct recipe *r)
{
	static const char rule[] = "svrg(M) takes the updates from one anchor to the next, of all "
				   "workers together, 1 to 1000000000";
	const char *text = item->argument;

	if (!text)
		return refuse_number(w, item->name, rule);
	r->svrg_steps = read_whole(&text, 1, 1000000000);
	return *text || !r->svrg_steps ? refuse_number(w, item->argument, rule) : SLUICE_OK;
}

static int refuse_svrg(const struct draft *d)
{
	const struct recipe *r = &d->recipe;
	const struct selection_kind *kind = &selection_kinds[r->up.select];

	if (r->when != WHEN_ASYNC)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" is for asynchronous steps: write when=async(TAU)",
			    d->quotes[AXIS_SIGNAL]);
	if (r->nonfinite == NONFINITE_SKIP)
		return fail(SLUICE_EINVAL,
			    "recipe: signal=svrg with nonfinite=skip: no full gradient may be "
			    "missing; write nonfinite=abort or zero");
	if (r->memory != MEMORY_NONE)
		return fail(SLUICE_EINVAL,
			    "recipe: signal=svrg with \"%s\": the difference of two gradients "
			    "vanishes by itself, and a memory would bring back what belongs to an "
			    "older anchor; write memory=none",
			    d->quotes[AXIS_MEMORY]);
	if (r->up.select != SELECT_ALL && !kind->unbiased)
		return fail(SLUICE_EINVAL,
			    "recipe: signal=svrg with \"%s\" would lose what is not sent: write "
			    "up=all,uniform(4) or up=random(DENSITY)",
			    d->quotes[AXIS_UP]);
	if (r->update != UPDATE_SGD && r->update != UPDATE_ACCELERATED)
		return fail(
			SLUICE_EINVAL,
			"recipe: signal=svrg with \"%s\": write update=sgd or update=accelerated",
			d->quotes[AXIS_UPDATE]);
	return SLUICE_OK;
}

int refuse_async(const struct draft *d)
{
	const struct recipe *r = &d->recipe;

	if (r->update == UPDATE_ACCELERATED && r->signal != SIGNAL_SVRG)
		return fail(SLUICE_EINVAL, "recipe: update=accelerated moves from anchor to "
					   "anchor: write signal=svrg(M) when=async(TAU)");
	if (r->signal == SIGNAL_SVRG) {
		int rc = refuse_svrg(d);

		if (rc)
			return rc;
	}
	if (r->when != WHEN_ASYNC)
		return SLUICE_OK;
	if (r->automatic || r->reset || selection_kinds[r->up.select].exchange != EXCHANGE_OWN ||
	    r->up.select == SELECT_GLOBAL)
		return fail(SLUICE_EINVAL,
			    "recipe: when=async with %s, which all workers do in one step: write "
			    "up=all, topk(DENSITY) or random(DENSITY), and reset=none",
			    r->automatic ? "auto" :
			    r->reset     ? d->quotes[AXIS_RESET] :
					   d->quotes[AXIS_UP]);
	if (r->down.select != SELECT_ALL)
		return fail(SLUICE_EINVAL,
			    "recipe: when=async with \"%s\": each worker is sent the model at its "
			    "own time, so there is nothing to select that it knows already; write "
			    "down=all, or down=all,uniform(4)",
			    d->quotes[AXIS_DOWN]);
	if (r->update == UPDATE_NONE || (r->signal != SIGNAL_SVRG && r->signal > SIGNAL_MOMENTUM) ||
	    r->memory > MEMORY_RESIDUAL)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" updates after each push: write it with "
			    "signal=gradient, momentum or svrg, memory=none or residual, and "
			    "update=sgd, momentum, nesterov, ema or accelerated",
			    d->quotes[AXIS_WHEN]);
	return SLUICE_OK;
}
