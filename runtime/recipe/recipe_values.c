/* SPDX-License-Identifier: BSD-3-Clause
 * Reads the value of one recipe word: one function for each axis, some in recipe_dynamics.c. Every refusal
 * is one sentence that quotes the offending word and says what would be right. Called by recipe.c. */
#include "recipe/recipe_words.h"
#include "base/error.h"
#include "base/nearest.h"
#include "compress/few_bits.h"
#include "sluice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char density_rule[] = "density must be above 0 and at most 1, the share of coordinates "
				   "that is sent: 0.01 or 1% is one in a hundred";

/* ---- items and their arguments --------------------------------------------------------------- */

int find_item(const struct word *w, const struct item *item)
{
	const struct axis *axis = w->axis;

	for (size_t i = 0; i < axis->n_words; i++)
		if (strcmp(item->name, axis->words[i]) == 0)
			return (int)i;
	if (!*item->name)
		return fail(SLUICE_EINVAL, "recipe: a value is missing in \"%s\": %s= %s", w->quote,
			    axis->key, axis->takes);

	const char *near = nearest_word(item->name, axis->words, axis->n_words);

	return fail(SLUICE_EINVAL, "recipe: unknown word \"%.40s\" in \"%s\"%s%s%s %s= %s",
		    item->name, w->quote, near ? ": did you mean \"" : ":", near ? near : "",
		    near ? "\"?" : "", axis->key, axis->takes);
}

int refuse_argument(const struct word *w, const struct item *item)
{
	if (!item->argument)
		return SLUICE_OK;
	return fail(SLUICE_EINVAL, "recipe: \"%.40s\" takes no argument, but has one in \"%s\": %s= %s",
		    item->name, w->quote, w->axis->key, w->axis->takes);
}

int refuse_more_items(const struct word *w, size_t most)
{
	if (w->n_items <= most)
		return SLUICE_OK;
	return fail(SLUICE_EINVAL, "recipe: \"%.40s\" is one value too many in \"%s\": %s= %s",
		    w->items[most].name, w->quote, w->axis->key, w->axis->takes);
}

int refuse_number(const struct word *w, const char *text, const char *rule)
{
	return fail(SLUICE_EINVAL, "recipe: \"%.40s\" in \"%s\" is not possible: %s", text, w->quote,
		    rule);
}

static int not_a_number(const struct word *w, const char *text, const char *rule)
{
	return fail(SLUICE_EINVAL,
		    "recipe: \"%.40s\" in \"%s\" is not a number such as 0.9 or 1e-4: %s", text,
		    w->quote, rule);
}

static int read_density(const struct word *w, const struct item *item, double *out)
{
	char scaled[RECIPE_TEXT_BYTES + 4];
	const char *end;
	double density;

	if (!item->argument)
		return fail(SLUICE_EINVAL, "recipe: %s lacks its density in \"%s\", write %s=%s(0.01): %s",
			    item->name, w->quote, w->axis->key, item->name, density_rule);
	if (item->argument[0] == '-')
		return refuse_number(w, item->argument, density_rule);
	end = read_number(item->argument, &density);
	if (end && strcmp(end, "%") == 0) {
		/* By the exponent: 0.7 / 100 is not the double nearest to 0.007. */
		snprintf(scaled, sizeof(scaled), "%.*se-2", (int)(end - item->argument),
			 item->argument);
		end = read_number(scaled, &density);
	}
	if (!end || *end)
		return not_a_number(w, item->argument, density_rule);
	if (!(density > 0 && density <= 1))
		return refuse_number(w, item->argument, density_rule);
	*out = density;
	return SLUICE_OK;
}

/* What a float cannot hold breaks the rule. */
int read_float(const struct word *w, const char *text, const char *rule, float *out)
{
	double value;

	if (text[0] == '-')
		return refuse_number(w, text, rule);

	const char *end = read_number(text, &value);

	if (!end || *end)
		return not_a_number(w, text, rule);
	if (!isfinite((float)value))
		return refuse_number(w, text, rule);
	*out = (float)value;
	return SLUICE_OK;
}

