/* SPDX-License-Identifier: BSD-3-Clause
 * See rights.h. A window is made after its queue pair, bound as soon as requests can be posted, and
 * ended before the queue pair (soft-RoCE hangs for a minute when a queue pair that has windows is
 * destroyed). A long registration has several windows, see windows.h. */
#include "rdma/rights.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/pieces.h"
#include "rdma/register.h"
#include "rdma/windows.h"
#include "sluice.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One peer's part of a region. The entry of this rank itself has what all peers share. */
struct part {
	struct ibv_mr *remote;   /* covers exactly the bytes that the peer may reach */
	struct piece *local;     /* used by work requests of this rank */
	struct windows *windows; /* the windows over `remote`, for the peer's current queue pair,
				    or NULL */
	int offered;             /* 1: the peer has the keys, and gets new ones when they change */
};

struct region_rights {
	struct registration registration;
	enum method method; /* the way in which the card reaches device memory, as a test has
			       shown */
	struct part at[];   /* [rank] */
};

struct rights {
	struct ibv_context *context;
	const struct verbs_device *device;
	int rank, size;
	int windows;          /* 1: rights by memory windows; 0: by a domain for each peer */
	uint64_t window_most; /* the most bytes that the card binds to one window */
	enum relaxed relaxed; /* which registrations have relaxed ordering */
	struct ibv_pd *pd;
	pthread_mutex_t lock;     /* protects all keys, and the lists of open remotes */
	struct registry registry; /* of struct region_rights */
};

struct rights_remote {
	struct remote remote;
	struct rights_peer *peer;
	struct rights_remote *next;
	struct sendlog_target target;
	uint32_t rkey[REGION_KEYS_MOST];
};

struct rights_peer {
	struct rights *rights;
	int peer;
	int revoked;
	struct ibv_pd *pd;
	uint8_t *slot;
	struct ibv_mr *slot_mr, *copies_mr;
	struct windows *slot_window;
	const struct region *control;
	uint32_t link;                                 /* number of queue pairs made for the peer */
	uint8_t peer_control[REGION_DESCRIPTOR_BYTES]; /* only the members of the head are set */
	struct key_table peer_keys;
	struct rights_remote *remotes; /* open remotes of the peer */
};

/* ---- registrations ---------------------------------------------------------------- */

static struct region_rights *first_of(const struct rights *rights)
{
	return (struct region_rights *)(void *)rights->registry.first; /* its first member */
}

static struct region_rights *next_of(const struct region_rights *r)
{
	return (struct region_rights *)(void *)r->registration.next_there;
}

static void end_remote(struct part *part)
{
	windows_close(&part->windows);
	register_end(&part->remote);
	part->offered = 0;
}

static int end_region_rights(void *owner, struct registration *registration)
{
	struct region_rights *r = (struct region_rights *)(void *)registration;
	const int size = ((struct rights *)owner)->size;

	for (int p = 0; p < size; p++)
		windows_close(&r->at[p].windows); /* windows must end before their registrations */
	for (int p = 0; p < size; p++) {
		end_remote(&r->at[p]);
		pieces_end(&r->at[p].local);
	}
	free(r);
	return 0;
}

/* This rank polls the control region, so writes to it must stay in order. */
static enum relaxed relaxed_for(const struct rights_peer *p, const struct region *region)
{
	return region == p->control ? RELAXED_NONE : p->rights->relaxed;
}

/* Requires the lock. */
static int add_region(struct rights_peer *p, const struct region *region,
		      struct region_rights **out)
{
	if (!p->pd)
		return fail_quietly(SLUICE_EPEER, "rank %d is gone", p->peer);
	return registry_add(&p->rights->registry, region, out);
}

/* ---- what the peer may do here ---------------------------------------------------- */

/* Returns the peer's registration, or the one for all peers. */
static struct ibv_mr *offered_mr(const struct rights *rights, const struct region_rights *r,
				 int peer)
{
	return r->at[peer].remote ? r->at[peer].remote : r->at[rights->rank].remote;
}

static uint32_t offered_keys(const struct part *part)
{
	return part->windows ? windows_count(part->windows) : 1;
}

static uint32_t offered_key(const struct part *part, uint32_t i)
{
	return part->windows ? windows_key(part->windows, i) : part->remote->rkey;
}

