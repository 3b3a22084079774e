/* SPDX-License-Identifier: BSD-3-Clause
 * The shape of a model: turns the text of --model into layers, tensor names and initial
 * parameters. */
#include "tools/train/network.h"
#include "tools/train/order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST_LAYER = 1 << 20, EMBEDDING_WIDTH = 24, CHAR_HIDDEN = 192 };

/* Small, so that training shapes the embedding early. With variance 1 the losses are higher. */
#define EMBEDDING_BOUND 0.35f

/* H1,H2,... */
static int parse_hidden(struct network *network, const char *list, const char *text,
			struct complaint *complaint)
{
	const char *at = list;

	for (network->layers = 1;; network->layers++) {
		char *end;
		unsigned long width = strtoul(at, &end, 10);

		if (*at < '1' || *at > '9' || width > WIDEST_LAYER || (*end && *end != ','))
			return complain(
				complaint,
				"--model %s: hidden layers are widths from 1 to %d, separated "
				"by commas, as in mlp:256,128",
				text, WIDEST_LAYER);
		if (network->layers == MOST_LAYERS)
			return complain(complaint, "--model %s: at most %d hidden layers", text,
					MOST_LAYERS - 1);
		network->hidden[network->layers - 1] = width;
		if (!*end)
			break;
		at = end + 1;
	}
	network->layers++; /* adds the last layer, which is not hidden */
	return network->layers <= MOST_LAYERS ?
		       0 :
		       complain(complaint, "--model %s: at most %d hidden layers", text,
				MOST_LAYERS - 1);
}

const char *model_text(const char *model)
{
	return !strncmp(model, "char:", 5) && model[5] ? model + 5 : NULL;
}

int network_parse(struct network *network, const char *text, struct complaint *complaint)
{
	static const struct {
		const char *name;
		enum task task;
		enum loss_kind loss;
	} linear[] = {
		{ "softmax", TASK_CLASSES, LOSS_CROSS_ENTROPY },
		{ "logreg", TASK_SIGN, LOSS_LOGISTIC },
		{ "linreg", TASK_VALUE, LOSS_SQUARED },
	};

	memset(network, 0, sizeof(*network));
	for (size_t i = 0; i < sizeof(linear) / sizeof(linear[0]); i++) {
		if (strcmp(text, linear[i].name))
			continue;
		network->task = linear[i].task;
		network->loss = linear[i].loss;
		network->layers = 1;
		return 0;
	}
	network->loss = LOSS_CROSS_ENTROPY;
	if (model_text(text)) {
		network->task = TASK_TEXT;
		network->embedding = (struct embedding){ .context = TEXT_CONTEXT,
							 .width = EMBEDDING_WIDTH };
		network->layers = 2;
		network->hidden[0] = CHAR_HIDDEN;
		return 0;
	}
	if (strncmp(text, "mlp:", 4))
		return complain(complaint,
				"--model takes softmax, logreg, linreg, mlp:H1,H2,... or "
				"char:FILE, not \"%s\"",
				text);
	network->task = TASK_CLASSES;
	return parse_hidden(network, text + 4, text, complaint);
}

static void name_tensor(struct network *network, const char *prefix, const char *name, size_t rows,
			size_t columns)
{
	char *text = network->name[network->tensors];

	snprintf(text, TENSOR_NAME_BYTES, "%s%s", prefix, name);
	network->columns[network->tensors] = columns;
	network->tensor[network->tensors++] = (sluice_tensor){ text, rows * columns };
}

/* Names the tensors weight and bias, or with hidden layers fc1.weight, fc1.bias, fc2.weight, ... */
static void name_tensors(struct network *network)
{
	const struct embedding *e = &network->embedding;

	network->tensors = 0;
	if (e->width)
		name_tensor(network, "embedding.", "weight", e->symbols, e->width);
	for (size_t i = 0; i < network->layers; i++) {
		const struct layer *layer = &network->layer[i];
		char prefix[8] = "";

		if (network->layers > 1)
			snprintf(prefix, sizeof(prefix), "fc%u.", (unsigned)i + 1);
		name_tensor(network, prefix, "weight", layer->out, layer->in);
		name_tensor(network, prefix, "bias", 1, layer->out);
	}
}

int network_shape(struct network *network, size_t features, size_t classes,
		  struct complaint *complaint)
{
	struct embedding *e = &network->embedding;
	size_t in = e->width ? e->context * e->width : features;

	e->symbols = e->width ? classes : 0;
	network->count = e->symbols * e->width;
	for (size_t i = 0; i < network->layers; i++) {
		struct layer *layer = &network->layer[i];
		int last = i + 1 == network->layers;

		layer->in = in;
		layer->out = !last                               ? network->hidden[i] :
			     network->loss == LOSS_CROSS_ENTROPY ? classes :
								   1;
		layer->weight = network->count;
		layer->bias = layer->weight + layer->in * layer->out;
		network->count = layer->bias + layer->out;
		/* in is below 2^32 and out below 2^21, so the product cannot wrap. BLAS counts in
		 * int. */
		if (network->count > UINT32_MAX || layer->in > INT32_MAX)
			return complain(complaint,
					"the model has %zu features and more than 2^32 - 1 "
					"parameters: too large",
					features);
		in = layer->out;
	}
	name_tensors(network);
	return 0;
}

void network_init(const struct network *network, uint64_t seed, float *params)
{
	memset(params, 0, network->count * sizeof(*params));
	if (network->layers == 1)
		return;
	for (size_t j = 0; j < network->embedding.symbols * network->embedding.width; j++)
		params[j] = EMBEDDING_BOUND * random_signed(seed, RANDOM_PARAMETERS, 0, j);
	for (size_t i = 0; i < network->layers; i++) {
		const struct layer *layer = &network->layer[i];
		int last = i + 1 == network->layers;
		float bound = sqrtf(6.0f / (float)(last ? layer->in + layer->out : layer->in));

		for (size_t j = layer->weight; j < layer->bias; j++)
			params[j] = bound * random_signed(seed, RANDOM_PARAMETERS, 0, j);
	}
}
