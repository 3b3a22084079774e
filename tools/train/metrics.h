/* SPDX-License-Identifier: BSD-3-Clause
 * --metrics: one JSON object per step, written by rank 0; every worker takes part in the sums. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H
#include "sluice.h"
#include "tools/train/complaint.h"
#include "tools/train/network.h"

#include <stdio.h>

/* Bytes that ranks exchange. own_*: bytes between the two halves of one rank, which are not sent.
 * They are summed over the workers, exactly, because they are far below 2^53. */
struct traffic {
	double pushed, pulled, dense;
	double own_pushed, own_pulled, own_dense;
};
enum { TRAFFIC_SUMS = sizeof(struct traffic) / sizeof(double) };

/* Reads this worker's traffic since open. Sets own_* only while nothing has been sent. */
int traffic_own(sluice_model *model, struct traffic *own);

/* Bytes put and got by each transport since the job began: messages, and everything else that
 * Sluice sends. */
enum { CARRIERS = 4 };
extern const char *const carrier_names[CARRIERS]; /* of transports */
struct carried {
	double bytes[CARRIERS];
};

/* Reads the bytes of this worker. */
int carried_own(sluice_job *job, struct carried *own);

struct metrics {
	FILE *file; /* open on rank 0; NULL on others */
	const char *path;
	int measured;          /* --measure: the file has compression errors */
	int failed;            /* 1: writing failed, which is reported once, and by the exit
				  status */
	struct traffic before; /* in the file, by earlier runs of the training */
	double seconds_before;
	struct traffic total; /* up to the last step of this run */
	struct carried carried;
	sluice_model_stats own; /* counters of rank 0 up to the last step */
	double last;            /* time of the last step */
};

/* The values of one line, in addition to the model's counters. */
struct metrics_step {
	uint64_t step, epoch;
	int skipped; /* 1: all workers skipped the batch, so no step was made */
	double lr, images;
	double loss;              /* mean of this worker */
	double seconds;           /* since training began */
	const struct score *test; /* NULL unless accuracy was measured after this step */
};

/* Opens the file before the training begins. append: keeps its lines, and continues their totals
 * and time. Refuses a file that does not end with such a line. */
int metrics_open(struct metrics *metrics, const char *path, int append,
		 struct complaint *complaint);

/* Collective over the workers. Fails only as sluice_sum() and sluice_stats() do. */
int metrics_write(struct metrics *metrics, sluice_job *job, sluice_model *model,
		  const struct metrics_step *step);

/* Flushes and closes the file. Returns -1 if some lines could not be written. Accepts a file that
 * is closed. */
int metrics_close(struct metrics *metrics);
#endif
