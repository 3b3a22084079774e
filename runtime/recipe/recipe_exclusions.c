/* SPDX-License-Identifier: BSD-3-Clause
 * Combinations of words that a recipe refuses: one table with a row and a sentence for each. Called
 * by recipe.c when all words are read and the defaults are set. */
#include "recipe/recipe_words.h"
#include "base/error.h"
#include "compress/few_bits.h"
#include "sluice.h"

#include <string.h>

/* ---- facts of a recipe ------------------------------------------------------- */

/* A set of facts, with one bit for each fact. */
__extension__ typedef unsigned __int128 fact_set;

/* Each value of five axes has a bit. HAS() gives the bits of all other facts. */
#define BIT(n)          ((fact_set)1 << (n))
#define SIGNAL(name)    BIT(SIGNAL_##name)
#define MEMORY(name)    BIT(FIRST_MEMORY + MEMORY_##name)
#define UPDATE(name)    BIT(FIRST_UPDATE + UPDATE_##name)
#define WHEN(name)      BIT(FIRST_WHEN + WHEN_##name)
#define NONFINITE(name) BIT(FIRST_NONFINITE + NONFINITE_##name)
#define HAS(name)       BIT(HAS_##name)

#define SIGNALS    (BIT(FIRST_MEMORY) - 1)
#define MEMORIES   (BIT(FIRST_UPDATE) - BIT(FIRST_MEMORY))
#define UPDATES    (BIT(FIRST_WHEN) - BIT(FIRST_UPDATE))
#define WHENS      (BIT(FIRST_NONFINITE) - BIT(FIRST_WHEN))
#define NONFINITES (BIT(FIRST_HAS) - BIT(FIRST_NONFINITE))
#define LAZY       (WHEN(LAZY) | WHEN(LAZY_SERVER))
#define ADAMS      (UPDATE(ADAM) | UPDATE(ADAMW))

/* Each fact and its condition. r is the recipe, up and down are its selectors, and of_up and
 * of_down are the kinds of these. */
#define HAS_LIST(FACT)                                                                             \
	FACT(AUTO, r->automatic)                                                                   \
	FACT(UP_WORD, axis_given(d, AXIS_UP))                                                      \
	FACT(DOWN_WORD, axis_given(d, AXIS_DOWN))                                                  \
	FACT(WARMUP, r->warmup.length > 0)                                                         \
	FACT(WARMUP_DENSE, r->warmup.dense)                                                        \
	FACT(FREEZE, r->adam.freeze != 0)                                                          \
	FACT(FREEZE_SPARSE, freezes_sparse(r))                                                     \
	FACT(INSIDE_WORD, d->inside_given)                                                         \
	FACT(OUTSIDE, r->placement == STEP_OUTSIDE)                                                \
	FACT(FADES, r->memory.decay < 1)                                                           \
	FACT(RESET, r->reset != 0)                                                                 \
	FACT(MASK, r->signal.mask)                                                                 \
	FACT(NOISE, r->signal.noise > 0)                                                           \
	FACT(CLIP, r->clip.norm > 0)                                                               \
	FACT(MEDIAN, r->clip.median)                                                               \
	FACT(SENDERS, r->reduce == REDUCE_SENDERS)                                                 \
	FACT(TRANSFORM, r->transform != 0)                                                         \
	FACT(OTHER_BLOCKS, has_other_blocks(r))                                                    \
	FACT(DECAY, r->decay > 0)                                                                  \
	FACT(SHARD_DECAY, r->decay > 0 && r->update != UPDATE_NONE)                                \
	FACT(RAISE, r->guard == GUARD_RAISE)                                                       \
	FACT(EXEMPT, *r->dense != '\0')                                                            \
	FACT(PERIOD, r->every.period > 1)                                                          \
	FACT(LOCAL, r->when == WHEN_EVERY && !recipe_drifts(r))                                    \
	FACT(FRAGMENTS, r->every.fragments > 1)                                                    \
	FACT(LATE, r->every.late != 0)                                                             \
	FACT(MIX, r->drift.mix > 0)                                                                \
	FACT(RATE_WORD, axis_given(d, AXIS_RATE))                                                  \
	FACT(KEEP, r->drift.keep > 0)                                                              \
	FACT(QUORUM, r->quorum.workers != 0)                                                       \
	FACT(NO_QUORUM, r->quorum.workers == 0)                                                    \
	FACT(GRACE_WORD, axis_given(d, AXIS_GRACE))                                                \
	FACT(UP_ALL, up == SELECT_ALL)                                                             \
	FACT(UP_SELECTS, up != SELECT_ALL)                                                         \
	FACT(UP_BIASED, up != SELECT_ALL && !of_up->unbiased)                                      \
	FACT(UP_UNBIASED, of_up->unbiased)                                                         \
	FACT(UP_SEEDED, of_up->seeded)                                                             \
	FACT(UP_LEADER, of_up->exchange == EXCHANGE_LEADER)                                        \
	FACT(UP_SKETCH, of_up->exchange == EXCHANGE_SKETCH)                                        \
	FACT(UP_GLOBAL, up == SELECT_GLOBAL)                                                       \
	FACT(UP_BLOCK, up == SELECT_BLOCK)                                                         \
	FACT(UP_NARROW, r->up.values.type != VALUE_F32)                                            \
	FACT(DOWN_SELECTS, down != SELECT_ALL)                                                     \
	FACT(DOWN_UNBIASED, of_down->unbiased)                                                     \
	FACT(DOWN_SEEDED, of_down->seeded)                                                         \
	FACT(DOWN_LEADER, of_down->exchange == EXCHANGE_LEADER)                                    \
	FACT(DOWN_SKETCH, of_down->exchange == EXCHANGE_SKETCH)                                    \
	FACT(DOWN_NARROW, r->down.values.type != VALUE_F32)                                        \
	FACT(LEVEL, of_up->argument == ARGUMENT_LEVEL || of_down->argument == ARGUMENT_LEVEL)      \
	FACT(GLOBAL, of_up->global || of_down->global)                                             \
	FACT(DOWN_GLOBAL, of_down->global)                                                         \
	FACT(BOTH_ALL, up == SELECT_ALL && down == SELECT_ALL)                                     \
	FACT(BLOCK_ONE_WAY, (up == SELECT_BLOCK) != (down == SELECT_BLOCK))                        \
	FACT(OTHER_ALPHA, r->update_average.alpha != r->signal.average.alpha)                      \
	FACT(DIVERGENCE, diverges(r))                                                              \
	FACT(UNPAIRED, is_unpaired(r))

