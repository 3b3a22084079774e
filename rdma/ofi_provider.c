/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_provider.h. */
#include "rdma/ofi_provider.h"
#include "base/error.h"
#include "rdma/card_list.h"
#include "rdma/card_choice.h"
#include "sluice.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_endpoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum wait { WAIT_FD, WAIT_FD_RACES, WAIT_TIMER };
enum {
	OFFSETS = 0, /* a peer names memory by its offset in the region */
	OF_CARDS = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY
};

struct ofi_row {
	const char *name; /* its name in libfabric */
	int unasked;      /* chosen without SLUICE_PROVIDER */
	int tcp;
	int mr_mode; /* registration modes that it may require */
	enum wait wait;
	enum fi_progress progress;
	size_t key_bytes;
	enum ofi_notice notice; /* the best notice to try */
	int takes_receives;     /* a notice uses up a receive, even if it is not reported */
	int device_memory;      /* it may read puts from GPU memory; this is then tested */
	uint32_t since;         /* the first usable version of libfabric */
	const char *why;        /* not before that */
};

/* The version of a provider in libfabric's own tree, such as 1.18.1, as it reports it. */
#define TREE(major, minor, patch) FI_VERSION((major)*100 + (minor), (patch)*10)

struct defect {
	const char *provider;
	uint32_t first, mended; /* TREE() */
	const char *text;       /* the defect, and the remedy */
};

static const struct defect defects[] = {
	{ "net", 0, TREE(1, 18, 1),
	  "its descriptor stays readable after the first completion, so a waiting rank also polls "
	  "every 10 ms: install libfabric 1.18.1 or later" },
	{ "tcp", 0, TREE(1, 18, 1),
	  "its descriptor stays readable after the first completion, so a waiting rank also polls "
	  "every 10 ms: install libfabric 1.18.1 or later" },
	{ "cxi", 0, TREE(2, 5, 0),
	  "its puts cannot announce themselves, so a message follows each put, which costs a round "
	  "trip: install libfabric 2.5.0 or later and set FI_CXI_ENABLE_WRITEDATA=1" },
	{ "opx", 0, TREE(2, 1, 0),
	  "its puts cannot announce themselves, so a message follows each put, which costs a round "
	  "trip: install libfabric 2.1.0 or later" },
};
enum { DEFECTS = sizeof(defects) / sizeof(defects[0]) };

/* In order of preference. A provider without a row can be named. */
static const struct ofi_row rows[] = {
	{ "efa", 1, 0, FI_MR_LOCAL | OF_CARDS, WAIT_FD, FI_PROGRESS_MANUAL, 8, OFI_NOTICE_NARROW, 1,
	  1, FI_VERSION(1, 18), "has no puts that announce themselves" },
	{ "cxi", 1, 0, FI_MR_ENDPOINT | FI_MR_ALLOCATED, WAIT_FD_RACES, FI_PROGRESS_MANUAL, 4,
	  OFI_NOTICE_WIDE, 0, 1, OFI_API, "" },
	{ "opx", 1, 0, OFFSETS, WAIT_TIMER, FI_PROGRESS_MANUAL, 8, OFI_NOTICE_WIDE, 1, 1, OFI_API,
	  "" },
	{ "psm3", 1, 0, OF_CARDS, WAIT_FD, FI_PROGRESS_MANUAL, 8, OFI_NOTICE_WIDE, 0, 1, OFI_API,
	  "" },
	/* Before this version, reliable datagrams over TCP were a separate provider. */
	{ "tcp", 1, 1, OFFSETS, WAIT_FD, FI_PROGRESS_MANUAL, 8, OFI_NOTICE_WIDE, 0, 0,
	  FI_VERSION(1, 18), "has connections only" },
	{ "net", 1, 1, OFFSETS, WAIT_FD, FI_PROGRESS_MANUAL, 8, OFI_NOTICE_WIDE, 0, 0, OFI_API,
	  "" },
	{ "tcp;ofi_rxm", 0, 1, OFFSETS, WAIT_FD, FI_PROGRESS_MANUAL, 8, OFI_NOTICE_WIDE, 0, 0,
	  OFI_API, "" },
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
/* For a provider that the user names and that has no row: grant what it asks for, rely on nothing.
 */
static const struct ofi_row unknown = {
	"",
	0,
	0,
	FI_MR_LOCAL | FI_MR_ENDPOINT | OF_CARDS,
	WAIT_FD_RACES,
	FI_PROGRESS_MANUAL,
	8,
	OFI_NOTICE_WIDE,
	1,
	1,
	OFI_API,
	"",
};

/* Prefixes of interfaces that lead to containers or virtual machines of this node. */
static const char *const inward[] = { "docker", "br-",    "virbr", "veth",
				      "cni",    "podman", "lxcbr", "flannel" };

static const struct ofi_row *row_of(const char *provider)
{
	for (int i = 0; i < ROWS; i++)
		if (!strcmp(rows[i].name, provider))
			return &rows[i];
	return &unknown;
}

/* ---- interfaces ------------------------------------------------------------------- */

/* Returns the address as text, or "" if the provider does not use IP addresses. */
static const char *address_text(const struct fi_info *info, char text[INET6_ADDRSTRLEN])
{
	const struct sockaddr_in *in = info->src_addr;
	const struct sockaddr_in6 *in6 = info->src_addr;

	text[0] = '\0';
	if (in && info->addr_format == FI_SOCKADDR_IN)
		inet_ntop(AF_INET, &in->sin_addr, text, INET6_ADDRSTRLEN);
	else if (in6 && info->addr_format == FI_SOCKADDR_IN6)
		inet_ntop(AF_INET6, &in6->sin6_addr, text, INET6_ADDRSTRLEN);
	return text;
}

static const char *domain_of(const struct fi_info *info)
{
	return info->domain_attr->name ? info->domain_attr->name : "";
}

static int leads_nowhere(const struct fi_info *info)
{
	const struct sockaddr_in *in = info->src_addr;
	const struct sockaddr_in6 *in6 = info->src_addr;

	if (in && info->addr_format == FI_SOCKADDR_IN && ntohl(in->sin_addr.s_addr) >> 24 == 127)
		return 1;
	if (in6 && info->addr_format == FI_SOCKADDR_IN6 &&
	    (IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr)))
		return 1;
	for (size_t i = 0; i < sizeof(inward) / sizeof(inward[0]); i++)
		if (!strncmp(domain_of(info), inward[i], strlen(inward[i])))
			return 1;
	return 0;
}

