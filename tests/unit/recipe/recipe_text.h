/* SPDX-License-Identifier: BSD-3-Clause
 * What the tests of the recipe language ask again and again: does it read, what does it print, is
 * it refused. */
#ifndef TESTS_RECIPE_TEXT_H
#define TESTS_RECIPE_TEXT_H
#include "recipe/recipe.h"

/* The recipe of a text that must not be refused. */
struct recipe parsed(const char *text);
void expect_print(const char *text, const char *wanted);
/* All phrases ('|' between them) must be in the sentence, and the recipe must be left alone. */
void expect_refused(const char *text, const char *phrases);

/* What the parser warned of, once swallow_log(), a group's setup, has run. */
extern int warnings;
extern char last_warning[1024];
int swallow_log(void **state);
#endif
