/* SPDX-License-Identifier: BSD-3-Clause
 * Two models of one recipe in a job, which get the same gradients in two ways and must have the
 * same bits after each step. A test describes the training (struct training) and the ways that it
 * compares (struct way). For ranks of ranks.h, which end if something differs. */
#ifndef TESTS_SAME_BITS_H
#define TESTS_SAME_BITS_H
#include "ranks.h"

struct side;

struct training {
	sluice_model_attr attr; /* attributes of both models: at least count, recipe and shards */
	int steps;
	/* Sets the first parameters of this rank. NULL: noise on rank 0, whose parameters are
	 * used. */
	void (*start)(float *params, uint64_t count, int rank);
	/* Sets the gradient of s->step on this rank. NULL: uneven noise with zeros and equal
	 * values, which depends on the parameters. */
	void (*gradient)(float *grad, const float *params, const struct side *s);
	/* Called with each of the two sides before it pushes. */
	void (*before)(struct side *s);
	/* Called when both sides have pulled and are equal. */
	void (*after)(struct side *one, struct side *other);
	const void *own; /* the test's */
};

/* How a model is opened, pushed to and pulled from. The default for NULL members is a vector of
 * floats in host memory. */
struct way {
	void (*open)(struct side *s); /* may change s->attr and s->params; calls side_open() */
	void (*push)(struct side *s, const float *grad);
	void (*pull)(struct side *s, float *target);
	/* Checks that this side has pulled the same as the other side, which pulled into want. */
	void (*compare)(struct side *s, const float *want);
	void (*close)(struct side *s); /* frees the memory of open(); the model is already closed */
};

struct side {
	const struct training *training;
	const struct way *way;
	struct side *other;
	sluice_job *job;
	int rank;
	sluice_model_attr attr;
	sluice_model *model;
	void *params;  /* the parameters passed at open */
	uint64_t step; /* the current step, from 1 */
	void *own;     /* the way's */
};

/* Opens the model; the default of way.open. */
void side_open(struct side *s);
/* Makes a gradient; the default of training.gradient. */
void side_gradient(float *grad, const float *params, const struct side *s);
/* Pushes the gradient by the call that the recipe requires; the default of way.push. */
void side_push(struct side *s, const float *grad);

/* Trains both models. After each step, checks that both have the same vectors, the same state of
 * workers and shards, the same counts of sent elements and the same sluice_step_info(). */
void same_bits(sluice_job *job, const struct training *training, const struct way *one,
	       const struct way *other);
#endif
