/* SPDX-License-Identifier: BSD-3-Clause
 * Reads the value of one word of a recipe into the draft. There is one function for each axis;
 * those of up= and down= are in recipe_direction.c. Called by recipe.c. */
#include "recipe/recipe_words.h"
#include "base/error.h"
#include "base/nearest.h"
#include "sluice.h"

#include <float.h>
#include <string.h>

/* ---- shares and momenta ------------------------------------------------------ */

static const char momentum_rule[] = "a momentum must be at least 0 and below 1, for example 0.9";
static const char alpha_rule[] = "ALPHA, the weight of the newest step in the running average, "
				 "must be above 0 and at most 1, or 1/t";
static const char beta_rule[] =
	"BETA, the share of a new error that enters the memory, must be above 0 and at most 1";

static const float below_1 = 0x1.fffffep-1f; /* the largest float below 1 */

/* Reads a number from 0 to `most`, or above 0. */
static int read_between(const struct word *w, const char *text, const char *rule, int above,
			float most, float *out)
{
	int rc = read_float(w, text, rule, out);

	if (!rc && !(*out <= most && (*out > 0 || !above)))
		rc = refuse_number(w, text, rule);
	return rc;
}

static int read_number_of(const struct word *w, const struct item *item, const char *example,
			  const char *rule, int above, float most, float *out)
{
	if (item->argument)
		return read_between(w, item->argument, rule, above, most, out);
	return fail(SLUICE_EINVAL, "recipe: %s lacks its number in \"%s\", write %s=%s(%s): %s",
		    item->name, w->quote, w->axis->key, item->name, example, rule);
}

static int read_momentum(const struct word *w, const struct item *item, float *out)
{
	if (item->argument)
		return read_between(w, item->argument, momentum_rule, 0, below_1, out);
	return fail(SLUICE_EINVAL, "recipe: %s lacks its factor in \"%s\", write %s=%s(0.9): %s",
		    item->name, w->quote, w->axis->key, item->name, momentum_rule);
}

static int read_alpha(const struct word *w, const struct item *item, float *out)
{
	if (item->argument && strcmp(item->argument, "1/t") == 0) {
		*out = 0;
		return SLUICE_OK;
	}
	return read_number_of(w, item, "0.1", alpha_rule, 1, 1, out);
}

/* Reads a whole number from 1 to `most`. */
static int read_steps(const struct word *w, const struct item *item, const char *rule,
		      unsigned most, uint32_t *out)
{
	const char *text = item->argument;

	if (!text)
		return refuse_number(w, item->name, rule);
	*out = read_whole(&text, 1, most);
	return *text || !*out ? refuse_number(w, item->argument, rule) : SLUICE_OK;
}

/* ---- signal ------------------------------------------------------------------ */

static int read_noise(const struct word *w, const struct item *item, float *out)
{
	static const char rule[] =
		"noise(R) takes the standard deviation of the noise of each coordinate, above 0";

	return read_number_of(w, item, "0.01", rule, 1, FLT_MAX, out);
}

static int read_svrg(const struct word *w, const struct item *item, struct recipe *r)
{
	static const char rule[] = "svrg(M) takes the number of updates, by all workers together, "
				   "from one anchor to the next, 1 to 1000000000";

	return read_steps(w, item, rule, 1000000000, &r->signal.svrg_steps);
}

/* Reads an option that may follow the signal's name. */
static int read_signal_option(const struct word *w, const struct item *item, struct draft *d)
{
	struct recipe *r = &d->recipe;
	int found = find_item(w, item), rc;

	if (found < 0)
		return found;
	if (found == WORD_NOISE && !(r->signal.noise > 0))
		return read_noise(w, item, &r->signal.noise);
	if (r->signal.kind == SIGNAL_MOMENTUM && !d->mask_given &&
	    (found == WORD_MASK || found == WORD_NOMASK)) {
		rc = refuse_argument(w, item);
		r->signal.mask = found == WORD_MASK;
		d->mask_given = 1;
		return rc;
	}
	if (found == WORD_MASK || found == WORD_NOMASK || found == WORD_NOISE)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" is one value too many in \"%s\": write mask or nomask "
			    "only with momentum, and every option only once; signal= %s",
			    item->name, w->quote, w->axis->takes);
	return fail(SLUICE_EINVAL, "recipe: \"%s\" is a second signal in \"%s\": signal= %s",
		    item->name, w->quote, w->axis->takes);
}

