/* SPDX-License-Identifier: BSD-3-Clause
 * Forward and backward through the layers, a block of rows at a time; the products are BLAS's. */
#include "tools/train/network.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

/* Wide rows are taken in smaller blocks, so that a block of inputs stays within 16 MiB. */
enum { BLOCK_ELEMENTS = 1 << 22, ALIGNMENT_BYTES = 64 };

struct workspace {
	size_t block;                    /* rows at a time */
	float *activation[MOST_LAYERS + 1]; /* block x in of each layer; the last: outputs */
	float *slope[2];                 /* block x widest: d loss / d outputs of two layers */
	float *label;
	uint32_t *row;
};

/* Present in OpenBLAS only. One thread, so that sums are added in the same order in every run. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));

static float *new_floats(size_t rows, size_t width)
{
	void *memory = NULL;

	if (posix_memalign(&memory, ALIGNMENT_BYTES, rows * width * sizeof(float)))
		return NULL;
	return memory;
}

struct workspace *workspace_new(const struct network *network, size_t batch)
{
	struct workspace *w = calloc(1, sizeof(*w));
	const struct layer *last = &network->layer[network->layers - 1];
	size_t widest = last->out, widest_slope = last->out;
	int complete = 1;

	if (openblas_set_num_threads)
		openblas_set_num_threads(1);
	if (!w)
		return NULL;
	for (size_t i = 0; i < network->layers; i++) {
		size_t in = network->layer[i].in;

		widest = in > widest ? in : widest;
		if (i)
			widest_slope = in > widest_slope ? in : widest_slope;
	}
	w->block = BLOCK_ELEMENTS / widest;
	if (w->block > batch)
		w->block = batch;
	if (w->block < 1)
		w->block = 1;
	for (size_t i = 0; i < network->layers; i++)
		complete &= !!(w->activation[i] = new_floats(w->block, network->layer[i].in));
	complete &= !!(w->activation[network->layers] = new_floats(w->block, last->out));
	complete &= !!(w->slope[0] = new_floats(w->block, widest_slope));
	complete &= !!(w->slope[1] = new_floats(w->block, widest_slope));
	complete &= !!(w->label = malloc(w->block * sizeof(*w->label)));
	complete &= !!(w->row = malloc(w->block * sizeof(*w->row)));
	if (!complete)
		workspace_delete(&w);
	return w;
}

void workspace_delete(struct workspace **workspace)
{
	struct workspace *w = *workspace;

	if (!w)
		return;
	for (size_t i = 0; i <= MOST_LAYERS; i++)
		free(w->activation[i]);
	free(w->slope[0]);
	free(w->slope[1]);
	free(w->label);
	free(w->row);
	free(w);
	*workspace = NULL;
}

/* activation[0] holds n rows of inputs; fills the others. */
static void forward(const struct network *network, struct workspace *w, const float *params,
		    size_t n)
{
	for (size_t i = 0; i < network->layers; i++) {
		const struct layer *layer = &network->layer[i];
		float *z = w->activation[i + 1];
		int last = i + 1 == network->layers;

		for (size_t row = 0; row < n; row++)
			memcpy(z + row * layer->out, params + layer->bias, layer->out * sizeof(*z));
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)layer->out,
			    (int)layer->in, 1, w->activation[i], (int)layer->in,
			    params + layer->weight, (int)layer->in, 1, z, (int)layer->out);
		for (size_t j = 0; !last && j < n * layer->out; j++)
			z[j] = z[j] > 0 ? z[j] : 0;
	}
}

/* The outputs hold d loss / d outputs; adds the block's share to grad. */
static void backward(const struct network *network, struct workspace *w, const float *params,
		     size_t n, float *grad)
{
	float *slope = w->activation[network->layers];

	for (size_t i = network->layers; i-- > 0;) {
		const struct layer *layer = &network->layer[i];
		float *below = w->slope[i % 2];

		cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)layer->out,
			    (int)layer->in, (int)n, 1, slope, (int)layer->out, w->activation[i],
			    (int)layer->in, 1, grad + layer->weight, (int)layer->in);
		for (size_t row = 0; row < n; row++)
			for (size_t j = 0; j < layer->out; j++)
				grad[layer->bias + j] += slope[row * layer->out + j];
		if (!i)
			break;
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)layer->in,
			    (int)layer->out, 1, slope, (int)layer->out, params + layer->weight,
			    (int)layer->in, 0, below, (int)layer->in);
		for (size_t j = 0; j < n * layer->in; j++)
			below[j] = w->activation[i][j] > 0 ? below[j] : 0;
		slope = below;
	}
}

/* Loads the block's rows, runs them forward, adds to *score; outputs become scaled slopes. */
static void score_block(const struct network *network, struct workspace *w, const float *params,
			const struct dataset *set, const uint32_t *rows, size_t n, float scale,
			struct score *score)
{
	data_fill(set, rows, n, w->activation[0]);
	for (size_t i = 0; i < n; i++)
		w->label[i] = set->label[rows[i]];
	forward(network, w, params, n);
	loss_apply(network->loss, w->activation[network->layers], w->label, n,
		   network->layer[network->layers - 1].out, scale, score);
}

void network_gradient(const struct network *network, struct workspace *w, const float *params,
		      const struct dataset *set, const uint32_t *rows, size_t n, float *grad,
		      struct score *score)
{
	*score = (struct score){0};
	memset(grad, 0, network->count * sizeof(*grad));
	for (size_t done = 0; done < n; done += w->block) {
		size_t block = n - done < w->block ? n - done : w->block;

		score_block(network, w, params, set, rows + done, block, 1.0f / (float)n, score);
		backward(network, w, params, block, grad);
	}
}

void network_evaluate(const struct network *network, struct workspace *w, const float *params,
		      const struct dataset *set, size_t first, size_t last, struct score *score)
{
	while (first < last) {
		size_t block = last - first < w->block ? last - first : w->block;

		for (size_t i = 0; i < block; i++)
			w->row[i] = (uint32_t)(first + i);
		score_block(network, w, params, set, w->row, block, 0, score);
		first += block;
	}
}
