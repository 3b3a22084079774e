/* SPDX-License-Identifier: BSD-3-Clause
 * A push on the device: the arguments of the kernels in parts.cu, and the operations of
 * base/device.h that compressor.c implements. */
#ifndef GPU_COMPRESSOR_H
#define GPU_COMPRESSOR_H
#include "gpu/checksum.h"
#include "gpu/pack.h"
#include "gpu/quantize.h"
#include "gpu/topk.h"

/* A part of the vector and the place of its message, as the host requests them in this step. */
struct push_place {
	uint32_t begin, span;
	uint32_t capacity; /* most entries of its message */
	uint8_t *payload;  /* device memory into which pack writes the payload */
	uint8_t *copy;     /* where a copy goes, as a device address of host memory; NULL: there
			      is no copy */
	uint32_t bytes;    /* length of the payload if the host knows it, otherwise 0 */
	uint32_t listed;   /* for values: the position of the part's coordinates in the list of
			      all parts */
};

/* The result for a part. */
struct push_part {
	struct pack_range range; /* range in the lists of selected coordinates */
	uint32_t crc;
	/* For a payload whose length the host knows: 1 if a value is NaN or infinite. */
	uint32_t nonfinite;
	struct pack_state packing;
	struct quantize_state quantizing;
};

/* The result of the selection, from struct topk_state. */
struct push_summary {
	uint32_t found, nan, largest, passes, nonfinite, inverted_first;
	uint32_t blocks;  /* number of finished blocks of report */
	uint32_t settled; /* 1 if the values of the messages were subtracted from the residual */
	float bad;        /* the first value that is not finite */
};

/* Words in pinned memory. When the device reaches a stage, it sets the stage's word to the number
 * of the push. */
struct push_signs {
	uint32_t selected; /* the selection is done */
	uint32_t done;     /* the results are in host memory */
};

struct split_args {
	const struct topk_state *selection;
	const uint32_t *index;
	const struct push_place *asked; /* in pinned memory; copied to place */
	struct push_place *place;
	uint32_t parts, room; /* room: number of entries in index */
	int splits;           /* 0: the parts have no list entries */
	int whole;            /* 1: the entries of a part are all its coordinates */
	struct push_summary *summary;
	struct push_part *part;
	uint32_t *selected; /* the address of push_signs.selected */
	uint32_t number;    /* the number of this push */
};

/* The arguments of packing and quantising all parts. value receives the values that the messages do
 * not carry. */
struct push_pack_args {
	const uint32_t *index;
	float *value;
	const struct push_place *place;
	struct push_part *part;
	uint32_t parts;
	struct value_coding values;
	int densest;          /* 1 allows Rice codes */
	uint64_t *block_sums; /* as in struct pack_args */
	uint8_t *widths;      /* an entry per delta block of all parts */
};

/* The arguments of sending all coordinates of all parts. The sum of gradient and residual is moved
 * from the residual to the payload. */
struct push_dense_args {
	const void *grad;
	enum value_type grad_type;
	float grad_scale; /* scale of an 8-bit gradient */
	float scale;
	int adds;       /* 0: the residual already is the sum */
	int keep;       /* 0: there is no residual memory, so the old content of residual is not
			   added */
	int judge;      /* enum device_judge; FIRST also checks if the sum was computed before */
	int sends_left; /* 1: the residual is sent even if the gradient is refused */
	float *residual;
	uint32_t n;
	const struct push_place *place;
	struct push_part *part;
	uint32_t parts;
	struct value_coding values;
	struct push_summary *summary;
	uint32_t *barrier; /* must be 0 before the launch */
};

struct push_quantize_args {
	const uint32_t *index; /* NULL: the list is the whole vector */
	float *value;
	const struct push_place *place;
	struct push_part *part;
	uint32_t parts;
	struct value_coding coding;
	const uint32_t *most; /* magnitude that a grid covers, as bits */
	struct random_stream stream;
	uint64_t first; /* coordinate i uses the random number of first + i */
};

struct seal_args {
	const struct push_place *place;
	struct push_part *part;
	uint32_t parts;
	struct checksum_powers power;
};

/* The arguments of copying the values of all parts at the listed coordinates to their payloads.
 * Coordinates count from the part's begin. */
struct push_gather_args {
	const float *vector;
	const uint32_t *index; /* pinned memory, in the order of the parts */
	const struct push_place *place;
	uint32_t parts;
};

/* The arguments of the update after a message, which sets residual[index[i]] = value[i]. Unless the
 * coordinate is exempt or was not sent, it also sets velocity[index[i]] = 0. */
struct settle_args {
	float *residual, *velocity; /* velocity may be NULL */
	const uint32_t *index;      /* ascending */
	const float *value;
	const uint32_t *unsent; /* NULL if everything was sent */
	const struct device_span *exempt;
	uint32_t n_exempt, count;
};

struct report_args {
	/* The update of residual and velocity, which is applied if all parts are packed and the
	 * residual is not NULL. Its count is not exact, but an upper bound: the capacity of the
	 * lists. */
	struct settle_args settle;
	int settled; /* 1 if the residual was already updated with the payloads */
	struct push_summary *summary;
	const struct push_part *part;
	uint32_t parts;
	/* A gradient whose first non-finite value is reported; NULL: none is. */
	const void *grad;
	enum value_type grad_type;
	float grad_scale;             /* scale of an 8-bit gradient */
	struct topk_state *selection; /* cleared after its content is copied to summary */
	const uint32_t *from;         /* the results, counted in words */
	uint32_t *to;                 /* where the host reads them */
	uint32_t words;
	uint32_t *done; /* set to `number`, the number of this push, after all other writes */
	uint32_t number;
};

#ifdef __cplusplus
extern "C" {
#endif
/* Loads these kernels, on the current device. */
cudaError_t parts_load(void);
cudaError_t pack_push_residents(int *blocks_each);
cudaError_t pack_push_enqueue(const struct push_pack_args *args, unsigned grid,
			      cudaStream_t stream);
cudaError_t dense_push_residents(int *blocks_each);
cudaError_t dense_push_enqueue(const struct push_dense_args *args, unsigned grid,
			       cudaStream_t stream);
cudaError_t quantize_push_residents(int *blocks_each);
cudaError_t quantize_push_enqueue(const struct push_quantize_args *args, unsigned grid,
				  cudaStream_t stream);
cudaError_t split_enqueue(const struct split_args *args, cudaStream_t stream);
cudaError_t gather_push_enqueue(const struct push_gather_args *args, unsigned grid,
				cudaStream_t stream);
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
int cuda_land(struct device_compressor *c, uint32_t count, uint32_t **index, float **value,
	      void *stream);
int cuda_lands(struct device_compressor *c, uint32_t count, void *stream);
int cuda_apply(struct device_compressor *c, const struct device_apply *call, void *stream);
int cuda_change(struct device_compressor *c, const struct device_change *call, void *stream);
#endif
