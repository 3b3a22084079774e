/* SPDX-License-Identifier: BSD-3-Clause
 * See place.h. Called once, when the progress thread starts. */
#include "job/place.h"
#include "base/log.h"
#include <stdio.h>
#include <string.h>

#ifdef HAVE_HWLOC
#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <hwloc/linux.h>
#include <sched.h>

/* Returns the object to which the device is attached: a NUMA node, a package, or the machine. */
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

static void explain_settled(const char *processors, const char *device, char why[PLACE_WHY_BYTES])
{
	snprintf(why, PLACE_WHY_BYTES, "not moved: all processors of this rank (%s) are near %s",
		 processors, device ? device : "the calling thread");
}

/* Reads the processors near the device. Without a device, reads those in the package of processor
 * `here`. Before Linux 5.3, the file for the package has another name. */
static int read_near(const char *root, int here, const char *device, hwloc_bitmap_t near)
{
	static const char *const package[] = { "package_cpus", "core_siblings" };
	char path[512];
	int rc = -1;
	if (device) {
		snprintf(path, sizeof path, "%s/sys/class/infiniband/%s/device/local_cpus", root,
			 device);
		return hwloc_linux_read_path_as_cpumask(path, near);
	}
	for (int i = 0; i < 2 && rc; i++) {
		snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/%s", root,
			 here, package[i]);
		rc = hwloc_linux_read_path_as_cpumask(path, near);
	}
	return rc;
}

int place_settled(const char *root, hwloc_const_bitmap_t allowed, int here, const char *device,
		  char why[PLACE_WHY_BYTES])
{
	hwloc_bitmap_t near = hwloc_bitmap_alloc();
	char list[64];
	int settled = hwloc_bitmap_weight(allowed) == 1 ||
		      (near && !read_near(root, here, device, near) &&
		       hwloc_bitmap_isincluded(allowed, near));
	hwloc_bitmap_free(near);
	hwloc_bitmap_list_snprintf(list, sizeof list, allowed);
	if (settled && hwloc_bitmap_weight(allowed) == 1)
		snprintf(why, PLACE_WHY_BYTES, "not moved: this rank has one processor (%s)", list);
	else if (settled)
		explain_settled(list, device, why);
	return settled;
}

int place_choose(hwloc_topology_t t, hwloc_const_bitmap_t allowed, hwloc_const_bitmap_t here,
		 const char *device, hwloc_bitmap_t chosen, char why[PLACE_WHY_BYTES])
{
	char list[64];
	hwloc_obj_t near;
	if (!device && hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE) <= 1) {
		snprintf(why, PLACE_WHY_BYTES,
			 "not moved: there is one processor package and no RDMA device");
		return 0;
	}
	near = device ? beside_device(t, device) : package_of(t, here);
	if (!near) {
		snprintf(why, PLACE_WHY_BYTES, "not moved: the position of %s is unknown",
			 device ? device : "the calling thread");
		return 0;
	}
	hwloc_bitmap_and(chosen, allowed, near->cpuset);
	hwloc_bitmap_list_snprintf(list, sizeof list,
				   hwloc_bitmap_iszero(chosen) ? allowed : chosen);
	if (hwloc_bitmap_iszero(chosen)) {
		snprintf(why, PLACE_WHY_BYTES,
			 "not moved: the launcher bound this rank to processors %s, which are not "
			 "near %s",
			 list, device ? device : "the calling thread");
		return 0;
	}
	if (hwloc_bitmap_isequal(chosen, allowed)) {
		explain_settled(list, device, why);
		return 0;
	}
	snprintf(why, PLACE_WHY_BYTES, "on processors %s, near %s", list,
		 device ? device : "the calling thread");
	return 1;
}

/* Loads only the objects that the decision needs: packages, NUMA nodes, and devices if one is
 * used. */
static int load_topology(hwloc_topology_t t, const char *device)
{
	/* The decision needs only the kernel's files. These components would open devices, which
	 * takes time and memory. */
	static const char *const others[] = { "pci",  "opencl",    "cuda", "nvml",
					      "rsmi", "levelzero", "gl" };
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
					      others[i]);
	hwloc_topology_set_cache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
	if (device)
		hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	return hwloc_topology_load(t);
}

static int is_settled(const char *device, char why[PLACE_WHY_BYTES])
{
	hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
	cpu_set_t own;
	int here = sched_getcpu();
	int settled = allowed && here >= 0 && !sched_getaffinity(0, sizeof own, &own) &&
		      !hwloc_cpuset_from_glibc_sched_affinity(NULL, allowed, &own, sizeof own) &&
		      place_settled("", allowed, here, device, why);
	hwloc_bitmap_free(allowed);
	return settled;
}

/* Loading a topology takes milliseconds, or a tenth of a second on large nodes, and all ranks of a
 * node would do it at the same time. */
static void place_by_topology(pthread_t thread, const char *device, char why[PLACE_WHY_BYTES])
{
	hwloc_topology_t t;
	hwloc_bitmap_t allowed = hwloc_bitmap_alloc(), here = hwloc_bitmap_alloc();
	hwloc_bitmap_t chosen = hwloc_bitmap_alloc();
	if (hwloc_topology_init(&t))
		t = NULL;
	if (t && allowed && here && chosen && !load_topology(t, device) &&
	    !hwloc_get_cpubind(t, allowed, HWLOC_CPUBIND_THREAD) &&
	    !hwloc_get_last_cpu_location(t, here, HWLOC_CPUBIND_THREAD) &&
	    place_choose(t, allowed, here, device, chosen, why) &&
	    hwloc_set_thread_cpubind(t, thread, chosen, 0))
		snprintf(why, PLACE_WHY_BYTES, "not moved: the kernel refused to bind it");
	hwloc_bitmap_free(allowed);
	hwloc_bitmap_free(here);
	hwloc_bitmap_free(chosen);
	if (t)
		hwloc_topology_destroy(t);
}

void place_thread(pthread_t thread, const char *device)
{
	char why[PLACE_WHY_BYTES] = "not moved: hwloc cannot read the topology of this machine";
	if (!is_settled(device, why))
		place_by_topology(thread, device, why);
	log_line(LOG_INFO, "runtime", "progress thread: %s", why);
}

#else

void place_thread(pthread_t thread, const char *device)
{
	(void)thread;
	if (device)
		log_line(LOG_INFO, "runtime", "progress thread: not moved: built without hwloc");
}
#endif
