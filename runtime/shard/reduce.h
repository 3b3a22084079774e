/* SPDX-License-Identifier: BSD-3-Clause
 * A shard's sum of one step's messages, and its way into what is published. The sum remembers which
 * lines of coordinates it was added to, so that a step touches only those. Called by shard.c.
 * Pure. */
#ifndef RUNTIME_REDUCE_H
#define RUNTIME_REDUCE_H
#include "compress/sparse.h"
#include "model/update.h"
#include "model/compressor.h"

/* Beyond this number, messages are added to the sum at once. */
enum { REDUCTION_LISTS = 64 };

struct reduction {
	float *sum;      /* span elements; zero where nothing was added */
	uint64_t *lines; /* a bit for VECTOR_LINE coordinates: 1 where something was added */
	uint32_t span;
	/* number of coordinates in sparse messages; at most this many lines are marked */
	uint64_t added;
	int whole; /* 1: something was added at every coordinate */
	/* While all messages together have few coordinates, they are kept here, one after the
	 * other, and nothing is added to the sum. Message l ends at ends[l]. */
	uint32_t *index;
	float *value;
	uint32_t room, n_lists, ends[REDUCTION_LISTS];
};

int reduction_open(struct reduction *r, uint32_t span); /* 0 or SLUICE_ENOMEM */
void reduction_close(struct reduction *r);
/* Returns the bytes of memory that reduction_open() takes. */
uint64_t reduction_bytes(uint32_t span);

/* Adds one message, as sparse_add() does. The indices ascend. */
void reduction_add(struct reduction *r, const uint32_t *index, const float *value, uint32_t count);

/* Completes the sum of all messages in r->sum, which is valid only after this call. */
float *reduction_sum(struct reduction *r);

/* Adds the sum to a running sum of `span` elements, which then takes the place of the sum. */
void reduction_run(struct reduction *r, float *running);

/* The parameters for making the change from the sum, as update_apply() does. */
struct change {
	const struct update *update;
	struct averages averages;
	const float *params;
	unsigned divisor;
	float lr;
	float *residual; /* by vector_open(): the change is added to it; NULL: the change replaces
			    the sum */
	int selects;     /* a pick follows that can do the addition */
	struct candidates *candidates; /* updated with the additions to the residual, or emptied;
					  NULL: none are kept */
	int everywhere; /* the sign of zeros matters, so lines without a message are changed too */
};

/* Makes the change, and sets in *call the input of the pick that follows. The input is
 * call->vector, or grad and scale if the pick's pass over the residual does the addition. The other
 * fields of *call are not changed. Both inputs give the same bits. */
void reduction_change(struct reduction *r, const struct change *c, struct pick_call *call);

/* Called after publishing: sets the sum to zero for the next step. */
void reduction_clear(struct reduction *r);
#endif
