/* SPDX-License-Identifier: BSD-3-Clause
 * Opening the verbs transport: sizes from the job and the device, queues, memory, descriptors. All
 * that can be refused is refused before anything is made. */
#include "base/log.h"
#include "rdma/verbs.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

enum { MAX_PEERS = 65535, GREETINGS = 2 }; /* receives that a peer needs to become connected */
enum {
	QUEUE_PAIR_ESTIMATE = 128
}; /* bytes of a card's queue per work request, which count as locked too */

/* ---- sizes ----------------------------------------------------------------- */

static uint32_t lesser(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t power_of_two_within(uint32_t n)
{
	uint32_t p = 1;

	while (p <= n / 2)
		p *= 2;
	return p;
}

/* Everything from the job and from what the device says, checked before anything is made. */
static int choose_sizes(struct verbs *v)
{
	const struct ibv_device_attr *a = &v->device.attr;
	uint32_t peers = v->size > 1 ? (uint32_t)v->size - 1 : 1;
	uint32_t cqe = a->max_cqe > 0 ? (uint32_t)a->max_cqe : 0, log;
	uint64_t wish = ((uint64_t)v->queue_depth + GREETINGS) * peers;

	/* When a connection breaks every work request completes, signalled or not, so the
	 * completion queue has a place for each of them. */
	log = lesser(VERBS_LOG_MAX, a->max_qp_wr > 0 ? (uint32_t)a->max_qp_wr : 0);
	log = lesser(log, cqe / 2 / peers);
	v->receives = lesser(a->max_srq_wr > 0 ? (uint32_t)a->max_srq_wr : 0,
			     cqe > 64 ? cqe - 64 : 0);
	if (log >= VERBS_LOG_MIN) {
		log = power_of_two_within(log);
		v->receives = lesser(v->receives, cqe - 64 - log * peers);
	}
	if (wish < v->receives)
		v->receives = (uint32_t)wish;
	v->credits = v->receives / peers > GREETINGS ? v->receives / peers - GREETINGS : 0;
	if (log < VERBS_LOG_MIN || v->credits < lesser(VERBS_CREDITS_MIN, v->queue_depth) ||
	    peers >= (uint32_t)a->max_qp)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s is too small for %u peers: %d work requests, %d receives, "
				    "%d completions, %d queue pairs",
				    v->device.name, peers, a->max_qp_wr, a->max_srq_wr, a->max_cqe,
				    a->max_qp);
	v->log_entries = log;
	v->cq_entries = v->receives + log * peers + 64;
	v->max_message = v->device.port_attr.max_msg_sz;
	if (v->max_message == 0 || v->max_message > 1u << 30)
		v->max_message = 1u << 30;
	v->reads = lesser(VERBS_READS_MAX,
			  lesser((uint32_t)a->max_qp_rd_atom, (uint32_t)a->max_qp_init_rd_atom));
	if (v->reads == 0)
		return fail_quietly(SLUICE_ENOSUPP, "%s cannot read remote memory", v->device.name);
	return SLUICE_OK;
}

/* An error completion comes within two fifths of the job's budget; the rest is for connecting
 * again. */
static uint8_t choose_ack_timeout(int lost_after_ms)
{
	double budget_us = lost_after_ms * 1000.0 * 2 / 5 / (VERBS_RETRIES + 1);
	uint8_t exponent = 8;

	while (exponent < 22 && 4.096 * (double)(2u << exponent) <= budget_us)
		exponent++;
	return exponent;
}

/* ---- opening --------------------------------------------------------------- */

int verbs_failed(const char *call)
{
	return fail(errno == ENOMEM || errno == EMFILE ? SLUICE_ENOMEM : SLUICE_EDEVICE,
		    "verbs: %s: %s%s", call, errno_text(errno),
		    errno == EMFILE ? "; raise the limit on open files (ulimit -n)" :
		    errno == ENOMEM ? "; look at the limit on locked memory (ulimit -l)" :
				      "");
}

static int unblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int watch(const struct verbs *v, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(v->epoll, EPOLL_CTL_ADD, fd, &event);
}

