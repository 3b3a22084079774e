/* SPDX-License-Identifier: BSD-3-Clause
 * A shard's sum of one step's messages, and its way into what is published. The sum remembers which
 * lines of coordinates it was added to, so that a step touches only those. Called by shard.c.
 * Pure. */
#ifndef RUNTIME_REDUCE_H
#define RUNTIME_REDUCE_H
#include "compress/sparse.h"
#include "model/update.h"
#include "model/compressor.h"

/* More messages than these are not kept apart. */
enum { REDUCTION_LISTS = 64 };

struct reduction {
	float *sum;      /* span; zero where nothing was added */
	uint64_t *lines; /* a bit for VECTOR_LINE coordinates: 1 where something was added */
	uint32_t span;
	uint64_t added; /* coordinates, in sparse messages: as many lines at the most */
	int whole;      /* something was added everywhere */
	/* Or, while all messages together are few coordinates, nothing was added, and they wait
	 * here one behind the other: message l ends at ends[l]. */
	uint32_t *index;
	float *value;
	uint32_t room, n_lists, ends[REDUCTION_LISTS];
};

int reduction_open(struct reduction *r, uint32_t span); /* 0 or SLUICE_ENOMEM */
void reduction_close(struct reduction *r);
/* Of memory that reduction_open() takes. */
uint64_t reduction_bytes(uint32_t span);

/* Adds one message: as sparse_add(), index ascending. */
void reduction_add(struct reduction *r, const uint32_t *index, const float *value, uint32_t count);

/* The sum of all that was added: only behind this call it is in r->sum. */
float *reduction_sum(struct reduction *r);

/* The sum joins a running one (span), and takes its place. */
void reduction_run(struct reduction *r, float *running);

/* How the sum becomes the change of the model: as update_apply(). */
struct change {
	const struct update *update;
	float *velocity;
	const float *params;
	unsigned divisor;
	float lr;
	float *residual; /* by vector_open(): what the change is added to; NULL: it takes the sum's
			    place */
	int selects;     /* a pick follows that may add */
	struct candidates *candidates; /* follow what is added to the residual, or forget; NULL:
					  none are kept */
	int everywhere; /* the sign of zeros counts: the change of no line is left out */
};

/* Makes the change, and sets in *call where a pick finds the vector of which a part is published:
 * call->vector, or, where adding is left to the pick's pass over the residual, grad and scale. The
 * other fields of *call stay. The same bits either way. */
void reduction_change(struct reduction *r, const struct change *c, struct pick_call *call);

/* After publishing: the sum is zero again, for the next step. */
void reduction_clear(struct reduction *r);
#endif
