/* SPDX-License-Identifier: BSD-3-Clause
 * The recipe parser. It cuts the text into words KEY=VALUE, lets recipe_values.c read each value,
 * and sets the defaults that depend on other axes. Then recipe_exclusions.c checks the whole
 * recipe. Called by model_open.c, and by sluice-train to check a recipe early. */
#include "recipe/recipe_words.h"
#include "recipe/budgets.h"
#include "recipe/methods.h"
#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "compress/few_bits.h"
#include "sluice.h"

#include <fnmatch.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { KEYS_BYTES = 200 };

/* Writes "up, down, ... and seed". */
static const char *all_keys(char text[KEYS_BYTES])
{
	size_t n = 0;

	for (int id = 0; id < AXES && n < KEYS_BYTES; id++)
		n += (size_t)snprintf(text + n, KEYS_BYTES - n, "%s%s",
				      !id           ? "" :
				      id + 1 < AXES ? ", " :
						      " and ",
				      recipe_axes[id].key);
	return text;
}

static void quote_word(const char *word, char quote[QUOTE_BYTES])
{
	size_t n = strlen(word);

	if (n < QUOTE_BYTES) {
		memcpy(quote, word, n + 1);
	} else {
		memcpy(quote, word, QUOTE_BYTES - 4);
		memcpy(quote + QUOTE_BYTES - 4, "...", 4);
	}
}

/* ---- words ----------------------------------------------------------------- */

static int is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Copies the next word to w->text. Returns the text after it, or NULL if there is no word. */
static const char *next_word(const char *text, struct word *w)
{
	size_t n = 0;

	while (is_blank(*text))
		text++;
	if (!*text)
		return NULL;
	for (; *text && !is_blank(*text); text++)
		w->text[n++] = *text;
	w->text[n] = '\0';
	return text;
}

static int refuse_key(const char *key, const char *quote)
{
	const char *keys[AXES];
	char list[KEYS_BYTES];

	for (int id = 0; id < AXES; id++)
		keys[id] = recipe_axes[id].key;

	const char *near = nearest_word(key, keys, AXES);

	return fail(SLUICE_EINVAL, "recipe: unknown key \"%.40s\" in \"%s\"%s%s%s keys are %s", key,
		    quote, near ? ": did you mean \"" : ":", near ? near : "", near ? "\"?" : "",
		    all_keys(list));
}

static const char auto_word[] = "auto";

static int is_auto(const char *text)
{
	const size_t n = strlen(auto_word);

	return !strncmp(text, auto_word, n) && (!text[n] || text[n] == '(');
}

/* auto replaces up= and down=, and reserves room for every possible choice. With a density, it is
 * one of the budgets. */
static int read_auto(const struct word *w, struct draft *d)
{
	const char *argument = w->text + strlen(auto_word);
	struct recipe *r = &d->recipe;
	double density = 0;

	if (r->automatic)
		return fail(SLUICE_EINVAL, "recipe: auto is given twice");
	r->automatic = 1;
	if (!*argument)
		return SLUICE_OK;

	const char *end = read_percent(argument + 1, &density);

	r->budget = end && !strcmp(end, ")") ? budget_of_density(density) : 0;
	if (!r->budget)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" names no budget: write auto(0.1), auto(0.01) or "
			    "auto(0.001), whose messages have the bytes of topk with this density, "
			    "or auto, which chooses one of them by the times of the first steps",
			    w->quote);
	r->up.density = budget_largest(r->budget, BUDGET_UP);
	r->down.density = budget_largest(r->budget, BUDGET_DOWN);
	return SLUICE_OK;
}

static int choose_method(struct draft *d, const struct method *method)
{
	if (d->method)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" and \"%s\" are two methods: name one of them, and "
			    "adjust it with words KEY=VALUE",
			    d->method->name, method->name);
	d->method = method;
	return SLUICE_OK;
}

/* Reads "method=NAME", which is the same as the name alone. */
static const char method_key[] = "method=";

