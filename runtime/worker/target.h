/* SPDX-License-Identifier: BSD-3-Clause
 * Where a pull writes: a vector of the program (model/vector.h), and the floats to which the deltas
 * are added. Called by pull.c for each pull, by the loop (worker.c, dense.c) for each publication,
 * and by model_open.c and checkpoint.c.
 *
 * One run of floats is added to where it lies, in host memory or on a device. A publication is
 * added to pieces of floats in place, too. For parameters in 16 bits the library keeps a copy in
 * 32, adds to it, and rounds what changed. Where the recipe itself looks at all parameters
 * (when=every, when=async, signal=igt), they are one run of floats in host memory, from which the
 * vector is written when the pull ends. A mean is added to zeros. Pieces on a device, and one run
 * of 16 bits there, follow a run of floats on that device; where the recipe looks at all
 * parameters, or only some pieces are on a device, these are staged. */
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
/* Memory of the vector that was noted: on whose device the pull is made. */
const void *target_memory(const sluice_model *model);
const struct vector *target_vector(const sluice_model *model);
/* Returns 1 if the deltas are added on a device, whose stream reads their lists. */
int target_there(const sluice_model *model);
/* Returns 1 if the pull needs all parameters in one vector, so that ranges of it cannot go on
 * alone. */
int target_whole(const sluice_model *model);
/* Prepares the vector that was noted for deltas. ENOMEM, EGPU. */
int target_begin(sluice_model *model);
/* The pull of the whole has ended with rc. Returns rc or an error. */
int target_end(sluice_model *model, int rc);
/* For sluice_point(): params are those of the step before from now on. */
void target_remember(sluice_model *model, const float *params);
/* Whether a pull is under way that waits for deltas. Token held. */
void target_ask(sluice_model *model, int asked);
int target_asked(const sluice_model *model);
/* The floats to which deltas are added; NULL: they are added to the vector's elements. */
float *target_flat(const sluice_model *model);
/* Where a message of count entries is decoded: if the device reads them (target_lands()), in a
 * place where the next message is not decoded, else in the entries of the worker's compressor.
 * EGPU. */
int target_lands(const sluice_model *model);
int target_entries(const sluice_model *model, uint32_t count, struct entries *to);
/* Adds a decoded delta from coordinate `first` on. The lists lie where target_entries() said. 0,
 * or an error of the device. Token held. */
int target_add(const sluice_model *model, uint64_t first, const uint32_t *index, const float *value,
	       uint32_t n);

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
