/* SPDX-License-Identifier: BSD-3-Clause
 * Reads the value of one recipe word. There is one function for each axis, some of them in
 * recipe_direction.c, recipe_dynamics.c and recipe_when.c. Called by recipe.c. */
#include "recipe/recipe_words.h"
#include "base/error.h"
#include "base/nearest.h"
#include "sluice.h"

#include <string.h>

static int read_warmup(const struct word *w, struct draft *d)
{
	static const struct {
		const char *name;
		enum warmup_unit unit;
	} units[] = { { "", WARMUP_STEPS },
		      { "step", WARMUP_STEPS },
		      { "steps", WARMUP_STEPS },
		      { "epoch", WARMUP_EPOCHS },
		      { "epochs", WARMUP_EPOCHS } };
	static const char *const unit_words[] = { "step", "steps", "epoch", "epochs" };
	const double longest = 1e12;
	const char *text = w->value;
	double length;
	const char *unit = read_number(text, &length);

	if (text[0] == '-')
		return refuse_number(w, text, "a warm-up has no negative length");
	if (!unit)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%.40s\" in \"%s\" is not a length: warmup= %s", text,
			    w->quote, w->axis->takes);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(unit, units[i].name) != 0)
			continue;
		if (length > longest)
			return refuse_number(w, text,
					     "a warm-up is at most 1e12 steps or epochs long");
		if (units[i].unit == WARMUP_STEPS && length != (double)(uint64_t)length)
			return refuse_number(w, text,
					     "a warm-up in steps has a whole number of them");
		d->recipe.warmup = length;
		d->recipe.warmup_unit = units[i].unit;
		return SLUICE_OK;
	}

	const char *near = nearest_word(unit, unit_words, 4);

	return fail(SLUICE_EINVAL, "recipe: unknown unit \"%.40s\" in \"%s\"%s%s%s warmup= %s",
		    unit, w->quote, near ? ": did you mean \"" : ":", near ? near : "",
		    near ? "\"?" : "", w->axis->takes);
}

static int read_dense(const struct word *w, struct draft *d)
{
	const char *list = w->value;
	size_t n = strlen(list);

	if (strcmp(list, "none") == 0) {
		d->recipe.dense[0] = '\0';
		return SLUICE_OK;
	}
	if (n >= sizeof(d->recipe.dense))
		return fail(SLUICE_EINVAL,
			    "recipe: the patterns of \"%s\" have %zu characters, at most %zu fit: "
			    "use wildcards",
			    w->quote, n, sizeof(d->recipe.dense) - 1);
	for (const char *p = list;; p++) {
		size_t length = strcspn(p, ",");

		if (length == 0)
			return fail(SLUICE_EINVAL,
				    "recipe: a pattern is empty in \"%s\": dense= %s", w->quote,
				    w->axis->takes);
		if (length == 4 && memcmp(p, "none", 4) == 0)
			return fail(SLUICE_EINVAL,
				    "recipe: \"none\" stands beside patterns in \"%s\": dense= %s "
				    "(a tensor of that name is matched by [n]one)",
				    w->quote, w->axis->takes);
		p += length;
		if (!*p)
			break;
	}
	memcpy(d->recipe.dense, list, n + 1);
	return SLUICE_OK;
}

static int read_clip(const struct word *w, struct draft *d)
{
	static const char rule[] = "clip= takes the largest 2-norm of a local gradient, above 0, "
				   "or none for no clipping";
	float clip;

	if (strcmp(w->value, "none") == 0)
		return SLUICE_OK;

	int rc = read_float(w, w->value, rule, &clip);

	if (rc)
		return rc;
	if (!(clip > 0))
		return refuse_number(w, w->value, rule);
	d->recipe.clip = clip;
	return SLUICE_OK;
}

/* Reads one word of the axis's list, without an argument. Returns its place in the list, or
 * SLUICE_EINVAL. */
