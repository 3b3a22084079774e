/* SPDX-License-Identifier: BSD-3-Clause
 * The public a9a set from its file, a synthetic set of words whose gradients are heavy-tailed, and
 * random rows whose scale differs between workers. */
#include "tests/reproduce/draw.h"
#include "tests/reproduce/memory.h"
#include "tests/reproduce/problem.h"
#include "tools/train/data.h"
#include <math.h>
#include <string.h>

int a9a_rows(const char *path, struct rows *out, char *why, size_t cap)
{
	enum { FEATURES = 123 };
	struct dataset set = { .rows = 0 };
	struct complaint complaint = { .text = "" };

	if (libsvm_load(path, 0, FEATURES, &set, &complaint)) {
		snprintf(why, cap, "%s", complaint.text);
		data_free(&set);
		return -1;
	}
	for (size_t i = 0; i < set.rows; i++)
		set.label[i] = set.label[i] > 0 ? 1 : -1;
	struct rows read = { .n = (uint32_t)set.rows,
			     .features = FEATURES,
			     .start = set.row_start,
			     .column = set.column,
			     .value = set.value,
			     .label = set.label };
	uint32_t *order = zeroed(read.n, sizeof *order);

	draw_order(1, read.n, order);
	*out = rows_ordered(&read, order, read.n, 0);
	free(order);
	data_free(&set);
	return 0;
}

/* ---- words ----------------------------------------------------------------- */

enum { WORDS = 10000, TEXTS = 8000, TOKENS = 40 };

static int compare_words(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

static int compare_doubles(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* Returns the word whose cumulative weight first exceeds the uniform number. */
static uint32_t word_at(const double *cumulative, double u)
{
	uint32_t low = 0, high = WORDS - 1;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (cumulative[middle] > u * cumulative[WORDS - 1])
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void draw_text(const double *cumulative, uint32_t row, struct rows *r)
{
	const struct random_stream s = draw_stream(DRAW_TOKENS, 1, 0, row);
	const float weight = (float)(1 / sqrt(TOKENS));
	uint32_t words[TOKENS];
	size_t n = r->start[row];

	for (int t = 0; t < TOKENS; t++)
		words[t] = word_at(cumulative, draw_uniform(&s, (uint64_t)t));
	qsort(words, TOKENS, sizeof *words, compare_words);
	for (int t = 0; t < TOKENS; t++) {
		if (t && words[t] == words[t - 1]) {
			r->value[n - 1] += weight;
			continue;
		}
		r->column[n] = words[t];
		r->value[n++] = weight;
	}
	r->start[row + 1] = n;
}

/* Draws labels by a hidden model whose logits are centred at their median. */
static void draw_labels(struct rows *r)
{
	const struct random_stream s = draw_stream(DRAW_WEIGHTS, 1, 0, 0);
	const struct random_stream chosen = draw_stream(DRAW_WEIGHTS, 1, 1, 0);
	const struct random_stream coin = draw_stream(DRAW_LABELS, 1, 0, 0);
	double *weight = zeroed(WORDS, sizeof *weight), *logit = zeroed(2 * TEXTS, sizeof *logit);
	double *sorted = logit + TEXTS;

	for (uint32_t j = 0; j < WORDS; j++)
		weight[j] = draw_uniform(&chosen, j) < 0.3 ? 3 * draw_normal(&s, j) : 0;
	for (uint32_t row = 0; row < TEXTS; row++)
		for (size_t i = r->start[row]; i < r->start[row + 1]; i++)
			logit[row] += (double)r->value[i] * weight[r->column[i]];
	memcpy(sorted, logit, TEXTS * sizeof *sorted);
	qsort(sorted, TEXTS, sizeof *sorted, compare_doubles);
	double median = (sorted[TEXTS / 2 - 1] + sorted[TEXTS / 2]) / 2;
	for (uint32_t row = 0; row < TEXTS; row++)
		r->label[row] = draw_uniform(&coin, row) < 1 / (1 + exp(median - logit[row])) ? 1 :
												-1;
	free(weight);
	free(logit);
}

struct rows text_rows(void)
{
	struct rows r = { .n = TEXTS, .features = WORDS };
	double *cumulative = zeroed(WORDS, sizeof *cumulative), sum = 0;

	r.start = zeroed(TEXTS + 1, sizeof *r.start);
	r.column = zeroed((size_t)TEXTS * TOKENS, sizeof *r.column);
	r.value = zeroed((size_t)TEXTS * TOKENS, sizeof *r.value);
	r.label = zeroed(TEXTS, sizeof *r.label);
	for (uint32_t j = 0; j < WORDS; j++)
		cumulative[j] = sum += 1.0 / (j + 1);
	for (uint32_t row = 0; row < TEXTS; row++)
		draw_text(cumulative, row, &r);
	draw_labels(&r);
	free(cumulative);
	return r;
}

/* ---- rows of another scale for each worker --------------------------------- */

struct rows graded_rows(int workers, int alike, int squared)
{
	enum { ROWS = 50, FEATURES = 50 };
	struct rows r = { .n = (uint32_t)workers * ROWS, .features = FEATURES };
	const struct random_stream labels = draw_stream(DRAW_LABELS, 1, 2, 0);

	r.start = zeroed(r.n + 1, sizeof *r.start);
	r.column = zeroed((size_t)r.n * FEATURES, sizeof *r.column);
	r.value = zeroed((size_t)r.n * FEATURES, sizeof *r.value);
	r.label = zeroed(r.n, sizeof *r.label);
	for (uint32_t row = 0; row < r.n; row++) {
		const struct random_stream s = draw_stream(DRAW_PIXELS, 2, 0, row);

		draw_normals(&s, FEATURES, r.value + (size_t)row * FEATURES);
		for (uint32_t j = 0; j < FEATURES; j++)
			r.column[(size_t)row * FEATURES + j] = j;
		r.start[row + 1] = (size_t)(row + 1) * FEATURES;
		double y = draw_normal(&labels, row);

		r.label[row] = squared ? (float)y : y < 0 ? -1 : 1;
	}
	const struct problem p = squared ? linear_problem("", &r) : logistic_problem("", &r, 0, 0);

	for (int w = 0; w < workers; w++) {
		double wanted = (alike ? 4 : pow(pow(1.3, w) + 1, 2)) / ROWS;
		double factor = sqrt(wanted / regression_smoothness(&p, w, workers));

		for (size_t i = 0; i < (size_t)ROWS * FEATURES; i++)
			r.value[(size_t)w * ROWS * FEATURES + i] *= (float)factor;
	}
	return r;
}
