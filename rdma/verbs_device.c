/* SPDX-License-Identifier: BSD-3-Clause
 * See verbs_device.h. */
#include "rdma/verbs_device.h"
#include "base/device.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/card_list.h"
#include "rdma/card_choice.h"
#include "rdma/huge.h"
#include "rdma/verbs_address.h"
#include "sluice.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CAP_IPC_LOCK_BIT = 14, MICROSOFT = 0x1414 /* PCI vendor */ };

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

const char *verbs_device_text(const struct verbs_device *device, char text[80])
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (verbs_device_by_gid(device)) {
		inet_ntop(AF_INET6, device->gid.raw, host, sizeof(host));
		snprintf(text, 80, "GID %s, P_Key 0x%04x", host, device->pkey);
		return text;
	}
	verbs_address_text(&device->address, text);
	*strchrnul(text, ' ') = '\0'; /* it has no port number */
	return text;
}

int verbs_failed(const char *call)
{
	return fail(errno == ENOMEM || errno == EMFILE ? SLUICE_ENOMEM : SLUICE_EDEVICE,
		    "verbs: %s: %s%s", call, errno_text(errno),
		    errno == EMFILE ? "; raise the limit on open files (ulimit -n)" :
		    errno == ENOMEM ? "; check the limit on locked memory (ulimit -l)" :
				      "");
}

int verbs_device_failed(const struct verbs_device *device, const char *call)
{
	const int err = errno;
	char text[160];

	snprintf(text, sizeof(text), "%s on %s", call, device->name);
	errno = err;
	return verbs_failed(text);
}

/* ---- locked memory --------------------------------------------------------- */

/* Returns a field of /proc/self/status, which is in kilobytes or hexadecimal. Returns 0 if it is
 * absent. */
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

static int explain_none(int error)
{
	if (error == ELIBACC)
		return fail_quietly(
			SLUICE_ENOSUPP,
			"libibverbs.so.1 cannot be loaded: install it, librdmacm and the "
			"drivers (Debian: ibverbs-providers librdmacm1, RHEL: rdma-core "
			"librdmacm)");
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

/* ---- forks ----------------------------------------------------------------- */

enum verbs_fork verbs_fork_guard(void)
{
	static atomic_int warned;
	int err;

	/* Without this variable, libibverbs asks the kernel for small pages. The kernel refuses
	 * that within a huge page, and no region could be registered. Each ibv_fork_init() reads
	 * the variable. */
	if (huge_reserved_requested())
		setenv("RDMAV_HUGEPAGES_SAFE", "1", 0);
	switch (ibv_is_fork_initialized()) {
	case IBV_FORK_UNNEEDED: return VERBS_FORK_COPIED;
	case IBV_FORK_ENABLED:
		if (!huge_reserved_requested())
			return VERBS_FORK_GUARDED;
		break;
	default: break;
	}
	err = ibv_fork_init();
	if (!err)
		return VERBS_FORK_GUARDED;
	if (!atomic_exchange(&warned, 1))
		log_line(LOG_WARN, "rdma",
			 "verbs: ibv_fork_init failed: %s; on this kernel (before Linux 5.12) a "
			 "child process, such as a worker of a DataLoader, may break this rank: "
			 "open the job before other users of RDMA, or start children by spawn",
			 errno_text(err));
	return VERBS_FORK_DANGEROUS;
}

/* ---- choosing -------------------------------------------------------------- */

static int fail_unreliable(const char *name)
{
	return fail_quietly(
		SLUICE_ENOSUPP,
		"%s has no reliable connections of InfiniBand or RoCE (EFA and usNIC have "
		"none): for EFA, install libfabric and let "
		"SLUICE_TRANSPORT allow ofi",
		name);
}

/* Refuses devices with a protocol other than InfiniBand and RoCE. */
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

/* A port that can be used, and its addresses. */
struct usable_port {
	struct verbs_device device; /* without an address */
	struct verbs_address address[VERBS_ADDRESSES_MOST];
	int n_addresses;
};

/* The ports that can be used, in the form for card_choice.c. */
struct usable {
	struct usable_port port[CARDS_MOST];
	struct card card[CARDS_MOST];
	size_t n;
};

static int try_port(struct ibv_context *context, const struct verbs_addresses *addresses,
		    struct usable_port *out)
{
	struct verbs_device *d = &out->device;
	int err = ibv_query_port(context, d->port, &d->port_attr), n;

	if (err)
		return fail_quietly(SLUICE_ENOSUPP, "%s has no port %d: %s", d->name, d->port,
				    errno_text(err));
	if (d->port_attr.state != IBV_PORT_ACTIVE)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s port %d is %s, not ACTIVE: check cable and switch, bring "
				    "the network interface up (ip link set ... up), or start a "
				    "subnet manager on InfiniBand",
				    d->name, d->port, ibv_port_state_str(d->port_attr.state));
	if (d->port_attr.link_layer == IBV_LINK_LAYER_UNSPECIFIED)
		return fail_unreliable(d->name);
	d->infiniband = d->port_attr.link_layer != IBV_LINK_LAYER_ETHERNET;
	n = verbs_addresses_find(addresses, context, d, out->address);
	out->n_addresses = n > 0 ? n : 0;
	return n > 0 ? SLUICE_OK : n;
}

