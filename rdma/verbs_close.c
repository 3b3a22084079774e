/* SPDX-License-Identifier: BSD-3-Clause
 * The end of the verbs transport, and of one that did not come to its beginning. */
#include "rdma/verbs.h"
#include "base/clock.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLOSE_MS = 1000 };

/* Last words are posted and the process ends next: they get a second to leave. */
static void flush(struct verbs *v)
{
	uint64_t until = now_ns() + (uint64_t)CLOSE_MS * 1000000;
	int waiting, i;

	for (i = 0; i < v->n_peers; i++)
		if (v->peers[i]->state == LINK_UP && !v->peers[i]->failing)
			post_slot(v->peers[i], SLOT_CREDIT, NULL, 0, 1);
	do {
		waiting = 0;
		poll_completions(v);
		v->events.count = 0; /* nobody takes them any more */
		for (i = 0; i < v->n_peers; i++)
			waiting |= v->peers[i]->state == LINK_UP && !v->peers[i]->failing &&
				   v->peers[i]->wr_done < v->peers[i]->wr_signalled;
	} while (waiting && now_ns() < until);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void verbs_close(struct transport **t)
{
	struct verbs *v;
	int i;

	if (t == NULL || *t == NULL)
		return;
	v = verbs_of(*t);
	if (v->cq != NULL)
		flush(v);
	connect_close(v);
	/* Taking a link down looks at all peers: none may be freed before the last link is down. */
	for (i = 0; i < v->n_peers; i++) {
		link_drop(v->peers[i]);
		register_revoke(v->peers[i]);
	}
	for (i = 0; i < v->n_peers; i++) {
		free(v->peers[i]->log);
		free(v->peers[i]);
	}
	register_close(v);
	if (v->srq != NULL)
		ibv_destroy_srq(v->srq);
	if (v->cq != NULL)
		ibv_destroy_cq(v->cq);
	if (v->pd != NULL)
		ibv_dealloc_pd(v->pd);
	if (v->completions != NULL)
		ibv_destroy_comp_channel(v->completions);
	if (v->listener != NULL)
		rdma_destroy_id(v->listener);
	if (v->channel != NULL)
		rdma_destroy_event_channel(v->channel);
	close_fd(v->epoll);
	close_fd(v->timer);
	close_fd(v->wake_fd);
	region_close(&v->slots);
	region_close(&v->copies);
	event_queue_close(&v->events);
	free(v->by_qpn);
	free(v->peers);
	free(v->by_rank);
	pthread_mutex_destroy(&v->registering);
	explicit_bzero(&v->secret, sizeof(v->secret));
	free(v);
	*t = NULL;
}
