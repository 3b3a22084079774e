/* SPDX-License-Identifier: BSD-3-Clause
 * The tables of words of the recipe language, its items and numbers, and the printer. Every refusal
 * is one sentence that quotes the wrong word and gives a correct one. Ranks compare the printed
 * recipe, checkpoints store it and sluice_recipe_text() returns it, so it does not depend on the
 * locale. */
#include "recipe/recipe_words.h"
#include "recipe/budgets.h"
#include "base/error.h"
#include "base/nearest.h"
#include "sluice.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------- */

static const char *const direction_words[] = { SELECTION_NAMES, "f32",      "f16",   "bf16",
					       "uniform",       "grid",     "round", "f8_e4m3fn",
					       "f8_e5m2",       "twomeans", "e3m0" };
#define VALUE_FORMS                                                                                \
	"f32, f16, bf16, uniform(BITS[,BLOCK]), grid(BITS), round(WIDTH), twomeans or e3m0"
enum { DIRECTION_WORDS = sizeof(direction_words) / sizeof(direction_words[0]) };
static const char *const signal_words[] = { "gradient", "momentum", "storm", "igt",    "innovation",
					    "svrg",     "drift",    "mask",  "nomask", "noise" };
static const char *const memory_words[] = { "none",    "residual", "lowpass",
					    "twostep", "inside",   "outside" };
static const char *const update_words[] = {
	"none",    "sgd",         "momentum", "nesterov", "ema",
	"average", "accelerated", "adam",     "adamw",    "sign"
};
static const char *const when_words[] = { "always", "every",     "lazy", "lazy-server",
					  "async",  "fragments", "late", "mix" };
static const char *const none_word[] = { "none" };
static const char *const nonfinite_words[] = { "abort", "skip", "zero", "skip-all" };
static const char *const guard_words[] = { "warn", "raise", "none" };
static const char *const clip_words[] = { "none", "median" };
static const char *const reduce_words[] = { "mean", "senders" };
static const char *const transform_words[] = { "none", "dct" };
static const char *const coding_words[] = { "fast", "small" };
const char *const placement_words[2] = { "inside", "outside" };

const struct axis recipe_axes[AXES] = {
	[AXIS_UP] = { "up", "takes " SELECTION_FORMS ", then " VALUE_FORMS, direction_words,
		      DIRECTION_WORDS },
	[AXIS_DOWN] = { "down", "takes " SELECTION_FORMS ", then " VALUE_FORMS, direction_words,
			DIRECTION_WORDS },
	[AXIS_SIGNAL] = { "signal",
			  "takes gradient, momentum(M), then mask or nomask, storm(ALPHA) or "
			  "igt(ALPHA), innovation or svrg(STEPS), and then noise(R); or drift",
			  signal_words, 10 },
	[AXIS_MEMORY] = { "memory",
			  "takes none, residual, residual(inside), residual(outside), "
			  "residual(decay=B), residual(PLACEMENT,decay=B), "
			  "lowpass(BETA), then inside or outside, or twostep(BETA)",
			  memory_words, 6 },
	[AXIS_UPDATE] = { "update",
			  "takes none, sgd, momentum(M), nesterov(M), ema(ALPHA), average, "
			  "accelerated, adam(BETA1,BETA2,EPS), adamw(BETA1,BETA2,EPS,DECAY) or "
			  "sign",
			  update_words, 10 },
	[AXIS_WARMUP] = { "warmup",
			  "takes a length such as 0, 100, 100steps, 1epoch or 2epochs, or "
			  "dense(LENGTH)",
			  NULL, 0 },
	[AXIS_DENSE] = { "dense", "takes patterns of tensor names such as *bias*,norm?, or none",
			 none_word, 1 },
	[AXIS_CLIP] = { "clip",
			"takes the largest 2-norm of a local gradient, above 0, or median or none",
			clip_words, 2 },
	[AXIS_REDUCE] = { "reduce", "takes mean or senders", reduce_words, 2 },
	[AXIS_TRANSFORM] = { "transform", "takes dct(SIDE) or none", transform_words, 2 },
	[AXIS_DECAY] = { "decay", "takes the factor of the weight decay, 0 or above", NULL, 0 },
	[AXIS_NONFINITE] = { "nonfinite", "takes abort, skip, zero or skip-all", nonfinite_words,
			     4 },
	[AXIS_CODING] = { "coding", "takes fast or small", coding_words, 2 },
	[AXIS_RESET] = { "reset", "takes a number of steps, or none", NULL, 0 },
	[AXIS_WHEN] = { "when",
			"takes always, every(STEPS), then fragments(P), late(STEPS) and "
			"mix(SHARE), lazy(WINDOW,WEIGHT[,LONGEST]) or "
			"lazy-server(WINDOW,WEIGHT[,LONGEST]), async(TAU) or async(TAU,whole)",
			when_words, 8 },
	[AXIS_RATE] = { "rate", "takes the outer rate of signal=drift, above 0", NULL, 0 },
	[AXIS_KEEP] = { "keep",
			"takes the share of a worker's residual in its parameters, from 0 to 1",
			NULL, 0 },
	[AXIS_QUORUM] = { "quorum", "takes a number of workers, 1 or more", NULL, 0 },
	[AXIS_GRACE] = { "grace", "takes a number of seconds, 0 or more", NULL, 0 },
	[AXIS_GUARD] = { "guard", "takes warn, raise or none", guard_words, 3 },
	[AXIS_FREEZE] = { "freeze", "takes a number of steps, or none", NULL, 0 },
	[AXIS_SEED] = { "seed", "takes a whole number from 0 to 4294967295", NULL, 0 },
};

