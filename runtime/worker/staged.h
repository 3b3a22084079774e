/* SPDX-License-Identifier: BSD-3-Clause
 * Pieces of a vector in the memory of a GPU, which travel through host memory: a copy there takes
 * their place in the list. Called by parts.c for gradients, and by target.c for pulls. */
#ifndef RUNTIME_WORKER_STAGED_H
#define RUNTIME_WORKER_STAGED_H
#include "base/device.h"
#include "model/segments.h"

/* Must be zeroed before the first use. Memory is kept until staged_close(). */
struct staged {
	const struct device_ops *ops; /* NULL: all pieces are in host memory */
	struct memory copy;           /* for all coordinates; by whom: */
	const struct device_ops *owner;
	void *stream;
};

/* Whether a piece was on a device in the last staged_take(). */
int staged_any(const struct staged *st);

/* Puts host memory in the place of pieces on a device; nothing is copied yet. ENOMEM, EGPU (another
 * device's memory; the stream is captured). */
int staged_take(struct staged *st, struct segments *s, uint64_t count, void *stream,
		const char *function);
/* Copies these pieces to the host, or back. SLUICE_EGPU. */
int staged_read(const struct staged *st, const struct segments *s, const char *function);
int staged_write(const struct staged *st, const struct segments *s, const char *function);
void staged_close(struct staged *st);
#endif
