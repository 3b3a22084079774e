/* SPDX-License-Identifier: BSD-3-Clause
 * See verbs_address.h. */
#include "rdma/verbs_address.h"
#include "base/error.h"
#include "rdma/card_list.h"
#include "sluice.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	GID_ENTRIES = 256,
	IP_ADDRESSES_MOST = VERBS_ADDRESSES_MOST - 1,
	PREFIX_GID = 64,
	MULTICAST = 0xff,   /* the first byte of such a GID */
	PKEY_FULL = 0x8000, /* the bit that marks a full member of a partition */
	ADDRESS_BYTES = 16,
	/* The prefix lengths for addresses that no interface of this network namespace has. */
	PREFIX_V4 = 24,
	PREFIX_V6 = 64
};

/* An address in 16 bytes. IPv4 addresses have the form in which GIDs contain them. */
struct flat {
	uint8_t bytes[ADDRESS_BYTES];
};

struct verbs_addresses {
	const char *interfaces;
	int by_ip;
	int gid_index; /* -1: any */
	struct flat network;
	unsigned network_bits; /* 0: the network contains all addresses */
	char network_text[64];
	struct ifaddrs *all;
};

static int is_v4(const struct flat *f)
{
	static const uint8_t prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	return memcmp(f->bytes, prefix, sizeof(prefix)) == 0;
}

static struct flat flat_v4(const void *four_bytes)
{
	struct flat f = { { [10] = 0xff, [11] = 0xff } };

	memcpy(f.bytes + 12, four_bytes, 4);
	return f;
}

/* Returns 0 if the address is neither IPv4 nor IPv6. */
static int flatten(const struct sockaddr *address, struct flat *out)
{
	if (address && address->sa_family == AF_INET)
		*out = flat_v4(&((const struct sockaddr_in *)(const void *)address)->sin_addr);
	else if (address && address->sa_family == AF_INET6)
		memcpy(out->bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr,
		       sizeof(out->bytes));
	else
		return 0;
	return 1;
}

static struct sockaddr_storage unflatten(const struct flat *f)
{
	struct sockaddr_storage address = { .ss_family = is_v4(f) ? AF_INET : AF_INET6 };

	if (is_v4(f))
		memcpy(&((struct sockaddr_in *)(void *)&address)->sin_addr, f->bytes + 12, 4);
	else
		memcpy(&((struct sockaddr_in6 *)(void *)&address)->sin6_addr, f->bytes,
		       sizeof(f->bytes));
	return address;
}

static int is_link_local(const struct flat *f)
{
	return f->bytes[0] == 0xfe && (f->bytes[1] & 0xc0) == 0x80;
}

static int same_bits(const struct flat *a, const struct flat *b, unsigned bits)
{
	const unsigned bytes = bits / 8, rest = bits % 8;

	return !memcmp(a->bytes, b->bytes, bytes) &&
	       (!rest || !((a->bytes[bytes] ^ b->bytes[bytes]) & 0xff00 >> rest));
}

/* ---- what the user allows ------------------------------------------------------------ */

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

static int parse_network(const char *text, struct verbs_addresses *out)
{
	char address[INET6_ADDRSTRLEN], *end = NULL;
	const char *slash = text ? strchr(text, '/') : NULL;
	uint8_t four[4];
	long bits = -1;
	int most = 0;

	if (!text || !*text)
		return SLUICE_OK;
	if (slash && slash - text < (long)sizeof(address)) {
		snprintf(address, sizeof(address), "%.*s", (int)(slash - text), text);
		if (inet_pton(AF_INET, address, four) == 1) {
			out->network = flat_v4(four);
			most = 32;
		} else if (inet_pton(AF_INET6, address, out->network.bytes) == 1) {
			most = 128;
		}
		bits = strtol(slash + 1, &end, 10);
	}
	if (!most || end == slash + 1 || *end || bits < 1 || bits > most)
		return fail_quietly(SLUICE_EINVAL,
				    "SLUICE_GID_NET=\"%.60s\" is not a network such as 10.1.0.0/16 "
				    "or fd00:1::/64",
				    text);
	out->network_bits = (unsigned)bits + (most == 32 ? 96 : 0);
	snprintf(out->network_text, sizeof(out->network_text), "%s", text);
	return SLUICE_OK;
}

int verbs_addresses_open(const struct verbs_wanted *wanted, int by_ip, struct verbs_addresses **out)
{
	struct verbs_addresses *a = calloc(1, sizeof(*a));
	int rc;

	*out = a;
	if (!a)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*a));
	a->interfaces = wanted->interface;
	a->by_ip = by_ip;
	rc = parse_gid_index(wanted->gid_index, &a->gid_index);
	if (!rc)
		rc = parse_network(wanted->gid_net, a);
	if (!rc)
		rc = card_list_check("SLUICE_INTERFACE", wanted->interface, 0);
	if (!rc && getifaddrs(&a->all) < 0)
		a->all = NULL;
	if (rc)
		verbs_addresses_close(out);
	return rc;
}

