/* SPDX-License-Identifier: BSD-3-Clause
 * Shared checks of the recipe language: a text is accepted, prints as expected, or is refused. */
#ifndef TESTS_RECIPE_TEXT_H
#define TESTS_RECIPE_TEXT_H
#include "recipe/recipe.h"

/* Parses a text that must be accepted. */
struct recipe parsed(const char *text);
void expect_print(const char *text, const char *wanted);
/* The message must contain all phrases, separated by '|' in the argument, and the recipe must stay
 * unchanged. */
void expect_refused(const char *text, const char *phrases);

/* Warnings of the parser, collected once the group's setup function swallow_log() has run. */
extern int warnings;
extern char last_warning[1024];
int swallow_log(void **state);
#endif
