/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Regions: windows of memory in every rank that other ranks of the job read and write one-sidedly.
 * Models do not need them. See sluice_region_open(3); the conventions of sluice.h hold.
 */
#ifndef SLUICE_REGION_H
#define SLUICE_REGION_H

#include <sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sluice_region sluice_region;

/* Flags of a transfer. With SLUICE_NOTIFY, a put increments the count of the target's
 * sluice_region_wait() once the bytes are in place. With SLUICE_POSTED, the call returns as soon as
 * the transfer is under way. data must then be in this rank's window. Until sluice_region_flush()
 * has returned, the bytes of a put must not change, and the bytes of a get are undefined. */
enum { SLUICE_NOTIFY = 1, SLUICE_POSTED = 2 };

/* Opens a window of `bytes` bytes on every rank, which all peers may put to and get from. The
 * library owns the memory, which is zeroed and page-aligned. Collective over all ranks, with equal
 * sizes. Errors: EINVAL, ENOMEM, EDEVICE, EPEER, ETIMEDOUT. Thread class: object (job). */
SLUICE_API int sluice_region_open(sluice_job *job, size_t bytes, sluice_region **region_out);

/* Closes the window. Collective, and waits only for a limited time. Thread class: object. */
SLUICE_API void sluice_region_close(sluice_region **region);

/* Returns the address of this rank's window. Thread class: any. */
SLUICE_API void *sluice_region_base(const sluice_region *region);

/* Copy bytes into or out of a rank's window, at offset. Without SLUICE_POSTED, a put returns when
 * data may be reused, and a get when data is filled. A copy is saved if data is inside this rank's
 * window. Errors: EINVAL (outside of the window, flags), EDEVICE, EPEER, ETIMEDOUT. Thread class:
 * object. */
SLUICE_API int sluice_region_put(sluice_region *region, int rank, size_t offset, const void *data,
				 size_t bytes, int flags);
SLUICE_API int sluice_region_get(sluice_region *region, int rank, size_t offset, void *data,
				 size_t bytes, int flags);

/* Waits until all posted transfers are done: the memory of puts is reusable, and that of gets is
 * filled. Fails if one of them failed. Errors: EDEVICE, EPEER, ETIMEDOUT. Thread class: object. */
SLUICE_API int sluice_region_flush(sluice_region *region);

/* Waits until `rank` has notified this rank at least `count` times since the region was opened.
 * Errors: EINVAL (also if rank is this rank and has notified itself less often), EDEVICE, EPEER,
 * ETIMEDOUT. Thread class: object. */
SLUICE_API int sluice_region_wait(sluice_region *region, int rank, uint64_t count);

#ifdef __cplusplus
}
#endif
#endif
