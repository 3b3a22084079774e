/* SPDX-License-Identifier: BSD-3-Clause
 * See densities.h. */
#include "tools/bench/densities.h"
#include <stdio.h>

enum { USUAL = 3, LEAST_ROUNDS = 5 };

static const double usual[USUAL] = { 0.001, 0.01, 0.1 };

static size_t count_of(const struct options *o, double density)
{
	size_t k = (size_t)((double)o->n * density + 0.5);

	return k ? k : 1;
}

static size_t only_count(const struct options *o)
{
	if (o->k)
		return o->k < o->n ? o->k : o->n;
	return count_of(o, o->density);
}

static int is_one(const struct options *o)
{
	return o->k || o->density > 0;
}

size_t densities_most(const struct options *o)
{
	return is_one(o) ? only_count(o) : count_of(o, usual[USUAL - 1]);
}

int densities_run(const struct options *o, int (*one)(void *bench, size_t k, int first),
		  void *bench)
{
	int rc = 0;

	if (is_one(o))
		rc = one(bench, only_count(o), 1);
	else
		for (int i = 0; i < USUAL && !rc; i++)
			rc = one(bench, count_of(o, usual[i]), i == 0);
	if (o->json)
		printf("\n]}\n");
	return rc;
}

uint64_t densities_rounds(const struct options *o, double warmup_seconds, uint64_t most)
{
	uint64_t rounds = LEAST_ROUNDS;

	if (o->repeat)
		return o->repeat;
	if (o->warmup && warmup_seconds > 0)
		rounds = (uint64_t)(o->seconds / warmup_seconds * (double)o->warmup);
	return rounds < LEAST_ROUNDS ? LEAST_ROUNDS : rounds > most ? most : rounds;
}
