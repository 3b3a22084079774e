/* SPDX-License-Identifier: BSD-3-Clause
 * Reads up= and down=: the selector of the sent coordinates with its arguments, and the coding of
 * their values. Called by recipe_values.c. */
#include "recipe/recipe_words.h"
#include "base/error.h"
#include "compress/few_bits.h"
#include "sluice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char density_rule[] = "density must be above 0 and at most 1, the share of "
				   "coordinates that is sent: 0.01 or 1% is one in a hundred";

/* ---- selectors ------------------------------------------------------------- */

/* Refuses a number above 1, with which the user probably meant a count or a percentage. */
static int refuse_density(const struct word *w, const struct item *item, double number, int counted)
{
	const char *text = item->argument;
	const int whole = number == floor(number) && number <= UINT32_MAX;
	char count[QUOTE_BYTES] = "", share[QUOTE_BYTES] = "";

	if (!(number > 1) || strchr(text, '%'))
		return refuse_number(w, text, density_rule);
	if (counted && whole)
		snprintf(count, sizeof(count), "%s(k=%u) for %u coordinates", item->name,
			 (uint32_t)number, (uint32_t)number);
	if (number <= 100)
		snprintf(share, sizeof(share), "%s(%.20s%%) for %.20s in a hundred", item->name,
			 text, text);
	if (!*count && !*share)
		return refuse_number(w, text, density_rule);
	return fail(SLUICE_EINVAL,
		    "recipe: \"%.40s\" in \"%s\" is not possible: density must be above 0 and at "
		    "most 1, because it is the share of coordinates that is sent; write %s%s%s",
		    text, w->quote, count, *count && *share ? ", or " : "", share);
}

static int read_count(const struct word *w, const struct item *item, struct direction *d)
{
	static const char rule[] =
		"k= takes the number of coordinates of the whole vector to send, "
		"a whole number from 1 to 4294967295";
	const char *text = item->argument + strlen("k=");

	if (!selection_kinds[d->select].counted)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%.40s\" in \"%s\" is a count, and %s takes a density alone: "
			    "%s",
			    item->argument, w->quote, item->name, density_rule);
	d->count = read_whole(&text, 1, UINT32_MAX);
	return !d->count || *text ? refuse_number(w, item->argument, rule) : SLUICE_OK;
}

/* Reads DENSITY or k=COUNT. */
static int read_density(const struct word *w, const struct item *item, struct direction *d)
{
	const char *end;
	double density;

	if (!item->argument)
		return fail(SLUICE_EINVAL,
			    "recipe: %s lacks its density in \"%s\", write %s=%s(0.01): %s",
			    item->name, w->quote, w->axis->key, item->name, density_rule);
	if (item->argument[0] == '-')
		return refuse_number(w, item->argument, density_rule);
	if (!strncmp(item->argument, "k=", 2))
		return read_count(w, item, d);
	end = read_percent(item->argument, &density);
	if (!end || *end)
		return refuse_text(w, item->argument, density_rule);
	if (!(density > 0 && density <= 1))
		return refuse_density(w, item, density, selection_kinds[d->select].counted);
	d->density = density;
	return SLUICE_OK;
}

/* Splits "a,b,c" at its commas into at most `most` pieces. Returns their number, or
 * SLUICE_EINVAL. */
