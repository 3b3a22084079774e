/* SPDX-License-Identifier: BSD-3-Clause
 * "Did you mean": returns the known word that is nearest to a mistyped one by edit distance, or
 * NULL if none is near. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H
#include <stddef.h>
const char *nearest_word(const char *word, const char *const *known, size_t n_known);
#endif