static int interface_fits(const struct fi_info *info, const char *interface)
{
	char text[INET6_ADDRSTRLEN];

	if (card_list_is_open(interface) && leads_nowhere(info))
		return 0;
	return card_list_allows(interface, domain_of(info), address_text(info, text), NULL);
}

/* ---- the choice ------------------------------------------------------------------- */

/* The hints omit features that Sluice does not need: order, and events that the notices replace. */
static struct fi_info *hints_for(const struct ofi_library *l, const char *provider)
{
	const struct ofi_row *row = row_of(provider);
	struct fi_info *hints = l->dupinfo(NULL);

	if (!hints)
		return NULL;
	hints->caps = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
		      FI_REMOTE_WRITE;
	hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = row->mr_mode;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = row->progress;
	if (*provider)
		hints->fabric_attr->prov_name = strdup(provider);
	return hints;
}

/* The card of an entry, as card_choice.c takes it. Cards reach each other if libfabric has one
 * fabric for them. */
static struct card card_of(const struct fi_info *info, char bus[BUS_ID_TEXT])
{
	const struct fid_nic *nic = info->nic;
	const struct fi_bus_attr *at = nic ? nic->bus_attr : NULL;

	bus[0] = '\0';
	if (at && at->bus_type == FI_BUS_PCI)
		snprintf(bus, BUS_ID_TEXT, "%04x:%02x:%02x.%x", at->attr.pci.domain_id,
			 at->attr.pci.bus_id, at->attr.pci.device_id, at->attr.pci.function_id);
	return (struct card){ nic && nic->device_attr && nic->device_attr->name ?
				      nic->device_attr->name :
				      domain_of(info),
			      bus, 0 };
}

static int same_fabric(const struct fi_info *a, const struct fi_info *b)
{
	const char *x = a->fabric_attr->name, *y = b->fabric_attr->name;

	return a->addr_format == b->addr_format && !strcmp(x ? x : "", y ? y : "");
}

/* Returns the card that card_choice.c gives this rank among the provider's cards on the fabric of
 * `first`. TCP keeps to the first, because addresses of two networks may not reach each other. */
static struct fi_info *by_place(struct fi_info *list, struct fi_info *first, const char *interface)
{
	struct fi_info *entry[CARDS_MOST];
	struct card card[CARDS_MOST];
	char bus[CARDS_MOST][BUS_ID_TEXT], gpu[BUS_ID_TEXT];
	struct card_choice order[CARDS_MOST];
	size_t n = 0;

	if (!first || row_of(first->fabric_attr->prov_name)->tcp)
		return first;
	for (struct fi_info *i = list; i && n < CARDS_MOST; i = i->next) {
		int known = 0;

		if (strcmp(i->fabric_attr->prov_name, first->fabric_attr->prov_name) ||
		    !same_fabric(i, first) || !interface_fits(i, interface))
			continue;
		for (size_t k = 0; k < n && !known; k++)
			known = !strcmp(domain_of(entry[k]), domain_of(i));
		if (known)
			continue;
		entry[n] = i;
		card[n] = card_of(i, bus[n]);
		n++;
	}
	if (n < 2)
		return first;
	cards_order_here(card, n, order, gpu);
	return entry[order[0].card];
}

