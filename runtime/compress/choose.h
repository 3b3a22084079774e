/* SPDX-License-Identifier: BSD-3-Clause
 * The selectors: which coordinates of a vector are sent. A table, one row each; worker.c asks it
 * for the way up, shard.c for the way down, and neither knows a selector by name. Pure: no job, no
 * network.
 *
 * To add one: a name in the enum and the two lists below, a row in choose.c, its function in a
 * file. */
#ifndef COMPRESS_CHOOSE_H
#define COMPRESS_CHOOSE_H
#include "random.h"
#include "select.h"

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
	SELECTIONS
};
/* By enum selection; how they are written in a recipe. */
#define SELECTION_NAMES                                                                            \
	"all", "topk", "threshold", "gaussiank", "random", "variance", "randk", "cyclic",          \
		"sketch", "block", "global", "tensor-topk"
#define SELECTION_FORMS                                                                            \
	"all, topk(DENSITY), threshold(LAMBDA), gaussiank(DENSITY), random(DENSITY), "             \
	"variance(EPSILON), randk(DENSITY), tensor-topk(DENSITY), cyclic(DENSITY[,chunks]), "      \
	"sketch(DENSITY[,ROWS,WIDTH,POOL]), block(DENSITY) or "                                    \
	"global(DENSITY[,EVERY])"

struct choice {
	float *x; /* what was selected may be rescaled in place (scale) */
	/* seeded selectors: one a shard, shards counted from first_shard */
	const struct span *spans;
	size_t n_spans;
	double density; /* of the coordinates that are not exempt */
	uint64_t k;     /* the same as a number; all spans together */
	float level;    /* threshold: lambda; variance: epsilon */
	int chunks;     /* cyclic: the largest of each chunk instead of top-k */
	int scale;      /* nothing is remembered: scale what is sent so that its mean is x */
	struct random_stream
		stream; /* own numbers; for seeded ones rank is replaced by the shard */
	uint32_t first_shard;
	struct selector *selector;
	struct select_hint *hint;
	uint32_t *index; /* ascending; room for every coordinate */
};

enum selection_argument {
	ARGUMENT_NONE,
	ARGUMENT_DENSITY,
	ARGUMENT_LEVEL,
	ARGUMENT_CYCLIC,
	ARGUMENT_SKETCH,
	ARGUMENT_GLOBAL
};

/* How workers and shards come to the support of a step. */
enum exchange {
	EXCHANGE_OWN,    /* each worker sends what it selects */
	EXCHANGE_LEADER, /* one worker selects for all */
	EXCHANGE_SKETCH  /* shards ask for what the sum of the workers' sketches shows */
};

struct selection_kind {
	enum selection_argument argument;
	int counted;  /* takes a count in place of its density */
	int unbiased; /* draws and scales by itself; remembering the rest would count it twice */
	int varies;   /* the number selected is not known before: largest message without memory */
	int seeded;   /* the support follows from step and shard, the same for all workers */
	int contiguous;         /* seeded, but said by its first position (CODING_RUN) */
	enum exchange exchange; /* other than own: upwards only, and with a residual */
	int by_tensor;          /* spans end where tensors do */
	int by_coordinate;      /* whether one is selected depends on no other one */
	int global;             /* k is this one's share of all who select: census.h finds it */
	int adds;               /* select_run() may add the gradient in its own pass */
	size_t (*run)(const struct choice *c); /* returns how many; NULL for all */
};
extern const struct selection_kind selection_kinds[SELECTIONS];

/* choose_threshold.c, choose_random.c, choose_randk.c */
size_t choose_topk(const struct choice *c);
size_t choose_tensor_topk(const struct choice *c);
size_t choose_threshold(const struct choice *c);
size_t choose_gaussiank(const struct choice *c);
size_t choose_random(const struct choice *c);
size_t choose_variance(const struct choice *c);
size_t choose_randk(const struct choice *c);
size_t choose_block(const struct choice *c);
size_t choose_cyclic(const struct choice *c);

/* The support of count of span coordinates that seed, step and shard stand for: uniformly random,
 * ascending. down: of a delta, else of a push. Sender and receiver call it. */
void seeded_support(int down, uint32_t seed, uint64_t step, uint32_t shard, uint32_t span,
		    uint32_t count, uint32_t *index);
/* gaussiank: z with P(|Z| > z) = share for a standard normal Z. */
double gaussian_quantile(double share);
/* cyclic with chunks: how long one is. */
uint64_t chunk_length(double density);
/* How many of n a density asks for: rounded up, at least 1 for n > 0. */
uint64_t density_count(double density, uint64_t n);
#endif
