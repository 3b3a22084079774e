/* SPDX-License-Identifier: BSD-3-Clause
 * The recipe language: a text compiles to choices on independent axes. No job, no network. */
#ifndef RUNTIME_RECIPE_H
#define RUNTIME_RECIPE_H
#include "compress/choose.h"
#include "compress/quantize.h"
#include <stddef.h>
#include <stdint.h>

/* A recipe is words KEY=VALUE[(ARGUMENT)][,VALUE...], separated by spaces, in any order, each key
 * once. DENSITY is in (0, 1] or a percentage such as "1%", or a count such as "k=31". The name of a
 * method (methods.h) is a word, too: it gives the keys that the recipe leaves out.
 *
 *   up=, down=  all | topk(DENSITY) | ... [,VALUES]; all is the default. choose.h lists the
 *               selectors (SELECTION_FORMS).
 *               VALUES: f32 (default) | f16 | bf16
 *               | uniform(B[,BLOCK])  B bits, 1..8, rounded at random; one scale for every BLOCK
 *                                     values, a multiple of 8, default 512
 *               | grid(B)             the nearest of 2^B steps
 *               | round(D)            multiples of D > 0
 *               | twomeans            sign and one of two magnitudes of every 512 values
 *               | e3m0                sign and three bits of exponent, scaled for every 512 values
 *   signal=     gradient | momentum(M)[,mask|nomask] | storm(A) | igt(A) | innovation | svrg(M),
 *               each [,noise(R)]; or drift. 0 <= M < 1; mask is the default for topk; A as for ema;
 *               R > 0; svrg: M >= 1 steps, see shard_async.h; drift: see local.h
 *   rate=       R > 0, 1 (default): with drift, the shards' learning rate
 *   keep=       A, 0 (default) to 1: with drift, the share of its residual in a worker's parameters
 *   memory=     none | residual[(inside|outside)] | residual([inside|outside,]decay=B)
 *               | lowpass(B)[,inside|outside] | twostep(B). 0 < B <= 1. Default: residual if up or
 *               down is topk or narrower than f32, else none; none with an unbiased selector.
 *               Placement: inside; twostep: outside
 *   update=     none | sgd (default) | momentum(M) | nesterov(M) | ema(A) | average | accelerated
 *               | adam(B1,B2,EPS) | adamw(B1,B2,EPS,L) | sign. 0 < A <= 1, or 1/t; 0 <= B1, B2 < 1;
 *               EPS > 0; L >= 0. With adam and adamw the placement is outside, and with sign it
 *               is by default
 *   freeze=     N: adam and adamw keep the variance of step N in all later steps
 *   reset=      I | none (default): every I steps everything is sent
 *   warmup=     N | Nsteps | Nepoch | Nepochs, default 0, or one of these in dense(): everything is
 *               sent in 8 bits in these steps
 *   dense=      PATTERN[,PATTERN...] | none: fnmatch on tensor names of tensors that are sent
 *               whole, default "*bias*"
 *   clip=       C | none: global norm of the local gradient, C > 0; or median, see median.h
 *   reduce=     mean (default) | senders
 *   transform=  dct(S) | none (default): see model/transform.h. 1 <= S <= 64
 *   decay=      L >= 0: the shard adds L * x
 *   nonfinite=  abort (default) | skip | zero | skip-all
 *   auto        a word alone, in place of up= and down=; or auto(0.1), auto(0.01), auto(0.001)
 *   coding=     fast (default) | small, of positions
 *   when=       always (default) | every(H)[,fragments(P)][,late(T)][,mix(M)]
 *               | lazy(WINDOW,WEIGHT[,LONGEST])
 *               | lazy-server(WINDOW,WEIGHT[,LONGEST]) | async(TAU[,whole]). TAU >= 1; see lazy.h
 *               and shard_async.h. Options of every are for
 *               drift: P divides H, 1 <= T < H / P, 0 <= M < 1; see local.h
 *   quorum=     Q: with drift, an exchange closes when Q workers have pushed; see quorum.h
 *   grace=      SECONDS, 10 (default): how long the shard then waits for the other workers
 *   seed=       N, 0 (default) to 2^32 - 1
 *   guard=      warn (default) | raise | none. warn and none change nothing that ranks must agree
 *               on or a checkpoint holds, and are not printed */
