/* SPDX-License-Identifier: BSD-3-Clause
 * Whether compression is worth its time: what recipe=auto tries in which step and chooses from what
 * was measured, and the verdict on a recipe that was given. Pure: times are handed in (by
 * watch.c). */
#ifndef RUNTIME_WORTH_H
#define RUNTIME_WORTH_H
#include <stddef.h>
#include <stdint.h>

enum {
	WORTH_CANDIDATES = 4, /* the first one is dense */
	WORTH_TRIES = 5,      /* steps of each candidate; the first of them is not counted */
	WORTH_TRIAL = WORTH_CANDIDATES * WORTH_TRIES,
	/* Steps after which there is a verdict; the first of them is not counted. */
	WORTH_WATCHED = 10,
	/* What a dense step must save for a verdict: less says nothing about the job. */
	WORTH_SAVING_NS = 200000
};

struct candidate {
	double up, down; /* densities; 1: dense */
};
extern const struct candidate worth_candidates[WORTH_CANDIDATES];

/* What one step took of one worker. */
struct worth_step {
	uint64_t work_ns;     /* accumulate, select, encode; validate and add deltas */
	uint64_t wire_ns;     /* posting, waiting for versions, reading them */
	uint64_t bytes;       /* to and from other ranks */
	uint64_t dense_bytes; /* what up=all down=all would have moved */
};

struct worth {
	struct worth_step
		least[WORTH_CANDIDATES]; /* the quickest step of each; no auto: of the first */
	unsigned proposed; /* 1 + candidate that this worker would choose; 0: not known yet */
	/* Of a dense message, measured at open; 0: not measured. */
	double wire_ns_per_byte, work_ns_per_byte;
};

/* The candidate of the step after `steps` ones since the start: one after another, then the chosen
 * one (1 + candidate); the last one where none is chosen yet. */
unsigned worth_candidate(uint64_t steps, unsigned chosen);
/* Enters a step: the steps-th since the start (from 1 on), of this candidate. */
void worth_note(struct worth *w, uint64_t steps, unsigned candidate, const struct worth_step *step);
/* After the trial: 1 + the candidate to go on with. Each sparser one must be at least a tenth
 * quicker than the denser one it replaces, which trains better. */
unsigned worth_choose(const struct worth *w);
/* What was measured and chosen, in one line. */
void worth_explain(const struct worth *w, unsigned chosen, char *text, size_t cap);
/* 1 if a dense step over this wire would have taken less time, by WORTH_SAVING_NS and a tenth of
 * the step or more; then text says so in one line. 0 also where that is not known. */
int worth_verdict(const struct worth *w, uint64_t parameters, char *text, size_t cap);
#endif
