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
#include <unistd.h>

enum wait { WAIT_FD, WAIT_FD_RACES, WAIT_TIMER };
enum {
	OFFSETS = 0, /* a peer names memory by its offset in the region */
	OF_CARDS = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY
};

struct ofi_row {
	const char *name;     /* the name that SLUICE_PROVIDER uses */
	const char *provider; /* its name in libfabric, if that differs */
	const char *fabric;   /* the row is only for this fabric of the provider; NULL: for all
				 other fabrics */
	int unasked;          /* 1: chosen even without SLUICE_PROVIDER */
	int tcp;
	int tcp_by_interface; /* 1: the provider is TCP if its device is a network interface */
	int mr_mode;          /* the registration modes that it may require */
	enum wait wait;
	size_t key_bytes;       /* the most bytes of a key; 0: 8 */
	enum ofi_notice notice; /* the best notice to try */
	/* If data_variable is set, only fi_writedata() sends a notice, and only if the provider
	 * makes the keys. data_variable is libfabric's variable that allows this (ofi_library.c).
	 * data_since is the first version of the provider that has the variable. */
	const char *data_variable;
	uint32_t data_since; /* TREE() */
	int unplaced;        /* 1: a completed put may not be in place, so messages cannot follow
				puts */
	int takes_receives;  /* 1: a notice uses up a receive, even if that is not reported */
	int device_memory;   /* the card may be able to read the data of puts from GPU memory,
				which is then tested */
	uint32_t since;      /* the first usable version of libfabric; 0: OFI_API */
	const char *why;     /* why earlier versions are not usable */
};

/* The version that a provider in libfabric's own tree reports, such as 1.18.1. */
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
	  "trip: install libfabric 2.5.0 or later" },
	{ "opx", 0, TREE(2, 1, 0),
	  "its puts cannot announce themselves, so a message follows each put, which costs a round "
	  "trip: install libfabric 2.1.0 or later" },
};
enum { DEFECTS = sizeof(defects) / sizeof(defects[0]) };

/* In order of preference. A provider without a row can be named.
 *
 * The rows follow the source of libfabric 2.6.0:
 * - efa and efa-direct are fabrics of one provider (prov/efa/src/efa_prov.c), and getinfo lists
 *   efa-direct first. Where the card has RDMA writes, neither heeds FI_DELIVERY_COMPLETE
 *   (efa_rma_post_write() in efa_rma.c; efa_rdm_rma_post_write() in rdm/efa_rdm_rma.c), and the
 *   card keeps no order. So each put carries a number (ofi_count.h).
 * - cxi sends data with a put only by fi_writedata(), if FI_CXI_ENABLE_WRITEDATA is set and it
 *   makes the keys (cxip_dom.c); fi_writemsg() refuses FI_REMOTE_CQ_DATA
 *   (CXIP_WRITEMSG_ALLOWED_FLAGS in cxip.h).
 * - psm3 names its domains after RDMA devices, or after network interfaces if its layer is
 *   hal_sockets (prov/psm3/psm3/hal_sockets). */
