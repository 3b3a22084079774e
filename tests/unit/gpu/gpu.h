/* SPDX-License-Identifier: BSD-3-Clause
 * For tests of the GPU module: the table, and memory of the device. The module is the one that
 * SLUICE_GPU names, else the one whose kernels run on the CPU. */
#ifndef TESTS_UNIT_GPU_H
#define TESTS_UNIT_GPU_H
#include "base/device_kernels.h"
#include "compress/quantize.h"
#include "random.h"
#include "tests/gpu/emulation/counts.h"

/* Fail the test if there is no module or no device. */
const struct device_ops *gpu(void);
const struct device_kernels *gpu_kernels(void);
/* As device_kernels.selector_open. */
int gpu_selector(size_t n, size_t k, const struct device_span *exempt, size_t n_exempt,
		 struct device_selector **out);
/* Returns 1 if sizes should be small because kernels run on the CPU, or under a checker
 * (GPU_TEST_SMALL). */
int gpu_slow(void);
/* Returns device memory with these bytes, or with poison if from is NULL. gpu_free() accepts
 * NULL. */
void *gpu_memory(const void *from, size_t bytes);
void gpu_free(void *there);
void gpu_fetch(void *to, const void *there, size_t bytes);
/* Returns poisoned host memory, one byte more than requested. The caller frees it with free(). */
enum { POISON = 0x5a };
void *memory(size_t bytes);
/* Value codings of every type. */
enum { GPU_CODINGS = 10 };
extern const struct value_coding gpu_codings[GPU_CODINGS];
/* Returns a random value. Some kinds have denormals, huge values, and zeros of both signs. */
float gpu_value(int kind, struct random *r);
/* Returns the counts of device calls since the last call. On a real GPU nothing is counted, and the
 * result is 0. */
int gpu_count(struct emulated_counts *out);
/* Returns 1 if accesses of kernels to vectors are also counted, which is the case when their source
 * runs on the CPU. */
int gpu_counts_vectors(void);
#endif