/* ---- numbers --------------------------------------------------------------- */

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void open_c_locale(void)
{
	/* This locale is predefined, so the call cannot fail. */
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

const char *scan_number(const char *text, double *out)
{
	char *end;

	/* strtod would also accept spaces, signs, inf, nan and hexadecimal. */
	if (!(*text >= '0' && *text <= '9') && *text != '.')
		return NULL;
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return NULL;
	pthread_once(&c_locale_once, open_c_locale);
	*out = strtod_l(text, &end, c_locale);
	return end == text ? NULL : end;
}

const char *read_percent(const char *text, double *out)
{
	char scaled[RECIPE_TEXT_BYTES + 4];
	const char *end = scan_number(text, out), *rest;

	if (!end || *end != '%')
		return end;
	/* The percentage is scaled by its exponent, because 0.7 / 100 is not the double nearest to
	 * 0.007. */
	snprintf(scaled, sizeof(scaled), "%.*se-2", (int)(end - text), text);
	rest = scan_number(scaled, out);
	return rest && !*rest ? end + 1 : NULL;
}

static int is_in_range_of_floats(double value)
{
	return isfinite((float)value) && ((float)value > 0 || !(value > 0));
}

int read_float(const struct word *w, const char *text, const char *rule, float *out)
{
	double value;

	if (text[0] == '-')
		return refuse_number(w, text, rule);

	const char *end = scan_number(text, &value);

	if (!end || *end)
		return refuse_text(w, text, rule);
	if (!is_in_range_of_floats(value))
		return fail(
			SLUICE_EINVAL,
			"recipe: \"%.40s\" in \"%s\" is outside of the range of floats, %.1e to "
			"%.1e: %s",
			text, w->quote, (double)FLT_TRUE_MIN, (double)FLT_MAX, rule);
	*out = (float)value;
	return SLUICE_OK;
}

unsigned read_whole(const char **text, unsigned low, unsigned high)
{
	double value;
	const char *end = scan_number(*text, &value);

	if (!end || !(value >= low && value <= high) || value != (double)(unsigned)value)
		return 0;
	*text = end;
	return (unsigned)value;
}

enum { NUMBER_BYTES = 32 };

/* Returns the shortest decimal text that reads back as the same double or, for a float, the same
 * float. */
static const char *shortest(double value, int is_float, char text[NUMBER_BYTES])
{
	int most_digits = is_float ? FLT_DECIMAL_DIG : DBL_DECIMAL_DIG;

	if (value >= 0 && value < 1e15 && value == (double)(uint64_t)value) {
		snprintf(text, NUMBER_BYTES, "%llu", (unsigned long long)value);
		return text; /* for example 250 instead of 2.5e+02 */
	}
	pthread_once(&c_locale_once, open_c_locale);
	locale_t callers = uselocale(c_locale);

	for (int digits = 1; digits <= most_digits; digits++) {
		snprintf(text, NUMBER_BYTES, "%.*g", digits, value);
		double back = strtod(text, NULL);

		if (is_float ? (float)back == (float)value : back == value)
			break;
	}
	uselocale(callers);
	return text;
}

/* ---- items ------------------------------------------------------------------ */

/* If the text is like "topk0.1" or "topk=0.1", returns the word that lacks its parentheses,
 * otherwise NULL. */
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
		if (scan_number(*number, &value))
			return axis->words[i];
	}
	return NULL;
}

