/* SPDX-License-Identifier: BSD-3-Clause
 * The selectors decide which coordinates of a vector are sent. They form a table with one row each.
 * worker.c uses it for pushes and shard.c for deltas, and neither refers to a selector by name.
 * Pure: no job, no network. To add one, put a name into the enum and the two lists below, and a row
 * and a function into choose.c or one of its neighbours. */
#ifndef COMPRESS_CHOOSE_H
#define COMPRESS_CHOOSE_H
#include "random.h"
#include "select.h"
#include <math.h>

enum selection {
	SELECT_ALL,
	SELECT_TOPK,
	SELECT_THRESHOLD,
	SELECT_GAUSSIANK,
	SELECT_RANDOM,
	SELECT_VARIANCE,
	SELECT_RANDK,
	SELECT_CYCLIC,
	SELECT_SKETCH,
	SELECT_BLOCK,
	SELECT_GLOBAL,
	SELECT_TENSOR_TOPK,
	SELECT_BLOCK_TOPK,
	SELECTIONS
};
/* How a selector is written in a recipe, in the order of enum selection. */
#define SELECTION_NAMES                                                                            \
	"all", "topk", "threshold", "gaussiank", "random", "variance", "randk", "cyclic",          \
		"sketch", "block", "global", "tensor-topk", "block-topk"
#define SELECTION_FORMS                                                                            \
	"all, topk(DENSITY), threshold(LAMBDA), gaussiank(DENSITY), random(DENSITY), "             \
	"variance(EPSILON), randk(DENSITY), tensor-topk(DENSITY), cyclic(DENSITY[,chunks]), "      \
	"sketch(DENSITY[,ROWS,WIDTH,POOL]), block(DENSITY), block-topk(K,N) or "                   \
	"global(DENSITY[,EVERY])"

struct choice {
	float *x; /* the selected values may be rescaled in place (scale) */
	/* For a seeded selector there is one span per shard. The first span belongs to shard
	 * first_shard. */
	const struct span *spans;
	size_t n_spans;
	double density; /* relative to the coordinates that are not exempt */
	uint64_t k;     /* the density as a number of coordinates, over all spans */
	float level;    /* threshold: lambda; variance: epsilon */
	uint32_t block; /* block-topk: the length of a block */
	/* block-topk: the ends of blocks of other lengths, up to `block`; NULL: all are as long */
	const uint32_t *ends;
	int chunks; /* cyclic: select the largest of each chunk instead of the top k */
	int scale;  /* 1: no residual is kept, so selected values are scaled to make their mean x */
	struct random_stream stream; /* the selector's own random numbers; a seeded selector
					replaces rank by the shard */
	uint32_t first_shard;
	struct selector *selector;
	struct team *team; /* threads that may help, or NULL; `selector` has its own */
	struct select_hint *hint;
	uint32_t *index; /* in ascending order; memory for every coordinate */
};

enum selection_argument {
	ARGUMENT_NONE,
	ARGUMENT_DENSITY,
	ARGUMENT_LEVEL,
	ARGUMENT_CYCLIC,
	ARGUMENT_SKETCH,
	ARGUMENT_GLOBAL,
	ARGUMENT_BLOCK /* a count and the length of a block */
};

/* How workers and shards agree on the support of a step. */
enum exchange {
	EXCHANGE_OWN,    /* each worker sends what it selects itself */
	EXCHANGE_LEADER, /* one worker selects for all */
	/* Shards request the coordinates that the sum of the workers' sketches suggests. */
	EXCHANGE_SKETCH
};

struct selection_kind {
	enum selection_argument argument;
	int counted;  /* 1: takes a count in place of a density */
	int unbiased; /* 1: scales the values that it draws; with a residual, values that are not
			 sent would count twice */
	/* 1: the number of selected coordinates is not known in advance. This determines the size
	 * of slots if there is no residual. */
	int varies;
	int seeded;     /* 1: the support follows from step and shard, and is the same for all
			   workers */
	int contiguous; /* 1: seeded, and sent as its first position (CODING_RUN) */
	/* Values other than EXCHANGE_OWN are only possible for pushes, and only with a residual. */
	enum exchange exchange;
	int by_tensor;     /* 1: spans end where tensors end */
	int by_block;      /* 1: the density applies to each block of the vector */
	int by_coordinate; /* 1: each coordinate is selected independently of the others */
	/* 1: k is the participant's share of the whole selection; see census.h. */
	int global;
	int adds; /* 1: select_run() may add the gradient in its own pass */
	size_t (*run)(const struct choice *c); /* returns the number selected; NULL for all */
};
extern const struct selection_kind selection_kinds[SELECTIONS];

/* These functions are in choose.c, choose_level.c and choose_seeded.c. */
size_t choose_tensor_topk(const struct choice *c);
size_t choose_threshold(const struct choice *c);
size_t choose_gaussiank(const struct choice *c);
size_t choose_random(const struct choice *c);
size_t choose_variance(const struct choice *c);
size_t choose_randk(const struct choice *c);
size_t choose_block(const struct choice *c);

/* Computes the support for this seed, step and shard: `count` of `span` coordinates, uniformly
 * random and in ascending order. down: 1 for a delta, 0 for a push. Sender and receiver both call
 * this. */
void seeded_support(int down, uint32_t seed, uint64_t step, uint32_t shard, uint32_t span,
		    uint32_t count, uint32_t *index);
/* For gaussiank: returns z with P(|Z| > z) = share, for a standard normal Z. */
double gaussian_quantile(double share);
/* For cyclic with chunks: returns the length of a chunk. */
uint64_t chunk_length(double density);
/* Returns how many of n coordinates a density selects: rounded up, and at least 1 for n > 0. */
static inline uint64_t density_count(double density, uint64_t n)
{
	const double k = ceil(density * (double)n - 1e-9);

	return k < 1 ? n > 0 : k > (double)n ? n : (uint64_t)k;
}
#endif
