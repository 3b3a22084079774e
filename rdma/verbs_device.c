/* SPDX-License-Identifier: BSD-3-Clause
 * See verbs_device.h. */
#include "rdma/verbs_device.h"
#include "base/device.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/card_list.h"
#include "rdma/card_choice.h"
#include "sluice.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { GID_ENTRIES = 256, CAP_IPC_LOCK_BIT = 14 };

const char *verbs_address_text(const struct sockaddr_storage *address, char text[80])
{
	char host[INET6_ADDRSTRLEN] = "?";
	unsigned port = 0;

	if (address->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)address;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		port = ntohs(in->sin_port);
	} else if (address->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)address;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		port = ntohs(in6->sin6_port);
	}
	snprintf(text, 80, "%s port %u", host, port);
	return text;
}

int verbs_failed(const char *call)
{
	return fail(errno == ENOMEM || errno == EMFILE ? SLUICE_ENOMEM : SLUICE_EDEVICE,
		    "verbs: %s: %s%s", call, errno_text(errno),
		    errno == EMFILE ? "; raise the limit on open files (ulimit -n)" :
		    errno == ENOMEM ? "; look at the limit on locked memory (ulimit -l)" :
				      "");
}

/* ---- locked memory --------------------------------------------------------- */

/* Returns a field of /proc/self/status: in kilobytes, or hexadecimal. 0: absent. */
static uint64_t status_field(const char *name, int base)
{
	FILE *file = fopen("/proc/self/status", "re");
	size_t n = strlen(name);
	uint64_t value = 0;
	char line[256];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, name, n) == 0 && line[n] == ':')
			value = strtoull(line + n + 1, NULL, base);
	fclose(file);
	return value;
}

uint64_t verbs_pinned(void)
{
	return status_field("VmPin", 10) * 1024;
}

int verbs_memlock_check(size_t bytes, const char *what)
{
	struct rlimit limit;
	uint64_t pinned;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return SLUICE_OK;
	if (status_field("CapEff", 16) >> CAP_IPC_LOCK_BIT & 1)
		return SLUICE_OK; /* with CAP_IPC_LOCK the kernel ignores the limit */
	pinned = verbs_pinned();
	if (bytes <= limit.rlim_cur && pinned <= limit.rlim_cur - bytes)
		return SLUICE_OK;
	return fail_quietly(
		SLUICE_ENOMEM,
		"locked memory: %s needs %zu bytes more (%" PRIu64
		" are pinned), but the limit is %" PRIu64 " bytes (RLIMIT_MEMLOCK, from %s): %s",
		what, bytes, pinned, (uint64_t)limit.rlim_cur,
		getenv("SLURM_JOB_ID") != NULL ?
			"slurmd, or from the submitting shell by PropagateResourceLimits" :
			"this shell's ulimit -l",
		getenv("SLURM_JOB_ID") != NULL ?
			"set LimitMEMLOCK=infinity in slurmd.service and "
			"PropagateResourceLimitsExcept=MEMLOCK in slurm.conf" :
			"set \"* - memlock unlimited\" in /etc/security/limits.d and log in again");
}

/* ---- what is there --------------------------------------------------------- */

static int holds_entry(const char *folder, const char *prefix)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	int found = 0;

	if (!dir)
		return 0;
	while (!found && (entry = readdir(dir)) != NULL)
		found = entry->d_name[0] != '.' &&
			strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
	closedir(dir);
	return found;
}

static int explain_none(void)
{
	if (!holds_entry("/sys/class/infiniband", ""))
		return fail_quietly(
			SLUICE_ENOSUPP,
			"this node has no RDMA device (/sys/class/infiniband is empty): load the "
			"card's driver (mlx5_ib, irdma, ...), or for software RoCE: modprobe "
			"rdma_rxe; rdma link add rxe0 type rxe netdev eth0");
	if (!holds_entry("/dev/infiniband", "uverbs"))
		return fail_quietly(
			SLUICE_ENOSUPP,
			"there is an RDMA device, but no /dev/infiniband/uverbs*: modprobe "
			"ib_uverbs; in a container, pass /dev/infiniband into it");
	return fail_quietly(SLUICE_ENOSUPP, "there is an RDMA device, but libibverbs finds no "
					    "driver for it: install ibverbs-providers (rdma-core)");
}