enum signal_kind {
	SIGNAL_GRADIENT,
	SIGNAL_MOMENTUM,
	SIGNAL_STORM,
	SIGNAL_IGT,
	SIGNAL_INNOVATION,
	SIGNAL_SVRG,
	SIGNAL_DRIFT
};
enum memory_kind { MEMORY_NONE, MEMORY_RESIDUAL, MEMORY_LOWPASS, MEMORY_TWOSTEP };
enum placement { STEP_INSIDE, STEP_OUTSIDE };
enum update_kind {
	UPDATE_NONE,
	UPDATE_SGD,
	UPDATE_MOMENTUM,
	UPDATE_NESTEROV,
	UPDATE_EMA,
	UPDATE_AVERAGE,
	UPDATE_ACCELERATED,
	UPDATE_ADAM,
	UPDATE_ADAMW,
	UPDATE_SIGN
};
enum when_kind { WHEN_ALWAYS, WHEN_EVERY, WHEN_LAZY, WHEN_LAZY_SERVER, WHEN_ASYNC };
enum nonfinite_policy { NONFINITE_ABORT, NONFINITE_SKIP, NONFINITE_ZERO, NONFINITE_SKIP_ALL };
enum { TRANSFORM_MOST = 64 };   /* the longest side of a block of transform=dct */
enum { LAZY_WINDOW_MAX = 100 }; /* the most model changes that when=lazy compares */
enum coding_choice { CODING_FAST, CODING_SMALL };
enum guard_kind { GUARD_WARN, GUARD_RAISE, GUARD_NONE };
enum reduce_kind { REDUCE_MEAN, REDUCE_SENDERS };
enum warmup_unit { WARMUP_STEPS, WARMUP_EPOCHS };

struct direction {
	enum selection select;
	double density; /* 1 if the selector has none; also 1 for a count before recipe_count() */
	/* The number of coordinates of the whole vector, in place of a density; 0 if a density is
	 * given. */
	uint32_t count;
	float level;                       /* threshold: lambda; variance: epsilon; otherwise 0 */
	uint32_t block;                    /* for block-topk: the length of a block; otherwise 0 */
	int chunks;                        /* for cyclic */
	uint32_t sketch_rows, sketch_pool; /* for sketch: rows, and how many times the published
					      coordinates are requested */
	float sketch_width;                /* for sketch: columns per published coordinate */
	uint32_t every; /* for global: steps between two histograms; otherwise 0 */
	struct value_coding values;
};

/* The words of when=lazy and lazy-server. window is 0 with other values of when=. */
struct lazy_words {
	uint32_t window, longest; /* longest: 0 means no bound */
	float weight;
};

/* The numbers of update=adam and adamw. decay is only for adamw. */
struct adam_words {
	float beta1, beta2, epsilon, decay;
	uint64_t freeze; /* the last step that changes the variance; 0: all steps do */
};

/* The arguments of a running average. */
struct average_words {
	float momentum; /* momentum, nesterov */
	float alpha;    /* ema, storm, igt: the weight of a step's vector; 0 stands for 1/t */
};
struct signal_words {
	enum signal_kind kind;
	struct average_words average;
	int mask;            /* momentum factor masking */
	float noise;         /* standard deviation; 0: no noise */
	uint32_t svrg_steps; /* steps between anchors, counted over all workers; 0 unless svrg */
};
struct memory_words {
	enum memory_kind kind;
	float beta;  /* lowpass, twostep */
	float decay; /* residual: the share of it that is left after one exchange; otherwise 1 */
};
struct clip_words {
	float norm; /* 0: none */
	int median; /* 1: pushes are scaled down to the median norm of all workers' pushes */
};
struct drift_words {
	float rate; /* the rate of the shards' update; 1 unless signal=drift */
	float keep; /* a worker's parameters are the common ones less keep * residual */
	float mix;  /* share of a worker's own parameters in those after an exchange */
};
struct warmup_words {
	double length;
	enum warmup_unit unit;
	int dense; /* 1: in these steps everything is sent in 8 bits, and no density falls */
};
struct every_words {
	uint32_t period; /* steps between two exchanges of the same coordinate; 1 unless
			    when=every */
	/* Number of parts into which the parameters are cut. They are exchanged at different steps
	 * of a period. */
	uint32_t fragments;
	uint32_t late; /* steps from the push of an exchange to the pull that applies it */
};
struct quorum_words {
	uint32_t workers; /* the fewest workers with whose drifts an exchange closes; 0: all */
	float grace;      /* seconds for which a shard then waits for the others */
};
struct async_words {
	/* when=async: the most updates by which the parameters of a push may lag behind the
	 * shard's; otherwise 0. */
	uint32_t staleness;
	int whole; /* 1: parameters are published in place of their difference from the anchor */
};

struct recipe {
	struct direction up, down;
	struct signal_words signal;
	struct drift_words drift;
	struct memory_words memory;
	uint64_t reset; /* steps; 0: never */
	enum placement placement;
	enum update_kind update;
	struct average_words update_average;
	struct adam_words adam;
	struct warmup_words warmup;
	char dense[256]; /* comma list of patterns, "" for none */
	struct clip_words clip;
	uint32_t transform;      /* dct: the longest side of a block; 0: none */
	enum reduce_kind reduce; /* senders: a coordinate's sum is divided by the number of its
				    nonzero values */
	float decay;
	enum nonfinite_policy nonfinite;
	enum coding_choice coding;
	/* 1 if the job chooses up= and down= itself. With a sparse budget (budgets.h) it chooses
	 * only the codes; with budget 0 it also chooses the budget, by the times of its steps. */
	int automatic;
	unsigned budget;
	uint32_t seed; /* the seed of all random numbers */
	enum guard_kind guard;
	enum when_kind when;
	struct every_words every;
	struct quorum_words quorum;
	struct lazy_words lazy;
	struct async_words async;
};

