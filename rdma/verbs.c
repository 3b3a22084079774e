/* SPDX-License-Identifier: BSD-3-Clause
 * The transport over libibverbs and librdmacm: the card, endpoints, descriptions of regions.
 * verbs.h tells which part is where. */
#include "rdma/verbs.h"
#include "base/bytes.h"
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CARD_MAGIC = 0x53425256, CARD_BYTES = 60 };

/* ---- meeting peers --------------------------------------------------------- */

/* magic, rank, family 4 or 6 u8, zero, port u16, address 16, device name 32 */
static int verbs_card(struct transport *t, uint8_t *bytes, size_t *len_out)
{
	struct verbs *v = verbs_of(t);
	const struct sockaddr *own = rdma_get_local_addr(v->listener);

	memset(bytes, 0, CARD_BYTES);
	put_le32(bytes, CARD_MAGIC);
	put_le32(bytes + 4, (uint32_t)v->rank);
	bytes[8] = own->sa_family == AF_INET ? 4 : 6;
	put_le16(bytes + 10, ntohs(rdma_get_src_port(v->listener)));
	if (own->sa_family == AF_INET)
		memcpy(bytes + 12, &((const struct sockaddr_in *)(const void *)own)->sin_addr, 4);
	else
		memcpy(bytes + 12, &((const struct sockaddr_in6 *)(const void *)own)->sin6_addr,
		       16);
	memcpy(bytes + 28, v->device.name, strnlen(v->device.name, 31));
	*len_out = CARD_BYTES;
	return SLUICE_OK;
}

static int decode_card(const uint8_t *bytes, size_t len, int rank, struct verbs_endpoint *ep)
{
	struct sockaddr_in *in = (void *)&ep->address;
	struct sockaddr_in6 *in6 = (void *)&ep->address;

	if (len != CARD_BYTES || get_le32(bytes) != CARD_MAGIC ||
	    get_le32(bytes + 4) != (uint32_t)rank || (bytes[8] != 4 && bytes[8] != 6) ||
	    get_le16(bytes + 10) == 0)
		return fail(SLUICE_EWIRE,
			    "verbs: the address in the card of rank %d is not one (%zu bytes)",
			    rank, len);
	if (bytes[8] == 4) {
		in->sin_family = AF_INET;
		in->sin_port = htons(get_le16(bytes + 10));
		memcpy(&in->sin_addr, bytes + 12, 4);
	} else {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(get_le16(bytes + 10));
		memcpy(&in6->sin6_addr, bytes + 12, 16);
	}
	for (size_t i = 0; i < sizeof(ep->device) - 1 && bytes[28 + i] > ' ' && bytes[28 + i] < 127;
	     i++)
		ep->device[i] = (char)bytes[28 + i];
	return SLUICE_OK;
}

static int verbs_reaches(struct transport *t, int peer, int boot_id_same, const char **why)
{
	(void)boot_id_same;
	if (peer != verbs_of(t)->rank)
		return 1;
	*why = "verbs does not reach the own rank, self does";
	return 0;
}

static int verbs_admit(struct transport *t, const struct job_secret *secret)
{
	struct verbs *v = verbs_of(t);

	v->secret = *secret;
	v->admitted = 1;
	return SLUICE_OK;
}

/* What the peer may use from its first day: its slot and its line of the control region. */
static int open_for_peer(struct verbs *v, struct verbs_endpoint *ep)
{
	size_t rank = (size_t)ep->endpoint.peer, from = 0, n;
	int rc;

	ep->pd = v->windows ? v->pd : ibv_alloc_pd(v->context);
	if (ep->pd == NULL)
		return verbs_failed("ibv_alloc_pd");
	ep->slot = (uint8_t *)v->slots->base + rank * VERBS_PAGE;
	ep->copies = (uint8_t *)v->copies->base + rank * v->copies_stride;
	rc = register_host(ep->pd, ep->slot, SLOT_BYTES,
			   IBV_ACCESS_LOCAL_WRITE |
				   (v->windows ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_WRITE),
			   "a peer's slot", &ep->slot_mr);
	if (rc == SLUICE_OK)
		rc = register_host(ep->pd, ep->copies, v->copies_stride, 0, "small puts",
				   &ep->copies_mr);
	if (rc == SLUICE_OK && !v->windows)
		ep->slot_rkey = ep->slot_mr->rkey;
	if (rc < 0 || v->control == NULL)
		return rc;
	n = v->control->bytes;
	if (v->control_line_bytes != 0) {
		from = rank * v->control_line_bytes;
		n = v->control_line_bytes;
	}
	return register_remote(ep, v->control, from, n);
}

static int verbs_connect(struct transport *t, int rank, const uint8_t *card, size_t len,
			 struct endpoint **out)
{
	struct verbs *v = verbs_of(t);
	struct verbs_endpoint *ep;
	int rc;

