/* SPDX-License-Identifier: BSD-3-Clause
 * What the three files of the recipe language share: recipe.c cuts the text into words,
 * recipe_values.c reads the value of each word, recipe_words.c holds the word tables and prints.
 * Nobody else includes this. */
#ifndef RUNTIME_RECIPE_WORDS_H
#define RUNTIME_RECIPE_WORDS_H
#include "recipe.h"

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
	AXIS_SEED,
	AXES
};

/* Positions in the word lists below. */
enum { WORD_VALUES = SELECTIONS };      /* by enum selection, then by enum value_type */
enum { WORD_GRADIENT, WORD_MOMENTUM, WORD_MASK, WORD_NOMASK };
/* memory=, update=, nonfinite= and coding= list their words in the order of their enums. */

struct axis {
	const char *key;
	const char *takes;           /* "takes all or ..., then ..." for error sentences */
	const char *const *words;    /* known values */
	size_t n_words;
};
extern const struct axis recipe_axes[AXES];
extern const char *const placement_words[2]; /* by enum placement */

/* Reads a plain decimal number, whatever the locale. Returns the first character after it, NULL if
 * text does not begin with a number (blanks, signs, "inf", "nan" and "0x" are none). */
const char *read_number(const char *text, double *out);

/* No axis takes more than two items; a third is kept to be named. */
enum { ITEMS_MAX = 3, QUOTE_BYTES = 84 };

struct item {
	const char *name;
	const char *argument;        /* NULL: no parentheses */
};

/* One word of the recipe, cut up. */
struct word {
	const struct axis *axis;
	char text[RECIPE_TEXT_BYTES];
	char quote[QUOTE_BYTES];     /* the whole word for error sentences, shortened */
	char *value;                 /* behind the '=' */
	struct item items[ITEMS_MAX];
	size_t n_items;
};

struct draft {
	struct recipe recipe;
	unsigned given;              /* 1 << enum axis_id */
	int mask_given;
	char quotes[AXES][QUOTE_BYTES];
};

/* Reads w->value (cutting it up) into the draft. SLUICE_EINVAL with the sentence set by fail(). */
int read_value(enum axis_id id, struct word *w, struct draft *d);
#endif
