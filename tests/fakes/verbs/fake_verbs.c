/* SPDX-License-Identifier: BSD-3-Clause
 * The card of fake_fabric.h: the device, domains, keys and windows. */
#include "fake_fabric.h"
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* The functions must have the parameters of the functions that they replace. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#undef ibv_reg_mr
#undef ibv_query_port

struct fake_settings fake;
struct fake_counts fake_counts;

static pthread_mutex_t lock;
static struct ibv_device devices[FAKE_DEVICES];
static struct verbs_context context;
struct fake_mr *fake_mrs;
struct fake_mw *fake_mws;
static uint32_t last_key;
static uint8_t *device_memory;
static size_t device_bytes;

static void __attribute__((constructor)) make_lock(void)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&lock, &attr);
}

void fake_lock(void)
{
	pthread_mutex_lock(&lock);
}

void fake_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void fake_count(int *objects, int more)
{
	fake_lock();
	*objects += more;
	fake_unlock();
}

int fake_fails(const char *call, int error)
{
	int now;

	fake_lock();
	now = ++fake_counts.calls == fake.fail_call;
	if (now)
		snprintf(fake_counts.failed, sizeof(fake_counts.failed), "%s", call);
	fake_unlock();
	if (now)
		errno = error;
	return now;
}

void fake_misuse(const char *text)
{
	fake_lock();
	if (fake_counts.misuse++ == 0)
		snprintf(fake_counts.first_misuse, sizeof(fake_counts.first_misuse), "%s", text);
	fake_unlock();
}

const char *fake_leak(void)
{
	static char text[512];
	const struct fake_counts *c = &fake_counts;

	if ((c->contexts | c->pds | c->mrs | c->mws | c->cqs | c->srqs | c->qps | c->channels |
	     c->cm_channels | c->ids | c->ahs | c->unacked | c->misuse) == 0)
		return NULL;
	snprintf(text, sizeof(text),
		 "left: %d contexts %d pd %d mr %d mw %d cq %d srq %d qp %d ah %d channels, %d cm "
		 "channels %d ids, %d events; %d misuses: %s",
		 c->contexts, c->pds, c->mrs, c->mws, c->cqs, c->srqs, c->qps, c->ahs, c->channels,
		 c->cm_channels, c->ids, c->unacked, c->misuse, c->first_misuse);
	return text;
}

void *fake_new(size_t n)
{
	void *p = NULL;

	if (posix_memalign(&p, 64, n) != 0)
		abort();
	return memset(p, 0, n);
}

int fake_pulse(int fd)
{
	const uint64_t one = 1;

	return write(fd, &one, sizeof(one)) == sizeof(one) ? 0 : -1;
}

void fake_drain(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

/* ---- the device ------------------------------------------------------------ */

static int query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t n)
{
	if (port != 1)
		return EINVAL;
	memset(attr, 0, n);
	attr->state = (uint64_t)(unsigned)fake.port_down >> (c->device - devices) & 1 ?
			      IBV_PORT_DOWN :
			      IBV_PORT_ACTIVE;
	attr->max_msg_sz = fake.max_message;
	attr->lid = fake.no_lid ? 0 : FAKE_LID;
	attr->pkey_tbl_len = FAKE_PKEYS;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = (enum ibv_mtu)fake.mtu;
	attr->gid_tbl_len = 1;
	attr->link_layer = fake.link_layer;
	return 0;
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list;

	if (fake_fails("ibv_get_device_list", ENOMEM))
		return NULL;
	list = fake_new((FAKE_DEVICES + 1) * sizeof(*list));
	for (int i = 0; i < fake.devices; i++) {
		if (devices[i].transport_type !=
		    fake.transport) /* other threads read it without the lock */
			devices[i].transport_type = fake.transport;
		list[i] = &devices[i];
	}
	if (n != NULL)
		*n = fake.devices;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	if (fake_fails("ibv_open_device", EMFILE))
		return NULL;
	fake_lock();
	if (context.context.device != d) /* other threads read it without the lock */
		context.context.device = d;
	fake_unlock();
	fake_count(&fake_counts.contexts, 1);
	fake_count(&fake_counts.opened, 1);
	return &context.context;
}

