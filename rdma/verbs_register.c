/* SPDX-License-Identifier: BSD-3-Clause
 * Regions as the card sees them: what is registered, for whom, and what ends it. A region ends its
 * registrations when it closes, which may be in another thread than the one that polls; hence the
 * lock, which posting does not take. */
#include "base/log.h"
#include "rdma/verbs_register.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct verbs_registration *registration_of(struct registration *r)
{
	return (struct verbs_registration *)(void *)r;
}

/* ---- finding and making ---------------------------------------------------- */

static struct verbs_registration *find(const struct verbs *v, const struct region *region)
{
	struct registration *r = *region->registrations;

	while (r != NULL && r->owner != v)
		r = r->next;
	return r != NULL ? registration_of(r) : NULL;
}

static void dereg(struct ibv_mr **mr)
{
	int err = *mr != NULL ? ibv_dereg_mr(*mr) : 0;

	if (err != 0)
		log_line(LOG_WARN, "rdma", "verbs: ibv_dereg_mr: %s", errno_text(err));
	*mr = NULL;
}

static void end_remote(struct keys *k)
{
	window_end(&k->window);
	dereg(&k->remote);
	k->offered = 0;
}

static void free_registration(struct verbs_registration *r)
{
	const int size = r->verbs->size;

	for (int p = 0; p < size; p++)
		window_end(&r->at[p].window); /* all before what they look into */
	for (int p = 0; p < size; p++) {
		end_remote(&r->at[p]);
		dereg(&r->at[p].local);
	}
	free(r);
}

/* region_close() */
static void end(struct registration *registration)
{
	struct verbs_registration *r = registration_of(registration), **at;
	struct verbs *v = r->verbs;

	pthread_mutex_lock(&v->registering);
	for (at = &v->registrations; *at != r; at = &(*at)->next)
		;
	*at = r->next;
	free_registration(r);
	pthread_mutex_unlock(&v->registering);
}

/* Lock held. 0 and the registration of a region that ep may still use, or SLUICE_E*. */
static int find_or_make(struct verbs_endpoint *ep, const struct region *region,
			struct verbs_registration **out)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct verbs_registration *r;

	if (ep->pd == NULL)
		return fail_quietly(SLUICE_EPEER, "rank %d is gone: %s", ep->endpoint.peer,
				    ep->gone_text);
	if (region->registrations == NULL)
		return fail(SLUICE_EINVAL,
			    "verbs: memory that is no opened region cannot be registered");
	*out = r = find(v, region);
	if (r != NULL)
		return SLUICE_OK;
	r = calloc(1, sizeof(*r) + (size_t)v->size * sizeof(r->at[0]));
	if (r == NULL)
		return fail(SLUICE_ENOMEM, "verbs: no memory to register a region");
	r->id = ++v->last_region;
	r->verbs = v;
	r->region = region;
	r->next = v->registrations;
	v->registrations = r;
	r->registration = (struct registration){ .next = *region->registrations,
						 .owner = v,
						 .end = end };
	*region->registrations = &r->registration;
	*out = r;
	return SLUICE_OK;
}

/* With windows nobody but the peers' windows reaches it, and without local write none can be for
 * writing. */
static int access_for_peers(const struct verbs *v, const struct region *region)
{
	int access = v->windows ? IBV_ACCESS_MW_BIND : 0;

	if (region->access & REGION_READ && !v->windows)
		access |= IBV_ACCESS_REMOTE_READ;
	if (region->access & REGION_WRITE) /* which the interface wants together with local write */
		access |= IBV_ACCESS_LOCAL_WRITE | (v->windows ? 0 : IBV_ACCESS_REMOTE_WRITE);
	return access;
}

static int give_key(struct verbs_endpoint *ep, struct verbs_registration *r)
{
	struct keys *k = &r->at[ep->endpoint.peer];
	int rc;

	if (!verbs_of_endpoint(ep)->windows) {
		k->rkey = k->remote->rkey;
		return SLUICE_OK;
	}
	if (ep->state != LINK_UP || k->window != NULL)
		return SLUICE_OK; /* link_make() gives it one */
	rc = window_make(ep, &k->window, &k->rkey);
	if (rc == SLUICE_OK)
		rc = window_bind(ep, k->window, k->rkey, keys_remote(r, ep->endpoint.peer),
				 window_access(r->region));
	if (rc < 0)
		window_end(&k->window);
	return rc;
}

int register_remote(struct verbs_endpoint *ep, const struct region *region, size_t from, size_t n)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct verbs_registration *r = NULL;
	int rank = ep->endpoint.peer, whole = from == 0 && n == region->bytes, rc;
	struct keys *k = NULL, *holder = NULL;

	if (ep->revoked)
		return fail_quietly(SLUICE_EPEER,
				    "rank %d was dropped from the job: it gets no key", rank);
	pthread_mutex_lock(&v->registering);
	rc = find_or_make(ep, region, &r);
	if (rc == SLUICE_OK) {
		k = &r->at[rank];
		holder = v->windows && whole ? &r->at[v->rank] : k;
	}
	if (rc == SLUICE_OK && !k->offered && keys_offered(v, rank) >= KEYS_MAX)
		rc = fail(SLUICE_ENOSUPP,
			  "verbs: rank %d was offered %d regions, no more are possible", rank,
			  KEYS_MAX);
	if (rc == SLUICE_OK && holder->remote == NULL)
		rc = register_host(ep->pd, (char *)region->base + from, n,
				   access_for_peers(v, region), "a region for a peer",
				   &holder->remote);
	if (rc == SLUICE_OK)
		rc = give_key(ep, r);
	if (rc == SLUICE_OK)
		k->offered = 1;
	pthread_mutex_unlock(&v->registering);
	return rc;
}

