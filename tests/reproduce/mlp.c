/* SPDX-License-Identifier: BSD-3-Clause
 * A network 784-hidden-10 on generated pictures. Parameters: weights in (784 x hidden), biases,
 * weights out (hidden x 10), biases. See problem.h. */
#include "tests/reproduce/draw.h"
#include "tests/reproduce/memory.h"
#include "tests/reproduce/problem.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

enum {
	SIDE = 28,
	PIXELS = SIDE * SIDE,
	CLASSES = 10,
	TEMPLATES = 30,
	TRAIN = 6000,
	TEST = 2000,
	SMOOTHINGS = 6,
	BLOCK = 500
};

struct network {
	size_t hidden;
	uint32_t batch;
	float *pixels; /* TRAIN + TEST rows */
	uint8_t *label;
	float *x, *h, *z, *back; /* memory for a batch */
};

/* ---- pictures -------------------------------------------------------------- */

/* Makes white noise, averaged over the five points of a cross on a torus and scaled to a maximum of
 * 1. */
static void smooth_noise(unsigned owner, uint64_t number, float *out)
{
	const struct random_stream s = draw_stream(DRAW_SMOOTH, 1, owner, number);
	float other[PIXELS], largest = 0;

	draw_normals(&s, PIXELS, out);
	for (int pass = 0; pass < SMOOTHINGS; pass++) {
		memcpy(other, out, sizeof other);
		for (int y = 0; y < SIDE; y++)
			for (int x = 0; x < SIDE; x++) {
				int up = (y + SIDE - 1) % SIDE, down = (y + 1) % SIDE;
				int left = (x + SIDE - 1) % SIDE, right = (x + 1) % SIDE;

				out[y * SIDE + x] = (other[y * SIDE + x] + other[up * SIDE + x] +
						     other[down * SIDE + x] +
						     other[y * SIDE + left] +
						     other[y * SIDE + right]) /
						    5;
			}
	}
	for (int i = 0; i < PIXELS; i++)
		largest = fabsf(out[i]) > largest ? fabsf(out[i]) : largest;
	for (int i = 0; i < PIXELS; i++)
		out[i] /= largest;
}

static void draw_pictures(struct network *n)
{
	static float template[TEMPLATES][PIXELS];
	const struct random_stream classes = draw_stream(DRAW_LABELS, 1, 1, 0);
	const struct random_stream which = draw_stream(DRAW_TEMPLATES, 1, 0, 0);
	const struct random_stream scale = draw_stream(DRAW_TEMPLATES, 1, 1, 0);
	float smooth[PIXELS], white[PIXELS];

	for (unsigned t = 0; t < TEMPLATES; t++)
		smooth_noise(1, t, template[t]);
	for (size_t row = 0; row < TRAIN + TEST; row++) {
		const struct random_stream s = draw_stream(DRAW_PIXELS, 1, 0, row);
		uint64_t t = draw_below(&which, row, TEMPLATES);
		float factor = (float)(0.3 + 1.2 * draw_uniform(&scale, row));
		float *out = n->pixels + row * PIXELS;

		smooth_noise(2, row, smooth);
		draw_normals(&s, PIXELS, white);
		for (int i = 0; i < PIXELS; i++)
			out[i] = template[t][i] * factor + 0.5f * smooth[i] + 0.3f * white[i];
		n->label[row] = (uint8_t)draw_below(&classes, t, CLASSES);
	}
}

/* ---- the network ----------------------------------------------------------- */

struct parameters {
	size_t weights_in, bias_in, weights_out, bias_out, count;
};

static struct parameters layout(size_t hidden)
{
	struct parameters at = { .bias_in = PIXELS * hidden };

	at.weights_out = at.bias_in + hidden;
	at.bias_out = at.weights_out + hidden * CLASSES;
	at.count = at.bias_out + CLASSES;
	return at;
}

