/* SPDX-License-Identifier: BSD-3-Clause
 * --metrics: one JSON object per step, written by rank 0; every worker takes part in the sums. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H
#include "sluice.h"
#include "tools/train/complaint.h"
#include "tools/train/network.h"

#include <stdio.h>

/* Bytes that crossed between ranks, and own_*: between the halves of one rank, which cross no wire.
 * Summed over the workers; exact, since far below 2^53. */
struct traffic {
	double pushed, pulled, dense;
	double own_pushed, own_pulled, own_dense;
};
enum { TRAFFIC_SUMS = sizeof(struct traffic) / sizeof(double) };

/* This worker's own traffic since open; own_* only while nothing crossed a wire. */
int traffic_own(sluice_model *model, struct traffic *own);

/* Bytes put and got by each transport since the job began: messages, and all that Sluice sends
 * besides. */
enum { CARRIERS = 4 };
extern const char *const carrier_names[CARRIERS]; /* of transports */
struct carried {
	double bytes[CARRIERS];
};

/* This worker's own. */
int carried_own(sluice_job *job, struct carried *own);

struct metrics {
	FILE *file; /* rank 0's; NULL elsewhere */
	const char *path;
	int measured;         /* --measure: compression errors too */
	int failed;           /* writing failed: said once, and the job ends with a status */
	struct traffic total; /* up to the last step */
	struct carried carried;
	sluice_model_stats own; /* of rank 0, up to the last step */
	double last;            /* when that was */
};

/* The values of one line, in addition to the model's counters. */
struct metrics_step {
	uint64_t step, epoch;
	int skipped; /* all workers left the batch out, so that no step was made */
	double lr, images;
	double loss;              /* this worker's mean */
	double seconds;           /* since training began */
	const struct score *test; /* NULL unless accuracy was measured after this step */
};

/* Opens the file before anything is trained (append: after what is there). */
int metrics_open(struct metrics *metrics, const char *path, int append,
		 struct complaint *complaint);

/* Collective over the workers. Fails only as sluice_sum() and sluice_stats() do. */
int metrics_write(struct metrics *metrics, sluice_job *job, sluice_model *model,
		  const struct metrics_step *step);

/* Flushes and closes; -1 when not everything could be written. Accepts a closed one. */
int metrics_close(struct metrics *metrics);
#endif
