/* SPDX-License-Identifier: BSD-3-Clause
 * Functions for an item of a recipe word and for the numbers in it, whatever the axis. Every
 * refusal is one sentence that quotes the word at fault and says what would be right. */
#include "recipe/recipe_words.h"
#include "base/error.h"
#include "base/nearest.h"
#include "sluice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* For "topk0.1" or "topk=0.1", returns the word that lacks its parentheses, else NULL. */
static const char *word_without_parentheses(const struct axis *axis, const char *name,
					    const char **number)
{
	char form[QUOTE_BYTES];
	double value;

	for (size_t i = 0; i < axis->n_words; i++) {
		size_t n = strlen(axis->words[i]);

		snprintf(form, sizeof(form), "%s(", axis->words[i]);
		if (strncmp(name, axis->words[i], n) != 0 || !strstr(axis->takes, form))
			continue;
		*number = name + n + strspn(name + n, "=:-_");
		if (read_number(*number, &value))
			return axis->words[i];
	}
	return NULL;
}

int find_item(const struct word *w, const struct item *item)
{
	const struct axis *axis = w->axis;

	for (size_t i = 0; i < axis->n_words; i++)
		if (strcmp(item->name, axis->words[i]) == 0)
			return (int)i;
	if (!*item->name)
		return fail(SLUICE_EINVAL, "recipe: a value is missing in \"%s\": %s= %s", w->quote,
			    axis->key, axis->takes);

	const char *number, *bare = word_without_parentheses(axis, item->name, &number);

	if (bare)
		return fail(SLUICE_EINVAL,
			    "recipe: unknown word \"%.40s\" in \"%s\": did you mean \"%s(%.40s)\"?",
			    item->name, w->quote, bare, number);

	const char *near = nearest_word(item->name, axis->words, axis->n_words);

	return fail(SLUICE_EINVAL, "recipe: unknown word \"%.40s\" in \"%s\"%s%s%s %s= %s",
		    item->name, w->quote, near ? ": did you mean \"" : ":", near ? near : "",
		    near ? "\"?" : "", axis->key, axis->takes);
}

int refuse_argument(const struct word *w, const struct item *item)
{
	if (!item->argument)
		return SLUICE_OK;
	return fail(SLUICE_EINVAL,
		    "recipe: \"%.40s\" takes no argument, but has one in \"%s\": %s= %s",
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
	return fail(SLUICE_EINVAL, "recipe: \"%.40s\" in \"%s\" is not possible: %s", text,
		    w->quote, rule);
}

int refuse_text(const struct word *w, const char *text, const char *rule)
{
	return fail(SLUICE_EINVAL,
		    "recipe: \"%.40s\" in \"%s\" is not a number such as 0.9 or 1e-4: %s", text,
		    w->quote, rule);
}

/* A number that a float cannot hold breaks the rule. */
int read_float(const struct word *w, const char *text, const char *rule, float *out)
{
	double value;

	if (text[0] == '-')
		return refuse_number(w, text, rule);

	const char *end = read_number(text, &value);

	if (!end || *end)
		return refuse_text(w, text, rule);
	if (!isfinite((float)value))
		return refuse_number(w, text, rule);
	*out = (float)value;
	return SLUICE_OK;
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
