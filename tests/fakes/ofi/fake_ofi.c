/* SPDX-License-Identifier: BSD-3-Clause
 * The library and its objects; see fake_ofi.h. */
#include "fake_ofi_parts.h"
#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The functions must have the parameters of the functions that they replace. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

struct fake_ofi_settings fake_ofi;
struct fake_ofi_counts fake_ofi_counts;
static struct fake_ofi_counts *const counts = &fake_ofi_counts;
pthread_mutex_t fake_ofi_lock = PTHREAD_MUTEX_INITIALIZER;
uint32_t fake_ofi_dice;
static char handle; /* the handle that dlopen() returns */

struct endpoint_ *fake_ofi_endpoints[ENDPOINTS];
static uint32_t names;

void fake_ofi_misuse(const char *text)
{
	if (!counts->misuse++)
		snprintf(counts->first_misuse, sizeof(counts->first_misuse), "%s", text);
}

int fake_ofi_fails(const char *call)
{
	if (__atomic_add_fetch(&counts->calls, 1, __ATOMIC_RELAXED) != fake_ofi.fail_call)
		return 0;
	snprintf(counts->failed, sizeof(counts->failed), "%s", call);
	return 1;
}

static void *new_object(size_t n)
{
	__atomic_add_fetch(&counts->objects, 1, __ATOMIC_RELAXED);
	return calloc(1, n);
}

static int end_object(void *object)
{
	__atomic_sub_fetch(&counts->objects, 1, __ATOMIC_RELAXED);
	free(object);
	return 0;
}

/* ---- objects ------------------------------------------------------------------------ */

static int mr_close(struct fid *fid)
{
	struct mr *m = (struct mr *)fid, **at = &m->domain->mrs;

	pthread_mutex_lock(&fake_ofi_lock);
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	counts->registered -= m->bytes;
	m->domain->users--;
	end_object(m);
	pthread_mutex_unlock(&fake_ofi_lock);
	return 0;
}

static int mr_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	if (to->fclass != FI_CLASS_EP)
		fake_ofi_misuse("a registration is bound to something else than an endpoint");
	return fake_ofi_fails("fi_mr_bind") ? -FI_EIO : 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	struct mr *m = (struct mr *)fid;

	if (command != FI_ENABLE || fake_ofi_fails("fi_mr_enable"))
		return -FI_EIO;
	m->enabled = 1;
	m->mr.key = m->key;
	return 0;
}

static struct fi_ops mr_ops = {
	.size = sizeof(mr_ops), .close = mr_close, .bind = mr_bind, .control = mr_control
};

static int mr_reg(struct fid *fid, const void *buf, size_t n, uint64_t access, uint64_t offset,
		  uint64_t key, uint64_t flags, struct fid_mr **out, void *context)
{
	struct domain *d = (struct domain *)fid;
	struct mr *m;

	if (fake_ofi_fails("fi_mr_reg"))
		return -FI_ENOMEM;
	if (d->face.mr_key_size < 8 && key >> 8 * d->face.mr_key_size)
		return -FI_EKEYREJECTED;
	pthread_mutex_lock(&fake_ofi_lock);
	m = new_object(sizeof(*m));
	m->mr.fid = (struct fid){ .fclass = FI_CLASS_MR, .ops = &mr_ops };
	m->mr.mem_desc = m;
	m->key = d->face.mr_mode & FI_MR_PROV_KEY ?
			 (fake_ofi_dice = fake_ofi_dice * 1664525 + 1013904223) :
			 key;
	m->base = (uint8_t *)(uintptr_t)buf;
	m->bytes = n;
	m->access = access;
	m->enabled = !(d->face.mr_mode & FI_MR_ENDPOINT);
	m->mr.key = m->enabled ? m->key : FI_KEY_NOTAVAIL;
	m->domain = d;
	m->next = d->mrs;
	d->mrs = m;
	counts->registered += n;
	d->users++;
	*out = &m->mr;
	pthread_mutex_unlock(&fake_ofi_lock);
	return 0;
}
/* Registers device memory. */
static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **out)
{
	int rc;

	if (attr->iface != FI_HMEM_CUDA || attr->iov_count != 1 || fake_ofi.hmem == HMEM_NONE ||
	    (uint8_t *)attr->mr_iov->iov_base != fake_ofi.device)
		fake_ofi_misuse("a registration of device memory is not one");
	if (fake_ofi.hmem == HMEM_REFUSED)
		return -FI_EOPNOTSUPP;
	rc = mr_reg(fid, attr->mr_iov->iov_base, attr->mr_iov->iov_len, attr->access, attr->offset,
		    attr->requested_key, flags, out, attr->context);
	if (!rc)
		((struct mr *)*out)->of_device = 1;
	return rc;
}
static struct fi_ops_mr domain_mr = { .size = sizeof(domain_mr),
				      .reg = mr_reg,
				      .regattr = mr_regattr };

