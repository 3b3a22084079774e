/* SPDX-License-Identifier: BSD-3-Clause
 * On which processors the progress thread runs: beside its RDMA device, else on the package of the
 * thread that works with the model; never outside of what the launcher gave this rank. place.c
 * alone includes hwloc. */
#ifndef RUNTIME_PLACE_H
#define RUNTIME_PLACE_H
#include <pthread.h>
#include <stddef.h>

/* Binds the thread, or leaves it as it is, and logs the choice. device: "mlx5_0"; NULL: none is
 * used. Never fails: a thread somewhere else is slower, and nothing else. */
void place_thread(pthread_t thread, const char *device);

#ifdef HAVE_HWLOC
struct hwloc_topology;
struct hwloc_bitmap_s;
enum { PLACE_WHY_BYTES = 160 };
/* What the kernel's files say alone: 1 if every processor allowed is beside the device (NULL: the
 * processor here), so that there is nothing to choose and no topology to load; why says so. 0: who
 * knows. root: "", or a folder that stands for the root of the file system, for tests. */
int place_settled(const char *root, const struct hwloc_bitmap_s *allowed, int here,
		  const char *device, char why[PLACE_WHY_BYTES]);
/* The decision alone: 1 and the processors in chosen, or 0; why says which and why. allowed: of
 * this rank; here: where its thread runs now. */
int place_choose(struct hwloc_topology *topology, const struct hwloc_bitmap_s *allowed,
		 const struct hwloc_bitmap_s *here, const char *device,
		 struct hwloc_bitmap_s *chosen, char why[PLACE_WHY_BYTES]);
#endif
#endif