void verbs_addresses_close(struct verbs_addresses **a)
{
	if (*a && (*a)->all)
		freeifaddrs((*a)->all);
	free(*a);
	*a = NULL;
}

/* Returns the interface that has an address, or NULL if none has it. */
static const struct ifaddrs *interface_of(const struct verbs_addresses *a, const struct flat *f)
{
	struct flat its;

	for (const struct ifaddrs *at = a->all; at; at = at->ifa_next)
		if (flatten(at->ifa_addr, &its) && !memcmp(&its, f, sizeof(its)))
			return at;
	return NULL;
}

static int is_allowed(const struct verbs_addresses *a, const struct flat *f)
{
	const struct sockaddr_storage address = unflatten(f);
	const struct ifaddrs *interface = interface_of(a, f);
	char text[INET6_ADDRSTRLEN];

	if (a->network_bits && !same_bits(&a->network, f, a->network_bits))
		return 0;
	if (!a->interfaces || !*a->interfaces)
		return 1;
	inet_ntop(address.ss_family, is_v4(f) ? f->bytes + 12 : f->bytes, text, sizeof(text));
	return card_list_allows(a->interfaces, interface ? interface->ifa_name : text, text, NULL);
}

static uint8_t prefix_of(const struct verbs_addresses *a, const struct flat *f)
{
	const struct ifaddrs *interface = interface_of(a, f);
	struct flat mask;
	unsigned bits = 0;

	if (!interface || !flatten(interface->ifa_netmask, &mask))
		return is_v4(f) ? PREFIX_V4 : PREFIX_V6;
	for (int i = is_v4(f) ? 12 : 0; i < ADDRESS_BYTES; i++)
		bits += (unsigned)__builtin_popcount(mask.bytes[i]);
	return (uint8_t)bits;
}

/* ---- finding --------------------------------------------------------------------------- */

static void add_usable(const struct verbs_addresses *a, const struct flat *f, int gid_index,
		       struct verbs_address *out)
{
	*out = (struct verbs_address){ .address = unflatten(f),
				       .prefix = prefix_of(a, f),
				       .gid_index = gid_index };
	memcpy(out->gid.raw, f->bytes, sizeof(out->gid.raw));
}

static int fail_without(const struct verbs_addresses *a, const struct verbs_device *device,
			int refused)
{
	if (refused && a->network_bits)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s port %d has no address that SLUICE_GID_NET=%s and "
				    "SLUICE_INTERFACE allow",
				    device->name, device->port, a->network_text);
	if (refused)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s port %d has no address that SLUICE_INTERFACE=%.80s allows",
				    device->name, device->port, a->interfaces);
	if (a->gid_index >= 0)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s port %d: GID %d is not a %s address (SLUICE_GID_INDEX); "
				    "show_gids or ibv_devinfo -v lists them",
				    device->name, device->port, a->gid_index,
				    device->infiniband ? "unicast" : "RoCEv2");
	if (device->infiniband)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s port %d is InfiniBand without an IP address, and has no "
				    "GID: check the subnet manager",
				    device->name, device->port);
	return fail_quietly(SLUICE_ENOSUPP,
			    "%s port %d has no usable GID (a RoCEv2 one with an IPv4 or global "
			    "IPv6 address): give its network interface an address (ip addr add) "
			    "and bring it up",
			    device->name, device->port);
}

/* ---- GIDs ------------------------------------------------------------------------------ */

/* Finds a partition of which the port is a full member, because limited members do not reach each
 * other (InfiniBand Architecture Specification, 10.9.3). */
static int find_partition(struct ibv_context *context, const struct verbs_device *device,
			  struct verbs_address *out)
{
	__be16 key;

	for (int i = 0; i < device->port_attr.pkey_tbl_len; i++) {
		if (ibv_query_pkey(context, device->port, i, &key) || !(be16toh(key) & PKEY_FULL))
			continue;
		out->pkey = be16toh(key);
		out->pkey_index = (uint16_t)i;
		return 0;
	}
	return fail_quietly(SLUICE_ENOSUPP,
			    "%s port %d is a full member of no partition (/sys/class/infiniband/"
			    "%s/ports/%d/pkeys), and limited members do not reach each other: "
			    "let the subnet manager make it a full member",
			    device->name, device->port, device->name, device->port);
}