static int cut_list(const struct word *w, const struct item *item, char *text, const char *pieces[],
		    int most)
{
	int n = 0;

	if (!item->argument)
		return fail(SLUICE_EINVAL,
			    "recipe: %s lacks its density in \"%s\", write %s=%s(0.01): %s",
			    item->name, w->quote, w->axis->key, item->name, density_rule);
	memcpy(text, item->argument, strlen(item->argument) + 1);
	for (char *piece; (piece = strsep(&text, ",")) != NULL;) {
		if (n == most)
			return fail(
				SLUICE_EINVAL,
				"recipe: \"%.40s\" is one number too many for %s in \"%s\": %s= %s",
				piece, item->name, w->quote, w->axis->key, w->axis->takes);
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
		return fail(SLUICE_EINVAL,
			    "recipe: unknown word \"%.40s\" in \"%s\": cyclic takes "
			    "cyclic(DENSITY) for the leader's top-k, or cyclic(DENSITY,chunks) for "
			    "the largest coordinate of each chunk",
			    pieces[1], w->quote);
	d->chunks = n == 2;
	return read_density(w, &(struct item){ item->name, pieces[0] }, d);
}

static int read_sketch(const struct word *w, const struct item *item, struct direction *d)
{
	static const char rule[] =
		"sketch(DENSITY,ROWS,WIDTH,POOL) takes the density that is published; an odd "
		"number of rows, 1 to 15; and two multiples of the published coordinates: the "
		"columns, above 0, and the coordinates that are asked for, 1 to 1000";
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
	if (d->sketch_rows % 2 != 1 || (float)d->sketch_rows != numbers[1] ||
	    !(d->sketch_width > 0) || d->sketch_width > 1e6f || !d->sketch_pool ||
	    (float)d->sketch_pool != numbers[3])
		return refuse_number(w, item->argument, rule);
	return read_density(w, &(struct item){ item->name, pieces[0] }, d);
}

static int read_global(const struct word *w, const struct item *item, struct direction *d)
{
	static const char rule[] =
		"global(DENSITY,EVERY) takes after the comma the number of steps "
		"from one histogram to the next, 1 to 1000000";
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
	return read_density(w, &(struct item){ item->name, pieces[0] }, d);
}

/* Reads K,N. */
static int read_block_topk(const struct word *w, const struct item *item, struct direction *d)
{
	static const char rule[] = "block-topk(K,N) sends K of every N consecutive coordinates: N "
				   "is a whole number from 1 to 16384, and K from 1 to N; "
				   "block-topk(64,4096) sends one in 64";
	const char *at = item->argument;

	_Static_assert(SELECT_BLOCK_MOST == 16384, "the rule names the longest block");
	if (!at)
		return fail(SLUICE_EINVAL,
			    "recipe: %s lacks its numbers in \"%s\", write %s=%s(64,4096): %s",
			    item->name, w->quote, w->axis->key, item->name, rule);
	const unsigned k = read_whole(&at, 1, SELECT_BLOCK_MOST);
	d->block = k && *at == ',' ? (at++, read_whole(&at, k, SELECT_BLOCK_MOST)) : 0;
	if (!d->block || *at)
		return refuse_number(w, item->argument, rule);
	d->density = (double)k / d->block;
	return SLUICE_OK;
}

/* Reads the arguments in the parentheses after a selector. */
static int read_selection(const struct word *w, const struct item *item, struct direction *d)
{
	static const char rule[] =
		"threshold(LAMBDA) takes the smallest magnitude that is sent "
		"(global(DENSITY) finds one by itself), and variance(EPSILON) takes "
		"the added variance as a share of the squared norm; both are above 0";

	switch (selection_kinds[d->select].argument) {
	case ARGUMENT_NONE: return refuse_argument(w, item);
	case ARGUMENT_DENSITY: return read_density(w, item, d);
	case ARGUMENT_CYCLIC: return read_cyclic(w, item, d);
	case ARGUMENT_SKETCH: return read_sketch(w, item, d);
	case ARGUMENT_GLOBAL: return read_global(w, item, d);
	case ARGUMENT_BLOCK: return read_block_topk(w, item, d);
	case ARGUMENT_LEVEL: break;
	}
	if (!item->argument)
		return fail(SLUICE_EINVAL,
			    "recipe: %s lacks its number in \"%s\", write %s=%s(0.1): %s",
			    item->name, w->quote, w->axis->key, item->name, rule);

	int rc = read_float(w, item->argument, rule, &d->level);

	return rc ? rc : d->level > 0 ? SLUICE_OK : refuse_number(w, item->argument, rule);
}

/* ---- values ---------------------------------------------------------------- */

/* Reads the arguments in the parentheses after a value type. */
static int read_coding_argument(const struct word *w, const struct item *item,
				struct value_coding *c)
{
	static const char bits_rule[] =
		"a value has 1 to 8 bits, as in uniform(4) or grid(4); uniform(4,512) has one "
		"scale for every 512 values, a multiple of 8 up to 65528";
	static const char width_rule[] =
		"round(WIDTH) takes the distance of two values, above 0, such as 0.5";
	const char *text = item->argument;

	if (value_eight(c->type))
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" in \"%s\" is a type of gradients, which messages do "
			    "not have: write uniform(8), or e3m0 for three bits of exponent",
			    item->name, w->quote);
	c->bits = value_bits(c->type);
	c->block = c->bits ? UNIFORM_BLOCK : 0;
	if (c->bits || !value_few_bits(c->type))
		return refuse_argument(w, item);
	if (!text)
		return fail(SLUICE_EINVAL, "recipe: %s lacks its number in \"%s\": %s", item->name,
			    w->quote, c->type == VALUE_ROUND ? width_rule : bits_rule);
	if (c->type == VALUE_ROUND) {
		int rc = read_float(w, text, width_rule, &c->step);

		return rc ? rc : c->step > 0 ? SLUICE_OK : refuse_number(w, text, width_rule);
	}
	c->bits = read_whole(&text, 1, VALUE_BITS_MAX);
	if (c->bits && c->type == VALUE_UNIFORM)
		c->block = *text == ',' ? (text++, read_whole(&text, 8, UNIFORM_BLOCK_MAX)) :
					  UNIFORM_BLOCK;
	if (!c->bits || *text || c->block % 8 || (c->type == VALUE_UNIFORM && !c->block))
		return refuse_number(w, item->argument, bits_rule);
	return SLUICE_OK;
}

/* ---- both ------------------------------------------------------------------ */

int read_direction(const struct word *w, struct direction *d)
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
				    "%s=all,%s or %s=topk(DENSITY),%s",
				    w->quote, w->axis->key, item->name, w->axis->key, item->name);
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