static int check_cm_device(void)
{
	if (access("/dev/infiniband/rdma_cm", R_OK | W_OK) == 0)
		return SLUICE_OK;
	if (errno == EACCES)
		return fail_quietly(SLUICE_ENOSUPP,
				    "/dev/infiniband/rdma_cm may not be opened: give its group, or "
				    "all (mode 0666), the right to read and write it");
	return fail_quietly(SLUICE_ENOSUPP,
			    "there is no /dev/infiniband/rdma_cm: modprobe rdma_ucm; in a "
			    "container, pass /dev/infiniband into it");
}

int verbs_port_active(struct ibv_context *context, const struct verbs_device *device)
{
	struct ibv_port_attr attr;

	return ibv_query_port(context, device->port, &attr) || attr.state == IBV_PORT_ACTIVE;
}

/* ---- the address ----------------------------------------------------------- */

static int is_v4_mapped(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	return memcmp(gid->raw, prefix, sizeof(prefix)) == 0;
}

static int is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

static void address_of_gid(const union ibv_gid *gid, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (is_v4_mapped(gid)) {
		struct sockaddr_in *in = (void *)out;

		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, gid->raw + 12, 4);
	} else {
		struct sockaddr_in6 *in6 = (void *)out;

		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_addr, gid->raw, 16);
	}
}

/* Larger is better; 0 is unusable. rdma_cm connects by IP address, which excludes link-local ones
 * and RoCEv1, which no router passes. */
static int gid_quality(const struct ibv_gid_entry *entry)
{
	if (entry->gid_type != IBV_GID_TYPE_ROCE_V2 || is_link_local(&entry->gid))
		return 0;
	return is_v4_mapped(&entry->gid) ? 2 : 1;
}

static int choose_gid(struct ibv_context *context, int wanted, struct verbs_device *out)
{
	struct ibv_gid_entry entries[GID_ENTRIES];
	ssize_t n = ibv_query_gid_table(context, entries, GID_ENTRIES, 0);
	int best = 0;

	for (ssize_t i = 0; i < n; i++) {
		int quality = gid_quality(&entries[i]);

		if (entries[i].port_num != out->port ||
		    (wanted >= 0 && entries[i].gid_index != (uint32_t)wanted))
			continue;
		if (quality > best) {
			best = quality;
			out->gid = entries[i].gid;
			out->gid_index = (int)entries[i].gid_index;
		}
	}
	if (best == 0 && wanted >= 0)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s port %d: GID %d is no routable RoCEv2 address "
				    "(SLUICE_GID_INDEX); show_gids or ibv_devinfo -v lists them",
				    out->name, out->port, wanted);
	if (best == 0)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s port %d has no usable GID (a RoCEv2 one with an IPv4 or "
				    "global IPv6 address): give its network interface an address "
				    "(ip addr add) and bring it up",
				    out->name, out->port);
	address_of_gid(&out->gid, &out->address);
	return SLUICE_OK;
}

/* For InfiniBand: finds the IP address of this device and port by binding each address. */
static int find_ipoib(struct verbs_device *out)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ifaddrs *all = NULL, *at;
	int found = 0;

	if (!channel)
		return check_cm_device();
	if (getifaddrs(&all) < 0)
		all = NULL;
	for (at = all; at && !found; at = at->ifa_next) {
		struct rdma_cm_id *id;

		if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET)
			continue;
		if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0)
			break;
		if (rdma_bind_addr(id, at->ifa_addr) == 0 && id->verbs &&
		    strcmp(ibv_get_device_name(id->verbs->device), out->name) == 0 &&
		    id->port_num == out->port) {
			memset(&out->address, 0, sizeof(out->address));
			memcpy(&out->address, at->ifa_addr, sizeof(struct sockaddr_in));
			found = 1;
		}
		rdma_destroy_id(id);
	}
	freeifaddrs(all);
	rdma_destroy_event_channel(channel);
	if (!found)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s port %d is InfiniBand and no IP address leads to it: load "
				    "ib_ipoib and give its interface (ib0) an address",
				    out->name, out->port);
	out->gid_index = -1;
	return SLUICE_OK;
}

/* ---- forks ----------------------------------------------------------------- */

enum verbs_fork verbs_fork_guard(void)
{
	static atomic_int warned;
	int err;

	switch (ibv_is_fork_initialized()) {
	case IBV_FORK_UNNEEDED: return VERBS_FORK_COPIED;
	case IBV_FORK_ENABLED: return VERBS_FORK_GUARDED;
	default: break;
	}
	err = ibv_fork_init();
	if (!err)
		return VERBS_FORK_GUARDED;
	if (!atomic_exchange(&warned, 1))
		log_line(LOG_WARN, "rdma",
			 "verbs: ibv_fork_init: %s; on this kernel (before Linux 5.12) a child "
			 "process, such as a worker of a DataLoader, may break this rank: open "
			 "the job before other users of RDMA, or start children by spawn",
			 errno_text(err));
	return VERBS_FORK_DANGEROUS;
}

