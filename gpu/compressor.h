/* SPDX-License-Identifier: BSD-3-Clause
 * A push on the device: what the kernels of parts.cu are given, and the host's part,
 * compressor.c, whose operations are as in base/device.h. */
#ifndef GPU_COMPRESSOR_H
#define GPU_COMPRESSOR_H
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

/* Of the selection, as struct topk_state; and how it ended. */
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

/* After a message: residual[index[i]] = value[i], and what is not exempt begins anew,
 * velocity[index[i]] = 0, but for what was not sent. */
struct settle_args {
	float *residual, *velocity; /* velocity NULL: none */
	const uint32_t *index;      /* ascending */
	const float *value;
	const uint32_t *unsent; /* NULL: all was sent */
	const struct device_span *exempt;
	uint32_t n_exempt, count;
};

struct report_args {
	/* If all parts are packed; residual NULL: nothing is. count: the most, what the lists have
	 * room for. */
	struct settle_args settle;
	struct push_summary *summary;
	const struct push_part *part;
	uint32_t parts;
	/* of which the first value that is not finite is reported; NULL: none is */
	const void *grad;
	int narrow;                   /* its values have 16 bits */
	struct topk_state *selection; /* is cleared: what it says is in summary */
	const uint32_t *from;         /* the results, in so many words, */
	uint32_t *to;                 /* and where the host reads them, */
	uint32_t words;
	uint32_t *done, turn; /* once *done is turn */
};

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t split_enqueue(const struct split_args *args, cudaStream_t stream);
cudaError_t seal_enqueue(const struct seal_args *args, unsigned grid, cudaStream_t stream);
cudaError_t settle_enqueue(const struct settle_args *args, unsigned grid, cudaStream_t stream);
cudaError_t report_enqueue(const struct report_args *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif

int cuda_open(const struct device_shape *shape, struct device_compressor **out);
void cuda_close(struct device_compressor **compressor);
int cuda_push(struct device_compressor *c, const struct device_push *push, void *stream);
int cuda_poll(struct device_compressor *c, int asks, void *stream);
void cuda_stage(const struct device_compressor *c, char *text, size_t cap);
int cuda_pushed(struct device_compressor *c, struct device_selected *out, struct device_sent *sent,
		void *stream);
int cuda_fetch(struct device_compressor *c, uint32_t first, uint32_t count, uint32_t *index,
	       float *value, void *stream);
int cuda_settle(struct device_compressor *c, float *residual, float *velocity,
		const struct device_sent *sent, const float *rest, const uint32_t *unsent,
		void *stream);
int cuda_apply(struct device_compressor *c, float *vector, const uint32_t *index,
	       const float *value, uint32_t count, int assign, void *stream);
#endif
