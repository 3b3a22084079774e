/* SPDX-License-Identifier: BSD-3-Clause
 * The axis of a recipe that says in which steps a worker uploads: when=. It is read here, and
 * refused where it does not fit the others. Called by recipe.c and recipe_values.c. */
#include "recipe/recipe_words.h"
#include "base/error.h"
#include "sluice.h"

#include <string.h>

static int read_every(const struct word *w, const struct item *item, struct recipe *r)
{
	static const char rule[] = "every(P) takes a number of steps, 1 to 1000000";
	const char *text = item->argument;

	if (!text)
		return refuse_number(w, item->name, rule);
	r->period = read_whole(&text, 1, 1000000);
	return *text || !r->period ? refuse_number(w, item->argument, rule) : SLUICE_OK;
}

/* WINDOW,WEIGHT[,LONGEST] */
static int read_lazy(const struct word *w, const struct item *item, struct recipe *r)
{
	static const char rule[] =
		"lazy(WINDOW,WEIGHT,LONGEST) takes how many model changes it looks back on, 1 to "
		"100; the weight of each, above 0; and, if there shall be such a bound, the "
		"longest run of pushes that are left out";
	char text[RECIPE_TEXT_BYTES];
	const char *at = item->argument, *weight, *longest;

	if (!at)
		return refuse_number(w, item->name, rule);
	r->lazy_window = read_whole(&at, 1, LAZY_WINDOW_MAX);
	if (!r->lazy_window || *at != ',')
		return refuse_number(w, item->argument, rule);
	weight = at + 1;
	longest = strchr(weight, ',');
	memcpy(text, weight, strlen(weight) + 1);
	if (longest)
		text[longest - weight] = '\0';

	int rc = read_float(w, text, rule, &r->lazy_weight);

	if (rc)
		return rc;
	if (!(r->lazy_weight > 0))
		return refuse_number(w, item->argument, rule);
	if (!longest)
		return SLUICE_OK;
	at = longest + 1;
	r->lazy_longest = read_whole(&at, 1, 1000000000);
	return *at || !r->lazy_longest ? refuse_number(w, item->argument, rule) : SLUICE_OK;
}

int read_when(const struct word *w, struct draft *d)
{
	const struct item *item = &w->items[0];
	int found = find_item(w, item), rc;

	if (found < 0)
		return found;
	d->recipe.when = (enum when_kind)found;
	if (found == WHEN_ALWAYS)
		rc = refuse_argument(w, item);
	else if (found == WHEN_EVERY)
		rc = read_every(w, item, &d->recipe);
	else if (found == WHEN_ASYNC)
		rc = read_async(w, item, &d->recipe);
	else
		rc = read_lazy(w, item, &d->recipe);
	return rc ? rc : refuse_more_items(w, 1);
}

static int is_lazy(const struct recipe *r)
{
	return r->when == WHEN_LAZY || r->when == WHEN_LAZY_SERVER;
}

static int refuse_innovation(const struct draft *d)
{
	const struct recipe *r = &d->recipe;

	if (r->memory != MEMORY_NONE)
		return fail(SLUICE_EINVAL,
			    "recipe: signal=innovation with \"%s\" would count twice what was not "
			    "sent: it is in the next difference again; write memory=none",
			    d->quotes[AXIS_MEMORY]);
	if (selection_kinds[r->up.select].unbiased || selection_kinds[r->up.select].seeded)
		return fail(SLUICE_EINVAL,
			    "recipe: signal=innovation with \"%s\", which scales up what it sends, "
			    "would run away from the gradient: write up=all or up=topk(DENSITY)",
			    d->quotes[AXIS_UP]);
	if (r->when == WHEN_EVERY && r->period > 1)
		return fail(SLUICE_EINVAL,
			    "recipe: signal=innovation with \"%s\": after steps of its own a "
			    "worker has no gradient of the common model; write "
			    "when=lazy(WINDOW,WEIGHT) or when=always",
			    d->quotes[AXIS_WHEN]);
	return SLUICE_OK;
}

