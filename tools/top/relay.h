/* SPDX-License-Identifier: BSD-3-Clause
 * Pages as text: one sluice-top on each node prints the pages of its node, and the viewer reads
 * them. A line has at most RELAY_LINE bytes, because srun cuts lines of more than 1024.
 *
 *   w AT WORD...              words of the page that follow word number AT, in hexadecimal. Words
 *                             that no line names are 0
 *   r PID STATE FILE NS CRC   ends the page of a rank: struct seen_rank, and the CRC-32C of the
 *                             words
 *   n NODES                   ends a look of this node at its ranks; NODES is the number of nodes
 *                             that look */
#ifndef TOOLS_TOP_RELAY_H
#define TOOLS_TOP_RELAY_H
#include "metrics/seen.h"
#include <stdio.h>

enum { RELAY_LINE = 800 };

/* The pages that one node has sent. Zero it before the first call. */
struct relay {
	uint64_t *words;     /* words of the page that is arriving; NULL if none is */
	struct seen arrives; /* ranks of the look that is arriving */
	struct seen ranks;   /* ranks of the last complete look */
	int nodes;           /* NODES of the last complete look; 0: there is none yet */
};

/* Prints a look. Pages with a block that could not be copied are left out. Returns 0, or -1 without
 * memory. */
int relay_print(const struct seen *seen, int nodes, FILE *to);
/* Takes one line, without its newline. Returns 0, 1 if it is none of the above, or -1 without
 * memory. */
int relay_take(struct relay *r, const char *line);
void relay_free(struct relay *r);
#endif