enum {
	FIRST_MEMORY = SIGNAL_DRIFT + 1,
	FIRST_UPDATE = FIRST_MEMORY + MEMORY_TWOSTEP + 1,
	FIRST_WHEN = FIRST_UPDATE + UPDATE_SIGN + 1,
	FIRST_NONFINITE = FIRST_WHEN + WHEN_ASYNC + 1,
	FIRST_HAS = FIRST_NONFINITE + NONFINITE_SKIP_ALL + 1,

	HAS_BEFORE = FIRST_HAS - 1,
#define AS_NAME(name, condition) HAS_##name,
	HAS_LIST(AS_NAME) FACTS
};
_Static_assert(FACTS <= 128, "facts of a recipe are bits of 128");

/* Returns 1 if the memory may grow without bound. This is so for two-step memory with BETA = 1 if
 * the selection does not send enough. */
static int diverges(const struct recipe *r)
{
	const struct value_coding *values = &r->up.values;
	const int few_bits = value_few_bits(values->type) && values->type != VALUE_ROUND;
	const double least_density = 0.5; /* for a selector without a density, it is 1 */

	return r->update == UPDATE_EMA && r->memory.beta == 1 &&
	       (r->automatic || r->up.density < least_density || (few_bits && values->bits < 3));
}

/* Returns 1 if the variance is frozen before the dense steps end. schedule_compile() checks this if
 * the warm-up is given in epochs. */
static int freezes_sparse(const struct recipe *r)
{
	return r->adam.freeze && (!r->warmup.dense || (r->warmup.unit == WARMUP_STEPS &&
						       (double)r->adam.freeze > r->warmup.length));
}

/* Returns 1 if an average would not set exactly the parameters that are pushed. */
static int is_unpaired(const struct recipe *r)
{
	const int blocks = r->up.select == SELECT_BLOCK;

	return r->up.select != r->down.select || (r->up.select != SELECT_ALL && !blocks) ||
	       (blocks && r->up.density != r->down.density);
}

/* With a transform, a selection by blocks takes the transform's. */
static int has_other_blocks(const struct recipe *r)
{
	return r->up.select == SELECT_BLOCK_TOPK && r->up.block != r->transform * r->transform;
}

