/* SPDX-License-Identifier: BSD-3-Clause
 * Marks inline functions that CPU code and GPU kernels share, so that a rule is written once and
 * gives the same bits on both. Plain C for every compiler but CUDA's. */
#ifndef BASE_BOTH_H
#define BASE_BOTH_H
#ifdef __CUDACC__
#define HOST_AND_DEVICE __host__ __device__
#else
#define HOST_AND_DEVICE
#endif
#endif