static int read_signal_word(const struct word *w, struct draft *d)
{
	const struct item *item = &w->items[0];
	struct recipe *r = &d->recipe;
	int found = find_item(w, item), rc;

	if (found < 0)
		return found;
	if (found > SIGNAL_DRIFT)
		return fail(
			SLUICE_EINVAL,
			"recipe: \"%s\" does not name the signal: write signal=momentum(0.9),%s",
			w->quote, item->name);
	r->signal.kind = (enum signal_kind)found;
	if (found == SIGNAL_SVRG)
		rc = read_svrg(w, item, r);
	else if (found == SIGNAL_MOMENTUM)
		rc = read_momentum(w, item, &r->signal.average.momentum);
	else if (found == SIGNAL_STORM || found == SIGNAL_IGT)
		rc = read_alpha(w, item, &r->signal.average.alpha);
	else
		rc = refuse_argument(w, item);
	for (size_t i = 1; i < w->n_items && i < ITEMS_MAX && !rc; i++)
		rc = read_signal_option(w, &w->items[i], d);
	return rc;
}

/* ---- memory ------------------------------------------------------------------ */

static int read_placement(const struct word *w, const char *name, struct draft *d)
{
	const int found = word_index(name, placement_words, 2);

	if (found >= 0) {
		d->recipe.placement = (enum placement)found;
		d->inside_given = found == STEP_INSIDE;
		return SLUICE_OK;
	}

	const char *near = nearest_word(name, placement_words, 2);

	return fail(SLUICE_EINVAL,
		    "recipe: unknown placement \"%.40s\" in \"%s\"%s%s%s the step size is applied "
		    "inside the residual or outside of it",
		    name, w->quote, near ? ": did you mean \"" : ":", near ? near : "",
		    near ? "\"?" : "");
}

/* Reads PLACEMENT, decay=B, or both. */
static int read_residual(const struct word *w, const struct item *item, struct draft *d)
{
	static const char rule[] = "residual(decay=B) takes the share of the residual that is left "
				   "one exchange later, above 0 and at most 1";
	static const char key[] = "decay=";
	char text[RECIPE_TEXT_BYTES];
	const char *part, *placement = NULL, *decay = NULL;
	char *rest = text;
	float *keep = &d->recipe.memory.decay;
	int rc = SLUICE_OK;

	memcpy(text, item->argument, strlen(item->argument) + 1);
	while ((part = strsep(&rest, ",")) != NULL && !rc) {
		const char **of = strncmp(part, key, strlen(key)) ? &placement : &decay;

		if (*of)
			return refuse_number(w, item->argument,
					     "residual takes inside or outside once, and decay=B "
					     "once");
		*of = part;
	}
	if (placement)
		rc = read_placement(w, placement, d);
	if (!rc && decay)
		rc = read_float(w, decay + strlen(key), rule, keep);
	if (!rc && !(*keep > 0 && *keep <= 1))
		rc = refuse_number(w, item->argument, rule);
	return rc ? rc : refuse_more_items(w, 1);
}

