/* SPDX-License-Identifier: BSD-3-Clause
 * See room.h. Three limits are read: the memory of the machine, the memory control groups above
 * this process (Slurm's for the job, or a container's; version 1 or 2), and the limit on the
 * address space. File pages that the kernel can drop count as free, and so does swap space that
 * this process may use. */
#include "base/room.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, LINE_BYTES = 4352 };
static const uint64_t no_limit = UINT64_MAX;

static FILE *open_under(const char *root, const char *folder, const char *name)
{
	char path[3 * PATH_BYTES];

	snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
	return fopen(path, "re");
}

/* Returns the number in a file. Returns no_limit if the file contains "max" or does not exist. */
static uint64_t number_in_file(const char *root, const char *folder, const char *name)
{
	FILE *file = open_under(root, folder, name);
	uint64_t value;

	if (!file)
		return no_limit;
	if (fscanf(file, "%" SCNu64, &value) != 1)
		value = no_limit;
	fclose(file);
	return value;
}

/* Returns the sum of the numbers that follow the given keys, in lines such as "KEY NUMBER" or "KEY:
 * NUMBER kB". */
static uint64_t sum_of(const char *root, const char *folder, const char *name,
		       const char *const *keys)
{
	FILE *file = open_under(root, folder, name);
	char line[LINE_BYTES], key[64], unit[8];
	uint64_t value, sum = 0;

	while (file && fgets(line, sizeof line, file)) {
		int n = sscanf(line, "%63[^: ]%*[: ]%" SCNu64 " %7s", key, &value, unit);

		for (size_t i = 0; n >= 2 && keys[i]; i++)
			if (!strcmp(key, keys[i]))
				sum += n == 3 && !strcmp(unit, "kB") ? value * 1024 : value;
	}
	if (file)
		fclose(file);
	return sum;
}

static uint64_t left_after(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- limits ---------------------------------------------------------------- */

static uint64_t left_of_machine(const char *root, uint64_t *swap)
{
	static const char *const available[] = { "MemAvailable", NULL };
	static const char *const free_swap[] = { "SwapFree", NULL };
	uint64_t memory = sum_of(root, "/proc", "meminfo", available);

	*swap = sum_of(root, "/proc", "meminfo", free_swap);
	return memory ? memory + *swap : no_limit;
}

/* The names of a control group's files in one version of the interface. */
struct version {
	const char *mount, *limit, *used, *swap_limit, *swap_used;
	const char *droppable[3]; /* keys in memory.stat that count memory which the kernel can
				     drop */
};

static const struct version versions[2] = {
	{ "/sys/fs/cgroup",
	  "memory.max",
	  "memory.current",
	  "memory.swap.max",
	  "memory.swap.current",
	  { "inactive_file", "active_file", NULL } },
	/* Version 1 limits memory and swap together, so swap is not counted as free. */
	{ "/sys/fs/cgroup/memory",
	  "memory.limit_in_bytes",
	  "memory.usage_in_bytes",
	  NULL,
	  NULL,
	  { "total_inactive_file", "total_active_file", NULL } },
};

static uint64_t left_of_group(const char *root, const struct version *v, const char *folder,
			      uint64_t swap)
{
	uint64_t limit = number_in_file(root, folder, v->limit),
		 used = number_in_file(root, folder, v->used);
	uint64_t left;

	if (limit >= no_limit / 4 ||
	    used == no_limit) /* version 1 has no "max", but a huge number */
		return no_limit;
	left = left_after(limit,
			  left_after(used, sum_of(root, folder, "memory.stat", v->droppable)));
	if (!v->swap_limit)
		return left;
	return left + smaller_of(swap, left_after(number_in_file(root, folder, v->swap_limit),
						  number_in_file(root, folder, v->swap_used)));
}

/* Returns the smallest amount left in this process's control group and in all groups above it that
 * are visible. */
static uint64_t left_of_groups(const char *root, uint64_t swap)
{
	FILE *file = open_under(root, "/proc/self", "cgroup");
	uint64_t left = no_limit;
	char line[LINE_BYTES], controllers[256], group[PATH_BYTES], folder[2 * PATH_BYTES];

	while (file && fgets(line, sizeof line, file)) {
		const struct version *v = &versions[0];

		*controllers = *group = 0;
		if (sscanf(line, "%*d::%4095[^\n]", group) != 1) {
			if (sscanf(line, "%*d:%255[^:]:%4095[^\n]", controllers, group) != 2 ||
			    strcmp(controllers, "memory"))
				continue;
			v = &versions[1];
		}
		for (;;) {
			char *last;

			snprintf(folder, sizeof folder, "%s%s", v->mount, group);
			left = smaller_of(left, left_of_group(root, v, folder, swap));
			last = strrchr(group, '/');
			if (!last)
				break;
			*last = 0;
		}
	}
	if (file)
		fclose(file);
	return left;
}

static uint64_t left_of_process(const char *root)
{
	struct rlimit limit;
	uint64_t pages;

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return no_limit;
	pages = number_in_file(root, "/proc/self",
			       "statm"); /* the first number is the total size in pages */
	if (pages == no_limit)
		return no_limit;
	return left_after(limit.rlim_cur, pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

struct room room_left(const char *root)
{
	uint64_t swap, machine = left_of_machine(root, &swap), groups = left_of_groups(root, swap);
	struct room room = { .node = smaller_of(machine, groups),
			     .process = left_of_process(root) };

	snprintf(room.node_limit, sizeof room.node_limit, "%s",
		 groups < machine ? "a memory control group (cgroup)" : "the machine");
	return room;
}
