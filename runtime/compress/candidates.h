/* SPDX-License-Identifier: BSD-3-Clause
 * The candidates of a top-k over a shard's residual: a list of all coordinates whose magnitude
 * reaches a floor. A step changes few lines of the residual, and the list follows these changes.
 * Selecting the k largest from the list gives exactly the result of a pass over the whole residual.
 * If too few entries are left, such a pass makes a new list with a lower floor. Called by reduce.c
 * (changes) and shard.c. Pure. */
#ifndef COMPRESS_CANDIDATES_H
#define COMPRESS_CANDIDATES_H
#include "select.h"

struct candidates {
	uint32_t *index;  /* `room` entries in ascending order, then an end mark that is after
			     every coordinate */
	float *value;     /* room + 1 entries: the values of the residual at these coordinates */
	uint32_t *chosen; /* positions in the list that the last selection chose */
	const struct span *spans; /* exempt spans of the shard, whose non-zeros are all listed */
	struct span *places;      /* the same spans, as positions in the list */
	size_t n_spans;
	uint32_t n, room, wanted, n_chosen;
	/* The list has every key above floor, and those keys equal to floor that are before
	 * coordinate ties_end. With floor 0 it has all non-zeros. */
	uint32_t floor, ties_end;
	int known;     /* 0: the residual has changes that the list does not reflect */
	uint32_t from; /* while following: the entries of the old list that are left are at
			  indices from .. room */
	size_t span;   /* while following: the first span that ends after the last line */
};

/* wanted is the number of coordinates that a pass lists, and room the number for which memory is
 * allocated. Both suit a step that selects about k of `of` coordinates while messages change about
 * `arriving` of them. Exempt coordinates do not count. Both are 0 if passes cost less than a
 * list. */
struct candidates_size {
	uint32_t wanted, room;
};
struct candidates_size candidates_size(uint32_t of, uint64_t k, uint64_t arriving, uint32_t exempt);
uint64_t candidates_bytes(struct candidates_size size,
			  size_t n_spans); /* returns the bytes that candidates_open() allocates */
/* The caller owns spans. Returns 0 or SLUICE_ENOMEM. */
int candidates_open(struct candidates *c, struct candidates_size size, const struct span *spans,
		    size_t n_spans);
void candidates_close(struct candidates *c);

/* Returns 1 if the list is useful for this k. */
int candidates_serve(const struct candidates *c, size_t k);
/* Called if the residual has changed in a way that the list cannot follow. */
void candidates_forget(struct candidates *c);

/* These follow the changes of a step: begin, then pieces of the residual in ascending order, then
 * end. A piece covers the coordinates begin .. begin + n - 1 and has a bit for each line of
 * VECTOR_LINE coordinates. A line has changed if its bit is set; value[] has the new values.
 * Coordinates in no piece have not changed. */
void candidates_begin(struct candidates *c);
void candidates_follow(struct candidates *c, uint32_t begin, const uint64_t *lines,
		       const float *value, uint32_t n);
void candidates_end(struct candidates *c);
/* Follows all changes of a step at once: index[] ascends, and value[] is the new residual at these
 * coordinates. */
void candidates_changed(struct candidates *c, const uint32_t *index, const float *value,
			uint32_t n);

/* Does the same as select_run(s, call, NULL). call->x must be the residual, call->value must not be
 * NULL, and the exempt spans must be those of candidates_open(). */
size_t candidates_select(struct candidates *c, struct selector *s, const struct select_call *call);
/* Updates the list after the selected values were subtracted: residual[index[i]] -= decoded[i]. */
void candidates_published(struct candidates *c, const float *decoded);
#endif