/* Returns the first entry for the provider and the interface; IPv4 before IPv6. */
static struct fi_info *first_fit(struct fi_info *list, const char *provider, const char *interface)
{
	struct fi_info *found = NULL;

	for (struct fi_info *i = list; i; i = i->next) {
		if (strcmp(i->fabric_attr->prov_name, provider) || !interface_fits(i, interface))
			continue;
		if (i->addr_format != FI_SOCKADDR_IN6)
			return i;
		if (!found)
			found = i;
	}
	return found;
}

static int is_listed(const struct fi_info *list, const char *provider)
{
	for (; list; list = list->next)
		if (!strcmp(list->fabric_attr->prov_name, provider))
			return 1;
	return 0;
}

static void list_names(const struct fi_info *list, char *text, size_t cap)
{
	const char *last = "";

	text[0] = '\0';
	for (; list; list = list->next) {
		const char *name = list->fabric_attr->prov_name;
		size_t used = strlen(text);

		if (strcmp(name, last) && used + 1 < cap)
			snprintf(text + used, cap - used, "%s%s", used ? ", " : "", name);
		last = name;
	}
}

static void list_interfaces(const struct fi_info *list, const char *provider, char *text,
			    size_t cap)
{
	text[0] = '\0';
	for (; list; list = list->next) {
		char address[INET6_ADDRSTRLEN];
		size_t used = strlen(text);

		if (!strcmp(list->fabric_attr->prov_name, provider) && used + 1 < cap)
			snprintf(text + used, cap - used, "%s%s %s", used ? ", " : "",
				 domain_of(list), address_text(list, address));
	}
}

static int too_old(const struct ofi_row *row, uint32_t version)
{
	return FI_VERSION_LT(version, row->since);
}

static int choose_named(struct fi_info *list, const char *provider, const char *interface,
			uint32_t version, struct fi_info **out)
{
	const struct ofi_row *row = row_of(provider);
	char there[300];

	if (too_old(row, version))
		return fail_quietly(SLUICE_ENOSUPP,
				    "provider %s %s in libfabric %u.%u: it needs %u.%u or later%s",
				    provider, row->why, FI_MAJOR(version), FI_MINOR(version),
				    FI_MAJOR(row->since), FI_MINOR(row->since),
				    row->tcp ? "; for TCP name the provider net" : "");
	*out = by_place(list, first_fit(list, provider, interface), interface);
	if (*out)
		return SLUICE_OK;
	if (!is_listed(list, provider)) {
		list_names(list, there, sizeof(there));
		return fail_quietly(SLUICE_ENOSUPP,
				    "libfabric has no provider %s here that can put and get "
				    "between unconnected endpoints; it has: %s",
				    provider, *there ? there : "none");
	}
	list_interfaces(list, provider, there, sizeof(there));
	return fail_quietly(SLUICE_ENOSUPP, "provider %s has no usable interface%s%s: it has %s%s",
			    provider, *interface ? " of SLUICE_INTERFACE=" : "", interface, there,
			    *interface ?
				    "" :
				    "; loopback, link-local addresses and bridges of "
				    "containers are used only where SLUICE_INTERFACE names them");
}

static int choose_any(struct fi_info *list, const char *interface, uint32_t version,
		      struct fi_info **out)
{
	const char *present = NULL;
	char there[300];

	for (int i = 0; i < ROWS; i++) {
		if (!rows[i].unasked || too_old(&rows[i], version) ||
		    !is_listed(list, rows[i].name))
			continue;
		*out = by_place(list, first_fit(list, rows[i].name, interface), interface);
		if (*out)
			return SLUICE_OK;
		present = rows[i].name;
	}
	if (present)
		return choose_named(list, present, interface, version, out);
	list_names(list, there, sizeof(there));
	return fail_quietly(
		SLUICE_ENOSUPP,
		"libfabric %u.%u has none of the providers that Sluice chooses by itself "
		"(efa, cxi, opx, psm3, tcp, net); SLUICE_PROVIDER can name another one of: %s",
		FI_MAJOR(version), FI_MINOR(version), *there ? there : "none at all");
}

/* Returns info, or the entry that libfabric offers with more capabilities; info is then freed. */
static struct fi_info *ask_more(const struct ofi_library *l, struct fi_info *info, uint64_t caps,
				int mr_mode)
{
	const uint64_t caps_before = info->caps;
	const int mr_mode_before = info->domain_attr->mr_mode;
	struct fi_info *more = NULL, *out = NULL;

	info->caps |= caps;
	info->domain_attr->mr_mode |= mr_mode;
	if (!l->getinfo(OFI_API, NULL, NULL, 0, info, &more) && more)
		out = l->dupinfo(more);
	if (more)
		l->freeinfo(more);
	if (out) {
		l->freeinfo(info);
		return out;
	}
	info->caps = caps_before;
	info->domain_attr->mr_mode = mr_mode_before;
	return info;
}