/* ---- choosing -------------------------------------------------------------- */

static int fail_unreliable(const char *name)
{
	return fail_quietly(SLUICE_ENOSUPP,
			    "%s has no reliable connections of InfiniBand or RoCE (EFA, MANA and "
			    "usNIC have none): for EFA, install libfabric and let "
			    "SLUICE_TRANSPORT allow ofi",
			    name);
}

/* Refuses devices that speak another protocol than InfiniBand and RoCE. */
static int check_protocol(const struct ibv_device *device, const char *name)
{
	switch (device->transport_type) {
	case IBV_TRANSPORT_IB: return SLUICE_OK;
	case IBV_TRANSPORT_IWARP:
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s speaks iWARP, which has no write with immediate: for an "
				    "Intel card, switch irdma to RoCE (modprobe irdma roce_ena=1); "
				    "otherwise let SLUICE_TRANSPORT allow ofi",
				    name);
	default: return fail_unreliable(name);
	}
}

static int try_port(struct ibv_context *context, int gid_index, struct verbs_device *out)
{
	int err = ibv_query_port(context, out->port, &out->port_attr);

	if (err)
		return fail_quietly(SLUICE_ENOSUPP, "%s has no port %d: %s", out->name, out->port,
				    errno_text(err));
	if (out->port_attr.state != IBV_PORT_ACTIVE)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s port %d is %s, not ACTIVE: check cable and switch, bring "
				    "the network interface up (ip link set ... up), or start a "
				    "subnet manager on InfiniBand",
				    out->name, out->port, ibv_port_state_str(out->port_attr.state));
	if (out->port_attr.link_layer == IBV_LINK_LAYER_UNSPECIFIED)
		return fail_unreliable(out->name);
	out->infiniband = out->port_attr.link_layer != IBV_LINK_LAYER_ETHERNET;
	if (out->infiniband)
		return find_ipoib(out);
	return choose_gid(context, gid_index, out);
}

static int try_verbs_device(struct ibv_device *device, unsigned port, int gid_index,
			    struct verbs_device *out)
{
	struct ibv_context *context;
	int err, rc;

	snprintf(out->name, sizeof(out->name), "%s", ibv_get_device_name(device));
	rc = check_protocol(device, out->name);
	if (rc)
		return rc;
	rc = SLUICE_ENOSUPP;
	context = ibv_open_device(device);
	if (!context)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s cannot be opened: %s; check the rights of "
				    "/dev/infiniband/uverbs*",
				    out->name, errno_text(errno));
	err = ibv_query_device(context, &out->attr);
	if (err) {
		fail_quietly(SLUICE_ENOSUPP, "%s cannot be queried: %s", out->name,
			     errno_text(err));
		goto out_close;
	}
	for (unsigned p = 1; p <= out->attr.phys_port_cnt; p++) {
		if (port != 0 && p != port)
			continue;
		out->port = (uint8_t)p;
		rc = try_port(context, gid_index, out);
		if (!rc)
			break;
	}
	if (port > out->attr.phys_port_cnt)
		fail_quietly(SLUICE_ENOSUPP, "%s has %d port%s, not %u (SLUICE_DEVICE)", out->name,
			     out->attr.phys_port_cnt, out->attr.phys_port_cnt == 1 ? "" : "s",
			     port);
out_close:
	ibv_close_device(context);
	return rc;
}

static int parse_gid_index(const char *text, int *out)
{
	char *end = NULL;
	long value;

	*out = -1;
	if (!text || *text == '\0' || strcmp(text, "auto") == 0)
		return SLUICE_OK;
	value = strtol(text, &end, 10);
	if (*end != '\0' || value < 0 || value > 255)
		return fail_quietly(SLUICE_EINVAL,
				    "SLUICE_GID_INDEX=\"%.40s\" is neither auto nor 0 .. 255",
				    text);
	*out = (int)value;
	return SLUICE_OK;
}

/* The cards that can be used, as card_choice.c takes them. */
struct usable {
	struct verbs_device device[CARDS_MOST];
	struct card card[CARDS_MOST];
	size_t n;
};