static const struct ofi_row rows[] = {
	{ .name = "efa-direct",
	  .provider = "efa",
	  .fabric = "efa-direct",
	  .mr_mode = FI_MR_LOCAL | OF_CARDS,
	  .notice = OFI_NOTICE_NARROW,
	  .unplaced = 1,
	  .takes_receives = 1,
	  .device_memory = 1,
	  .since = FI_VERSION(2, 1),
	  .why = "does not exist" },
	{ .name = "efa",
	  .unasked = 1,
	  .mr_mode = FI_MR_LOCAL | OF_CARDS,
	  .notice = OFI_NOTICE_NARROW,
	  .unplaced = 1,
	  .takes_receives = 1,
	  .device_memory = 1,
	  .since = FI_VERSION(1, 18),
	  .why = "has no puts that announce themselves" },
	{ .name = "cxi",
	  .unasked = 1,
	  .mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED,
	  .wait = WAIT_FD_RACES,
	  .key_bytes = 4,
	  .data_variable = "FI_CXI_ENABLE_WRITEDATA",
	  .data_since = TREE(2, 5, 0),
	  .device_memory = 1 },
	{ .name = "opx",
	  .unasked = 1,
	  .mr_mode = OFFSETS,
	  .wait = WAIT_TIMER,
	  .takes_receives = 1,
	  .device_memory = 1 },
	{ .name = "psm3",
	  .unasked = 1,
	  .tcp_by_interface = 1,
	  .mr_mode = OF_CARDS,
	  .device_memory = 1 },
	/* Before this version, reliable datagrams over TCP were a separate provider. */
	{ .name = "tcp",
	  .unasked = 1,
	  .tcp = 1,
	  .mr_mode = OFFSETS,
	  .since = FI_VERSION(1, 18),
	  .why = "has connections only" },
	{ .name = "net", .unasked = 1, .tcp = 1, .mr_mode = OFFSETS },
	{ .name = "tcp;ofi_rxm", .tcp = 1, .mr_mode = OFFSETS },
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
/* The row for a provider that the user names and that has no row above. It grants all modes that
 * the provider requests, and relies on no feature. */
static const struct ofi_row unknown = { .name = "",
					.mr_mode = FI_MR_LOCAL | FI_MR_ENDPOINT | OF_CARDS,
					.wait = WAIT_FD_RACES,
					.takes_receives = 1,
					.device_memory = 1 };

/* Prefixes of interfaces that lead to containers or virtual machines of this node. */
static const char *const inward[] = { "docker", "br-",    "virbr", "veth",
				      "cni",    "podman", "lxcbr", "flannel" };

static const struct ofi_row *row_named(const char *name)
{
	for (int i = 0; i < ROWS; i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	return &unknown;
}

static const struct ofi_row *row_of(const struct fi_info *info)
{
	const struct fi_fabric_attr *at = info->fabric_attr;

	for (int i = 0; i < ROWS; i++) {
		const struct ofi_row *row = &rows[i];

		if (!strcmp(row->provider ? row->provider : row->name, at->prov_name) &&
		    (!row->fabric || (at->name && !strcmp(row->fabric, at->name))))
			return row;
	}
	return &unknown;
}

/* Returns the name by which SLUICE_PROVIDER gives the entry's provider and fabric. */
static const char *name_of(const struct fi_info *info)
{
	const struct ofi_row *row = row_of(info);

	return *row->name ? row->name : info->fabric_attr->prov_name;
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

/* Returns 1 if the entry uses the kernel's sockets. If psm3 itself chooses among its cards, its
 * domain begins with "autoselect:" and lists devices. */
static int is_tcp(const struct fi_info *info)
{
	const struct ofi_row *row = row_of(info);
	const char *colon = strchr(domain_of(info), ':');
	const char *device = colon ? colon + 1 : domain_of(info);
	char path[128];

	if (!row->tcp_by_interface || !*device)
		return row->tcp;
	snprintf(path, sizeof(path), "/sys/class/net/%.*s", (int)strcspn(device, ";"), device);
	return access(path, F_OK) == 0;
}

/* ---- the choice ------------------------------------------------------------------- */

/* The hints omit features that Sluice does not need: ordering, and events that the notices
 * replace. */
static struct fi_info *hints_for(const struct ofi_library *l, const char *provider)
{
	const struct ofi_row *row = row_named(provider);
	struct fi_info *hints = l->dupinfo(NULL);

	if (!hints)
		return NULL;
	hints->caps = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
		      FI_REMOTE_WRITE;
	hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = row->mr_mode;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	if (*provider)
		hints->fabric_attr->prov_name = strdup(row->provider ? row->provider : provider);
	return hints;
}

/* Returns the card of an entry in the form for card_choice.c. Cards reach each other if libfabric
 * has one fabric for them. */
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

/* Returns the card that card_choice.c chooses for this rank among the provider's cards on the
 * fabric of `first`. With TCP this is always the first one, because addresses of two networks may
 * not reach each other. */
static struct fi_info *by_place(struct fi_info *list, struct fi_info *first, const char *interface)
{
	struct fi_info *entry[CARDS_MOST];
	struct card card[CARDS_MOST];
	char bus[CARDS_MOST][BUS_ID_TEXT], gpu[BUS_ID_TEXT];
	struct card_choice order[CARDS_MOST];
	size_t n = 0;

	if (!first || is_tcp(first))
		return first;
	for (struct fi_info *i = list; i && n < CARDS_MOST; i = i->next) {
		int known = 0;

		if (strcmp(name_of(i), name_of(first)) || !same_fabric(i, first) ||
		    !interface_fits(i, interface))
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
		if (strcmp(name_of(i), provider) || !interface_fits(i, interface))
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
		if (!strcmp(name_of(list), provider))
			return 1;
	return 0;
}

static void list_names(const struct fi_info *list, char *text, size_t cap)
{
	const char *last = "";

	text[0] = '\0';
	for (; list; list = list->next) {
		const char *name = name_of(list);
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

		if (!strcmp(name_of(list), provider) && used + 1 < cap)
			snprintf(text + used, cap - used, "%s%s %s", used ? ", " : "",
				 domain_of(list), address_text(list, address));
	}
}

static int too_old(const struct ofi_row *row, uint32_t version)
{
	return row->since && FI_VERSION_LT(version, row->since);
}

static int choose_named(struct fi_info *list, const char *provider, const char *interface,
			uint32_t version, struct fi_info **out)
{
	const struct ofi_row *row = row_named(provider);
	char there[300];

	if (too_old(row, version))
		return fail_quietly(
			SLUICE_ENOSUPP,
			"provider %s %s in libfabric %u.%u: install libfabric %u.%u or later%s",
			provider, row->why, FI_MAJOR(version), FI_MINOR(version),
			FI_MAJOR(row->since), FI_MINOR(row->since),
			row->tcp ? ", or name the provider net to use TCP" : "");
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
			    *interface ? "" :
					 "; loopback, link-local addresses and bridges of "
					 "containers are used only if SLUICE_INTERFACE names them");
}

static int choose_any(struct fi_info *list, const char *interface, uint32_t version,
		      struct fi_info **out)
{
	const char *present = NULL;
	char there[300];

	/* First come providers that do not run over TCP, then those that are made for TCP, then the
	 * others, which run over TCP here. */
	for (int i = 0; i < 2 * ROWS; i++) {
		const struct ofi_row *row = &rows[i % ROWS];

		if (!row->unasked || too_old(row, version) || !is_listed(list, row->name))
			continue;
		*out = by_place(list, first_fit(list, row->name, interface), interface);
		if (*out && (i >= ROWS || row->tcp || !is_tcp(*out)))
			return SLUICE_OK;
		present = row->name;
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

/* Returns the first entry for these hints, or NULL. */
static struct fi_info *ask(const struct ofi_library *l, const struct fi_info *hints)
{
	struct fi_info *list = NULL, *out = NULL;

	if (!l->getinfo(OFI_API, NULL, NULL, 0, hints, &list) && list)
		out = l->dupinfo(list);
	if (list)
		l->freeinfo(list);
	return out;
}

/* Asks libfabric for an entry with more capabilities. Returns that entry and frees info, or returns
 * info. */
static struct fi_info *ask_more(const struct ofi_library *l, struct fi_info *info, uint64_t caps,
				int mr_mode)
{
	const uint64_t caps_before = info->caps;
	const int mr_mode_before = info->domain_attr->mr_mode;
	struct fi_info *out;

	info->caps |= caps;
	info->domain_attr->mr_mode |= mr_mode;
	out = ask(l, info);
	if (out) {
		l->freeinfo(info);
		return out;
	}
	info->caps = caps_before;
	info->domain_attr->mr_mode = mr_mode_before;
	return info;
}

/* Returns 1 if this libfabric can send data with a put. Some providers need an environment variable
 * for it. */
static int sends_data(const struct ofi_row *row, const struct fi_info *info)
{
	return info->fabric_attr->prov_version >= row->data_since &&
	       ofi_library_option(row->data_variable);
}

/* If notices depend on keys of the provider, lets the provider make the keys. Otherwise random keys
 * are better, because no peer can guess them. fi_writedata() takes no flags, so the endpoint's
 * default completion level must suit it. Returns info, or the entry that replaces it. */
static struct fi_info *settle_keys(const struct ofi_library *l, struct fi_info *info)
{
	const struct ofi_row *row = row_of(info);
	const int with_data = sends_data(row, info);
	struct fi_info *hints = l->dupinfo(info), *out;

	if (!hints)
		return info;
	hints->domain_attr->mr_mode = row->mr_mode | (with_data ? FI_MR_PROV_KEY : 0);
	hints->domain_attr->mr_key_size = 0;
	hints->tx_attr->op_flags = with_data ? FI_DELIVERY_COMPLETE : 0;
	out = ask(l, hints);
	l->freeinfo(hints);
	if (!out)
		return info;
	l->freeinfo(info);
	return out;
}

/* Requests two capabilities, and continues without those that libfabric refuses. FI_SOURCE names
 * the sender of a put, and is needed if a notice has no room for a token. Without it, messages
 * announce puts. With FI_HMEM, puts read device memory. Without it, the data is first copied to the
 * host. */
static struct fi_info *settle_info(const struct ofi_library *l, const struct fi_info *found)
{
	struct fi_info *info = l->dupinfo(found);

	if (info && row_of(info)->data_variable)
		info = settle_keys(l, info);
	if (info && info->domain_attr->cq_data_size < 8 && info->domain_attr->cq_data_size)
		info = ask_more(l, info, FI_SOURCE, 0);
	if (info && row_of(info)->device_memory)
		info = ask_more(l, info, FI_HMEM, FI_MR_HMEM);
	return info;
}

/* ---- what was chosen -------------------------------------------------------------- */

int ofi_choice_is_tcp(const struct ofi_choice *choice)
{
	return is_tcp(choice->info);
}

const char *ofi_choice_name(const struct ofi_choice *choice)
{
	return name_of(choice->info);
}

int ofi_choice_data_by_call(const struct ofi_choice *choice)
{
	return choice->row->data_variable != NULL;
}

int ofi_choice_is_unplaced(const struct ofi_choice *choice)
{
	return choice->row->unplaced;
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

	const size_t most = choice->row->key_bytes ? choice->row->key_bytes : sizeof(uint64_t);

	return bytes < most ? bytes : most;
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
	if (choice->row->data_variable && !sends_data(choice->row, choice->info))
		return "FI_CXI_ENABLE_WRITEDATA forbids its puts to announce themselves, so a "
		       "message follows each put, which costs a round trip: unset the variable";
	return NULL;
}

/* Fails if puts cannot carry numbers and no other feature shows when they are in place. */
static int check_notice(const struct ofi_choice *choice)
{
	if (!choice->row->unplaced || ofi_choice_notice(choice) == OFI_NOTICE_NARROW)
		return SLUICE_OK;
	return fail_quietly(SLUICE_ENOSUPP,
			    "%s: its puts carry no data that names the sender, so nothing shows "
			    "when they are in place: set SLUICE_PROVIDER=tcp (or net)",
			    choice->text);
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
					      .row = row_of(found),
					      .info = settle_info(l, found) };
		snprintf(choice.text, sizeof(choice.text), "%s on %s%s%s (libfabric %u.%u)",
			 name_of(found), domain_of(found),
			 *address_text(found, address) ? ", " : "", address_text(found, address),
			 FI_MAJOR(version), FI_MINOR(version));
		if (!choice.info)
			rc = fail(SLUICE_ENOMEM, "ofi: no memory for libfabric's description of %s",
				  choice.text);
		else
			rc = check_notice(&choice);
		if (rc)
			ofi_choice_end(&choice);
		else
			*out = choice;
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