static int open_descriptors(struct verbs *v)
{
	v->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (v->wake_fd < 0)
		return verbs_failed("eventfd");
	v->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (v->timer < 0)
		return verbs_failed("timerfd_create");
	v->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (v->epoll < 0)
		return verbs_failed("epoll_create1");
	if (unblock(v->channel->fd) < 0 || unblock(v->completions->fd) < 0 ||
	    unblock(v->context->async_fd) < 0)
		return verbs_failed("fcntl");
	if (watch(v, v->wake_fd) < 0 || watch(v, v->timer) < 0 || watch(v, v->channel->fd) < 0 ||
	    watch(v, v->completions->fd) < 0 || watch(v, v->context->async_fd) < 0)
		return verbs_failed("epoll_ctl");
	return SLUICE_OK;
}

/* How many bytes fit into a work request: only a queue pair knows. */
static int probe_inline(struct verbs *v)
{
	static const uint32_t wishes[] = { VERBS_INLINE_WISH, TRANSFER_INLINE_BYTES, 32, 0 };

	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = v->cq,
			.recv_cq = v->cq,
			.srq = v->srq,
			.qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = v->log_entries,
				 .max_send_sge = 1,
				 .max_inline_data = wishes[i] },
		};
		struct ibv_qp *qp = ibv_create_qp(v->pd, &attr);

		if (qp == NULL)
			continue;
		v->inline_bytes = lesser(attr.cap.max_inline_data, VERBS_INLINE_WISH);
		ibv_destroy_qp(qp);
		return SLUICE_OK;
	}
	return verbs_failed("ibv_create_qp");
}

/* wanted: "auto", "yes" or "no". why: what speaks against windows, where they are not used. */
static int choose_rights(struct verbs *v, const char *wanted, char why[160])
{
	v->pd = ibv_alloc_pd(v->context);
	if (v->pd == NULL)
		return verbs_failed("ibv_alloc_pd");
	if (wanted != NULL && strcmp(wanted, "no") == 0) {
		snprintf(why, 160, "SLUICE_MEMORY_WINDOWS=no");
	} else if (window_prove(v->pd, &v->device, why) == 0) {
		v->windows = 1;
		why[0] = '\0';
	} else if (wanted != NULL && strcmp(wanted, "yes") == 0) {
		return fail(SLUICE_ENOSUPP,
			    "verbs: SLUICE_MEMORY_WINDOWS=yes, but of %s: %s; auto or no uses a "
			    "protection domain for each peer instead",
			    v->device.name, why);
	}
	if (!v->windows && v->size > v->device.attr.max_pd)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s is too small for %d peers: %d protection domains",
				    v->device.name, v->size - 1, v->device.attr.max_pd);
	return SLUICE_OK;
}

static int open_queues(struct verbs *v)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = v->receives, .max_sge = 1 } };
	int rc;

	v->completions = ibv_create_comp_channel(v->context);
	if (v->completions == NULL)
		return verbs_failed("ibv_create_comp_channel");
	v->cq = ibv_create_cq(v->context, (int)v->cq_entries, NULL, v->completions, 0);
	if (v->cq == NULL)
		return verbs_failed("ibv_create_cq");
	v->srq = ibv_create_srq(v->pd, &attr);
	if (v->srq == NULL)
		return verbs_failed("ibv_create_srq");
	rc = poll_post_receives(v, v->receives);
	return rc < 0 ? rc : probe_inline(v);
}

static int open_memory(struct verbs *v)
{
	uint32_t places = 16;
	size_t peers = (size_t)v->size;
	int rc;

	while (places < 4 * peers)
		places *= 2;
	v->qpn_mask = places - 1;
	v->by_qpn = calloc(places, sizeof(*v->by_qpn));
	v->peers = calloc(peers, sizeof(*v->peers));
	v->by_rank = calloc(peers, sizeof(*v->by_rank));
	if (v->by_qpn == NULL || v->peers == NULL || v->by_rank == NULL)
		return fail(SLUICE_ENOMEM, "verbs: no memory for a table of %d peers", v->size);
	rc = event_queue_open(&v->events,
			      v->receives + 3 * v->log_entries * (uint32_t)v->size + 1024);
	if (rc < 0)
		return rc;
	/* Whole pages for each peer: what one may write is never next to what another may. */
	v->copies_stride = ((size_t)v->log_entries * TRANSFER_INLINE_BYTES + SLOT_BYTES +
			    VERBS_PAGE - 1) /
			   VERBS_PAGE * VERBS_PAGE;
	rc = region_open(peers * VERBS_PAGE, REGION_WRITE, "slots", &v->slots);
	if (rc == SLUICE_OK)
		rc = region_open(peers * v->copies_stride, 0, "copies", &v->copies);
	return rc;
}

