/* SPDX-License-Identifier: BSD-3-Clause
 * The card of fake_fabric.h: completion channels, completion and receive queues. */
#include "fake_fabric.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct fake_cq *fake_cqs;
struct ibv_srq *fake_first_srq;

struct fake_cq *fake_cq_of(struct ibv_cq *cq)
{
	return (struct fake_cq *)(void *)cq;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	struct ibv_comp_channel *channel;

	if (fake_fails("ibv_create_comp_channel", EMFILE))
		return NULL;
	channel = fake_new(sizeof(*channel));
	*channel = (struct ibv_comp_channel){ .context = c, .fd = eventfd(0, EFD_CLOEXEC) };
	fake_count(&fake_counts.channels, 1);
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (channel->refcnt > 0) {
		fake_misuse("ibv_destroy_comp_channel of a channel in use");
		return EBUSY;
	}
	close(channel->fd);
	free(channel);
	fake_count(&fake_counts.channels, -1);
	return 0;
}

static void note_size(struct fake_cq *cq, uint64_t pinned)
{
	fake_counts.pinned += pinned - cq->pinned;
	cq->pinned = pinned;
	if (cq->capacity > fake_counts.most_completions)
		fake_counts.most_completions = cq->capacity;
}

/* mlx5 rounds the number of places up to a power of two, with one more than asked for:
 * mlx5_resize_cq() in mlx5/verbs.c. irdma only adds one: get_cq_size() in irdma/uverbs.c. */
static uint64_t pinned_by(int cqe)
{
	uint64_t places = 1;

	while (places < (uint64_t)cqe + 1 && !fake.cqe_exact)
		places *= 2;
	if (fake.cqe_exact)
		places = (uint64_t)cqe + 1;
	return (places * fake.cqe_bytes + 4095) / 4096 * 4096;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq;

	if (fake_fails("ibv_create_cq", ENOMEM))
		return NULL;
	if (cqe < 1 || cqe > fake.attr.max_cqe || vector < 0 || vector >= c->num_comp_vectors) {
		errno = EINVAL;
		return NULL;
	}
	cq = fake_new(sizeof(*cq));
	fake_lock();
	*cq = (struct fake_cq){
		.cq = { .context = c, .channel = channel, .cq_context = cq_context, .cqe = cqe },
		.capacity = cqe,
		.entries = fake_new((size_t)cqe * sizeof(*cq->entries)),
		.next = fake_cqs
	};
	fake_cqs = cq;
	note_size(cq, pinned_by(cqe));
	if (channel != NULL) {
		channel->refcnt++;
		fake_counts.last_vector = vector;
	}
	fake_count(&fake_counts.cqs, 1);
	fake_unlock();
	return &cq->cq;
}

/* Drivers without the call return EOPNOTSUPP (libibverbs/dummy_ops.c of rdma-core 65). A queue is
 * never made smaller than the number of its entries. The kernel pins the new queue before it
 * releases the old one: mlx5_ib_resize_cq() in hw/mlx5/cq.c. If the rounded number of places stays,
 * nothing is pinned: mlx5_resize_cq() in mlx5/verbs.c. */
int ibv_resize_cq(struct ibv_cq *ibv_cq, int cqe)
{
	struct fake_cq *cq = fake_cq_of(ibv_cq);
	uint64_t pinned;
	struct fake_cqe *entries;

	if (fake.no_resize)
		return EOPNOTSUPP;
	if (fake_fails("ibv_resize_cq", ENOMEM))
		return ENOMEM;
	fake_lock();
	if (cqe < cq->count || cqe > fake.attr.max_cqe) {
		fake_unlock();
		return EINVAL;
	}
	pinned = pinned_by(cqe) == cq->pinned ? 0 : pinned_by(cqe);
	if (fake.pinned_most && fake_counts.pinned + pinned > fake.pinned_most) {
		fake_unlock();
		return ENOMEM;
	}
	entries = fake_new((size_t)cqe * sizeof(*entries));
	for (int i = 0; i < cq->count; i++)
		entries[i] = cq->entries[(cq->first + i) % cq->capacity];
	free(cq->entries);
	cq->entries = entries;
	cq->first = 0;
	cq->capacity = ibv_cq->cqe = cqe;
	note_size(cq, pinned_by(cqe));
	fake_unlock();
	return 0;
}

int ibv_destroy_cq(struct ibv_cq *ibv_cq)
{
	struct fake_cq *cq = fake_cq_of(ibv_cq), **at;

	fake_lock();
	for (struct fake_qp *q = fake_qps; q != NULL; q = q->next)
		if (q->qp.send_cq == ibv_cq || q->qp.recv_cq == ibv_cq)
			fake_misuse("ibv_destroy_cq of a queue in use");
	if (cq->unacked > 0)
		fake_misuse("ibv_destroy_cq with events not acknowledged"); /* the real function
									       waits forever */
	if (ibv_cq->channel != NULL)
		ibv_cq->channel->refcnt--;
	for (at = &fake_cqs; *at != cq; at = &(*at)->next)
		;
	*at = cq->next;
	fake_counts.pinned -= cq->pinned;
	fake_count(&fake_counts.cqs, -1);
	fake_unlock();
	free(cq->entries);
	free(cq);
	return 0;
}