static int read_memory(const struct word *w, struct draft *d)
{
	const struct item *item = &w->items[0];
	struct recipe *r = &d->recipe;
	int found = find_item(w, item), rc;

	if (found < 0)
		return found;
	if (found > MEMORY_TWOSTEP)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" does not name the memory: write memory=residual(%s)",
			    w->quote, item->name);
	r->memory.kind = (enum memory_kind)found;
	if (found == MEMORY_NONE || (found == MEMORY_RESIDUAL && !item->argument)) {
		rc = refuse_argument(w, item);
		return rc ? rc : refuse_more_items(w, 1);
	}
	if (found == MEMORY_RESIDUAL)
		return read_residual(w, item, d);
	rc = read_number_of(w, item, "0.1", beta_rule, 1, 1, &r->memory.beta);
	if (found == MEMORY_TWOSTEP)
		r->placement = STEP_OUTSIDE; /* its errors exclude the step size */
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
	d->inside_given = found == WORD_INSIDE;
	rc = refuse_argument(w, &w->items[1]);
	return rc ? rc : refuse_more_items(w, 2);
}

/* ---- update, freeze, reset --------------------------------------------------- */

static const char adam_rule[] =
	"adam(BETA1,BETA2,EPS) takes two betas, each at least 0 and below 1, and EPS, above 0, for "
	"example adam(0.2,0.99,1e-8)";
static const char adamw_rule[] =
	"adamw(BETA1,BETA2,EPS,DECAY) takes two betas, each at least 0 and below 1, EPS, above 0, "
	"and DECAY, 0 or above, for example adamw(0.2,0.99,1e-8,0.1)";

static int read_adam(const struct word *w, const struct item *item, int decays,
		     struct adam_words *out)
{
	const char *const rule = decays ? adamw_rule : adam_rule;
	float *const numbers[] = { &out->beta1, &out->beta2, &out->epsilon, &out->decay };
	const int n = decays ? 4 : 3;
	char text[RECIPE_TEXT_BYTES];
	const char *at = item->argument;

	if (!at)
		return refuse_number(w, item->name, rule);
	for (int i = 0; i < n; i++) {
		const size_t length = strcspn(at, ",");

		if ((at[length] != ',') != (i == n - 1))
			return refuse_number(w, item->argument, rule);
		memcpy(text, at, length);
		text[length] = '\0';

		const int rc = read_float(w, text, rule, numbers[i]);

		if (rc)
			return rc;
		if ((numbers[i] == &out->epsilon && !(out->epsilon > 0)) ||
		    (i < 2 && !(*numbers[i] < 1)))
			return refuse_number(w, text, rule);
		at += length + 1;
	}
	return SLUICE_OK;
}

static int read_update(const struct word *w, struct draft *d)
{
	const struct item *item = &w->items[0];
	int found = find_item(w, item);
	int rc;

	if (found < 0)
		return found;
	d->recipe.update = (enum update_kind)found;
	if (found == UPDATE_MOMENTUM || found == UPDATE_NESTEROV)
		rc = read_momentum(w, item, &d->recipe.update_average.momentum);
	else if (found == UPDATE_EMA)
		rc = read_alpha(w, item, &d->recipe.update_average.alpha);
	else if (found == UPDATE_ADAM || found == UPDATE_ADAMW)
		rc = read_adam(w, item, found == UPDATE_ADAMW, &d->recipe.adam);
	else
		rc = refuse_argument(w, item);
	return rc ? rc : refuse_more_items(w, 1);
}

/* Reads a number of steps, or none. */
static int read_steps_or_none(const struct word *w, const char *rule, uint64_t *out)
{
	const char *text = w->value;

	if (strcmp(text, "none") == 0)
		return SLUICE_OK;
	*out = read_whole(&text, 1, 1000000000);
	return *text ? refuse_number(w, w->value, rule) : SLUICE_OK;
}

/* ---- when -------------------------------------------------------------------- */

static int read_mix(const struct word *w, const struct item *item, float *out)
{
	static const char rule[] = "mix(M) takes the share of a worker's own parameters in those "
				   "that it has after an exchange, at least 0 and below 1";

	return read_number_of(w, item, "0.5", rule, 0, below_1, out);
}

