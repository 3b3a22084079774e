/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that a framework needs beyond sluice.h: vectors in pieces and ranges, gradients added
 * in place, and the state as bytes. See sluice_push_vector(3), sluice_accumulator(3) and
 * sluice_checkpoint(3); the conventions of sluice.h hold.
 */
#ifndef SLUICE_VECTOR_H
#define SLUICE_VECTOR_H

#include <sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pieces: sluice_push_vector(3) ----------------------------------------------- */

/* One piece of a vector whose elements are in several places in memory. Pieces follow each other in
 * the flat vector, and their counts add up to that of the model. A piece may be empty. */
typedef struct sluice_segment {
	void *data; /* only read in a push */
	uint64_t count;
	int type;    /* SLUICE_F32 and so on */
	float scale; /* for 8-bit types only; 0: SLUICE_GRAD_SCALE */
} sluice_segment;

/* A vector in one piece (data), or in several pieces (segments). Members that are not used are
 * zero. In a pull, a vector of zeros stands for the segments of the model. */
typedef struct sluice_vector {
	void *data; /* as for sluice_push() and sluice_pull(); may be NULL; only read in a push */
	const sluice_segment *segments;
	size_t n_segments;
} sluice_vector;

/* Do what sluice_push() and sluice_pull() do, with the same bits, for a sluice_vector. Pieces are
 * read and written in place. The list is copied. The rules for the memory of a vector hold for each
 * piece. Errors: as for these functions, and EINVAL (counts, types, alignment; 16-bit parameters
 * without param_type). Thread class: object. */
SLUICE_API int sluice_push_vector(sluice_model *model, const sluice_vector *vector);
SLUICE_API int sluice_pull_vector(sluice_model *model, const sluice_vector *vector);

/* ---- ranges: sluice_push(3) ------------------------------------------------------- */

/* Pushes the gradient of the coordinates begin .. begin + count - 1, for programs in which
 * back-propagation finishes one range after another. The ranges of a step may come in any order and
 * must cover every coordinate exactly once. The last range completes the push, with the bits of one
 * sluice_push() of the whole gradient. While ranges are missing, other calls of the step fail with
 * EINVAL. With clip=, nonfinite=skip and skip-all the library collects the ranges in a copy, and
 * pushes the copy with the last range. Errors: as for sluice_push(), EINVAL (range, or a recipe
 * that must see the whole vector) and ENOMEM. Thread class: object. */
SLUICE_API int sluice_push_range(sluice_model *model, const void *grad, uint64_t begin,
				 uint64_t count);

/* Begins a pull into a vector and does not wait. Until the ranges of the step are complete, the
 * vector belongs to the library, which fills it while the program computes. Other calls of the step
 * then fail with EINVAL. Errors: as for sluice_pull_vector(). Thread class: object. */
SLUICE_API int sluice_pull_begin(sluice_model *model, const sluice_vector *vector);

/* Waits until the coordinates begin .. begin + count - 1 of the pull are complete. From then on
 * they belong to the program again. The ranges of a step may come in any order and must cover every
 * coordinate exactly once. The last range ends the step, with the bits of one sluice_pull().
 * Errors: as for sluice_pull(), and EINVAL (range, or no pull is under way). Thread class:
 * object. */
SLUICE_API int sluice_pull_range(sluice_model *model, uint64_t begin, uint64_t count);

/* ---- gradients added in place: sluice_accumulator(3) ------------------------------ */

/* Gives the worker's residual to the program. Instead of passing its gradient, the program adds
 * *scale times the gradient to (*accumulator)[0..count) and then pushes *accumulator. The bits are
 * those of pushing the gradient, but this saves a vector and most of the push's memory traffic. The
 * library owns the memory, which is host memory and valid until the model is closed. The program
 * must not access it between a push and the end of its pull. *scale changes with the learning rate.
 * Errors: EINVAL (between push and pull, or a recipe that does more with a gradient than add it),
 * EGPU. Thread class: object. */
SLUICE_API int sluice_accumulator(sluice_model *model, float **accumulator, float *scale);

/* ---- another recipe: sluice_hand_over(3) ------------------------------------------- */

/* Moves the values that `from` has not delivered yet to `to`, which was just opened for the same
 * parameters with another recipe. It adds two vectors to the residual of `to`: the worker's
 * residual, and the values that this rank's shards have not published, times the number of workers
 * (not multiplied if `to` has reduce=senders). It copies the momentum if both recipes have
 * signal=momentum. The next means of `to` then contain everything that those of `from` lacked. Each
 * worker calls it after the same step, before its first push to `to`, and then closes `from`, which
 * keeps its values. Both recipes have update=none, signal=gradient or momentum, memory=residual or
 * none, and when=always. Not collective. Errors: EINVAL (a model that does not fit, a push that was
 * not pulled, or memory=none in the recipe of `to` alone), ENOSUPP (dedicated servers), EGPU.
 * Thread class: object. */
SLUICE_API int sluice_hand_over(sluice_model *from, sluice_model *to);

/* Copies the worker's residual, the values that it has not sent yet, to residual[0..count) in host
 * memory. Without one in the recipe, they are zeros. Between two steps. Errors: EINVAL, EGPU.
 * Thread class: object. */
SLUICE_API int sluice_residual(sluice_model *model, float *residual);

/* ---- the state as bytes: sluice_checkpoint(3) -------------------------------------- */

/* The state of a checkpoint as bytes, which the program stores where it likes. Each worker stores
 * the bytes that it got, and loads them as the same rank of an equal job, without dedicated
 * servers. sluice_state_size() sets *bytes_out, which stays the same for a model.
 * sluice_state_save() fills state[0..bytes), where bytes is that size, and must be called between
 * two steps. sluice_state_load() does what sluice_restore() does. Save and load are collective over
 * the workers. With the flag SLUICE_STATE_PART, a save fills state without waiting for other ranks;
 * the parts of all workers after the same step form one save. Errors: as for sluice_checkpoint()
 * and sluice_restore(), and ENOSUPP (dedicated servers; for a part also signal=innovation and
 * global). Thread class: object. */
enum { SLUICE_STATE_PART = 1 };
SLUICE_API int sluice_state_size(sluice_model *model, size_t *bytes_out);
SLUICE_API int sluice_state_save(sluice_model *model, void *state, size_t bytes, int flags);
SLUICE_API int sluice_state_load(sluice_model *model, const void *state, size_t bytes, void *params,
				 uint64_t *step_out);

#ifdef __cplusplus
}
#endif
#endif
