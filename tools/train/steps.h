/* SPDX-License-Identifier: BSD-3-Clause
 * The state of one rank's training, and its loop of steps (steps.c). */
#ifndef TRAIN_STEPS_H
#define TRAIN_STEPS_H
#include "sluice.h"
#include "tools/train/inner.h"
#include "tools/train/metrics.h"
#include "tools/train/network.h"
#include "tools/train/report.h"
#include "tools/train/training.h"

struct training {
	struct options options;
	struct rows *shared; /* NULL: this rank has its own rows */
	sluice_job *job;
	sluice_model *model;
	struct dataset train, test;
	struct network network;
	struct compute compute;       /* memory of vectors, and operations of layers; unused on a
					 dedicated server */
	char device[COMPLAINT_BYTES]; /* the chosen device, and the reason */
	struct workspace *workspace;
	float *params, *grad;  /* in memory of compute, like the next two */
	float *params_here;    /* host copy of params; NULL: params are host memory */
	float *point, *before; /* the point of a second gradient, and that gradient; NULL for most
				  recipes */
	float lr;              /* rate of this epoch */
	int alone;     /* 1: with update=average or signal=drift, this worker steps by itself */
	int drifts;    /* 1: with signal=drift */
	float *common; /* with signal=drift: the common parameters; otherwise NULL */
	struct inner inner;
	int async; /* 1: with when=async, workers meet only at the ends of epochs */
	/* With quorum=: steps between two exchanges; otherwise 0. Workers then also meet only at
	 * the ends of epochs. */
	uint64_t quorum;
	uint32_t *part; /* with signal=svrg: this worker's rows, for full gradients; otherwise
			   NULL */
	size_t part_rows;
	uint32_t *order;                 /* rows in the order of this epoch */
	uint64_t steps_per_epoch, steps; /* steps: total of the job */
	uint64_t left_out;               /* number of batches in this run that made no step */
	uint64_t saved;                  /* step of the last checkpoint */
	int stopped;                     /* 1: a signal on some rank requested a stop */
	struct score score;              /* last measurement, over all workers */
	double first_loss;               /* before the first step; 0 in a resumed job */
	struct traffic total;            /* at the last measurement, over all workers */
	struct carried carried;          /* the same */
	uint64_t measured;               /* step of the last measurement */
	uint64_t digest;
	struct metrics metrics;
	struct report report;
};

/* Trains from the first missing step to the last, or until a signal requests a stop, and writes the
 * last checkpoint. */
int train(struct training *t);
/* Pulls without a push, if the recipe allows it after this step. */
int pull_newest(struct training *t);
/* Returns the number of finished batches: one for each step, and those that all workers left
 * out. */
uint64_t batches_done(const struct training *t);
/* Computes the digest of the parameters. Returns 0, or -1 after printing what failed. */
int digest_params(struct training *t, uint64_t *digest_out);
/* Measures score, total and carried. Collective. */
int measure(struct training *t);
/* Determines which worker reports for all from now on. Collective. */
int find_leader(struct training *t);
#endif
