/* SPDX-License-Identifier: BSD-3-Clause
 * The target of a pull: a vector of the program (model/vector.h), and the floats to which the
 * deltas are added. Called by pull.c for each pull, by the loop (worker.c, dense.c) for each
 * publication, and by model_open.c and checkpoint.c.
 *
 * If the vector is one run of floats, the deltas are added to it directly, in host memory or on a
 * device. Publications are added directly to pieces of floats, too. For parameters in 16 bits the
 * library keeps a copy in 32 bits, adds to the copy, and rounds the coordinates that changed. If
 * the recipe itself reads all parameters (when=every, when=async, signal=igt), the target is one
 * run of floats in host memory, and the vector is written from it when the pull ends. A mean is
 * added to zeros. Pieces on a device, and one run of 16 bits there, are written from a run of
 * floats on that device. They are staged instead if the recipe reads all parameters, or if only
 * some pieces are on a device. */
#ifndef RUNTIME_WORKER_TARGET_H
#define RUNTIME_WORKER_TARGET_H
#include "model/vector.h"
#include "worker/hooks.h"

struct target;

/* Opens the target of a new model, whose attributes have been checked and whose recipe and layout
 * are set. Fails with SLUICE_EINVAL (bad segments), SLUICE_ENOMEM or SLUICE_EGPU. */
int target_open(struct worker *w, const sluice_model_attr *attr);
void target_close(struct worker *w);
/* Saves and restores the 32-bit copy. */
extern const struct step_hooks target_hooks;

/* Records where the next pull writes. This is `vector`, with elements of the model's param_type. If
 * vector is NULL, it is the n pieces of `given`, and if that is NULL too, the pieces of the model's
 * attributes. After SLUICE_EINVAL, SLUICE_ENOMEM or SLUICE_EGPU nothing is recorded. */
int target_note(struct worker *w, void *vector, const sluice_segment *given, size_t n,
		const char *function);
/* Returns the memory of the recorded vector. The pull runs on the device of that memory. */
const void *target_memory(const struct target *t);
const struct vector *target_vector(const struct target *t);
/* Returns 1 if deltas are added on a device. The work in its stream reads a delta's lists after the
 * call that adds the delta has returned. */
int target_there(const struct target *t);
/* Returns 1 if the pull needs all parameters in one vector, so that its ranges cannot be handled
 * separately. */
int target_whole(const struct worker *w);
/* Prepares the recorded vector for deltas. Fails with SLUICE_ENOMEM or SLUICE_EGPU. */
int target_begin(struct worker *w);
/* Called when the pull of all parameters has ended with rc. Returns rc, or this function's own
 * error. */
int target_end(struct worker *w, int rc);
/* Writes the parameters of a worker that trains by itself to the recorded vector, at the
 * coordinates of its last exchange. */
int target_write_own(struct worker *w);
/* For sluice_point(): records params as the parameters of the previous step. */
void target_remember(struct worker *w, const float *params);
/* For sluice_point(): returns two vectors, which stand for params and point and keep their staging
 * memory. */
struct vector *target_points(struct target *t);
/* Returns the floats to which deltas are added, or NULL if they are added to the vector's
 * elements. */
float *target_flat(const struct target *t);
/* Returns 1 if the device reads the entries of a publication. */
int target_lands(const struct worker *w);
/* Sets *to to the memory into which a message of count entries is decoded. If the device reads the
 * entries, this is pinned memory, which differs from message to message. Otherwise it is the memory
 * of the compressor's entries. Returns 0 or SLUICE_EGPU. */
int target_entries(const struct worker *w, uint32_t count, struct entries *to);
/* Adds a decoded delta from coordinate `first` on. The lists are in the memory of target_entries().
 * Returns 0 or an error of the device. The token must be held. */
int target_add(const struct worker *w, uint64_t first, const uint32_t *index, const float *value,
	       uint32_t n);

/* All parameters as floats in host memory. They are the program's own, or a copy, which
 * params_return() writes back, unless `failed` is set, and frees. `vector` has the same meaning as
 * in target_note(). With signal=drift it becomes the recorded vector. */
struct params {
	float *host;
	struct vector *of, one;
	const char *function;
};
int params_borrow(const struct worker *w, void *vector, const char *function, struct params *out);
int params_return(struct params *p, int failed);
/* With signal=drift, sets *host to the worker's own parameters for a checkpoint: the recorded
 * vector, as floats in host memory. With other signals *host is NULL. own_return() frees a copy. */
int own_borrow(const struct worker *w, const char *function, float **host);
void own_return(const struct worker *w, float *host);
#endif