/* Adds the GID with this index. Returns how many GIDs it has added, or SLUICE_ENOSUPP. */
static int add_gid(const struct verbs_addresses *a, struct ibv_context *context,
		   const struct verbs_device *device, int index, struct verbs_address *out)
{
	struct flat f;
	int rc;

	*out = (struct verbs_address){ .prefix = PREFIX_GID, .gid_index = index };
	if (ibv_query_gid(context, device->port, index, &out->gid))
		return fail_without(a, device, 0);
	memcpy(f.bytes, out->gid.raw, sizeof(f.bytes));
	if (!f.bytes[0] || f.bytes[0] == MULTICAST)
		return fail_without(a, device, 0);
	if (!is_allowed(a, &f))
		return fail_without(a, device, 1);
	rc = find_partition(context, device, out);
	return rc ? rc : 1;
}

/* ---- Ethernet -------------------------------------------------------------------------- */

static int is_of_port(const struct verbs_addresses *a, const struct ibv_gid_entry *entry, int port)
{
	return (int)entry->port_num == port && entry->gid_type == IBV_GID_TYPE_ROCE_V2 &&
	       (a->gid_index < 0 || (int)entry->gid_index == a->gid_index);
}

/* rdma_cm connects by IP address, but not by link-local addresses or over RoCEv1, which no router
 * passes. A link-local address does not show to which network it belongs, and every port has one,
 * so it is used only if the user names it. */
static int find_gids(const struct verbs_addresses *a, struct ibv_context *context,
		     const struct verbs_device *device,
		     struct verbs_address out[VERBS_ADDRESSES_MOST])
{
	struct ibv_gid_entry entries[GID_ENTRIES];
	ssize_t n = ibv_query_gid_table(context, entries, GID_ENTRIES, 0);
	int found = 0, refused = 0, local = -1;

	for (int v4 = 1; v4 >= 0; v4--)
		for (ssize_t i = 0; i < n && found < IP_ADDRESSES_MOST; i++) {
			struct flat f;

			memcpy(f.bytes, entries[i].gid.raw, sizeof(f.bytes));
			if (is_v4(&f) != v4 || !is_of_port(a, &entries[i], device->port))
				continue;
			if (is_link_local(&f))
				local = (int)entries[i].gid_index;
			else if (!a->by_ip || !is_allowed(a, &f))
				refused = a->by_ip;
			else
				add_usable(a, &f, (int)entries[i].gid_index, &out[found++]);
		}
	if (!found && a->gid_index >= 0 && local >= 0)
		return add_gid(a, context, device, local, out);
	return found ? found : fail_without(a, device, refused);
}

/* ---- InfiniBand ------------------------------------------------------------------------ */

/* Returns 1 if an address leads to the device's port. Binds to the address to find that out. */
static int leads_to(struct rdma_event_channel *channel, struct sockaddr *address,
		    const struct verbs_device *device)
{
	struct rdma_cm_id *id;
	int it_does;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return 0;
	it_does = !rdma_bind_addr(id, address) && id->verbs &&
		  !strcmp(ibv_get_device_name(id->verbs->device), device->name) &&
		  id->port_num == device->port;
	rdma_destroy_id(id);
	return it_does;
}

static int find_ipoib(const struct verbs_addresses *a, const struct verbs_device *device,
		      struct verbs_address out[VERBS_ADDRESSES_MOST])
{
	struct rdma_event_channel *channel = a->by_ip ? rdma_create_event_channel() : NULL;
	int found = 0;
	struct flat f;

	for (struct ifaddrs *at = a->all; channel && at && found < IP_ADDRESSES_MOST;
	     at = at->ifa_next) {
		if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET ||
		    !leads_to(channel, at->ifa_addr, device))
			continue;
		flatten(at->ifa_addr, &f);
		if (is_allowed(a, &f))
			add_usable(a, &f, -1, &out[found++]);
	}
	if (channel)
		rdma_destroy_event_channel(channel);
	return found;
}

/* The GID comes last, so that two ranks with IP addresses in one network connect by these. */
static int find_infiniband(const struct verbs_addresses *a, struct ibv_context *context,
			   const struct verbs_device *device,
			   struct verbs_address out[VERBS_ADDRESSES_MOST])
{
	const int found = find_ipoib(a, device, out),
		  more = add_gid(a, context, device, a->gid_index < 0 ? 0 : a->gid_index,
				 &out[found]);

	return more > 0 ? found + more : found ? found : more;
}

int verbs_addresses_find(const struct verbs_addresses *a, struct ibv_context *context,
			 const struct verbs_device *device,
			 struct verbs_address out[VERBS_ADDRESSES_MOST])
{
	return device->infiniband ? find_infiniband(a, context, device, out) :
				    find_gids(a, context, device, out);
}