int register_describe(struct verbs_endpoint *ep, const struct region *region,
		      uint8_t descriptor[REGION_DESCRIPTOR_BYTES])
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct wire_region wire = { .address = (uintptr_t)region->base,
				    .bytes = region->bytes,
				    .access = region->access,
				    .owner = (uint32_t)v->rank,
				    .user = (uint32_t)ep->endpoint.peer,
				    .link = ep->link };
	const struct verbs_registration *r;

	pthread_mutex_lock(&v->registering);
	r = find(v, region);
	if (r != NULL && r->at[ep->endpoint.peer].offered) {
		wire.id = r->id;
		wire.rkey = r->at[ep->endpoint.peer].rkey;
	}
	pthread_mutex_unlock(&v->registering);
	if (wire.id == 0)
		return fail(SLUICE_EPEER, "verbs: a region was taken back from rank %d",
			    ep->endpoint.peer);
	wire_region_encode(&wire, descriptor);
	return SLUICE_OK;
}

static int covers(const struct ibv_mr *mr, const struct region *region)
{
	return mr != NULL && mr->addr == region->base && mr->length == region->bytes;
}

/* Whose registration serves our own requests to this peer: all peers' where there is one domain. */
static int local_place(const struct verbs *v, int rank)
{
	return v->windows ? v->rank : rank;
}

/* Device memory that the card does not reach is proved not to be reached once, as that takes
 * time. */
static int register_device(struct verbs *v, struct ibv_pd *pd, const struct region *region,
			   struct keys *k)
{
	int rc = SLUICE_ENOSUPP;

	if (!k->unreachable)
		rc = ladder_register(pd, &v->device, region->device, &k->local);
	k->unreachable = rc == SLUICE_ENOSUPP;
	return rc;
}

int register_local(struct verbs_endpoint *ep, const struct region *region, int write,
		   uint32_t *lkey_out)
{
	struct verbs *v = verbs_of_endpoint(ep);
	const int place = local_place(v, ep->endpoint.peer);
	struct verbs_registration *r = region->registrations != NULL ? find(v, region) : NULL;
	struct keys *k;
	int rc;

	/* The usual case, without a lock: only this thread changes this region's keys. */
	if (r != NULL && r->at[place].local != NULL) {
		*lkey_out = r->at[place].local->lkey;
		return SLUICE_OK;
	}
	if (r != NULL && covers(r->at[place].remote, region) &&
	    (!write || region->access & REGION_WRITE)) {
		*lkey_out = r->at[place].remote->lkey;
		return SLUICE_OK;
	}
	pthread_mutex_lock(&v->registering);
	rc = find_or_make(ep, region, &r);
	k = rc == SLUICE_OK ? &r->at[place] : NULL;
	if (rc == SLUICE_OK && region->device)
		rc = register_device(v, ep->pd, region, k);
	else if (rc == SLUICE_OK)
		rc = register_host(ep->pd, region->base, region->bytes, IBV_ACCESS_LOCAL_WRITE,
				   "a local region", &k->local);
	if (rc == SLUICE_OK)
		*lkey_out = k->local->lkey;
	pthread_mutex_unlock(&v->registering);
	return rc;
}

int register_in_place(struct verbs_endpoint *ep, const struct region *region)
{
	uint32_t unused;
	int rc = register_local(ep, region, 0, &unused);

	return rc == SLUICE_ENOSUPP ? 0 : rc < 0 ? rc : 1;
}

/* ---- ending ---------------------------------------------------------------- */

void register_revoke_keys(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);

	pthread_mutex_lock(&v->registering);
	for (struct verbs_registration *r = v->registrations; r != NULL; r = r->next)
		end_remote(&r->at[ep->endpoint.peer]);
	window_end(&ep->slot_window);
	dereg(&ep->slot_mr);
	pthread_mutex_unlock(&v->registering);
	log_line(LOG_INFO, "rdma", "verbs: rank %d was dropped from the job; its keys are revoked",
		 ep->endpoint.peer);
}

void register_revoke(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);
	int err;

	pthread_mutex_lock(&v->registering);
	for (struct verbs_registration *r = v->registrations; r != NULL; r = r->next) {
		struct keys *k = &r->at[ep->endpoint.peer];

		end_remote(k);
		dereg(&k->local);
	}
	window_end(&ep->slot_window);
	dereg(&ep->slot_mr);
	dereg(&ep->copies_mr);
	err = ep->pd != NULL && ep->pd != v->pd ? ibv_dealloc_pd(ep->pd) : 0;
	if (err != 0)
		log_line(LOG_WARN, "rdma", "verbs: ibv_dealloc_pd of rank %d: %s",
			 ep->endpoint.peer, errno_text(err));
	ep->pd = NULL;
	pthread_mutex_unlock(&v->registering);
}

void register_close(struct verbs *v)
{
	pthread_mutex_lock(&v->registering);
	while (v->registrations != NULL) {
		struct verbs_registration *r = v->registrations;
		struct registration **at = r->region->registrations;

		v->registrations = r->next;
		while (*at != &r->registration)
			at = &(*at)->next;
		*at = r->registration.next;
		free_registration(r);
	}
	pthread_mutex_unlock(&v->registering);
}
