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
/* Token held, but for what the application's calls do while nothing is under way. */
void on_device_become(sluice_model *model, enum on_device_state state);
/* Whether the progress thread has to look; whether the device is at something. */
int on_device_goes_on(enum on_device_state state);
int on_device_at_work(enum on_device_state state);
/* up=sketch: the messages of a push are sketches, and the pull asks for values. */
int on_device_sketches(const sluice_model *model);
/* Residual and momentum go to the device, where those of the host are newer; enqueued. 0, or -1 as
 * an operation of the device. */
int on_device_take_up(sluice_model *model);
/* Opens the device's part of a selection, if it is not open yet; pointer is to memory of the
 * device. */
int on_device_open_compressor(sluice_model *model, const void *pointer);
/* What the recipe does to the gradient of this step, and what is selected from the sum. */
struct device_select on_device_select_of(const sluice_model *model, const void *grad);
/* SLUICE_EGPU, unless the host may take part in work on the stream, or on the model's stream, now:
 * a stream that is captured into a graph would repeat one step's messages at each launch. */
int on_device_check_stream(const struct device_ops *ops, void *stream, const char *function);
int on_device_ready(const sluice_model *model, const char *function);

/* ---- device_push.c ---- */
int outbox_open(sluice_model *model);
void outbox_close(sluice_model *model);
/* Whether the device packs the messages, where they fit; else the host encodes them from what was
 * selected. */
int outbox_packs(const struct recipe *recipe);
/* The device is through: what it found. Not 0: the job has failed. Token held. */
int outbox_take(sluice_model *model);
/* 1: the messages are complete but for their headers, and the residual is settled. */
int outbox_complete(const sluice_model *model);
/* CUDA failed in a push, as the calling thread was just told: the job ends, because CUDA's errors
 * stay with the process. SLUICE_EGPU. held: the token is. */
int outbox_failed(sluice_model *model, int held);
#endif