static int cq_close(struct fid *fid)
{
	struct cq *cq = (struct cq *)fid;

	if (cq->fd >= 0)
		close(cq->fd);
	cq->domain->users--;
	return end_object(cq);
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	if (command != FI_GETWAIT || fake_ofi_fails("fi_control"))
		return -FI_ENOSYS;
	*(int *)arg = ((struct cq *)fid)->fd;
	return 0;
}
static struct fi_ops cq_ops = { .size = sizeof(cq_ops), .close = cq_close, .control = cq_control };
static struct fi_ops_cq cq_calls = { .size = sizeof(cq_calls),
				     .read = fake_ofi_read,
				     .readfrom = fake_ofi_readfrom,
				     .readerr = fake_ofi_readerr };

static int cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out, void *c)
{
	struct cq *cq;

	if (fake_ofi_fails("fi_cq_open") || (attr->wait_obj != FI_WAIT_NONE && !fake_ofi.has_fd))
		return -FI_ENOSYS;
	cq = new_object(sizeof(*cq));
	cq->cq.fid = (struct fid){ .fclass = FI_CLASS_CQ, .ops = &cq_ops };
	cq->cq.ops = &cq_calls;
	cq->domain = (struct domain *)fid;
	cq->domain->users++;
	cq->fd = attr->wait_obj == FI_WAIT_NONE ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	*out = &cq->cq;
	return 0;
}

static int av_close(struct fid *fid)
{
	((struct av *)fid)->domain->users--;
	return end_object(fid);
}
static struct fi_ops av_ops = { .size = sizeof(av_ops), .close = av_close };

static int av_insert(struct fid_av *fid, const void *name, size_t n, fi_addr_t *out, uint64_t flags,
		     void *context)
{
	struct av *av = (struct av *)fid;

	if (n != 1 || av->n == NAMES || fake_ofi_fails("fi_av_insert"))
		return -FI_EINVAL;
	memcpy(&av->names[av->n], name, 4);
	*out = (fi_addr_t)av->n++;
	return 1;
}
static struct fi_ops_av av_calls = { .size = sizeof(av_calls), .insert = av_insert };

static int av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out, void *c)
{
	struct av *av;

	if (fake_ofi_fails("fi_av_open"))
		return -FI_ENOMEM;
	av = new_object(sizeof(*av));
	av->av.fid = (struct fid){ .fclass = FI_CLASS_AV, .ops = &av_ops };
	av->av.ops = &av_calls;
	av->domain = (struct domain *)fid;
	av->domain->users++;
	*out = &av->av;
	return 0;
}

static int ep_close(struct fid *fid)
{
	struct endpoint_ *e = (struct endpoint_ *)fid;

	pthread_mutex_lock(&fake_ofi_lock);
	for (int i = 0; i < ENDPOINTS; i++) {
		struct op **at = fake_ofi_endpoints[i] ? &fake_ofi_endpoints[i]->ops : NULL;

		while (at && *at) {
			struct op *op = *at;

			if (fake_ofi_endpoints[i] != e && op->from != e) {
				at = &op->next;
				continue;
			}
			if (op->from != e) /* another endpoint's operation ends, because its
					      connection breaks */
				fake_ofi_end_op(op, FI_ECONNRESET);
			*at = op->next;
			free(op);
		}
	}
	for (int i = 0; i < ENDPOINTS; i++)
		if (fake_ofi_endpoints[i] == e)
			fake_ofi_endpoints[i] = NULL;
	e->domain->users--;
	end_object(e);
	pthread_mutex_unlock(&fake_ofi_lock);
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	struct endpoint_ *e = (struct endpoint_ *)fid;

	if (fake_ofi_fails("fi_ep_bind"))
		return -FI_EINVAL;
	if (to->fclass == FI_CLASS_CQ)
		e->cq = (struct cq *)to;
	else
		e->av = (struct av *)to;
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	if (command != FI_ENABLE || fake_ofi_fails("fi_enable"))
		return -FI_EINVAL;
	((struct endpoint_ *)fid)->on = 1;
	return 0;
}