/* The greeting has room for only one key of the control region, and a descriptor always covers a
 * whole region. Therefore the control region has a single window, and so has a region of which the
 * peer gets a part. */
static int open_windows(const struct rights_peer *p, const char *region, size_t bytes, int whole,
			unsigned access, struct windows **out)
{
	const struct rights *rights = p->rights;
	const uint64_t cut = whole ? bytes : windows_cut(bytes, rights->window_most);

	return windows_open(&(struct windows_config){ rights->pd, rights->device, p->peer, region,
						      bytes, cut, access },
			    out);
}

/* Requires the lock. */
static int offer_locked(struct rights_peer *p, const struct region *region, size_t from, size_t n,
			int connected)
{
	struct rights *rights = p->rights;
	const int common = rights->windows && !from && n == region->bytes;
	struct region_rights *r;
	struct part *part, *holder;
	uint32_t offered = 0;
	int rc = add_region(p, region, &r);

	if (rc)
		return rc;
	part = &r->at[p->peer];
	holder = common ? &r->at[rights->rank] : part;
	for (const struct region_rights *other = first_of(rights); other; other = next_of(other))
		offered += other->at[p->peer].offered ? offered_keys(&other->at[p->peer]) : 0;
	if (rights->windows && !part->windows)
		rc = open_windows(p, region->name, n, region == p->control || n < region->bytes,
				  windows_access(region), &part->windows);
	if (!rc && !part->offered && offered + offered_keys(part) > KEYS_MAX)
		rc = fail(SLUICE_ENOSUPP,
			  "verbs: rank %d has %u keys of this rank's regions and needs %u more for "
			  "region %s, but a rank can have only %d",
			  p->peer, offered, offered_keys(part), region->name, KEYS_MAX);
	if (!rc && !holder->remote)
		rc = register_host(p->pd, (char *)region->base + from, n,
				   register_access(region, rights->windows, relaxed_for(p, region)),
				   "a region for a peer", &holder->remote);
	if (!rc && part->windows && connected)
		rc = windows_make(part->windows);
	part->offered |= !rc;
	return rc;
}

int rights_offer(struct rights_peer *p, const struct region *region, size_t from, size_t n,
		 int connected)
{
	int rc;

	if (p->revoked)
		return fail_quietly(SLUICE_EPEER,
				    "rank %d was dropped from the job: it gets no key", p->peer);
	pthread_mutex_lock(&p->rights->lock);
	rc = offer_locked(p, region, from, n, connected);
	pthread_mutex_unlock(&p->rights->lock);
	return rc;
}

int rights_describe(struct rights_peer *p, const struct region *region,
		    uint8_t descriptor[REGION_DESCRIPTOR_BYTES])
{
	struct rights *rights = p->rights;
	struct verbs_region wire = { .address = (uintptr_t)region->base,
				     .bytes = region->bytes,
				     .access = region->access,
				     .owner = (uint32_t)rights->rank,
				     .user = (uint32_t)p->peer,
				     .link = p->link };
	const struct region_rights *r;

	pthread_mutex_lock(&rights->lock);
	r = registry_find(&rights->registry, region);
	if (r && r->at[p->peer].offered) {
		const struct part *part = &r->at[p->peer];

		wire.id = r->registration.id;
		wire.window = part->windows ? windows_bytes(part->windows) : 0;
		wire.keys = offered_keys(part);
		for (uint32_t i = 0; i < wire.keys; i++)
			wire.rkey[i] = offered_key(part, i);
	}
	pthread_mutex_unlock(&rights->lock);
	if (!wire.id)
		return fail(SLUICE_EPEER, "verbs: rank %d has lost its right to a region", p->peer);
	verbs_region_encode(&wire, descriptor);
	return SLUICE_OK;
}

int rights_connect(struct rights_peer *p)
{
	struct rights *rights = p->rights;
	int rc = SLUICE_OK;

	p->link++;
	if (!rights->windows)
		return SLUICE_OK;
	pthread_mutex_lock(&rights->lock);
	rc = windows_make(p->slot_window);
	for (struct region_rights *r = first_of(rights); !rc && r; r = next_of(r)) {
		struct part *part = &r->at[p->peer];

		if (part->offered)
			rc = windows_make(part->windows);
	}
	pthread_mutex_unlock(&rights->lock);
	return rc;
}