/* Reads an option that follows every(STEPS). *given has a bit for each earlier option. */
static int read_every_option(const struct word *w, const struct item *item, struct recipe *r,
			     unsigned *given)
{
	static const char cuts[] = "fragments(P) takes the number of parts that are exchanged at "
				   "different steps of a period, 1 to 1000000";
	static const char waits[] = "late(T) takes the number of steps that a worker makes while "
				    "an exchange is under way, 1 to 1000000";
	const int found = find_item(w, item);

	if (found < 0)
		return found;
	if (found < WORD_FRAGMENTS || *given >> found & 1)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" is one value too many in \"%s\": when= %s", item->name,
			    w->quote, w->axis->takes);
	*given |= 1u << found;
	return found == WORD_FRAGMENTS ? read_steps(w, item, cuts, 1000000, &r->every.fragments) :
	       found == WORD_LATE      ? read_steps(w, item, waits, 1000000, &r->every.late) :
					 read_mix(w, item, &r->drift.mix);
}

static int read_every(const struct word *w, const struct item *item, struct recipe *r)
{
	unsigned given = 0;
	int rc = read_steps(w, item, "every(P) takes a number of steps, 1 to 1000000", 1000000,
			    &r->every.period);

	for (size_t i = 1; i < w->n_items && !rc; i++)
		rc = read_every_option(w, &w->items[i], r, &given);
	if (!rc && r->every.period % r->every.fragments)
		rc = fail(SLUICE_EINVAL,
			  "recipe: \"%s\" is not possible: the fragments are exchanged one after "
			  "the other, at equal distances, and %u does not divide %u steps",
			  w->quote, r->every.fragments, r->every.period);
	if (!rc && r->every.late >= recipe_interval(r))
		rc = fail(SLUICE_EINVAL,
			  "recipe: \"%s\" is not possible: the next exchange begins after %u "
			  "step%s, before late(%u) has applied the one under way; write a longer "
			  "period, or %s",
			  w->quote, recipe_interval(r), recipe_interval(r) == 1 ? "" : "s",
			  r->every.late,
			  recipe_interval(r) == 1 ? "leave late() out" : "a smaller number");
	return rc;
}

/* WINDOW,WEIGHT[,LONGEST] */
static int read_lazy(const struct word *w, const struct item *item, struct recipe *r)
{
	static const char rule[] =
		"lazy(WINDOW,WEIGHT,LONGEST) takes the number of past model changes that it "
		"uses, 1 to 100; the weight of each, above 0; and optionally the longest run of "
		"skipped pushes";
	char text[RECIPE_TEXT_BYTES];
	const char *at = item->argument, *weight, *longest;

	if (!at)
		return refuse_number(w, item->name, rule);
	r->lazy.window = read_whole(&at, 1, LAZY_WINDOW_MAX);
	if (!r->lazy.window || *at != ',')
		return refuse_number(w, item->argument, rule);
	weight = at + 1;
	longest = strchr(weight, ',');
	memcpy(text, weight, strlen(weight) + 1);
	if (longest)
		text[longest - weight] = '\0';

	int rc = read_float(w, text, rule, &r->lazy.weight);

	if (rc)
		return rc;
	if (!(r->lazy.weight > 0))
		return refuse_number(w, item->argument, rule);
	if (!longest)
		return SLUICE_OK;
	at = longest + 1;
	r->lazy.longest = read_whole(&at, 1, 1000000000);
	return *at || !r->lazy.longest ? refuse_number(w, item->argument, rule) : SLUICE_OK;
}

static int read_async(const struct word *w, const struct item *item, struct recipe *r)
{
	static const char rule[] =
		"async(TAU) takes the largest staleness, 1 to 1000000 updates, at least the number "
		"of workers less one; async(TAU,whole) publishes parameters rather than their "
		"difference to the anchor";
	const char *text = item->argument;

	if (!text)
		return refuse_number(w, item->name, rule);
	r->async.staleness = read_whole(&text, 1, 1000000);
	r->async.whole = strcmp(text, ",whole") == 0;
	return !r->async.staleness || (*text && !r->async.whole) ?
		       refuse_number(w, item->argument, rule) :
		       SLUICE_OK;
}