int ibv_close_device(struct ibv_context *c)
{
	fake_count(&fake_counts.contexts, -1);
	return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	if (fake_fails("ibv_query_device", EIO))
		return EIO;
	*attr = fake.attr;
	return 0;
}

const uint8_t *fake_gid(void)
{
	static const uint8_t by_ip[16] = { [10] = 0xff, 0xff, 10, 3, 0, 1 },
			     by_guid[16] = { 0xfe, 0x80, [8] = 0, 2, 0xc9, 3, 0, 0x11, 0x22, 0x33 };

	return fake.no_ip || fake.link_layer == IBV_LINK_LAYER_INFINIBAND ? by_guid : by_ip;
}

int fake_leads_here(const struct ibv_ah_attr *to)
{
	if (to->is_global)
		return !memcmp(to->grh.dgid.raw, fake_gid(), 16);
	return fake.link_layer == IBV_LINK_LAYER_INFINIBAND && !fake.no_lid && to->dlid == FAKE_LID;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t max,
			     uint32_t flags, size_t size)
{
	if (fake_fails("ibv_query_gid_table", ENOSYS))
		return -ENOSYS;
	if (max < 1)
		return 0;
	memset(entries, 0, size);
	memcpy(entries->gid.raw, fake_gid(), 16);
	entries->port_num = 1;
	entries->gid_type = IBV_GID_TYPE_ROCE_V2;
	return 1;
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	if (fake_fails("ibv_query_gid", EIO) || port != 1 || index != 0)
		return -1;
	memcpy(gid->raw, fake_gid(), 16);
	return 0;
}

int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *key)
{
	if (fake_fails("ibv_query_pkey", EIO) || port != 1 || index < 0 || index >= FAKE_PKEYS)
		return -1;
	*key = htobe16(fake.pkeys[index]);
	return 0;
}

/* libibverbs refuses this once memory is pinned. Only this call reads RDMAV_HUGEPAGES_SAFE, each
 * time (libibverbs/memory.c of rdma-core). */
int ibv_fork_init(void)
{
	fake_count(&fake_counts.forks_guarded, 1);
	fake_counts.forks_huge |= getenv("RDMAV_HUGEPAGES_SAFE") != NULL;
	if (fake.fork == IBV_FORK_ENABLED)
		return 0;
	if (fake_fails("ibv_fork_init", EINVAL) || fake_counts.opened)
		return EINVAL;
	fake.fork = IBV_FORK_ENABLED;
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return fake.fork;
}

/* An event about a queue is reported for the oldest queue of its kind. */
int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
	struct fake_qp *last;
	int type;

	fake_lock();
	type = fake.async - 1;
	fake.async = 0;
	last = type < 0 ? fake_last_wqe() : NULL;
	if (last)
		type = IBV_EVENT_QP_LAST_WQE_REACHED;
	if (type >= 0)
		fake_counts.unacked++;
	*event = (struct ibv_async_event){ .event_type = (enum ibv_event_type)type };
	for (struct fake_cq *cq = fake_cqs; cq && type == IBV_EVENT_CQ_ERR; cq = cq->next)
		event->element.cq = &cq->cq;
	if (type == IBV_EVENT_SRQ_ERR)
		event->element.srq = fake_first_srq;
	if (last)
		event->element.qp = &last->qp;
	fake_unlock();
	errno = EAGAIN;
	return type >= 0 ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	fake_count(&fake_counts.unacked, -1);
}

void fake_device_memory(void *base, size_t n)
{
	device_memory = base;
	device_bytes = n;
}

static int in_device(const void *address)
{
	const uint8_t *p = address;

	return device_bytes > 0 && p >= device_memory && p < device_memory + device_bytes;
}

