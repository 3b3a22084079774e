/* SPDX-License-Identifier: BSD-3-Clause
 * See plan.h. Called by model.c, by the files of both halves that have a faster path, and when a
 * model is opened. */
#include "model/plan.h"
#include "compress/choose.h"

/* ---- the table -------------------------------------------------------------- */

const char *const plan_path_names[PATHS] = {
	[PATH_FOLD] = "fold",
	[PATH_DENSE_PUSH] = "dense push",
	[PATH_DENSE_SUM] = "dense sum",
	[PATH_DENSE_PULL] = "dense pull",
	[PATH_DEVICE] = "device",
	[PATH_ACCUMULATOR] = "accumulator",
	[PATH_RANGES] = "ranges",
	[PATH_RATE_ZERO] = "lr=0",
	[PATH_PULL_RANGES] = "pull ranges",
	[PATH_IN_PLACE] = "in place",
	[PATH_UNEVEN] = "uneven",
	[PATH_RULES] = "rules",
	[PATH_PARAM_TYPE] = "param_type",
	[PATH_DEVICE_SHARDS] = "device_shards",
	[PATH_CONTINUE] = "continue",
};

const char *const plan_trait_names[TRAITS] = {
	[TRAIT_SELECTS_UP] = "up= selects",
	[TRAIT_SELECTS_DOWN] = "down= selects",
	[TRAIT_SENDS_ALL_UP] = "everything is sent up",
	[TRAIT_NARROW_UP] = "up= values not f32",
	[TRAIT_NARROW_DOWN] = "down= values not f32",
	[TRAIT_STORM] = "signal=storm",
	[TRAIT_MOMENTUM] = "signal=momentum",
	[TRAIT_IGT] = "signal=igt",
	[TRAIT_INNOVATION] = "signal=innovation",
	[TRAIT_SVRG] = "signal=svrg",
	[TRAIT_DRIFT] = "signal=drift",
	[TRAIT_NOISE] = "noise",
	[TRAIT_CLIP] = "clip=",
	[TRAIT_MEDIAN] = "clip=median",
	[TRAIT_SENDERS] = "reduce=senders",
	[TRAIT_TRANSFORM] = "transform=",
	[TRAIT_SKIP] = "nonfinite=skip",
	[TRAIT_ZERO] = "nonfinite=zero",
	[TRAIT_SKIP_ALL] = "nonfinite=skip-all",
	[TRAIT_NO_MEMORY] = "memory=none",
	[TRAIT_FILTERED] = "memory=lowpass, twostep or decay",
	[TRAIT_NO_UPDATE] = "update=none",
	[TRAIT_AVERAGE] = "update=average",
	[TRAIT_ACCELERATED] = "update=accelerated",
	[TRAIT_SIGN] = "update=sign",
	[TRAIT_EVERY] = "when=every",
	[TRAIT_DECAY] = "decay=",
	[TRAIT_PERIOD] = "when=every(2) or more",
	[TRAIT_OWN_MODEL] = "own steps between exchanges",
	[TRAIT_LAZY] = "when=lazy or lazy-server",
	[TRAIT_ASYNC] = "when=async",
	[TRAIT_QUORUM] = "quorum=",
	[TRAIT_AUTO] = "auto",
	[TRAIT_LEADER] = "up=cyclic",
	[TRAIT_SKETCH] = "up=sketch",
	[TRAIT_GLOBAL] = "up= or down=global",
	[TRAIT_HOST_SELECTOR] = "selector unknown to devices",
	[TRAIT_ROUNDED_WHOLE] = "up=all in round",
	[TRAIT_DRAWN_GRID] = "grid of drawn values",
	[TRAIT_HOST_DOWN] = "delta that devices do not make",
	[TRAIT_SELECTOR_ADDS_NOT] = "selector that does not add",
	[TRAIT_HALF_GRADIENTS] = "gradients of 16 or 8 bits",
	[TRAIT_ELASTIC] = "on_failure=continue",
	[TRAIT_BIG_ENDIAN] = "big-endian machine",
	[TRAIT_RULES] = "rules",
	[TRAIT_MEASURED] = "SLUICE_MEASURE is on",
	[TRAIT_ACCUMULATES] = "sluice_accumulator() was called",
	[TRAIT_DEVICE_SELECTS] = "gradient selected on a device",
	[TRAIT_SHARD_ON_DEVICE] = "the shard is on a device",
	[TRAIT_COUNTED] = "some messages are summed",
	[TRAIT_SKIPPED] = "the step is skipped",
	[TRAIT_WRITTEN_LATE] = "parameters written at the end",
};

