/* SPDX-License-Identifier: BSD-3-Clause
 * What excludes the quicker paths of a step: one table, a row for each trait of a recipe, a step or
 * the moment, a column for each path. A cell that is not NULL says why a step with this trait does
 * not take that path. Both halves ask the table, and sluice_plan() prints it. Pure. */
#ifndef RUNTIME_PLAN_H
#define RUNTIME_PLAN_H
#include "compress/quantize.h"
#include "recipe/schedule.h"

enum path {
	PATH_FOLD,        /* the selection adds the gradient in its own pass */
	PATH_DENSE_PUSH,  /* dense.c: the gradient is read once and written where it is sent from */
	PATH_DENSE_SUM,   /* shard_dense.c: one pass over all messages of a step */
	PATH_DENSE_PULL,  /* dense.c: a publication is added from where its owner wrote it */
	PATH_DEVICE,      /* device.h: a gradient on a GPU is selected there */
	PATH_ACCUMULATOR, /* sluice_accumulator() */
	PATH_RANGES,      /* sluice_push_range() */
	PATHS
};

/* In the order in which plan_why_not() looks at them. */
enum trait {
	/* of a step: plan_step() knows them */
	TRAIT_SELECTS_UP,
	TRAIT_SELECTS_DOWN,
	TRAIT_SENDS_ALL_UP,
	TRAIT_NARROW_UP, /* values other than f32 */
	TRAIT_NARROW_DOWN,
	/* of the recipe: plan_make() knows them */
	TRAIT_STORM,
	TRAIT_MOMENTUM,
	TRAIT_IGT,
	TRAIT_INNOVATION,
	TRAIT_SVRG,
	TRAIT_NOISE,
	TRAIT_CLIP,
	TRAIT_SKIP, /* nonfinite= */
	TRAIT_ZERO,
	TRAIT_NO_MEMORY,
	TRAIT_FILTERED, /* memory=lowpass or twostep */
	TRAIT_AVERAGE,
	TRAIT_EVERY,
	TRAIT_PERIOD,    /* several steps from exchange to exchange */
	TRAIT_OWN_MODEL, /* in which a worker trains on a model of its own */
	TRAIT_LAZY,
	TRAIT_ASYNC,
	TRAIT_AUTO,
	TRAIT_RESET,
	TRAIT_LEADER, /* the support is agreed, by what one worker selects */
	TRAIT_SKETCH, /* or by sketches */
	TRAIT_GLOBAL,
	TRAIT_HOST_SELECTOR, /* the device does not know it */
	TRAIT_DRAWN_GRID,
	TRAIT_SELECTOR_ADDS_NOT,
	/* of the job and the machine: plan_make() knows them, too */
	TRAIT_HALF_GRADIENTS, /* of 16 bits */
	TRAIT_ELASTIC,        /* on_failure=continue */
	TRAIT_BIG_ENDIAN,
	/* of the moment: whoever asks adds them */
	TRAIT_MEASURED,       /* sluice_measure() is on */
	TRAIT_ACCUMULATES,    /* sluice_accumulator() gave the residual out */
	TRAIT_DEVICE_SELECTS, /* this gradient is selected on a device */
	TRAIT_DEVICE_TARGET,  /* this pull adds to memory of a device */
	TRAIT_COUNTED,        /* some messages of the step are summed already */
	TRAITS
};
#define TRAIT(name) (UINT64_C(1) << TRAIT_##name)

/* [trait][path]: NULL where the trait does not matter to the path. */
extern const char *const plan_refusals[TRAITS][PATHS];
/* As sluice_plan() and sluice_recipe(7) name them. */
extern const char *const plan_path_names[PATHS], *const plan_trait_names[TRAITS];

struct path_plan {
	uint64_t traits;          /* of every step */
	uint64_t refusing[PATHS]; /* traits that exclude the path */
};
/* pushed: the type of what is pushed, once update= is known (model_pushed_type). */
void plan_make(struct path_plan *plan, const struct recipe *recipe, enum value_type pushed,
	       int elastic);
/* The first reason why steps with these traits do not take the path, or NULL. */
const char *plan_why_not(enum path path, uint64_t traits);
static inline int plan_takes(const struct path_plan *plan, enum path path, uint64_t traits)
{
	return !(plan->refusing[path] & traits);
}

/* What is decided where a step begins, by the same function on both halves. */
struct step_rule {
	uint64_t step;
	double up, down;      /* shares of the coordinates that are sent */
	int all_up, all_down; /* every coordinate is sent, and none selected */
	int reset;            /* all that is left is sent, in f32 */
	uint64_t traits;      /* those of the plan included */
};
struct step_rule plan_step(const struct path_plan *plan, const struct recipe *recipe,
			   const struct schedule *schedule, uint64_t step, double up, double down);
#endif
