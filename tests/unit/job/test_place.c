/* SPDX-License-Identifier: BSD-3-Clause
 * The processor of the progress thread, on simulated machines: one and two packages, with and
 * without a network card, and ranks that the launcher bound to all, some or one of their
 * processors. */
#include "job/place.h"
#include "scratch.h"
#include "cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_HWLOC
#include <hwloc.h>

static hwloc_topology_t synthetic(const char *text)
{
	hwloc_topology_t t;
	assert_int_equal(hwloc_topology_init(&t), 0);
	assert_int_equal(hwloc_topology_set_synthetic(t, text), 0);
	assert_int_equal(hwloc_topology_load(t), 0);
	return t;
}

/* Adds a card below the last package to the topology: processors 8 to 15 of two packages. */
static hwloc_topology_t with_card(const char *text)
{
	static const char card[] =
		"<object type=\"Bridge\" gp_index=\"900\" bridge_type=\"0-1\" depth=\"0\" "
		"bridge_pci=\"0000:[80-81]\"><object type=\"PCIDev\" gp_index=\"901\" "
		"pci_busid=\"0000:81:00.0\" pci_type=\"0207 [15b3:1017] [15b3:0007] 00\" "
		"pci_link_speed=\"15.753846\"><object type=\"OSDev\" gp_index=\"902\" "
		"name=\"mlx5_0\" osdev_type=\"3\"/></object></object>";
	hwloc_topology_t plain = synthetic(text), t;
	char *xml, *last = NULL;
	int bytes;
	assert_int_equal(hwloc_topology_export_xmlbuffer(plain, &xml, &bytes, 0), 0);
	for (char *at = xml; (at = strstr(at, "</object>")) != NULL; at++)
		if (strncmp(at + 9, "\n  </object>", 12) == 0)
			last = at; /* the end of the last package */
	assert_non_null(last);
	char *whole = malloc((size_t)bytes + sizeof card);
	sprintf(whole, "%.*s%s%s", (int)(last - xml), xml, card, last);
	assert_int_equal(hwloc_topology_init(&t), 0);
	hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_ALL);
	assert_int_equal(hwloc_topology_set_xmlbuffer(t, whole, (int)strlen(whole) + 1), 0);
	assert_int_equal(hwloc_topology_load(t), 0);
	free(whole);
	hwloc_free_xmlbuffer(plain, xml);
	hwloc_topology_destroy(plain);
	return t;
}

/* Expects these processors; "": the thread stays as it is. */
static void expect(hwloc_topology_t t, const char *allowed, int here, const char *device,
		   const char *wanted, const char *says)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc(), at = hwloc_bitmap_alloc(),
		       chosen = hwloc_bitmap_alloc();
	char why[PLACE_WHY_BYTES], list[64] = "";
	hwloc_bitmap_list_sscanf(set, allowed);
	hwloc_bitmap_only(at, (unsigned)here);
	if (place_choose(t, set, at, device, chosen, why))
		hwloc_bitmap_list_snprintf(list, sizeof list, chosen);
	assert_string_equal(list, wanted);
	if (!strstr(why, says))
		fail_msg("\"%s\" does not say \"%s\"", why, says);
	hwloc_bitmap_free(set);
	hwloc_bitmap_free(at);
	hwloc_bitmap_free(chosen);
}

TEST(place__one_package_and_no_card__left_as_it_is)
{
	hwloc_topology_t t = synthetic("pack:1 numa:1 core:4 pu:2");
	expect(t, "0-7", 3, NULL, "", "one processor package and no RDMA device");
	hwloc_topology_destroy(t);
}

TEST(place__two_packages_and_no_card__the_callers_within_its_binding)
{
	hwloc_topology_t t = synthetic("pack:2 numa:1 core:4 pu:2");
	expect(t, "0-15", 3, NULL, "0-7", "on processors 0-7, near the calling thread");
	expect(t, "0-15", 9, NULL, "8-15", "near the calling thread");
	expect(t, "6-9", 8, NULL, "8-9", "near the calling thread");
	expect(t, "8-15", 9, NULL, "", "all processors of this rank (8-15)");
	expect(t, "5", 5, NULL, "", "all processors of this rank (5)");
	hwloc_topology_destroy(t);
}

