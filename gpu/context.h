/* SPDX-License-Identifier: BSD-3-Clause
 * Living beside an application that uses CUDA too. It may capture a stream into a graph while the
 * library works on the same one or another: kernels can be captured; what waits, or copies for the
 * host, cannot. And its current device may be another one than what an object lies on. Called by
 * the host's files of gpu/. */
#ifndef GPU_CONTEXT_H
#define GPU_CONTEXT_H
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

/* Makes a device the current one for a call; *before: the one that was. */
int device_enter(int device, int *before);
/* Puts that back. Returns rc, or -1 if it cannot be put back. */
int device_leave(int device, int before, int rc);
#endif
