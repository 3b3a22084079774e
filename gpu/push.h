/* SPDX-License-Identifier: BSD-3-Clause
 * A push on the device (base/device.h): what parts.cu's kernels are given, and the host's part,
 * push.c, of which push_sketch.c makes the pushes whose lengths the host knows. */
#ifndef GPU_PUSH_H
#define GPU_PUSH_H
#include "gpu/checksum.h"
#include "gpu/pack.h"
#include "gpu/quantize.h"
#include "gpu/topk.h"

/* A part of the vector and where its message goes, as the host asks for it in this step. */
struct push_place {
	uint32_t begin, span;
	const uint8_t *payload; /* device memory, where pack wrote it */
	uint8_t *copy;  /* host memory as the device reaches it; NULL: it stays where it is */
	uint32_t bytes; /* of the payload, where the host knows them; else 0 */
};

/* What became of it. */
struct push_part {
	struct pack_range range; /* of the selection's lists */
	uint32_t crc;
	uint32_t nonfinite; /* of a payload whose length the host knows: some value in it is NaN or
			       infinite */
	struct pack_state packing;
	struct quantize_state quantizing;
};

/* Of the selection, as struct topk_state; and how it ended (report.cu). */
struct push_summary {
	uint32_t found, nan, largest, passes, nonfinite, inverted_first;
	uint32_t blocks;  /* of report that are through */
	uint32_t settled; /* what messages hold has left the residual */
	uint32_t bad;     /* the first value that is not finite */
};

/* Pinned words that the device writes as a push goes on: the number of the push. */
struct push_signs {
	uint32_t selected; /* its selection is over */
	uint32_t done;     /* its results are here */
};

struct split_args {
	const struct topk_state *selection;
	const uint32_t *index;
	const struct push_place *place;
	uint32_t parts, room; /* room: of index */
	struct push_summary *summary;
	struct push_part *part;
	uint32_t *selected, turn; /* push_signs.selected */
};

struct seal_args {
	const struct push_place *place;
	struct push_part *part;
	uint32_t parts;
	uint32_t power[CHECKSUM_POWERS];
};

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t split_enqueue(const struct split_args *args, cudaStream_t stream);
cudaError_t seal_enqueue(const struct seal_args *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif

int cuda_push_open(struct device_selector *s, size_t parts, struct device_push **out);
void cuda_push_close(struct device_push **push);
int cuda_push(struct device_push *push, const struct device_select *call,
	      const struct device_part *parts, const struct device_values *values, void *stream);
int cuda_push_sketches(struct device_push *push, struct device_sketch *sketch,
		       const struct device_select *call, const struct device_part *parts,
		       uint32_t rows, void *stream);
int cuda_push_values(struct device_push *push, const float *vector, const struct device_part *parts,
		     void *stream);
int cuda_push_done(const struct device_push *push);
int cuda_push_lost(struct device_push *push, void *stream);
void cuda_push_stage(const struct device_push *push, char *text, size_t cap);
int cuda_pushed(struct device_push *push, struct device_selected *out, struct device_sent *sent,
		void *stream);
int cuda_push_fetch(struct device_push *push, uint32_t first, uint32_t count, uint32_t *index,
		    float *value, void *stream);
int cuda_push_leave(struct device_push *push, uint32_t first, uint32_t count, const float *rest,
		    const uint32_t *unsent, void *stream);
int cuda_push_settle(struct device_push *push, float *residual, float *velocity, void *stream);

/* ---- of push.c, for push_sketch.c ---- */
struct device_selector *push_selector(const struct device_push *push);
size_t push_parts(const struct device_push *push);
/* A push begins. known: parts' bytes are. */
void push_clear(struct device_push *push, int known);
/* Places and zeroed results to the device. */
int push_places(struct device_push *push, const struct device_part *parts, void *stream);
/* The selection, and what it came to. split: each part's share of it, too. */
int push_select(struct device_push *push, const struct device_select *call, int split,
		void *stream);
/* Checksums and copies of all payloads, of words at most; and the way back. call NULL: nothing was
 * selected. */
int push_seal(struct device_push *push, uint64_t words, void *stream);
int push_report(struct device_push *push, const struct device_select *call, void *stream);
#endif