static int ep_getname(struct fid *fid, void *name, size_t *n)
{
	if (fake_ofi_fails("fi_getname"))
		return -FI_EIO;
	memset(name, 0, sizeof(struct sockaddr_in));
	memcpy(name, &((struct endpoint_ *)fid)->name, 4);
	*n = sizeof(struct sockaddr_in);
	return 0;
}
static struct fi_ops ep_ops = {
	.size = sizeof(ep_ops), .close = ep_close, .bind = ep_bind, .control = ep_control
};
static struct fi_ops_cm ep_cm = { .size = sizeof(ep_cm), .getname = ep_getname };
static struct fi_ops_msg ep_msg = { .size = sizeof(ep_msg),
				    .recv = fake_ofi_recv,
				    .send = fake_ofi_send,
				    .inject = fake_ofi_inject };
static struct fi_ops_rma ep_rma = { .size = sizeof(ep_rma),
				    .read = fake_ofi_get,
				    .writemsg = fake_ofi_writemsg,
				    .writedata = fake_ofi_writedata };

static int endpoint_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *c)
{
	struct endpoint_ *e;
	int i = 0;

	if (fake_ofi_fails("fi_endpoint"))
		return -FI_ENOMEM;
	pthread_mutex_lock(&fake_ofi_lock);
	while (fake_ofi_endpoints[i])
		i++;
	e = fake_ofi_endpoints[i] = new_object(sizeof(*e));
	e->ep.fid = (struct fid){ .fclass = FI_CLASS_EP, .ops = &ep_ops };
	e->ep.cm = &ep_cm;
	e->ep.msg = &ep_msg;
	e->ep.rma = &ep_rma;
	e->domain = (struct domain *)fid;
	e->domain->users++;
	e->name = ++names;
	e->op_flags = info->tx_attr->op_flags;
	*out = &e->ep;
	pthread_mutex_unlock(&fake_ofi_lock);
	return 0;
}

static int domain_close(struct fid *fid)
{
	if (((struct domain *)fid)->users)
		fake_ofi_misuse("a domain is closed before what is in it");
	return end_object(fid);
}
static struct fi_ops domain_ops = { .size = sizeof(domain_ops), .close = domain_close };
static struct fi_ops_domain domain_calls = { .size = sizeof(domain_calls),
					     .av_open = av_open,
					     .cq_open = cq_open,
					     .endpoint = endpoint_open };

static int domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out,
		       void *c)
{
	struct domain *d;

	if (fake_ofi_fails("fi_domain"))
		return -FI_ENOMEM;
	d = new_object(sizeof(*d));
	d->domain.fid = (struct fid){ .fclass = FI_CLASS_DOMAIN, .ops = &domain_ops };
	d->domain.ops = &domain_calls;
	d->domain.mr = &domain_mr;
	d->face = *(const struct fake_ofi_face *)info->handle;
	*out = &d->domain;
	return 0;
}

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int n)
{
	struct cq *cq = (struct cq *)fids[0];
	int busy;

	pthread_mutex_lock(&fake_ofi_lock);
	busy = cq->n > 0;
	for (int i = 0; i < ENDPOINTS; i++)
		busy |= fake_ofi_endpoints[i] && fake_ofi_endpoints[i]->cq == cq &&
			fake_ofi_endpoints[i]->ops;
	pthread_mutex_unlock(&fake_ofi_lock);
	return busy ? -FI_EAGAIN : 0;
}
static struct fi_ops fabric_ops = { .size = sizeof(fabric_ops),
				    .close = (int (*)(struct fid *))end_object };
static struct fi_ops_fabric fabric_calls = { .size = sizeof(fabric_calls),
					     .domain = domain_open,
					     .trywait = fabric_trywait };

/* ---- the library -------------------------------------------------------------------- */

static uint32_t fake_version(void)
{
	return fake_ofi.version;
}

static void fake_freeinfo(struct fi_info *info)
{
	if (!info)
		return;
	fake_freeinfo(info->next);
	free(info->src_addr);
	free(info->fabric_attr->prov_name);
	free(info->fabric_attr->name);
	free(info->fabric_attr);
	free(info->domain_attr->name);
	free(info->domain_attr);
	free(info->ep_attr);
	free(info->tx_attr);
	free(info->rx_attr);
	free(info);
	counts->infos--;
}

