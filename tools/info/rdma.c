/* SPDX-License-Identifier: BSD-3-Clause
 * Checks RDMA devices, ports and GIDs in sysfs by the rules of the verbs transport. On this machine
 * it then gets the choice of the transport itself. */
#include "base/env.h"
#include "tools/info/probes.h"
#include <stdlib.h>
#include <string.h>

static const char section[] = "RDMA";

enum {
	GID_NONE,
	GID_V1,
	GID_LINK_LOCAL,
	GID_GLOBAL,
	GID_V4
}; /* better is larger; usable from GLOBAL on */

struct port {
	const char *device, *number;
	int active, ethernet; /* ethernet: 1 for Ethernet, 0 for InfiniBand */
};

/* Parses "0000:0000:0000:0000:0000:ffff:0a03:0001" into 16 bytes. Returns 0 or -1. */
static int parse_gid(const char *text, uint8_t gid[16])
{
	unsigned group[8];
	int end = 0;

	if (sscanf(text, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x%n", &group[0], &group[1], &group[2],
		   &group[3], &group[4], &group[5], &group[6], &group[7], &end) != 8 ||
	    text[end])
		return -1;
	for (int i = 0; i < 8; i++) {
		gid[2 * i] = (uint8_t)(group[i] >> 8);
		gid[2 * i + 1] = (uint8_t)group[i];
	}
	return 0;
}

static int quality_of(const uint8_t gid[16], const char *type)
{
	static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff }, none[16];

	if (!memcmp(gid, none, sizeof(none)))
		return GID_NONE;
	if (strcmp(type, "RoCE v2"))
		return GID_V1;
	if (gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80)
		return GID_LINK_LOCAL;
	return memcmp(gid, v4, sizeof(v4)) ? GID_GLOBAL : GID_V4;
}

static const char *const quality_text[] = {
	[GID_NONE] = "empty",
	[GID_V1] = "not RoCE v2: no router passes it",
	[GID_LINK_LOCAL] = "link-local: used only if SLUICE_GID_INDEX names it",
	[GID_GLOBAL] = "RoCE v2, IPv6",
	[GID_V4] = "RoCE v2, IPv4"
};

/* Checks the GIDs of an Ethernet port, and finds the one that Sluice uses. */
static void judge_gids(const struct node *node, struct report *r, const struct port *p)
{
	struct names gids;
	char path[160], name[NAME_BYTES], best_text[LINE_BYTES] = "", best_index[64] = "";
	int best = GID_NONE, seen = 0;
	const char *wanted = env_text("SLUICE_GID_INDEX");
	const int named = wanted && *wanted && strcmp(wanted, "auto");

	snprintf(path, sizeof(path), "/sys/class/infiniband/%.60s/ports/%.20s", p->device,
		 p->number);
	node_list(node, &gids, "%s/gids", path);
	for (size_t i = 0; i < gids.n; i++) {
		char text[LINE_BYTES], type[LINE_BYTES] = "", interface[LINE_BYTES] = "?";
		uint8_t gid[16];
		int quality;

		if (node_line(node, text, "%s/gids/%s", path, gids.name[i]) ||
		    parse_gid(text, gid) ||
		    node_line(node, type, "%s/gid_attrs/types/%s", path, gids.name[i]))
			continue; /* the type of an empty entry cannot be read */
		quality = quality_of(gid, type);
		if (quality == GID_NONE)
			continue;
		seen++;
		node_line(node, interface, "%s/gid_attrs/ndevs/%s", path, gids.name[i]);
		snprintf(name, sizeof(name), "gid %.12s:%.4s[%.4s]", p->device, p->number,
			 gids.name[i]);
		report_add(r, VERDICT_INFO, section, name, NULL, "%.64s on %.32s, %s", text,
			   interface, quality_text[quality]);
		if (named && strcmp(wanted, gids.name[i]))
			continue;
		if (quality > best) {
			best = quality;
			snprintf(best_text, sizeof(best_text), "%s", text);
			snprintf(best_index, sizeof(best_index), "%s", gids.name[i]);
		}
	}
	snprintf(name, sizeof(name), "rdma-gid %.12s:%.4s", p->device, p->number);
	if (best >= (named ? GID_LINK_LOCAL : GID_GLOBAL)) {
		report_add(r, VERDICT_OK, section, name, NULL, "[%s] %.64s: %s, the %s", best_index,
			   best_text, quality_text[best],
			   named ? "one that SLUICE_GID_INDEX names" :
			   best == GID_V4 ?
				   "first IPv4 address" :
				   "first global IPv6 address, because there is no IPv4 address");
		return;
	}
	report_add(r, VERDICT_FAIL, section, name,
		   "give the network interface of this port an IPv4 address (ip addr add) and "
		   "bring it up; unset SLUICE_GID_INDEX",
		   "no usable GID among %d%s%s%s", seen, best ? ": [" : "", best ? best_index : "",
		   best ? "] is the best of them, but cannot be used" : "");
}