int rights_bind(struct rights_peer *p, struct sendlog *log)
{
	struct rights *rights = p->rights;
	int rc;

	if (!rights->windows)
		return SLUICE_OK;
	pthread_mutex_lock(&rights->lock);
	rc = p->slot_window ? windows_bind(p->slot_window, p->slot_mr, log) : SLUICE_OK;
	for (struct region_rights *r = first_of(rights); !rc && r; r = next_of(r)) {
		struct part *part = &r->at[p->peer];

		if (part->windows)
			rc = windows_bind(part->windows, offered_mr(rights, r, p->peer), log);
	}
	pthread_mutex_unlock(&rights->lock);
	return rc;
}

int rights_explain(struct rights_peer *p, uint64_t request, char why[200])
{
	int found = windows_explain(p->slot_window, request, why);

	pthread_mutex_lock(&p->rights->lock);
	for (struct region_rights *r = first_of(p->rights); !found && r; r = next_of(r))
		found = windows_explain(r->at[p->peer].windows, request, why);
	pthread_mutex_unlock(&p->rights->lock);
	return found;
}

void rights_disconnect(struct rights_peer *p)
{
	struct rights *rights = p->rights;

	if (!rights->windows)
		return;
	pthread_mutex_lock(&rights->lock);
	for (struct region_rights *r = first_of(rights); r; r = next_of(r))
		windows_end(r->at[p->peer].windows);
	windows_end(p->slot_window);
	pthread_mutex_unlock(&rights->lock);
}

int rights_greeting(struct rights_peer *p, uint32_t credits, struct slot_address *slot,
		    uint8_t control[REGION_HEAD_BYTES])
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	int rc;

	*slot = (struct slot_address){ .address = (uintptr_t)p->slot, .credits = credits };
	if (p->slot_mr)
		slot->rkey = p->slot_window ? windows_key(p->slot_window, 0) : p->slot_mr->rkey;
	memset(control, 0, REGION_HEAD_BYTES);
	if (!p->control)
		return SLUICE_OK;
	rc = rights_describe(p, p->control, descriptor);
	if (!rc)
		memcpy(control, descriptor, REGION_HEAD_BYTES);
	return rc;
}

size_t rights_table(struct rights_peer *p, uint8_t out[KEY_TABLE_BYTES])
{
	struct rights *rights = p->rights;
	struct key_table table = { .link = p->link };

	pthread_mutex_lock(&rights->lock);
	for (const struct region_rights *r = first_of(rights); r; r = next_of(r)) {
		const struct part *part = &r->at[p->peer];

		for (uint32_t i = 0; part->offered && i < offered_keys(part); i++) {
			table.key[table.n].id = r->registration.id;
			table.key[table.n++].rkey = offered_key(part, i);
		}
	}
	pthread_mutex_unlock(&rights->lock);
	return key_table_encode(&table, out);
}

void rights_withdraw(struct rights_peer *p, const struct region *region)
{
	struct region_rights *r;

	pthread_mutex_lock(&p->rights->lock);
	r = registry_find(&p->rights->registry, region);
	if (r)
		end_remote(&r->at[p->peer]);
	pthread_mutex_unlock(&p->rights->lock);
}

/* Requires the lock. */
static void end_offers(struct rights_peer *p)
{
	for (struct region_rights *r = first_of(p->rights); r; r = next_of(r))
		end_remote(&r->at[p->peer]);
	windows_close(&p->slot_window);
	register_end(&p->slot_mr);
}

void rights_revoke(struct rights_peer *p)
{
	p->revoked = 1;
	pthread_mutex_lock(&p->rights->lock);
	end_offers(p);
	pthread_mutex_unlock(&p->rights->lock);
	log_line(LOG_INFO, "rdma", "verbs: rank %d was dropped from the job; its keys are revoked",
		 p->peer);
}

/* ---- what this rank may do there -------------------------------------------------- */

void rights_take_control(struct rights_peer *p, const uint8_t control[REGION_HEAD_BYTES])
{
	memcpy(p->peer_control, control, REGION_HEAD_BYTES);
}