static void copy(void *to, const void *from, size_t n)
{
	if (from)
		memcpy(to, from, n);
}

static struct fi_info *fake_dupinfo(const struct fi_info *from)
{
	struct fi_info *info, none = { 0 };

	if (fake_ofi_fails("fi_dupinfo"))
		return NULL;
	from = from ? from : &none;
	info = calloc(1, sizeof(*info));
	*info = *from;
	counts->infos++;
	info->next = NULL;
	info->fabric_attr = calloc(1, sizeof(*info->fabric_attr));
	copy(info->fabric_attr, from->fabric_attr, sizeof(*info->fabric_attr));
	info->domain_attr = calloc(1, sizeof(*info->domain_attr));
	copy(info->domain_attr, from->domain_attr, sizeof(*info->domain_attr));
	info->ep_attr = calloc(1, sizeof(*info->ep_attr));
	copy(info->ep_attr, from->ep_attr, sizeof(*info->ep_attr));
	info->tx_attr = calloc(1, sizeof(*info->tx_attr));
	copy(info->tx_attr, from->tx_attr, sizeof(*info->tx_attr));
	info->rx_attr = calloc(1, sizeof(*info->rx_attr));
	copy(info->rx_attr, from->rx_attr, sizeof(*info->rx_attr));
	if (info->fabric_attr->prov_name)
		info->fabric_attr->prov_name = strdup(info->fabric_attr->prov_name);
	if (info->fabric_attr->name)
		info->fabric_attr->name = strdup(info->fabric_attr->name);
	if (info->domain_attr->name)
		info->domain_attr->name = strdup(info->domain_attr->name);
	if (from->src_addr) {
		info->src_addr = malloc(from->src_addrlen);
		memcpy(info->src_addr, from->src_addr, from->src_addrlen);
	}
	return info;
}

/* The bus ids of two_gpus.h: fake1 is near the first GPU, fake0 near the second. */
static struct fid_nic *nic_of(int number)
{
	static const uint8_t bus[2] = { 0x22, 0x12 };
	static struct fi_bus_attr at[8];
	static struct fid_nic nic[8];

	at[number] = (struct fi_bus_attr){ .bus_type = FI_BUS_PCI,
					   .attr.pci.bus_id = bus[number % 2] };
	nic[number].bus_attr = &at[number];
	return &nic[number];
}

static struct fi_info *make_info(const struct fi_info *hints, int number,
				 const struct fake_ofi_face *face)
{
	struct fi_info *info;
	char name[16];

	info = fake_dupinfo(NULL);
	if (!info)
		return NULL;
	info->caps = hints->caps;
	info->mode = face->mode;
	info->handle = (fid_t)(uintptr_t)face;
	info->addr_format = FI_ADDR_STR;
	info->src_addrlen = sizeof(struct sockaddr_in);
	info->ep_attr->type = FI_EP_RDM;
	info->ep_attr->max_msg_size = 1 << 30;
	info->ep_attr->max_order_waw_size = fake_ofi.ordered ? SIZE_MAX : 0;
	info->tx_attr->msg_order = fake_ofi.ordered ? FI_ORDER_WAW : 0;
	info->tx_attr->size = fake_ofi.tx_size;
	info->tx_attr->inject_size = fake_ofi.inject_size;
	info->rx_attr->size = ENTRIES;
	info->tx_attr->op_flags = hints->tx_attr->op_flags; /* ofi_alter_info() */
	info->domain_attr->mr_mode = face->mr_mode | (hints->caps & FI_HMEM ? FI_MR_HMEM : 0);
	info->domain_attr->mr_key_size = face->mr_key_size;
	info->domain_attr->cq_data_size = fake_ofi.cq_data_size;
	snprintf(name, sizeof(name), fake_ofi.nics ? "cxi%d" : "fake%d", number);
	info->domain_attr->name = strdup(fake_ofi.domain ? fake_ofi.domain : name);
	info->fabric_attr->name = face->fabric ? strdup(face->fabric) : NULL;
	info->nic = fake_ofi.nics ? nic_of(number) : NULL;
	info->fabric_attr->prov_name = strdup(fake_ofi.provider);
	info->fabric_attr->prov_version = fake_ofi.prov_version;
	return info;
}

