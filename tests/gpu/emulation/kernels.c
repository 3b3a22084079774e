/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of gpu/, compiled as C. */
#include "gpu/topk.cu"
#include "gpu/pack.cu"
#include "gpu/parts.cu"
#include "gpu/apply.cu"
#include "gpu/change.cu"
#include "gpu/gaussian.cu"
#include "gpu/draw.cu"
#include "gpu/block_topk.cu"
#include "gpu/fold.cu"
#include "gpu/sketch.cu"
#include "gpu/quantize.cu"
#include "gpu/dense.cu"