static int read_when(const struct word *w, struct draft *d)
{
	const struct item *item = &w->items[0];
	int found = find_item(w, item), rc;

	if (found < 0)
		return found;
	if (found > WHEN_ASYNC)
		return fail(SLUICE_EINVAL,
			    "recipe: \"%s\" does not set how often the workers exchange: write "
			    "when=every(STEPS),%s(%s)",
			    w->quote, item->name, item->argument ? item->argument : "");
	d->recipe.when = (enum when_kind)found;
	if (found == WHEN_EVERY)
		return read_every(w, item, &d->recipe);
	if (found == WHEN_ALWAYS)
		rc = refuse_argument(w, item);
	else if (found == WHEN_ASYNC)
		rc = read_async(w, item, &d->recipe);
	else
		rc = read_lazy(w, item, &d->recipe);
	return rc ? rc : refuse_more_items(w, 1);
}

/* ---- the other axes --------------------------------------------------------- */

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
	static const char dense[] = "dense(";
	const double longest = 1e12;
	const int whole = strncmp(w->value, dense, strlen(dense)) == 0;
	char *text = w->value + (whole ? strlen(dense) : 0), *end = text + strlen(text);
	double length;

	if (whole && (end == text || *--end != ')'))
		return fail(SLUICE_EINVAL, "recipe: \"%s\" lacks a closing parenthesis: warmup= %s",
			    w->quote, w->axis->takes);
	*end = '\0';

	const char *unit = scan_number(text, &length);

	if (text[0] == '-')
		return refuse_number(w, text, "the length of a warm-up cannot be negative");
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
					     "a warm-up in steps must be a whole number of steps");
		d->recipe.warmup.length = length;
		d->recipe.warmup.unit = units[i].unit;
		d->recipe.warmup.dense = whole && length > 0;
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
			    "recipe: the patterns of \"%s\" have %zu characters, but at most %zu "
			    "fit: use wildcards",
			    w->quote, n, sizeof(d->recipe.dense) - 1);
	for (const char *p = list;; p++) {
		size_t length = strcspn(p, ",");

		if (length == 0)
			return fail(SLUICE_EINVAL,
				    "recipe: a pattern is empty in \"%s\": dense= %s", w->quote,
				    w->axis->takes);
		if (length == 4 && memcmp(p, "none", 4) == 0)
			return fail(SLUICE_EINVAL,
				    "recipe: \"none\" stands next to patterns in \"%s\": dense= %s "
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
				   "or none for no clipping, or median for the median norm of all "
				   "pushes";

	d->recipe.clip.median = strcmp(w->value, "median") == 0;
	if (d->recipe.clip.median || strcmp(w->value, "none") == 0)
		return SLUICE_OK;
	return read_between(w, w->value, rule, 1, FLT_MAX, &d->recipe.clip.norm);
}

static int read_transform(const struct word *w, struct draft *d)
{
	static const char rule[] = "dct(SIDE) takes the longest side of a block, 1 to 64";
	const struct item *item = &w->items[0];
	const int found = find_item(w, item);
	const char *text = item->argument;

	if (found < 0)
		return found;
	if (!found) {
		const int rc = refuse_argument(w, item);

		return rc ? rc : refuse_more_items(w, 1);
	}
	_Static_assert(TRANSFORM_MOST == 64, "the rule names the longest side");
	if (!text)
		return fail(SLUICE_EINVAL,
			    "recipe: dct lacks its number in \"%s\", write transform=dct(64): %s",
			    w->quote, rule);
	d->recipe.transform = read_whole(&text, 1, TRANSFORM_MOST);
	return *text || !d->recipe.transform ? refuse_number(w, item->argument, rule) :
					       refuse_more_items(w, 1);
}

/* Reads a word of the axis's list that has no argument. */
static int read_choice(enum axis_id id, const struct word *w, struct recipe *r)
{
	unsigned *const choices[AXES] = { [AXIS_NONFINITE] = &r->nonfinite,
					  [AXIS_CODING] = &r->coding,
					  [AXIS_REDUCE] = &r->reduce,
					  [AXIS_GUARD] = &r->guard };
	const int found = find_item(w, &w->items[0]);

	if (found < 0)
		return found;
	*choices[id] = (unsigned)found;
	return refuse_argument(w, &w->items[0]) || refuse_more_items(w, 1) ? SLUICE_EINVAL :
									     SLUICE_OK;
}

/* Reads a whole number from low to high. */
static int read_number_from(const struct word *w, const char *rule, unsigned low, unsigned high,
			    uint32_t *out)
{
	const char *text = w->value;

	*out = read_whole(&text, low, high);
	return *text ? refuse_number(w, w->value, rule) : SLUICE_OK;
}

/* ---- any axis --------------------------------------------------------------- */

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
					    "argument has no spaces, as in topk(0.01)",
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

/* Returns 1 if the axis takes a number or a list of patterns, and no items. */
static int has_no_items(enum axis_id id)
{
	return !recipe_axes[id].n_words || id == AXIS_DENSE || id == AXIS_CLIP;
}

int read_value(enum axis_id id, struct word *w, struct draft *d)
{
	struct recipe *r = &d->recipe;
	int rc = has_no_items(id) ? SLUICE_OK : cut_items(w);

	if (rc)
		return rc;
	switch (id) {
	case AXIS_UP: return read_direction(w, &r->up);
	case AXIS_DOWN: return read_direction(w, &r->down);
	case AXIS_SIGNAL: return read_signal_word(w, d);
	case AXIS_MEMORY: return read_memory(w, d);
	case AXIS_UPDATE: return read_update(w, d);
	case AXIS_WARMUP: return read_warmup(w, d);
	case AXIS_DENSE: return read_dense(w, d);
	case AXIS_CLIP: return read_clip(w, d);
	case AXIS_DECAY:
		return read_float(w, w->value,
				  "decay= takes the factor of the weight decay, 0 or above",
				  &r->decay);
	case AXIS_TRANSFORM: return read_transform(w, d);
	case AXIS_RESET:
		return read_steps_or_none(
			w, "reset= takes a number of steps, 1 to 1000000000, or none", &r->reset);
	case AXIS_SEED:
		return read_number_from(w, "a seed is a whole number from 0 to 4294967295", 0,
					UINT32_MAX, &r->seed);
	case AXIS_WHEN: return read_when(w, d);
	case AXIS_RATE:
		return read_between(w, w->value,
				    "rate= takes the factor of the mean drift by which the shards "
				    "move the common parameters, above 0",
				    1, FLT_MAX, &r->drift.rate);
	case AXIS_KEEP:
		return read_between(w, w->value,
				    "keep= takes the share of a worker's residual that stays in "
				    "its parameters, from 0 to 1",
				    0, 1, &r->drift.keep);
	case AXIS_QUORUM:
		return read_number_from(w,
					"quorum= takes the fewest workers with whose drifts an "
					"exchange closes, from 1 to the number of workers",
					1, INT32_MAX, &r->quorum.workers);
	case AXIS_GRACE:
		return read_between(w, w->value,
				    "grace= takes the seconds for which an exchange with a quorum "
				    "waits for others, 0 to 1000000",
				    0, 1e6f, &r->quorum.grace);
	case AXIS_FREEZE:
		return read_steps_or_none(w,
					  "freeze= takes the last step that changes the variance "
					  "of update=adam, 1 to 1000000000, or none",
					  &r->adam.freeze);
	case AXIS_NONFINITE:
	case AXIS_CODING:
	case AXIS_REDUCE:
	case AXIS_GUARD: return read_choice(id, w, r);
	case AXES: break;
	}
	return SLUICE_EINVAL;
}