static const char sent_as_encoded[] = "values other than f32 are encoded";
static const char two_passes[] = "the gradient is changed before it is sent";
static const char added_apart[] = "the signal is made of the gradient before the selection";
static const char device_adds[] = "only signal=gradient or momentum with memory=none, or residual "
				  "without decay, is added there";
static const char device_whole[] = "the recipe has steps that need the whole residual";
static const char made_of_each[] = "signal= other than gradient is made of each gradient";
static const char left_out[] =
	"nonfinite= other than abort leaves out values that are already in the sum";
static const char no_sum[] =
	"memory= other than residual without decay does not keep a sum of gradients";
static const char over_the_whole[] = "signal=innovation, when= other than always and "
				     "update=average decide over the whole vector";
static const char agreed[] = "a step has several exchanges, of an agreed support";
static const char histograms[] = "messages of global carry histograms";
static const char median[] = "clip=median compares the norms of all pushes first";
static const char transformed[] = "the host computes transform=";
static const char senders[] = "with reduce=senders each coordinate has its own divisor";
static const char measured[] = "SLUICE_MEASURE compares the residual before and after each step";
static const char asynchronous[] = "when=async exchanges with one worker at a time";
static const char pushes_parameters[] = "update=average pushes parameters";
static const char a_difference[] = "the signal is the difference of two vectors";
static const char pushes_all[] = "signal=drift pushes parameters";
static const char at_parameters[] = "the signal uses earlier parameters";
static const char when_not_always[] = "when= asks for local or lazy steps";
static const char own_model[] = "a worker trains a local model between exchanges";
static const char shard_keeps[] = "the shard keeps the sum of earlier uploads";
static const char looks_back[] = "signal= uses the previous step";
static const char reads_parameters[] =
	"the signal needs the previous step's parameters on the host";
static const char order[] = "floats in messages are little-endian";

