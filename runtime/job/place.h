/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses the processors on which the progress thread runs: those next to its RDMA device, or else
 * the package of the thread that works with the model. It stays on the processors that the launcher
 * gave this rank. Only place.c includes hwloc. */
#ifndef RUNTIME_PLACE_H
#define RUNTIME_PLACE_H
#include <pthread.h>
#include <stddef.h>

/* Binds the thread or leaves it as it is, and logs the decision. device is for example "mlx5_0", or
 * NULL if none is used. This never fails, because a thread that is not bound is only slower. */
void place_thread(pthread_t thread, const char *device);

#ifdef HAVE_HWLOC
struct hwloc_topology;
struct hwloc_bitmap_s;
enum { PLACE_WHY_BYTES = 160 };
/* Tries to decide from the kernel's files, without a topology. Returns 1, with an explanation in
 * why, if every allowed processor is near the device, or near the processor `here` if device is
 * NULL. Returns 0 if the files do not show that. root is "", or in tests a directory that stands
 * for the root of the file system. */
int place_settled(const char *root, const struct hwloc_bitmap_s *allowed, int here,
		  const char *device, char why[PLACE_WHY_BYTES]);
/* Decides from a topology. Returns 1 and the processors in chosen, or 0. why explains the decision.
 * allowed: the processors of this rank; here: the processor on which its thread runs. */
int place_choose(struct hwloc_topology *topology, const struct hwloc_bitmap_s *allowed,
		 const struct hwloc_bitmap_s *here, const char *device,
		 struct hwloc_bitmap_s *chosen, char why[PLACE_WHY_BYTES]);
#endif
#endif
