/* SPDX-License-Identifier: BSD-3-Clause
 * A gradient that is pushed in ranges or pieces, and a pull that is made in ranges: records the
 * parts that the program has named so far in a step. Called by push.c and pull.c. */
#ifndef RUNTIME_WORKER_PARTS_H
#define RUNTIME_WORKER_PARTS_H
#include "worker/hooks.h"
#include "worker/signal.h"

struct parts;
extern const struct step_hooks parts_hooks;

/* ---- ranges, of the push or of the pull ---- */
enum parts_of { PARTS_PUSHED, PARTS_PULLED };
/* Records a range. Fails with SLUICE_ENOMEM, or with SLUICE_EINVAL if the range is empty, is
 * outside of the model, or overlaps another range of the step. A failure changes nothing. */
int parts_take(struct worker *w, enum parts_of which, uint64_t begin, uint64_t count,
	       const char *function);
int parts_cover(const struct parts *p, enum parts_of which, uint64_t begin, uint64_t end);
/* Returns the lowest coordinate that is missing. */
uint64_t parts_gap(const struct parts *p, enum parts_of which);
void parts_clear(struct parts *p, enum parts_of which);

/* ---- gradients ---- */
/* parts_keeps() returns 1 if the recipe needs the whole gradient before it can add any part of it.
 * Ranges are then kept until all have arrived. parts_room() allocates the memory once, and may fail
 * with SLUICE_ENOMEM. */
int parts_keeps(const struct path_plan *plan);
int parts_room(struct worker *w);
void parts_keep(struct worker *w, const void *grad, uint64_t begin, uint64_t count);
struct vector parts_kept(const struct worker *w);
/* Prepares a gradient in pieces. *out becomes the vector of the pieces, in host memory. If the
 * recipe compresses on the device of the pieces, *out becomes *joined instead, which is one piece
 * on that device. The list is copied. Fails with SLUICE_EINVAL, SLUICE_ENOMEM or SLUICE_EGPU. */
int parts_pieces(struct worker *w, const sluice_segment *segments, size_t n, const char *function,
		 struct vector *joined, struct vector **out);
#endif
