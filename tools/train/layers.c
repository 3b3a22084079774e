/* SPDX-License-Identifier: BSD-3-Clause
 * Forward and backward passes through the layers, a block of rows at a time, in the memory of
 * compute.h's operations. */
#include "tools/train/network.h"

#include <stdlib.h>

/* Wide rows are handled in smaller blocks, so that a block of inputs stays within 16 MiB. */
enum { BLOCK_ELEMENTS = 1 << 22 };

struct workspace {
	struct compute compute;
	size_t block; /* number of rows in a block */
	float *input; /* activation[0], or with an embedding the block's symbols */
	float *activation[MOST_LAYERS + 1]; /* block x inputs of each layer; the last: outputs */
	float *slope[2];                    /* block x widest layer: d loss / d outputs of two
					       layers */
	float *label;
	struct row_score *score;
	/* These are in host memory. */
	float *input_here, *label_here;
	struct row_score *score_here;
	uint32_t *row;
};

static int new_vector(const struct compute *c, size_t elements, size_t element_bytes, void **out)
{
	return c->ops->alloc(c->state, elements * element_bytes, out);
}

static int new_floats(const struct compute *c, size_t rows, size_t width, float **out)
{
	void *memory;

	if (new_vector(c, rows * width, sizeof(float), &memory))
		return -1;
	*out = memory;
	return 0;
}

/* Returns the number of elements of a row of data. */
static size_t row_elements(const struct network *network)
{
	const struct embedding *e = &network->embedding;

	return e->width ? e->context * e->symbols : network->layer[0].in;
}

/* Allocates memory for inputs, labels and scores, on the device and on the host. */
static int new_copies(const struct network *network, struct workspace *w)
{
	const size_t features = row_elements(network);
	void *score;

	w->input = w->activation[0];
	if (network->embedding.width && new_floats(&w->compute, w->block, features, &w->input))
		return -1;

	if (new_floats(&w->compute, w->block, 1, &w->label) ||
	    new_vector(&w->compute, w->block, sizeof(*w->score), &score))
		return -1;
	w->score = score;
	/* If the operations run on the host, inputs are built in place and not copied. */
	w->input_here = w->compute.ops->in_host ?
				w->input :
				malloc(w->block * features * sizeof(*w->input_here));
	w->label_here = malloc(w->block * sizeof(*w->label_here));
	w->score_here = malloc(w->block * sizeof(*w->score_here));
	w->row = malloc(w->block * sizeof(*w->row));
	return w->input_here && w->label_here && w->score_here && w->row ? 0 : -1;
}

struct workspace *workspace_new(const struct network *network, size_t batch,
				const struct compute *compute)
{
	struct workspace *w = calloc(1, sizeof(*w));
	const struct layer *last = &network->layer[network->layers - 1];
	size_t widest = last->out, widest_slope = last->out;
	const int embeds = network->embedding.width > 0;
	int rc = 0;

	if (!w)
		return NULL;
	w->compute = *compute;
	for (size_t i = 0; i < network->layers; i++) {
		size_t in = network->layer[i].in;

		widest = in > widest ? in : widest;
		if (i || embeds)
			widest_slope = in > widest_slope ? in : widest_slope;
	}
	if (row_elements(network) > widest)
		widest = row_elements(network);
	w->block = BLOCK_ELEMENTS / widest;
	if (w->block > batch)
		w->block = batch;
	if (w->block < 1)
		w->block = 1;
	for (size_t i = 0; i < network->layers && !rc; i++)
		rc = new_floats(compute, w->block, network->layer[i].in, &w->activation[i]);
	if (rc || new_floats(compute, w->block, last->out, &w->activation[network->layers]) ||
	    new_floats(compute, w->block, widest_slope, &w->slope[0]) ||
	    new_floats(compute, w->block, widest_slope, &w->slope[1]) || new_copies(network, w))
		workspace_delete(&w);
	return w;
}

void workspace_delete(struct workspace **workspace)
{
	struct workspace *w = *workspace;

	if (!w)
		return;
	const struct compute *c = &w->compute;
	if (w->input_here != w->input)
		free(w->input_here);
	if (w->input != w->activation[0])
		c->ops->release(c->state, w->input);
	for (size_t i = 0; i <= MOST_LAYERS; i++)
		c->ops->release(c->state, w->activation[i]);
	c->ops->release(c->state, w->slope[0]);
	c->ops->release(c->state, w->slope[1]);
	c->ops->release(c->state, w->label);
	c->ops->release(c->state, w->score);
	free(w->label_here);
	free(w->score_here);
	free(w->row);
	free(w);
	*workspace = NULL;
}

/* With an embedding: looks up the symbols of n rows. Each sum has one product that is not 0, so it
 * is exact. */
static int embed(const struct network *network, struct workspace *w, const float *params, size_t n)
{
	const struct embedding *e = &network->embedding;
	const struct product product = {
		.a = w->input,
		.b = params,
		.c = w->activation[0],
		.rows = n * e->context,
		.columns = e->width,
		.inner = e->symbols,
	};

	return e->width ? w->compute.ops->product(w->compute.state, &product) : 0;
}