/* Cuts "a,b,c" at its commas, at most `most` pieces; returns how many, or SLUICE_EINVAL. */
static int cut_list(const struct word *w, const struct item *item, char *text, const char *pieces[],
		    int most)
{
	int n = 0;

	if (!item->argument)
		return fail(SLUICE_EINVAL, "recipe: %s lacks its density in \"%s\", write %s=%s(0.01): %s",
			    item->name, w->quote, w->axis->key, item->name, density_rule);
	memcpy(text, item->argument, strlen(item->argument) + 1);
	for (char *piece; (piece = strsep(&text, ",")) != NULL;) {
		if (n == most)
			return fail(SLUICE_EINVAL, "recipe: \"%.40s\" is one number too many for %s in "
				    "\"%s\": %s= %s", piece, item->name, w->quote, w->axis->key,
				    w->axis->takes);
		pieces[n++] = piece;
	}
	return n;
}

static int read_cyclic(const struct word *w, const struct item *item, struct direction *d)
{
	char text[RECIPE_TEXT_BYTES];
	const char *pieces[2];
	int n = cut_list(w, item, text, pieces, 2);

	if (n < 0)
		return n;
	if (n == 2 && strcmp(pieces[1], "chunks") != 0)
		return fail(SLUICE_EINVAL, "recipe: unknown word \"%.40s\" in \"%s\": cyclic takes "
			    "cyclic(DENSITY) for the leader's top-k, or cyclic(DENSITY,chunks) for the largest "
			    "coordinate of each chunk", pieces[1], w->quote);
	d->chunks = n == 2;
	return read_density(w, &(struct item){ item->name, pieces[0] }, &d->density);
}

static int read_sketch(const struct word *w, const struct item *item, struct direction *d)
{
	static const char rule[] = "sketch(DENSITY,ROWS,WIDTH,POOL) takes the density that is published; an odd "
				   "number of rows, 1 to 15; columns as a multiple of the coordinates "
				   "published, above 0; and how many times as many coordinates are asked for, "
				   "1 to 1000";
	char text[RECIPE_TEXT_BYTES];
	const char *pieces[4];
	float numbers[4] = { 0, 5, 1.6f, 4 };
	int n = cut_list(w, item, text, pieces, 4), rc = 0;

	if (n < 0)
		return n;
	for (int i = 1; i < n && !rc; i++)
		rc = read_float(w, pieces[i], rule, &numbers[i]);
	if (rc)
		return rc;
	d->sketch_rows = numbers[1] >= 1 && numbers[1] <= 15 ? (uint32_t)numbers[1] : 0;
	d->sketch_width = numbers[2];
	d->sketch_pool = numbers[3] >= 1 && numbers[3] <= 1000 ? (uint32_t)numbers[3] : 0;
	if (d->sketch_rows % 2 != 1 || (float)d->sketch_rows != numbers[1] || !(d->sketch_width > 0) ||
	    d->sketch_width > 1e6f || !d->sketch_pool || (float)d->sketch_pool != numbers[3])
		return refuse_number(w, item->argument, rule);
	return read_density(w, &(struct item){ item->name, pieces[0] }, &d->density);
}

static int read_global(const struct word *w, const struct item *item, struct direction *d)
{
	static const char rule[] = "global(DENSITY,EVERY) takes after the comma how many steps there are from "
				   "one histogram to the next, 1 to 1000000";
	char text[RECIPE_TEXT_BYTES];
	const char *pieces[2];
	float every = 20;
	int n = cut_list(w, item, text, pieces, 2);
	int rc = n < 0 ? n : n == 2 ? read_float(w, pieces[1], rule, &every) : SLUICE_OK;

	if (rc)
		return rc;
	if (!(every >= 1 && every <= 1e6f && every == (float)(uint32_t)every))
		return refuse_number(w, pieces[1], rule);
	d->every = (uint32_t)every;
	return read_density(w, &(struct item){ item->name, pieces[0] }, &d->density);
}

