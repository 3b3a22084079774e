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
	/* uses the application's stream, on the device of the last device vector */
	struct device_half half;
	atomic_int state;        /* enum on_device_state; changed with the token held */
	struct memory collected; /* collects a gradient that is pushed in ranges; empty: none was */
	int collects;            /* this step's does */
	struct memory copies[2]; /* pinned host copies of gradients; empty: none was needed */
	struct outbox *outbox;   /* device_push.c's; NULL: gradients are selected on the host */
};
/* Token held, except in the application's calls while nothing is under way. */
void on_device_become(sluice_model *model, enum on_device_state state);
/* Return 1 if the progress thread must poll the push; if the device is working. */
int on_device_goes_on(enum on_device_state state);
int on_device_at_work(enum on_device_state state);
/* Returns 1 with up=sketch, where a push sends sketches and the pull sends the requested values. */
int on_device_sketches(const sluice_model *model);
/* Enqueues copies of residual and momentum to the device, if the host's are newer. Returns 0 or -1,
 * like the operations of struct device_ops. */
int on_device_take_up(sluice_model *model);
/* Opens the device's compressor, if it is not open yet. pointer points to memory of the device. */
int on_device_open_compressor(sluice_model *model, const void *pointer);
/* Returns how this step's gradient is added to the residual, and what is selected from the sum. */
struct device_select on_device_select_of(const sluice_model *model, const void *grad);
/* Fail with SLUICE_EGPU if the stream, or the model's stream, is being captured into a graph. Each
 * launch of the graph would otherwise repeat the messages of one step. */
int on_device_check_stream(const struct device_ops *ops, void *stream, const char *function);
int on_device_ready(const sluice_model *model, const char *function);

/* ---- device_push.c ---- */
int outbox_open(sluice_model *model);
void outbox_close(sluice_model *model);
/* Returns 1 if the device packs the messages that fit. Otherwise the host encodes them from the
 * selection. */
int outbox_packs(const struct recipe *recipe);
/* Takes the results, after the device has finished. If it does not return 0, the job has failed.
 * Token held. */
int outbox_take(sluice_model *model);
/* Returns 1 if the messages are complete except for their headers, and the residual is settled. */
int outbox_complete(const sluice_model *model);
/* Ends the job after a CUDA call of this thread failed in a push, because CUDA's errors stay
 * with the process. Returns SLUICE_EGPU. held: the token is held. */
int outbox_failed(sluice_model *model, int held);
#endif