static void judge_port(const struct node *node, struct report *r, const char *device,
		       const char *number, int *down)
{
	char state[LINE_BYTES] = "?", physical[LINE_BYTES] = "?", rate[LINE_BYTES] = "?",
	     layer[LINE_BYTES] = "?";
	char name[NAME_BYTES], path[160];
	struct port p = { .device = device, .number = number };

	snprintf(path, sizeof(path), "/sys/class/infiniband/%.60s/ports/%.20s", device, number);
	node_line(node, state, "%s/state", path);
	node_line(node, physical, "%s/phys_state", path);
	node_line(node, rate, "%s/rate", path);
	node_line(node, layer, "%s/link_layer", path);
	p.active = strstr(state, "ACTIVE") != NULL;
	p.ethernet = !strcmp(layer, "Ethernet");
	snprintf(name, sizeof(name), "rdma-port %.12s:%.4s", device, number);
	if (!p.active) {
		(*down)++;
		/* A single port is only listed. The check is whether any port is up. */
		report_add(r, VERDICT_INFO, section, name, NULL, "%.64s (%.64s), %.64s, %.32s",
			   state, physical, rate, layer);
		return;
	}
	report_add(r, VERDICT_OK, section, name, NULL, "%.64s, %.64s, %.32s", state, rate, layer);
	if (p.ethernet)
		judge_gids(node, r, &p);
}

static void show_device(const struct node *node, struct report *r, const char *device)
{
	char firmware[LINE_BYTES] = "?", numa[LINE_BYTES] = "", type[LINE_BYTES] = "?";
	char name[NAME_BYTES];

	node_line(node, firmware, "/sys/class/infiniband/%s/fw_ver", device);
	node_line(node, type, "/sys/class/infiniband/%s/node_type", device);
	if (node_line(node, numa, "/sys/class/infiniband/%s/device/numa_node", device))
		snprintf(numa, sizeof(numa), "none (no PCI device: software RoCE)");
	snprintf(name, sizeof(name), "device %.40s", device);
	report_add(r, VERDICT_INFO, section, name, NULL, "%.64s, firmware %.64s, NUMA node %.64s",
		   type, firmware, numa);
}

/* Ports of InfiniBand are used without IP addresses, and so without rdma_cm. */
static int has_infiniband(const struct node *node)
{
	static struct names devices, ports;
	char layer[LINE_BYTES];

	node_list(node, &devices, "/sys/class/infiniband");
	for (size_t d = 0; d < devices.n; d++) {
		node_list(node, &ports, "/sys/class/infiniband/%s/ports", devices.name[d]);
		for (size_t p = 0; p < ports.n; p++)
			if (!node_line(node, layer, "/sys/class/infiniband/%s/ports/%s/link_layer",
				       devices.name[d], ports.name[p]) &&
			    !strcmp(layer, "InfiniBand"))
				return 1;
	}
	return 0;
}