/* Returns the network mask of an address of this machine, in host order, or 255.255.255.0 if no
 * interface has the address. */
static uint32_t mask_of(const struct sockaddr_in *address)
{
	struct ifaddrs *all = NULL;
	uint32_t mask = 0xffffff00;

	if (getifaddrs(&all) < 0)
		return mask;
	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		const struct sockaddr_in *in = (const void *)at->ifa_addr;

		if (in && in->sin_family == AF_INET && at->ifa_netmask &&
		    in->sin_addr.s_addr == address->sin_addr.s_addr)
			mask = ntohl(((const struct sockaddr_in *)(const void *)at->ifa_netmask)
					     ->sin_addr.s_addr);
	}
	freeifaddrs(all);
	return mask;
}

/* Devices are sure to reach each other if they have one link layer and addresses of one network. */
static uint64_t fabric_of(const struct verbs_device *device)
{
	const struct sockaddr_in *in = (const void *)&device->address;
	const struct sockaddr_in6 *in6 = (const void *)&device->address;
	uint64_t network = 0;

	if (in->sin_family == AF_INET)
		network = ntohl(in->sin_addr.s_addr) & mask_of(in);
	else
		memcpy(&network, &in6->sin6_addr, sizeof(network));
	return network << 1 | (uint64_t)device->infiniband;
}

/* Tries all devices that the list allows. Returns the number of allowed devices. The last error
 * says why one of them cannot be used. */
static int try_all(struct ibv_device **list, int n, const char *allowed, int gid,
		   struct usable *out)
{
	int n_allowed = 0;

	for (int i = 0; i < n; i++) {
		const char *name = ibv_get_device_name(list[i]);
		struct verbs_device *device;
		unsigned port;

		if (!card_list_allows(allowed, name, NULL, &port))
			continue;
		n_allowed++;
		if (out->n == CARDS_MOST)
			break;
		device = &out->device[out->n];
		memset(device, 0, sizeof(*device));
		if (try_verbs_device(list[i], port, gid, device))
			continue;
		out->card[out->n++] = (struct card){ device->name, "", fabric_of(device) };
	}
	return n_allowed;
}

static int choose_of(struct usable *usable, const char *allowed, struct verbs_device *out)
{
	struct card_choice order[CARDS_MOST];
	char gpu[BUS_ID_TEXT];

	cards_order_here(usable->card, usable->n, order, gpu);
	*out = usable->device[order[0].card];
	if (allowed && *allowed && usable->n == 1)
		snprintf(out->reason, sizeof(out->reason), "SLUICE_DEVICE=%.150s", allowed);
	else
		card_choice_text(&order[0], gpu, usable->n, out->reason, sizeof(out->reason));
	return SLUICE_OK;
}

/* Refuses a name that no device has. */
static int fail_unknown(const char *name, struct ibv_device **list, int n)
{
	char names[256] = "";
	size_t used = 0;

	for (int i = 0; i < n; i++) {
		const char *its = ibv_get_device_name(list[i]);
		const size_t room = sizeof(names) - used;
		const int left = i + 1 < n ? (int)sizeof(" and 1000 more") : 0;

		if (strlen(its) + 2 + (size_t)left >= room) {
			snprintf(names + used, room, " and %d more", n - i);
			break;
		}
		used += (size_t)snprintf(names + used, room, "%s%s", i > 0 ? ", " : "", its);
	}
	return fail_quietly(SLUICE_ENOSUPP,
			    "there is no RDMA device %.80s (SLUICE_DEVICE); there are: %s", name,
			    names);
}

int verbs_device_choose(const char *device, const char *gid_index, struct verbs_device *out)
{
	struct ibv_device **list;
	struct usable *usable;
	int gid, n = 0, rc = parse_gid_index(gid_index, &gid);

	if (!rc)
		rc = card_list_check("SLUICE_DEVICE", device, 1);
	if (rc)
		return rc;
	verbs_fork_guard();
	list = ibv_get_device_list(&n);
	if (!list || n == 0) {
		if (list)
			ibv_free_device_list(list);
		return explain_none();
	}
	usable = calloc(1, sizeof(*usable));
	rc = usable ? check_cm_device() : fail(SLUICE_ENOMEM, "no memory for %d devices", n);
	if (!rc && !try_all(list, n, device, gid, usable))
		rc = fail_unknown(device, list, n);
	else if (!rc)
		rc = usable->n ? choose_of(usable, device, out) : SLUICE_ENOSUPP;
	free(usable);
	ibv_free_device_list(list);
	return rc;
}