int rights_key_of(const void *rights_peer, uint32_t id, uint32_t window, uint32_t *rkey)
{
	const struct rights_peer *p = rights_peer;
	uint32_t first;

	if (window >= key_table_find(&p->peer_keys, id, &first))
		return 0;
	*rkey = p->peer_keys.key[first + window].rkey;
	return 1;
}

/* Copies a region's n keys from the peer's table. Returns the number of keys that the table has for
 * the region. Copies nothing if this is not n. */
static uint32_t table_keys(const struct rights_peer *p, uint32_t id, uint32_t n, uint32_t *rkey)
{
	uint32_t first;
	const uint32_t found = key_table_find(&p->peer_keys, id, &first);

	for (uint32_t i = 0; found == n && i < n; i++)
		rkey[i] = p->peer_keys.key[first + i].rkey;
	return found;
}

/* Requires the lock. */
static int take_table(struct rights_peer *p, const uint8_t table[KEY_TABLE_BYTES], char why[200])
{
	char reason[80];

	if (key_table_decode(table, &p->peer_keys, reason)) {
		snprintf(why, 200, "%s", reason);
		return -1;
	}
	/* If a region is not in the table, its owner has closed it, so it is no longer used. */
	for (struct rights_remote *r = p->remotes; r; r = r->next) {
		const uint32_t n = table_keys(p, r->target.id, r->target.keys, r->rkey);

		if (!n || n == r->target.keys)
			continue;
		snprintf(why, 200, "its table has %u keys of region %u, which has %u", n,
			 r->target.id, r->target.keys);
		return -1;
	}
	return 0;
}

int rights_take_table(struct rights_peer *p, const uint8_t table[KEY_TABLE_BYTES], char why[200])
{
	int rc;

	pthread_mutex_lock(&p->rights->lock);
	rc = take_table(p, table, why);
	pthread_mutex_unlock(&p->rights->lock);
	return rc;
}

/* Finds the current keys of a region that the peer described. The connection may have broken since
 * then. Requires the lock. */
static int present_keys(const struct rights_peer *p, struct verbs_region *wire)
{
	if (wire->link == p->peer_keys.link ||
	    table_keys(p, wire->id, wire->keys, wire->rkey) == wire->keys)
		return SLUICE_OK;
	return fail(SLUICE_EWIRE,
		    "rank %d described region %u for connection %u; this is connection %u, whose "
		    "key table has no such region",
		    p->peer, wire->id, wire->link, p->peer_keys.link);
}

int rights_remote_open(struct rights_peer *p, struct endpoint *e, const uint8_t *descriptor,
		       struct remote **out)
{
	struct rights_remote *r;
	struct verbs_region wire;
	int rc = verbs_region_decode(descriptor ? descriptor : p->peer_control, (uint32_t)p->peer,
				     (uint32_t)p->rights->rank, &wire);

	if (rc)
		return rc;
	r = calloc(1, sizeof(*r));
	if (!r)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*r));
	pthread_mutex_lock(&p->rights->lock);
	rc = present_keys(p, &wire);
	*r = (struct rights_remote){
		.remote = { .endpoint = e, .bytes = wire.bytes, .access = wire.access },
		.peer = p,
		.next = p->remotes,
		.target = { .address = wire.address,
			    .window = wire.window,
			    .id = wire.id,
			    .keys = wire.keys,
			    .rkey = r->rkey },
	};
	memcpy(r->rkey, wire.rkey, sizeof(r->rkey));
	if (!rc)
		p->remotes = r;
	pthread_mutex_unlock(&p->rights->lock);
	if (rc)
		free(r);
	else
		*out = &r->remote;
	return rc;
}

void rights_remote_close(struct remote **remote)
{
	struct rights_remote *r, **at;

	if (!remote || !*remote)
		return;
	r = (struct rights_remote *)(void *)*remote; /* its first member */
	pthread_mutex_lock(&r->peer->rights->lock);
	for (at = &r->peer->remotes; *at != r; at = &(*at)->next)
		;
	*at = r->next;
	pthread_mutex_unlock(&r->peer->rights->lock);
	free(r);
	*remote = NULL;
}

struct sendlog_target rights_target(const struct remote *remote)
{
	return ((const struct rights_remote *)(const void *)remote)->target;
}