const char *const plan_refusals[TRAITS][PATHS] = {
	[TRAIT_SELECTS_UP] = { [PATH_DENSE_PUSH] = "a part of the coordinates is selected",
			       [PATH_DENSE_SUM] = "workers send a part of the coordinates" },
	[TRAIT_SELECTS_DOWN] = { [PATH_DENSE_SUM] = "a part of the coordinates is published" },
	[TRAIT_SENDS_ALL_UP] = { [PATH_FOLD] = "everything is sent, and nothing selected" },
	[TRAIT_NARROW_UP] = { [PATH_DENSE_PUSH] = sent_as_encoded },
	[TRAIT_NARROW_DOWN] = { [PATH_DENSE_SUM] = sent_as_encoded,
				[PATH_DENSE_PULL] = sent_as_encoded },
	[TRAIT_STORM] = { [PATH_FOLD] = added_apart,
			  [PATH_DENSE_PUSH] = two_passes,
			  [PATH_DEVICE] = device_adds,
			  [PATH_ACCUMULATOR] = made_of_each,
			  [PATH_RANGES] = "signal=storm takes two whole gradients",
			  [PATH_UNEVEN] = "signal=storm uses the previous step",
			  [PATH_PARAM_TYPE] = at_parameters,
			  [PATH_IN_PLACE] = reads_parameters,
			  [PATH_RATE_ZERO] = looks_back },
	[TRAIT_MOMENTUM] = { [PATH_FOLD] = added_apart,
			     [PATH_DENSE_PUSH] = two_passes,
			     [PATH_ACCUMULATOR] = made_of_each },
	[TRAIT_IGT] = { [PATH_FOLD] = added_apart,
			[PATH_DENSE_PUSH] = two_passes,
			[PATH_DEVICE] = device_adds,
			[PATH_ACCUMULATOR] = made_of_each,
			[PATH_PARAM_TYPE] = at_parameters,
			[PATH_IN_PLACE] = reads_parameters,
			[PATH_RATE_ZERO] = looks_back },
	[TRAIT_INNOVATION] = { [PATH_DEVICE_SHARDS] = shard_keeps,
			       [PATH_RATE_ZERO] = looks_back,
			       [PATH_FOLD] = added_apart,
			       [PATH_DENSE_PUSH] = two_passes,
			       [PATH_DENSE_SUM] = "a push is added to the sum of earlier ones",
			       [PATH_DENSE_PULL] = "when=lazy measures each change of the model",
			       [PATH_DEVICE] = device_adds,
			       [PATH_ACCUMULATOR] = made_of_each,
			       [PATH_RANGES] = over_the_whole,
			       [PATH_UNEVEN] = "signal=innovation uses the previous step",
			       [PATH_CONTINUE] = "with signal=innovation the shards' sum keeps "
						 "what a lost worker sent" },
	[TRAIT_SVRG] = { [PATH_RATE_ZERO] = looks_back,
			 [PATH_FOLD] = added_apart,
			 [PATH_DENSE_PUSH] = two_passes,
			 [PATH_DEVICE] = device_adds,
			 [PATH_ACCUMULATOR] = made_of_each,
			 [PATH_UNEVEN] = "signal=svrg uses an anchor",
			 [PATH_PARAM_TYPE] = at_parameters },
	[TRAIT_DRIFT] = { [PATH_RATE_ZERO] = "signal=drift has the outer rate of rate=",
			  [PATH_FOLD] = a_difference,
			  [PATH_DENSE_PUSH] = a_difference,
			  [PATH_DEVICE] = device_adds,
			  [PATH_ACCUMULATOR] = pushes_all,
			  [PATH_RANGES] = pushes_all,
			  [PATH_PULL_RANGES] = own_model,
			  [PATH_IN_PLACE] = own_model,
			  [PATH_UNEVEN] = pushes_all,
			  [PATH_RULES] = "with signal=drift the program has its own optimizer",
			  [PATH_PARAM_TYPE] = pushes_all },
	[TRAIT_NOISE] = { [PATH_FOLD] = added_apart,
			  [PATH_DENSE_PUSH] = two_passes,
			  [PATH_DEVICE] = device_adds,
			  [PATH_ACCUMULATOR] = "noise= is added to each gradient" },
	[TRAIT_CLIP] = { [PATH_DENSE_PUSH] = "clip= reads the whole gradient for its norm first",
			 [PATH_ACCUMULATOR] = "clip= needs the norm of each gradient" },
	[TRAIT_MEDIAN] = { [PATH_DENSE_PUSH] = median,
			   [PATH_DENSE_SUM] = median,
			   [PATH_DEVICE] = median,
			   [PATH_DEVICE_SHARDS] = median },
	[TRAIT_SENDERS] = { [PATH_DENSE_SUM] = senders, [PATH_DEVICE_SHARDS] = senders },
	[TRAIT_TRANSFORM] = { [PATH_FOLD] = added_apart,
			      [PATH_DENSE_PUSH] = two_passes,
			      [PATH_DENSE_SUM] = transformed,
			      [PATH_DEVICE] = transformed,
			      [PATH_DEVICE_SHARDS] = transformed,
			      [PATH_ACCUMULATOR] =
				      "the residual holds coefficients of transform=" },
	[TRAIT_SKIP] = { [PATH_DENSE_PUSH] = "nonfinite=skip reads the whole gradient first",
			 [PATH_ACCUMULATOR] = left_out },
	[TRAIT_ZERO] = { [PATH_FOLD] = "nonfinite=zero changes the gradient before it is added",
			 [PATH_DENSE_PUSH] = "nonfinite=zero changes the gradient",
			 [PATH_ACCUMULATOR] = left_out },
	[TRAIT_SKIP_ALL] = { [PATH_DEVICE] = "nonfinite=skip-all is decided before the gradient is "
					     "added",
			     [PATH_ACCUMULATOR] = left_out },
	[TRAIT_NO_MEMORY] = { [PATH_FOLD] = "memory=none has no residual to add to",
			      [PATH_ACCUMULATOR] = no_sum },
	[TRAIT_FILTERED] = { [PATH_FOLD] = "the memory is filtered before the gradient is added",
			     [PATH_DENSE_PUSH] = "the memory is filtered",
			     [PATH_DEVICE] = device_adds,
			     [PATH_ACCUMULATOR] = no_sum },
	[TRAIT_NO_UPDATE] = { [PATH_RULES] = "with update=none the program has an optimizer of its "
					     "own" },
	[TRAIT_AVERAGE] = { [PATH_DEVICE_SHARDS] = pushes_parameters,
			    [PATH_DEVICE] = device_adds,
			    [PATH_ACCUMULATOR] = pushes_parameters,
			    [PATH_RANGES] = over_the_whole,
			    [PATH_UNEVEN] = pushes_parameters,
			    [PATH_RULES] = pushes_parameters,
			    [PATH_PARAM_TYPE] = pushes_parameters },
	[TRAIT_ACCELERATED] = { [PATH_RATE_ZERO] = "update=accelerated divides by the rate",
				[PATH_RULES] = "update=accelerated moves from anchor to anchor" },
	[TRAIT_SIGN] = { [PATH_DEVICE_SHARDS] = "the host takes the sign of the mean" },
	[TRAIT_EVERY] = { [PATH_DEVICE] = device_whole,
			  [PATH_RANGES] = over_the_whole,
			  [PATH_UNEVEN] = when_not_always,
			  [PATH_RULES] = when_not_always },
	[TRAIT_PERIOD] = { [PATH_ACCUMULATOR] =
				   "when=every makes a local step with each gradient",
			   [PATH_PULL_RANGES] = own_model },
	[TRAIT_OWN_MODEL] = { [PATH_FOLD] = "the gradients of a period are summed apart",
			      [PATH_DENSE_PUSH] = "the gradients of a period are summed first",
			      [PATH_PULL_RANGES] = own_model,
			      [PATH_IN_PLACE] = own_model },
	[TRAIT_LAZY] = { [PATH_RATE_ZERO] = "lazy steps divide by the rate",
			 [PATH_DEVICE_SHARDS] = shard_keeps,
			 [PATH_DEVICE] = device_whole,
			 [PATH_RANGES] = over_the_whole,
			 [PATH_UNEVEN] = when_not_always,
			 [PATH_RULES] = when_not_always },
	[TRAIT_ASYNC] = { [PATH_RATE_ZERO] = asynchronous,
			  [PATH_DEVICE_SHARDS] = asynchronous,
			  [PATH_DENSE_PUSH] = asynchronous,
			  [PATH_DENSE_SUM] = asynchronous,
			  [PATH_DENSE_PULL] = asynchronous,
			  [PATH_DEVICE] = device_whole,
			  [PATH_RANGES] = over_the_whole,
			  [PATH_PULL_RANGES] = asynchronous,
			  [PATH_IN_PLACE] = "when=async computes the parameters from their anchor",
			  [PATH_UNEVEN] = "with when=async workers need not make equal numbers of "
					  "steps",
			  [PATH_CONTINUE] = "with when=async the late pushes of a lost worker "
					    "cannot be recognized" },
	[TRAIT_QUORUM] = { [PATH_DEVICE_SHARDS] = "the host closes exchanges that workers miss",
			   [PATH_DENSE_SUM] = "an exchange closes without the messages of some "
					      "workers",
			   [PATH_DENSE_PULL] = "a pull may take several publications",
			   [PATH_CONTINUE] = "with quorum= the holders of a shard would close "
					     "exchanges with different workers" },
	[TRAIT_AUTO] = { [PATH_DEVICE_SHARDS] = "recipe=auto measures times and values on the host",
			 [PATH_DEVICE] = device_whole },
	[TRAIT_LEADER] = { [PATH_DEVICE_SHARDS] = agreed,
			   [PATH_DENSE_PUSH] = agreed,
			   [PATH_DENSE_SUM] = agreed,
			   [PATH_DENSE_PULL] = agreed,
			   [PATH_DEVICE] = device_whole,
			   [PATH_PULL_RANGES] = agreed,
			   [PATH_CONTINUE] = "with up=cyclic a step cannot end without its "
					     "leader" },
	[TRAIT_SKETCH] = { [PATH_RATE_ZERO] = "a sketch covers the whole residual",
			   [PATH_DEVICE_SHARDS] = agreed,
			   [PATH_DENSE_PUSH] = agreed,
			   [PATH_DENSE_SUM] = agreed,
			   [PATH_DENSE_PULL] = agreed,
			   [PATH_PULL_RANGES] = agreed,
			   [PATH_RULES] = "with up=sketch workers clear published coordinates" },
	[TRAIT_GLOBAL] = { [PATH_DEVICE_SHARDS] = histograms,
			   [PATH_DENSE_PUSH] = histograms,
			   [PATH_DENSE_SUM] = histograms,
			   [PATH_DENSE_PULL] = histograms },
	[TRAIT_HOST_SELECTOR] = { [PATH_DEVICE] = "the host makes this recipe's selection" },
	[TRAIT_ROUNDED_WHOLE] = { [PATH_DEVICE] =
					  "the host determines the bits of values of round" },
	[TRAIT_DRAWN_GRID] = { [PATH_DEVICE] =
				       "the range of a grid follows from the drawn values" },
	[TRAIT_HOST_DOWN] = { [PATH_DEVICE_SHARDS] =
				      "a GPU makes deltas with down=all, topk, threshold or "
				      "block-topk with blocks of at least 256, in "
				      "all types of values but round" },
	[TRAIT_SELECTOR_ADDS_NOT] = { [PATH_FOLD] = "this selector reads the finished sum" },
	[TRAIT_HALF_GRADIENTS] = { [PATH_FOLD] = "gradients of 16 or 8 bits are made floats first",
				   [PATH_DENSE_PUSH] =
					   "gradients of 16 or 8 bits are made floats first" },
	[TRAIT_ELASTIC] = { [PATH_DENSE_SUM] = "with on_failure=continue a push counts as soon as "
					       "it is read" },
	[TRAIT_BIG_ENDIAN] = { [PATH_DENSE_PUSH] = order,
			       [PATH_DENSE_SUM] = order,
			       [PATH_DENSE_PULL] = order },
	[TRAIT_RULES] = { [PATH_DEVICE_SHARDS] = "the rates of tensors are applied on the host" },
	[TRAIT_MEASURED] = { [PATH_DENSE_PUSH] = measured,
			     [PATH_DENSE_SUM] = measured,
			     [PATH_DEVICE] = "SLUICE_MEASURE looks at the whole residual" },
	[TRAIT_ACCUMULATES] = { [PATH_DEVICE] =
					"the residual was given out by sluice_accumulator()" },
	[TRAIT_DEVICE_SELECTS] = { [PATH_DENSE_PUSH] = "the gradient is on a device",
				   [PATH_PULL_RANGES] = "the residual is on a device" },
	[TRAIT_SHARD_ON_DEVICE] = { [PATH_DENSE_SUM] = "the shard is on a device" },
	[TRAIT_COUNTED] = { [PATH_DENSE_SUM] = "some messages of the step are summed already" },
	[TRAIT_SKIPPED] = { [PATH_PULL_RANGES] = "this worker pushed no gradient in this step" },
	[TRAIT_WRITTEN_LATE] = { [PATH_PULL_RANGES] = "the parameters are written when the pull "
						      "ends" },
};