static int fits(const struct fake_ofi_face *face, const struct fi_info *hints, int card)
{
	const char *fabric = hints->fabric_attr->name, *domain = hints->domain_attr->name;
	char name[16];

	snprintf(name, sizeof(name), fake_ofi.nics ? "cxi%d" : "fake%d", card);
	return !(face->mode & ~hints->mode & ~FI_RX_CQ_DATA) &&
	       !(face->mr_mode & ~hints->domain_attr->mr_mode) &&
	       hints->domain_attr->mr_key_size <= face->mr_key_size &&
	       (!fabric || !face->fabric || !strcmp(fabric, face->fabric)) &&
	       (!domain || !strcmp(domain, fake_ofi.domain ? fake_ofi.domain : name));
}

static int fake_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
			const struct fi_info *hints, struct fi_info **out)
{
	static struct fake_ofi_face flat;
	struct fi_info **last = out;
	const char *wanted = hints->fabric_attr->prov_name;
	unsigned taken = 0;
	const int cards = fake_ofi.nics ? fake_ofi.nics : 1,
		  n = fake_ofi.faces ? fake_ofi.n_faces : 1;

	if (fake_ofi_fails("fi_getinfo"))
		return -FI_EIO;
	if (version > fake_ofi.version)
		return -FI_ENOSYS;
	if (fake_ofi.no_providers || (wanted && strcmp(wanted, fake_ofi.provider)) ||
	    hints->domain_attr->cq_data_size > fake_ofi.cq_data_size)
		return -FI_ENODATA;
	if (fake_ofi.names_nobody && hints->caps & FI_SOURCE)
		return -fake_ofi.names_nobody;
	if (fake_ofi.hmem == HMEM_NONE && hints->caps & FI_HMEM)
		return -FI_ENODATA;
	flat = (struct fake_ofi_face){ .mr_mode = fake_ofi.mr_mode,
				       .mode = fake_ofi.mode,
				       .mr_key_size = fake_ofi.mr_key_size,
				       .takes_receives = fake_ofi.takes_receives };
	*out = NULL;
	for (int i = 0; i < n * cards; i++) {
		const struct fake_ofi_face *face = fake_ofi.faces ? &fake_ofi.faces[i / cards] :
								    &flat;

		if (!fits(face, hints, i % cards))
			continue;
		if (fake_ofi.data_by_call && taken & 1u << i % cards)
			continue; /* cxip_getinfo() returns only the mode that a card prefers
				     most */
		taken |= 1u << i % cards;
		*last = make_info(hints, i % cards, face);
		if (!*last) {
			fake_freeinfo(*out);
			*out = NULL;
			return -FI_ENOMEM;
		}
		last = &(*last)->next;
	}
	return *out ? 0 : -FI_ENODATA;
}

static int fake_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	struct fid_fabric *fabric;

	if (fake_ofi_fails("fi_fabric"))
		return -FI_ENOMEM;
	fabric = new_object(sizeof(*fabric));
	fabric->fid = (struct fid){ .fclass = FI_CLASS_FABRIC, .ops = &fabric_ops };
	fabric->ops = &fabric_calls;
	*out = fabric;
	return 0;
}

static const char *fake_strerror(int error)
{
	return error == FI_ENOSYS ? "Function not implemented" : "an error of the fake";
}

void *__wrap_dlopen(const char *file, int flags);
void *__real_dlopen(const char *file, int flags);
void *__wrap_dlsym(void *of, const char *name);
void *__real_dlsym(void *of, const char *name);
int __wrap_dlclose(void *of);
int __real_dlclose(void *of);

void *__wrap_dlopen(const char *file, int flags)
{
	if (!file || strcmp(file, "libfabric.so.1"))
		return __real_dlopen(file, flags);
	return fake_ofi.absent ? __real_dlopen("libfabric-that-is-absent.so.1", flags) : &handle;
}

void *__wrap_dlsym(void *of, const char *name)
{
	static const struct {
		const char *name;
		void (*function)(void);
	} all[] = {
		{ "fi_version", (void (*)(void))fake_version },
		{ "fi_getinfo", (void (*)(void))fake_getinfo },
		{ "fi_freeinfo", (void (*)(void))fake_freeinfo },
		{ "fi_dupinfo", (void (*)(void))fake_dupinfo },
		{ "fi_fabric", (void (*)(void))fake_fabric },
		{ "fi_strerror", (void (*)(void))fake_strerror },
	};
	void *found = NULL;

	if (of != &handle)
		return __real_dlsym(of, name);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].name, name) && (!fake_ofi.lacks || strcmp(fake_ofi.lacks, name)))
			memcpy(&found, &all[i].function, sizeof(found));
	return found;
}