int find_item(const struct word *w, const struct item *item)
{
	const struct axis *axis = w->axis;
	const int found = word_index(item->name, axis->words, axis->n_words);

	if (found >= 0)
		return found;
	if (!*item->name)
		return fail(SLUICE_EINVAL, "recipe: a value is missing in \"%s\": %s%s= %s",
			    w->quote,
			    w->quote[strlen(w->quote) - 1] == ',' ?
				    "leave out the last comma, because spaces separate words; " :
				    "",
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

/* ---- printing -------------------------------------------------------------- */

struct writer {
	char *text;
	size_t n;
};

static void __attribute__((format(printf, 2, 3)))
write_text(struct writer *w, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int n = vsnprintf(w->text + w->n, RECIPE_TEXT_BYTES - w->n, format, args);
	va_end(args);
	if (n > 0)
		w->n += (size_t)n;
	/* cannot happen, because all axes at their longest take about 600 bytes */
	if (w->n >= RECIPE_TEXT_BYTES)
		w->n = RECIPE_TEXT_BYTES - 1;
}

static const char *density_text(const struct direction *d, char number[NUMBER_BYTES])
{
	if (!d->count)
		return shortest(d->density, 0, number);
	snprintf(number, NUMBER_BYTES, "k=%u", d->count);
	return number;
}

static void print_direction(struct writer *w, enum axis_id id, const struct direction *d)
{
	char number[NUMBER_BYTES];

	write_text(w, "%s=", recipe_axes[id].key);
	write_text(w, "%s", direction_words[d->select]);
	switch (selection_kinds[d->select].argument) {
	case ARGUMENT_NONE: break;
	case ARGUMENT_DENSITY: write_text(w, "(%s)", density_text(d, number)); break;
	case ARGUMENT_LEVEL: write_text(w, "(%s)", shortest(d->level, 1, number)); break;
	case ARGUMENT_CYCLIC:
		write_text(w, "(%s%s)", density_text(d, number), d->chunks ? ",chunks" : "");
		break;
	case ARGUMENT_SKETCH:
		write_text(w, "(%s,%u,", density_text(d, number), d->sketch_rows);
		write_text(w, "%s,%u)", shortest(d->sketch_width, 1, number), d->sketch_pool);
		break;
	case ARGUMENT_GLOBAL: write_text(w, "(%s,%u)", density_text(d, number), d->every); break;
	case ARGUMENT_BLOCK:
		write_text(w, "(%u,%u)", (unsigned)density_count(d->density, d->block), d->block);
		break;
	}
	write_text(w, ",%s", direction_words[WORD_VALUES + (int)d->values.type]);
	if (d->values.type == VALUE_UNIFORM)
		write_text(w, "(%u,%u)", d->values.bits, d->values.block);
	else if (d->values.type == VALUE_GRID)
		write_text(w, "(%u)", d->values.bits);
	else if (d->values.type == VALUE_ROUND)
		write_text(w, "(%s)", shortest(d->values.step, 1, number));
	write_text(w, " ");
}

static void print_warmup(struct writer *w, const struct recipe *r)
{
	char number[NUMBER_BYTES];
	const char *unit = r->warmup.unit == WARMUP_EPOCHS ? "epoch" : "step";

	write_text(w, "warmup=%s%s%s%s%s ", r->warmup.dense ? "dense(" : "",
		   shortest(r->warmup.length, 0, number), unit, r->warmup.length == 1 ? "" : "s",
		   r->warmup.dense ? ")" : "");
}

static const char *alpha_text(float alpha, char number[NUMBER_BYTES])
{
	return alpha > 0 ? shortest(alpha, 1, number) : "1/t";
}

static void print_signal(struct writer *w, const struct recipe *r)
{
	char number[NUMBER_BYTES];

	write_text(w, "signal=%s", signal_words[r->signal.kind]);
	if (r->signal.kind == SIGNAL_MOMENTUM)
		write_text(w, "(%s),%s", shortest(r->signal.average.momentum, 1, number),
			   signal_words[r->signal.mask ? WORD_MASK : WORD_NOMASK]);
	else if (r->signal.kind == SIGNAL_STORM || r->signal.kind == SIGNAL_IGT)
		write_text(w, "(%s)", alpha_text(r->signal.average.alpha, number));
	else if (r->signal.kind == SIGNAL_SVRG)
		write_text(w, "(%u)", r->signal.svrg_steps);
	if (r->signal.noise > 0)
		write_text(w, ",noise(%s)", shortest(r->signal.noise, 1, number));
	write_text(w, " ");
}

static void print_adam(struct writer *w, const struct recipe *r)
{
	const float words[] = { r->adam.beta1, r->adam.beta2, r->adam.epsilon, r->adam.decay };
	const int n = r->update == UPDATE_ADAMW ? 4 : 3;
	char number[NUMBER_BYTES];

	for (int i = 0; i < n; i++)
		write_text(w, "%s%s", i ? "," : "(", shortest(words[i], 1, number));
	write_text(w, ")");
}

static void print_when(struct writer *w, const struct recipe *r)
{
	char number[NUMBER_BYTES];

	write_text(w, "when=%s", when_words[r->when]);
	if (r->when == WHEN_EVERY)
		write_text(w, "(%u)", r->every.period);
	if (r->every.fragments > 1)
		write_text(w, ",fragments(%u)", r->every.fragments);
	if (r->every.late)
		write_text(w, ",late(%u)", r->every.late);
	if (r->drift.mix > 0)
		write_text(w, ",mix(%s)", shortest(r->drift.mix, 1, number));
	if (r->when == WHEN_LAZY || r->when == WHEN_LAZY_SERVER)
		write_text(w, "(%u,%s", r->lazy.window, shortest(r->lazy.weight, 1, number));
	if (r->lazy.longest)
		write_text(w, ",%u", r->lazy.longest);
	if (r->lazy.window)
		write_text(w, ")");
	if (r->when == WHEN_ASYNC)
		write_text(w, "(%u%s)", r->async.staleness, r->async.whole ? ",whole" : "");
}

void recipe_print(const struct recipe *r, char text[RECIPE_TEXT_BYTES])
{
	struct writer w = { text, 0 };
	char number[NUMBER_BYTES];

	if (r->automatic) {
		write_text(&w, "auto");
		if (r->budget)
			write_text(&w, "(%s)",
				   shortest(budget_density(r->budget, BUDGET_UP, CODE_F32), 0,
					    number));
		write_text(&w, " ");
	} else {
		print_direction(&w, AXIS_UP, &r->up);
		print_direction(&w, AXIS_DOWN, &r->down);
	}
	print_signal(&w, r);
	write_text(&w, "memory=%s", memory_words[r->memory.kind]);
	if (r->memory.kind == MEMORY_RESIDUAL)
		write_text(&w, "(%s", placement_words[r->placement]);
	if (r->memory.kind == MEMORY_RESIDUAL && r->memory.decay < 1)
		write_text(&w, ",decay=%s", shortest(r->memory.decay, 1, number));
	if (r->memory.kind == MEMORY_RESIDUAL)
		write_text(&w, ")");
	if (r->memory.kind == MEMORY_LOWPASS || r->memory.kind == MEMORY_TWOSTEP)
		write_text(&w, "(%s)", shortest(r->memory.beta, 1, number));
	if (r->memory.kind == MEMORY_LOWPASS)
		write_text(&w, ",%s", placement_words[r->placement]);
	write_text(&w, " update=%s", update_words[r->update]);
	if (r->update == UPDATE_MOMENTUM || r->update == UPDATE_NESTEROV)
		write_text(&w, "(%s)", shortest(r->update_average.momentum, 1, number));
	if (r->update == UPDATE_EMA)
		write_text(&w, "(%s)", alpha_text(r->update_average.alpha, number));
	if (recipe_variance(r))
		print_adam(&w, r);
	write_text(&w, " ");
	print_warmup(&w, r);
	write_text(&w, "dense=%s ", *r->dense ? r->dense : "none");
	write_text(&w, "clip=%s ",
		   r->clip.median   ? "median" :
		   r->clip.norm > 0 ? shortest(r->clip.norm, 1, number) :
				      "none");
	write_text(&w, "decay=%s ", shortest(r->decay, 1, number));
	write_text(&w, "nonfinite=%s ", nonfinite_words[r->nonfinite]);
	write_text(&w, "coding=%s reset=", coding_words[r->coding]);
	if (r->reset)
		write_text(&w, "%llu seed=%u ", (unsigned long long)r->reset, r->seed);
	else
		write_text(&w, "none seed=%u ", r->seed);
	print_when(&w, r);
	if (recipe_drifts(r))
		write_text(&w, " rate=%s", shortest(r->drift.rate, 1, number));
	if (recipe_drifts(r))
		write_text(&w, " keep=%s", shortest(r->drift.keep, 1, number));
	if (r->quorum.workers)
		write_text(&w, " quorum=%u grace=%s", r->quorum.workers,
			   shortest(r->quorum.grace, 1, number));
	if (r->guard == GUARD_RAISE)
		write_text(&w, " guard=raise");
	if (r->reduce == REDUCE_SENDERS)
		write_text(&w, " reduce=senders");
	if (r->transform)
		write_text(&w, " transform=dct(%u)", r->transform);
	if (r->adam.freeze)
		write_text(&w, " freeze=%llu", (unsigned long long)r->adam.freeze);
}

size_t recipe_word_apart(const char *a, const char *b)
{
	size_t word = 0;

	for (size_t i = 0; a[i] && a[i] == b[i]; i++)
		word = a[i] == ' ' ? i + 1 : word;
	return word;
}