static void start(const struct problem *p, unsigned seed, float *x)
{
	const struct network *n = p->data;
	const struct parameters at = layout(n->hidden);
	const struct random_stream in = draw_stream(DRAW_START, seed, 0, 0);
	const struct random_stream out = draw_stream(DRAW_START, seed, 1, 0);

	memset(x, 0, p->count * sizeof *x);
	draw_normals(&in, PIXELS * n->hidden, x + at.weights_in);
	draw_normals(&out, n->hidden * CLASSES, x + at.weights_out);
	for (size_t i = 0; i < PIXELS * n->hidden; i++)
		x[at.weights_in + i] *= 0.05f;
	for (size_t i = 0; i < n->hidden * CLASSES; i++)
		x[at.weights_out + i] *= 0.2f;
}

/* Computes the layers for x, which has `rows` rows of PIXELS. h receives the hidden layer, z the
 * logits. */
static void forward(const struct network *n, const float *w, int rows, const float *x, float *h,
		    float *z)
{
	const struct parameters at = layout(n->hidden);
	const int hidden = (int)n->hidden;

	for (int r = 0; r < rows; r++)
		memcpy(h + r * hidden, w + at.bias_in, n->hidden * sizeof *h);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, hidden, PIXELS, 1, x, PIXELS,
		    w + at.weights_in, hidden, 1, h, hidden);
	for (int i = 0; i < rows * hidden; i++)
		h[i] = h[i] > 0 ? h[i] : 0;
	for (int r = 0; r < rows; r++)
		memcpy(z + r * CLASSES, w + at.bias_out, CLASSES * sizeof *z);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, CLASSES, hidden, 1, h, hidden,
		    w + at.weights_out, CLASSES, 1, z, CLASSES);
}

/* Replaces a row z by (softmax(z) - (1 at label)) * factor. */
static void softmax_slope(float *z, int label, float factor)
{
	float largest = z[0], sum = 0;

	for (int c = 1; c < CLASSES; c++)
		largest = z[c] > largest ? z[c] : largest;
	for (int c = 0; c < CLASSES; c++)
		sum += z[c] = expf(z[c] - largest);
	for (int c = 0; c < CLASSES; c++)
		z[c] = factor * (z[c] / sum - (c == label ? 1.0f : 0.0f));
}

static void column_sums(const float *m, int rows, int columns, float *out)
{
	memset(out, 0, (size_t)columns * sizeof *out);
	for (int r = 0; r < rows; r++)
		for (int c = 0; c < columns; c++)
			out[c] += m[r * columns + c];
}

static void gradient(const struct problem *p, const float *w, const struct sample *sample,
		     float *grad)
{
	const struct network *n = p->data;
	const struct parameters at = layout(n->hidden);
	const int rows = (int)n->batch, hidden = (int)n->hidden;
	const struct random_stream s = draw_stream(DRAW_BATCH, sample->seed,
						   (unsigned)sample->worker, sample->step);
	uint32_t begin = part_begin(TRAIN, sample->worker, sample->workers);
	uint32_t end = part_begin(TRAIN, sample->worker + 1, sample->workers);
	uint32_t chosen[1024];

	for (int r = 0; r < rows; r++) {
		chosen[r] = begin + (uint32_t)draw_below(&s, (uint64_t)r, end - begin);
		memcpy(n->x + (size_t)r * PIXELS, n->pixels + (size_t)chosen[r] * PIXELS,
		       PIXELS * sizeof(float));
	}
	forward(n, w, rows, n->x, n->h, n->z);
	for (int r = 0; r < rows; r++)
		softmax_slope(n->z + r * CLASSES, n->label[chosen[r]], 1 / (float)rows);
	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, hidden, CLASSES, rows, 1, n->h, hidden,
		    n->z, CLASSES, 0, grad + at.weights_out, CLASSES);
	column_sums(n->z, rows, CLASSES, grad + at.bias_out);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, hidden, CLASSES, 1, n->z,
		    CLASSES, w + at.weights_out, CLASSES, 0, n->back, hidden);
	for (int i = 0; i < rows * hidden; i++)
		n->back[i] = n->h[i] > 0 ? n->back[i] : 0;
	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, PIXELS, hidden, rows, 1, n->x, PIXELS,
		    n->back, hidden, 0, grad + at.weights_in, hidden);
	column_sums(n->back, rows, hidden, grad + at.bias_in);
}