#define RECIPE_DEFAULT "up=topk(0.01) down=topk(0.05) memory=residual update=sgd"
enum { RECIPE_TEXT_BYTES = 1024 };

/* Compiles a recipe. NULL or "" means RECIPE_DEFAULT. If the text is wrong, fails with
 * SLUICE_EINVAL. The message for an unknown key, value or argument names the most similar known
 * word and lists all known words. The message for a key that is given twice, a density outside (0,
 * 1], a momentum outside [0, 1) or trailing text quotes the wrong word. Combinations that are not
 * possible are refused with the reason (recipe_exclusions.c). */
int recipe_parse(const char *text, struct recipe *out);
/* Writes the normalised text, which contains every axis. recipe_parse() of this text gives the same
 * recipe. */
void recipe_print(const struct recipe *r, char text[RECIPE_TEXT_BYTES]);
/* Turns counts into densities. n is the number of coordinates of the whole vector that are not
 * exempt. Fails with SLUICE_EINVAL if a count is larger. Called by layout.c, which knows n. */
int recipe_count(struct recipe *r, uint64_t n);
/* Returns the position of the first word that differs between two printed recipes. The position is
 * the same in both. */
size_t recipe_word_apart(const char *a, const char *b);
/* Returns 1 if every coordinate is pushed and published as a float. */
static inline int recipe_is_dense(const struct recipe *r)
{
	return r->up.select == SELECT_ALL && r->up.values.type == VALUE_F32 &&
	       r->down.select == SELECT_ALL && r->down.values.type == VALUE_F32;
}
/* Returns 1 if the worker keeps the parameters of the last step, which sluice_point() needs. */
static inline int recipe_looks_back(const struct recipe *r)
{
	return r->signal.kind == SIGNAL_STORM || r->signal.kind == SIGNAL_IGT;
}
/* Returns 1 if the shards keep a running average of the squares of the mean gradient. */
static inline int recipe_variance(const struct recipe *r)
{
	return r->update == UPDATE_ADAM || r->update == UPDATE_ADAMW;
}
/* Returns 1 if the shards keep a running average of the pushed gradients. */
static inline int recipe_velocity(const struct recipe *r)
{
	return r->update == UPDATE_MOMENTUM || r->update == UPDATE_NESTEROV ||
	       r->update == UPDATE_EMA || (recipe_variance(r) && r->adam.beta1 > 0);
}
/* Returns 1 if a step may have a second gradient, which sluice_push_pair() passes. */
static inline int recipe_pairs(const struct recipe *r)
{
	return r->signal.kind == SIGNAL_STORM || r->signal.kind == SIGNAL_SVRG;
}
/* The kind of vector that the recipe's workers push. */
enum source { SOURCE_GRADIENT, SOURCE_PAIR, SOURCE_PARAMS, SOURCE_DRIFT, SOURCES };
static inline enum source recipe_source(const struct recipe *r)
{
	return r->update == UPDATE_AVERAGE    ? SOURCE_PARAMS :
	       r->signal.kind == SIGNAL_DRIFT ? SOURCE_DRIFT :
	       recipe_pairs(r)                ? SOURCE_PAIR :
						SOURCE_GRADIENT;
}
/* Returns 1 if publications replace the program's parameters. */
static inline int recipe_averages(const struct recipe *r)
{
	return recipe_source(r) == SOURCE_PARAMS;
}
/* Returns 1 if the program has its own optimizer, and the workers exchange the difference between
 * their parameters and the common ones. */
static inline int recipe_drifts(const struct recipe *r)
{
	return recipe_source(r) == SOURCE_DRIFT;
}
/* Returns 1 if workers push parameters. */
static inline int recipe_pushes_params(const struct recipe *r)
{
	return recipe_averages(r) || recipe_drifts(r);
}
/* Returns 1 if a pull returns the mean of the pushed vectors. The library then has no
 * parameters. */
static inline int recipe_pulls_mean(const struct recipe *r)
{
	return r->update == UPDATE_NONE;
}
/* Returns the number of steps from one exchange of any fragment to the next. */
static inline uint32_t recipe_interval(const struct recipe *r)
{
	return r->every.period / r->every.fragments;
}
/* Returns 1 if the tensor name matches one of the dense= patterns. */
int recipe_sends_whole(const struct recipe *r, const char *tensor_name);
#endif
