/* SPDX-License-Identifier: BSD-3-Clause
 * The axes of a recipe that say how a step follows from earlier ones: signal=, memory=, update= and
 * reset=. They are read here, and refused where they do not fit each other. Called by recipe.c and
 * recipe_values.c. */
#include "recipe/recipe_words.h"
#include "base/error.h"
#include "base/nearest.h"
#include "sluice.h"

#include <string.h>

static const char momentum_rule[] = "a momentum must be at least 0 and below 1, for example 0.9";
static const char alpha_rule[] = "ALPHA, the weight of the newest step in the running average, "
				 "must be above 0 and at most 1, or 1/t";
static const char beta_rule[] =
	"BETA, the share of a new error that enters the memory, must be above 0 and at most 1";

/* ---- numbers ---- */

static int read_number_of(const struct word *w, const struct item *item, const char *example,
			  const char *rule, float *out)
{
	if (item->argument)
		return read_float(w, item->argument, rule, out);
	return fail(SLUICE_EINVAL, "recipe: %s lacks its number in \"%s\", write %s=%s(%s): %s",
		    item->name, w->quote, w->axis->key, item->name, example, rule);
}

static int read_momentum(const struct word *w, const struct item *item, float *out)
{
	if (!item->argument)
		return fail(SLUICE_EINVAL,
			    "recipe: %s lacks its factor in \"%s\", write %s=%s(0.9): %s",
			    item->name, w->quote, w->axis->key, item->name, momentum_rule);

	float momentum;
	int rc = read_float(w, item->argument, momentum_rule, &momentum);

	if (rc)
		return rc;
	if (momentum >= 1)
		return refuse_number(w, item->argument, momentum_rule);
	*out = momentum;
	return SLUICE_OK;
}

/* Reads a number above 0 and up to 1. */
static int read_share(const struct word *w, const struct item *item, const char *rule, float *out)
{
	float share;
	int rc = read_number_of(w, item, "0.1", rule, &share);

	if (rc)
		return rc;
	if (!(share > 0 && share <= 1))
		return refuse_number(w, item->argument, rule);
	*out = share;
	return SLUICE_OK;
}

static int read_alpha(const struct word *w, const struct item *item, float *out)
{
	if (item->argument && strcmp(item->argument, "1/t") == 0) {
		*out = 0;
		return SLUICE_OK;
	}
	return read_share(w, item, alpha_rule, out);
}

/* ---- signal ---- */

static int read_noise(const struct word *w, const struct item *item, float *out)
{
	static const char rule[] =
		"noise(R) takes the standard deviation of the noise of each coordinate, above 0";
	int rc = read_number_of(w, item, "0.01", rule, out);

	return rc ? rc : *out > 0 ? SLUICE_OK : refuse_number(w, item->argument, rule);
}

/* Reads an option that may follow the signal's name. */
static int read_signal_option(const struct word *w, const struct item *item, struct draft *d)
{
	struct recipe *r = &d->recipe;
	int found = find_item(w, item), rc;

	if (found < 0)
		return found;
	if (found == WORD_NOISE && !(r->noise > 0))
		return read_noise(w, item, &r->noise);
	if (r->signal == SIGNAL_MOMENTUM && !d->mask_given &&
	    (found == WORD_MASK || found == WORD_NOMASK)) {
		rc = refuse_argument(w, item);
		r->mask = found == WORD_MASK;
		d->mask_given = 1;
		return rc;
	}
	if (found == WORD_MASK || found == WORD_NOMASK || found == WORD_NOISE)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" is one value too many in \"%s\": mask and nomask are "
			    "of momentum, and everything stands once; signal= %s",
			    item->name, w->quote, w->axis->takes);
	return fail(SLUICE_EINVAL, "recipe: \"%s\" is a second signal in \"%s\": signal= %s",
		    item->name, w->quote, w->axis->takes);
}

int read_signal(const struct word *w, struct draft *d)
{
	const struct item *item = &w->items[0];
	struct recipe *r = &d->recipe;
	int found = find_item(w, item), rc;

	if (found < 0)
		return found;
	if (found > SIGNAL_SVRG)
		return fail(
			SLUICE_EINVAL,
			"recipe: \"%s\" does not name the signal: write signal=momentum(0.9),%s",
			w->quote, item->name);
	r->signal = (enum signal_kind)found;
	rc = r->signal == SIGNAL_GRADIENT || r->signal == SIGNAL_INNOVATION ?
		     refuse_argument(w, item) :
	     r->signal == SIGNAL_SVRG     ? read_svrg(w, item, r) :
	     r->signal == SIGNAL_MOMENTUM ? read_momentum(w, item, &r->signal_momentum) :
					    read_alpha(w, item, &r->signal_alpha);
	for (size_t i = 1; i < w->n_items && i < ITEMS_MAX && !rc; i++)
		rc = read_signal_option(w, &w->items[i], d);
	return rc;
}

/* ---- memory ---- */

static int read_placement(const struct word *w, const struct item *item, struct recipe *r)
{
	for (int p = STEP_INSIDE; p <= STEP_OUTSIDE; p++) {
		if (strcmp(item->argument, placement_words[p]) == 0) {
			r->placement = (enum placement)p;
			return refuse_more_items(w, 1);
		}
	}

	const char *near = nearest_word(item->argument, placement_words, 2);

	return fail(SLUICE_EINVAL,
		    "recipe: unknown placement \"%.40s\" in \"%s\"%s%s%s the step size is applied "
		    "inside the residual or outside of it",
		    item->argument, w->quote, near ? ": did you mean \"" : ":", near ? near : "",
		    near ? "\"?" : "");
}

