/* SPDX-License-Identifier: BSD-3-Clause
 * Error-feedback compression of a vector. Both halves of a model use it: a worker compresses its
 * gradient, which is cut into shards, and a shard compresses its change. A step has four stages:
 *
 *     fold    add the new values to the residual (worker/signal.c, shard/reduce.c)
 *     pick    choose coordinates with the recipe's selector
 *     emit    make a message of the chosen coordinates
 *     settle  subtract from the residual the values that the receiver decodes
 *
 * Selectors with `adds` in choose.c can add (fold) and subtract (settle) in their own pass over the
 * vector.
 *
 * compressor.c owns the residual, the momentum that selection masks, the selector's memory from
 * step to step, and room for one message at a time. Pure: no job and no network. */
#ifndef RUNTIME_COMPRESSOR_H
#define RUNTIME_COMPRESSOR_H
#include "compress/candidates.h"
#include "compress/choose.h"
#include "compress/message.h"
#include "recipe/recipe.h"

/* ---- memory for one message -------------------------------------------------- */

/* The coordinates of one message: their values, and their positions relative to the shard's first
 * coordinate. */
struct entries {
	uint32_t *index;
	float *value;
};

/* Memory that several compressors share because only one of them works at a time. All shards of a
 * rank share one scratch. */
struct scratch;
/* copy: bytes for a private copy of a message, or 0. span: the length of the longest vector from
 * which a selection is made, or 0. team: threads that share this half's passes, or NULL. Returns 0
 * or SLUICE_ENOMEM. */
struct team;
int scratch_open(size_t copy, size_t entries, uint64_t span, struct team *team,
		 struct scratch **out);
void scratch_close(struct scratch **scratch);
uint64_t scratch_bytes(size_t copy, size_t entries, uint64_t span);
uint8_t *scratch_copy(const struct scratch *scratch);
struct entries scratch_entries(const struct scratch *scratch);
struct selector *scratch_selector(const struct scratch *scratch);
struct team *scratch_team(const struct scratch *scratch);

/* ---- opening ---------------------------------------------------------------- */

struct compressor_attr {
	/* up= or down= of the recipe: the rule of selection */
	const struct direction *direction;
	int down;        /* 1: a shard's compressor; 0: a worker's */
	uint32_t number; /* the stream of the random draws; for a worker its rank, which is below
			    2^23, for a shard 2^23 + its number */
	uint32_t first_shard, seed;
	/* spans: the coordinates from which the selector picks. shards: one span per shard, for a
	 * selector that draws a support for each shard. The caller owns both. */
	const struct span *spans, *shards;
	size_t n_spans, n_shards;
	const uint32_t *ends; /* of the blocks of a selector by blocks (struct choice); or NULL */
	/* The caller owns the vectors. If residual is NULL, each pick names its own vector.
	 * remembers: values that are not sent stay in the residual. velocity: the momentum, which
	 * compressor_settle() clears at sent coordinates if `mask` is set. */
	float *residual, *velocity;
	int remembers;
	/* picked: the most coordinates of one pick; if it is 0, picks are stored in the scratch
	 * memory. beside: the values of a pick are copied next to its positions. */
	size_t picked;
	int beside;
	size_t fitted; /* the most coordinates of a message that was shortened to fit */
	/* size of the candidate list of a top-k; 0: no list */
	struct candidates_size candidates;
	struct scratch *scratch;
};

struct compressor;
int compressor_open(const struct compressor_attr *attr,
		    struct compressor **out); /* SLUICE_ENOMEM */
void compressor_close(struct compressor **compressor);
/* Returns how many bytes compressor_open() allocates, without the vectors. */
uint64_t compressor_bytes(const struct compressor_attr *attr);

