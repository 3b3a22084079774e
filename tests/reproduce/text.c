/* SPDX-License-Identifier: BSD-3-Clause
 * The model char:FILE of sluice-train on a text, of which each worker has its own part. The
 * objective is the loss on the test rows, in the arithmetic of the training. See problem.h. */
#include "tests/reproduce/draw.h"
#include "tests/reproduce/memory.h"
#include "tests/reproduce/problem.h"
#include "tools/train/network.h"
#include <math.h>

enum { BATCH_MOST = 1024 };

struct text {
	struct network network;
	struct workspace *workspace;
	struct dataset train, test;
	uint32_t batch;
};

static void start(const struct problem *p, unsigned seed, float *x)
{
	const struct text *t = p->data;

	network_init(&t->network, seed, x);
}

static void gradient(const struct problem *p, const float *x, const struct sample *sample,
		     float *grad)
{
	const struct text *t = p->data;
	const struct random_stream s = draw_stream(DRAW_BATCH, sample->seed,
						   (unsigned)sample->worker, sample->step);
	uint32_t begin = part_begin((uint32_t)t->train.rows, sample->worker, sample->workers);
	uint32_t end = part_begin((uint32_t)t->train.rows, sample->worker + 1, sample->workers);
	uint32_t chosen[BATCH_MOST];
	struct score score;

	for (uint32_t r = 0; r < t->batch; r++)
		chosen[r] = begin + (uint32_t)draw_below(&s, r, end - begin);
	network_gradient(&t->network, t->workspace, x, &t->train, chosen, t->batch, grad, &score);
}

static double objective(const struct problem *p, const float *x)
{
	const struct text *t = p->data;
	struct score score = { 0 };

	network_evaluate(&t->network, t->workspace, x, &t->test, 0, t->test.rows, &score);
	return score.loss / score.rows;
}

int text_problem(const char *path, uint32_t batch, struct problem *out, char *why, size_t cap)
{
	struct text *t = zeroed(1, sizeof *t);
	struct complaint complaint = { .text = "" };
	struct compute compute;
	char model[4096];

	snprintf(model, sizeof model, "char:%s", path);
	t->batch = batch;
	if (compute_open("cpu", &compute, why, cap))
		return -1;
	if (network_parse(&t->network, model, &complaint) ||
	    text_load(path, 0, &t->train, &t->test, &complaint) ||
	    network_shape(&t->network, t->train.features, t->train.classes, &complaint)) {
		snprintf(why, cap, "%s", complaint.text);
		data_free(&t->train);
		data_free(&t->test);
		free(t);
		return -1;
	}
	t->workspace = workspace_new(&t->network, batch, &compute);
	if (!t->workspace) {
		fprintf(stderr, "reproduce: no memory for the passes over a text\n");
		exit(1);
	}
	*out = (struct problem){ .name = "CHAR",
				 .count = t->network.count,
				 .start = start,
				 .gradient = gradient,
				 .objective = objective,
				 .data = t };
	return 0;
}
