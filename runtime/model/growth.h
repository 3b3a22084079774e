/* SPDX-License-Identifier: BSD-3-Clause
 * Recognises a training that diverges because error feedback overshoots: the sent values grow from
 * delay to delay, and coordinates are sent again with the other sign. Growth alone is not a
 * symptom, because residuals fill up, learning rates rise and gradients grow on the way out of a
 * saddle. In all of these cases a coordinate keeps its sign. Pure: worker/guard.c passes in the
 * sent values.
 *
 * A window is one delay: the steps in which each direction sends as many coordinates as the model
 * has. The norm is exact. Signs are those of up to GROWTH_SAMPLES coordinates at equal distances.
 * So n comparisons give the share of changed signs with a standard deviation of at most
 * 1 / (2 sqrt(n)). */
#ifndef RUNTIME_GROWTH_H
#define RUNTIME_GROWTH_H
#include <stdint.h>

enum { GROWTH_SAMPLES = 1 << 14, GROWTH_WINDOWS = 8 };

struct growth {
	int8_t sign[GROWTH_SAMPLES];     /* of what was sent last; 0: nothing was sent yet */
	unsigned shift;                  /* a coordinate is a sample if this many low bits are 0 */
	double rate;                     /* the largest learning rate so far */
	double squares;                  /* of the step under way */
	uint64_t turned, repeated;       /* signs in the window under way, of samples sent before */
	double share;                    /* of changed signs, in the last complete window */
	double window;                   /* squared norms of the steps of the window under way */
	uint64_t begun;                  /* step in which that window began */
	double norm[GROWTH_WINDOWS + 1]; /* of the last windows, root mean square; newest last */
	uint64_t ended[GROWTH_WINDOWS + 1];
	unsigned n;     /* complete windows, at most GROWTH_WINDOWS + 1 */
	double first;   /* the largest norm of the first steps */
	uint64_t steps; /* in which something was sent */
	uint64_t since; /* the last of the first steps */
	int eager;
	int treated;      /* the densities were doubled */
	unsigned to_fall; /* windows that have yet to fall since */
	uint64_t circles; /* windows in a row in which nearly all signs changed */
	double start;     /* `first` of the beginning of the training */
};

/* The figures of a report. */
struct growth_verdict {
	double then, now;  /* norms of what a step sent, over the rate and times the largest one */
	uint64_t from, to; /* their steps */
	double share;      /* of the coordinates whose sign changed */
	int circles; /* nearly all signs change and the norm does not fall, but it hardly grows */
};

/* eager: report growth as soon as it is likely, for a caller that does something about it. */
void growth_open(struct growth *g, uint64_t count, int eager);
/* A step sends n values of the coordinates first + index[]. */
void growth_see(struct growth *g, uint64_t first, const uint32_t *index, const float *value,
		uint64_t n);
/* The step has ended. lr: its rate. delay: it completes a window. Returns 1, with *out, if the
 * sent values grow without bound. */
int growth_step(struct growth *g, uint64_t step, double lr, int delay, struct growth_verdict *out);
/* Discards the windows so far, because a new density makes them useless for predicting the next
 * ones. */
void growth_forget(struct growth *g, uint64_t step);
/* The same after the densities were doubled because of growth. */
void growth_treated(struct growth *g, uint64_t step);

/* For checkpoints, between two steps. growth_judge() returns why numbers cannot be what
 * growth_save() gave after `step` steps, or NULL. */
enum { GROWTH_NUMBERS = GROWTH_SAMPLES / 8 + 2 * (GROWTH_WINDOWS + 1) + 14 };
void growth_save(const struct growth *g, uint64_t numbers[GROWTH_NUMBERS]);
const char *growth_judge(const uint64_t numbers[GROWTH_NUMBERS], uint64_t step);
void growth_restore(struct growth *g, const uint64_t numbers[GROWTH_NUMBERS]);
#endif