static fact_set facts_of(const struct draft *d)
{
	const struct recipe *r = &d->recipe;
	const enum selection up = r->up.select, down = r->down.select;
	const struct selection_kind *of_up = &selection_kinds[up];
	const struct selection_kind *of_down = &selection_kinds[down];
	fact_set facts = BIT(r->signal.kind) | BIT(FIRST_MEMORY + r->memory.kind) |
			 BIT(FIRST_UPDATE + r->update) | BIT(FIRST_WHEN + r->when) |
			 BIT(FIRST_NONFINITE + r->nonfinite);

#define ADD_FACT(name, condition) facts |= (condition) ? HAS(name) : 0;
	HAS_LIST(ADD_FACT)
	return facts;
}

/* ---- the table --------------------------------------------------------------- */

/* A recipe is refused if it has one of the facts `of` and one of the facts `with`. In the sentence,
 * {KEY} stands for the recipe's word of that key. */
struct exclusion {
	fact_set of, with;
	const char *sentence;
};

#define CHOSEN_BY_AUTO(word)                                                                       \
	"\"{" word                                                                                 \
	"}\" together with auto, which chooses the densities itself, from dense to sparse in "     \
	"the first steps: leave one of the two out"
#define WITHOUT_RESIDUAL(word)                                                                     \
	"\"{" word "}\" together with auto, whose sparse choices need a residual, which \"{" word  \
	"}\" excludes: write up= and down= in place of auto"
#define COUNTS_TWICE(way)                                                                          \
	"\"{" way "}\" with a residual or another memory would count twice what it drops: it "     \
	"scales up what it keeps, so that nothing is missing on average; write memory=none, or a " \
	"selector such as topk or randk"
#define SENDS_NO_POSITIONS(way)                                                                    \
	"\"{" way "}\" with \"{dense}\": a seeded support sends no positions, so no tensor can "   \
	"be exempt from it; write dense=none"
#define DONE_TOGETHER(word)                                                                        \
	"when=async with {" word "}, which all workers do in one step: write up=all, "             \
	"topk(DENSITY) or random(DENSITY), and reset=none"
#define NOT_RAISED(word, why) "guard=raise with " word ": " why "; write guard=warn"

