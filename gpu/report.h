/* SPDX-License-Identifier: BSD-3-Clause
 * How a push ends on the device (report.cu). Called by compressor.c. */
#ifndef GPU_REPORT_H
#define GPU_REPORT_H
#include "base/device.h"
#include "gpu/compressor.h"
#include "gpu/topk.h"
#include <cuda_runtime_api.h>
#include <stdint.h>

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
cudaError_t settle_enqueue(const struct settle_args *args, unsigned grid, cudaStream_t stream);
cudaError_t report_enqueue(const struct report_args *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
#endif
