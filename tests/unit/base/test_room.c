/* SPDX-License-Identifier: BSD-3-Clause
 * The limits of a machine and its control groups, read from imitated folders. */
#include "base/room.h"
#include "scratch.h"
#include "cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char root[SCRATCH_PATH];

/* Writes a file and its parent directories. */
static void write_file(const char *path, const char *text)
{
	char whole[SCRATCH_PATH + 256];
	FILE *file;

	snprintf(whole, sizeof whole, "%s%s", root, path);
	for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		mkdir(whole, 0777);
		*at = '/';
	}
	file = fopen(whole, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int open_root(void **state)
{
	if (scratch_make(root))
		return -1;
	write_file("/proc/meminfo",
		   "MemTotal:  9000 kB\nMemAvailable:    4000 kB\nSwapFree: 1000 kB\n");
	return 0;
}

static int close_root(void **state)
{
	scratch_remove(root);
	return 0;
}

#define CASE(name) TEST_WITH(name, open_root, close_root)

CASE(node__no_groups__is_what_the_machine_has)
{
	struct room room = room_left(root);
	assert_int_equal(room.node, 5000 * 1024);
	assert_string_equal(room.node_limit, "the machine");
}

CASE(node__group_of_version_2__is_limit_minus_use_but_droppable_pages)
{
	write_file("/proc/self/cgroup", "0::/slurm/job_7/step_0\n");
	write_file("/sys/fs/cgroup/slurm/job_7/memory.max", "1000000\n");
	write_file("/sys/fs/cgroup/slurm/job_7/memory.current", "700000\n");
	write_file("/sys/fs/cgroup/slurm/job_7/memory.stat",
		   "anon 400000\nfile 300000\ninactive_file 100000\nactive_file 50000\n");
	write_file("/sys/fs/cgroup/slurm/job_7/memory.swap.max", "0\n");
	write_file("/sys/fs/cgroup/slurm/job_7/memory.swap.current", "0\n");
	write_file("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
	write_file("/sys/fs/cgroup/slurm/job_7/step_0/memory.current", "700000\n");
	struct room room = room_left(root);
	assert_int_equal(room.node, 450000);
	assert_non_null(strstr(room.node_limit, "control group"));
	write_file("/sys/fs/cgroup/slurm/job_7/memory.swap.max", "30000\n");
	assert_int_equal(room_left(root).node, 480000);
	write_file("/sys/fs/cgroup/slurm/job_7/memory.max", "max\n");
	assert_int_equal(room_left(root).node, 5000 * 1024);
}

CASE(node__group_of_version_1_or_of_a_container__is_found)
{
	write_file("/proc/self/cgroup", "5:devices:/\n4:memory:/docker/abc\n0::/\n");
	write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
	write_file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1500000\n");
	write_file("/sys/fs/cgroup/memory/memory.stat",
		   "inactive_file 7\ntotal_inactive_file 200000\ntotal_active_file 0\n");
	assert_int_equal(room_left(root).node, 700000);
	write_file("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "100000\n");
	write_file("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "200000\n");
	assert_int_equal(room_left(root).node, 0);
	write_file("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes",
		   "9223372036854771712\n");
	write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(room_left(root).node, 5000 * 1024);
}

CASE(room__nothing_readable_or_garbled__is_no_limit)
{
	write_file("/proc/meminfo", "garbage\nMemAvailable\n");
	write_file("/proc/self/cgroup", "\n::::\n4:memory\nx\n0::\n");
	assert_true(room_left(root).node == UINT64_MAX);
	assert_true(room_left("/nowhere").node == UINT64_MAX);
}

CASE(process__limit_on_the_address_space__is_limit_minus_size)
{
	struct rlimit before, limit;

	write_file("/proc/self/statm", "10 5 3 1 0 4 0\n");
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	limit = before;
	assert_true(before.rlim_cur != RLIM_INFINITY || room_left(root).process == UINT64_MAX);
	limit.rlim_cur = 1ull << 46; /* more than any process uses */
	if (setrlimit(RLIMIT_AS, &limit))
		skip();
	uint64_t left = room_left(root).process;
	setrlimit(RLIMIT_AS, &before);
	assert_true(left == (1ull << 46) - 10 * (uint64_t)sysconf(_SC_PAGESIZE));
}
