/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of the recipe language share: recipe.c cuts the text into words, recipe_values.c
 * reads the value of each word, with recipe_direction.c, recipe_dynamics.c, recipe_when.c and
 * recipe_async.c, from the items of recipe_items.c; recipe_words.c holds the word tables and
 * prints. Nobody else includes this. */
#ifndef RUNTIME_RECIPE_WORDS_H
#define RUNTIME_RECIPE_WORDS_H
#include "recipe/recipe.h"

/* In the order in which they are printed. */
enum axis_id {
	AXIS_UP,
	AXIS_DOWN,
	AXIS_SIGNAL,
	AXIS_MEMORY,
	AXIS_UPDATE,
	AXIS_WARMUP,
	AXIS_DENSE,
	AXIS_CLIP,
	AXIS_DECAY,
	AXIS_NONFINITE,
	AXIS_CODING,
	AXIS_RESET,
	AXIS_SEED,
	AXIS_WHEN,
	AXES
};

/* Positions in the word lists below. */
enum { WORD_VALUES = SELECTIONS }; /* by enum selection, then by enum value_type */
enum {
	WORD_MASK = SIGNAL_SVRG + 1,
	WORD_NOMASK,
	WORD_NOISE
};                                                       /* behind those of enum signal_kind */
enum { WORD_INSIDE = MEMORY_TWOSTEP + 1, WORD_OUTSIDE }; /* behind those of enum memory_kind */
/* update=, nonfinite= and coding= list their words in the order of their enums. */

struct axis {
	const char *key;
	const char *takes;        /* "takes all or ..., then ..." for error sentences */
	const char *const *words; /* known values */
	size_t n_words;
};
extern const struct axis recipe_axes[AXES];
extern const char *const placement_words[2]; /* by enum placement */

/* Reads a plain decimal number, whatever the locale. Returns the first character after it, NULL if
 * text does not begin with a number (blanks, signs, "inf", "nan" and "0x" are none). */
const char *read_number(const char *text, double *out);

/* No axis takes more than three items; a fourth is kept to be named. */
enum { ITEMS_MAX = 4, QUOTE_BYTES = 84 };

struct item {
	const char *name;
	const char *argument; /* NULL: no parentheses */
};

/* One word of the recipe, cut up. */
struct word {
	const struct axis *axis;
	char text[RECIPE_TEXT_BYTES];
	char quote[QUOTE_BYTES]; /* the whole word for error sentences, shortened */
	char *value;             /* behind the '=' */
	struct item items[ITEMS_MAX];
	size_t n_items;
};

struct method;

struct draft {
	struct recipe recipe;
	const struct method *method; /* that the recipe names; NULL: none */
	unsigned given;              /* 1 << enum axis_id */
	int mask_given;
	char quotes[AXES][QUOTE_BYTES];
};

/* recipe_items.c: what is done with an item wherever it stands. All set the sentence on refusal. */
int find_item(const struct word *w,
	      const struct item *item); /* its place in the list of words, or < 0 */
int refuse_argument(const struct word *w, const struct item *item); /* 0 if it has none */
int refuse_more_items(const struct word *w, size_t most);           /* 0 if there are not more */
int refuse_number(const struct word *w, const char *text, const char *rule); /* always */
int refuse_text(const struct word *w, const char *text, const char *rule);   /* it is no number */
int read_float(const struct word *w, const char *text, const char *rule,
	       float *out); /* not negative */
/* A whole number of low..high at *text, which then points behind it; 0 if there is none. */
unsigned read_whole(const char **text, unsigned low, unsigned high);

/* recipe_direction.c: up= and down=. */
int read_direction(const struct word *w, struct direction *d);

/* recipe_dynamics.c: one function for each axis. */
int read_signal(const struct word *w, struct draft *d);
int read_memory(const struct word *w, struct draft *d);
int read_update(const struct word *w, struct draft *d);
int read_reset(const struct word *w, struct draft *d);
int refuse_dynamics(const struct draft *d); /* combinations of these that make no sense */

/* recipe_when.c */
int read_when(const struct word *w, struct draft *d);
int refuse_when(const struct draft *d); /* combinations of it, of innovations and averages */

/* recipe_async.c */
int read_async(const struct word *w, const struct item *item, struct recipe *r);
int read_svrg(const struct word *w, const struct item *item, struct recipe *r);
int refuse_async(
	const struct draft *d); /* combinations of when=async, signal=svrg and update=accelerated */

/* Reads w->value (cutting it up) into the draft. SLUICE_EINVAL with the sentence set by fail(). */
int read_value(enum axis_id id, struct word *w, struct draft *d);
#endif