/* ---- memory ---------------------------------------------------------------- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	struct ibv_pd *pd;

	if (fake_fails("ibv_alloc_pd", ENOMEM))
		return NULL;
	pd = fake_new(sizeof(*pd));
	fake_lock();
	*pd = (struct ibv_pd){ .context = c };
	fake_count(&fake_counts.pds, 1);
	fake_unlock();
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int used = 0;

	fake_lock();
	for (struct fake_mr *m = fake_mrs; m != NULL; m = m->next)
		used |= m->mr.pd == pd;
	for (struct fake_mw *m = fake_mws; m != NULL; m = m->next)
		used |= m->mw.pd == pd;
	for (struct fake_qp *q = fake_qps; q != NULL; q = q->next)
		used |= q->qp.pd == pd;
	if (used) {
		fake_misuse("ibv_dealloc_pd of a domain in use");
		fake_unlock();
		return EBUSY;
	}
	fake_count(&fake_counts.pds, -1);
	fake_unlock();
	free(pd);
	return 0;
}

/* The kernel counts the pages of each registration, even if another one already pins them. */
static uint64_t pages_of(const struct ibv_mr *mr)
{
	const uint64_t first = (uintptr_t)mr->addr / 4096;

	return (((uintptr_t)mr->addr + mr->length - 1) / 4096 - first + 1) * 4096;
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *address, size_t bytes, unsigned access,
			  uint8_t *host, void *mapped, int dead)
{
	struct fake_mr *m;

	if (bytes == 0 || (fake.no_relaxed && access & IBV_ACCESS_RELAXED_ORDERING) ||
	    (access & IBV_ACCESS_REMOTE_WRITE && !(access & IBV_ACCESS_LOCAL_WRITE))) {
		errno = EINVAL;
		return NULL;
	}
	fake_lock();
	if (fake_counts.mrs >= fake.attr.max_mr) {
		fake_unlock();
		errno = ENOMEM;
		return NULL;
	}
	m = fake_new(sizeof(*m));
	last_key++;
	*m = (struct fake_mr){ .mr = { .context = pd->context,
				       .pd = pd,
				       .addr = address,
				       .length = bytes,
				       .lkey = last_key << 8 | 0x11,
				       .rkey = last_key << 8 | 0x22 },
			       .next = fake_mrs,
			       .host = host,
			       .access = (int)access,
			       .dead = dead,
			       .mapped = mapped };
	fake_mrs = m;
	fake_counts.pinned += pages_of(&m->mr);
	fake_count(&fake_counts.mrs, 1);
	fake_unlock();
	return &m->mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova,
				unsigned access)
{
	if (fake_fails("ibv_reg_mr", ENOMEM))
		return NULL;
	if (in_device(address) && fake.no_peermem) {
		errno = EFAULT;
		return NULL;
	}
	return reg(pd, address, bytes, access, address, NULL,
		   in_device(address) && fake.dead_peermem);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access)
{
	return ibv_reg_mr_iova2(pd, address, bytes, (uintptr_t)address, (unsigned)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
				 int fd, int access)
{
	struct ibv_mr *mr;
	void *mapped;

	if (fake_fails("ibv_reg_dmabuf_mr", ENOMEM))
		return NULL;
	if (fake.no_dmabuf) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	mapped = mmap(NULL, offset + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return NULL;
	mr = reg(pd, (void *)(uintptr_t)iova, bytes, (unsigned)access, (uint8_t *)mapped + offset,
		 mapped, fake.dead_dmabuf);
	if (mr == NULL)
		munmap(mapped, offset + bytes);
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct fake_mr *m = (struct fake_mr *)(void *)mr, **at;

	fake_lock();
	fake_place_all(NULL);
	if (m->windows > 0) {
		fake_misuse("ibv_dereg_mr under a window");
		fake_unlock();
		return EBUSY;
	}
	for (at = &fake_mrs; *at != m; at = &(*at)->next)
		;
	*at = m->next;
	fake_counts.pinned -= pages_of(&m->mr);
	fake_count(&fake_counts.mrs, -1);
	fake_unlock();
	if (m->mapped != NULL)
		munmap(m->mapped, (size_t)(m->host - (uint8_t *)m->mapped) + mr->length);
	free(m);
	return 0;
}

int fake_relaxed(const void *base, size_t n)
{
	const uint8_t *from = base;
	int found = 0;

	fake_lock();
	for (struct fake_mr *m = fake_mrs; m != NULL; m = m->next)
		found |= m->access & IBV_ACCESS_RELAXED_ORDERING && m->host < from + n &&
			 from < m->host + m->mr.length;
	fake_unlock();
	return found;
}

int fake_remote_writable(const void *base, size_t n)
{
	const uint8_t *from = base;
	int found = 0;

	fake_lock();
	for (struct fake_mr *m = fake_mrs; m != NULL; m = m->next)
		found |= m->access & IBV_ACCESS_REMOTE_WRITE && m->host < from + n &&
			 from < m->host + m->mr.length;
	for (struct fake_mw *m = fake_mws; m != NULL; m = m->next)
		found |= m->mr != NULL && m->access & IBV_ACCESS_REMOTE_WRITE &&
			 m->address < (uintptr_t)from + n &&
			 (uintptr_t)from < m->address + m->bytes;
	fake_unlock();
	return found;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct fake_mw *m;

	if (fake_fails("ibv_alloc_mw", ENOMEM))
		return NULL;
	if (fake.no_alloc_mw) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	m = fake_new(sizeof(*m));
	fake_lock();
	last_key++;
	*m = (struct fake_mw){
		.mw = { .context = pd->context, .pd = pd, .rkey = last_key << 8, .type = type },
		.next = fake_mws
	};
	fake_mws = m;
	fake_count(&fake_counts.mws, 1);
	fake_unlock();
	return &m->mw;
}

void fake_unbind(struct fake_mw *m)
{
	if (m->mr != NULL)
		m->mr->windows--;
	m->mr = NULL;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	struct fake_mw *m = (struct fake_mw *)(void *)mw, **at;

	fake_lock();
	fake_unbind(m);
	for (at = &fake_mws; *at != m; at = &(*at)->next)
		;
	*at = m->next;
	fake_count(&fake_counts.mws, -1);
	fake_unlock();
	free(m);
	return 0;
}

/* ---- a new device ---------------------------------------------------------- */

struct ibv_context *fake_context(void)
{
	return &context.context;
}

struct ibv_context *fake_route(void)
{
	static struct ibv_context other = { .device = &devices[1] };

	return fake.moved ? &other : fake_context();
}

void fake_reset(void)
{
	for (int i = 0; i < FAKE_DEVICES; i++) {
		snprintf(devices[i].name, sizeof(devices[i].name), "fake%d", i);
		devices[i].node_type = IBV_NODE_CA;
	}
	if (context.context.async_fd == 0)
		context.context.async_fd = eventfd(0, EFD_CLOEXEC);
	context.sz = sizeof(context);
	context.context.num_comp_vectors = 8;
	context.query_port = query_port;
	context.context.device = &devices[0];
	context.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	context.context.ops.alloc_mw = alloc_mw;
	context.context.ops.dealloc_mw = dealloc_mw;
	context.context.ops.poll_cq = fake_poll_cq;
	context.context.ops.req_notify_cq = fake_req_notify_cq;
	context.context.ops.post_srq_recv = fake_post_srq_recv;
	context.context.ops.post_send = fake_post_send;
	context.context.ops.post_recv = fake_post_recv;
	memset(&fake_counts, 0, sizeof(fake_counts));
	fake = (struct fake_settings){
		.attr = { .max_qp = 1000,
			  .max_pd = 1000,
			  .max_mr = 10000,
			  .max_mw = 10000,
			  .max_cqe = 32767,
			  .max_qp_wr = 16384,
			  .max_srq_wr = 16384,
			  .max_srq = 10,
			  .max_qp_rd_atom = 16,
			  .max_qp_init_rd_atom = 16,
			  .phys_port_cnt = 1,
			  .device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B },
		.devices = 1,
		.fork = IBV_FORK_UNNEEDED,
		.transport = IBV_TRANSPORT_IB,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.pkeys = { 0x7fff, 0xffff },
		.mtu = IBV_MTU_4096,
		.max_inline = 220,
		.max_message = 1u << 23
	};
	fake_device_memory(NULL, 0);
}

/* ---- the cards ------------------------------------------------------------------- */

static uint64_t power_of_two_from(uint64_t n)
{
	uint64_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static uint64_t multiple(uint64_t n, uint64_t of)
{
	return (n + of - 1) / of * of;
}

/* As in mlx5_calc_sq_size() in mlx5/verbs.c: the control, UMR, memory key and KLM segments have 192
 * bytes, and inline data has a header of 4. The page of the doorbell record is added. */
static uint64_t mlx5_pair(const struct ibv_qp_cap *cap)
{
	const uint64_t request = multiple(192 + multiple(4 + cap->max_inline_data, 16), 64);

	return multiple(power_of_two_from(cap->max_send_wr * request), 4096) + 4096;
}

/* As in bnxt_re_get_sqmem_size() in bnxt_re/verbs.c: there are two spare requests, a header of 32
 * bytes and six entries of 16 bytes. A table of 8 bytes for each request is added, with the number
 * of requests rounded up to a power of two. */
static uint64_t bnxt_re_pair(const struct ibv_qp_cap *cap)
{
	const uint64_t data = cap->max_inline_data > 96 ? multiple(cap->max_inline_data, 16) : 96,
		       requests = cap->max_send_wr + 2;

	return multiple(requests * (32 + data) + power_of_two_from(requests) * 8, 4096);
}

/* As in irdma_get_wqe_shift(), irdma_get_sqdepth() and irdma_get_rqdepth() in irdma/uk.c, second
 * generation: quanta have 32 bytes, and 258 of the send queue and 1 of the receive queue are
 * reserved. The page of the doorbell's shadow is added. */
static uint64_t irdma_pair(const struct ibv_qp_cap *cap)
{
	const uint32_t n = cap->max_inline_data;
	const int shift = n <= 8 ? 0 : n <= 39 ? 1 : n <= 101 ? 2 : 3;

	return multiple(power_of_two_from(((uint64_t)cap->max_send_wr << shift) + 258) * 32, 4096) +
	       multiple(power_of_two_from(cap->max_recv_wr + 1) * 32, 4096) + 4096;
}

/* rdma-core, providers/: mlx5/qp.c set_bind_wr() refuses more than 1UL << 31 with EOPNOTSUPP ("KLM
 * support only 2GB"). mlx4/qp.c set_bind_seg() and ionic/ionic_verbs.c pass 64 bits on without a
 * check, and so does rxe/rxe.c. The kernel's bnxt_re advertises windows of type 2B,
 * but bnxt_re/main.c has no alloc_mw. irdma/uverbs.c has one, but irdma_query_device() of Linux
 * 6.18, hw/irdma/verbs.c, sets MEM_WINDOW and not MEM_WINDOW_TYPE_2B. That of Linux 6.12 leaves
 * max_srq and max_srq_wr 0, and the driver has no create_srq; 6.18 has, for the third generation
 * only. Linux, hw/mlx5/qp.c,
 * hw/mlx4/qp.c and hw/bnxt_re/main.c report LAST_WQE_REACHED; sw/rxe of Linux 6.1 never does. */
const struct fake_profile fake_profiles[FAKE_CARDS] = {
	[FAKE_MLX5] = { .driver = "mlx5",
			.windows = 1,
			.longest_window = (uint64_t)1 << 31,
			.pair_bytes = mlx5_pair },
	[FAKE_MLX4] = { .driver = "mlx4", .windows = 1 },
	[FAKE_BNXT_RE] = { .driver = "bnxt_re",
			   .windows = 1,
			   .no_alloc_mw = 1,
			   .pair_bytes = bnxt_re_pair },
	[FAKE_IRDMA] = { .driver = "irdma", .no_srq = 1, .pair_bytes = irdma_pair },
	[FAKE_IONIC] = { .driver = "ionic", .windows = 1 },
	[FAKE_RXE] = { .driver = "rxe", .windows = 1, .no_last_wqe = 1, .frees_taken = 1 },
};

void fake_be(enum fake_card card, uint64_t scale)
{
	const struct fake_profile *profile = &fake_profiles[card];

	fake.longest_window = profile->longest_window / scale;
	fake.pair_bytes = profile->pair_bytes;
	fake.no_last_wqe = profile->no_last_wqe;
	fake.frees_taken = profile->frees_taken;
	fake.no_alloc_mw = profile->no_alloc_mw;
	if (profile->no_srq)
		fake.attr.max_srq = fake.attr.max_srq_wr = 0;
	if (!profile->windows)
		fake.attr.device_cap_flags &= ~(unsigned)IBV_DEVICE_MEM_WINDOW_TYPE_2B;
}