/* ---- what the card may do for this rank ------------------------------------------- */

/* Returns the index of the part that has the registrations for requests to this peer. With memory
 * windows all peers share one protection domain, so this rank's part serves all of them. */
static int place_of(const struct rights_peer *p)
{
	return p->rights->windows ? p->rights->rank : p->peer;
}

/* Finds a key without the lock, because only this thread changes this region's keys. Uses the
 * peers' registration if it covers the bytes and allows the access. */
static int find_key(const struct rights_peer *p, const struct region *region, const void *at,
		    size_t n, int write, uint32_t *lkey_out)
{
	const struct region_rights *r = registry_find(&p->rights->registry, region);
	const struct part *part = r ? &r->at[place_of(p)] : NULL;

	if (!part)
		return 0;
	if (pieces_find(part->local, at, n, lkey_out))
		return 1;
	if (!part->remote || part->remote->addr != region->base ||
	    part->remote->length != region->bytes || (write && !(region->access & REGION_WRITE)))
		return 0;
	*lkey_out = part->remote->lkey;
	return 1;
}

int rights_prepare(struct rights_peer *p, const struct region *region, const void *at, size_t n)
{
	const int all = p->rights->windows;
	struct region_rights *r;
	uint32_t unused;
	int rc;

	if (find_key(p, region, at, n, 1, &unused))
		return SLUICE_OK;
	pthread_mutex_lock(&p->rights->lock);
	rc = add_region(p, region, &r);
	if (!rc)
		rc = pieces_add(&r->at[place_of(p)].local, p->pd, p->rights->device, region,
				relaxed_for(p, region), all ? region->base : at,
				all ? region->bytes : n, &r->method);
	pthread_mutex_unlock(&p->rights->lock);
	return rc;
}

int rights_local_key(struct rights_peer *p, const struct transfer *x, uint32_t *lkey_out)
{
	const struct region *region = x->local_region;
	const int write = x->kind == TRANSFER_GET;
	int rc;

	if (find_key(p, region, x->local, x->bytes, write, lkey_out))
		return SLUICE_OK;
	rc = rights_prepare(p, region, region->base, region->bytes);
	if (!rc)
		find_key(p, region, x->local, x->bytes, write, lkey_out);
	return rc;
}

/* ---- one peer --------------------------------------------------------------------- */

struct ibv_pd *rights_peer_domain(const struct rights_peer *p)
{
	return p->pd;
}

uint32_t rights_copies_key(const struct rights_peer *p)
{
	return p->copies_mr->lkey;
}

static int register_memory(struct rights_peer *p, const struct rights_memory *m)
{
	const int windows = p->rights->windows;
	int rc;

	p->pd = windows ? p->rights->pd : ibv_alloc_pd(p->rights->context);
	if (!p->pd)
		return verbs_failed("ibv_alloc_pd");
	rc = register_host(p->pd, m->slot, SLOT_BYTES,
			   IBV_ACCESS_LOCAL_WRITE |
				   (windows ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_WRITE),
			   "a peer's slot", &p->slot_mr);
	if (!rc && windows)
		rc = open_windows(p, "slots", SLOT_BYTES, 1, IBV_ACCESS_REMOTE_WRITE,
				  &p->slot_window);
	if (!rc)
		rc = register_host(p->pd, m->copies, m->copies_bytes, 0, "small puts",
				   &p->copies_mr);
	if (!rc && m->control)
		rc = rights_offer(p, m->control, m->control_from, m->control_bytes, 0);
	return rc;
}

int rights_peer_open(struct rights *rights, int peer, const struct rights_memory *memory,
		     struct rights_peer **out)
{
	struct rights_peer *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*p));
	p->rights = rights;
	p->peer = peer;
	p->slot = memory->slot;
	p->control = memory->control;
	rc = register_memory(p, memory);
	if (rc)
		rights_peer_close(&p);
	*out = p;
	return rc;
}