static int read_method_key(const struct word *w, struct draft *d)
{
	const char *name = w->text + strlen(method_key);
	const struct method *method = method_find(name);
	const char *near = method_nearest(name);

	if (method)
		return choose_method(d, method);
	return fail(SLUICE_EINVAL,
		    "recipe: \"%s\" names no method%s%s%s: sluice-train --methods lists them",
		    w->quote, near ? ", did you mean \"method=" : "", near ? near : "",
		    near ? "\"?" : "");
}

/* Reads a word without "=" other than auto. Such a word is the name of a method. */
static int read_name(const struct word *w, struct draft *d)
{
	const struct method *method = method_find(w->text);
	char list[KEYS_BYTES];

	if (method)
		return choose_method(d, method);

	const struct foreign_name *foreign = foreign_name_find(w->text);
	const char *near = method_nearest(w->text);
	size_t name = strcspn(w->text, "(");

	if (foreign)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" is a name in other libraries: write \"%s\"%s%s",
			    w->quote, foreign->recipe, *foreign->remark ? ": " : "",
			    foreign->remark);
	for (int i = 0; i < SELECTIONS; i++)
		if (w->text[name] && strlen(recipe_axes[AXIS_UP].words[i]) == name &&
		    !memcmp(w->text, recipe_axes[AXIS_UP].words[i], name))
			return fail(SLUICE_EINVAL,
				    "recipe: \"%s\" has no \"=\": did you mean up=%s or down=%s?",
				    w->quote, w->quote, w->quote);
	return fail(SLUICE_EINVAL,
		    "recipe: \"%s\" has no \"=\"%s%s%s a recipe is made of words KEY=VALUE without "
		    "spaces in them, and may begin with the word auto or the name of a method "
		    "(sluice-train --methods lists them); keys are %s",
		    w->quote, near ? ": did you mean the method \"" : ":", near ? near : "",
		    near ? "\"?" : "", all_keys(list));
}

/* Returns the axis whose key is at text, before a "=", or AXES if there is none. */
static int axis_at(const char *text)
{
	size_t n = strcspn(text, "=,;(");
	int id = 0;

	if (text[n] != '=')
		return AXES;
	while (id < AXES &&
	       (strlen(recipe_axes[id].key) != n || memcmp(text, recipe_axes[id].key, n) != 0))
		id++;
	return id;
}

/* Returns 1 if p is inside the parentheses of an argument. */
static int is_in_argument(const char *value, const char *p)
{
	while (p > value && *p != '(' && *p != ')')
		p--;
	return *p == '(';
}

/* Refuses two words that are separated by a comma instead of a space. */
static int refuse_comma(const struct word *w)
{
	for (const char *p = w->value; (p = strpbrk(p, ",;")) != NULL; p++)
		if (axis_at(p + 1) < AXES && !is_in_argument(w->value, p))
			return fail(SLUICE_EINVAL,
				    "recipe: a \"%c\" stands between two words in \"%s\": write a "
				    "space there, as in \"%s=%.*s %.*s\"",
				    *p, w->quote, w->axis->key,
				    (int)(p - w->value < 80 ? p - w->value : 80), w->value,
				    (int)strcspn(p + 1, ",;") < 80 ? (int)strcspn(p + 1, ",;") : 80,
				    p + 1);
	return SLUICE_OK;
}

static int read_word(struct word *w, struct draft *d)
{
	quote_word(w->text, w->quote);
	if (is_auto(w->text))
		return read_auto(w, d);
	if (!strncmp(w->text, method_key, strlen(method_key)))
		return read_method_key(w, d);
	w->value = strchr(w->text, '=');
	if (!w->value)
		return read_name(w, d);

	int id = axis_at(w->text);

	*w->value++ = '\0';
	if (id == AXES)
		return refuse_key(w->text, w->quote);
	w->axis = &recipe_axes[id];

	int rc = refuse_comma(w);

	if (rc)
		return rc;
	if (axis_given(d, (enum axis_id)id))
		return fail(SLUICE_EINVAL, "recipe: %s= is given twice, as \"%s\" and as \"%s\"",
			    w->axis->key, d->quotes[id], w->quote);
	if (!*w->value)
		return fail(SLUICE_EINVAL, "recipe: \"%s\" has no value: %s= %s", w->quote,
			    w->axis->key, w->axis->takes);
	d->given |= 1u << id;
	memcpy(d->quotes[id], w->quote, QUOTE_BYTES);
	return read_value((enum axis_id)id, w, d);
}