TEST(place__card__beside_it_wherever_the_caller_runs)
{
	hwloc_topology_t t = with_card("pack:2 numa:1 core:4 pu:2");
	expect(t, "0-15", 3, "mlx5_0", "8-15", "on processors 8-15, near mlx5_0");
	expect(t, "4-11", 4, "mlx5_0", "8-11", "near mlx5_0");
	expect(t, "10-11", 10, "mlx5_0", "", "all processors of this rank (10-11) are near mlx5_0");
	hwloc_topology_destroy(t);
}

TEST(place__bound_away_from_the_card_or_card_unknown__left_as_it_is)
{
	hwloc_topology_t t = with_card("pack:2 numa:1 core:4 pu:2");
	expect(t, "0-7", 3, "mlx5_0", "",
	       "bound this rank to processors 0-7, which are not near mlx5_0");
	expect(t, "0-15", 3, "rxe0", "", "the position of rxe0 is unknown");
	hwloc_topology_destroy(t);
}

TEST(place__card_of_the_only_package__left_as_it_is)
{
	hwloc_topology_t t = with_card("pack:1 numa:1 core:4 pu:2");
	expect(t, "0-7", 3, "mlx5_0", "", "all processors of this rank (0-7) are near mlx5_0");
	hwloc_topology_destroy(t);
}

/* Writes a file of the kernel and its directories below root. */
static void write_mask(const char *root, const char *path, const char *mask)
{
	char full[2 * SCRATCH_PATH];
	snprintf(full, sizeof full, "%s/%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; *at++ = '/') {
		*at = 0;
		mkdir(full, 0700);
	}
	FILE *file = fopen(full, "w");
	assert_non_null(file);
	assert_true(fputs(mask, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void expect_settled(const char *root, const char *allowed, int here, const char *device,
			   int settled, const char *says)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();
	char why[PLACE_WHY_BYTES] = "";
	hwloc_bitmap_list_sscanf(set, allowed);
	assert_int_equal(place_settled(root, set, here, device, why), settled);
	if (!strstr(why, says))
		fail_msg("\"%s\" does not say \"%s\"", why, says);
	hwloc_bitmap_free(set);
}

/* There are two packages of eight processors, with the card at the second. For cpu 12, the file of
 * the package has the older name. */
TEST(settled__kernels_files__say_when_there_is_nothing_to_choose)
{
	char root[SCRATCH_PATH];
	assert_int_equal(scratch_make(root), 0);
	write_mask(root, "sys/devices/system/cpu/cpu3/topology/package_cpus", "00ff\n");
	write_mask(root, "sys/devices/system/cpu/cpu12/topology/core_siblings", "ff00\n");
	write_mask(root, "sys/class/infiniband/mlx5_0/device/local_cpus", "ff00\n");
	expect_settled(root, "0-7", 3, NULL, 1,
		       "all processors of this rank (0-7) are near the calling thread");
	expect_settled(root, "8-11", 12, NULL, 1, "(8-11) are near the calling thread");
	expect_settled(root, "0-15", 3, NULL, 0, "");
	expect_settled(root, "4-8", 3, NULL, 0, "");
	expect_settled(root, "10-11", 3, "mlx5_0", 1, "(10-11) are near mlx5_0");
	expect_settled(root, "0-7", 3, "mlx5_0", 0, "");
	expect_settled(root, "0-15", 3, "mlx5_0", 0, "");
	expect_settled(root, "0-7", 3, "rxe0", 0, "");
	expect_settled(root, "0-7", 5, NULL, 0, "");
	expect_settled(root, "2", 5, "rxe0", 1, "one processor (2)");
	scratch_remove(root);
}
#endif

static void *wait_here(void *mutex)
{
	pthread_mutex_lock(mutex);
	pthread_mutex_unlock(mutex);
	return NULL;
}

/* Uses this machine, whatever it is. */
TEST(place_thread__this_machine__stays_within_the_binding)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;
	cpu_set_t own, its, both;
	pthread_mutex_lock(&mutex);
	assert_int_equal(pthread_create(&thread, NULL, wait_here, &mutex), 0);
	place_thread(thread, NULL);
	place_thread(thread, "none_0");
	assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof own, &own), 0);
	assert_int_equal(pthread_getaffinity_np(thread, sizeof its, &its), 0);
	CPU_AND(&both, &own, &its);
	assert_true(CPU_EQUAL(&both, &its) && CPU_COUNT(&its) > 0);
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
	pthread_mutex_destroy(&mutex);
}