/* ---- measured in double precision ------------------------------------------ */

struct score {
	double loss, correct;
};

static double *widened(const float *from, size_t n)
{
	double *to = zeroed(n, sizeof *to);

	for (size_t i = 0; i < n; i++)
		to[i] = (double)from[i];
	return to;
}

static void judge_row(const double *z, int label, struct score *s)
{
	int best = 0;
	double sum = 0;

	for (int c = 1; c < CLASSES; c++)
		best = z[c] > z[best] ? c : best;
	for (int c = 0; c < CLASSES; c++)
		sum += exp(z[c] - z[best]);
	s->loss += log(sum) - (z[label] - z[best]);
	s->correct += best == label;
}

static struct score judge(const struct problem *p, const float *params, size_t first, size_t rows)
{
	const struct network *n = p->data;
	const struct parameters at = layout(n->hidden);
	const int hidden = (int)n->hidden;
	double *w = widened(params, p->count), *h = zeroed(BLOCK * n->hidden, sizeof *h);
	double *z = zeroed(BLOCK * CLASSES, sizeof *z);
	struct score s = { 0, 0 };

	for (size_t done = 0; done < rows; done += BLOCK) {
		double *x = widened(n->pixels + (first + done) * PIXELS, (size_t)BLOCK * PIXELS);

		for (int r = 0; r < BLOCK; r++)
			memcpy(h + r * hidden, w + at.bias_in, n->hidden * sizeof *h);
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, BLOCK, hidden, PIXELS, 1, x,
			    PIXELS, w + at.weights_in, hidden, 1, h, hidden);
		for (int i = 0; i < BLOCK * hidden; i++)
			h[i] = h[i] > 0 ? h[i] : 0;
		for (int r = 0; r < BLOCK; r++)
			memcpy(z + r * CLASSES, w + at.bias_out, CLASSES * sizeof *z);
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, BLOCK, CLASSES, hidden, 1, h,
			    hidden, w + at.weights_out, CLASSES, 1, z, CLASSES);
		for (int r = 0; r < BLOCK; r++)
			judge_row(z + r * CLASSES, n->label[first + done + (size_t)r], &s);
		free(x);
	}
	free(w);
	free(h);
	free(z);
	s.loss /= (double)rows;
	s.correct /= (double)rows;
	return s;
}

static double objective(const struct problem *p, const float *x)
{
	return judge(p, x, 0, TRAIN).loss;
}

static double accuracy(const struct problem *p, const float *x)
{
	return judge(p, x, TRAIN, TEST).correct;
}

/* Only OpenBLAS has this function. Other libraries read variables. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));

struct problem mlp_problem(size_t hidden, uint32_t batch)
{
	static float *pixels;
	static uint8_t *label;
	struct network *n = zeroed(1, sizeof *n);
	int drawn = pixels != NULL;

	if (openblas_set_num_threads)
		openblas_set_num_threads(1);
	if (!drawn) {
		pixels = zeroed((size_t)(TRAIN + TEST) * PIXELS, sizeof *pixels);
		label = zeroed(TRAIN + TEST, 1);
	}
	*n = (struct network){ .hidden = hidden,
			       .batch = batch,
			       .pixels = pixels,
			       .label = label,
			       .x = zeroed((size_t)batch * PIXELS, sizeof(float)),
			       .h = zeroed(batch * hidden, sizeof(float)),
			       .z = zeroed((size_t)batch * CLASSES, sizeof(float)),
			       .back = zeroed(batch * hidden, sizeof(float)) };
	if (!drawn)
		draw_pictures(n);
	return (struct problem){ .name = "MLP",
				 .count = layout(hidden).count,
				 .start = start,
				 .gradient = gradient,
				 .objective = objective,
				 .accuracy = accuracy,
				 .data = n };
}
