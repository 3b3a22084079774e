/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients and parameters in the memory of an accelerator. Called by the calls (push.c), the loop
 * (worker.c), agree.c, model_open.c, events.c, stats.c and checkpoint.c, each with a line or two;
 * everything else of the runtime sees host memory.
 *
 * Where the recipe allows it (gradient or momentum, with a residual or none), residual and momentum
 * live on the device, and the gradient is folded and selected there and the messages' payloads are
 * made there, all of it enqueued. The residual in host memory is then merely the place where the
 * encoder meets what the device does not pack. With other recipes the gradient is copied to the
 * host.
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
#include "rdma/transport.h"
#include "sluice.h"

struct on_device;

/* Where gradients are selected, and what of a push is under way. */
enum on_device_state {
	DEVICE_AWAY,  /* gradients are selected on the host */
	DEVICE_STALE, /* on the device; residual and momentum in host memory were restored and are
			 newer than what lives there */
	DEVICE_IDLE,  /* on the device, and no push is under way */
	DEVICE_ENQUEUED, /* the device is at a push, or will be */
	DEVICE_LISTED,   /* it is through, and left some of the messages to the host, or the answer
			    to what is wrong */
	DEVICE_STAGED,   /* all messages are made, and not all of them are posted */
	DEVICE_ASKED     /* of a pull: the device is at the values that shards asked for */
};

/* How the payload of a shard's messages, made on the device, gets to the shard's owner. */
enum payload_way {
	PAYLOAD_STAGED,  /* copied to the staging slot, which is posted whole */
	PAYLOAD_PLACED,  /* copied into the owner's window, which is mapped here; the header is
			    posted */
	PAYLOAD_IN_PLACE /* read by the card where it is made; the header is posted after it */
};

/* ---- device.c, device_vectors.c: vectors ---- */
/* Of a new model; stream is the application's. */
int on_device_open(sluice_model *model, void *stream);
void on_device_close(sluice_model *model);
enum on_device_state on_device_state(const sluice_model *model);
/* 1: gradients are selected on the device. */
int on_device_selects(const sluice_model *model);
void *on_device_stream(const sluice_model *model);
/* Residual and momentum in host memory are newer from now on. */
void on_device_renewed(sluice_model *model);

/* Why the recipe compresses gradients on the host; NULL: it can be done on the device. */
const char *on_device_why_not(const sluice_model *model);
/* Makes the gradients of a push host memory (before may be NULL, and then stays it), or leaves
 * *grad where it is if it is selected there: then on_device_selects(). What CUDA fails in ends the
 * job. */
int on_device_gradient(sluice_model *model, const void **grad, const void **before);
/* A range of count coordinates was pushed, the first one of a step or not. The first one decides
 * whether the device collects the ranges, if it is device memory and the recipe selects there.
 * Otherwise *grad becomes host memory. */
int on_device_range(sluice_model *model, const void **grad, uint64_t count, int first);
int on_device_collects(const sluice_model *model);
/* Enqueues a copy of the range to its place in the gradient that is collected. */
int on_device_collect(sluice_model *model, const void *grad, uint64_t begin, uint64_t count);
/* All ranges are there: the gradient, which the next range begins anew. */
const void *on_device_collected(sluice_model *model);
/* Residual and momentum come to the host, if they live on the device: gradients are selected on the
 * host from now on. */
int on_device_come_home(sluice_model *model);
/* Copies residual and momentum to the host, if they live on the device. */
int on_device_fetch(sluice_model *model);

/* For the pull of a vector on a device: its operations, and the selection's part there, opened. */
int on_device_use(sluice_model *model, const void *pointer, const struct device_ops **ops,
		  struct device_compressor **compressor);
/* Copies bytes from the device to the host, and waits. */
int on_device_copy_home(sluice_model *model, void *to, const void *from, size_t bytes);
/* Returns 1 if the device reads published coordinates (up=sketch); makes room where it reads a list
 * of count entries, in stream order. */
int on_device_lands(const sluice_model *model);
int on_device_land(const sluice_model *model, uint32_t count, struct entries *to);
/* up=sketch: what was published begins anew; index is relative to the shard and lies where
 * on_device_land() said, NULL: all but the zeros of the received values. */
int on_device_clear(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
		    uint32_t n);

/* ---- device_push.c: a push on the device ---- */
/* What signal_fold() does, the selection and the payloads, enqueued on the model's stream. On
 * failure the job has ended. */
int on_device_fold(sluice_model *model, const void *grad);
/* What worker_send() does in a phase up: all messages are staged, of pairs and sketches when the
 * device has made them. Values that shards asked for are enqueued; on_device_valued() stages them.
 * On failure nothing is posted. SLUICE_ENUMERIC: what was made is not finite; worker.overflowed
 * says where. */
int on_device_emit_pairs(sluice_model *model);
int on_device_emit_sketches(sluice_model *model);
/* The values of these coordinates of a shard, n of them, are in the next messages. */
void on_device_ask(sluice_model *model, uint32_t shard, const uint32_t *index, uint32_t n);
int on_device_ask_values(sluice_model *model);
/* Token held, of the pull: 1: the values are staged, or none are awaited. */
int on_device_valued(sluice_model *model);
/* What the device is at, as what is waited for. 0: it is at nothing. */
int on_device_busy(const sluice_model *model, char *text, size_t cap);
/* How the shard's messages leave; whether the device packed the last one. */
enum payload_way on_device_way(const sluice_model *model, uint32_t shard);
int on_device_packed(const sluice_model *model, uint32_t shard);

/* ---- device.c: a push whose call has returned ---- */
/* After on_device_fold(): sluice_push() returns, and the rest follows by itself; but where the host
 * encodes, or of what the device finishes meanwhile, it is done. start_ns: when the push began, for
 * the stats. */
int on_device_leave(sluice_model *model, uint64_t start_ns);
/* What can be done of it without waiting. Any thread; token held. */
void on_device_advance(sluice_model *model);
/* Whether on_device_advance() has something to do, or will without a call. */
int on_device_works(const sluice_model *model);
/* Waits until all is posted. Errors are the job's, or SLUICE_EGPU while the stream is captured:
 * then the push stands. Of the application's calls; on_device_park(): token held. */
int on_device_await(sluice_model *model);
int on_device_park(sluice_model *model);
#endif
