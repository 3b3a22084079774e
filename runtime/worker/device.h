/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients and parameters in the memory of an accelerator. Called by push.c, parts.c and
 * model_open.c, in a line or two each; the rest of the runtime only sees host memory.
 *
 * If the recipe allows it (gradient or momentum, with a residual or none), residual and momentum
 * are on the device. Fold, selection and the messages' payloads are then all enqueued there. The
 * host encodes the messages that the device does not pack, and uses the residual in host memory as
 * scratch for that. With other recipes the gradient is copied to the host.
 *
 * device_vectors.c owns struct on_device and its state. device_push.c owns what a push makes: how a
 * gradient is folded and selected, and its messages. device.c decides for each gradient where it is
 * selected, and drives a push whose call has returned. The first two stand below worker.c. */
#ifndef RUNTIME_WORKER_DEVICE_H
#define RUNTIME_WORKER_DEVICE_H
#include "sluice.h"

/* Called for a new model. The application owns stream. */
int on_device_open(struct worker *w, void *stream);
void on_device_close(struct worker *w);

/* Returns the reason why the host compresses the recipe's gradients, or NULL if the device can. */
const char *on_device_why_not(const struct worker *w);
/* If the recipe selects on the device, leaves *grad there, and on_device_selects() returns 1 from
 * then on. Otherwise makes *grad and *before host memory; before may be NULL, and then stays NULL.
 * A CUDA error ends the job. */
int on_device_gradient(struct worker *w, const void **grad, const void **before);
/* Called for a pushed range of count coordinates. `first` is 1 for the first range of a step. If
 * that range is device memory and the recipe selects on the device, the device collects all ranges
 * of the step. Returns 1 if the device collects them. Otherwise returns 0, and *grad is then host
 * memory, or an error. */
int on_device_range(struct worker *w, const void **grad, uint64_t count, int first);
/* Enqueues a copy of the range to its coordinates in the collected gradient. whole is NULL except
 * for the last range of a step. *whole then becomes the gradient, and the next range starts another
 * gradient. */
int on_device_collect(struct worker *w, const void *grad, uint64_t begin, uint64_t count,
		      const void **whole);

extern const struct compressor_ops device_compressor_ops;
#endif
