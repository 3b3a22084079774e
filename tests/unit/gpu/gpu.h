/* SPDX-License-Identifier: BSD-3-Clause
 * For tests of the GPU module: the table, and memory of the device. The module is the one that
 * SLUICE_GPU names, else the one whose kernels run on the CPU. */
#ifndef TESTS_UNIT_GPU_H
#define TESTS_UNIT_GPU_H
#include "base/device_kernels.h"
#include "tests/gpu/emulation/counts.h"

/* Fails the test if there is no module or no device. */
const struct device_ops *gpu(void);
const struct device_kernels *gpu_kernels(void);
/* As device_kernels.selector_open. */
int gpu_selector(size_t n, size_t k, const struct device_span *exempt, size_t n_exempt,
		 struct device_selector **out);
/* Whether sizes should be small: kernels run on the CPU, or under a checker (GPU_TEST_SMALL). */
int gpu_slow(void);
/* Device memory with these bytes, poisoned if from is NULL; gpu_free() accepts NULL. */
void *gpu_memory(const void *from, size_t bytes);
void gpu_free(void *there);
void gpu_fetch(void *to, const void *there, size_t bytes);
/* Poisoned memory of the host, one byte more than asked for; free() it. */
enum { POISON = 0x5a };
void *memory(size_t bytes);
/* What the device was asked to do since the last call. On a GPU nobody counts: 0. */
int gpu_count(struct emulated_counts *out);
/* Whether what kernels read and write of vectors is counted, too: where their source runs. */
int gpu_counts_vectors(void);
#endif