static int refuse_average(const struct draft *d)
{
	const struct recipe *r = &d->recipe;
	int blocks = r->up.select == SELECT_BLOCK;

	if (r->up.select != r->down.select || (r->up.select != SELECT_ALL && !blocks) ||
	    (blocks && r->up.density != r->down.density))
		return fail(SLUICE_EINVAL,
			    "recipe: update=average sets the parameters that are pushed, and no "
			    "others, to their mean: write up=all down=all, or up=block(DENSITY) "
			    "down=block(DENSITY) with one density");
	if (r->memory != MEMORY_NONE || r->signal != SIGNAL_GRADIENT || r->noise > 0 ||
	    is_lazy(r) || r->decay > 0 || r->clip > 0)
		return fail(SLUICE_EINVAL,
			    "recipe: update=average averages parameters, not gradients: write it "
			    "with memory=none, and without signal=, decay=, clip= and when=lazy");
	if (r->nonfinite != NONFINITE_ABORT)
		return fail(SLUICE_EINVAL,
			    "recipe: update=average with nonfinite=%s would count parameters that "
			    "are left out as zeros: write nonfinite=abort",
			    r->nonfinite == NONFINITE_ZERO ? "zero" :
			    r->nonfinite == NONFINITE_SKIP ? "skip" :
							     "skip-all");
	return SLUICE_OK;
}

static int refuse_every(const struct draft *d)
{
	const struct recipe *r = &d->recipe;

	if (r->update == UPDATE_NONE || r->update == UPDATE_EMA || r->signal > SIGNAL_MOMENTUM ||
	    r->reset || r->memory > MEMORY_RESIDUAL || r->placement == STEP_OUTSIDE)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" lets each worker take steps of plain SGD, whose size "
			    "is inside: write it with update=sgd, momentum, nesterov or average, "
			    "signal=gradient or momentum, and memory=none or residual(inside)",
			    d->quotes[AXIS_WHEN]);
	if (selection_kinds[r->up.select].exchange != EXCHANGE_OWN || r->automatic)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" with %s: write up=all or up=topk(DENSITY)",
			    d->quotes[AXIS_WHEN], r->automatic ? "auto" : d->quotes[AXIS_UP]);
	return SLUICE_OK;
}

int refuse_when(const struct draft *d)
{
	const struct recipe *r = &d->recipe;
	int rc = SLUICE_OK;

	if (is_lazy(r) && r->signal != SIGNAL_INNOVATION)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" leaves out uploads, so the shards must go on with what "
			    "they have of each worker: write signal=innovation",
			    d->quotes[AXIS_WHEN]);
	if (is_lazy(r) && (r->update == UPDATE_NONE || r->automatic))
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" judges by the model's changes: write update=sgd, and "
			    "up= and down= in place of auto",
			    d->quotes[AXIS_WHEN]);
	if (r->when == WHEN_LAZY_SERVER &&
	    (r->up.select != SELECT_ALL || r->up.values.type != VALUE_F32))
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" takes what is uploaded for exact: write up=all, or "
			    "when=lazy",
			    d->quotes[AXIS_WHEN]);
	if (r->nonfinite == NONFINITE_SKIP_ALL && r->when != WHEN_ALWAYS)
		return fail(SLUICE_EINVAL,
			    "recipe: nonfinite=skip-all with \"%s\": all workers decide on each "
			    "step together, and these make steps alone; write when=always, or "
			    "nonfinite=skip or zero",
			    d->quotes[AXIS_WHEN]);
	if (r->signal == SIGNAL_INNOVATION)
		rc = refuse_innovation(d);
	if (!rc && r->update == UPDATE_AVERAGE)
		rc = refuse_average(d);
	if (!rc && r->up.select != r->down.select &&
	    (r->up.select == SELECT_BLOCK || r->down.select == SELECT_BLOCK))
		rc = fail(SLUICE_EINVAL, "recipe: block is for averages of parameters: write "
					 "up=block(DENSITY) down=block(DENSITY) update=average");
	if (!rc && r->up.select == SELECT_BLOCK && r->update != UPDATE_AVERAGE)
		rc = fail(SLUICE_EINVAL,
			  "recipe: \"%s\" leaves most of each gradient out for good: write "
			  "update=average, or up=randk(DENSITY)",
			  d->quotes[AXIS_UP]);
	if (!rc)
		rc = refuse_async(d);
	return !rc && r->when == WHEN_EVERY ? refuse_every(d) : rc;
}