/* Reads the method's words for the axes that the recipe itself does not mention. */
static int read_method(struct draft *d)
{
	const char *rest = d->method->recipe;
	unsigned said = d->given;
	struct word w;
	int rc = SLUICE_OK;

	if (d->recipe.automatic)
		return fail(SLUICE_EINVAL,
			    "recipe: auto cannot be combined with the method \"%s\", which "
			    "already determines what is sent: remove one of the two",
			    d->method->name);
	while (!rc && (rest = next_word(rest, &w)) != NULL)
		if (!(said >> axis_at(w.text) & 1))
			rc = read_word(&w, d);
	return rc;
}

/* ---- the whole recipe ------------------------------------------------------ */

static void set_dependent_defaults(struct draft *d)
{
	struct recipe *r = &d->recipe;

	if (r->automatic && !axis_given(d, AXIS_UP) && !axis_given(d, AXIS_DOWN))
		r->up.select = r->down.select = SELECT_TOPK;

	int lossy = !recipe_is_dense(r);

	if (selection_kinds[r->up.select].unbiased || selection_kinds[r->down.select].unbiased)
		lossy = 0;
	if (!axis_given(d, AXIS_DENSE) &&
	    (selection_kinds[r->up.select].seeded || selection_kinds[r->down.select].seeded))
		r->dense[0] = '\0'; /* a seeded support ignores tensors */

	if (r->when == WHEN_ASYNC && r->up.select == SELECT_ALL && r->up.values.type == VALUE_F32)
		lossy = 0; /* each publication contains the whole model again, so no omission
			      lasts */
	if (r->signal.kind == SIGNAL_INNOVATION || r->signal.kind == SIGNAL_SVRG ||
	    r->update == UPDATE_AVERAGE)
		lossy = 0; /* the next difference includes the omitted values, because parameters
			      are not gradients */
	if (!axis_given(d, AXIS_MEMORY))
		r->memory.kind = lossy ? MEMORY_RESIDUAL : MEMORY_NONE;
	if (recipe_variance(r) || (r->update == UPDATE_SIGN && !d->inside_given) ||
	    recipe_drifts(r))
		r->placement = STEP_OUTSIDE; /* refuse_combinations() refuses "inside" if it was
						written */
	if (r->quorum.workers && !axis_given(d, AXIS_GRACE))
		r->quorum.grace = 10;
	if (!d->mask_given)
		r->signal.mask = r->signal.kind == SIGNAL_MOMENTUM && r->up.select != SELECT_ALL;
}

/* Returns 1 if rounding is biased. f16 and bf16 are biased as well, but only slightly. */
static int rounds_one_way(const struct value_coding *values)
{
	return value_few_bits(values->type) && (values->type != VALUE_UNIFORM || values->bits == 1);
}

/* Warns about combinations that are allowed but rarely intended. Each warning appears once in a
 * process. */
static void warn_about_combinations(const struct recipe *r)
{
	static atomic_flag said_dropped = ATOMIC_FLAG_INIT;
	static atomic_flag said_twice = ATOMIC_FLAG_INIT, said_signs = ATOMIC_FLAG_INIT;
	/* Unbiased selectors drop values on purpose. randk scales the others to compensate. */
	int biased = 0;
	const struct direction *const ways[] = { &r->up, &r->down };

	for (int i = 0; i < 2; i++)
		biased |= (ways[i]->select != SELECT_ALL &&
			   !selection_kinds[ways[i]->select].unbiased &&
			   !selection_kinds[ways[i]->select].seeded) ||
			  rounds_one_way(&ways[i]->values);

	if (r->memory.kind == MEMORY_NONE && r->signal.kind != SIGNAL_INNOVATION && biased &&
	    !atomic_flag_test_and_set(&said_dropped))
		log_line(LOG_WARN, "runtime",
			 "recipe: memory=none with topk drops what is not sent (so do threshold "
			 "and gaussiank, and uniform(1), grid, round, twomeans and e3m0 what they "
			 "round away), and training may not converge; memory=residual keeps it for "
			 "later steps");
	if (r->memory.kind == MEMORY_TWOSTEP && r->update == UPDATE_EMA && !recipe_looks_back(r) &&
	    r->up.values.type == VALUE_UNIFORM && r->up.values.bits == 1 &&
	    !atomic_flag_test_and_set(&said_signs))
		log_line(LOG_WARN, "runtime",
			 "recipe: uniform(1) with memory=twostep may diverge unless the signal is "
			 "storm or igt: 2 bits are stable with twostep(0.3)");
	if (r->signal.kind == SIGNAL_MOMENTUM && recipe_velocity(r) && r->update != UPDATE_EMA &&
	    !atomic_flag_test_and_set(&said_twice))
		log_line(LOG_WARN, "runtime",
			 "recipe: signal=momentum and update=%s apply a momentum twice, at the "
			 "worker and at the shard; with signal=momentum, update=sgd is usual",
			 r->update == UPDATE_MOMENTUM ? "momentum" :
			 r->update == UPDATE_NESTEROV ? "nesterov" :
							"adam with a BETA1 above 0");
}

