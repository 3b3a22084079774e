/* SPDX-License-Identifier: BSD-3-Clause
 * How the payloads of all parts of a push are made from what was selected, or from everything, and
 * sealed: the launches of pack.cu, dense.cu and quantize.cu, and of the kernel seal. Called by
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

/* Each enqueues its launches. The selection, with its positions and sealed. */
int encoder_pack(const struct encoder *e, const struct encoding *what);
/* Everything, not sealed. folded: the residual is the sum already. */
int encoder_dense(const struct encoder *e, const struct encoding *what, int folded);
/* Checksums and copies of payloads, which together have at most so many words. */
int encoder_seal(const struct encoder *e, const struct encoding *what, uint64_t words);
#endif
