/* SPDX-License-Identifier: BSD-3-Clause
 * The schedule of a recipe: the list of phases of a step, and the density of each step. */
#ifndef RUNTIME_SCHEDULE_H
#define RUNTIME_SCHEDULE_H
#include "recipe/recipe.h"

/* A phase is a direction, the payload of its messages, and the condition for its end. worker.c and
 * shard.c are two loops over a step's phases, each with a table of payloads and a table of
 * closings. */
enum phase_direction { PHASE_UP, PHASE_DOWN };
enum phase_payload {
	PAYLOAD_PAIRS,   /* positions and values of the sender's own selection */
	PAYLOAD_VALUES,  /* values of all coordinates */
	PAYLOAD_AGREED,  /* values at the coordinates on which an earlier phase of the step
			    agreed */
	PAYLOAD_INDICES, /* positions alone */
	PAYLOAD_SKETCH,  /* a sketch of all coordinates */
	PAYLOADS
};
enum phase_close {
	CLOSE_ALL_LIVING, /* ends when the messages of all living workers have arrived */
	CLOSE_ANY,        /* ends with each push of any worker */
	CLOSE_QUORUM,     /* ends with the messages of a quorum of the workers */
	CLOSINGS
};
struct phase {
	enum phase_direction direction;
	enum phase_payload payload;
	enum phase_close close;
};

enum { SCHEDULE_PHASES = 4 };
struct schedule {
	uint64_t reset; /* number of steps between two steps that send everything; 0: there are
			   none */
	struct phase phases[SCHEDULE_PHASES];
	unsigned n_phases, n_downs; /* downs are the publications of a shard in a step */
	/* 1: the update rule moves coordinates that no message of the step names, because weights
	 * decay or the shards keep a momentum. */
	int moves_all;
	uint64_t warmup_steps;
	int warmup_dense; /* 1: everything is sent in 8 bits in these steps */
	int raises;       /* 1: guard=raise, so densities may double up to 1 */
	/* svrg: number of a worker's steps between two anchors, including the step at one of them;
	 * otherwise 0. */
	uint64_t anchor_period;
};

static inline const struct phase *schedule_phase(const struct schedule *s, unsigned phase)
{
	return &s->phases[phase];
}

/* decays: 1 if some tensor has a rule with a weight decay, even if decay= is 0. Fails with
 * SLUICE_EINVAL if the warm-up is given in epochs and steps_per_epoch is 0, or if freeze is after a
 * dense warm-up. */
int schedule_compile(const struct recipe *recipe, uint64_t steps_per_epoch, int decays,
		     struct schedule *out);
/* Each worker takes an equal part of svrg's steps, rounded up, and one more step at the anchor. */
void schedule_anchors(struct schedule *s, const struct recipe *recipe, int workers);
/* schedule_at_anchor() returns 1 if step t = 1, 2, ... pushes the full gradient at the anchor.
 * schedule_before_anchor() returns 1 if it is the last step before the next anchor. */
int schedule_at_anchor(const struct schedule *s, uint64_t step);
int schedule_before_anchor(const struct schedule *s, uint64_t step);
/* Returns the worker that selects for all in step t = 1, 2, ... */
int schedule_leader(uint64_t step, int workers);
/* Returns how often a shard has published up to and including this phase of step t. */
uint64_t schedule_publications(const struct schedule *s, uint64_t step, unsigned phase);
/* With when=every(H),fragments(P), fragment p = 0 ... P - 1 is exchanged after every H steps, and
 * first after (p + 1) H / P steps. schedule_exchanges() returns how often a fragment was exchanged
 * after this number of steps, and schedule_exchange_step() returns the step of its exchange
 * t = 1, 2, ... schedule_next_fragment() returns the fragment that is exchanged next after this
 * number of steps. */
uint64_t schedule_exchanges(const struct recipe *recipe, uint32_t fragment, uint64_t steps);
uint64_t schedule_exchange_step(const struct recipe *recipe, uint32_t fragment, uint64_t t);
uint32_t schedule_next_fragment(const struct recipe *recipe, uint64_t steps);
/* Returns the density of step t = 1, 2, ... During the warm-up it falls geometrically from 25 % to
 * the recipe's density. */
double schedule_density(const struct schedule *s, const struct direction *d, uint64_t step);
/* Returns the largest density of any step, which determines the size of slots and logs. */
double schedule_largest_density(const struct schedule *s, const struct direction *d);
/* guard=raise: returns how many times the densities can double until everything is sent; otherwise
 * 0. */
unsigned schedule_raises_most(const struct recipe *recipe);
/* Returns the density after this number of doublings, at most 1. */
double schedule_raised(const struct direction *d, double density, unsigned doublings);
/* Returns 1 if the step sends everything that remains, in f32. This happens in both directions
 * because of reset=, or upwards at an anchor. */
int schedule_sends_all(const struct schedule *s, uint64_t step);
/* How a dense warm-up writes values. */
#define WARMUP_VALUES ((struct value_coding){ VALUE_UNIFORM, 8, UNIFORM_BLOCK, 0 })
/* Returns 1 if the step sends everything in 8 bits, in both directions. This is so for the steps of
 * a dense warm-up, except those for which schedule_sends_all() returns 1. */
int schedule_warms_up_dense(const struct schedule *s, uint64_t step);
/* Returns how a direction writes the values of a step. */
struct value_coding schedule_values(const struct schedule *s, const struct direction *d,
				    uint64_t step);
/* Returns how many of n coordinates the density selects. This is at least 1 for n > 0. */
uint64_t schedule_count(double density, uint64_t n);
#endif