static void judge_files(const struct node *node, struct report *r)
{
	const enum verdict needed = has_infiniband(node) ? VERDICT_WARN : VERDICT_FAIL;
	struct names names;
	int uverbs = 0, openable = 0;
	char path[128];

	node_list(node, &names, "/dev/infiniband");
	for (size_t i = 0; i < names.n; i++)
		if (!strncmp(names.name[i], "uverbs", 6)) {
			uverbs++;
			snprintf(path, sizeof(path), "/dev/infiniband/%s", names.name[i]);
			openable += node_may_open(node, path);
		}
	if (!uverbs)
		report_add(r, VERDICT_FAIL, section, "rdma-files",
			   "modprobe ib_uverbs; in a container, pass /dev/infiniband into it",
			   "there is no /dev/infiniband/uverbs*");
	else if (!openable)
		report_add(r, VERDICT_FAIL, section, "rdma-files",
			   "give the user's group, or all (mode 0666), the right to read and write "
			   "them",
			   "/dev/infiniband/uverbs* may not be opened by this user");
	else if (!node_exists(node, "/dev/infiniband/rdma_cm"))
		report_add(r, needed, section, "rdma-files",
			   "modprobe rdma_ucm; in a container, pass /dev/infiniband into it",
			   "there is no /dev/infiniband/rdma_cm");
	else if (!node_may_open(node, "/dev/infiniband/rdma_cm"))
		report_add(
			r, needed, section, "rdma-files",
			"give the user's group, or all (mode 0666), the right to read and write it",
			"/dev/infiniband/rdma_cm may not be opened by this user");
	else
		report_add(r, VERDICT_OK, section, "rdma-files", NULL,
			   "/dev/infiniband: %d of %d uverbs and rdma_cm can be opened", openable,
			   uverbs);
}

void probe_rdma(const struct node *node, struct report *r)
{
	static struct names devices, ports;
	int down = 0, n_ports = 0;
	enum verdict absent = transport_named(node, "verbs") ? VERDICT_FAIL : VERDICT_WARN;
	char sentence[FINDING_BYTES];

	if (!transport_allowed("verbs") && !node->needs_verbs) {
		report_add(r, VERDICT_INFO, section, "rdma", NULL, "not used: %s",
			   transport_built("verbs") ? "SLUICE_TRANSPORT does not allow verbs" :
						      "this build has no verbs transport");
		absent = VERDICT_INFO;
	}
	node_list(node, &devices, "/sys/class/infiniband");
	if (devices.n == 0) {
		report_add(r, absent, section, "rdma-devices",
			   "load the driver of the card (mlx5_ib, irdma, bnxt_re, ...), or for "
			   "software RoCE: modprobe "
			   "rdma_rxe; rdma link add rxe0 type rxe netdev eth0",
			   "none (/sys/class/infiniband): ranks on other nodes are reached over "
			   "libfabric, if at all");
		return;
	}
	report_add(r, VERDICT_OK, section, "rdma-devices", NULL, "%zu", devices.n);
	if (absent == VERDICT_INFO)
		return;
	judge_files(node, r);
	for (size_t d = 0; d < devices.n; d++) {
		show_device(node, r, devices.name[d]);
		node_list(node, &ports, "/sys/class/infiniband/%s/ports", devices.name[d]);
		for (size_t p = 0; p < ports.n; p++, n_ports++)
			judge_port(node, r, devices.name[d], ports.name[p], &down);
	}
	if (down && down == n_ports)
		report_add(r, VERDICT_FAIL, section, "rdma-ports",
			   "check cable and switch; Ethernet: ip link set IFACE up; InfiniBand: "
			   "start a subnet manager",
			   "all %d ports are down", n_ports);
	else if (down)
		report_add(r, VERDICT_OK, section, "rdma-ports", NULL, "%d of %d are up",
			   n_ports - down, n_ports);
	if (*node->root)
		return;
	switch (verbs_choice(sentence)) {
	case 0: report_add(r, VERDICT_OK, section, "rdma-choice", NULL, "%s", sentence); break;
	case -1: report_add(r, VERDICT_FAIL, section, "rdma-choice", NULL, "%s", sentence); break;
	}
	switch (verbs_forks(sentence)) {
	case 0: report_add(r, VERDICT_OK, section, "rdma-fork", NULL, "%s", sentence); break;
	case -1:
		report_add(r, VERDICT_WARN, section, "rdma-fork",
			   "use Linux 5.12 or newer, or start child processes by spawn", "%s",
			   sentence);
		break;
	}
}
