/* SPDX-License-Identifier: BSD-3-Clause
 * See resident.h. Called by step.c and by the test that compares it with what is announced. */
#include "tools/bench/resident.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Counted page by page; the counters of /proc/self/status may lag behind. */
static int anonymous(uint64_t *bytes_out)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "re");
	uint64_t kilobytes;
	char line[256];
	int found = 0;

	while (file && !found && fgets(line, sizeof line, file))
		found = sscanf(line, "Anonymous: %" SCNu64 " kB", &kilobytes) == 1;
	if (file)
		fclose(file);
	if (!found)
		return -1;
	*bytes_out = kilobytes * 1024;
	return 0;
}

/* A region's file stays open while the region lives; of another's, only the mapping does. */
static int regions(uint64_t *bytes_out)
{
	static const char label[] = "/memfd:sluice-";
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;

	if (!folder)
		return -1;
	*bytes_out = 0;
	while ((entry = readdir(folder)) != NULL) {
		char target[sizeof label] = "";
		struct stat st;

		if (readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) > 0 &&
		    !strcmp(target, label) && !fstatat(dirfd(folder), entry->d_name, &st, 0))
			*bytes_out += (uint64_t)st.st_blocks * 512;
	}
	closedir(folder);
	return 0;
}

int resident_now(struct resident *out)
{
	return anonymous(&out->anonymous) || regions(&out->regions) ? -1 : 0;
}
