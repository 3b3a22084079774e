/* SPDX-License-Identifier: BSD-3-Clause
 * A shard's sum of one step's messages, and the change that the update rule makes from it. The sum
 * records which lines of VECTOR_LINE coordinates it was added to, so that a step visits only these
 * lines. Called by shard.c. Pure. */
#ifndef RUNTIME_REDUCE_H
#define RUNTIME_REDUCE_H
#include "compress/sparse.h"
#include "model/transform.h"
#include "model/update.h"
#include "model/compressor.h"

/* The largest number of messages that are kept as lists. If more arrive, all are added to the
 * sum. */
enum { REDUCTION_LISTS = 64 };

struct reduction {
	float *sum;      /* span elements; zero where nothing was added */
	uint64_t *lines; /* one bit for VECTOR_LINE coordinates: 1 if something was added to any of
			    them */
	uint32_t span;
	/* number of coordinates that sparse messages have added, so at most this many lines are
	 * marked */
	uint64_t added;
	/* reduce=senders: how many messages had a value other than zero at each coordinate; else
	 * NULL */
	uint16_t *senders;
	/* The transform if the sum is of coefficients, otherwise NULL; `first` is the coordinate of
	 * the first coefficient. room_of_unit is scratch memory for transform_invert(). */
	const struct transform *transform;
	uint64_t first;
	float *room_of_unit;
	int whole; /* 1: something may have been added at any coordinate */
	/* While all messages together have few coordinates, they are kept here, one after the
	 * other, and nothing is added to the sum. Message l ends at ends[l]. */
	uint32_t *index;
	float *value;
	uint32_t room, n_lists, ends[REDUCTION_LISTS];
	struct team *team; /* threads that help, or NULL */
};

/* How a reduction differs from a plain sum. */
struct reduction_attr {
	int senders;                       /* reduce=senders */
	const struct transform *transform; /* the messages hold coefficients; or NULL */
	uint64_t first;                    /* the coordinate of the first one */
	struct team *team;                 /* threads that help, or NULL */
};
/* Returns 0 or SLUICE_ENOMEM. */
int reduction_open(struct reduction *r, uint32_t span, const struct reduction_attr *attr);
void reduction_close(struct reduction *r);
/* Returns the bytes of memory that reduction_open() takes. */
uint64_t reduction_bytes(uint32_t span, const struct reduction_attr *attr);

/* Adds one message, as sparse_add() does. The indices ascend. */
void reduction_add(struct reduction *r, const uint32_t *index, const float *value, uint32_t count);

/* Adds all messages to r->sum, which is the complete sum only after this call. Returns r->sum. */
float *reduction_sum(struct reduction *r);

/* Adds the sum to a running sum of `span` elements, which then takes the place of the sum. */
void reduction_run(struct reduction *r, float *running);

/* The arguments of reduction_change(). Most of them are those of update_apply(). */
struct change {
	const struct update *update;
	struct averages averages;
	const float *params;
	unsigned divisor;
	float lr;
	float *residual; /* from vector_open(): the change is added to it; NULL: the change replaces
			    the sum */
	int selects;     /* 1: the pick that follows can add the change to the residual */
	struct candidates *candidates; /* kept up to date with the residual, or emptied; NULL: the
					  shard keeps no candidates */
	int everywhere; /* 1: lines without a message are changed too, because the sign of their
			   zeros matters */
};

/* Makes the change, and sets in *call the input of the pick that follows. The input is
 * call->vector, unless the pick adds the change to the residual in its own pass. It is then
 * call->grad and call->scale. The other fields of *call are not changed. Both inputs give the same
 * bits. */
void reduction_change(struct reduction *r, const struct change *c, struct pick_call *call);

/* Called after publishing: sets the sum to zero for the next step. */
void reduction_clear(struct reduction *r);
#endif