const char *plan_why_not(enum path path, uint64_t traits)
{
	for (int t = 0; t < TRAITS; t++)
		if (traits >> t & 1 && plan_refusals[t][path])
			return plan_refusals[t][path];
	return NULL;
}

/* ---- traits of a recipe -------------------------------------------------------- */

/* Returns 1 if the device can select by this rule, or if nothing is selected. */
static int device_knows(const struct recipe *recipe)
{
	switch (recipe->up.select) {
	case SELECT_ALL:
	case SELECT_TOPK:
	case SELECT_THRESHOLD:
	case SELECT_GAUSSIANK:
	case SELECT_RANDOM:
	case SELECT_VARIANCE:
	case SELECT_SKETCH: return 1;
	case SELECT_BLOCK_TOPK: return recipe->up.block >= SELECT_BLOCK_ON_DEVICE;
	case SELECT_RANDK: /* without a memory, randk scales the values that it sends */
		return recipe->memory.kind == MEMORY_RESIDUAL;
	default: return 0;
	}
}

/* Returns 1 if a device can make the deltas. */
static int device_publishes(const struct recipe *recipe)
{
	const struct direction *down = &recipe->down;

	return (down->select == SELECT_ALL || down->select == SELECT_TOPK ||
		down->select == SELECT_THRESHOLD ||
		(down->select == SELECT_BLOCK_TOPK && down->block >= SELECT_BLOCK_ON_DEVICE)) &&
	       down->values.type != VALUE_ROUND;
}

