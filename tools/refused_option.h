/* SPDX-License-Identifier: BSD-3-Clause
 * Explains an option that getopt_long() refused: its name, and the option that was probably meant.
 * Included by the tools whose options are all long ones. */
#ifndef TOOLS_REFUSED_OPTION_H
#define TOOLS_REFUSED_OPTION_H
#include "base/nearest.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { REFUSED_BYTES = 192 };

/* Called right after getopt_long() returned '?'. Returns for example "--epcohs, did you mean
 * --epochs?". */
static inline const char *refused_option(char **argv, const struct option *table,
					 char text[REFUSED_BYTES])
{
	const char *names[64], *given = argv[optind - 1], *near;
	char name[64];
	size_t n = 0, dashes;

	/* For "-lr", getopt_long() has only read the l, and is still inside the argument. */
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
