/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the files of the recipe language share; no other file includes it. recipe.c
 * cuts the text into words. recipe_values.c and recipe_direction.c read the value of each word.
 * recipe_exclusions.c refuses combinations. recipe_words.c has the tables of words, reads items and
 * numbers, and prints recipes. */
#ifndef RUNTIME_RECIPE_WORDS_H
#define RUNTIME_RECIPE_WORDS_H
#include "recipe/recipe.h"

/* The axes, in the order in which they are printed. */
enum axis_id {
	AXIS_UP,
	AXIS_DOWN,
	AXIS_SIGNAL,
	AXIS_MEMORY,
	AXIS_UPDATE,
	AXIS_WARMUP,
	AXIS_DENSE,
	AXIS_CLIP,
	AXIS_REDUCE,
	AXIS_TRANSFORM,
	AXIS_DECAY,
	AXIS_NONFINITE,
	AXIS_CODING,
	AXIS_RESET,
	AXIS_SEED,
	AXIS_WHEN,
	AXIS_RATE,
	AXIS_KEEP,
	AXIS_QUORUM,
	AXIS_GRACE,
	AXIS_GUARD,
	AXIS_FREEZE,
	AXES
};

/* Positions in the lists of words. */
enum { WORD_VALUES = SELECTIONS }; /* in the order of enum selection, then of enum value_type */
enum {
	WORD_MASK = SIGNAL_DRIFT + 1,
	WORD_NOMASK,
	WORD_NOISE
};                                                       /* they follow those of enum signal_kind */
enum { WORD_INSIDE = MEMORY_TWOSTEP + 1, WORD_OUTSIDE }; /* they follow those of enum memory_kind */
enum {
	WORD_FRAGMENTS = WHEN_ASYNC + 1,
	WORD_LATE,
	WORD_MIX
}; /* they follow those of enum
      when_kind */
/* The words of update=, nonfinite= and coding= are in the order of their enums. */

struct axis {
	const char *key;
	const char *takes;        /* "takes all or ..., then ..." for error messages */
	const char *const *words; /* known values */
	size_t n_words;
};
extern const struct axis recipe_axes[AXES];
extern const char *const placement_words[2]; /* in the order of enum placement */

/* Reads a plain decimal number, independently of the locale. Returns the first character after it,
 * or NULL if text does not begin with a number. Spaces, signs, "inf", "nan" and "0x" do not begin a
 * number. */
const char *scan_number(const char *text, double *out);
/* Reads a number or a percentage. */
const char *read_percent(const char *text, double *out);

/* No axis takes more than four items. A fifth is stored only so that a message can name it. */
enum { ITEMS_MAX = 5, QUOTE_BYTES = 84 };

struct item {
	const char *name;
	const char *argument; /* NULL if there are no parentheses */
};

/* One word of the recipe, split into its parts. */
struct word {
	const struct axis *axis;
	char text[RECIPE_TEXT_BYTES];
	char quote[QUOTE_BYTES]; /* the whole word for error messages, shortened */
	char *value;             /* the text after '=' */
	struct item items[ITEMS_MAX];
	size_t n_items;
};

struct method;

struct draft {
	struct recipe recipe;
	const struct method *method; /* the method that the recipe names, or NULL */
	unsigned given;              /* a bit 1 << axis for each axis that was given */
	int mask_given, inside_given;
	char quotes[AXES][QUOTE_BYTES]; /* the words as they were given; "" for the others */
};
static inline int axis_given(const struct draft *d, enum axis_id id)
{
	return (d->given >> id & 1) != 0;
}

/* Functions for the items of every axis. Each of them stores an error message when it refuses. */

/* Returns the item's position in the list of words, or an error. */
int find_item(const struct word *w, const struct item *item);
/* Returns 0 if the item has no argument, otherwise an error. */
int refuse_argument(const struct word *w, const struct item *item);
/* Returns 0 if there are at most `most` items, otherwise an error. */
int refuse_more_items(const struct word *w, size_t most);
/* Refuses a number. Always returns an error. */
int refuse_number(const struct word *w, const char *text, const char *rule);
/* Refuses a text that is not a number. Always returns an error. */
int refuse_text(const struct word *w, const char *text, const char *rule);
/* Reads a number that is 0 or above and that a float can hold. */
int read_float(const struct word *w, const char *text, const char *rule, float *out);
/* Reads a whole number from low to high at *text and moves *text to the end of the number. Returns
 * 0 if there is no such number. */
unsigned read_whole(const char **text, unsigned low, unsigned high);

/* Reads up= or down=. */
int read_direction(const struct word *w, struct direction *d);
/* Cuts w->value into items and reads them into the draft. */
int read_value(enum axis_id id, struct word *w, struct draft *d);
/* Refuses combinations that are not possible. */
int refuse_combinations(const struct draft *d);
#endif
