/* SPDX-License-Identifier: BSD-3-Clause
 * A push whose gradient is selected on a device; see device_push.c. */
#ifndef RUNTIME_WORKER_DEVICE_PUSH_H
#define RUNTIME_WORKER_DEVICE_PUSH_H
#include "worker/device_vectors.h"
#include "worker/signal.h"

/* How a payload that the device made reaches the shard's owner. */
enum payload_way {
	PAYLOAD_STAGED, /* the device copies it to the staging slot, which is posted as a whole */
	PAYLOAD_PLACED, /* the device copies it to the owner's window, which is mapped here; only
			   the header is posted */
	/* the network card reads it from device memory; the header is posted after it */
	PAYLOAD_IN_PLACE
};

int outbox_open(struct worker *w);
void outbox_close(struct worker *w);
/* Returns 1 if the device packs the messages that fit. Otherwise the host encodes them from the
 * selection. */
int outbox_packs(const struct recipe *recipe);
/* Reads the results after the device has finished. If it does not return 0, the job has failed.
 * The token must be held. */
int outbox_take(struct worker *w);
/* Returns 1 if the messages are complete except for their headers, and the residual is settled. */
int outbox_complete(const struct worker *w);
/* Ends the job after a CUDA call of this thread failed in a push, because a process cannot recover
 * from CUDA's errors. Returns SLUICE_EGPU. held: the caller holds the token. */
int outbox_failed(struct worker *w, int held);

/* Enqueues a fold (as in signal_fold()), the selection, and the making of the payloads on the
 * model's stream. On failure the job has ended. */
int on_device_fold(struct worker *w, const struct vector *grad, const struct vector *before,
		   struct signal *out);
/* Does the work of worker_send() in an up phase: stages all messages. Messages of pairs and
 * sketches are staged once the device has made them. Values that shards requested are only enqueued
 * here; on_device_valued() stages them. On failure no message is posted. After SLUICE_ENUMERIC, a
 * payload is not finite, and step.overflowed is the coordinate. */
int on_device_emit_pairs(struct worker *w);
int on_device_emit_sketches(struct worker *w);
int on_device_ask_values(struct worker *w);
/* Called by the pull. Returns 1 if the values are staged, or if none are awaited. The token must be
 * held. */
int on_device_valued(struct worker *w);
/* Writes to text what the device is doing, for a log line about a waiting call. Returns 0 if the
 * device is idle. */
int on_device_busy(const struct worker *w, char *text, size_t cap);
/* on_device_way() returns how this shard's payloads reach the owner. on_device_packed() returns 1
 * if the device packed the last payload. */
enum payload_way on_device_way(const struct worker *w, uint32_t shard);
int on_device_packed(const struct worker *w, uint32_t shard);
#endif