/* What stands in the parentheses behind a selector. */
static int read_selection(const struct word *w, const struct item *item, struct direction *d)
{
	static const char rule[] = "threshold(LAMBDA) takes the least magnitude that is sent "
				   "(global(DENSITY) finds it), "
				   "variance(EPSILON) the variance added, as a share of the squared "
				   "norm; both are above 0";

	switch (selection_kinds[d->select].argument) {
	case ARGUMENT_NONE:
		return refuse_argument(w, item);
	case ARGUMENT_DENSITY:
		return read_density(w, item, &d->density);
	case ARGUMENT_CYCLIC:
		return read_cyclic(w, item, d);
	case ARGUMENT_SKETCH:
		return read_sketch(w, item, d);
	case ARGUMENT_GLOBAL:
		return read_global(w, item, d);
	case ARGUMENT_LEVEL:
		break;
	}
	if (!item->argument)
		return fail(SLUICE_EINVAL, "recipe: %s lacks its number in \"%s\", write %s=%s(0.1): %s",
			    item->name, w->quote, w->axis->key, item->name, rule);

	int rc = read_float(w, item->argument, rule, &d->level);

	return rc ? rc : d->level > 0 ? SLUICE_OK : refuse_number(w, item->argument, rule);
}

unsigned read_whole(const char **text, unsigned low, unsigned high)
{
	double value;
	const char *end = read_number(*text, &value);

	if (!end || !(value >= low && value <= high) || value != (double)(unsigned)value)
		return 0;
	*text = end;
	return (unsigned)value;
}

/* What stands in the parentheses behind a type of values. */
static int read_coding_argument(const struct word *w, const struct item *item, struct value_coding *c)
{
	static const char bits_rule[] = "a value has 1 to 8 bits, as in uniform(4) or grid(4); uniform(4,512) has "
					"one scale for every 512 values, a multiple of 8 up to 65528";
	static const char width_rule[] = "round(WIDTH) takes the distance of two values, above 0, such as 0.5";
	const char *text = item->argument;

	if (!value_few_bits(c->type))
		return refuse_argument(w, item);
	if (!text)
		return fail(SLUICE_EINVAL, "recipe: %s lacks its number in \"%s\": %s", item->name, w->quote,
			    c->type == VALUE_ROUND ? width_rule : bits_rule);
	if (c->type == VALUE_ROUND) {
		int rc = read_float(w, text, width_rule, &c->step);

		return rc ? rc : c->step > 0 ? SLUICE_OK : refuse_number(w, text, width_rule);
	}
	c->bits = read_whole(&text, 1, VALUE_BITS_MAX);
	if (c->bits && c->type == VALUE_UNIFORM)
		c->block = *text == ',' ? (text++, read_whole(&text, 8, UNIFORM_BLOCK_MAX)) : UNIFORM_BLOCK;
	if (!c->bits || *text || c->block % 8 || (c->type == VALUE_UNIFORM && !c->block))
		return refuse_number(w, item->argument, bits_rule);
	return SLUICE_OK;
}

/* ---- one function for each axis -------------------------------------------------------------- */

static int read_direction(const struct word *w, struct direction *d)
{
	for (size_t i = 0; i < w->n_items && i < 2; i++) {
		const struct item *item = &w->items[i];
		int found = find_item(w, item);
		int rc = SLUICE_OK;

		if (found < 0)
			return found;
		if (i == 0 && found >= WORD_VALUES)
			return fail(SLUICE_EINVAL,
				    "recipe: \"%s\" does not say which coordinates are sent: write "
				    "%s=all,%s or %s=topk(DENSITY),%s", w->quote, w->axis->key,
				    item->name, w->axis->key, item->name);
		if (i == 1 && found < WORD_VALUES)
			return fail(SLUICE_EINVAL,
				    "recipe: \"%s\" is a second selection in \"%s\": %s= %s",
				    item->name, w->quote, w->axis->key, w->axis->takes);
		if (found >= WORD_VALUES) {
			d->values.type = (enum value_type)(found - WORD_VALUES);
			rc = read_coding_argument(w, item, &d->values);
		} else {
			d->select = (enum selection)found;
			rc = read_selection(w, item, d);
		}
		if (rc)
			return rc;
	}
	return refuse_more_items(w, 2);
}

