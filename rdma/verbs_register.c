/* SPDX-License-Identifier: BSD-3-Clause
 * Regions as the card sees them: per peer a key for the peer and a key for local use, each in that
 * peer's protection domain. A region ends its registrations when it closes, which may be in another
 * thread than the one that polls; hence the lock, which posting does not take. */
#include "base/log.h"
#include "rdma/ladder.h"
#include "rdma/verbs.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verbs_registration {
	struct registration registration;
	struct verbs *verbs;
	struct verbs_registration *next;     /* of the transport */
	const struct region *region;
	struct ibv_mr **remote, **local;     /* [rank] */
	/* Of device memory only, and then the keys above are these': [rank] for the peer, then for us. */
	struct ladder_memory *ladders;
};

static struct verbs_registration *registration_of(struct registration *r)
{
	return (struct verbs_registration *)(void *)r;
}

int register_host(struct ibv_pd *pd, void *base, size_t bytes, int access, const char *what,
		  struct ibv_mr **out)
{
	int rc = verbs_memlock_check(bytes, what);

	if (rc < 0) {
		char sentence[ERROR_TEXT_BYTES];

		snprintf(sentence, sizeof(sentence), "%s", sluice_last_error());
		return fail(rc, "%s", sentence);
	}
	*out = ibv_reg_mr(pd, base, bytes, access);
	if (*out != NULL)
		return SLUICE_OK;
	return fail(errno == ENOMEM ? SLUICE_ENOMEM : SLUICE_EDEVICE,
		    "%s: ibv_reg_mr of %zu bytes with access 0x%x: %s%s", what, bytes, (unsigned)access,
		    errno_text(errno), errno == ENOMEM ? "; look at the limit on locked memory (ulimit -l)" : "");
}

/* ---- finding and making ---------------------------------------------------------------------- */

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

static void end_remote(struct verbs_registration *r, int rank)
{
	if (r->ladders != NULL) {
		ladder_end(&r->ladders[rank]);
		r->remote[rank] = NULL;
	}
	dereg(&r->remote[rank]);
}

static void end_local(struct verbs_registration *r, int rank)
{
	if (r->ladders != NULL) {
		ladder_end(&r->ladders[r->verbs->size + rank]);
		r->local[rank] = NULL;
	}
	dereg(&r->local[rank]);
}

static void free_registration(struct verbs_registration *r)
{
	for (int p = 0; p < r->verbs->size; p++) {
		end_remote(r, p);
		end_local(r, p);
	}
	free(r->ladders);
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
	size_t pointers = 2 * (size_t)v->size * sizeof(struct ibv_mr *);
	struct verbs_registration *r;

	if (ep->pd == NULL)
		return fail_quietly(SLUICE_EPEER, "rank %d is gone: %s", ep->endpoint.peer, ep->gone_text);
	if (region->registrations == NULL)
		return fail(SLUICE_EINVAL, "verbs: memory that is no opened region cannot be registered");
	*out = r = find(v, region);
	if (r != NULL)
		return SLUICE_OK;
	r = calloc(1, sizeof(*r) + pointers);
	if (r == NULL)
		return fail(SLUICE_ENOMEM, "verbs: no memory to register a region");
	if (region->device != NULL) {
		r->ladders = calloc(2 * (size_t)v->size, sizeof(*r->ladders));
		if (r->ladders == NULL) {
			free(r);
			return fail(SLUICE_ENOMEM, "verbs: no memory to register device memory");
		}
	}
	r->remote = (struct ibv_mr **)(void *)(r + 1);
	r->local = r->remote + v->size;
	r->verbs = v;
	r->region = region;
	r->next = v->registrations;
	v->registrations = r;
	r->registration = (struct registration){
		.next = *region->registrations, .owner = v, .end = end};
	*region->registrations = &r->registration;
	*out = r;
	return SLUICE_OK;
}

static int conflict(unsigned a, unsigned b)
{
	return (a & REGION_WRITE) && (b & (REGION_READ | REGION_WRITE)) == REGION_READ;
}

/* Model memory is what peers may only read: nothing may make the same bytes writable for one. */
static int check_overlap(const struct verbs *v, const struct region *region)
{
	const char *from = region->base, *to = from + region->bytes;

	for (const struct verbs_registration *r = v->registrations; r != NULL; r = r->next) {
		const char *base = r->region->base;

		if (r->region != region && base < to && from < base + r->region->bytes &&
		    (conflict(r->region->access, region->access) ||
		     conflict(region->access, r->region->access)))
			return fail(SLUICE_EINVAL, "verbs: a region that peers may write shares bytes with one "
				    "that they may not");
	}
	return SLUICE_OK;
}