/* Ranks are spread over ports with the same link layer and speed, even if these are in different
 * networks. The record lists all ports, and a peer in another network is reached through another
 * port. */
static uint64_t fabric_of(const struct verbs_device *device)
{
	return (uint64_t)device->port_attr.active_width << 16 |
	       (uint64_t)device->port_attr.active_speed << 8 | (uint64_t)device->infiniband;
}

static void try_ports(struct ibv_context *context, const struct verbs_addresses *addresses,
		      unsigned port, const struct verbs_device *device, struct usable *out)
{
	for (unsigned p = 1; p <= device->attr.phys_port_cnt && out->n < CARDS_MOST; p++) {
		struct usable_port *it = &out->port[out->n];

		if (port && p != port)
			continue;
		*it = (struct usable_port){ .device = *device };
		it->device.port = (uint8_t)p;
		if (!try_port(context, addresses, it))
			out->card[out->n++] = (struct card){ it->device.name, "",
							     fabric_of(&it->device) };
	}
	if (port > device->attr.phys_port_cnt)
		fail_quietly(SLUICE_ENOSUPP, "%s has %d port%s, not %u (SLUICE_DEVICE)",
			     device->name, device->attr.phys_port_cnt,
			     device->attr.phys_port_cnt == 1 ? "" : "s", port);
}

static void try_device(struct ibv_device *device, const struct verbs_addresses *addresses,
		       unsigned port, struct usable *out)
{
	struct verbs_device d = { .gid_index = -1 };
	struct ibv_context *context;
	int err;

	snprintf(d.name, sizeof(d.name), "%s", ibv_get_device_name(device));
	if (check_protocol(device, d.name))
		return;
	context = ibv_open_device(device);
	if (!context) {
		fail_quietly(SLUICE_ENOSUPP,
			     "%s cannot be opened: %s; check the rights of "
			     "/dev/infiniband/uverbs*",
			     d.name, errno_text(errno));
		return;
	}
	err = ibv_query_device(context, &d.attr);
	if (err)
		fail_quietly(SLUICE_ENOSUPP, "%s cannot be queried: %s", d.name, errno_text(err));
	else if (!d.attr.max_srq && d.attr.vendor_id == MICROSOFT)
		fail_quietly(SLUICE_ENOSUPP,
			     "%s is a MANA card, on which this transport was never tried: install "
			     "libfabric and let SLUICE_TRANSPORT allow ofi",
			     d.name);
	else
		try_ports(context, addresses, port, &d, out);
	ibv_close_device(context);
}

/* Tries all devices that the list allows, and returns their number. If one of them cannot be used,
 * the last error gives the reason. */
