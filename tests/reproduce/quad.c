/* SPDX-License-Identifier: BSD-3-Clause
 * Small functions whose minimum is known: see problem.h. */
#include "tests/reproduce/draw.h"
#include "tests/reproduce/memory.h"
#include "tests/reproduce/problem.h"
#include <math.h>
#include <string.h>

void start_at_zero(const struct problem *p, unsigned seed, float *x)
{
	(void)seed;
	memset(x, 0, p->count * sizeof *x);
}

/* ---- workers that disagree ------------------------------------------------- */

struct disagreement {
	const double *target;
	int workers;
};

static void far_start(const struct problem *p, unsigned seed, float *x)
{
	const struct random_stream s = draw_stream(DRAW_START, seed, 0, 0);

	draw_normals(&s, p->count, x);
	for (size_t j = 0; j < p->count; j++)
		x[j] += 20;
}

static void disagreeing_gradient(const struct problem *p, const float *x, const struct sample *at,
				 float *grad)
{
	const struct disagreement *d = p->data;

	for (size_t j = 0; j < p->count; j++)
		grad[j] = (float)((double)x[j] - d->target[at->worker]);
}

static double disagreement_objective(const struct problem *p, const float *x)
{
	const struct disagreement *d = p->data;
	double sum = 0;

	for (int w = 0; w < d->workers; w++)
		for (size_t j = 0; j < p->count; j++) {
			double off = (double)x[j] - d->target[w];

			sum += off * off / 2;
		}
	return sum / d->workers;
}

struct problem disagreement_problem(size_t count, const double *target, int workers)
{
	struct disagreement *d = zeroed(1, sizeof *d);

	*d = (struct disagreement){ target, workers };
	return (struct problem){ .name = "QUAD",
				 .count = count,
				 .start = far_start,
				 .gradient = disagreeing_gradient,
				 .objective = disagreement_objective,
				 .data = d };
}

/* ---- noise in curvature and gradient --------------------------------------- */

static double curvature_of(size_t j, size_t count)
{
	return pow(10, -2 + 2 * (double)j / (double)(count - 1));
}

static void ones(const struct problem *p, unsigned seed, float *x)
{
	(void)seed;
	for (size_t j = 0; j < p->count; j++)
		x[j] = 1;
}

static void noisy_gradient(const struct problem *p, const float *x, const struct sample *at,
			   float *grad)
{
	const double *h = p->data;
	const struct random_stream factor = draw_stream(DRAW_CURVATURE, at->seed,
							(unsigned)at->worker, at->step);
	const struct random_stream added = draw_stream(DRAW_NOISE, at->seed, (unsigned)at->worker,
						       at->step);

	draw_normals(&added, p->count, grad);
	double bent = 1 + 0.3 * draw_normal(&factor, 0);

	for (size_t j = 0; j < p->count; j++)
		grad[j] = (float)(h[j] * bent * (double)x[j] + 0.05 * (double)grad[j]);
}

static double quadratic_objective(const struct problem *p, const float *x)
{
	const double *h = p->data;
	double sum = 0;

	for (size_t j = 0; j < p->count; j++)
		sum += h[j] * (double)x[j] * (double)x[j] / 2;
	return sum;
}

struct problem noisy_quadratic(size_t count)
{
	double *h = zeroed(count, sizeof *h);

	for (size_t j = 0; j < count; j++)
		h[j] = curvature_of(j, count);
	return (struct problem){ .name = "QUAD",
				 .count = count,
				 .start = ones,
				 .gradient = noisy_gradient,
				 .objective = quadratic_objective,
				 .data = h };
}

/* ---- a saddle -------------------------------------------------------------- */

static double saddle_curvature(size_t j, size_t count)
{
	return j ? 0.1 + 0.9 * (double)(j - 1) / (double)(count - 2) : -0.1;
}

static void ridge(const struct problem *p, unsigned seed, float *x)
{
	(void)seed;
	for (size_t j = 0; j < p->count; j++)
		x[j] = j ? 0.3f : 0;
}

static void saddle_gradient(const struct problem *p, const float *x, const struct sample *at,
			    float *grad)
{
	(void)at;
	for (size_t j = 0; j < p->count; j++) {
		double v = (double)x[j];

		grad[j] = (float)(saddle_curvature(j, p->count) * v + v * v * v / 4);
	}
}

static double saddle_objective(const struct problem *p, const float *x)
{
	double sum = 0;

	for (size_t j = 0; j < p->count; j++) {
		double v = (double)x[j];

		sum += saddle_curvature(j, p->count) * v * v / 2 + v * v * v * v / 16;
	}
	return sum;
}

struct problem saddle_problem(size_t count)
{
	return (struct problem){ .name = "QUAD",
				 .count = count,
				 .start = ridge,
				 .gradient = saddle_gradient,
				 .objective = saddle_objective };
}
