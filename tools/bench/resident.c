/* SPDX-License-Identifier: BSD-3-Clause
 * See resident.h. Called by step.c and by the test that compares the result with the announced
 * memory. */
#include "tools/bench/resident.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Counts page by page, because the counters of /proc/self/status may lag behind. */
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

struct seen {
	uint64_t *inodes;
	size_t n, room;
};

/* Returns 1 at the first occurrence, 0 at others, and -1 if there is no memory. */
static int see(struct seen *seen, uint64_t inode)
{
	for (size_t i = 0; i < seen->n; i++)
		if (seen->inodes[i] == inode)
			return 0;
	if (seen->n == seen->room) {
		const size_t room = 2 * seen->room + 64;
		uint64_t *inodes = realloc(seen->inodes, room * sizeof(*inodes));

		if (!inodes)
			return -1;
		seen->inodes = inodes;
		seen->room = room;
	}
	seen->inodes[seen->n++] = inode;
	return 1;
}

/* A region counts with the size of its mapping, because all its pages exist from its opening. Its
 * name contains the process that made it. This process may map a region twice, as its own peer. */
static int regions(uint64_t *bytes_out)
{
	FILE *file = fopen("/proc/self/maps", "re");
	struct seen seen = { NULL, 0, 0 };
	uint64_t begin, end, inode;
	char line[512], label[64];
	int rc = file ? 0 : -1;

	snprintf(label, sizeof(label), "/memfd:sluice-%d-", (int)getpid());
	*bytes_out = 0;
	while (rc >= 0 && file && fgets(line, sizeof(line), file)) {
		if (!strstr(line, label) ||
		    sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %" SCNu64, &begin, &end,
			   &inode) != 3)
			continue;
		rc = see(&seen, inode);
		if (rc > 0)
			*bytes_out += end - begin;
	}
	if (file)
		fclose(file);
	free(seen.inodes);
	return rc < 0 ? -1 : 0;
}

int resident_now(struct resident *out)
{
	return anonymous(&out->anonymous) || regions(&out->regions) ? -1 : 0;
}
