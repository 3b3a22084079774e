/* SPDX-License-Identifier: BSD-3-Clause
 * See place.h. Called once, when the progress thread starts. */
#include "job/place.h"
#include "base/log.h"
#include <stdio.h>
#include <string.h>

#ifdef HAVE_HWLOC
#include <hwloc.h>

/* What the device is attached to: a NUMA node, a package, or the machine. */
static hwloc_obj_t beside_device(hwloc_topology_t t, const char *device)
{
	hwloc_obj_t o = NULL;
	while ((o = hwloc_get_next_osdev(t, o)) != NULL)
		if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && !strcmp(o->name, device))
			return hwloc_get_non_io_ancestor_obj(t, o);
	return NULL;
}

static hwloc_obj_t package_of(hwloc_topology_t t, hwloc_const_bitmap_t here)
{
	hwloc_obj_t package = NULL;
	if (hwloc_bitmap_iszero(here))
		return NULL;
	while ((package = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_PACKAGE, package)) != NULL)
		if (hwloc_bitmap_isincluded(here, package->cpuset))
			return package;
	return NULL;
}

int place_choose(hwloc_topology_t t, hwloc_const_bitmap_t allowed, hwloc_const_bitmap_t here,
		 const char *device, hwloc_bitmap_t chosen, char why[PLACE_WHY_BYTES])
{
	char list[64];
	hwloc_obj_t near;
	if (!device && hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE) <= 1) {
		snprintf(why, PLACE_WHY_BYTES, "as the launcher left it: one package and no RDMA device");
		return 0;
	}
	near = device ? beside_device(t, device) : package_of(t, here);
	if (!near) {
		snprintf(why, PLACE_WHY_BYTES, "as the launcher left it: it is not known where %s is",
			 device ? device : "the calling thread");
		return 0;
	}
	hwloc_bitmap_and(chosen, allowed, near->cpuset);
	hwloc_bitmap_list_snprintf(list, sizeof list, hwloc_bitmap_iszero(chosen) ? allowed : chosen);
	if (hwloc_bitmap_iszero(chosen)) {
		snprintf(why, PLACE_WHY_BYTES, "as the launcher left it: it bound this rank to processors %s, "
			 "away from %s", list, device ? device : "the calling thread");
		return 0;
	}
	if (hwloc_bitmap_isequal(chosen, allowed)) {
		snprintf(why, PLACE_WHY_BYTES, "as the launcher left it: all processors of this rank (%s) are beside "
			 "%s", list, device ? device : "the calling thread");
		return 0;
	}
	snprintf(why, PLACE_WHY_BYTES, "on processors %s, beside %s", list,
		 device ? device : "the calling thread");
	return 1;
}

/* Only what the decision needs: packages and NUMA nodes, and devices if there is one. */
static int load(hwloc_topology_t t, const char *device)
{
	/* The kernel's files say all that is needed; these open devices, which takes time and memory. */
	static const char *const others[] = { "pci", "opencl", "cuda", "nvml", "rsmi", "levelzero", "gl" };
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, others[i]);
	hwloc_topology_set_cache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
	if (device)
		hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	return hwloc_topology_load(t);
}

void place_thread(pthread_t thread, const char *device)
{
	char why[PLACE_WHY_BYTES] = "as the launcher left it: hwloc does not say what this machine looks like";
	hwloc_topology_t t;
	hwloc_bitmap_t allowed = hwloc_bitmap_alloc(), here = hwloc_bitmap_alloc();
	hwloc_bitmap_t chosen = hwloc_bitmap_alloc();
	if (hwloc_topology_init(&t))
		t = NULL;
	if (t && allowed && here && chosen && !load(t, device) &&
	    !hwloc_get_cpubind(t, allowed, HWLOC_CPUBIND_THREAD) &&
	    !hwloc_get_last_cpu_location(t, here, HWLOC_CPUBIND_THREAD) &&
	    place_choose(t, allowed, here, device, chosen, why) &&
	    hwloc_set_thread_cpubind(t, thread, chosen, 0))
		snprintf(why, sizeof why, "as the launcher left it: the kernel refused to bind it");
	log_line(LOG_INFO, "runtime", "progress thread: %s", why);
	hwloc_bitmap_free(allowed);
	hwloc_bitmap_free(here);
	hwloc_bitmap_free(chosen);
	if (t)
		hwloc_topology_destroy(t);
}

#else

void place_thread(pthread_t thread, const char *device)
{
	(void)thread;
	if (device)
		log_line(LOG_INFO, "runtime", "progress thread: as the launcher left it: built without hwloc");
}
#endif
