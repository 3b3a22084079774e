/* SPDX-License-Identifier: BSD-3-Clause
 * "Did you mean": the edit distance between short words, with transpositions and without regard to
 * case. Called for an unknown word of a recipe, environment variable or option. */
#include "base/nearest.h"

#include <string.h>

enum { WORD_MAX = 48 };

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Returns the number of insertions, deletions, substitutions and swaps of neighbours that turn a
 * into b. */
static size_t edit_distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *above = rows[1], *row = rows[2];

	for (size_t j = 0; j <= n_b; j++)
		above[j] = j;
	for (size_t i = 1; i <= n_a; i++) {
		row[0] = i;
		for (size_t j = 1; j <= n_b; j++) {
			size_t differs = lower(a[i - 1]) != lower(b[j - 1]);
			size_t best = min_size(above[j - 1] + differs,
					       min_size(above[j], row[j - 1]) + 1);

			if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
			    lower(a[i - 2]) == lower(b[j - 1]))
				best = min_size(best, before[j - 2] + 1);
			row[j] = best;
		}
		size_t *free_row = before;

		before = above;
		above = row;
		row = free_row;
	}
	return above[n_b];
}

static int is_beginning(const char *word, size_t n, const char *known)
{
	for (size_t i = 0; i < n; i++)
		if (lower(word[i]) != lower(known[i])) /* the '\0' at the end of known also
							  differs, and ends the loop */
			return 0;
	return 1;
}

int word_index(const char *word, const char *const *known, size_t n_known)
{
	for (size_t i = 0; i < n_known; i++)
		if (strcmp(word, known[i]) == 0)
			return (int)i;
	return -1;
}

const char *nearest_word(const char *word, const char *const *known, size_t n_known)
{
	const char *best = NULL;
	size_t best_distance = WORD_MAX;
	size_t n = strlen(word);

	if (n == 0 || n > WORD_MAX)
		return NULL;
	for (size_t i = 0; i < n_known; i++) {
		size_t n_candidate = strlen(known[i]);

		if (n_candidate > WORD_MAX)
			continue;
		/* The words may differ in one letter. Words of 6 letters or more may differ in a
		 * third of the longer one. They must not differ in every letter. */
		size_t longer = n > n_candidate ? n : n_candidate;
		size_t limit = longer < 6 ? 1 : longer / 3;
		size_t distance = edit_distance(word, n, known[i], n_candidate);

		if (n >= 3 && distance > 1 && is_beginning(word, n, known[i]))
			distance = 1; /* a prefix is near: "resid" is likely to mean "residual" */
		if (distance <= limit && distance < longer && distance < best_distance) {
			best = known[i];
			best_distance = distance;
		}
	}
	return best;
}
