/* SPDX-License-Identifier: BSD-3-Clause
 * The device state of one half of a model: of a worker for its gradients, or of a shard for its
 * change. Residual and momentum are kept on the device. One call of half_push() folds, selects,
 * encodes and settles there, which takes four calls of model/compressor.h on the host. Called by
 * worker/device*.c and shard/shard_device.c, the only files that read the members. */
#ifndef RUNTIME_DEVICE_HALF_H
#define RUNTIME_DEVICE_HALF_H
#include "base/device.h"
#include "compress/quantize.h"
#include "compress/random.h"
#include "compress/select.h"

struct device_half {
	const struct device_ops *ops; /* NULL: no device has been used yet */
	void *stream;
	struct device_compressor *compressor; /* NULL: not open */
	/* NULL: the recipe has none */
	float *host_residual, *host_velocity, *host_variance;
	struct memory residual, velocity, variance; /* on the device; the last two may be empty */
	size_t bytes;                               /* size of each of these vectors */
	uint64_t asked_ns; /* time of the last query for a failure of CUDA */
};

/* Opens the compressor on the device that has the memory `pointer`, unless the compressor is open
 * already. Adds the exempt spans and the device to the shape. what: words for the error message. */
int half_open(struct device_half *h, const void *pointer, struct device_shape shape,
	      const struct span *spans, size_t n_spans, const char *what);
/* Allocates memory on the device for a residual, and for a momentum and a variance unless they are
 * NULL. These host vectors stay the caller's. */
int half_keep(struct device_half *h, float *residual, float *velocity, float *variance,
	      uint64_t count);
/* Frees the memory that half_keep() allocated. */
void half_drop(struct device_half *h);
/* Closes the compressor, and drops the vectors. */
void half_close(struct device_half *h);

/* Enqueues copies of the host's vectors to the device. Without a residual, enqueues zeros. Returns
 * 0 or -1. */
int half_take_up(const struct device_half *h);
/* Copies the vectors to the host, and waits. Fails with SLUICE_EGPU while the stream is
 * captured. */
int half_fetch(const struct device_half *h);
/* Reserves pinned memory for a list of count entries, which the device applies in stream order. */
int half_land(const struct device_half *h, uint32_t count, uint32_t **index, float **value);
int half_copy_home(const struct device_half *h, void *to, const void *from, size_t bytes);
/* Copies count coordinates of the residual to `to`. Sets *bad to the first coordinate that is not
 * finite, or to count if all are finite. */
int half_bad(const struct device_half *h, float *to, uint64_t begin, size_t count, size_t *bad);

/* Returns the coding of a message's values, and the random numbers by which they are rounded.
 * first: coordinate 0 of the half's vector uses the random number of this coordinate. */
struct device_values half_values(const struct value_coding *values,
				 const struct random_stream *stream, uint64_t first);
/* Enqueues a push. With `waits`, also waits until the push is done, as simulated ranks do. Returns
 * 0 or -1. */
int half_push(struct device_half *h, const struct device_push *push, int waits);
/* Returns the result of device_ops.poll(). With `asks`, also queries CUDA, but at most every 10
 * ms. */
int half_poll(struct device_half *h, int asks);
/* Waits until the device has finished the last push, but not beyond until_ns. Called before freeing
 * memory to which the push may still write. */
void half_abandon(struct device_half *h, uint64_t until_ns);
#endif
