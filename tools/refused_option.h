/* SPDX-License-Identifier: BSD-3-Clause
 * What is said of an option that getopt_long() refused: which one it was, and which one may have
 * been meant. Included by the tools whose options are all long ones. */
#ifndef TOOLS_REFUSED_OPTION_H
#define TOOLS_REFUSED_OPTION_H
#include "base/nearest.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { REFUSED_BYTES = 192 };

/* "--epcohs, did you mean --epochs?", right after getopt_long() returned '?'. */
static inline const char *refused_option(char **argv, const struct option *table,
					 char text[REFUSED_BYTES])
{
	const char *names[64], *given = argv[optind - 1], *near;
	char name[64];
	size_t n = 0, dashes;

	/* In "-lr" only the l was read: getopt_long() has not left the word yet. */
	if (argv[optind] && argv[optind][0] == '-' && argv[optind][1] && argv[optind][1] == optopt)
		given = argv[optind];
	dashes = strspn(given, "-");
	snprintf(name, sizeof name, "%.*s", (int)strcspn(given + dashes, "="), given + dashes);
	for (; table[n].name && n < sizeof names / sizeof *names; n++)
		names[n] = table[n].name;
	near = nearest_word(name, names, n);
	if (near && (dashes != 2 || strcmp(near, name) != 0))
		snprintf(text, REFUSED_BYTES, "%.100s, did you mean --%s?", given, near);
	else
		snprintf(text, REFUSED_BYTES, "%.100s", given);
	return text;
}
#endif
