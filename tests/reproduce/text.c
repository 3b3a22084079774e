/* SPDX-License-Identifier: BSD-3-Clause
 * The model char:FILE of sluice-train on a text, of which each worker has its own part. The
 * objective is the loss on the test rows, in the arithmetic of the training. The vector has each
 * layer's weights by input (in x out) or by output (out x in), as the network has them. See
 * problem.h. */
#include "tests/reproduce/draw.h"
#include "tests/reproduce/memory.h"
#include "tests/reproduce/problem.h"
#include "tools/train/network.h"
#include <math.h>
#include <string.h>

enum { BATCH_MOST = 1024, TILE = 16 };

struct text {
	struct network network;
	struct workspace *workspace;
	struct dataset train, test;
	uint32_t batch;
	enum text_order order;
	float *params, *slope; /* in the network's order */
};

/* ---- the order of the weights ----------------------------------------------- */

static void transpose(const float *from, size_t rows, size_t columns, float *to)
{
	for (size_t first = 0; first < rows; first += TILE)
		for (size_t c = 0; c < columns; c++)
			for (size_t r = first; r < rows && r < first + TILE; r++)
				to[c * rows + r] = from[r * columns + c];
}

/* Copies a vector in which the weights are by input to one in which they are by output. */
static void order_by_output(const struct network *n, const float *from, float *to)
{
	memcpy(to, from, n->count * sizeof *to);
	for (size_t i = 0; i < n->layers; i++)
		transpose(from + n->layer[i].weight, n->layer[i].in, n->layer[i].out,
			  to + n->layer[i].weight);
}

static void order_by_input(const struct network *n, const float *from, float *to)
{
	memcpy(to, from, n->count * sizeof *to);
	for (size_t i = 0; i < n->layers; i++)
		transpose(from + n->layer[i].weight, n->layer[i].out, n->layer[i].in,
			  to + n->layer[i].weight);
}

/* ---- the problem ------------------------------------------------------------ */

static void start(const struct problem *p, unsigned seed, float *x)
{
	const struct text *t = p->data;

	if (t->order == TEXT_BY_OUTPUT) {
		network_init(&t->network, seed, x);
		return;
	}
	network_init(&t->network, seed, t->params);
	order_by_input(&t->network, t->params, x);
}

/* Returns the parameters as the network has them. */
static const float *network_params(const struct text *t, const float *x)
{
	if (t->order == TEXT_BY_OUTPUT)
		return x;
	order_by_output(&t->network, x, t->params);
	return t->params;
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
	float *slope = t->order == TEXT_BY_OUTPUT ? grad : t->slope;
	struct score score;

	for (uint32_t r = 0; r < t->batch; r++)
		chosen[r] = begin + (uint32_t)draw_below(&s, r, end - begin);
	network_gradient(&t->network, t->workspace, network_params(t, x), &t->train, chosen,
			 t->batch, slope, &score);
	if (slope != grad)
		order_by_input(&t->network, slope, grad);
}

static double objective(const struct problem *p, const float *x)
{
	const struct text *t = p->data;
	struct score score = { 0 };

	network_evaluate(&t->network, t->workspace, network_params(t, x), &t->test, 0, t->test.rows,
			 &score);
	return score.loss / score.rows;
}

int text_problem(const char *path, uint32_t batch, enum text_order order, struct problem *out,
		 char *why, size_t cap)
{
	struct text *t = zeroed(1, sizeof *t);
	struct complaint complaint = { .text = "" };
	struct compute compute;
	char model[4096];

	snprintf(model, sizeof model, "char:%s", path);
	t->batch = batch;
	t->order = order;
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
	t->params = zeroed(t->network.count, sizeof *t->params);
	t->slope = zeroed(t->network.count, sizeof *t->slope);
	*out = (struct problem){ .name = "CHAR",
				 .count = t->network.count,
				 .start = start,
				 .gradient = gradient,
				 .objective = objective,
				 .data = t };
	return 0;
}