/* Device memory: by the rung that was proved. Keys for a peer need one that reaches the memory itself. */
static int register_device(struct verbs_endpoint *ep, struct verbs_registration *r, size_t from, size_t n,
			   int access, int for_peer, struct ibv_mr **out)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct ladder_memory *ladder = &r->ladders[ep->endpoint.peer + (for_peer ? 0 : v->size)];
	struct memory memory = *r->region->device;
	int rc;

	memory.address = (char *)memory.address + from;
	memory.fd_offset += from;
	memory.bytes = n;
	rc = ladder_register(ep->pd, &v->device, &memory, access, ladder);
	if (rc < 0)
		return rc;
	if (ladder->rung == LADDER_STAGING && (for_peer || memory.copy == NULL)) {
		rc = fail(SLUICE_ENOSUPP, "device memory cannot be %s: %s does not reach it (%s), and %s",
			  for_peer ? "offered to a peer" : "sent or filled", v->device.name, ladder->reason,
			  for_peer ? "a peer's access cannot be staged: offer host memory"
				   : "its allocator gives no way to copy it");
		ladder_end(ladder);
		return rc;
	}
	*out = ladder->mr;
	return SLUICE_OK;
}

static int remote_access(const struct region *region)
{
	int access = 0;

	if (region->access & REGION_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	if (region->access & REGION_WRITE) /* which the interface wants together with local write */
		access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
	return access;
}

int register_remote(struct verbs_endpoint *ep, const struct region *region, size_t from, size_t n,
		    uint32_t *rkey_out)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct verbs_registration *r = NULL;
	int rank = ep->endpoint.peer, rc;

	if (ep->revoked)
		return fail_quietly(SLUICE_EPEER, "rank %d was dropped from the job: it gets no key", rank);
	pthread_mutex_lock(&v->registering);
	rc = find_or_make(ep, region, &r);
	if (rc == SLUICE_OK && r->remote[rank] == NULL)
		rc = check_overlap(v, region);
	if (rc == SLUICE_OK && r->remote[rank] == NULL && region->device != NULL)
		rc = register_device(ep, r, from, n, remote_access(region), 1, &r->remote[rank]);
	else if (rc == SLUICE_OK && r->remote[rank] == NULL)
		rc = register_host(ep->pd, (char *)region->base + from, n, remote_access(region),
				   "a region for a peer", &r->remote[rank]);
	if (rc == SLUICE_OK)
		*rkey_out = r->remote[rank]->rkey;
	pthread_mutex_unlock(&v->registering);
	return rc;
}

static int covers(const struct ibv_mr *mr, const struct region *region)
{
	return mr != NULL && mr->addr == region->base && mr->length == region->bytes;
}

int register_local(struct verbs_endpoint *ep, const struct region *region, int write, uint32_t *lkey_out)
{
	struct verbs *v = verbs_of_endpoint(ep);
	const int rank = ep->endpoint.peer;
	struct verbs_registration *r = region->registrations != NULL ? find(v, region) : NULL;
	int rc;

	/* The usual case, without a lock: only this thread changes this region's keys. */
	if (r != NULL && r->local[rank] != NULL) {
		*lkey_out = r->local[rank]->lkey;
		return SLUICE_OK;
	}
	if (r != NULL && covers(r->remote[rank], region) && (!write || region->access & REGION_WRITE)) {
		*lkey_out = r->remote[rank]->lkey;
		return SLUICE_OK;
	}
	pthread_mutex_lock(&v->registering);
	rc = find_or_make(ep, region, &r);
	if (rc == SLUICE_OK && region->device != NULL)
		rc = register_device(ep, r, 0, region->bytes, IBV_ACCESS_LOCAL_WRITE, 0, &r->local[rank]);
	else if (rc == SLUICE_OK)
		rc = register_host(ep->pd, region->base, region->bytes, IBV_ACCESS_LOCAL_WRITE,
				   "a local region", &r->local[rank]);
	if (rc == SLUICE_OK)
		*lkey_out = r->local[rank]->lkey;
	pthread_mutex_unlock(&v->registering);
	return rc;
}

void *register_staging(const struct verbs_endpoint *ep, const struct region *region, const void *local)
{
	const struct verbs *v = verbs_of_endpoint(ep);
	const struct verbs_registration *r = find(v, region);
	const struct ladder_memory *ladder;

	if (r == NULL || r->ladders == NULL)
		return NULL;
	ladder = &r->ladders[v->size + ep->endpoint.peer];
	return ladder->staging != NULL
		? (char *)ladder->staging->base + ((const char *)local - (const char *)region->base) : NULL;
}

/* ---- ending ---------------------------------------------------------------------------------- */

void register_revoke_keys(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);

	pthread_mutex_lock(&v->registering);
	for (struct verbs_registration *r = v->registrations; r != NULL; r = r->next)
		end_remote(r, ep->endpoint.peer);
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
		end_remote(r, ep->endpoint.peer);
		end_local(r, ep->endpoint.peer);
	}
	dereg(&ep->slot_mr);
	dereg(&ep->copies_mr);
	err = ep->pd != NULL ? ibv_dealloc_pd(ep->pd) : 0;
	if (err != 0)
		log_line(LOG_WARN, "rdma", "verbs: ibv_dealloc_pd of rank %d: %s", ep->endpoint.peer,
			 errno_text(err));
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
