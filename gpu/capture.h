/* SPDX-License-Identifier: BSD-3-Clause
 * Living beside CUDA graphs: an application may capture a stream while the library works on the
 * same one or another. Kernels can be captured; what waits, or copies for the host, cannot. Called
 * by the files of gpu/ that do. */
#ifndef GPU_CAPTURE_H
#define GPU_CAPTURE_H
#include <cuda_runtime_api.h>

/* 0: work in which the host takes part may be put on the stream now. -1: it is being captured, or
 * is the default one beside a captured one; asking spoils no capture. */
int cuda_ready(void *stream);

/* Around allocations and their like, in pairs: in CUDA's default mode one of them would spoil a
 * capture of any other stream. What is allocated is no part of a graph, so this thread may say that
 * it knows what it does. */
void capture_allow(enum cudaStreamCaptureMode *before);
void capture_restore(enum cudaStreamCaptureMode before);

/* A stream that no other waits for: the default one is of no use while another is captured. Waited
 * for and ended. */
int capture_stream_open(cudaStream_t *out);
int capture_stream_close(cudaStream_t stream, int rc, const char *what);
#endif