static uint64_t signal_trait(enum signal_kind signal)
{
	switch (signal) {
	case SIGNAL_MOMENTUM: return TRAIT(MOMENTUM);
	case SIGNAL_STORM: return TRAIT(STORM);
	case SIGNAL_IGT: return TRAIT(IGT);
	case SIGNAL_INNOVATION: return TRAIT(INNOVATION);
	case SIGNAL_SVRG: return TRAIT(SVRG);
	case SIGNAL_DRIFT: return TRAIT(DRIFT);
	default: return 0;
	}
}

static uint64_t when_traits(const struct recipe *recipe)
{
	switch (recipe->when) {
	case WHEN_EVERY:
		return TRAIT(EVERY) | (recipe->every.period > 1 ? TRAIT(PERIOD) : 0) |
		       (recipe->every.period > 1 && !recipe_pushes_params(recipe) ?
				TRAIT(OWN_MODEL) :
				0);
	case WHEN_LAZY:
	case WHEN_LAZY_SERVER: return TRAIT(LAZY);
	case WHEN_ASYNC: return TRAIT(ASYNC);
	default: return 0;
	}
}

static uint64_t selector_traits(const struct recipe *recipe)
{
	const struct selection_kind *up = &selection_kinds[recipe->up.select];
	uint64_t traits = 0;

	if (up->exchange == EXCHANGE_LEADER)
		traits |= TRAIT(LEADER);
	if (up->exchange == EXCHANGE_SKETCH)
		traits |= TRAIT(SKETCH);
	if (up->global || selection_kinds[recipe->down.select].global)
		traits |= TRAIT(GLOBAL);
	if (!device_knows(recipe))
		traits |= TRAIT(HOST_SELECTOR);
	if (recipe->up.values.type == VALUE_ROUND && recipe->up.select == SELECT_ALL)
		traits |= TRAIT(ROUNDED_WHOLE);
	if (recipe->up.values.type == VALUE_GRID && up->unbiased)
		traits |= TRAIT(DRAWN_GRID);
	if (!device_publishes(recipe))
		traits |= TRAIT(HOST_DOWN);
	if (!up->adds)
		traits |= TRAIT(SELECTOR_ADDS_NOT);
	return traits;
}

