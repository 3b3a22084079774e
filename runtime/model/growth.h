/* SPDX-License-Identifier: BSD-3-Clause
 * Detects a training that diverges because error feedback overshoots: the sent values grow from
 * delay to delay, and coordinates are sent again with the opposite sign. Growth alone is not a
 * symptom: residuals fill up, learning rates rise, and gradients grow when the training leaves a
 * saddle. In these cases a coordinate keeps its sign. The code is pure: worker/guard.c passes in
 * the sent values.
 *
 * A window is one delay: the steps in which each direction sends as many coordinates as the model
 * has. The norm is exact. Signs are compared at up to GROWTH_SAMPLES equally spaced coordinates. So
 * n comparisons give the share of changed signs with a standard deviation of at most 1 / (2
 * sqrt(n)). */
#ifndef RUNTIME_GROWTH_H
#define RUNTIME_GROWTH_H
#include <stdint.h>

enum { GROWTH_SAMPLES = 1 << 14, GROWTH_WINDOWS = 8 };

struct growth {
	int8_t sign[GROWTH_SAMPLES];     /* sign of the value that was sent last; 0: none was
					    sent yet */
	unsigned shift;                  /* a coordinate is a sample if this many low bits are 0 */
	double rate;                     /* the largest learning rate so far */
	double squares;                  /* squared norm of the step under way */
	uint64_t turned, repeated;       /* number of changed and of unchanged signs in the
					    current window */
	double share;                    /* share of changed signs in the last complete window */
	double window;                   /* squared norms of the steps in the current window */
	uint64_t begun;                  /* first step of that window */
	double norm[GROWTH_WINDOWS + 1]; /* root mean squares of the last windows, with the
					    newest last */
	uint64_t ended[GROWTH_WINDOWS + 1];
	unsigned n;     /* number of complete windows, at most GROWTH_WINDOWS + 1 */
	double first;   /* the largest norm of the first steps that sent values */
	uint64_t steps; /* number of steps in which something was sent */
	uint64_t since; /* number of the last step that `first` covers */
	int eager;
	int treated;      /* 1 after the densities were doubled */
	unsigned to_fall; /* number of windows since the doubling that must still fall */
	uint64_t circles; /* number of consecutive windows in which nearly all signs changed */
	double start;     /* `first` at the beginning of the training */
};

/* The numbers of a report. */
struct growth_verdict {
	double then, now;  /* norms of the values that a step sent, divided by its rate and
			      multiplied by the largest rate */
	uint64_t from, to; /* their steps */
	double share;      /* share of the coordinates whose sign changed */
	int circles; /* 1: nearly all signs change, and the norm does not fall and hardly grows */
};

/* With `eager`, growth is reported as soon as it is likely, for a caller that reacts to the
 * report. */
void growth_open(struct growth *g, uint64_t count, int eager);
/* Records n values that a step sends at the coordinates first + index[]. Returns their squared
 * norm, which growth_add() adds to the norm of the step. The caller adds in a fixed order, because
 * messages arrive in any order and a sum of doubles depends on its order. */
double growth_see(struct growth *g, uint64_t first, const uint32_t *index, const float *value,
		  uint64_t n);
void growth_add(struct growth *g, double squares);
/* Ends the step. lr: the rate of the step. delay: 1 if the step completes a window. If the sent
 * values grow without bound, fills *out and returns 1. */
int growth_step(struct growth *g, uint64_t step, double lr, int delay, struct growth_verdict *out);
/* Discards all windows, because they do not apply to a new density. */
void growth_forget(struct growth *g, uint64_t step);
/* As growth_forget(), after the densities were doubled because of growth. */
void growth_treated(struct growth *g, uint64_t step);

/* For checkpoints, between two steps. growth_judge() returns NULL, or the reason why these numbers
 * cannot come from growth_save() after `step` steps. */
enum { GROWTH_NUMBERS = GROWTH_SAMPLES / 8 + 2 * (GROWTH_WINDOWS + 1) + 14 };
void growth_save(const struct growth *g, uint64_t numbers[GROWTH_NUMBERS]);
const char *growth_judge(const uint64_t numbers[GROWTH_NUMBERS], uint64_t step);
void growth_restore(struct growth *g, const uint64_t numbers[GROWTH_NUMBERS]);
#endif
