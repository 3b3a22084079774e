/* SPDX-License-Identifier: BSD-3-Clause
 * See waits.h. */
#include "tools/top/waits.h"
#include "metrics/metrics.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_COMPARED = 3, COMPARED_MOST = 4096 };

/* Ranks are named as "rank 3 (node n2)", and in a group as "rank 1 of group 2 (rank 3 of the job,
 * node n2)". */
int awaited_rank(const struct seen_rank *rank, int i)
{
	static const char name[] = "rank ";
	const char *at = strrchr(rank->wait.text, ';');

	if (!rank->wait.since_ns)
		return -1;
	at = at ? at : rank->wait.text;
	while ((at = strstr(at, name)) != NULL) {
		char *end;
		long number;

		at += sizeof(name) - 1;
		if (!isdigit((unsigned char)*at))
			continue;
		number = strtol(at, &end, 10);
		if (!strncmp(end, " of group", 9) || number >= rank->who.size)
			continue;
		if (!i--)
			return (int)number;
	}
	return -1;
}

int waiting_for(const struct seen *seen, const struct seen_rank *awaited_by, int rank)
{
	int n = 0;

	for (size_t s = 0; s < seen->n; s++) {
		if (!seen_together(&seen->ranks[s], awaited_by))
			continue;
		for (int other, i = 0; (other = awaited_rank(&seen->ranks[s], i)) >= 0; i++)
			if (other == rank) {
				n++;
				break;
			}
	}
	return n;
}

static double growth(uint64_t now, uint64_t before)
{
	return now > before ? (double)(now - before) : 0;
}

/* The sum of the waits grows only when a wait ends. Adds the wait under way, and leaves out what a
 * wait had taken before the first look. */
static void add_wait(const struct seen_rank *rank, struct pace *pace)
{
	double rest = pace->seconds, *wait = &pace->parts[PART_WAIT];

	for (int p = 0; p < STEP_PARTS; p++)
		rest -= p == PART_WAIT ? 0 : pace->parts[p];
	if (rank->wait.since_ns && rank->who.rank < rank->who.size - rank->who.servers)
		*wait += seconds_since(rank, rank->wait.since_ns);
	if (*wait > rest)
		*wait = rest > 0 ? rest : 0;
}

int pace_of(const struct seen_rank *rank, const struct seen_rank *before, int model,
	    struct pace *out)
{
	const struct page_numbers *now = &rank->numbers[model], *then;

	*out = (struct pace){ 0 };
	if (!before || rank->ns <= before->ns || !now->ns ||
	    before->models[model].id != rank->models[model].id)
		return -1;
	then = &before->numbers[model];
	if (!then->ns)
		return -1;
	out->seconds = growth(rank->ns, before->ns) / 1e9;
	out->steps = growth(now->version, then->version);
	out->up = growth(now->stats.pushed_bytes, then->stats.pushed_bytes);
	out->down = growth(now->stats.pulled_bytes, then->stats.pulled_bytes);
	for (int p = 0; p < STEP_PARTS; p++)
		out->parts[p] = growth(part_ns(&now->stats, (enum step_part)p),
				       part_ns(&then->stats, (enum step_part)p)) /
				1e9;
	add_wait(rank, out);
	return 0;
}

/* Returns the seconds that a step of this worker takes without waiting, or 0. */
static double own_seconds(const struct seen_rank *rank, const struct seen *before)
{
	struct pace pace;

	if (rank->who.rank >= rank->who.size - rank->who.servers ||
	    pace_of(rank, seen_before(before, rank), 0, &pace) || pace.steps < 1 ||
	    pace.parts[PART_WAIT] >= pace.seconds)
		return 0;
	return (pace.seconds - pace.parts[PART_WAIT]) / pace.steps;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double rank_slowness(const struct seen *seen, const struct seen *before,
		     const struct seen_rank *rank)
{
	static double all[COMPARED_MOST];
	const double own = before ? own_seconds(rank, before) : 0;
	size_t n = 0;

	if (own <= 0)
		return 0;
	for (size_t i = 0; i < seen->n && n < COMPARED_MOST; i++)
		if (seen_together(&seen->ranks[i], rank) &&
		    (all[n] = own_seconds(&seen->ranks[i], before)) > 0)
			n++;
	if (n < LEAST_COMPARED)
		return 0;
	qsort(all, n, sizeof(all[0]), by_value);
	return own / all[(n - 1) / 2];
}