static int read_choice(const struct word *w)
{
	int found = find_item(w, &w->items[0]), rc;

	if (found < 0)
		return found;
	rc = refuse_argument(w, &w->items[0]);
	if (!rc)
		rc = refuse_more_items(w, 1);
	return rc ? rc : found;
}

static int read_nonfinite(const struct word *w, struct draft *d)
{
	int choice = read_choice(w);

	if (choice >= 0)
		d->recipe.nonfinite = (enum nonfinite_policy)choice;
	return choice < 0 ? choice : SLUICE_OK;
}

static int read_coding(const struct word *w, struct draft *d)
{
	int choice = read_choice(w);

	if (choice >= 0)
		d->recipe.coding = (enum coding_choice)choice;
	return choice < 0 ? choice : SLUICE_OK;
}

static int read_guard(const struct word *w, struct draft *d)
{
	int choice = read_choice(w);

	if (choice >= 0)
		d->recipe.guard = (enum guard_kind)choice;
	return choice < 0 ? choice : SLUICE_OK;
}

static int read_seed(const struct word *w, struct draft *d)
{
	static const char rule[] = "a seed is a whole number from 0 to 4294967295";
	const char *text = w->value;

	d->recipe.seed = read_whole(&text, 0, UINT32_MAX);
	return *text ? refuse_number(w, w->value, rule) : SLUICE_OK;
}

/* ---- values ---------------------------------------------------------------- */

/* Cuts w->value into items: NAME or NAME(ARGUMENT), separated by commas. */
static int cut_items(struct word *w)
{
	char *p = w->value;

	for (w->n_items = 0; w->n_items < ITEMS_MAX;) {
		struct item *item = &w->items[w->n_items++];
		char *end = p + strcspn(p, ",(");

		item->name = p;
		item->argument = NULL;
		if (*end == '(') {
			*end = '\0';
			item->argument = end + 1;
			end = strchr(end + 1, ')');
			if (!end)
				return fail(SLUICE_EINVAL,
					    "recipe: \"%s\" lacks a closing parenthesis; an "
					    "argument holds no blanks, as in topk(0.01)",
					    w->quote);
			*end++ = '\0';
			if (*end && *end != ',')
				return fail(SLUICE_EINVAL,
					    "recipe: unexpected \"%.40s\" after the parenthesis in "
					    "\"%s\": %s= %s",
					    end, w->quote, w->axis->key, w->axis->takes);
		}
		if (!*end)
			break;
		*end = '\0';
		p = end + 1;
	}
	return SLUICE_OK;
}

/* Whether the axis takes a number or a list of patterns, and no items. */
static int is_plain(enum axis_id id)
{
	return id == AXIS_WARMUP || id == AXIS_DENSE || id == AXIS_CLIP || id == AXIS_DECAY ||
	       id == AXIS_RESET || id == AXIS_SEED;
}

int read_value(enum axis_id id, struct word *w, struct draft *d)
{
	if (!is_plain(id)) {
		int rc = cut_items(w);

		if (rc)
			return rc;
	}
	switch (id) {
	case AXIS_UP: return read_direction(w, &d->recipe.up);
	case AXIS_DOWN: return read_direction(w, &d->recipe.down);
	case AXIS_SIGNAL: return read_signal(w, d);
	case AXIS_MEMORY: return read_memory(w, d);
	case AXIS_UPDATE: return read_update(w, d);
	case AXIS_WARMUP: return read_warmup(w, d);
	case AXIS_DENSE: return read_dense(w, d);
	case AXIS_CLIP: return read_clip(w, d);
	case AXIS_DECAY:
		return read_float(w, w->value,
				  "decay= takes the factor of the weight decay, 0 or above",
				  &d->recipe.decay);
	case AXIS_NONFINITE: return read_nonfinite(w, d);
	case AXIS_CODING: return read_coding(w, d);
	case AXIS_RESET: return read_reset(w, d);
	case AXIS_SEED: return read_seed(w, d);
	case AXIS_WHEN: return read_when(w, d);
	case AXIS_GUARD: return read_guard(w, d);
	case AXES: break;
	}
	return SLUICE_EINVAL;
}
