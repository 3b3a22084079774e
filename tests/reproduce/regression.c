/* SPDX-License-Identifier: BSD-3-Clause
 * Regression over sparse rows, logistic or linear: gradient of a batch, objective, its minimum. See
 * problem.h. */
#include "tests/reproduce/problem.h"
#include "tests/reproduce/draw.h"
#include "tests/reproduce/memory.h"
#include <math.h>
#include <string.h>

static double product(const struct rows *r, uint32_t row, const float *w)
{
	double sum = 0;

	for (size_t i = r->start[row]; i < r->start[row + 1]; i++)
		sum += (double)r->value[i] * (double)w[r->column[i]];
	return sum;
}

/* The loss of a row at z = w.x, and its first two derivatives with respect to z. */
struct bend {
	double loss, slope, curvature;
};

static struct bend bend_at(const struct regression *l, uint32_t row, double z)
{
	const double label = (double)l->rows->label[row], m = label * z, off = z - label;
	struct bend b;

	if (l->squared)
		return (struct bend){ off * off / 2, off, 1 };
	b.slope = -1 / (1 + exp(m));
	b.loss = m > 0 ? log1p(exp(-m)) : log1p(exp(m)) - m;
	b.curvature = -b.slope * (1 + b.slope);
	b.slope *= label;
	return b;
}

static void add_row(const struct rows *r, uint32_t row, double factor, double *sum)
{
	for (size_t i = r->start[row]; i < r->start[row + 1]; i++)
		sum[r->column[i]] += factor * (double)r->value[i];
}

static void gradient(const struct problem *p, const float *x, const struct sample *at, float *grad)
{
	const struct regression *l = p->data;
	const struct rows *r = l->rows;
	uint32_t begin = part_begin(r->n, at->worker, at->workers);
	uint32_t end = part_begin(r->n, at->worker + 1, at->workers);
	uint32_t n = l->batch ? l->batch : end - begin;
	struct random_stream s = draw_stream(DRAW_BATCH, at->seed, (unsigned)at->worker, at->step);

	memset(l->scratch, 0, r->features * sizeof *l->scratch);
	for (uint32_t b = 0; b < n; b++) {
		uint32_t row = begin + (l->batch ? (uint32_t)draw_below(&s, b, end - begin) : b);

		add_row(r, row, bend_at(l, row, product(r, row, x)).slope / n, l->scratch);
	}
	for (uint32_t j = 0; j < r->features; j++)
		grad[j] = (float)(l->scratch[j] + l->lambda * (double)x[j]);
}

static double objective(const struct problem *p, const float *x)
{
	const struct regression *l = p->data;
	double sum = 0, squares = 0;

	for (uint32_t row = 0; row < l->rows->n; row++)
		sum += bend_at(l, row, product(l->rows, row, x)).loss;
	for (uint32_t j = 0; j < l->rows->features; j++)
		squares += (double)x[j] * (double)x[j];
	return sum / l->rows->n + l->lambda / 2 * squares;
}

static struct problem regression_problem(const char *name, const struct rows *rows, double lambda,
					 uint32_t batch, int squared)
{
	struct regression *l = zeroed(1, sizeof *l);

	*l = (struct regression){ rows, lambda, batch, squared,
				  zeroed(rows->features, sizeof(double)) };
	return (struct problem){ .name = name,
				 .count = rows->features,
				 .start = start_at_zero,
				 .gradient = gradient,
				 .objective = objective,
				 .data = l };
}

struct problem logistic_problem(const char *name, const struct rows *rows, double lambda,
				uint32_t batch)
{
	return regression_problem(name, rows, lambda, batch, 0);
}

struct problem linear_problem(const char *name, const struct rows *rows)
{
	return regression_problem(name, rows, 0, 0, 1);
}

/* ---- the minimum ----------------------------------------------------------- */

