/* SPDX-License-Identifier: BSD-3-Clause
 * Coexistence with an application that also uses CUDA. The application may capture a stream into a
 * graph while the library works on another one: the library refuses to work on a stream that is
 * being captured, and never invalidates a capture. The application's current device may also differ
 * from the device of an object. Called by the host code of gpu/. */
#ifndef GPU_CONTEXT_H
#define GPU_CONTEXT_H
#include <cuda_runtime_api.h>

/* Returns 0 if work that involves the host may be enqueued on the stream now. Returns -1 if the
 * stream is being captured, or if it is the default stream while another stream is being captured.
 * The query itself does not invalidate a capture. */
int cuda_ready(void *stream);

/* capture_allow() is called before allocations and similar calls, and capture_restore() after them.
 * In CUDA's default mode, such a call would invalidate captures on all other streams. This thread
 * may make such calls, because its allocations are not part of a graph. */
void capture_allow(enum cudaStreamCaptureMode *before);
void capture_restore(enum cudaStreamCaptureMode before);

/* Opens a stream that is independent of the default stream, which cannot be used while another
 * stream is being captured. capture_stream_close() waits for the stream. */
int capture_stream_open(cudaStream_t *out);
int capture_stream_close(cudaStream_t stream, int rc, const char *what);

/* Makes a device current for a call. *before receives the device that was current. */
int device_enter(int device, int *before);
/* Makes the previous device current again. Returns rc, or -1 if that fails. */
int device_leave(int device, int before, int rc);
#endif
