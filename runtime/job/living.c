/* SPDX-License-Identifier: BSD-3-Clause
 * See living.h. */
#include "job/living.h"
#include "job/state.h"
#include <stdlib.h>
#include <string.h>

struct living {
	atomic_int workers; /* number of living workers */
	uint8_t now[MEMBERS_BYTES], round[MEMBERS_BYTES];
};

int living_open(sluice_job *job)
{
	struct living *l = job->living = calloc(1, sizeof(*l));
	if (!l)
		return fail(SLUICE_ENOMEM, "no memory for %d workers", job->workers);
	atomic_store(&l->workers, job->workers);
	for (int w = 0; w < job->workers; w++)
		l->now[w / 8] |= (uint8_t)(1 << w % 8);
	memcpy(l->round, l->now, sizeof(l->round));
	return 0;
}

void living_close(sluice_job *job)
{
	free(job->living);
	job->living = NULL;
}

void living_drop(sluice_job *job, int worker)
{
	job->living->now[worker / 8] &= (uint8_t) ~(1 << worker % 8);
	atomic_fetch_sub(&job->living->workers, 1);
}

const uint8_t *living_bits(const sluice_job *job)
{
	return job->living->now;
}

const uint8_t *living_round_bits(const sluice_job *job)
{
	return job->living->round;
}

void living_count(sluice_job *job, const uint8_t *bits)
{
	memcpy(job->living->round, bits, sizeof(job->living->round));
}

int job_living(const sluice_job *job, int rank)
{
	return !job->living || rank >= job->workers || living_bit(job->living->now, rank);
}

int round_has(const sluice_job *job, int rank)
{
	return !job->living || rank >= job->workers || living_bit(job->living->round, rank);
}

int round_leader(const sluice_job *job)
{
	int rank = 0;
	while (!round_has(job, rank))
		rank++;
	return rank;
}

int sluice_living(const sluice_job *job)
{
	return job->living ? atomic_load(&job->living->workers) : job->workers;
}