static double dot(const double *a, const double *b, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

static double double_product(const struct rows *r, uint32_t row, const double *w)
{
	double sum = 0;

	for (size_t i = r->start[row]; i < r->start[row + 1]; i++)
		sum += (double)r->value[i] * w[r->column[i]];
	return sum;
}

/* out = (mean of weight x x' over rows begin .. end-1, plus lambda) v. Without weights, the largest
 * possible weights are used. */
static void curvature(const struct regression *l, const double *weight, uint32_t begin,
		      uint32_t end, const double *v, double *out)
{
	const struct rows *r = l->rows;

	for (uint32_t j = 0; j < r->features; j++)
		out[j] = l->lambda * v[j];
	for (uint32_t row = begin; row < end; row++) {
		double by = weight ? weight[row] : l->squared ? 1 : 0.25;

		add_row(r, row, by * double_product(r, row, v) / (end - begin), out);
	}
}

/* Solves curvature * step = grad. */
static void newton_step(const struct regression *l, const double *weight, const double *grad,
			double *step, double *work)
{
	uint32_t d = l->rows->features;
	double *rest = work, *direction = work + d, *along = work + 2 * d;

	memset(step, 0, d * sizeof *step);
	memcpy(rest, grad, d * sizeof *rest);
	memcpy(direction, grad, d * sizeof *direction);
	double now = dot(rest, rest, d), first = now;
	for (uint32_t i = 0; i < 4 * d && now > 1e-28 * first && now > 0; i++) {
		curvature(l, weight, 0, l->rows->n, direction, along);
		double a = now / dot(direction, along, d);

		for (uint32_t j = 0; j < d; j++) {
			step[j] += a * direction[j];
			rest[j] -= a * along[j];
		}
		double next = dot(rest, rest, d);

		for (uint32_t j = 0; j < d; j++)
			direction[j] = rest[j] + next / now * direction[j];
		now = next;
	}
}

/* Computes gradient, curvature weights and value at w. */
static double expand(const struct regression *l, const double *w, double *grad, double *weight)
{
	const struct rows *r = l->rows;
	double value = 0;

	memset(grad, 0, r->features * sizeof *grad);
	for (uint32_t row = 0; row < r->n; row++) {
		const struct bend b = bend_at(l, row, double_product(r, row, w));

		value += b.loss;
		weight[row] = b.curvature;
		add_row(r, row, b.slope / r->n, grad);
	}
	for (uint32_t j = 0; j < r->features; j++)
		grad[j] += l->lambda * w[j];
	return value / r->n + l->lambda / 2 * dot(w, w, r->features);
}

double regression_optimum(const struct problem *p, double *point)
{
	const struct regression *l = p->data;
	uint32_t d = l->rows->features;
	double *w = zeroed(6 * (size_t)d, sizeof *w), *grad = w + d, *step = w + 2 * d;
	double *weight = zeroed(l->rows->n, sizeof *weight);
	double value = expand(l, w, grad, weight);

	for (int i = 0; i < 30 && dot(grad, grad, d) > 1e-28; i++) {
		newton_step(l, weight, grad, step, w + 3 * (size_t)d);
		for (uint32_t j = 0; j < d; j++)
			w[j] -= step[j];
		value = expand(l, w, grad, weight);
	}
	if (point)
		memcpy(point, w, d * sizeof *w);
	free(weight);
	free(w);
	return value;
}

double regression_smoothness(const struct problem *p, int worker, int workers)
{
	enum { ITERATIONS = 100 };
	const struct regression *l = p->data;
	uint32_t d = l->rows->features;
	double *v = zeroed(2 * (size_t)d, sizeof *v), *next = v + d, largest = 0;

	for (uint32_t j = 0; j < d; j++)
		v[j] = 1;
	for (int i = 0; i < ITERATIONS; i++) {
		double length = sqrt(dot(v, v, d));

		for (uint32_t j = 0; j < d; j++)
			v[j] /= length;
		curvature(l, NULL, part_begin(l->rows->n, worker, workers),
			  part_begin(l->rows->n, worker + 1, workers), v, next);
		largest = dot(v, next, d);
		memcpy(v, next, d * sizeof *v);
	}
	free(v);
	return largest;
}

struct rows rows_ordered(const struct rows *from, const uint32_t *order, uint32_t n, int normalised)
{
	struct rows r = { .n = n, .features = from->features };
	size_t values = 0;

	for (uint32_t i = 0; i < n; i++)
		values += from->start[order[i] + 1] - from->start[order[i]];
	r.start = zeroed(n + 1, sizeof *r.start);
	r.column = zeroed(values, sizeof *r.column);
	r.value = zeroed(values, sizeof *r.value);
	r.label = zeroed(n, sizeof *r.label);
	for (uint32_t i = 0; i < n; i++) {
		size_t at = r.start[i], first = from->start[order[i]];
		size_t length = from->start[order[i] + 1] - first;
		double squares = 0;

		memcpy(r.column + at, from->column + first, length * sizeof *r.column);
		for (size_t k = 0; k < length; k++)
			squares += (double)from->value[first + k] * (double)from->value[first + k];
		for (size_t k = 0; k < length; k++)
			r.value[at + k] = normalised && squares > 0 ?
						  (float)((double)from->value[first + k] /
							  sqrt(squares)) :
						  from->value[first + k];
		r.label[i] = from->label[order[i]];
		r.start[i + 1] = at + length;
	}
	return r;
}
