/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients and parameters in the memory of an accelerator. Called by the calls (push.c), the loop
 * (worker.c), agree.c, model_open.c, events.c, stats.c and checkpoint.c, each with a line or two;
 * everything else of the runtime sees host memory.
 *
 * If the recipe allows it (gradient or momentum, with a residual or none), residual and momentum
 * live on the device. Fold, selection and the messages' payloads are then all enqueued there. The
 * host encodes the messages that the device does not pack, and uses the residual in host memory as
 * scratch for that. With other recipes the gradient is copied to the host.
 *
 * device_vectors.c owns struct on_device and its state. device_push.c owns what a push makes: how a
 * gradient is folded and selected, and its messages. device.c decides for each gradient where it is
 * selected, and drives a push whose call has returned. The first two stand below worker.c. */
#ifndef RUNTIME_WORKER_DEVICE_H
#define RUNTIME_WORKER_DEVICE_H
#include "compress/message.h"
#include "model/vector.h"
#include "model/compressor.h"
#include "model/layout.h"
#include "model/stopwatch.h"
#include "rdma/transport.h"
#include "sluice.h"
#include "worker/signal.h"

struct on_device;

/* Where gradients are selected, and the state of the push under way. */
enum on_device_state {
	DEVICE_AWAY, /* gradients are selected on the host */
	/* on the device; residual and momentum in host memory were restored and are newer than the
	 * device's */
	DEVICE_STALE,
	DEVICE_IDLE,     /* on the device, and no push is under way */
	DEVICE_ENQUEUED, /* a push is enqueued, and the device has not finished it */
	DEVICE_LISTED,   /* the device has finished, but the host has to encode some messages, or to
			    handle an error */
	DEVICE_STAGED,   /* all messages are made, but not all of them are posted */
	DEVICE_ASKED     /* in a pull: the device fetches the values that shards asked for */
};

/* How a payload that the device made gets to the shard's owner. */
enum payload_way {
	PAYLOAD_STAGED, /* copied to the staging slot, which is posted whole */
	PAYLOAD_PLACED, /* copied into the owner's window, which is mapped here; the header is
			   posted */
	/* read by the network card from device memory; the header is posted after it */
	PAYLOAD_IN_PLACE
};

/* ---- device.c, device_vectors.c: vectors ---- */
/* Called for a new model. stream is the application's. */
int on_device_open(sluice_model *model, void *stream);
void on_device_close(sluice_model *model);
enum on_device_state on_device_state(const sluice_model *model);
/* Returns 1 if gradients are selected on the device. */
int on_device_selects(const sluice_model *model);
/* Called when residual and momentum in host memory have become the newer ones. */
void on_device_renewed(sluice_model *model);

/* Returns why the recipe compresses gradients on the host, or NULL if the device can do it. */
const char *on_device_why_not(const sluice_model *model);
/* If the recipe selects on the device, leaves *grad where it is (on_device_selects() is then 1).
 * Otherwise *grad and *before become host memory; before may be NULL, and then stays NULL. A
 * CUDA error ends the job. */
int on_device_gradient(sluice_model *model, const void **grad, const void **before);
/* Called for a pushed range of count coordinates. first: it is the first one of a step. The first
 * range decides whether the device collects the ranges: it does if the range is device memory and
 * the recipe selects on the device. Returns 1 if it collects. Returns 0 if it does not: *grad is
 * then host memory. Otherwise returns an error. */
int on_device_range(sluice_model *model, const void **grad, uint64_t count, int first);
/* Enqueues a copy of the range to its place in the gradient that is collected. whole is NULL unless
 * it is the last range: it then becomes the gradient, and the next range starts a new one. */
int on_device_collect(sluice_model *model, const void *grad, uint64_t begin, uint64_t count,
		      const void **whole);
/* Copies residual and momentum to the host, if they are on the device. */
int on_device_fetch(sluice_model *model);

/* For the pull of a vector on a device: returns the device's operations and its opened compressor.
 * *ops never becomes NULL, because it still releases the memory of earlier pulls. */
int on_device_use(sluice_model *model, const void *pointer, const struct device_ops **ops,
		  struct device_compressor **compressor);
/* Returns 1 if the device reads published coordinates (up=sketch). */
int on_device_lands(const sluice_model *model);
/* up=sketch: clears the residual at the published coordinates. index is relative to the shard
 * and lies in the memory of half_land(). index NULL: all coordinates whose received values
 * are not zero. */
int on_device_clear(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
		    const struct entries *got, uint32_t n);

/* ---- device_push.c: a push on the device ---- */
/* Enqueues on the model's stream the fold (as in signal_fold()), the selection, and the making of
 * the payloads. On failure the job has ended. */
int on_device_fold(sluice_model *model, const struct vector *grad, const struct vector *before,
		   struct signal *out);
/* Does the work of worker_send() in an up phase: stages all messages. Messages of pairs and
 * sketches are staged once the device has made them. Values that shards asked for are only
 * enqueued here, and on_device_valued() stages them. On failure nothing is posted. After
 * SLUICE_ENUMERIC, a payload is not finite and worker.overflowed is the coordinate. */
int on_device_emit_pairs(sluice_model *model);
int on_device_emit_sketches(sluice_model *model);
int on_device_ask_values(sluice_model *model);
/* Called by the pull, token held. Returns 1 if the values are staged, or if none are awaited. */
int on_device_valued(sluice_model *model);
/* Writes to text what the device is doing, for a log line about a waiting call. Returns 0 if the
 * device is idle. */
int on_device_busy(const sluice_model *model, char *text, size_t cap);
/* Return how the payloads for this shard leave, and whether the device packed the last one. */
enum payload_way on_device_way(const sluice_model *model, uint32_t shard);
int on_device_packed(const sluice_model *model, uint32_t shard);
#endif
