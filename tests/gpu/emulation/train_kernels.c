/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of sluice-train, compiled as C. */
#include "tools/train/cuda_layers.cu"
