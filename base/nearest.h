/* SPDX-License-Identifier: BSD-3-Clause
 * Searches a list of known words, and suggests one for a mistyped word. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H
#include <stddef.h>
/* Returns the place of the word in the list, or -1 if it is not there. */
int word_index(const char *word, const char *const *known, size_t n_known);
/* "Did you mean": returns the known word that is nearest to a mistyped one by edit distance, or
 * NULL if none is near. */
const char *nearest_word(const char *word, const char *const *known, size_t n_known);
#endif
