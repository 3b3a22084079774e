/* SPDX-License-Identifier: BSD-3-Clause
 * Makes and seals the payloads of all parts of a push, from the selection or from all
 * coordinates. Launches pack.cu, dense.cu, quantize.cu and the kernel seal. Called by
 * compressor.c. */
#ifndef GPU_ENCODER_H
#define GPU_ENCODER_H
#include "gpu/compressor.h"
#include "gpu/selector.h"

struct encoder;

/* A push whose parts are already on the device. place, part and summary are device memory. */
struct encoding {
	struct selector_view of;
	const struct device_push *push;
	const struct push_place *place;
	struct push_part *part;
	uint32_t parts;
	struct push_summary *summary;
	void *stream;
};

/* Loads the kernels. widths: encoder_widths() bytes of device memory, owned by the caller. */
int encoder_open(uint8_t *widths, struct encoder **out);
void encoder_close(struct encoder **encoder);
/* room: number of entries in the lists of a selection. */
size_t encoder_widths(uint32_t room, size_t parts);

/* encoder_pack(), encoder_dense() and encoder_seal() enqueue kernels. encoder_pack() packs the
 * selected coordinates with their positions, and seals the payloads. */
int encoder_pack(const struct encoder *e, const struct encoding *what);
/* Encodes all coordinates, without sealing the payloads. folded: 1 if the gradient was already
 * added to the residual. */
int encoder_dense(const struct encoder *e, const struct encoding *what, int folded);
/* Computes the checksums of the payloads, and copies the payloads to host memory if requested.
 * words: at least the total length of all payloads. */
int encoder_seal(const struct encoder *e, const struct encoding *what, uint64_t words);
#endif
