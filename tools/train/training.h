/* SPDX-License-Identifier: BSD-3-Clause
 * One rank's part of the training job. */
#ifndef TRAIN_TRAINING_H
#define TRAIN_TRAINING_H
#include "tools/step_of.h"
#include "tools/train/data.h"
#include "tools/train/options.h"

/* Rows that simulated ranks share. */
struct rows {
	int loaded;
	struct dataset train, test;
};

/* Runs the trainer from the job to the last line. shared: for simulated ranks, the rows that the
 * first rank loads, and that the caller frees when all ranks are done; otherwise NULL. *complaint
 * says what is wrong with the command line if bad_usage is set. Collective. Returns 0, SLUICE_E*,
 * or -1 if the job did not end as it should. */
int take_part(sluice_job *job, const struct options *options, struct rows *shared, int bad_usage,
	      struct complaint *complaint);
#endif