/* The first matching row gives the refusal. */
static const struct exclusion exclusions[] = {
	{ HAS(AUTO), HAS(UP_WORD), CHOSEN_BY_AUTO("up") },
	{ HAS(AUTO), HAS(DOWN_WORD), CHOSEN_BY_AUTO("down") },
	{ HAS(AUTO), HAS(WARMUP), CHOSEN_BY_AUTO("warmup") },
	/* These words imply memory=none. */
	{ HAS(AUTO), SIGNAL(INNOVATION) | SIGNAL(SVRG), WITHOUT_RESIDUAL("signal") },
	{ HAS(AUTO), UPDATE(AVERAGE), WITHOUT_RESIDUAL("update") },
	{ HAS(AUTO), MEMORIES & ~MEMORY(RESIDUAL),
	  "\"{memory}\" together with auto, whose sparse choices need memory=residual" },

	{ HAS(FREEZE), UPDATES & ~ADAMS,
	  "\"{freeze}\" keeps the variance of Adam, but this recipe has another update: write "
	  "update=adam(BETA1,BETA2,EPS) or adamw(BETA1,BETA2,EPS,DECAY), or leave freeze= out" },
	{ HAS(FREEZE), HAS(FREEZE_SPARSE),
	  "\"{freeze}\" needs a variance that all coordinates of dense steps have made, because "
	  "the squares of a sparse mean are far too large and too rare: write warmup=dense(LENGTH) "
	  "with at least as many steps, or leave freeze= out" },
	{ ADAMS, HAS(INSIDE_WORD),
	  "\"{memory}\" with \"{update}\": Adam's moments need gradients, but with inside the "
	  "messages hold gradients times the learning rate; write the memory with outside" },
	{ ADAMS, WHENS & ~WHEN(ALWAYS),
	  "\"{update}\" with \"{when}\": Adam's moments are those of the mean gradient of all "
	  "workers in each step; write when=always" },
	{ UPDATE(ADAMW), HAS(DECAY),
	  "\"{decay}\" with \"{update}\", which has its own decay: leave decay= out, or write "
	  "update=adam, with which decay= is added to the gradient" },
	{ HAS(WARMUP_DENSE),
	  (SIGNALS & ~(SIGNAL(GRADIENT) | SIGNAL(MOMENTUM))) |
		  (MEMORIES & ~(MEMORY(NONE) | MEMORY(RESIDUAL))) | (WHENS & ~WHEN(ALWAYS)) |
		  UPDATE(AVERAGE),
	  "\"{warmup}\" sends the whole gradient of each step in 8 bits: write it with "
	  "signal=gradient or momentum, memory=none or residual, and when=always, or write "
	  "warmup=LENGTH, in which the density falls" },
	{ HAS(WARMUP_DENSE),
	  HAS(UP_LEADER) | HAS(UP_SKETCH) | HAS(GLOBAL) | HAS(UP_SEEDED) | HAS(DOWN_SEEDED),
	  "\"{warmup}\" sends everything, but with cyclic, sketch, global, randk and block, "
	  "workers and shards agree on the coordinates of every step: write up= and down= with "
	  "another selector, or warmup=LENGTH" },

	{ SIGNAL(STORM) | SIGNAL(IGT), (UPDATES & ~UPDATE(EMA)) | HAS(OTHER_ALPHA),
	  "\"{signal}\" corrects for the running average at the shard: write update=ema(ALPHA) "
	  "with the same ALPHA" },
	{ HAS(RESET), MEMORIES & ~MEMORY(RESIDUAL),
	  "\"{reset}\" needs memory=residual: it sends the whole residual; another memory has no "
	  "residual, or one that lacks values" },
	{ MEMORY(TWOSTEP), UPDATES & ~(UPDATE(EMA) | UPDATE(SGD)),
	  "\"{memory}\" with \"{update}\": two-step memory is made for a running average at the "
	  "shard: write update=ema(ALPHA), or update=sgd with memory=residual" },
	{ MEMORY(TWOSTEP), NONFINITE(SKIP),
	  "\"{memory}\" with nonfinite=skip: two-step memory needs the errors of consecutive "
	  "steps; write nonfinite=abort or zero" },
	{ MEMORY(TWOSTEP), HAS(DIVERGENCE),
	  "memory=twostep(1) with \"{up}\" diverges: the memory of a coordinate that is not sent "
	  "grows with every step; write twostep(0.3), or send more: at least half of the "
	  "coordinates, 3 bits a value, or round(WIDTH)" },

	{ LAZY, SIGNALS & ~SIGNAL(INNOVATION),
	  "\"{when}\" leaves out uploads, so the shards must continue with the last values of each "
	  "worker: write signal=innovation" },
	{ LAZY, UPDATE(NONE) | HAS(AUTO),
	  "\"{when}\" decides by the model's changes: write update=sgd, and up= and down= instead "
	  "of auto" },
	{ WHEN(LAZY_SERVER), HAS(UP_SELECTS) | HAS(UP_NARROW),
	  "\"{when}\" needs exact uploads: write up=all, or when=lazy" },
	{ NONFINITE(SKIP_ALL), WHENS & ~WHEN(ALWAYS),
	  "nonfinite=skip-all with \"{when}\": all workers decide on each step together, but "
	  "these workers step alone; write when=always, or nonfinite=skip or zero" },

	{ SIGNAL(INNOVATION), MEMORIES & ~MEMORY(NONE),
	  "signal=innovation with \"{memory}\" would count unsent values twice, because the next "
	  "difference contains them again; write memory=none" },
	{ SIGNAL(INNOVATION), HAS(UP_UNBIASED) | HAS(UP_SEEDED),
	  "signal=innovation with \"{up}\", which scales up the values it sends, would diverge "
	  "from the gradient: write up=all or up=topk(DENSITY)" },
	{ SIGNAL(INNOVATION), HAS(PERIOD),
	  "signal=innovation with \"{when}\": after local steps a worker has no gradient of the "
	  "common model; write when=lazy(WINDOW,WEIGHT) or when=always" },

	{ UPDATE(AVERAGE), HAS(UNPAIRED),
	  "update=average sets the parameters that are pushed, and no others, to their mean: "
	  "write up=all down=all, or up=block(DENSITY) down=block(DENSITY) with one density" },
	{ UPDATE(AVERAGE),
	  (MEMORIES & ~MEMORY(NONE)) | (SIGNALS & ~SIGNAL(GRADIENT)) | LAZY | HAS(NOISE) |
		  HAS(DECAY) | HAS(CLIP) | HAS(MEDIAN) | HAS(SENDERS),
	  "update=average averages parameters, not gradients: write it with memory=none, and "
	  "without signal=, decay=, clip=, reduce= and when=lazy" },
	{ UPDATE(AVERAGE), NONFINITES & ~NONFINITE(ABORT),
	  "update=average with {nonfinite} would count omitted parameters as zeros: write "
	  "nonfinite=abort" },
	{ HAS(BLOCK_ONE_WAY), HAS(BLOCK_ONE_WAY),
	  "block is for averages of parameters: write up=block(DENSITY) down=block(DENSITY) "
	  "update=average" },
	{ HAS(UP_BLOCK), UPDATES & ~UPDATE(AVERAGE),
	  "\"{up}\" leaves most of each gradient out for good: write update=average, or "
	  "up=randk(DENSITY)" },

	{ SIGNAL(DRIFT),
	  UPDATES & ~(UPDATE(SGD) | UPDATE(MOMENTUM) | UPDATE(NESTEROV) | UPDATE(SIGN)),
	  "signal=drift with \"{update}\": the shards move the common parameters by the mean of "
	  "the workers' drifts; write update=sgd, momentum, nesterov or sign" },
	{ SIGNAL(DRIFT), WHENS & ~(WHEN(ALWAYS) | WHEN(EVERY)),
	  "signal=drift with \"{when}\": all workers exchange their drifts after the same number "
	  "of steps; write when=every(STEPS)" },
	{ SIGNAL(DRIFT), HAS(INSIDE_WORD),
	  "signal=drift with \"{memory}\": a drift already holds the steps of the program's "
	  "optimizer, so no rate is applied at the worker; write memory=residual" },
	{ SIGNAL(DRIFT), MEMORY(LOWPASS) | MEMORY(TWOSTEP),
	  "signal=drift with \"{memory}\": these memories filter gradients; write "
	  "memory=residual, residual(decay=B) or none" },
	{ SIGNAL(DRIFT), HAS(DECAY),
	  "signal=drift with \"{decay}\": weights decay in the program's own optimizer; leave "
	  "decay= out" },
	{ SIGNAL(DRIFT), HAS(NOISE),
	  "\"{signal}\" adds noise to parameters; add it to the gradients that the program's own "
	  "optimizer takes" },
	{ SIGNAL(DRIFT), HAS(UP_LEADER) | HAS(UP_SKETCH) | HAS(AUTO),
	  "signal=drift with {up}: write up=all or up=topk(DENSITY)" },
	{ SIGNAL(DRIFT), NONFINITE(SKIP_ALL),
	  "signal=drift with \"{nonfinite}\": parameters that are NaN stay so, and all later steps "
	  "would be skipped, too; write nonfinite=skip, with which the worker continues from the "
	  "common parameters" },
	{ SIGNAL(DRIFT), HAS(RESET),
	  "signal=drift with \"{reset}\": write reset=none, or a larger density" },
	{ HAS(FRAGMENTS), SIGNALS & ~SIGNAL(DRIFT),
	  "\"{when}\" exchanges a part of the parameters at a time, which needs a program with its "
	  "own optimizer: write signal=drift, or leave fragments out" },
	{ HAS(FRAGMENTS), NONFINITE(ZERO),
	  "\"{when}\" with \"{nonfinite}\": an exchange replaces one fragment, and NaN would "
	  "return from the others; write nonfinite=skip, with which the worker continues from all "
	  "common parameters" },
	{ HAS(FRAGMENTS), HAS(GLOBAL),
	  "\"{when}\" with global: its thresholds follow from all coordinates of earlier "
	  "exchanges, but fragments are exchanged at different steps; write topk(DENSITY), or "
	  "leave fragments out" },
	{ HAS(LATE), HAS(DOWN_GLOBAL),
	  "\"{when}\" with down=global: a checkpoint that is made while an exchange is under way "
	  "lacks the histograms from which the next threshold follows; write down=topk(DENSITY), "
	  "or leave late out" },
	{ HAS(LATE) | HAS(MIX), SIGNALS & ~SIGNAL(DRIFT),
	  "\"{when}\" brings the result of an exchange into the parameters of a program with its "
	  "own optimizer: write signal=drift, or leave late and mix out" },
	{ HAS(RATE_WORD), SIGNALS & ~SIGNAL(DRIFT),
	  "\"{rate}\" is the outer rate of signal=drift; the rate of this recipe is that of "
	  "sluice_set() and of the model's attribute lr" },
	{ HAS(KEEP), SIGNALS & ~SIGNAL(DRIFT),
	  "\"{keep}\" is the share of the residual in the parameters of a worker that trains by "
	  "itself: write it with signal=drift" },
	{ HAS(KEEP), MEMORY(NONE),
	  "\"{keep}\" with memory=none: there is no residual to keep; write memory=residual" },

	{ HAS(GRACE_WORD), HAS(NO_QUORUM),
	  "\"{grace}\" is the time for which an exchange with a quorum waits for the other "
	  "workers: write it with quorum=WORKERS" },
	{ HAS(QUORUM), SIGNALS & ~SIGNAL(DRIFT),
	  "\"{quorum}\" lets a worker miss an exchange, and counts at the next one how far it has "
	  "drifted meanwhile: write it with signal=drift when=every(STEPS)" },
	{ HAS(QUORUM), WHENS & ~WHEN(EVERY),
	  "\"{quorum}\" with \"{when}\": a worker can miss an exchange only if it trains by itself "
	  "between exchanges; write when=every(STEPS)" },
	{ HAS(QUORUM), HAS(FRAGMENTS) | HAS(LATE) | HAS(MIX),
	  "\"{quorum}\" with \"{when}\": a worker that missed exchanges takes the whole common "
	  "parameters of the newest one; leave fragments, late and mix out" },
	{ HAS(QUORUM), HAS(GLOBAL),
	  "\"{quorum}\" with global: its thresholds follow from the histograms of all workers; "
	  "write topk(DENSITY)" },
	{ HAS(QUORUM), HAS(MEDIAN),
	  "\"{quorum}\" with \"{clip}\": the median is that of all workers, some of which may be "
	  "late; write clip=none, or clip=C" },
	{ HAS(RAISE), HAS(QUORUM),
	  NOT_RAISED("quorum",
		     "all densities rise in the same exchange, which a worker may miss") },

	{ UPDATE(ACCELERATED), SIGNALS & ~SIGNAL(SVRG),
	  "update=accelerated moves from anchor to anchor: write signal=svrg(M) when=async(TAU)" },
	{ SIGNAL(SVRG), WHENS & ~WHEN(ASYNC),
	  "\"{signal}\" is for asynchronous steps: write when=async(TAU)" },
	{ SIGNAL(SVRG), NONFINITE(SKIP),
	  "signal=svrg with nonfinite=skip: no full gradient may be missing; write "
	  "nonfinite=abort or zero" },
	{ SIGNAL(SVRG), MEMORIES & ~MEMORY(NONE),
	  "signal=svrg with \"{memory}\": the difference of two gradients vanishes by itself, "
	  "and a memory would add values of an older anchor; write memory=none" },
	{ SIGNAL(SVRG), HAS(UP_BIASED),
	  "signal=svrg with \"{up}\" would lose what is not sent: write up=all,uniform(4) or "
	  "up=random(DENSITY)" },
	{ SIGNAL(SVRG), UPDATES & ~(UPDATE(SGD) | UPDATE(ACCELERATED)),
	  "signal=svrg with \"{update}\": write update=sgd or update=accelerated" },

	{ WHEN(ASYNC), HAS(AUTO), DONE_TOGETHER("up") },
	{ WHEN(ASYNC), HAS(RESET), DONE_TOGETHER("reset") },
	{ WHEN(ASYNC), HAS(UP_LEADER) | HAS(UP_SKETCH) | HAS(UP_GLOBAL), DONE_TOGETHER("up") },
	{ WHEN(ASYNC), HAS(DOWN_SELECTS),
	  "when=async with \"{down}\": each worker gets the model at its own time, so the shard "
	  "cannot select relative to what it knows; write down=all, or down=all,uniform(4)" },
	{ WHEN(ASYNC),
	  UPDATE(NONE) | UPDATE(AVERAGE) | UPDATE(SIGN) | SIGNAL(STORM) | SIGNAL(IGT) |
		  SIGNAL(INNOVATION) | MEMORY(LOWPASS) | MEMORY(TWOSTEP),
	  "\"{when}\" updates after each push: write it with signal=gradient, momentum or svrg, "
	  "memory=none or residual, and update=sgd, momentum, nesterov, ema or accelerated" },
	{ HAS(LOCAL),
	  UPDATE(NONE) | UPDATE(EMA) | UPDATE(SIGN) | SIGNAL(STORM) | SIGNAL(IGT) |
		  SIGNAL(INNOVATION) | SIGNAL(SVRG) | MEMORY(LOWPASS) | MEMORY(TWOSTEP) |
		  HAS(RESET) | HAS(OUTSIDE),
	  "\"{when}\" makes each worker run plain SGD locally, so the learning rate must be "
	  "applied at the worker: write it with update=sgd, momentum, nesterov or average, "
	  "signal=gradient or momentum, and memory=none or residual(inside)" },
	{ HAS(LOCAL), HAS(FADES),
	  "\"{memory}\" with \"{when}\": the residual would decay in each local step; write "
	  "memory=residual" },
	{ HAS(LOCAL), HAS(UP_LEADER) | HAS(UP_SKETCH) | HAS(AUTO),
	  "\"{when}\" with {up}: write up=all or up=topk(DENSITY)" },

	{ HAS(MEDIAN) | HAS(SENDERS), WHEN(ASYNC) | LAZY,
	  "clip=median and reduce=senders with \"{when}\": they compare the pushes of all workers "
	  "in one exchange; write when=always or every(STEPS)" },
	{ HAS(MEDIAN) | HAS(SENDERS), SIGNAL(INNOVATION),
	  "clip=median and reduce=senders with \"{signal}\": the shards add each difference to "
	  "the sum of earlier ones, in which no value may be scaled; write signal=gradient" },
	{ HAS(MEDIAN) | HAS(SENDERS), HAS(UP_LEADER) | HAS(UP_SKETCH),
	  "clip=median and reduce=senders with \"{up}\": there the workers agree on the "
	  "coordinates before they send values; write up=topk(DENSITY)" },
	{ HAS(SENDERS), HAS(UP_UNBIASED),
	  "\"{reduce}\" with \"{up}\", which scales up the values it sends so that their mean over "
	  "all workers is right: write reduce=mean, or up=topk(DENSITY)" },
	{ HAS(TRANSFORM), SIGNALS & ~(SIGNAL(GRADIENT) | SIGNAL(MOMENTUM) | SIGNAL(DRIFT)),
	  "\"{transform}\" with \"{signal}\", which is made of parameters as well: write "
	  "signal=gradient, momentum or drift" },
	{ HAS(TRANSFORM), HAS(NOISE),
	  "\"{transform}\" with \"{signal}\", whose noise has a place in the gradient: leave "
	  "noise(R) out" },
	{ HAS(TRANSFORM), UPDATE(AVERAGE),
	  "\"{transform}\" with update=average, which averages parameters: write update=sgd or "
	  "sign" },
	{ HAS(TRANSFORM), MEMORY(LOWPASS) | MEMORY(TWOSTEP),
	  "\"{transform}\" with \"{memory}\": write memory=residual, residual(decay=B) or none" },
	{ HAS(TRANSFORM), HAS(FRAGMENTS) | HAS(LOCAL) | WHEN(ASYNC) | LAZY,
	  "\"{transform}\" with \"{when}\": all tensors are transformed in one exchange of all "
	  "workers; write when=always, or signal=drift when=every(STEPS)" },
	{ HAS(TRANSFORM), HAS(KEEP),
	  "\"{transform}\" with \"{keep}\": the residual holds coefficients, so no share of it can "
	  "stay in the parameters; leave keep= out" },
	{ HAS(TRANSFORM), HAS(AUTO) | HAS(UP_LEADER) | HAS(UP_SKETCH) | HAS(UP_GLOBAL),
	  "\"{transform}\" with {up}: write up=all, topk(DENSITY) or block-topk(K,N)" },
	{ HAS(TRANSFORM), HAS(OTHER_BLOCKS),
	  "\"{up}\" with \"{transform}\": the blocks are those of the transform, of at most SIDE * "
	  "SIDE coefficients; write this product as N, such as block-topk(32,4096) with dct(64)" },
	{ HAS(UP_UNBIASED), MEMORIES & ~MEMORY(NONE), COUNTS_TWICE("up") },
	{ HAS(UP_SKETCH), HAS(UP_NARROW) | HAS(DOWN_NARROW),
	  "\"{up}\" with values narrower than f32 would lose rounding errors, because the workers "
	  "clear what a sketch publishes; write f32" },
	{ HAS(UP_SKETCH), (UPDATES & ~(UPDATE(NONE) | UPDATE(SGD))) | HAS(SHARD_DECAY),
	  "\"{up}\" publishes only the largest coordinates of the workers' sum, which momentum "
	  "or decay at the shard would spread: write update=sgd, and signal=momentum(M) for "
	  "momentum" },
	{ HAS(UP_LEADER) | HAS(UP_SKETCH), MEMORY(NONE),
	  "\"{up}\" without a residual would lose whatever the others did not select: write "
	  "memory=residual" },
	{ HAS(UP_SKETCH), MEMORIES & ~MEMORY(RESIDUAL),
	  "\"{up}\" with \"{memory}\": the workers clear what a sketch publishes, which only "
	  "memory=residual supports" },
	{ HAS(UP_LEADER) | HAS(UP_SKETCH), HAS(RESET),
	  "\"{up}\" with \"{reset}\": workers that agree on a support cannot send everything; "
	  "write reset=none" },
	{ HAS(UP_SEEDED), HAS(EXEMPT), SENDS_NO_POSITIONS("up") },
	{ HAS(DOWN_UNBIASED), MEMORIES & ~MEMORY(NONE), COUNTS_TWICE("down") },
	{ HAS(DOWN_LEADER), HAS(DOWN_LEADER),
	  "\"{down}\": a leader is a worker, and selects what workers push: write "
	  "up=cyclic(DENSITY)" },
	{ HAS(DOWN_SKETCH), HAS(DOWN_SKETCH),
	  "\"{down}\": only workers make sketches: write up=sketch(DENSITY)" },
	{ HAS(DOWN_SEEDED), HAS(EXEMPT), SENDS_NO_POSITIONS("down") },

	{ HAS(RAISE), HAS(AUTO), NOT_RAISED("auto", "auto chooses the densities itself") },
	{ HAS(RAISE), HAS(BOTH_ALL),
	  NOT_RAISED("all", "nothing is selected, so no density can be raised") },
	{ HAS(RAISE), MEMORY(NONE),
	  NOT_RAISED("no residual (memory=none)", "nothing waits that could overshoot") },
	{ HAS(RAISE), HAS(LEVEL),
	  NOT_RAISED("threshold or variance", "these take a level instead of a density") },
	{ HAS(RAISE), HAS(GLOBAL),
	  NOT_RAISED("global", "its thresholds follow from the densities of earlier steps") },
	{ HAS(RAISE), HAS(UP_SKETCH),
	  NOT_RAISED("sketch", "the size of a sketch follows from its density") },
	{ HAS(RAISE), WHEN(ASYNC), NOT_RAISED("when=async", "workers are in different steps") },
	{ HAS(RAISE), HAS(FRAGMENTS),
	  NOT_RAISED("fragments", "they are exchanged at different steps, but all densities rise "
				  "in the same one") },
	{ HAS(RAISE), HAS(LATE),
	  NOT_RAISED("late", "the densities would rise while an exchange is under way") },

	{ HAS(UP_LEADER) | HAS(UP_SKETCH), HAS(DOWN_SELECTS),
	  "\"{up}\" already agrees on the published coordinates, and \"{down}\" would select "
	  "again: write down=all" },
	{ HAS(MASK), HAS(UP_ALL),
	  "mask in \"{signal}\" with up=all would clear the whole momentum in every step, which "
	  "leaves the plain gradient: write nomask, or up=topk(DENSITY)" },
	{ UPDATE(NONE), HAS(DECAY),
	  "\"{decay}\" with update=none: the shard applies no update in which weights could "
	  "decay; leave decay to the job's own optimizer, or write update=sgd" },
};