void rights_peer_end(struct rights_peer *p)
{
	struct rights *rights = p->rights;
	int err;

	pthread_mutex_lock(&rights->lock);
	end_offers(p);
	for (struct region_rights *r = first_of(rights); r; r = next_of(r))
		pieces_end(&r->at[p->peer].local);
	register_end(&p->copies_mr);
	err = p->pd && p->pd != rights->pd ? ibv_dealloc_pd(p->pd) : 0;
	if (err)
		log_line(LOG_WARN, "rdma", "verbs: ibv_dealloc_pd for rank %d failed: %s", p->peer,
			 errno_text(err));
	p->pd = NULL;
	pthread_mutex_unlock(&rights->lock);
}

void rights_peer_close(struct rights_peer **p)
{
	if (!*p)
		return;
	rights_peer_end(*p);
	free(*p);
	*p = NULL;
}

/* If windows are not used, sets why to the reason. */
static int choose_protection(struct rights *r, const char *wanted, char why[PROVE_WHY_BYTES])
{
	static const char *const ordered_texts[] = { [RELAXED_NONE] = "no region",
						     [RELAXED_MARKED] = "inboxes, staging and logs",
						     [RELAXED_ALL] = "all regions" };
	const enum relaxed wanted_ordering = r->relaxed;
	enum relaxed relaxed = wanted_ordering;

	r->pd = ibv_alloc_pd(r->context);
	if (!r->pd)
		return verbs_failed("ibv_alloc_pd");
	if (wanted && !strcmp(wanted, "no")) {
		snprintf(why, PROVE_WHY_BYTES, "SLUICE_MEMORY_WINDOWS=no");
	} else if (!prove_windows(r->pd, r->device, &relaxed, &r->window_most, why)) {
		r->windows = 1;
		r->relaxed = relaxed;
		why[0] = '\0';
	} else if (wanted && !strcmp(wanted, "yes")) {
		return fail(SLUICE_ENOSUPP,
			    "verbs: SLUICE_MEMORY_WINDOWS=yes, but memory windows of %s do not "
			    "work: %s; "
			    "auto or no uses a protection domain for each peer instead",
			    r->device->name, why);
	}
	if (!r->windows && r->size > r->device->attr.max_pd)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s has only %d protection domains, and %d ranks need one each",
				    r->device->name, r->device->attr.max_pd, r->size);
	if (wanted_ordering == RELAXED_ALL && r->relaxed != RELAXED_ALL)
		log_line(LOG_WARN, "rdma",
			 "verbs: SLUICE_RELAXED_ORDERING=all has no effect, because memory windows "
			 "of %s do not work with relaxed ordering",
			 r->device->name);
	log_line(LOG_INFO, "rdma",
		 "verbs: each peer's rights are %s%s%s%s; relaxed ordering is requested for %s",
		 r->windows ? "memory windows of type 2B, bound to its queue pair" :
			      "its own protection domain and registrations",
		 why[0] ? " (no memory windows: " : "", why, why[0] ? ")" : "",
		 ordered_texts[r->relaxed]);
	return SLUICE_OK;
}

int rights_open(struct ibv_context *context, const struct verbs_device *device, int rank, int size,
		const char *windows, const char *ordering, struct rights **out)
{
	struct rights *r = calloc(1, sizeof(*r));
	char why[PROVE_WHY_BYTES] = "";
	int rc;

	if (!r)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*r));
	r->context = context;
	r->device = device;
	r->rank = rank;
	r->size = size;
	r->relaxed = !ordering || !strcmp(ordering, "auto") ? RELAXED_MARKED :
		     !strcmp(ordering, "all")               ? RELAXED_ALL :
							      RELAXED_NONE;
	pthread_mutex_init(&r->lock, NULL);
	r->registry = (struct registry){
		.owner = r,
		.transport = "verbs",
		.bytes = sizeof(struct region_rights) + (size_t)size * sizeof(struct part),
		.lock = &r->lock,
		.end = end_region_rights,
	};
	rc = choose_protection(r, windows, why);
	if (rc)
		rights_close(&r);
	*out = r;
	return rc;
}

void rights_close(struct rights **rights)
{
	struct rights *r = *rights;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	registry_clear(&r->registry);
	pthread_mutex_unlock(&r->lock);
	if (r->pd)
		ibv_dealloc_pd(r->pd);
	pthread_mutex_destroy(&r->lock);
	free(r);
	*rights = NULL;
}

struct ibv_pd *rights_domain(const struct rights *rights)
{
	return rights->pd;
}
