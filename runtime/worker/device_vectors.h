/* SPDX-License-Identifier: BSD-3-Clause
 * The accelerator's side of a worker half, and the state of a push there; see device_vectors.c. */
#ifndef RUNTIME_WORKER_DEVICE_VECTORS_H
#define RUNTIME_WORKER_DEVICE_VECTORS_H
#include "base/device.h"
#include "model/compressor.h"
#include "model/device_half.h"
#include "model/layout.h"
#include "sluice.h"
#include <stdatomic.h>

struct compressor_ops;
struct worker;

/* Where gradients are selected, and the state of the current push. */
enum on_device_state {
	DEVICE_AWAY, /* gradients are selected on the host */
	/* on the device, but residual and momentum in host memory were restored and are newer */
	DEVICE_STALE,
	DEVICE_IDLE,     /* on the device; there is no push under way */
	DEVICE_ENQUEUED, /* the device has not finished the push */
	DEVICE_LISTED,   /* the device has finished; the host must encode some messages or handle
			    an error */
	DEVICE_STAGED,   /* all messages are made, but some are not posted */
	DEVICE_ASKED     /* in a pull: the device gathers the values that shards requested */
};

/* The device's part of a worker. Only the device files access its members. */
struct on_device {
	/* uses the application's stream, on the device of the last device vector */
	struct device_half half;
	atomic_int state; /* enum on_device_state; changed with the token held */
	/* The rows of operations of the host and of the device. */
	const struct compressor_ops *host_ops, *device_ops;
	struct memory collected; /* a gradient that is pushed in ranges; empty before the first
				    such gradient */
	int collects;            /* 1: this step's gradient is collected */
	struct memory copies[2]; /* pinned host copies of gradients; empty before the first copy */
	struct outbox *outbox;   /* NULL: gradients are selected on the host */
};
/* Sets the state. The token must be held, except in a call of the application when no push is under
 * way. */
void on_device_become(struct worker *w, enum on_device_state state);
/* on_device_goes_on() returns 1 if the progress thread must poll the push. on_device_at_work()
 * returns 1 if the device is working. */
int on_device_goes_on(enum on_device_state state);
int on_device_at_work(enum on_device_state state);
/* Returns 1 with up=sketch, where a push sends sketches and the pull sends the requested values. */
int on_device_sketches(const struct recipe *recipe);
/* Enqueues copies of residual and momentum to the device if the host's are newer. Returns 0 or -1,
 * like the operations of struct device_ops. */
int on_device_take_up(struct worker *w);
/* Opens the device's compressor, if it is not open yet. pointer points to memory of the device. */
int on_device_open_compressor(struct worker *w, const void *pointer);
/* Returns how this step's gradient is added to the residual, and which coordinates of the sum are
 * selected. */
struct device_select on_device_select_of(const struct worker *w, const void *grad);
/* Both fail with SLUICE_EGPU if the stream is being captured into a graph, because each launch of
 * the graph would repeat the messages of one step. on_device_ready() checks the model's stream. */
int on_device_check_stream(const struct device_ops *ops, void *stream, const char *function);
int on_device_ready(const struct on_device *d, const char *function);

enum on_device_state on_device_state(const struct on_device *d);
/* Returns 1 if gradients are selected on the device. */
int on_device_selects(const struct worker *w);
/* Called when residual and momentum in host memory have become newer than the device's. */
void on_device_renewed(struct worker *w);

/* ---- residual and momentum ---- */
/* Copies residual and momentum to the host, if they are on the device. */
int on_device_fetch(struct worker *w);

/* ---- pulls ---- */
/* For the pull of a vector on a device: returns the device's operations and its opened compressor.
 * From then on *ops stays set, because it is needed to release the memory of earlier pulls. */
int on_device_use(struct worker *w, const void *pointer, const struct device_ops **ops,
		  struct device_compressor **compressor);
/* Returns 1 if the device reads published coordinates (up=sketch). */
int on_device_lands(const struct worker *w);
/* For up=sketch: clears the residual at the published coordinates. index is relative to the shard
 * and in the memory of half_land(). index NULL: all coordinates whose received values are not
 * zero. */
int on_device_clear(struct worker *w, const struct shard_layout *at, const uint32_t *index,
		    const struct entries *got, uint32_t n);
#endif