static int check_text(const char *text)
{
	size_t n = strnlen(text, RECIPE_TEXT_BYTES);

	if (n == RECIPE_TEXT_BYTES)
		return fail(SLUICE_EINVAL, "recipe: the text is longer than %d characters",
			    RECIPE_TEXT_BYTES - 1);
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if ((c < 0x20 && !is_blank(text[i])) || c == 0x7f)
			return fail(SLUICE_EINVAL,
				    "recipe: the byte 0x%02x at position %zu is a control "
				    "character, not text",
				    c, i + 1);
	}
	return SLUICE_OK;
}

int recipe_parse(const char *text, struct recipe *out)
{
	struct draft d;
	struct word w;
	const char *rest = text ? text : "";
	int rc = check_text(rest);

	if (rc)
		return rc;
	if (!next_word(rest, &w))
		rest = RECIPE_DEFAULT;

	/* Padding is also zeroed, so that equal recipes have equal bytes. */
	memset(&d, 0, sizeof(d));
	d.recipe.up.density = d.recipe.down.density = 1;
	d.recipe.update = UPDATE_SGD;
	d.recipe.every.period = d.recipe.every.fragments = 1;
	d.recipe.memory.decay = 1;
	d.recipe.drift.rate = 1;
	memcpy(d.recipe.dense, "*bias*", sizeof("*bias*"));
	while ((rest = next_word(rest, &w)) != NULL) {
		rc = read_word(&w, &d);
		if (rc)
			return rc;
	}

	rc = d.method ? read_method(&d) : SLUICE_OK;
	if (rc)
		return rc;
	set_dependent_defaults(&d);
	rc = refuse_combinations(&d);
	if (rc)
		return rc;
	warn_about_combinations(&d.recipe);
	memcpy(out, &d.recipe, sizeof(*out));
	return SLUICE_OK;
}

int recipe_count(struct recipe *r, uint64_t n)
{
	struct direction *const ways[] = { &r->up, &r->down };

	for (int i = 0; i < 2; i++) {
		struct direction *d = ways[i];

		if (!d->count)
			continue;
		if (d->count > n)
			return fail(SLUICE_EINVAL,
				    "recipe: %s=%s(k=%u): the model has only %llu coordinates that "
				    "dense= does not name; write %s%s=all",
				    recipe_axes[i].key, recipe_axes[i].words[d->select], d->count,
				    (unsigned long long)n, n ? "a smaller number, or " : "",
				    recipe_axes[i].key);
		d->density = (double)d->count / (double)n;
		while (density_count(d->density, n) > d->count) /* the quotient was rounded up,
								   so it may be too large */
			d->density = nextafter(d->density, 0);
	}
	return SLUICE_OK;
}

int recipe_sends_whole(const struct recipe *r, const char *tensor_name)
{
	char patterns[sizeof(r->dense)];
	char *rest = patterns;
	const char *pattern;

	if (!tensor_name || !*r->dense)
		return 0;
	memcpy(patterns, r->dense, sizeof(patterns));
	while ((pattern = strsep(&rest, ",")) != NULL)
		if (fnmatch(pattern, tensor_name, 0) == 0)
			return 1;
	return 0;
}