static int try_all(struct ibv_device **list, int n, const char *allowed,
		   const struct verbs_addresses *addresses, struct usable *out)
{
	int n_allowed = 0;
	unsigned port;

	for (int i = 0; i < n && out->n < CARDS_MOST; i++) {
		if (!card_list_allows(allowed, ibv_get_device_name(list[i]), NULL, &port))
			continue;
		n_allowed++;
		try_device(list[i], addresses, port, out);
	}
	return n_allowed;
}

static void add_address(const struct usable_port *port, int address,
			struct verbs_device out[VERBS_DEVICES_MOST], int *n)
{
	const struct verbs_address *at = &port->address[address];

	if (address >= port->n_addresses || *n == VERBS_DEVICES_MOST)
		return;
	out[*n] = port->device;
	out[*n].address = at->address;
	out[*n].prefix = at->prefix;
	out[*n].gid = at->gid;
	out[*n].gid_index = at->gid_index;
	out[*n].pkey = at->pkey;
	out[*n].pkey_index = at->pkey_index;
	if (*n)
		snprintf(out[*n].reason, sizeof(out->reason), "for peers in this network only");
	++*n;
}

static int list_in_order(struct usable *usable, const char *allowed,
			 struct verbs_device out[VERBS_DEVICES_MOST], int *n_out)
{
	struct card_choice order[CARDS_MOST];
	char gpu[BUS_ID_TEXT], *reason = out[0].reason;

	cards_order_here(usable->card, usable->n, order, gpu);
	*n_out = 0;
	for (int i = 0; i < VERBS_ADDRESSES_MOST; i++)
		add_address(&usable->port[order[0].card], i, out, n_out);
	for (int i = 0; i < VERBS_ADDRESSES_MOST; i++)
		for (size_t p = 1; p < usable->n; p++)
			add_address(&usable->port[order[p].card], i, out, n_out);
	if (allowed && *allowed && usable->n == 1)
		snprintf(reason, sizeof(out->reason), "SLUICE_DEVICE=%.150s", allowed);
	else
		card_choice_text(&order[0], gpu, usable->n, reason, sizeof(out->reason));
	return SLUICE_OK;
}

/* Fails because no device has this name. */
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

static int find_among(struct ibv_device **list, int n, const struct verbs_wanted *wanted,
		      struct verbs_device out[VERBS_DEVICES_MOST], int *n_out)
{
	struct usable *usable = calloc(1, sizeof(*usable));
	struct verbs_addresses *addresses = NULL;
	const int no_cm = check_cm_device();
	int rc = usable ? verbs_addresses_open(wanted, !no_cm, &addresses) :
			  fail(SLUICE_ENOMEM, "no memory for %d devices", n);

	if (!rc && !try_all(list, n, wanted->device, addresses, usable))
		rc = fail_unknown(wanted->device, list, n);
	else if (!rc && !usable->n)
		rc = no_cm ? check_cm_device() : SLUICE_ENOSUPP;
	else if (!rc)
		rc = list_in_order(usable, wanted->device, out, n_out);
	verbs_addresses_close(&addresses);
	free(usable);
	return rc;
}

int verbs_devices_find(const struct verbs_wanted *wanted,
		       struct verbs_device out[VERBS_DEVICES_MOST], int *n_out)
{
	struct ibv_device **list;
	int n = 0, rc = card_list_check("SLUICE_DEVICE", wanted->device, 1);

	if (rc)
		return rc;
	verbs_fork_guard();
	errno = 0;
	list = ibv_get_device_list(&n);
	rc = list && n ? find_among(list, n, wanted, out, n_out) : explain_none(errno);
	if (list)
		ibv_free_device_list(list);
	return rc;
}

int verbs_device_choose(const struct verbs_wanted *wanted, struct verbs_device *out)
{
	struct verbs_device *all = calloc(VERBS_DEVICES_MOST, sizeof(*all));
	int n, rc = all ? verbs_devices_find(wanted, all, &n) :
			  fail(SLUICE_ENOMEM, "verbs: no memory for %d devices",
			       VERBS_DEVICES_MOST);

	if (!rc)
		*out = all[0];
	free(all);
	return rc;
}
