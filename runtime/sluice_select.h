/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The selection of a recipe's topk as a function that needs no job. See sluice_select(3); the
 * conventions of sluice.h hold.
 */
#ifndef SLUICE_SELECT_H
#define SLUICE_SELECT_H

#include <sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch memory and threads for selections from vectors of one length. A selector also remembers
 * the smallest magnitude of its last selection. This makes the next selection faster but does not
 * change results. */
typedef struct sluice_selector sluice_selector;

typedef struct sluice_selector_attr {
	size_t size; /* sizeof(sluice_selector_attr) */
	size_t n;    /* number of elements of the vectors, below 2^32 */
	size_t k;    /* the largest k of a call */
	int threads; /* number of threads that work on a call, including the caller's; 0 means 1 */
	int forget;  /* 1: ignore the results of earlier calls; for measurements */
} sluice_selector_attr;

/* Opens a selector. Errors: EINVAL, ENOMEM, ENOSUPP (the processor lacks the kernels that
 * SLUICE_KERNELS names). Thread class: any. */
SLUICE_API int sluice_selector_open(const sluice_selector_attr *attr,
				    sluice_selector **selector_out);

/* Thread class: object. */
SLUICE_API void sluice_selector_close(sluice_selector **selector);

/* Selects the k coordinates of x[0..n) that are largest in magnitude. Among equal magnitudes it
 * selects the lowest indices, and it never selects zeros. index[0..*selected) ascends, and value[i]
 * is the coordinate at index[i], unless value is NULL. *selected is at most k. With a residual, x
 * is first added to residual[0..n), the selection is made from the sum, and the selected
 * coordinates of residual become 0; value must then not be NULL. Allocates nothing. Errors: EINVAL,
 * also for NaN. After NaN, index and value are undefined, and residual is the sum, of which nothing
 * was cleared. Thread class: object. */
SLUICE_API int sluice_select(sluice_selector *selector, const float *x, float *residual, size_t k,
			     uint32_t *index, float *value, size_t *selected);

#ifdef __cplusplus
}
#endif
#endif