int __wrap_dlclose(void *of)
{
	return of == &handle ? 0 : __real_dlclose(of);
}

/* ---- functions for tests ------------------------------------------------------------ */

void fake_ofi_reset(void)
{
	fake_ofi_counts = (struct fake_ofi_counts){ 0 };
	fake_ofi = (struct fake_ofi_settings){ .version = FI_VERSION(1, 17),
					       .prov_version = FI_VERSION(117, 0),
					       .provider = "net",
					       .cq_data_size = 8,
					       .mr_key_size = 8,
					       .tx_size = 64,
					       .inject_size = 64,
					       .ordered = 1,
					       .has_fd = 1 };
	fake_ofi_dice = 1;
}

static void play(const char *provider, uint32_t version, uint32_t prov_version)
{
	fake_ofi_reset();
	fake_ofi.provider = provider;
	fake_ofi.version = version;
	fake_ofi.prov_version = prov_version;
	fake_ofi.ordered = fake_ofi.has_fd = 0;
	fake_ofi.late = 3;
}

/* As in libfabric 2.6.0: efa_prov.c lists efa-direct before efa. efa-direct needs FI_CONTEXT2 and
 * FI_MR_LOCAL, and takes FI_RX_CQ_DATA where the hints offer it (efa_user_info.c). It injects at
 * most what fits into a descriptor (efa_io_defs.h: 32 bytes) and sends at most an MTU in a message.
 * The target of a put must know the initiator's address (fi_efa(7)). Both report a put as complete
 * when the card does, whatever its flags. */
static const struct fake_ofi_face efa_faces[] = {
	{ .fabric = "efa-direct",
	  .mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
	  .mode = FI_CONTEXT2 | FI_RX_CQ_DATA,
	  .mr_key_size = 4,
	  .takes_receives = 1,
	  .direct = 1 },
	{ .fabric = "efa",
	  .mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
	  .mr_key_size = 4 },
};

void fake_ofi_plays_efa(void)
{
	play("efa", FI_VERSION(2, 6), FI_VERSION(206, 0));
	fake_ofi.faces = efa_faces;
	fake_ofi.n_faces = 2;
	fake_ofi.cq_data_size = 4;
	fake_ofi.unplaced = 1;
}

/* As in libfabric 2.6.0 and 1.22.0: the provider's keys come first in cxip_info.c, and then keys of
 * 4 bytes that the application chooses. fi_writemsg() never takes FI_REMOTE_CQ_DATA
 * (CXIP_WRITEMSG_ALLOWED_FLAGS in cxip.h). Since 2.5.0, fi_writedata() exists if
 * FI_CXI_ENABLE_WRITEDATA is set and the provider makes the keys (cxip_dom.c, cxip_ep.c). The
 * endpoint's flags determine when it completes. */
static const struct fake_ofi_face cxi_faces[] = {
	{ .mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY, .mr_key_size = 8 },
	{ .mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED, .mr_key_size = 4 },
};

void fake_ofi_plays_cxi(int old)
{
	play("cxi", old ? FI_VERSION(1, 22) : FI_VERSION(2, 5), FI_VERSION(old ? 122 : 205, 0));
	fake_ofi.faces = cxi_faces;
	fake_ofi.n_faces = 2;
	fake_ofi.data_by_call = 1;
	fake_ofi.no_writedata = old;
	fake_ofi.has_fd = 1;
}

void fake_ofi_plays_opx(void)
{
	play("opx", FI_VERSION(2, 1), FI_VERSION(201, 0));
	fake_ofi.mode = FI_CONTEXT2;
	fake_ofi.takes_receives = 1;
}

const char *fake_ofi_leak(void)
{
	static char text[256];

	if (counts->misuse)
		snprintf(text, sizeof(text), "%d rules broken, first: %s", counts->misuse,
			 counts->first_misuse);
	else if (counts->objects || counts->infos)
		snprintf(text, sizeof(text), "%d objects and %d infos are left", counts->objects,
			 counts->infos);
	else
		return NULL;
	return text;
}
