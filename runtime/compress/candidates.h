/* SPDX-License-Identifier: BSD-3-Clause
 * What a top-k of a shard's residual can still select: a list of all coordinates whose magnitude
 * reaches a floor. A step changes few lines of the residual; the list follows those, and the k
 * largest are taken from the list: to the bit the ones that a pass over the whole residual would
 * find. Where too few are left, one such pass lists anew, with a lower floor. Called by reduce.c
 * (changes) and shard.c. Pure. */
#ifndef COMPRESS_CANDIDATES_H
#define COMPRESS_CANDIDATES_H
#include "select.h"

struct candidates {
	uint32_t *index;  /* room: ascending; and behind it an end that is after every coordinate */
	float *value;     /* room + 1: what the residual has there */
	uint32_t *chosen; /* places in the list that the last selection took */
	const struct span *spans; /* the shard's own, whose exempt ones are listed but for zeros */
	struct span *places;      /* the same as places in the list */
	size_t n_spans;
	uint32_t n, room, wanted, n_chosen;
	/* Listed is every key above floor, and those equal to it up to this coordinate; floor 0:
	 * all but zeros. */
	uint32_t floor, ties_end;
	int known;     /* 0: the residual changed unseen */
	uint32_t from; /* while following: the old list's rest lies at from .. room */
	size_t span;   /* while following: the first that ends behind the last line */
};

/* For selecting about k of `of` coordinates, of which messages change about `arriving` a step,
 * beside the exempt ones: how many a pass lists, and how many there is memory for. 0: a pass costs
 * less. */
struct candidates_size {
	uint32_t wanted, room;
};
struct candidates_size candidates_size(uint32_t of, uint64_t k, uint64_t arriving, uint32_t exempt);
uint64_t candidates_bytes(struct candidates_size size,
			  size_t n_spans); /* of memory that candidates_open() takes */
/* spans stay the caller's. 0 or SLUICE_ENOMEM. */
int candidates_open(struct candidates *c, struct candidates_size size, const struct span *spans,
		    size_t n_spans);
void candidates_close(struct candidates *c);

/* Whether the list is of use for this k. */
int candidates_serve(const struct candidates *c, size_t k);
/* The residual changes, or changed, where the list does not see it. */
void candidates_forget(struct candidates *c);

/* The changes of a step: begin, then pieces of the residual in ascending order, then end. A piece
 * are the coordinates begin .. begin + n, a line of VECTOR_LINE of them for a bit; those whose bit
 * is set changed, and value[] is what they are now. What is in no piece did not change. */
void candidates_begin(struct candidates *c);
void candidates_follow(struct candidates *c, uint32_t begin, const uint64_t *lines,
		       const float *value, uint32_t n);
void candidates_end(struct candidates *c);
/* Or all of them at once: these coordinates, ascending, and what the residual now has there. */
void candidates_changed(struct candidates *c, const uint32_t *index, const float *value,
			uint32_t n);

/* As select_run(s, call, NULL) with call->x, the residual, call->value and the spans of open. */
size_t candidates_select(struct candidates *c, struct selector *s, const struct select_call *call);
/* What was selected left the residual: residual[index[i]] -= decoded[i]. */
void candidates_published(struct candidates *c, const float *decoded);
#endif
