/* SPDX-License-Identifier: BSD-3-Clause
 * The problems that the reproductions train: gradients of the workers, and measured quantities.
 * Gradients are functions of (x, worker, step), so the same sample can be taken at two points. Only
 * one worker of a run computes a gradient at a time, so a problem may keep scratch memory. */
#ifndef REPRODUCE_PROBLEM_H
#define REPRODUCE_PROBLEM_H
#include <stddef.h>
#include <stdint.h>

/* Identifies a batch. */
struct sample {
	unsigned seed;
	int worker, workers;
	uint64_t step;
};

struct problem {
	const char *name;
	size_t count;
	void (*start)(const struct problem *p, unsigned seed, float *x);
	/* Writes the gradient of the mean over the worker's batch to grad[0..count). */
	void (*gradient)(const struct problem *p, const float *x, const struct sample *sample,
			 float *grad);
	/* Returns the objective over all data, in double precision at the float32 parameters. */
	double (*objective)(const struct problem *p, const float *x);
	double (*accuracy)(const struct problem *p,
			   const float *x); /* share of test rows; may be NULL */
	void *data;
};

/* Returns the beginning of a worker's part of n rows. Parts are contiguous and differ by at most
 * one row. */
static inline uint32_t part_begin(uint32_t n, int worker, int workers)
{
	return (uint32_t)((uint64_t)n * (uint64_t)worker / (uint64_t)workers);
}

/* ---- regression.c: f(w) = mean of log(1 + exp(-y w.x)) or (w.x - y)^2 / 2 over sparse rows, plus
 * (lambda / 2) |w|^2 ---- */

struct rows {
	uint32_t n, features;
	size_t *start; /* n + 1 positions in column and value */
	uint32_t *column;
	float *value, *label; /* label: y of each row, -1 or 1 for the logistic loss */
};

struct regression {
	const struct rows *rows;
	double lambda;
	uint32_t batch; /* number of rows drawn with replacement; 0: the worker's whole part */
	int squared;
	double *scratch; /* features */
};
/* A problem over the rows, starting at 0. Its memory exists until the process ends. */
struct problem logistic_problem(const char *name, const struct rows *rows, double lambda,
				uint32_t batch);
struct problem linear_problem(const char *name, const struct rows *rows);
/* Returns the minimum of the objective, by Newton steps that conjugate gradients solve. The minimum
 * must be unique. point[0..features) may be NULL. */
double regression_optimum(const struct problem *p, double *point);
/* Returns the smoothness of a worker's part (workers = 1: of all rows): the largest eigenvalue of
 * X'X / n, or a quarter of it for the logistic loss, plus lambda. */
double regression_smoothness(const struct problem *p, int worker, int workers);
/* Returns the rows in this order; normalised: each scaled to length 1. */
struct rows rows_ordered(const struct rows *from, const uint32_t *order, uint32_t n,
			 int normalised);

/* ---- rows.c ---- */

/* Reads the file (LIBSVM text, plain or gzip) and shuffles its rows. 0, or -1 with why[]. */
int a9a_rows(const char *path, struct rows *out, char *why, size_t cap);
/* Returns synthetic sparse rows with heavy-tailed gradients: 10000 features, 8000 rows. */
struct rows text_rows(void);
/* Returns 50 rows of 50 features for each worker. They are scaled so that the sum of the worker's
 * losses (logistic or linear) has smoothness (1.3^worker + 1)^2, or 4 if all are alike. */
struct rows graded_rows(int workers, int alike, int squared);

/* ---- mlp.c: 784 inputs, one hidden layer of ReLU, 10 classes; generated pictures ---- */
struct problem mlp_problem(size_t hidden, uint32_t batch);

/* ---- text.c ---- */

/* The order of a layer's weights in the vector: in x out, as in y = x W, or out x in, as in torch.
 * Selection by blocks depends on it. */
enum text_order { TEXT_BY_INPUT, TEXT_BY_OUTPUT, TEXT_ORDERS };
/* Reads a text, plain or gzip, whose next character is predicted. 0, or -1 with why[]. Its memory
 * exists until the process ends. */
int text_problem(const char *path, uint32_t batch, enum text_order order, struct problem *out,
		 char *why, size_t cap);

/* ---- quad.c ---- */

/* A problem's start. */
void start_at_zero(const struct problem *p, unsigned seed, float *x);
/* f_i(x) = |x - target[i] 1|^2 / 2, exact gradients, start 20 + N(0, 1). */
struct problem disagreement_problem(size_t count, const double *target, int workers);
/* f(x) = sum_j h_j x_j^2 / 2, h from 0.01 to 1 in equal ratios, start 1; a sample's gradient is
 * h x (1 + 0.3 N(0,1)) + 0.05 N(0,1). */
struct problem noisy_quadratic(size_t count);
/* f(x) = sum_j l_j x_j^2 / 2 + sum_j x_j^4 / 16, l_0 = -0.1, others from 0.1 to 1; start on the
 * ridge. */
struct problem saddle_problem(size_t count);
#endif