/* Requests the names of senders if a notice has no room for a token, and device memory. Without the
 * names, messages announce puts; without device memory support, device memory is copied. */
static struct fi_info *settle_info(const struct ofi_library *l, const struct fi_info *found)
{
	struct fi_info *info = l->dupinfo(found);

	if (info && info->domain_attr->cq_data_size < 8 && info->domain_attr->cq_data_size)
		info = ask_more(l, info, FI_SOURCE, 0);
	if (info && row_of(info->fabric_attr->prov_name)->device_memory)
		info = ask_more(l, info, FI_HMEM, FI_MR_HMEM);
	return info;
}

/* ---- what was chosen -------------------------------------------------------------- */

int ofi_choice_is_tcp(const struct ofi_choice *choice)
{
	return choice->row->tcp;
}

int ofi_choice_has_descriptor(const struct ofi_choice *choice)
{
	return choice->row->wait != WAIT_TIMER;
}

int ofi_choice_naps(const struct ofi_choice *choice)
{
	return choice->row->wait == WAIT_FD_RACES;
}

int ofi_choice_takes_receives(const struct ofi_choice *choice)
{
	return choice->row->takes_receives || choice->info->mode & FI_RX_CQ_DATA;
}

int ofi_choice_has_device_memory(const struct ofi_choice *choice)
{
	return choice->row->device_memory && choice->info->caps & FI_HMEM;
}

size_t ofi_choice_key_bytes(const struct ofi_choice *choice)
{
	const size_t bytes = choice->info->domain_attr->mr_key_size;

	return bytes < choice->row->key_bytes ? bytes : choice->row->key_bytes;
}

enum ofi_notice ofi_choice_notice(const struct ofi_choice *choice)
{
	const struct fi_info *info = choice->info;
	const size_t bytes = info->domain_attr->cq_data_size;
	const enum ofi_notice promised = bytes >= 8                           ? OFI_NOTICE_WIDE :
					 bytes >= 4 && info->caps & FI_SOURCE ? OFI_NOTICE_NARROW :
										OFI_NOTICE_MESSAGE;

	return promised < choice->row->notice ? choice->row->notice : promised;
}

const char *ofi_choice_defect(const struct ofi_choice *choice)
{
	const struct fi_fabric_attr *fabric = choice->info->fabric_attr;

	for (int i = 0; i < DEFECTS; i++)
		if (!strcmp(defects[i].provider, fabric->prov_name) &&
		    fabric->prov_version >= defects[i].first &&
		    fabric->prov_version < defects[i].mended)
			return defects[i].text;
	return NULL;
}

int ofi_choose(const char *provider, const char *interface, struct ofi_choice *out)
{
	const struct ofi_library *l;
	struct fi_info *hints, *list = NULL, *found = NULL;
	char address[INET6_ADDRSTRLEN];
	struct ofi_choice choice;
	uint32_t version;
	int rc = ofi_library_load(&l), err;

	*out = (struct ofi_choice){ 0 };
	provider = provider ? provider : "";
	interface = interface ? interface : "";
	if (!rc)
		rc = card_list_check("SLUICE_INTERFACE", interface, 0);
	if (rc)
		return rc;
	version = l->version();
	hints = hints_for(l, provider);
	if (!hints)
		return fail(SLUICE_ENOMEM, "ofi: no memory for the hints of libfabric");
	err = l->getinfo(OFI_API, NULL, NULL, 0, hints, &list);
	l->freeinfo(hints);
	if (err && err != -FI_ENODATA)
		return fail_quietly(SLUICE_ENOSUPP, "fi_getinfo: %s", l->strerror(-err));
	rc = *provider ? choose_named(list, provider, interface, version, &found) :
			 choose_any(list, interface, version, &found);
	if (!rc) {
		choice = (struct ofi_choice){ .library = l,
					      .row = row_of(found->fabric_attr->prov_name),
					      .info = settle_info(l, found) };
		snprintf(choice.text, sizeof(choice.text), "%s on %s%s%s (libfabric %u.%u)",
			 found->fabric_attr->prov_name, domain_of(found),
			 *address_text(found, address) ? ", " : "", address_text(found, address),
			 FI_MAJOR(version), FI_MINOR(version));
		if (choice.info)
			*out = choice;
		else
			rc = fail(SLUICE_ENOMEM, "ofi: no memory for libfabric's description of %s",
				  choice.text);
	}
	if (list)
		l->freeinfo(list);
	return rc;
}

void ofi_choice_end(struct ofi_choice *choice)
{
	if (choice->info)
		choice->library->freeinfo(choice->info);
	choice->info = NULL;
}