/* ---- the refusal -------------------------------------------------------------- */

/* Returns the word that the recipe contains for the key, which has n characters. If the recipe is
 * automatic and the key is up or down, which it does not contain, returns the word auto. */
static const char *word_of_key(const struct draft *d, const char *key, size_t n)
{
	for (int id = 0; id < AXES; id++) {
		if (strlen(recipe_axes[id].key) != n || memcmp(recipe_axes[id].key, key, n) != 0)
			continue;
		return id <= AXIS_DOWN && !axis_given(d, (enum axis_id)id) && d->recipe.automatic ?
			       "auto" :
			       d->quotes[id];
	}
	return "";
}

static int refuse_with(const struct draft *d, const char *sentence)
{
	char text[ERROR_TEXT_BYTES];
	size_t n = 0;

	while (*sentence && n + QUOTE_BYTES < sizeof(text)) {
		if (*sentence != '{') {
			text[n++] = *sentence++;
			continue;
		}

		const size_t key = strcspn(++sentence, "}");
		const char *word = word_of_key(d, sentence, key);

		memcpy(text + n, word, strlen(word));
		n += strlen(word);
		sentence += key + 1;
	}
	text[n] = '\0';
	return fail(SLUICE_EINVAL, "recipe: %s", text);
}

int refuse_combinations(const struct draft *d)
{
	const fact_set facts = facts_of(d);

	for (size_t i = 0; i < sizeof(exclusions) / sizeof(exclusions[0]); i++)
		if (facts & exclusions[i].of && facts & exclusions[i].with)
			return refuse_with(d, exclusions[i].sentence);
	return SLUICE_OK;
}
