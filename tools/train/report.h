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
	int leads;  /* 1 on rank 0, or if it is lost, on the lowest living worker */
	int lost;   /* workers */
	int speaks; /* 1 if this rank leads, without --quiet */
	int live;   /* 1: one line is drawn again and again */
	int drawn;  /* 1: the terminal shows that line */
	uint64_t steps, steps_per_epoch;
	double images_per_step;       /* images of all workers in a step */
	double began;                 /* time when training began */
	uint64_t first_step;          /* number of steps that the resumed run had made */
	double shown;                 /* time when the line was last drawn */
	double epoch_began, loss_sum; /* values of this epoch */
	uint64_t loss_steps;
	double accuracy; /* last measured accuracy; negative: none yet */
};

/* Returns the seconds of a clock that never jumps. */
double report_clock(void);

/* steps: total of the job; first_step: number of steps made before. */
void report_begin(struct report *report, const struct options *options, int rank,
		  uint64_t first_step, uint64_t steps, uint64_t steps_per_epoch,
		  double images_per_step);

/* Called after each batch that made a step. loss: mean over this rank's batch. If it prints, it
 * reads the model's counters. */
void report_step(struct report *report, sluice_model *model, uint64_t step, double loss);

/* Called after each epoch's measurement. total: bytes of all workers since open. */
void report_epoch(struct report *report, const struct network *network, uint64_t epoch,
		  const struct score *test, const struct traffic *total);

/* Sets whether this rank reports for all ranks (leads), and the number of lost workers (lost). */
void report_leader(struct report *report, int leads, int lost);

/* Writes one line to stderr on the leader. */
void report_say(struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Reports how many bytes each transport moved for all workers together. */
void report_carried(struct report *report, const struct carried *carried);

/* On the leader, prints the last line on stdout. Returns -1 if that failed. */
int report_final(struct report *report, uint64_t step, const struct score *test,
		 const struct traffic *total, uint64_t digest);
int report_interrupted(struct report *report, uint64_t step, const char *checkpoint);
#endif
