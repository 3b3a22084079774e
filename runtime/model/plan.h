/* SPDX-License-Identifier: BSD-3-Clause
 * Exclusions: one table with a row for each trait of a recipe, of a step or of the current moment,
 * and a column for each faster path of a step and for each attribute that not all recipes can have.
 * A cell that is not NULL is the reason why a step with this trait does not take that path, or why
 * a recipe with it cannot have that attribute. Both halves and model_open.c use the table, and
 * sluice_plan() prints it. Pure. */
#ifndef RUNTIME_PLAN_H
#define RUNTIME_PLAN_H
#include "compress/quantize.h"
#include "recipe/schedule.h"

enum path {
	PATH_FOLD, /* a selection adds the gradient in its own pass */
	/* dense.c: a push reads the gradient once and writes directly to the memory that is sent */
	PATH_DENSE_PUSH,
	PATH_DENSE_SUM, /* shard_dense.c: a shard sums all messages of a step in one pass */
	/* dense.c: a pull adds a publication directly from the memory to which its owner wrote
	 * it */
	PATH_DENSE_PULL,
	PATH_DEVICE,      /* device.h: a device compresses a gradient that is in its memory */
	PATH_ACCUMULATOR, /* sluice_accumulator() */
	PATH_RANGES,      /* sluice_push_range() */
	PATH_RATE_ZERO,   /* a step with learning rate 0 */
	PATH_PULL_RANGES, /* a pull in ranges takes the shards one by one */
	PATH_IN_PLACE,    /* a pull changes pieces, or parameters on a GPU, in place */
	/* Attributes of a model. Traits of the recipe, and of other attributes, may exclude
	 * them. */
	PATH_ATTRIBUTES,
	PATH_UNEVEN = PATH_ATTRIBUTES,
	PATH_RULES,
	PATH_PARAM_TYPE,    /* 16-bit parameters */
	PATH_DEVICE_SHARDS, /* shards on a GPU */
	PATH_CONTINUE,      /* an attribute of the job: on_failure=continue */
	PATHS
};

/* plan_why_not() looks at traits in this order. */
enum trait {
	/* Traits of a step, which plan_step() sets. */
	TRAIT_SELECTS_UP,
	TRAIT_SELECTS_DOWN,
	TRAIT_SENDS_ALL_UP,
	TRAIT_NARROW_UP, /* sent values are narrower than f32 */
	TRAIT_NARROW_DOWN,
	/* Traits of the recipe, which plan_make() sets. */
	TRAIT_STORM,
	TRAIT_MOMENTUM,
	TRAIT_IGT,
	TRAIT_INNOVATION,
	TRAIT_SVRG,
	TRAIT_DRIFT,
	TRAIT_NOISE,
	TRAIT_CLIP,
	TRAIT_MEDIAN,
	TRAIT_SENDERS,
	TRAIT_TRANSFORM,
	TRAIT_SKIP, /* nonfinite= */
	TRAIT_ZERO,
	TRAIT_SKIP_ALL,
	TRAIT_NO_MEMORY,
	TRAIT_FILTERED,  /* memory=lowpass or twostep, or a residual that decays */
	TRAIT_NO_UPDATE, /* update=none */
	TRAIT_AVERAGE,
	TRAIT_ACCELERATED,
	TRAIT_SIGN,
	TRAIT_EVERY,
	TRAIT_DECAY,     /* weight decay for all weights */
	TRAIT_PERIOD,    /* several steps between exchanges */
	TRAIT_OWN_MODEL, /* a worker trains a local model between exchanges */
	TRAIT_LAZY,
	TRAIT_ASYNC,
	TRAIT_QUORUM,
	TRAIT_AUTO,
	TRAIT_LEADER, /* the selection of one worker decides the support */
	TRAIT_SKETCH, /* sketches decide the support */
	TRAIT_GLOBAL,
	TRAIT_HOST_SELECTOR, /* the device lacks this selector */
	TRAIT_ROUNDED_WHOLE, /* everything is sent, and values have the type round */
	TRAIT_DRAWN_GRID,
	TRAIT_HOST_DOWN, /* the device cannot make this recipe's deltas */
	TRAIT_SELECTOR_ADDS_NOT,
	/* Traits of the job and the machine, which plan_make() also sets. */
	TRAIT_HALF_GRADIENTS, /* gradients have 16-bit or 8-bit elements */
	TRAIT_ELASTIC,        /* on_failure=continue */
	TRAIT_BIG_ENDIAN,
	TRAIT_RULES, /* some tensor has a rule; set when the model is opened */
	/* Traits that may differ between steps, which the caller adds. */
	TRAIT_MEASURED,        /* SLUICE_MEASURE is on */
	TRAIT_ACCUMULATES,     /* sluice_accumulator() returned the residual */
	TRAIT_DEVICE_SELECTS,  /* a device selects from this gradient */
	TRAIT_SHARD_ON_DEVICE, /* the sum of the step is on a device */
	TRAIT_COUNTED,         /* some messages of the step have already been summed */
	TRAIT_SKIPPED,         /* this worker has pushed no gradient in this step */
	TRAIT_WRITTEN_LATE,    /* the parameters are written when the pull ends */
	TRAITS
};
#define TRAIT(name) (UINT64_C(1) << TRAIT_##name)

/* [trait][path]: the reason why the trait excludes the path; NULL if it does not. */
extern const char *const plan_refusals[TRAITS][PATHS];
/* The names in sluice_plan() and sluice_recipe(7). */
extern const char *const plan_path_names[PATHS], *const plan_trait_names[TRAITS];

/* With these traits, ranges of a gradient are collected in a copy, which is pushed with the last
 * range. */
#define TRAITS_OF_WHOLE_GRADIENTS                                                                  \
	(TRAIT(CLIP) | TRAIT(MEDIAN) | TRAIT(TRANSFORM) | TRAIT(SKIP) | TRAIT(SKIP_ALL))

struct path_plan {
	uint64_t traits;          /* traits of every step */
	uint64_t refusing[PATHS]; /* traits that exclude the path */
};
/* pushed: the type of the pushed values, which depends on update= (model_pushed_type). */
void plan_make(struct path_plan *plan, const struct recipe *recipe, enum value_type pushed,
	       int elastic);
/* Returns the first reason why a step with these traits does not take the path, or NULL. */
const char *plan_why_not(enum path path, uint64_t traits);
static inline int plan_takes(const struct path_plan *plan, enum path path, uint64_t traits)
{
	return !(plan->refusing[path] & traits);
}

/* The decisions for one step. Worker and shard both call plan_step() when the step begins. */
struct step_rule {
	uint64_t step;
	double up, down;      /* shares of the coordinates that are sent */
	int all_up, all_down; /* 1: every coordinate is sent, without a selection */
	int reset;            /* 1: the whole residual is sent, in f32 */
	struct value_coding values_up, values_down;
	uint64_t traits; /* traits of the step, including those of the plan */
};
/* Sets how the step writes its values. */
void plan_values(struct step_rule *rule, struct value_coding up, struct value_coding down);
struct step_rule plan_step(const struct path_plan *plan, const struct recipe *recipe,
			   const struct schedule *schedule, uint64_t step, double up, double down);
#endif
