/* SPDX-License-Identifier: BSD-3-Clause
 * What the device files ask of each other, and nobody else. */
#ifndef RUNTIME_WORKER_DEVICE_STATE_H
#define RUNTIME_WORKER_DEVICE_STATE_H
#include "base/device.h"
#include "base/error.h"
#include "model/device_half.h"
#include "worker/device.h"
#include <stdatomic.h>

/* ---- device_vectors.c ---- */
/* The accelerator's side of a worker half. Its members are read by the device files alone. */
struct on_device {
	struct device_half half; /* its stream is the application's, its device that of the last
				    vector there */
	atomic_int state;        /* enum on_device_state; changed with the token held */
	struct memory collected; /* a gradient that comes in ranges; empty: none did */
	int collects;            /* this step's does */
	struct memory copies[2]; /* of gradients, pinned; empty: none was needed */
	struct outbox *outbox;   /* device_push.c's; NULL: gradients are selected on the host */
};
/* Token held, except in the application's calls while nothing is under way. */
void on_device_become(sluice_model *model, enum on_device_state state);
/* Whether the progress thread has to look at the push; whether the device is working. */
int on_device_goes_on(enum on_device_state state);
int on_device_at_work(enum on_device_state state);
/* up=sketch: the messages of a push are sketches, and the pull asks for values. */
int on_device_sketches(const sluice_model *model);
/* Enqueues the copies of residual and momentum to the device, if the host's are newer. Returns 0
 * or -1, like an operation of the device. */
int on_device_take_up(sluice_model *model);
/* Opens the device's part of a selection, if it is not open yet. pointer points to memory of the
 * device. */
int on_device_open_compressor(sluice_model *model, const void *pointer);
/* How this step's gradient is added to the residual, and how the sum is selected from. */
struct device_select on_device_select_of(const sluice_model *model, const void *grad);
/* SLUICE_EGPU unless the host may now take part in work on the stream, or on the model's stream.
 * If a stream is captured into a graph, each launch of the graph would repeat one step's
 * messages. */
int on_device_check_stream(const struct device_ops *ops, void *stream, const char *function);
int on_device_ready(const sluice_model *model, const char *function);

/* ---- device_push.c ---- */
int outbox_open(sluice_model *model);
void outbox_close(sluice_model *model);
/* Whether the device packs the messages that fit. If not, the host encodes them from the
 * selection. */
int outbox_packs(const struct recipe *recipe);
/* Takes the results, after the device has finished. If it does not return 0, the job has failed.
 * Token held. */
int outbox_take(sluice_model *model);
/* 1: the messages are complete except for their headers, and the residual is settled. */
int outbox_complete(const sluice_model *model);
/* Ends the job after a CUDA call of this thread failed in a push, because CUDA's errors stay
 * with the process. Returns SLUICE_EGPU. held: the token is held. */
int outbox_failed(sluice_model *model, int held);
#endif
