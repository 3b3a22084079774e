/* SPDX-License-Identifier: BSD-3-Clause
 * The reports of rank 0 during training: a live line on a terminal or an occasional plain line
 * elsewhere, one line per epoch, and the machine-readable last line on stdout. */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H
#include "sluice.h"
#include "tools/train/metrics.h"
#include "tools/train/options.h"

struct report {
	const struct options *options;
	int leads;  /* rank 0, or if it is lost, the lowest living worker */
	int lost;   /* workers */
	int speaks; /* leads, and not --quiet */
	int live;   /* redraw one line */
	int drawn;  /* the terminal shows a live line */
	uint64_t steps, steps_per_epoch;
	double images_per_step;       /* of all workers */
	double began;                 /* clock when training began */
	uint64_t first_step;          /* steps done before this run, by the run that was resumed */
	double shown;                 /* clock when the line was shown last */
	double epoch_began, loss_sum; /* of this epoch */
	uint64_t loss_steps;
	double accuracy; /* last one measured; negative: none yet */
};

/* Seconds of a clock that never jumps. */
double report_clock(void);

/* steps: of the whole job; first_step: number of steps already done. */
void report_begin(struct report *report, const struct options *options, int rank,
		  uint64_t first_step, uint64_t steps, uint64_t steps_per_epoch,
		  double images_per_step);

/* Called after each batch that made a step; loss: mean over this rank's batch. Reads the model's
 * counters when it prints. */
void report_step(struct report *report, sluice_model *model, uint64_t step, double loss);

/* Called after each epoch's measurement; total: bytes since open, of all workers. */
void report_epoch(struct report *report, const struct network *network, uint64_t epoch,
		  const struct score *test, const struct traffic *total);

/* Sets whether this rank reports for all ranks (leads), and the number of lost workers (lost). */
void report_leader(struct report *report, int leads, int lost);

/* Writes one line to stderr, on the leader only. */
void report_say(struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Reports how many bytes each transport moved, for all workers together. */
void report_carried(struct report *report, const struct carried *carried);

/* Prints the last line on stdout, on the leader. Returns -1 if it could not be written. */
int report_final(struct report *report, uint64_t step, const struct score *test,
		 const struct traffic *total, uint64_t digest);
int report_interrupted(struct report *report, uint64_t step, const char *checkpoint);
#endif
