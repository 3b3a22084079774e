/* SPDX-License-Identifier: BSD-3-Clause
 * Two models of one recipe in a job, which get the same gradients in two ways: after each step they
 * hold the same bits. A test describes the training (struct training) and the ways that it compares
 * (struct way). For ranks of ranks.h, which end where something differs. */
#ifndef TESTS_SAME_BITS_H
#define TESTS_SAME_BITS_H
#include "ranks.h"

struct side;

struct training {
	sluice_model_attr attr; /* of both models; count, recipe and shards at least */
	int steps;
	/* The first parameters of this rank. NULL: noise on rank 0, whose parameters count. */
	void (*start)(float *params, uint64_t count, int rank);
	/* The gradient of s->step on this rank. NULL: uneven noise with zeros and equal values,
	 * which depends on the parameters. */
	void (*gradient)(float *grad, const float *params, const struct side *s);
	/* Called with each of the two before it pushes. */
	void (*before)(struct side *s);
	/* Called when both have pulled, and are found equal. */
	void (*after)(struct side *one, struct side *other);
	const void *own; /* the test's */
};

/* How a model is opened, pushed to and pulled from. What is NULL is done with a vector of floats in
 * host memory. */
struct way {
	void (*open)(struct side *s); /* may change s->attr and s->params, and calls side_open() */
	void (*push)(struct side *s, const float *grad);
	void (*pull)(struct side *s, float *target);
	/* Checks that what this side pulled is what the other pulled into want. */
	void (*compare)(struct side *s, const float *want);
	void (*close)(struct side *s); /* frees what open() made; the model is closed */
	const void *own;
};

struct side {
	const struct training *training;
	const struct way *way;
	struct side *other;
	sluice_job *job;
	int rank;
	sluice_model_attr attr;
	sluice_model *model;
	void *params;  /* what the model is opened with */
	uint64_t step; /* the one under way, from 1 */
	void *own;     /* the way's */
};

/* Opens the model, as way.open does where it is NULL. */
void side_open(struct side *s);
/* As training.gradient does where it is NULL. */
void side_gradient(float *grad, const float *params, const struct side *s);
/* Pushes it as the recipe asks, as way.push does where it is NULL. */
void side_push(struct side *s, const float *grad);

/* Trains both, and checks after each step that the vectors, all that the workers and shards keep,
 * the counts of what was sent and what sluice_step_info() reports are the same. */
void same_bits(sluice_job *job, const struct training *training, const struct way *one,
	       const struct way *other);
#endif
