/* SPDX-License-Identifier: BSD-3-Clause
 * What a recipe means over time: the list of phases that one step is, and the density of each
 * step. */
#ifndef RUNTIME_SCHEDULE_H
#define RUNTIME_SCHEDULE_H
#include "recipe/recipe.h"

/* A phase is a direction, what its messages carry, and when it closes. worker.c and shard.c are two
 * loops over a step's phases, each with a table that has a row for each payload and one for each
 * closing. */
enum phase_direction { PHASE_UP, PHASE_DOWN };
enum phase_payload {
	PAYLOAD_PAIRS,   /* positions of the sender's own selection, and values */
	PAYLOAD_VALUES,  /* values of all coordinates */
	PAYLOAD_AGREED,  /* values of the coordinates that an earlier phase of the step agreed on */
	PAYLOAD_INDICES, /* positions alone */
	PAYLOAD_SKETCH,  /* a sketch of all coordinates */
	PAYLOADS
};
enum phase_close {
	CLOSE_ALL_LIVING, /* when the messages of all living workers are in */
	CLOSE_ANY,        /* with each push, of whichever worker it is */
	CLOSINGS
};
struct phase {
	enum phase_direction direction;
	enum phase_payload payload;
	enum phase_close close;
};

enum { SCHEDULE_PHASES = 4 };
struct schedule {
	uint64_t reset; /* every so many steps everything is sent; 0: never */
	struct phase phases[SCHEDULE_PHASES];
	unsigned n_phases, n_downs; /* downs: publications of a shard in a step */
	uint64_t warmup_steps;
	uint64_t anchor_period; /* svrg: steps of a worker from anchor to anchor, that of the anchor
				   included; else 0 */
};

/* SLUICE_EINVAL when warmup is given in epochs and steps_per_epoch is 0. */
int schedule_compile(const struct recipe *recipe, uint64_t steps_per_epoch, struct schedule *out);
/* Of svrg's steps each worker takes an equal part, rounded up, and one more at the anchor. */
void schedule_anchors(struct schedule *s, const struct recipe *recipe, int workers);
/* 1 if step t = 1, 2, ... pushes the full gradient at the anchor; 1 if it is the last before the
 * next one. */
int schedule_at_anchor(const struct schedule *s, uint64_t step);
int schedule_before_anchor(const struct schedule *s, uint64_t step);
/* The worker that selects for all in step t = 1, 2, ... */
int schedule_leader(uint64_t step, int workers);
/* Publications of a shard up to and with this phase of step t. */
uint64_t schedule_publications(const struct schedule *s, uint64_t step, unsigned phase);
/* Density of step t = 1, 2, ...: geometric from 25 % down to the recipe's over the warm-up. */
double schedule_density(const struct schedule *s, const struct direction *d, uint64_t step);
/* The largest density any step of the run asks for: sizes slots and logs. */
double schedule_largest_density(const struct schedule *s, const struct direction *d);
/* 1 in the steps in which all that is left is sent, in f32: both ways because of reset=, up at an
 * anchor. */
int schedule_sends_all(const struct schedule *s, uint64_t step);
/* Coordinates that density asks for out of n: at least 1 for n > 0. */
uint64_t schedule_count(double density, uint64_t n);
#endif