static int read_warmup(const struct word *w, struct draft *d)
{
	static const struct {
		const char *name;
		enum warmup_unit unit;
	} units[] = { { "", WARMUP_STEPS },	  { "step", WARMUP_STEPS },
		      { "steps", WARMUP_STEPS },  { "epoch", WARMUP_EPOCHS },
		      { "epochs", WARMUP_EPOCHS } };
	static const char *const unit_words[] = { "step", "steps", "epoch", "epochs" };
	const double longest = 1e12;
	const char *text = w->value;
	double length;
	const char *unit = read_number(text, &length);

	if (text[0] == '-')
		return refuse_number(w, text, "a warm-up has no negative length");
	if (!unit)
		return fail(SLUICE_EINVAL, "recipe: \"%.40s\" in \"%s\" is not a length: warmup= %s",
			    text, w->quote, w->axis->takes);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(unit, units[i].name) != 0)
			continue;
		if (length > longest)
			return refuse_number(w, text, "a warm-up is at most 1e12 steps or epochs long");
		if (units[i].unit == WARMUP_STEPS && length != (double)(uint64_t)length)
			return refuse_number(w, text, "a warm-up in steps has a whole number of them");
		d->recipe.warmup = length;
		d->recipe.warmup_unit = units[i].unit;
		return SLUICE_OK;
	}

	const char *near = nearest_word(unit, unit_words, 4);

	return fail(SLUICE_EINVAL, "recipe: unknown unit \"%.40s\" in \"%s\"%s%s%s warmup= %s", unit,
		    w->quote, near ? ": did you mean \"" : ":", near ? near : "", near ? "\"?" : "",
		    w->axis->takes);
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
			    "recipe: the patterns of \"%s\" have %zu characters, at most %zu fit: use "
			    "wildcards", w->quote, n, sizeof(d->recipe.dense) - 1);
	for (const char *p = list;; p++) {
		size_t length = strcspn(p, ",");

		if (length == 0)
			return fail(SLUICE_EINVAL, "recipe: a pattern is empty in \"%s\": dense= %s",
				    w->quote, w->axis->takes);
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
	static const char rule[] = "clip= takes the largest 2-norm of a local gradient, above 0, or "
				   "none for no clipping";
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

/* One word of the axis's list, without argument: its place there, or SLUICE_EINVAL. */
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

static int read_seed(const struct word *w, struct draft *d)
{
	static const char rule[] = "a seed is a whole number from 0 to 4294967295";
	const char *text = w->value;

	d->recipe.seed = read_whole(&text, 0, UINT32_MAX);
	return *text ? refuse_number(w, w->value, rule) : SLUICE_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

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
					    "recipe: \"%s\" lacks a closing parenthesis; an argument "
					    "holds no blanks, as in topk(0.01)", w->quote);
			*end++ = '\0';
			if (*end && *end != ',')
				return fail(SLUICE_EINVAL,
					    "recipe: unexpected \"%.40s\" after the parenthesis in "
					    "\"%s\": %s= %s", end, w->quote, w->axis->key,
					    w->axis->takes);
		}
		if (!*end)
			break;
		*end = '\0';
		p = end + 1;
	}
	return SLUICE_OK;
}

/* These take one number or a list of patterns, not items. */
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
	case AXIS_UP:
		return read_direction(w, &d->recipe.up);
	case AXIS_DOWN:
		return read_direction(w, &d->recipe.down);
	case AXIS_SIGNAL:
		return read_signal(w, d);
	case AXIS_MEMORY:
		return read_memory(w, d);
	case AXIS_UPDATE:
		return read_update(w, d);
	case AXIS_WARMUP:
		return read_warmup(w, d);
	case AXIS_DENSE:
		return read_dense(w, d);
	case AXIS_CLIP:
		return read_clip(w, d);
	case AXIS_DECAY:
		return read_float(w, w->value, "decay= takes the factor of the weight decay, 0 or above",
				  &d->recipe.decay);
	case AXIS_NONFINITE:
		return read_nonfinite(w, d);
	case AXIS_CODING:
		return read_coding(w, d);
	case AXIS_RESET:
		return read_reset(w, d);
	case AXIS_SEED:
		return read_seed(w, d);
	case AXIS_WHEN:
		return read_when(w, d);
	case AXES:
		break;
	}
	return SLUICE_EINVAL;
}
