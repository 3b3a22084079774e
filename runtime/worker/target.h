/* SPDX-License-Identifier: BSD-3-Clause
 * Where a pull writes, if that is not one vector of floats: pieces of memory (model/vector.h), or
 * parameters in 16 bits. Called by pull.c for each pull, by the loop (worker.c, dense.c) for each
 * publication, and by model_open.c and checkpoint.c.
 *
 * A publication is added to pieces of floats in place. Of parameters in 16 bits the library keeps a
 * copy in 32, adds to it, and rounds what changed. Where the recipe itself looks at all parameters
 * (when=every, when=async, signal=igt), pieces are copied together before a pull and written back
 * behind it. A mean is written into zeros. Pieces on a GPU, and one vector of 16 bits
 * there, follow a vector of floats that is there too; where the recipe looks at all parameters, or
 * only some pieces are on a GPU, these are staged. */
#ifndef RUNTIME_WORKER_TARGET_H
#define RUNTIME_WORKER_TARGET_H
#include "model/vector.h"
#include "worker/device.h"
#include "worker/hooks.h"

struct target;

/* Of a new model; the attributes have been checked, and recipe and layout are those of the model.
 * EINVAL (segments), ENOMEM, EGPU. */
int target_open(sluice_model *model, const sluice_model_attr *attr);
void target_close(sluice_model *model);
/* The copy in 32 bits. */
extern const struct step_hooks target_hooks;

/* Notes where the next pull writes: vector, of elements of the model's param_type; or, if vector is
 * NULL, n pieces; or, if given is NULL too, those of the model's attributes. EINVAL, ENOMEM,
 * EGPU: nothing is noted. */
int target_note(sluice_model *model, void *vector, const sluice_segment *given, size_t n,
		const char *function);
/* The vector that was noted, or the first of the pieces: on whose device the pull is made. */
const void *target_memory(const sluice_model *model);
/* Begins to write there. *flat: the vector to which publications are added, or NULL if they are
 * added to *pieces. *pieces: NULL if flat is the program's vector. */
int target_begin(sluice_model *model, float **flat, const struct vector **pieces);
/* Whether the pull needs all parameters in one vector, so that ranges of it cannot go on alone. */
int target_whole(const sluice_model *model);
/* The pull of the whole has ended with rc. */
int target_end(sluice_model *model, int rc);
/* What the pull under way, which has been asked for, writes to, as target_begin() said; both NULL:
 * none is. Token held. */
void target_ask(sluice_model *model, float *flat, const struct vector *pieces);
int target_asked(const sluice_model *model);
float *target_flat(const sluice_model *model);
int target_in_pieces(const sluice_model *model);
/* What a decoded delta does to a target in pieces, from coordinate `first` on. Token held. */
void target_apply(const sluice_model *model, uint64_t first, const uint32_t *index,
		  const float *value, uint32_t n);

/* Host memory with all parameters as floats: those of the program, or a copy that params_return()
 * writes back (unless failed) and frees. vector as for target_note(). */
struct params {
	float *host;
	struct vector *of, one;
	const char *function;
};
int params_borrow(const sluice_model *model, void *vector, const char *function,
		  struct params *out);
int params_return(struct params *p, int failed);
#endif
