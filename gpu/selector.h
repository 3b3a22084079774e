/* SPDX-License-Identifier: BSD-3-Clause
 * Selections and sparse updates: the host's part of the kernels. The operations are those of
 * base/device_kernels.h, and compressor.c builds on them. */
#ifndef GPU_SELECTOR_H
#define GPU_SELECTOR_H
#include "base/device_kernels.h"

int cuda_selector_open(const struct device_shape *shape, struct device_selector **out);
void cuda_selector_close(struct device_selector **selector);
int cuda_select(struct device_selector *s, const struct device_selection *selection, void *stream);
int cuda_selected(struct device_selector *s, uint32_t *index, float *value,
		  struct device_selected *out, void *stream);
int cuda_pack(struct device_selector *s, const struct device_pack *call, void *stream);
int cuda_packed(struct device_selector *s, struct device_packed *out, void *stream);
int cuda_quantize(struct device_selector *s, const struct device_quantize *call, void *stream);
int cuda_quantized(struct device_selector *s, float *scale, void *stream);
/* See device_ops.apply. */
int selector_apply(struct device_selector *s, const struct device_apply *call, void *stream);
/* See device_ops.change. */
int selector_change(struct device_selector *s, const struct device_change *call, void *stream);

/* Prepares a push of all coordinates: clears the state. If the gradient must be processed and not
 * only added, adds it to the residual after that, and sets *folded. */
int selector_fold(struct device_selector *s, const struct device_select *call, int *folded,
		  void *stream);

/* Returns 0 if quantize.cu can encode such values, otherwise -1. */
struct value_coding;
int quantize_refuse(const struct value_coding *c);

/* The lists of the last selection and scratch memory, both for compressor.c. All pointers are
 * device memory. */
struct topk_state;
struct selector_view {
	int device;
	unsigned multiprocessors, blocks; /* blocks: the most blocks per kernel; 0: any number */
	uint32_t n;                       /* coordinates of the vector */
	struct topk_state *selection;
	uint32_t *barrier; /* if nothing is selected: a barrier that no kernel has used since the
			      state was cleared */
	uint32_t *index;
	float *value;
	uint32_t room;   /* number of entries in the lists */
	uint32_t *marks; /* `room` words, unused after a selection */
	const struct device_span *exempt;
	uint32_t n_exempt;
	uint64_t *block_sums;
};
struct selector_view selector_view(const struct device_selector *s);
/* selector_enter() makes the selector's device current, and selector_leave() the previous one
 * (device_enter(), device_leave()). */
int selector_enter(const struct device_selector *s, int *before);
int selector_leave(const struct device_selector *s, int before, int rc);
#endif
