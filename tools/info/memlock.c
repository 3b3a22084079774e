/* SPDX-License-Identifier: BSD-3-Clause
 * Locked memory: the amount that RDMA needs, this process's limit, and the origin of the limit. */
#include "tools/info/probes.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char section[] = "Locked memory";
enum { CAP_IPC_LOCK_BIT = 14 };

/* Reads the limits; UINT64_MAX means unlimited. Returns 0 or -1. */
static int read_limit(const struct node *node, uint64_t *soft_out, uint64_t *hard_out)
{
	char line[LINE_BYTES], soft[64], hard[64];

	if (node_field(node, "/proc/self/limits", "Max locked memory", line) ||
	    sscanf(line, "%63s %63s", soft, hard) != 2)
		return -1;
	*soft_out = !strcmp(soft, "unlimited") ? UINT64_MAX : strtoull(soft, NULL, 10);
	*hard_out = !strcmp(hard, "unlimited") ? UINT64_MAX : strtoull(hard, NULL, 10);
	return 0;
}

static int is_exempt(const struct node *node)
{
	char line[LINE_BYTES];

	return !node_field(node, "/proc/self/status", "CapEff", line) &&
	       (strtoull(line, NULL, 16) >> CAP_IPC_LOCK_BIT & 1);
}

/* Reports every line of the file that sets memlock. Returns their number. */
static int show_lines(const struct node *node, struct report *r, const char *path)
{
	char whole[LINE_BYTES], line[LINE_BYTES];
	int n = 0;
	FILE *file;

	node_path(node, path, whole);
	file = fopen(whole, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "#\n")] = '\0';
		if (strstr(line, "memlock")) {
			report_add(r, VERDICT_INFO, section, "memlock-origin", NULL,
				   "%.200s: %.200s", path, line);
			n++;
		}
	}
	fclose(file);
	return n;
}

static void show_origin(const struct node *node, struct report *r)
{
	static struct names names;
	char path[128], line[LINE_BYTES];
	const char *conf = getenv("SLURM_CONF");
	int n = show_lines(node, r, "/etc/security/limits.conf");

	node_list(node, &names, "/etc/security/limits.d");
	for (size_t i = 0; i < names.n; i++) {
		snprintf(path, sizeof(path), "/etc/security/limits.d/%s", names.name[i]);
		n += show_lines(node, r, path);
	}
	if (!n)
		report_add(r, VERDICT_INFO, section, "memlock-origin", NULL,
			   "no line in /etc/security/limits.conf or limits.d, so the limit is the "
			   "default of the kernel or of systemd (DefaultLimitMEMLOCK)");
	if (!conf || *node->root)
		conf = "/etc/slurm/slurm.conf";
	if (!node_field(node, conf, "PropagateResourceLimitsExcept", line))
		report_add(r, VERDICT_INFO, section, "memlock-origin", NULL,
			   "%.200s: PropagateResourceLimitsExcept=%.100s", conf, line);
	else if (!node_field(node, conf, "PropagateResourceLimits", line))
		report_add(r, VERDICT_INFO, section, "memlock-origin", NULL,
			   "%.200s: PropagateResourceLimits=%.100s", conf, line);
	else if (node_exists(node, "%s", conf) || getenv("SLURM_JOB_ID"))
		report_add(r, VERDICT_INFO, section, "memlock-origin", NULL,
			   "Slurm passes the limits of the submitting shell to the job, unless "
			   "slurm.conf has PropagateResourceLimitsExcept=MEMLOCK");
}

void probe_memlock(const struct node *node, struct report *r)
{
	static struct names devices;
	uint64_t soft, hard;
	const char *need = bytes_text(node->memlock_need);
	int used = node->needs_verbs || transport_allowed("verbs");

	if (read_limit(node, &soft, &hard)) {
		report_add(r, VERDICT_WARN, section, "memlock", "mount /proc",
			   "/proc/self/limits cannot be read");
		return;
	}
	node_list(node, &devices, "/sys/class/infiniband");
	if (soft == UINT64_MAX)
		report_add(r, VERDICT_OK, section, "memlock", NULL, "unlimited (need %s)", need);
	else if (is_exempt(node))
		report_add(r, VERDICT_OK, section, "memlock", NULL,
			   "limit %s, but this process may lock without limit (CAP_IPC_LOCK); look "
			   "again as the user of the job, inside a job",
			   bytes_text(soft));
	else if (soft >= node->memlock_need)
		report_add(r, VERDICT_OK, section, "memlock", NULL, "limit %s, need %s",
			   bytes_text(soft), need);
	else if (!used || devices.n == 0)
		report_add(r, VERDICT_OK, section, "memlock", NULL,
			   "limit %s; not needed without RDMA (with: %s)", bytes_text(soft), need);
	else
		report_add(
			r, VERDICT_FAIL, section, "memlock",
			getenv("SLURM_JOB_ID") ?
				"set LimitMEMLOCK=infinity in slurmd.service and "
				"PropagateResourceLimitsExcept=MEMLOCK in slurm.conf" :
				"write \"* - memlock unlimited\" into a file of "
				"/etc/security/limits.d and log in again; for jobs, "
				"LimitMEMLOCK=infinity in slurmd.service and "
				"PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
			"locked memory: need %s, limit %s (RLIMIT_MEMLOCK, hard limit %s), from %s",
			need, bytes_text(soft), hard == UINT64_MAX ? "unlimited" : bytes_text(hard),
			getenv("SLURM_JOB_ID") ?
				"slurmd or, by PropagateResourceLimits, the submitting shell" :
				"this login (memlock-origin)");
	show_origin(node, r);
}
