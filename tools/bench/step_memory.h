/* SPDX-License-Identifier: BSD-3-Clause
 * The memory that a model takes on the workers of a job: the amount that the library announced
 * at open, next to the resident memory after the steps. */
#ifndef TOOLS_BENCH_STEP_MEMORY_H
#define TOOLS_BENCH_STEP_MEMORY_H
#include "sluice.h"
#include "tools/bench/resident.h"

struct step_memory {
	/* Means over the workers, in bytes. resident includes regions, the memory that peers may
	 * access. */
	double announced, resident, regions;
	double fullest; /* the largest share of the announced bytes that is resident on any
			 * worker */
};

/* before: this rank's memory before the model was opened. beside: memory that the caller has
 * allocated since. All workers must call it. Returns 0 or SLUICE_E*. */
int step_memory_look(sluice_job *job, sluice_model *model, const struct resident *before,
		     uint64_t beside, struct step_memory *out);
#endif
