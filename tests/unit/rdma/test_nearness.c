/* SPDX-License-Identifier: BSD-3-Clause
 * Which of two cards is chosen for which of two GPUs, on a simulated machine (two_gpus.h):
 * libibverbs lists fake0 first. GPUs are those of the emulated module; SLURM_LOCALID says which is
 * this process's. */
#include "base/device.h"
#include "tests/fakes/verbs/fake_fabric.h"
#include "rdma/nearness.h"
#include "rdma/verbs_device.h"
#include "scratch.h"
#include "sluice.h"
#include "two_gpus.h"
#include "cases.h"
#include <dlfcn.h>
#ifdef HAVE_HWLOC
#include <hwloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);

int __wrap_access(const char *path, int mode)
{
	return strcmp(path, "/dev/infiniband/rdma_cm") == 0 ? 0 : __real_access(path, mode);
}

static char folder[SCRATCH_PATH], machine[2 * SCRATCH_PATH];

/* Simulates two GPUs, of which number 0 is current at first. */
static int begin(void **state)
{
	void *runtime = dlopen(EMULATED_RUNTIME, RTLD_NOW), *symbol;
	void (*devices)(int);

	if (!runtime)
		fprintf(stderr, "%s\n", dlerror());
	symbol = runtime ? dlsym(runtime, "emulated_device") : NULL;
	if (!symbol || scratch_make(folder))
		return -1;
	memcpy(&devices, &symbol, sizeof(symbol));
	devices(2);
	snprintf(machine, sizeof(machine), "%s/machine.xml", folder);
	if (scratch_write(machine, two_gpus, strlen(two_gpus)))
		return -1;
	setenv("SLUICE_GPU", EMULATED_MODULE, 1);
	return 0;
}

static int end(void **state)
{
	scratch_remove(folder);
	return 0;
}

static int fresh(void **state)
{
	fake_reset();
	fake.devices = 2;
	setenv("HWLOC_XMLFILE", machine, 1);
	setenv("SLUICE_GPU", EMULATED_MODULE, 1);
	unsetenv("SLURM_LOCALID");
	return 0;
}

static void choose(const char *local_rank, const char *device, const char *name, const char *reason)
{
	struct verbs_device chosen;

	if (local_rank)
		setenv("SLURM_LOCALID", local_rank, 1);
	assert_int_equal(verbs_device_choose(&(struct verbs_wanted){ .device = device }, &chosen),
			 0);
	if (strcmp(chosen.name, name) || strcmp(chosen.reason, reason))
		fail_msg("%s, %s", chosen.name, chosen.reason);
	assert_null(fake_leak());
}

#define CASE(name) TEST_WITH(name, fresh, NULL)

CASE(choose__two_cards_and_two_gpus__the_nearest)
{
#ifdef HAVE_HWLOC
	choose("0", NULL, "fake1",
	       "below the same PCIe switch as GPU 0000:11:00.0, the nearest usable one");
	choose("1", NULL, "fake0",
	       "below the same PCIe root as GPU 0000:21:00.0, the nearest usable one");
	choose("2", NULL, "fake1",
	       "below the same PCIe switch as GPU 0000:11:00.0, the nearest usable one");
	choose("7", NULL, "fake0",
	       "below the same PCIe root as GPU 0000:21:00.0, the nearest usable one");
#else
	choose("0", NULL, "fake0", "one of 2 that ranks take in turn");
#endif
}

CASE(choose__the_nearest_is_down__the_other)
{
#ifdef HAVE_HWLOC
	fake.port_down = 2;
	choose("0", NULL, "fake0", "the only usable one");
	fake.port_down = 1;
	choose("1", NULL, "fake1", "the only usable one");
#else
	skip();
#endif
}

CASE(choose__named__the_named_one)
{
	choose("0", "fake0", "fake0", "SLUICE_DEVICE=fake0");
	choose("1", "fake1:1", "fake1", "SLUICE_DEVICE=fake1:1");
}

CASE(choose__no_gpu_or_one_card__in_turn_or_the_one)
{
	setenv("SLUICE_GPU", "auto", 1); /* there is no other sign that this process uses a GPU */
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("SLURM_STEP_GPUS");
	unsetenv("SLURM_JOB_GPUS");
	choose("0", NULL, "fake0", "one of 2 that ranks take in turn");
	choose("1", NULL, "fake1", "one of 2 that ranks take in turn");
	choose("2", NULL, "fake1", "one of 2 that ranks take in turn");
	choose("3", NULL, "fake0", "one of 2 that ranks take in turn");
	setenv("SLUICE_GPU", EMULATED_MODULE, 1);
	fake.devices = 1;
	choose("0", NULL, "fake0", "the only usable one");
}

CASE(choose__a_machine_without_these_cards__in_turn)
{
	unsetenv("HWLOC_XMLFILE");
	choose("0", NULL, "fake0", "one of 2 that ranks take in turn");
}

#ifdef HAVE_HWLOC
CASE(nearness__all_pairs__as_the_tree_has_them)
{
	struct neighbours all;

	assert_int_equal(nearness_all(&all), 0);
	assert_int_equal(all.n_gpus, 2);
	assert_int_equal(all.n_cards, 2);
	assert_string_equal(all.gpu[0], "0000:11:00.0");
	assert_string_equal(all.gpu[1], "0000:21:00.0");
	assert_string_equal(all.card[0], "fake1");
	assert_string_equal(all.pair[0][0].where, "below the same PCIe switch");
	assert_string_equal(all.pair[0][1].where, "on the same machine");
	assert_string_equal(all.pair[1][0].where, "on the same machine");
	assert_string_equal(all.pair[1][1].where, "below the same PCIe root");
	assert_true(all.pair[0][0].depth > all.pair[1][1].depth);
	assert_true(all.pair[1][1].depth > all.pair[0][1].depth);
}

CASE(nearness__of_nothing__not_known)
{
	struct hwloc_topology *t = nearness_topology();

	assert_non_null(t);
	assert_null(nearness_card(t, "mlx5_9"));
	assert_non_null(nearness_card(t, "fake0"));
	assert_int_equal(nearness_between(NULL, nearness_card(t, "fake0")).depth, -1);
	assert_int_equal(nearness_between(nearness_card(t, "fake1"), NULL).depth, -1);
	hwloc_topology_destroy(t);
}
#endif

int main(void)
{
	return run_cases(begin, end);
}
