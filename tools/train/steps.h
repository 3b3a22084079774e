/* SPDX-License-Identifier: BSD-3-Clause
 * The state of one rank's training, and its loop of steps (steps.c). */
#ifndef TRAIN_STEPS_H
#define TRAIN_STEPS_H
#include "sluice.h"
#include "tools/train/metrics.h"
#include "tools/train/network.h"
#include "tools/train/report.h"
#include "tools/train/training.h"

struct training {
	struct options options;
	struct rows *shared; /* NULL: the rows are this rank's own */
	sluice_job *job;
	sluice_model *model;
	struct dataset train, test;
	struct network network;
	struct compute compute; /* where vectors are and layers are worked out; none at a dedicated
				   server */
	char device[COMPLAINT_BYTES]; /* which device that is, and why */
	struct workspace *workspace;
	float *params, *grad; /* memory of compute, as are the next two */
	float *params_here;   /* where params are copied to be looked at; NULL: they are host
			       * memory */
	float *point,
		*before; /* where a second gradient is taken, and that; NULL for most recipes */
	float lr;        /* of this epoch */
	int averages;    /* update=average: this worker's steps are its own */
	int async;       /* when=async: workers meet at the ends of epochs only */
	uint32_t *part;  /* signal=svrg: this worker's rows, for full gradients; else NULL */
	size_t part_rows;
	uint32_t *order;                 /* rows in the order of this epoch */
	uint64_t steps_per_epoch, steps; /* steps: of the whole job */
	uint64_t left_out;               /* batches of this run for which no step was made */
	uint64_t saved;                  /* step of the last checkpoint */
	int stopped;                     /* by a signal, at some rank */
	struct score score;              /* last measurement, over all workers */
	double first_loss;               /* before the first step; 0 in a resumed job */
	struct traffic total;            /* at the last measurement, over all workers */
	struct carried carried;          /* the same */
	uint64_t measured;               /* step of that */
	uint64_t digest;
	struct metrics metrics;
	struct report report;
};

/* From the first step that is missing to the last, or until a signal asks to stop; with the last
 * checkpoint. */
int train(struct training *t);
/* Batches that are done: one for each step, and those that all workers left out. */
uint64_t batches_done(const struct training *t);
/* Computes the digest of the parameters. Returns 0, or -1 after printing what failed. */
int digest_params(struct training *t, uint64_t *digest_out);
/* Measures score, total and carried. Collective. */
int measure(struct training *t);
/* Determines which worker reports for all from now on. Collective. */
int find_leader(struct training *t);
#endif
