/* SPDX-License-Identifier: BSD-3-Clause
 * See step_memory.h. Called by step.c. */
#include "tools/bench/step_memory.h"
#include <stdio.h>
#include <stdlib.h>

enum { ANNOUNCED, PRIVATE, REGIONS, FIGURES };

/* Writes the figures of this rank to its entry in figures[], and zeros to the others. */
static int own_figures(sluice_model *model, const struct resident *before, uint64_t beside,
		       double figures[FIGURES])
{
	sluice_model_stats stats = { .size = sizeof stats };
	struct resident now;
	int rc = sluice_stats(model, &stats);

	if (rc)
		return rc;
	if (resident_now(&now)) {
		fprintf(stderr,
			"sluice-bench: /proc/self does not report how much memory is resident\n");
		return SLUICE_ENOSUPP;
	}
	figures[ANNOUNCED] = (double)stats.memory_bytes;
	figures[PRIVATE] = (double)now.anonymous - (double)before->anonymous - (double)beside;
	figures[REGIONS] = (double)now.regions - (double)before->regions;
	return 0;
}

int step_memory_look(sluice_job *job, sluice_model *model, const struct resident *before,
		     uint64_t beside, struct step_memory *out)
{
	size_t workers = (size_t)sluice_workers(job), n = workers * FIGURES;
	double *all = calloc(n, sizeof *all);
	int rc = all ? own_figures(model, before, beside,
				   all + (size_t)sluice_rank(job) * FIGURES) :
		       SLUICE_ENOMEM;

	if (!rc)
		rc = sluice_sum(job, all, n);
	*out = (struct step_memory){ 0 };
	for (size_t w = 0; w < workers && !rc; w++) {
		const double *f = all + w * FIGURES;
		double resident = f[PRIVATE] + f[REGIONS];

		out->announced += f[ANNOUNCED] / (double)workers;
		out->resident += resident / (double)workers;
		out->regions += f[REGIONS] / (double)workers;
		if (resident > out->fullest * f[ANNOUNCED])
			out->fullest = resident / f[ANNOUNCED];
	}
	free(all);
	return rc;
}