	if (rank < 0 || rank >= v->size || rank == v->rank || v->by_rank[rank] != NULL ||
	    !v->admitted)
		return fail(SLUICE_EINVAL, "verbs: rank %d cannot connect to rank %d of %d%s",
			    v->rank, rank, v->size,
			    !v->admitted ? ": it does not know the job's key yet" : "");
	ep = calloc(1, sizeof(*ep));
	if (ep == NULL)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*ep));
	ep->endpoint = (struct endpoint){ .transport = t, .peer = rank };
	ep->client = v->rank < rank;
	ep->log = calloc(v->log_entries, sizeof(*ep->log));
	rc = ep->log != NULL ? decode_card(card, len, rank, ep) :
			       fail(SLUICE_ENOMEM, "verbs: no memory for a log of %u transfers",
				    v->log_entries);
	if (rc == SLUICE_OK)
		rc = open_for_peer(v, ep);
	if (rc < 0) {
		register_revoke(ep);
		free(ep->log);
		free(ep);
		return rc;
	}
	v->by_rank[rank] = ep;
	v->peers[v->n_peers++] = ep;
	v->ticking = 1; /* the next poll begins */
	v->next_look_ns = 0;
	*out = &ep->endpoint;
	return SLUICE_OK;
}

static int gone(const struct verbs_endpoint *ep)
{
	return fail_quietly(SLUICE_EPEER, "rank %d is gone: %s", ep->endpoint.peer, ep->gone_text);
}

static int verbs_ready(struct endpoint *e)
{
	struct verbs_endpoint *ep = verbs_endpoint_of(e);

	if (ep->state == LINK_GONE)
		return gone(ep);
	return ep->was_up;
}

static int verbs_in_place(struct endpoint *e, const struct region *device)
{
	return register_in_place(verbs_endpoint_of(e), device);
}

static int verbs_describe(struct endpoint *e, const struct region *region,
			  uint8_t descriptor[REGION_DESCRIPTOR_BYTES])
{
	struct verbs_endpoint *ep = verbs_endpoint_of(e);
	int rc;

	if (region->access == 0)
		return fail(SLUICE_EINVAL, "a region for local use cannot be described to rank %d",
			    e->peer);
	if (!ep->was_up && ep->state != LINK_GONE)
		return fail(SLUICE_EINVAL, "verbs: rank %d is not connected yet", e->peer);
	poll_until_linked(ep);
	if (ep->state != LINK_UP)
		return gone(ep);
	rc = register_remote(ep, region, 0, region->bytes);
	return rc == SLUICE_OK ? register_describe(ep, region, descriptor) : rc;
}

static int verbs_remote_open(struct endpoint *e, const uint8_t descriptor[REGION_DESCRIPTOR_BYTES],
			     struct remote **out)
{
	struct verbs_endpoint *ep = verbs_endpoint_of(e);
	struct verbs_remote *remote;
	struct wire_region wire;
	uint32_t rkey;
	int rc;

	if (ep->state == LINK_GONE)
		return gone(ep);
	rc = wire_region_decode(descriptor, (uint32_t)e->peer,
				(uint32_t)verbs_of_endpoint(ep)->rank, &wire);
	if (rc == SLUICE_OK)
		rc = keys_of(ep, &wire, &rkey);
	if (rc < 0)
		return rc;
	remote = calloc(1, sizeof(*remote));
	if (remote == NULL)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*remote));
	remote->remote = (struct remote){ .endpoint = e,
					  .bytes = wire.bytes,
					  .access = wire.access };
	remote->address = wire.address;
	remote->rkey = rkey;
	remote->id = wire.id;
	remote->next = ep->remotes;
	ep->remotes = remote;
	*out = &remote->remote;
	return SLUICE_OK;
}

static int verbs_control(struct endpoint *e, struct remote **out)
{
	struct verbs_endpoint *ep = verbs_endpoint_of(e);

	if (!ep->was_up)
		return fail(SLUICE_EINVAL, "verbs: rank %d is not connected yet", e->peer);
	return verbs_remote_open(e, ep->control, out);
}

static void verbs_remote_close(struct remote **r)
{
	struct verbs_remote *remote, **at;

	if (r == NULL || *r == NULL)
		return;
	remote = verbs_remote_of(*r);
	for (at = &verbs_endpoint_of((*r)->endpoint)->remotes; *at != remote; at = &(*at)->next)
		;
	*at = remote->next;
	free(remote);
	*r = NULL;
}

/* The connection stays for our last words to it: that it was dropped. */
static void verbs_revoke(struct endpoint *e)
{
	struct verbs_endpoint *ep = verbs_endpoint_of(e);

	if (ep->revoked || ep->state == LINK_GONE)
		return;
	ep->revoked = 1;
	if (ep->state == LINK_UP)
		register_revoke_keys(ep);
	else
		link_gone(ep, "it was dropped from the job");
}

static int open_transport(const struct transport_config *config, struct transport **out)
{
	int rc = verbs_open(config, out);

	if (rc == SLUICE_OK)
		(*out)->ops = &verbs_transport;
	return rc;
}

const struct transport_ops verbs_transport = {
	.size = sizeof(struct transport_ops),
	.name = "verbs",
	.open = open_transport,
	.close = verbs_close,
	.card = verbs_card,
	.reaches = verbs_reaches,
	.admit = verbs_admit,
	.connect = verbs_connect,
	.ready = verbs_ready,
	.control = verbs_control,
	.describe = verbs_describe,
	.remote_open = verbs_remote_open,
	.remote_close = verbs_remote_close,
	.revoke = verbs_revoke,
	.post = verbs_post,
	.in_place = verbs_in_place,
	.poll = verbs_poll,
	.arm = verbs_arm,
	.disarm = verbs_disarm,
	.cancel = verbs_cancel,
	.fd = verbs_fd,
	.wake = verbs_wake,
};