void plan_make(struct path_plan *plan, const struct recipe *recipe, enum value_type pushed,
	       int elastic)
{
	const struct {
		int has;
		uint64_t trait;
	} plain[] = {
		{ recipe->signal.noise > 0, TRAIT(NOISE) },
		{ recipe->clip.norm > 0, TRAIT(CLIP) },
		{ recipe->clip.median, TRAIT(MEDIAN) },
		{ recipe->reduce == REDUCE_SENDERS, TRAIT(SENDERS) },
		{ recipe->transform != 0, TRAIT(TRANSFORM) },
		{ recipe->nonfinite == NONFINITE_SKIP, TRAIT(SKIP) },
		{ recipe->nonfinite == NONFINITE_ZERO, TRAIT(ZERO) },
		{ recipe->nonfinite == NONFINITE_SKIP_ALL, TRAIT(SKIP_ALL) },
		{ recipe->memory.kind == MEMORY_NONE, TRAIT(NO_MEMORY) },
		{ recipe->memory.kind == MEMORY_LOWPASS || recipe->memory.kind == MEMORY_TWOSTEP ||
			  recipe->memory.decay < 1,
		  TRAIT(FILTERED) },
		{ recipe_pulls_mean(recipe), TRAIT(NO_UPDATE) },
		{ recipe_averages(recipe), TRAIT(AVERAGE) },
		{ recipe->update == UPDATE_ACCELERATED, TRAIT(ACCELERATED) },
		{ recipe->update == UPDATE_SIGN, TRAIT(SIGN) },
		{ recipe->decay > 0, TRAIT(DECAY) },
		{ recipe->quorum.workers != 0, TRAIT(QUORUM) },
		{ recipe->automatic, TRAIT(AUTO) },
		{ pushed != VALUE_F32, TRAIT(HALF_GRADIENTS) },
		{ elastic, TRAIT(ELASTIC) },
		{ __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__, TRAIT(BIG_ENDIAN) },
	};

	plan->traits = signal_trait(recipe->signal.kind) | when_traits(recipe) |
		       selector_traits(recipe);
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		plan->traits |= plain[i].has ? plain[i].trait : 0;
	for (int p = 0; p < PATHS; p++) {
		plan->refusing[p] = 0;
		for (int t = 0; t < TRAITS; t++)
			plan->refusing[p] |= (uint64_t)(plan_refusals[t][p] != NULL) << t;
	}
}

