/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the files of the recipe language share; no other file includes it. recipe.c
 * cuts the text into words. recipe_values.c and recipe_direction.c read the value of each word.
 * recipe_exclusions.c refuses combinations. recipe_words.c has the tables of words, reads items and
 * numbers, and prints recipes. */
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
	AXIS_REDUCE,
	AXIS_DECAY,
	AXIS_NONFINITE,
	AXIS_CODING,
	AXIS_RESET,
	AXIS_SEED,
	AXIS_WHEN,
	AXIS_RATE,
	AXIS_KEEP,
	AXIS_GUARD,
	AXIS_FREEZE,
	AXES
};

/* Positions in the word lists below. */
enum { WORD_VALUES = SELECTIONS }; /* by enum selection, then by enum value_type */
enum {
	WORD_MASK = SIGNAL_DRIFT + 1,
	WORD_NOMASK,
	WORD_NOISE
};                                                       /* follow those of enum signal_kind */
enum { WORD_INSIDE = MEMORY_TWOSTEP + 1, WORD_OUTSIDE }; /* follow those of enum memory_kind */
enum { WORD_FRAGMENTS = WHEN_ASYNC + 1, WORD_LATE, WORD_MIX }; /* follow those of enum when_kind */
/* The words of update=, nonfinite= and coding= are in the order of their enums. */

struct axis {
	const char *key;
	const char *takes;        /* "takes all or ..., then ..." for error messages */
	const char *const *words; /* known values */
	size_t n_words;
};
extern const struct axis recipe_axes[AXES];
extern const char *const placement_words[2]; /* by enum placement */

/* Reads a plain decimal number, independently of the locale. Returns the first character after it,
 * or NULL if text does not begin with a number. Spaces, signs, "inf", "nan" and "0x" do not begin a
 * number. */
const char *read_number(const char *text, double *out);

/* No axis takes more than four items. A fifth is kept so that a message can name it. */
enum { ITEMS_MAX = 5, QUOTE_BYTES = 84 };

struct item {
	const char *name;
	const char *argument; /* NULL if there are no parentheses */
};

/* One word of the recipe, cut into its parts. */
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
	unsigned given;              /* bits 1 << enum axis_id */
	int mask_given, inside_given;
	char quotes[AXES][QUOTE_BYTES]; /* the words as they were given; "" for the others */
};
static inline int axis_given(const struct draft *d, enum axis_id id)
{
	return (d->given >> id & 1) != 0;
}

/* Functions for items of every axis. Each sets the message when it refuses. */

/* Returns the item's place in the list of words, or an error. */
int find_item(const struct word *w, const struct item *item);
/* Returns 0 if the item has no argument. */
int refuse_argument(const struct word *w, const struct item *item);
/* Returns 0 if there are at most `most` items. */
int refuse_more_items(const struct word *w, size_t most);
/* Always returns an error. */
int refuse_number(const struct word *w, const char *text, const char *rule);
/* Refuses a text that is not a number. Always returns an error. */
int refuse_text(const struct word *w, const char *text, const char *rule);
/* Reads a number that is 0 or above and that a float can hold. */
int read_float(const struct word *w, const char *text, const char *rule, float *out);
/* Reads a whole number of low..high at *text and moves *text to its end. Returns 0 if there is
 * none. */
unsigned read_whole(const char **text, unsigned low, unsigned high);

/* Reads up= or down=. */
int read_direction(const struct word *w, struct direction *d);
/* Cuts w->value into items and reads them into the draft. */
int read_value(enum axis_id id, struct word *w, struct draft *d);
/* Refuses combinations that make no sense. */
int refuse_combinations(const struct draft *d);
#endif
