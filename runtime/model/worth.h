/* SPDX-License-Identifier: BSD-3-Clause
 * Decides whether compression is worth its time. For recipe=auto, it determines the candidate of
 * each trial step, and chooses one from the measurements. A
 * candidate is a budget of recipe/budgets.h. For a recipe that the user gave, it only
 * gives a verdict. Pure: watch.c passes the times. */
#ifndef RUNTIME_WORTH_H
#define RUNTIME_WORTH_H
#include "recipe/budgets.h"
#include <stddef.h>
#include <stdint.h>

enum {
	WORTH_CANDIDATES = BUDGETS, /* candidate 0 is dense */
	WORTH_TRIES = 5,            /* steps per candidate, of which the first does not count */
	WORTH_TRIAL = WORTH_CANDIDATES * WORTH_TRIES,
	/* A verdict needs this many steps, of which the first does not count. */
	WORTH_WATCHED = 10,
	/* A verdict against compression also requires that a dense step would save this much time.
	 * A smaller saving is not significant. */
	WORTH_SAVING_NS = 200000,
	WORTH_TEXT_BYTES = 480, /* enough for worth_explain() */
	WORTH_WORDS_BYTES = 96  /* worth_words() writes less */
};

/* The cost of one step on one worker. */
struct worth_step {
	uint64_t work_ns;     /* accumulating, selecting, encoding; validating and adding deltas */
	uint64_t wire_ns;     /* posting messages, waiting for versions, reading them */
	uint64_t bytes;       /* bytes to and from other ranks */
	uint64_t dense_bytes; /* bytes that up=all down=all would have sent and received */
};

struct worth {
	struct worth_step least[WORTH_CANDIDATES]; /* the fastest step of each candidate; without
						      auto, only entry 0 is used */
	struct worth_step before;                  /* the sums of worth_since() at its last call */
	/* Cost of a dense message, measured at open, or 0. */
	double wire_ns_per_byte, work_ns_per_byte;
};

/* Returns the candidate of the step after `steps` steps. The candidates are tried one after
 * another. After the trial, this is candidate chosen - 1, or the last candidate while chosen is
 * 0. */
unsigned worth_candidate(uint64_t steps, unsigned chosen);
/* Returns how much the sums have grown since the last call. */
struct worth_step worth_since(struct worth *w, const struct worth_step *sums);
/* Records the cost of a step with this candidate. `steps` is the number of the step, counted from
 * 1. */
void worth_note(struct worth *w, uint64_t steps, unsigned candidate, const struct worth_step *step);
/* After the trial, returns 1 + the candidate to use. A sparser candidate must be at least a tenth
 * faster than the denser candidate that it replaces, because denser steps train better. */
unsigned worth_choose(const struct worth *w);
/* Writes the measurements and the choice in one line. */
void worth_explain(const struct worth *w, const struct auto_choice *choice, char *text, size_t cap);
/* Writes the words up= and down= of a sparse choice. */
void worth_words(unsigned budget, const enum code code[BUDGET_WAYS], char *text, size_t cap);
/* Returns 1 if a dense step over this network would have been faster by at least WORTH_SAVING_NS
 * and a tenth of the step, and writes this verdict to text in one line. Otherwise, or if the time
 * of a dense step is not known, returns 0. */
int worth_verdict(const struct worth *w, uint64_t parameters, char *text, size_t cap);
#endif