void fake_complete(struct fake_cq *cq, struct fake_cqe cqe)
{
	if (cq->count == cq->capacity) {
		fake_counts.cq_overruns++;
		return;
	}
	cq->entries[(cq->first + cq->count++) % cq->capacity] = cqe;
	if (cq->armed && cq->cq.channel != NULL) {
		cq->armed = 0;
		cq->pending++;
		fake_pulse(cq->cq.channel->fd);
	}
}

int fake_poll_cq(struct ibv_cq *ibv_cq, int n, struct ibv_wc *wc)
{
	struct fake_cq *cq = fake_cq_of(ibv_cq);
	int taken = 0;

	fake_lock();
	if (fake.polls_most && n > fake.polls_most)
		n = fake.polls_most;
	fake_send_waiting(ibv_cq);
	for (; taken < n && cq->count > 0 && !fake_waits(&cq->entries[cq->first]); taken++) {
		struct fake_cqe *e = &cq->entries[cq->first];

		wc[taken] = e->wc;
		if (e->qp != NULL && e->retires > e->qp->retired)
			e->qp->retired = e->retires;
		if (e->srq != NULL)
			e->srq->in_use--;
		cq->first = (cq->first + 1) % cq->capacity;
		cq->count--;
	}
	if (taken == 0)
		fake_place_some();
	fake_unlock();
	return taken;
}

int fake_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	(void)solicited;
	if (fake_fails("ibv_req_notify_cq", EIO))
		return EIO;
	if (fake.arming)
		fake.arming();
	fake_lock();
	fake_place_all(NULL); /* the user polls once more, and may sleep then */
	fake_cq_of(cq)->armed = 1;
	fake_unlock();
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq_out, void **context_out)
{
	int found = 0;

	fake_lock();
	for (struct fake_cq *cq = fake_cqs; cq != NULL && !found; cq = cq->next) {
		if (cq->cq.channel != channel || cq->pending == 0)
			continue;
		if (--cq->pending == 0)
			fake_drain(channel->fd);
		cq->unacked++;
		fake_counts.unacked++;
		*cq_out = &cq->cq;
		*context_out = cq->cq.cq_context;
		found = 1;
	}
	fake_unlock();
	if (!found)
		errno = EAGAIN;
	return found ? 0 : -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	fake_lock();
	fake_cq_of(cq)->unacked -= (int)n;
	fake_counts.unacked -= (int)n;
	fake_unlock();
}

/* Soft-RoCE rounds the ring up to a power of two and gives all places but one: rxe_queue_init(). */
static uint32_t srq_places(uint32_t asked)
{
	uint32_t ring = 1;

	while (ring < asked + 1)
		ring *= 2;
	return fake.frees_taken ? ring - 1 : asked;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct fake_srq *srq;
	int full;

	if (fake_fails("ibv_create_srq", ENOMEM))
		return NULL;
	fake_lock();
	full = fake_counts.srqs >= fake.attr.max_srq;
	fake_counts.srqs += !full;
	fake_unlock();
	if (full) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	srq = fake_new(sizeof(*srq));
	*srq = (struct fake_srq){
		.srq = { .context = pd->context, .srq_context = attr->srq_context, .pd = pd },
		.capacity = srq_places(attr->attr.max_wr)
	};
	srq->wr_ids = fake_new(srq->capacity * sizeof(*srq->wr_ids));
	fake_lock();
	if (!fake_first_srq)
		fake_first_srq = &srq->srq;
	fake_unlock();
	return &srq->srq;
}

/* Soft-RoCE of Linux 6.1 reports the places only here: rxe_query_srq() in rxe_verbs.c. */
int ibv_query_srq(struct ibv_srq *ibv_srq, struct ibv_srq_attr *attr)
{
	const struct fake_srq *srq = (const struct fake_srq *)(const void *)ibv_srq;

	if (fake_fails("ibv_query_srq", EINVAL))
		return EINVAL;
	*attr = (struct ibv_srq_attr){ .max_wr = srq->capacity, .max_sge = 1 };
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibv_srq)
{
	struct fake_srq *srq = (struct fake_srq *)(void *)ibv_srq;

	fake_lock();
	for (struct fake_qp *q = fake_qps; q != NULL; q = q->next)
		if (q->qp.srq == ibv_srq)
			fake_misuse("ibv_destroy_srq of a queue in use");
	if (fake_first_srq == ibv_srq)
		fake_first_srq = NULL;
	fake_count(&fake_counts.srqs, -1);
	fake_unlock();
	free(srq->wr_ids);
	free(srq);
	return 0;
}

int fake_post_srq_recv(struct ibv_srq *ibv_srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_srq *srq = (struct fake_srq *)(void *)ibv_srq;
	int err = fake_fails("ibv_post_srq_recv", ENOMEM) ? ENOMEM : 0;

	fake_lock();
	for (; wr != NULL && err == 0; wr = wr->next) {
		*bad = wr;
		/* A place becomes free when its completion is polled or cleaned:
		 * mlx5_post_srq_recv() and mlx5_free_srq_wqe() in mlx5/srq.c. Soft-RoCE frees it
		 * when a queue pair takes the receive: get_srq_wqe() in rxe_resp.c. */
		if (srq->count + (fake.frees_taken ? 0 : srq->in_use) == srq->capacity) {
			fake_counts.srq_full++;
			err = ENOMEM;
			break;
		}
		srq->wr_ids[(srq->first + srq->count++) % srq->capacity] = wr->wr_id;
		fake_counts.receives_posted++;
	}
	fake_unlock();
	return err;
}
