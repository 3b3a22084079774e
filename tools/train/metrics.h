/* SPDX-License-Identifier: BSD-3-Clause
 * --metrics: one JSON object per step, written by rank 0; every worker takes part in the sums. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H
#include "sluice.h"
#include "tools/train/complaint.h"
#include "tools/train/network.h"

#include <stdio.h>

/* Bytes sent between ranks. own_*: bytes between the halves of one rank, which are not sent. Summed
 * over the workers; exact, because far below 2^53. */
struct traffic {
	double pushed, pulled, dense;
	double own_pushed, own_pulled, own_dense;
};
enum { TRAFFIC_SUMS = sizeof(struct traffic) / sizeof(double) };

/* Reads this worker's own traffic since open; own_* only while nothing has been sent. */
int traffic_own(sluice_model *model, struct traffic *own);

/* Bytes put and got by each transport since the job began: messages, and everything else that
 * Sluice sends. */
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
	int failed;           /* writing failed: reported once, and shown in the exit status */
	struct traffic total; /* up to the last step */
	struct carried carried;
	sluice_model_stats own; /* of rank 0, up to the last step */
	double last;            /* when that was */
};

/* The values of one line, in addition to the model's counters. */
struct metrics_step {
	uint64_t step, epoch;
	int skipped; /* all workers skipped the batch, so no step was made */
	double lr, images;
	double loss;              /* this worker's mean */
	double seconds;           /* since training began */
	const struct score *test; /* NULL unless accuracy was measured after this step */
};

/* Opens the file before the training begins. append: keeps its content. */
int metrics_open(struct metrics *metrics, const char *path, int append,
		 struct complaint *complaint);

/* Collective over the workers. Fails only as sluice_sum() and sluice_stats() do. */
int metrics_write(struct metrics *metrics, sluice_job *job, sluice_model *model,
		  const struct metrics_step *step);

/* Flushes and closes. Returns -1 if not everything could be written. Accepts a closed one. */
int metrics_close(struct metrics *metrics);
#endif
