/* SPDX-License-Identifier: BSD-3-Clause
 * The models of sluice-train. All are fully connected layers with ReLU between them and a loss at
 * the end; softmax, logreg and linreg have no hidden layers. char has an embedding before the first
 * layer: one matrix that is applied to each symbol of the context. Parameters are one flat vector,
 * as Sluice needs them: the embedding (symbols x width, row-major), and per layer the weights
 * (out x in, row-major), then the biases. */
#ifndef TRAIN_NETWORK_H
#define TRAIN_NETWORK_H
#include "sluice.h"
#include "tools/train/compute.h"
#include "tools/train/data.h"

enum { MOST_LAYERS = 16, TENSOR_NAME_BYTES = 24 };

struct layer {
	size_t in, out;
	size_t weight, bias; /* index of the first element in the flat vector */
};

/* The embedding of a text's symbols. Its input has one 1 among the `symbols` columns of each place
 * in the context, so it is a product too. */
struct embedding {
	size_t context, symbols, width; /* width 0: the model has no embedding */
};

struct network {
	enum task task;
	enum loss_kind loss;
	struct embedding embedding;
	size_t layers;
	struct layer layer[MOST_LAYERS];
	size_t hidden[MOST_LAYERS]; /* requested widths, layers - 1 of them */
	size_t count;               /* parameters */
	size_t tensors;
	char name[2 * MOST_LAYERS + 1][TENSOR_NAME_BYTES];
	sluice_tensor tensor[2 * MOST_LAYERS + 1]; /* points to name, so a network must not be
						      moved in memory */
	uint64_t columns[2 * MOST_LAYERS + 1];
};

/* The result of a pass over rows. All members are sums, so that workers can add theirs. */
struct score {
	double loss;    /* cross-entropy, logistic loss or squared error */
	double correct; /* rows with the right class; linreg: prediction within 0.5 of the target */
	double rows;
};

/* Returns FILE of the model char:FILE, or NULL for another model. */
const char *model_text(const char *model);

/* Reads --model, and derives task, loss and hidden layers. Called before the data is loaded. */
int network_parse(struct network *network, const char *text, struct complaint *complaint);

/* Computes the layout of the layers for these numbers of features and classes. The classes of a
 * text are its symbols. Called after the data is loaded. */
int network_shape(struct network *network, size_t features, size_t classes,
		  struct complaint *complaint);

/* Sets initial parameters: uniform by He (hidden layers) and Glorot (last layer), and small in an
 * embedding. Biases are zero, and so are models without hidden layers, which are convex. */
void network_init(const struct network *network, uint64_t seed, float *params);

/* Memory for passes over up to `batch` rows at a time (fewer if rows are wide), allocated by
 * compute. NULL: no memory. */
struct workspace;
struct workspace *workspace_new(const struct network *network, size_t batch,
				const struct compute *compute);
void workspace_delete(struct workspace **workspace); /* accepts NULL */

/* Sets grad[0..count) to the gradient of the mean loss over the given rows, and *score to the sums
 * over them. params and grad are memory of the workspace's compute. This function and those below
 * return 0, or -1 after which compute's error() returns the sentence. */
int network_gradient(const struct network *network, struct workspace *workspace,
		     const float *params, const struct dataset *set, const uint32_t *rows, size_t n,
		     float *grad, struct score *score);
/* As network_gradient(), but adds the gradient times scale to sum[0..count). */
int network_add_gradient(const struct network *network, struct workspace *workspace,
			 const float *params, const struct dataset *set, const uint32_t *rows,
			 size_t n, float scale, float *sum, struct score *score);

/* Adds the rows first .. last-1 to *score. */
int network_evaluate(const struct network *network, struct workspace *workspace,
		     const float *params, const struct dataset *set, size_t first, size_t last,
		     struct score *score);
#endif