int verbs_open(const struct transport_config *config, struct transport **out)
{
	struct transport *t;
	struct verbs *v;
	size_t locked;
	char text[80], why[160] = "";
	int rc;

	if (config->size < 1 || config->size > MAX_PEERS || config->rank < 0 ||
	    config->rank >= config->size || config->queue_depth == 0)
		return fail(SLUICE_EINVAL,
			    "verbs: rank %d of %d with a queue of %u is not possible", config->rank,
			    config->size, config->queue_depth);
	v = calloc(1, sizeof(*v));
	if (v == NULL)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*v));
	t = &v->transport;
	t->device = v->device.name;
	v->rank = config->rank;
	v->size = config->size;
	v->queue_depth = config->queue_depth;
	v->lost_after_ms = config->lost_after_ms > 0 ? config->lost_after_ms : 5000;
	v->control = config->control;
	v->control_line_bytes = config->control_line_bytes;
	v->epoll = v->timer = v->wake_fd = -1;
	v->ack_timeout = choose_ack_timeout(v->lost_after_ms);
	pthread_mutex_init(&v->registering, NULL);
	rc = verbs_device_choose(config->device, config->gid_index, &v->device);
	if (rc == SLUICE_OK)
		rc = choose_sizes(v);
	if (rc < 0)
		goto err_close;
	locked = (size_t)(v->size - 1) *
			 (VERBS_PAGE +
			  (size_t)v->log_entries * (TRANSFER_INLINE_BYTES + QUEUE_PAIR_ESTIMATE)) +
		 (v->control != NULL ? v->control->bytes : 0);
	rc = verbs_memlock_check(locked, "connecting this job's ranks");
	if (rc < 0)
		goto err_close;
	rc = auth_random(v->nonce_key, sizeof(v->nonce_key));
	if (rc == SLUICE_OK)
		rc = connect_listen(v);
	if (rc == SLUICE_OK)
		rc = choose_rights(v, config->memory_windows, why);
	if (rc == SLUICE_OK)
		rc = open_memory(v);
	if (rc == SLUICE_OK)
		rc = open_queues(v);
	if (rc == SLUICE_OK)
		rc = open_descriptors(v);
	if (rc < 0)
		goto err_close;
	log_line(LOG_INFO, "rdma",
		 "verbs: %s port %d (%s, %s), %s: queue of %u transfers a peer, %u receives (%u a "
		 "peer), %u completions, %u READs at once, %u bytes inline, messages of %llu "
		 "bytes; an unanswered request fails after %.2f s, a lost connection is made again "
		 "within %.2f s",
		 v->device.name, v->device.port, v->device.infiniband ? "InfiniBand" : "Ethernet",
		 v->device.reason,
		 verbs_address_text((void *)rdma_get_local_addr(v->listener), text), v->log_entries,
		 v->receives, v->credits, v->cq_entries, v->reads, v->inline_bytes,
		 (unsigned long long)v->max_message,
		 4.096e-6 * (double)(1u << v->ack_timeout) * (VERBS_RETRIES + 1),
		 v->lost_after_ms / 2000.0);
	log_line(LOG_INFO, "rdma", "verbs: each peer's rights are %s%s%s%s",
		 v->windows ? "memory windows of type 2B, bound to its queue pair" :
			      "a protection domain and a registration of its own",
		 why[0] != '\0' ? " (no memory windows: " : "", why, why[0] != '\0' ? ")" : "");
	*out = t;
	return SLUICE_OK;

err_close:
	verbs_close(&t);
	return rc;
}