float *compressor_residual(const struct compressor *c);
/* Returns the coordinates from which the selector picks, and their number in *n. */
const struct span *compressor_spans(const struct compressor *c, size_t *n);
float *compressor_velocity(const struct compressor *c); /* NULL: no momentum is masked */
struct entries compressor_entries(const struct compressor *c);
/* Returns the magnitude above which the last selection picked coordinates. */
const struct select_hint *compressor_hint(const struct compressor *c);
/* Returns the candidate list. The caller updates it when it adds to the residual
 * (compress/candidates.h), or empties it. */
struct candidates *compressor_candidates(struct compressor *c);

/* ---- pick ------------------------------------------------------------------- */

struct pick_call {
	uint64_t step;
	double density;
	uint64_t k; /* the density as a number of coordinates, for selectors that need one */
	const struct span *spans; /* NULL: the spans of the compressor */
	size_t n_spans;
	/* The vector to pick from. If it is NULL, the selection adds scale * grad to the residual
	 * in its own pass, and picks from the residual. Only selectors with `adds` can do that. */
	float *vector;
	const float *grad;
	float scale;
	int take; /* 1: that pass also sets the picked coordinates of the residual to zero, if the
		     values fit next to the positions (PICK_TAKEN) */
};

enum pick_from {
	PICK_FROM_VECTOR, /* the values are only in the vector */
	PICK_BESIDE,      /* the values are in the vector, and copied next to the positions */
	PICK_TAKEN        /* the values are next to the positions, and the vector has zeros */
};
/* Some coordinates of a vector. */
struct pick {
	const uint32_t *index; /* ascending; NULL: all n coordinates */
	const float *value;    /* values next to the positions; NULL with PICK_FROM_VECTOR */
	float *vector;
	size_t n;
	enum pick_from from;
	int nan; /* 1: the vector has NaN, so nothing was picked */
};

/* Calls the recipe's selector. The result is valid until the next call. If compressor_attr.picked
 * is 0, it is only valid until the scratch is used again. */
struct pick compressor_pick(struct compressor *c, const struct pick_call *call);
/* Picks all n coordinates of the vector. */
struct pick pick_all(float *vector, size_t n);
/* Picks no coordinate. A message of this pick means that there is nothing to send. */
struct pick pick_none(float *vector);
/* Returns the part of a pick from entry *from up to coordinate `end`, and advances *from to the
 * next entry. Calls with increasing `end` divide a pick among shards. */
struct pick pick_part(const struct pick *p, uint64_t end, size_t *from);
/* Writes the values that a selection removed from the vector (PICK_TAKEN) back to it. */
void pick_put_back(struct pick *p);
/* Returns the 2-norm of the picked values: the square root of the sum of their squares, which are
 * added in order, in double precision. It is at most the largest float, and 0 if a value is not
 * finite. values_norm() does the same with n values. */
float pick_norm(const struct pick *p);
float values_norm(const float *value, size_t n);
/* For a pick by magnitude: returns 1 if the vector had only finite values. */
int pick_finite(const struct pick *p);
/* Returns the support that a seeded selector draws in this step. */
const uint32_t *compressor_support(struct compressor *c, double density, uint64_t step, size_t *n);

/* ---- emit, settle ----------------------------------------------------------- */

/* Encodes p as message_encode() does. The message's positions count from coordinate `begin` of the
 * vector. In a worker this is the shard's first coordinate, in a shard it is 0. If p has more than
 * `most` coordinates, only the largest are encoded. On return *p is the content of the message:
 * positions relative to begin, and the values that the receiver decodes. Returns the message's
 * length, or 0 if a value is NaN or infinite; m->bad is then its coordinate in the shard. */
size_t compressor_emit(struct compressor *c, struct message *m, struct pick *p, uint64_t begin,
		       size_t most, uint8_t *out, size_t cap);
/* Subtracts the emitted values from the residual, unless the selection has already done so
 * (PICK_TAKEN) or the recipe keeps no memory. mask: also clears the momentum of these coordinates,
 * except exempt ones. */
void compressor_settle(struct compressor *c, const struct pick *emitted, uint64_t begin, int mask);
#endif