int read_memory(const struct word *w, struct draft *d)
{
	const struct item *item = &w->items[0];
	struct recipe *r = &d->recipe;
	int found = find_item(w, item), rc;

	if (found < 0)
		return found;
	if (found > MEMORY_TWOSTEP)
		return fail(
			SLUICE_EINVAL,
			"recipe: \"%s\" does not say what is remembered: write memory=residual(%s)",
			w->quote, item->name);
	r->memory = (enum memory_kind)found;
	if (found == MEMORY_NONE || (found == MEMORY_RESIDUAL && !item->argument)) {
		rc = refuse_argument(w, item);
		return rc ? rc : refuse_more_items(w, 1);
	}
	if (found == MEMORY_RESIDUAL)
		return read_placement(w, item, r);
	rc = read_share(w, item, beta_rule, &r->memory_beta);
	if (found == MEMORY_TWOSTEP)
		r->placement = STEP_OUTSIDE; /* its errors are those of gradients */
	if (rc || found == MEMORY_TWOSTEP || w->n_items < 2)
		return rc ? rc : refuse_more_items(w, 1);
	found = find_item(w, &w->items[1]);
	if (found < 0)
		return found;
	if (found != WORD_INSIDE && found != WORD_OUTSIDE)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" is a second memory in \"%s\": memory= %s",
			    w->items[1].name, w->quote, w->axis->takes);
	r->placement = found == WORD_INSIDE ? STEP_INSIDE : STEP_OUTSIDE;
	rc = refuse_argument(w, &w->items[1]);
	return rc ? rc : refuse_more_items(w, 2);
}

/* ---- update, reset ---- */

int read_update(const struct word *w, struct draft *d)
{
	const struct item *item = &w->items[0];
	int found = find_item(w, item);
	int rc;

	if (found < 0)
		return found;
	d->recipe.update = (enum update_kind)found;
	if (found == UPDATE_MOMENTUM || found == UPDATE_NESTEROV)
		rc = read_momentum(w, item, &d->recipe.update_momentum);
	else if (found == UPDATE_EMA)
		rc = read_alpha(w, item, &d->recipe.update_alpha);
	else
		rc = refuse_argument(w, item);
	return rc ? rc : refuse_more_items(w, 1);
}

int read_reset(const struct word *w, struct draft *d)
{
	static const char rule[] = "reset= takes a number of steps, 1 to 1000000000, or none";
	const char *text = w->value;

	if (strcmp(text, "none") == 0)
		return SLUICE_OK;
	d->recipe.reset = read_whole(&text, 1, 1000000000);
	return *text || !d->recipe.reset ? refuse_number(w, w->value, rule) : SLUICE_OK;
}

/* ---- combinations ---- */

/* Whether the selection leaves so much behind that two-step memory with BETA = 1 grows without
 * bound. */
static int is_coarse(const struct direction *up)
{
	const double least_density = 0.5; /* the density is 1 for selectors that have none */

	if (up->density < least_density)
		return 1;
	return (up->values.type == VALUE_UNIFORM || up->values.type == VALUE_GRID) &&
	       up->values.bits < 3;
}

static int refuse_twostep(const struct draft *d)
{
	const struct recipe *r = &d->recipe;

	if (r->update != UPDATE_EMA && r->update != UPDATE_SGD)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" with \"%s\": two-step memory is made for a running "
			    "average at the shard: write update=ema(ALPHA), or update=sgd, with "
			    "which it is memory=residual",
			    d->quotes[AXIS_MEMORY], d->quotes[AXIS_UPDATE]);
	if (r->nonfinite == NONFINITE_SKIP)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" with nonfinite=skip: two-step memory needs the errors "
			    "of consecutive steps; write nonfinite=abort or zero",
			    d->quotes[AXIS_MEMORY]);
	if (r->update == UPDATE_EMA && r->memory_beta == 1 && (r->automatic || is_coarse(&r->up)))
		return fail(SLUICE_EINVAL,
			    "recipe: memory=twostep(1) with \"%s\" diverges: the memory of a "
			    "coordinate that is not sent grows with every step; write "
			    "twostep(0.3), or send more: at least half of the coordinates, 3 bits "
			    "a value, or round(WIDTH)",
			    r->automatic ? "auto" : d->quotes[AXIS_UP]);
	return SLUICE_OK;
}

int refuse_dynamics(const struct draft *d)
{
	const struct recipe *r = &d->recipe;
	int extrapolates = r->signal == SIGNAL_STORM || r->signal == SIGNAL_IGT;

	if (extrapolates && (r->update != UPDATE_EMA || r->update_alpha != r->signal_alpha))
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" corrects for the running average at the shard: write "
			    "update=ema(ALPHA) with the same ALPHA",
			    d->quotes[AXIS_SIGNAL]);
	if (r->reset && r->memory != MEMORY_RESIDUAL)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" needs memory=residual: it sends the residual whole, so "
			    "that nothing is left; with another memory there is none, or it does "
			    "not hold what is missing",
			    d->quotes[AXIS_RESET]);
	return r->memory == MEMORY_TWOSTEP ? refuse_twostep(d) : SLUICE_OK;
}
