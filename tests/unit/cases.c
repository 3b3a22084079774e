/* SPDX-License-Identifier: BSD-3-Clause
 * The cases of a program. Compilers emit constructors in any order, so cases are sorted by line. */
#include "cases.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MAX = 64 };

static struct CMUnitTest cases[CASES_MAX];
static int lines[CASES_MAX];
static size_t count;

void add_case(int line, const char *name, CMUnitTestFunction run, CMFixtureFunction set_up,
	      CMFixtureFunction tear_down)
{
	size_t at = count++;

	if (count > CASES_MAX)
		abort();
	for (; at > 0 && lines[at - 1] > line; at--) {
		lines[at] = lines[at - 1];
		cases[at] = cases[at - 1];
	}
	lines[at] = line;
	cases[at] = (struct CMUnitTest){ name, run, set_up, tear_down, NULL };
}

/* Returns a name that occurs in two files of a program. */
static const char *repeated_name(void)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < i; j++)
			if (!strcmp(cases[i].name, cases[j].name))
				return cases[i].name;
	return NULL;
}

int run_cases(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
	const char *repeated = repeated_name();

	if (repeated) {
		fprintf(stderr, "%s has two cases called %s: rename one of them\n",
			program_invocation_short_name, repeated);
		return 1;
	}
	if (!count) {
		fprintf(stderr, "%s has no cases\n", program_invocation_short_name);
		return 1;
	}
	return _cmocka_run_group_tests(program_invocation_short_name, cases, count, set_up,
				       tear_down);
}
