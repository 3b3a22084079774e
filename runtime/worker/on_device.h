/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients and parameters in the memory of an accelerator. Called by step.c, worker.c, push_range.c,
 * signal.c, model_open.c, stats.c and checkpoint.c, each with a line or two; everything else of the runtime sees host memory.
 *
 * Where the recipe allows (on_device_select.c: the gradient, with a residual or none, no clipping) the residual lives
 * on the device and the selection is made there; only what is selected travels, and worker.residual is merely
 * the place at which the selected coordinates meet the encoder. Else the gradient is copied to the host. */
#ifndef RUNTIME_ON_DEVICE_H
#define RUNTIME_ON_DEVICE_H
#include "base/device.h"
#include "sluice.h"

struct on_device {
	void *stream;                      /* the application's */
	const struct device_ops *ops;      /* of the gradients so far; NULL: they were host memory */
	const struct device_ops *target;   /* of the pull under way; NULL: host memory */
	struct device_selector *selector;
	int selects;                       /* the residual lives here: */
	struct memory residual;
	int stale;                         /* worker.residual was restored and is newer */
	void *copies[2];                   /* of gradients, pinned; NULL: none was needed */
	float *params, *params_copy;       /* of the pull under way, where it is made on the host; pinned */
	float *values;                     /* selected_most: what was selected, then what is left of it */
	size_t found;                      /* coordinates selected in this step */
};

/* ---- on_device_select.c ---- */
/* Why the recipe's selection is made on the host; NULL: it can be made on the device. */
const char *on_device_why_not(const sluice_model *model);
/* How this step selects: k, or the rule that the recipe names. */
void on_device_rule(const sluice_model *model, struct device_select *call);

/* ---- on_device.c ---- */
/* Makes the gradients of a push host memory (before may be NULL, and then stays it), or leaves *grad where it is
 * if it is selected there: then worker.device.selects. */
int on_device_gradient(sluice_model *model, const float **grad, const float **before);
/* Makes a range of count coordinates host memory. */
int on_device_range(sluice_model *model, const float **grad, uint64_t count);
/* signal_accumulate() and the selection, on the device: worker.index and worker.device.found. */
int on_device_accumulate(sluice_model *model, const float *grad);
/* What messages left of the selected coordinates goes back to the residual on the device. */
int on_device_settle(sluice_model *model);
/* Copies the residual to worker.residual, if it lives on the device. */
int on_device_fetch_residual(sluice_model *model);

/* The target of a pull: *target stays where it is, or, where the recipe does more with parameters than adding
 * deltas, becomes a copy in host memory, which on_device_pulled() brings back unless rc is an error. */
int on_device_target(sluice_model *model, float **target);
int on_device_pulled(sluice_model *model, int rc);
/* What a decoded delta does to the target, wherever it is. */
int on_device_apply(sluice_model *model, float *vector, const uint32_t *index, const float *value,
		    uint32_t count);
/* n zeros. */
int on_device_zero(sluice_model *model, float *target, size_t n);

/* Host memory with the n parameters, which may be on a device: *host is params itself, or a copy that
 * on_device_return() writes back (unless failed) and frees. */
struct borrowed {
	float *host, *params;
	const struct device_ops *ops;
	size_t n;
};
int on_device_borrow(float *params, size_t n, struct borrowed *out);
int on_device_return(struct borrowed *b, int failed);

void on_device_close(struct on_device *d);
#endif