/* With an embedding: adds its part of the gradient. slope is that of the first layer's inputs. */
static int embed_backward(const struct network *network, struct workspace *w, const float *slope,
			  size_t n, float *grad)
{
	const struct embedding *e = &network->embedding;
	const struct product product = {
		.a = w->input,
		.transpose_a = 1,
		.b = slope,
		.c = grad,
		.add = 1,
		.rows = e->symbols,
		.columns = e->width,
		.inner = n * e->context,
	};

	return e->width ? w->compute.ops->product(w->compute.state, &product) : 0;
}

/* Computes all layers for n rows of inputs, which are in w->input. */
static int forward(const struct network *network, struct workspace *w, const float *params,
		   size_t n)
{
	const struct compute *c = &w->compute;

	if (embed(network, w, params, n))
		return -1;
	for (size_t i = 0; i < network->layers; i++) {
		const struct layer *layer = &network->layer[i];
		float *z = w->activation[i + 1];
		int last = i + 1 == network->layers;
		const struct product product = {
			.a = w->activation[i],
			.b = params + layer->weight,
			.transpose_b = 1,
			.c = z,
			.add = 1,
			.rows = n,
			.columns = layer->out,
			.inner = layer->in,
		};

		if (c->ops->bias(c->state, z, params + layer->bias, n, layer->out) ||
		    c->ops->product(c->state, &product) ||
		    (!last && c->ops->relu(c->state, z, n * layer->out)))
			return -1;
	}
	return 0;
}

/* The outputs must be d loss / d outputs. Adds the block's part to grad. */
static int backward(const struct network *network, struct workspace *w, const float *params,
		    size_t n, float *grad)
{
	const struct compute *c = &w->compute;
	float *slope = w->activation[network->layers];

	for (size_t i = network->layers; i-- > 0;) {
		const struct layer *layer = &network->layer[i];
		float *below = w->slope[i % 2];
		const struct product weights = {
			.a = slope,
			.transpose_a = 1,
			.b = w->activation[i],
			.c = grad + layer->weight,
			.add = 1,
			.rows = layer->out,
			.columns = layer->in,
			.inner = n,
		};
		const struct product inputs = {
			.a = slope,
			.b = params + layer->weight,
			.c = below,
			.rows = n,
			.columns = layer->in,
			.inner = layer->out,
		};

		if (c->ops->product(c->state, &weights) ||
		    c->ops->bias_slope(c->state, grad + layer->bias, slope, n, layer->out))
			return -1;
		if ((i || network->embedding.width) && c->ops->product(c->state, &inputs))
			return -1;
		if (i && c->ops->relu_slope(c->state, below, w->activation[i], n * layer->in))
			return -1;
		slope = below;
	}
	return embed_backward(network, w, slope, n, grad);
}

/* Loads the block's rows and computes the outputs, which become scaled slopes. */
static int score_block(const struct network *network, struct workspace *w, const float *params,
		       const struct dataset *set, const uint32_t *rows, size_t n, float scale)
{
	const struct compute *c = &w->compute;
	const struct loss_call loss = {
		.kind = network->loss,
		.z = w->activation[network->layers],
		.label = w->label,
		.rows = n,
		.width = network->layer[network->layers - 1].out,
		.scale = scale,
		.score = w->score,
	};

	data_fill(set, rows, n, w->input_here);
	for (size_t i = 0; i < n; i++)
		w->label_here[i] = set->label[rows[i]];
	return c->ops->put(c->state, w->input, w->input_here,
			   n * row_elements(network) * sizeof(float)) ||
			       c->ops->put(c->state, w->label, w->label_here, n * sizeof(float)) ||
			       forward(network, w, params, n) || c->ops->loss(c->state, &loss) ?
		       -1 :
		       0;
}

/* Waits for the block. Its rows are added in order, so that the sums are the same on all
 * devices. */
static int add_scores(struct workspace *w, size_t n, struct score *score)
{
	if (w->compute.ops->get(w->compute.state, w->score_here, w->score, n * sizeof(*w->score)))
		return -1;
	for (size_t i = 0; i < n; i++) {
		score->loss += w->score_here[i].loss;
		score->correct += w->score_here[i].correct;
	}
	score->rows += (double)n;
	return 0;
}

int network_add_gradient(const struct network *network, struct workspace *w, const float *params,
			 const struct dataset *set, const uint32_t *rows, size_t n, float scale,
			 float *sum, struct score *score)
{
	*score = (struct score){ 0 };
	for (size_t done = 0; done < n; done += w->block) {
		size_t block = n - done < w->block ? n - done : w->block;

		if (score_block(network, w, params, set, rows + done, block, scale / (float)n) ||
		    backward(network, w, params, block, sum) || add_scores(w, block, score))
			return -1;
	}
	return 0;
}

int network_gradient(const struct network *network, struct workspace *w, const float *params,
		     const struct dataset *set, const uint32_t *rows, size_t n, float *grad,
		     struct score *score)
{
	if (w->compute.ops->zero(w->compute.state, grad, network->count * sizeof(*grad)))
		return -1;
	return network_add_gradient(network, w, params, set, rows, n, 1, grad, score);
}

int network_evaluate(const struct network *network, struct workspace *w, const float *params,
		     const struct dataset *set, size_t first, size_t last, struct score *score)
{
	while (first < last) {
		size_t block = last - first < w->block ? last - first : w->block;

		for (size_t i = 0; i < block; i++)
			w->row[i] = (uint32_t)(first + i);
		if (score_block(network, w, params, set, w->row, block, 0) ||
		    add_scores(w, block, score))
			return -1;
		first += block;
	}
	return 0;
}