/* ---- traits of a step ---------------------------------------------------------- */

void plan_values(struct step_rule *rule, struct value_coding up, struct value_coding down)
{
	rule->values_up = up;
	rule->values_down = down;
	rule->traits &= ~(TRAIT(NARROW_UP) | TRAIT(NARROW_DOWN));
	if (up.type != VALUE_F32)
		rule->traits |= TRAIT(NARROW_UP);
	if (down.type != VALUE_F32)
		rule->traits |= TRAIT(NARROW_DOWN);
}

struct step_rule plan_step(const struct path_plan *plan, const struct recipe *recipe,
			   const struct schedule *schedule, uint64_t step, double up, double down)
{
	const int reset = schedule_sends_all(schedule, step);
	const int all = reset || schedule_warms_up_dense(schedule, step);
	/* A dense step of recipe=auto has topk(1). */
	const int all_up = all || recipe->up.select == SELECT_ALL || (recipe->automatic && up >= 1);
	const int all_down = all || recipe->down.select == SELECT_ALL ||
			     (recipe->automatic && down >= 1);
	uint64_t traits = plan->traits | (all_up ? TRAIT(SENDS_ALL_UP) : TRAIT(SELECTS_UP));

	if (!all_down)
		traits |= TRAIT(SELECTS_DOWN);

	struct step_rule rule = { .step = step,
				  .up = up,
				  .down = down,
				  .all_up = all_up,
				  .all_down = all_down,
				  .reset = reset,
				  .traits = traits };

	plan_values(&rule, schedule_values(schedule, &recipe->up, step),
		    schedule_values(schedule, &recipe->down, step));
	return rule;
}
