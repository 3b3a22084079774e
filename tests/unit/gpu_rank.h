/* SPDX-License-Identifier: BSD-3-Clause
 * The module of GPUs in a rank of ranks.h, and vectors in its memory; which module it is, gpu.h
 * says. A rank's functions end it where something does not hold. */
#ifndef TESTS_GPU_RANK_H
#define TESTS_GPU_RANK_H
#include "base/device.h"
#include <stddef.h>

const struct device_ops *device(void);
/* n floats there, as they are here. */
float *device_floats(const struct device_ops *ops, struct memory *m, const float *from, size_t n);
/* Sets *function to the module's function of this name, which its table need not hold. */
void device_look_up(const char *name, void *function);
/* In the parent: whether kernels will run on a real device, where nothing can be made to fail or to
 * lag. */
int device_is_real(void);
#endif
