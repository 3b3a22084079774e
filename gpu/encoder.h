/* SPDX-License-Identifier: BSD-3-Clause
 * Makes and seals the payloads of all parts of a push, from the selection or from all
 * coordinates. Launches pack.cu, dense.cu, quantize.cu and the kernel seal. Called by
 * compressor.c. */
#ifndef GPU_ENCODER_H
#define GPU_ENCODER_H
#include "gpu/compressor.h"
#include "gpu/selector.h"

struct encoder;

/* A push whose parts are known on the device. place, part and summary are memory there. */
struct encoding {
	struct selector_view of;
	const struct device_push *push;
	const struct push_place *place;
	struct push_part *part;
	uint32_t parts;
	struct push_summary *summary;
	void *stream;
};

/* Loads the kernels. widths: device memory with encoder_widths() bytes, which remains the
 * caller's. */
int encoder_open(uint8_t *widths, struct encoder **out);
void encoder_close(struct encoder **encoder);
/* room: entries of the lists of a selection. */
size_t encoder_widths(uint32_t room, size_t parts);

/* This and the next two enqueue launches. encoder_pack() packs the selection with its positions,
 * and seals the payloads. */
int encoder_pack(const struct encoder *e, const struct encoding *what);
/* Encodes all coordinates, without sealing. folded: the residual is already the sum. */
int encoder_dense(const struct encoder *e, const struct encoding *what, int folded);
/* Computes the checksums of the payloads, and copies them to where the host wants them. words:
 * at least the total length of all payloads. */
int encoder_seal(const struct encoder *e, const struct encoding *what, uint64_t words);
#endif
