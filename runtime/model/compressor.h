/* SPDX-License-Identifier: BSD-3-Clause
 * Error-feedback compression of a vector, as both halves of a model do it: a worker compresses its
 * gradients, whose vector is cut into shards, and a shard compresses its change. A step takes four
 * turns:
 *
 *     fold    what is to be sent joins the residual (worker/signal.c, shard/reduce.c)
 *     pick    the recipe's selector chooses coordinates
 *     emit    a message is made of them
 *     settle  what the receiver decodes leaves the residual
 *
 * compressor.c owns the residual and the momentum that selection masks, what the selector remembers
 * from step to step, and room for one message at a time. Pure: it knows no job and no network. */
#ifndef RUNTIME_COMPRESSOR_H
#define RUNTIME_COMPRESSOR_H
#include "compress/candidates.h"
#include "compress/choose.h"
#include "compress/message.h"
#include "recipe/recipe.h"

/* ---- room for one message --------------------------------------------------- */

/* Coordinates of one message: positions, which count from the shard's first coordinate, and
 * values. */
struct entries {
	uint32_t *index;
	float *value;
};

/* What compressors share that never work at the same time: all shards of a rank do. */
struct scratch;
/* copy: bytes for a private copy of a message; 0: none is needed. span: of the longest vector that
 * is selected from; 0: none is. 0 or SLUICE_ENOMEM. */
int scratch_open(size_t copy, size_t entries, uint64_t span, struct scratch **out);
void scratch_close(struct scratch **scratch);
uint64_t scratch_bytes(size_t copy, size_t entries, uint64_t span);
uint8_t *scratch_copy(const struct scratch *scratch);
struct entries scratch_entries(const struct scratch *scratch);
struct selector *scratch_selector(const struct scratch *scratch);

/* ---- opening ---------------------------------------------------------------- */

struct compressor_attr {
	const struct direction *direction; /* of the recipe: how coordinates are chosen */
	int down;                          /* a shard's; else a worker's */
	uint32_t number; /* whose draws these are: a worker's rank, which is below 2^23, or
			    2^23 + the shard's number */
	uint32_t first_shard, seed;
	/* Where a selector picks; where it draws a support of its own for each shard. Both stay the
	 * caller's. */
	const struct span *spans, *shards;
	size_t n_spans, n_shards;
	/* The vectors stay the caller's. residual NULL: whoever picks says from what. remembers:
	 * what is not sent stays in the residual. velocity: the momentum of what is sent is
	 * cleared. */
	float *residual, *velocity;
	int remembers;
	/* The most coordinates of one pick, whose values are kept beside them or not. 0: the
	 * scratch's entries have room. */
	size_t picked;
	int beside;
	size_t fitted; /* the most coordinates of a message that had to be shortened */
	struct candidates_size candidates; /* of the list of what a top-k can still pick; 0: none */
	struct scratch *scratch;
};

struct compressor;
int compressor_open(const struct compressor_attr *attr,
		    struct compressor **out); /* SLUICE_ENOMEM */
void compressor_close(struct compressor **compressor);
/* Of memory that compressor_open() takes beside the vectors. */
uint64_t compressor_bytes(const struct compressor_attr *attr);

float *compressor_residual(const struct compressor *c);
float *compressor_velocity(const struct compressor *c); /* NULL: none is masked */
struct entries compressor_entries(const struct compressor *c);
/* Where the last selection found its boundary. */
const struct select_hint *compressor_hint(const struct compressor *c);
/* The list follows what is added to the residual (compress/candidates.h), or forgets. */
struct candidates *compressor_candidates(struct compressor *c);

/* ---- pick ------------------------------------------------------------------- */

struct pick_call {
	uint64_t step;
	double density;
	uint64_t k; /* the same as a number of coordinates, where the selector wants one */
	const struct span *spans; /* NULL: those of the compressor */
	size_t n_spans;
	/* Picked from: vector; or, where it is NULL, from residual + scale * grad, which the
	 * selection adds up in its own pass. */
	float *vector;
	const float *grad;
	float scale;
	int take; /* what is picked is to leave the residual in that pass, if it can */
};

enum pick_from {
	PICK_FROM_VECTOR, /* the values are in the vector */
	PICK_BESIDE,      /* the values are beside the positions, and in the vector */
	PICK_TAKEN        /* the values are beside the positions, and have left the vector */
};
/* Some coordinates of a vector. */
struct pick {
	const uint32_t *index; /* ascending; NULL: all n coordinates */
	const float *value;    /* beside them; not of PICK_FROM_VECTOR */
	float *vector;
	size_t n;
	enum pick_from from;
	int nan; /* nothing was picked, because a NaN was met */
};

/* Asks the recipe's selector. The result lasts until the next call, with the scratch if there is no
 * room of its own. */
struct pick compressor_pick(struct compressor *c, const struct pick_call *call);
/* All n coordinates of the vector. */
struct pick pick_all(float *vector, size_t n);
/* None: a message of it says that there is nothing. */
struct pick pick_none(float *vector);
/* The coordinates begin .. end of a pick, whose part before begin has *from coordinates; *from
 * moves on. */
struct pick pick_part(const struct pick *p, uint64_t end, size_t *from);
/* What a selection took out of the vector is in it again. */
void pick_put_back(struct pick *p);
/* Of a pick by magnitude: 1 if everything that it was made from is finite. */
int pick_finite(const struct pick *p);
/* The support that a seeded selector draws in this step. */
const uint32_t *compressor_support(struct compressor *c, double density, uint64_t step, size_t *n);

/* ---- emit, settle ----------------------------------------------------------- */

/* Encodes p, whose first coordinate of all is `begin`, as message_encode() does; of more than
 * `most` coordinates the heaviest. *p is then what the message holds: positions that count from
 * begin, and the values that the receiver decodes. Returns the message's length; 0: a value is NaN
 * or infinite, m->bad of the shard's coordinates. */
size_t compressor_emit(struct compressor *c, struct message *m, struct pick *p, uint64_t begin,
		       size_t most, uint8_t *out, size_t cap);
/* What was emitted leaves the residual and, with mask, its momentum; but where a selection exempts
 * coordinates, their momentum stays. */
void compressor_settle(struct compressor *c, const struct pick *emitted, uint64_t begin, int mask);
#endif
