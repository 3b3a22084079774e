/* SPDX-License-Identifier: BSD-3-Clause
 * Prints the pages that sluice-top has found, as a screen or as JSON. */
#ifndef TOOLS_TOP_SHOW_H
#define TOOLS_TOP_SHOW_H
#include "metrics/seen.h"
#include <stdio.h>

struct view {
	const struct seen *before; /* an earlier look, for rates */
	int width;                 /* of the screen, in characters */
	int color;                 /* 1: with ANSI colors */
	int rank;                  /* -1: all ranks in a table; otherwise this one in detail */
	int nodes;                 /* 1: of all nodes, 0: of this node */
};

void show_screen(const struct seen *seen, const struct view *view, FILE *to);
void show_json(const struct seen *seen, FILE *to);
#endif
