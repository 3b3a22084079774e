/* SPDX-License-Identifier: BSD-3-Clause
 * See hubs.h. */
#include "job/hubs.h"
#include "base/bytes.h"
#include "job/state.h"
#include <stdlib.h>
#include <string.h>

enum {
	FIRST_FORWARDED = 2, /* round */
	/* A hub's notify carries an index. If a round of messages has arrived, the index is 1 + the
	 * length of the longest message. If a head has arrived, it is HEADS + the rank of the
	 * head. */
	HEADS = 1 << 16,
	HEAD_BYTES = COLLECTIVE_HEADER_BYTES,
	ROW_BYTES = COLLECTIVE_HEADER_BYTES + COLLECTIVE_BYTES
};

/* An offer: group u32, CRC32C of the rest u32, descriptor of the writer's lines in the group. */
enum { OFFER_HEAD = 8, OFFER_BYTES = OFFER_HEAD + REGION_DESCRIPTOR_BYTES };
_Static_assert((int)OFFER_BYTES <= (int)MEMBERS_BLOCK_BYTES,
	       "an offer does not fit into its place");

/* The descriptor of a peer's lines in a group. */
struct offer {
	int came;
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
};

struct hubs {
	struct offer *offers; /* [rank] in a group, NULL in a root */
	/* [rank] in a root, NULL in a group: this rank's last offer to the peer, as the
	 * imm bits of its group; 0 once the peer has answered */
	uint32_t *offering;
	/* on a member */
	struct region *rows; /* a row for each rank, and then a head for each rank */
	uint64_t arrived;    /* the last round whose messages are in the rows */
	size_t stride;       /* of the rows */
	/* on a hub */
	struct region *board; /* the messages of the last two rounds, which puts may still read */
	struct remote **members; /* [rank]: the rows of a member of this hub, else NULL */
	uint64_t begun, put; /* the last rounds that this hub has begun and finished forwarding */
	uint32_t bytes;      /* length of the longest message in round `begun` */
	int next;            /* the rank at which hubs_put() continues */
};

int hubs_wanted(const sluice_job *job)
{
	return job->size > job->settings.mesh;
}

static int is_hub(int workers, int servers, int rank)
{
	return servers ? rank >= workers : rank % HUB_RANKS == 0;
}

int hubs_are(const sluice_job *job, int rank)
{
	return is_hub(job->workers, job->servers, rank);
}

int hubs_would_connect(int size, int servers, int mesh, int a, int b)
{
	const int workers = size - servers;

	return size <= mesh || a == b || is_hub(workers, servers, a) || is_hub(workers, servers, b);
}

int hubs_count(const sluice_job *job)
{
	return job->servers ? job->servers : (job->size + HUB_RANKS - 1) / HUB_RANKS;
}

int hubs_of(const sluice_job *job, int member)
{
	return job->servers ? job->workers + member % job->servers : member - member % HUB_RANKS;
}

int hubs_connect(const sluice_job *job, int a, int b)
{
	return a == b || hubs_are(job, a) || hubs_are(job, b);
}

int hubs_peers(const sluice_job *job)
{
	const int is_hub = job->hubs && hubs_are(job, job->rank);

	return !job->hubs || is_hub ? job->size - 1 : hubs_count(job);
}

/* Heads follow the rows. */
static size_t head_offset(const sluice_job *job, int rank)
{
	return (size_t)job->size * ROW_BYTES + (size_t)rank * HEAD_BYTES;
}

int hubs_open(sluice_job *job)
{
	const size_t rows = (size_t)job->size * ROW_BYTES;

	if (!hubs_wanted(job))
		return 0;
	struct hubs *hubs = job->hubs = calloc(1, sizeof(*hubs));
	if (!hubs)
		return fail(SLUICE_ENOMEM, "no memory for %d peers", job->size);
	if (job_in_group(job))
		hubs->offers = calloc((size_t)job->size, sizeof(*hubs->offers));
	else
		hubs->offering = calloc((size_t)job->size, sizeof(*hubs->offering));
	if (!hubs->offers && !hubs->offering)
		return fail(SLUICE_ENOMEM, "no memory for %d peers", job->size);
	hubs->arrived = hubs->put = hubs->begun = FIRST_FORWARDED - 1;
	hubs->stride = ROW_BYTES;
	if (!hubs_are(job, job->rank))
		return region_open(head_offset(job, job->size), REGION_WRITE, "rows", &hubs->rows);
	hubs->members = calloc((size_t)job->size, sizeof(struct remote *));
	return hubs->members ? region_open(2 * rows, 0, "board", &hubs->board) :
			       fail(SLUICE_ENOMEM, "no memory for %d peers", job->size);
}

void hubs_close(sluice_job *job)
{
	struct hubs *hubs = job->hubs;

	if (!hubs)
		return;
	for (int p = 0; hubs->members && p < job->size; p++)
		if (hubs->members[p])
			hubs->members[p]->endpoint->transport->ops->remote_close(&hubs->members[p]);
	region_close(&hubs->rows);
	region_close(&hubs->board);
	free(hubs->offers);
	free(hubs->offering);
	free(hubs->members);
	free(hubs);
	job->hubs = NULL;
}

/* ---- a group ------------------------------------------------------------------ */

/* Returns 1 if this rank writes its offer first. The peer answers once it has read the offer. After
 * the answer, both places may be written again, for another group. A group that has failed gets no
 * answer, so the next offer may overwrite its offer before the peer has read it. */
static int offers_first(const sluice_job *group, int peer)
{
	return group->root->rank < group_root_rank(group, peer);
}

static uint32_t *offering(sluice_job *group, int peer)
{
	TOKEN_HELD(group);
	return &group->root->hubs->offering[group_root_rank(group, peer)];
}

/* Returns 1 if this rank may write its offer for a group to the peer. */
static int may_offer(sluice_job *group, int peer)
{
	if (!offers_first(group, peer))
		return hubs_offer(group, peer) != NULL;
	const uint32_t last = *offering(group, peer);
	const sluice_job *unanswered = groups_at(group->root,
						 last >> IMM_GROUP_SHIFT & (GROUPS_MAX - 1));

	return !unanswered || unanswered->failure.code;
}

/* The checksum includes the group, so parts of two offers are not taken for one. */
static uint32_t offer_checksum(const uint8_t *offer)
{
	return crc32c(crc32c(0, offer, 4), offer + OFFER_HEAD, REGION_DESCRIPTOR_BYTES);
}

void hubs_write_offer(sluice_job *group, int peer, const uint8_t *descriptor)
{
	uint8_t *offer = outbox_collective(group, peer, 0);

	put_le32(offer, group->group.imm);
	memcpy(offer + OFFER_HEAD, descriptor, REGION_DESCRIPTOR_BYTES);
	put_le32(offer + 4, offer_checksum(offer));
}

int hubs_send_offer(sluice_job *group, int peer)
{
	if (!may_offer(group, peer))
		return 0;
	const int rc = lines_offer(group, peer, OFFER_BYTES);
	if (rc)
		return rc == SLUICE_EAGAIN ? 0 : rc;
	if (offers_first(group, peer))
		*offering(group, peer) = group->group.imm;
	return 1;
}

int hubs_take_offer(sluice_job *group, int peer)
{
	uint8_t copy[OFFER_BYTES];

	if (!group->hubs)
		return -1;
	struct offer *offer = &group->hubs->offers[peer];
	memcpy(copy, line_of(group->root, group_root_rank(group, peer)) + LINE_OFFER, sizeof(copy));
	if (get_le32(copy) != group->group.imm)
		return 0; /* the offer is for another group: this one has failed on the peer */
	if (get_le32(copy + 4) != offer_checksum(copy))
		return -1;
	offer->came = 1;
	memcpy(offer->descriptor, copy + OFFER_HEAD, sizeof(offer->descriptor));
	if (offers_first(group, peer) && *offering(group, peer) == group->group.imm)
		*offering(group, peer) = 0;
	return 0;
}

const uint8_t *hubs_offer(const sluice_job *group, int peer)
{
	const struct offer *offer = &group->hubs->offers[peer];

	return offer->came ? offer->descriptor : NULL;
}

void hubs_stop(sluice_job *job)
{
	job->hubs->arrived = job->hubs->put = UINT64_MAX;
}

/* ---- a member ---------------------------------------------------------------- */

struct region *hubs_rows(const sluice_job *job)
{
	return job->hubs->rows;
}

int hubs_have(const sluice_job *job, uint64_t seq)
{
	return job->hubs->arrived >= seq;
}

const uint8_t *hubs_row(const sluice_job *job, int rank)
{
	return (const uint8_t *)job->hubs->rows->base + (size_t)rank * job->hubs->stride;
}

const uint8_t *hubs_head(const sluice_job *job, int rank)
{
	return (const uint8_t *)job->hubs->rows->base + head_offset(job, rank);
}

int hubs_arrived(sluice_job *job, int peer, uint32_t index)
{
	struct hubs *hubs = job->hubs;

	TOKEN_HELD(job);
	if (!hubs || !hubs->rows || peer != hubs_of(job, job->rank))
		return -1;
	if (index >= HEADS)
		return index - HEADS < (uint32_t)job->size ? (int)(index - HEADS) : -1;
	if (index > 1 + COLLECTIVE_BYTES)
		return -1;
	hubs->arrived += hubs->arrived < UINT64_MAX;
	hubs->stride = COLLECTIVE_HEADER_BYTES + index - 1;
	return job->rank;
}

/* ---- a hub ------------------------------------------------------------------- */

int hubs_meet(sluice_job *job, int member, const uint8_t *descriptor)
{
	struct endpoint *e = job->peers[member].endpoint;
	struct remote **rows = &job->hubs->members[member];

	TOKEN_HELD(job);
	int rc = e->transport->ops->remote_open(e, descriptor, rows);

	if (!rc && (*rows)->bytes < head_offset(job, job->size))
		rc = fail(SLUICE_EWIRE, "its rows have %llu bytes, which is too few",
			  (unsigned long long)(*rows)->bytes);
	return rc;
}

int hubs_owe(const sluice_job *job, uint64_t seq)
{
	return job->hubs && job->hubs->board && job->hubs->put < seq;
}

int hubs_begun(const sluice_job *job, uint64_t seq)
{
	return job->hubs->begun == seq;
}

void hubs_begin(sluice_job *job, uint64_t seq, uint32_t bytes)
{
	struct hubs *hubs = job->hubs;

	hubs->begun = seq;
	hubs->bytes = bytes;
	hubs->next = 0;
}

/* Two boards are enough: no rank begins round n + 2 before all members have used the rows of round
 * n. */
static uint8_t *board_of(const sluice_job *job)
{
	const struct hubs *hubs = job->hubs;

	return (uint8_t *)hubs->board->base + (hubs->begun & 1) * (size_t)job->size * ROW_BYTES;
}

uint8_t *hubs_place(const sluice_job *job, int rank)
{
	return board_of(job) + (size_t)rank * (COLLECTIVE_HEADER_BYTES + job->hubs->bytes);
}

int hubs_put(sluice_job *job, int *member_out)
{
	struct hubs *hubs = job->hubs;
	struct transfer t = { .kind = TRANSFER_PUT_NOTIFY,
			      .local_region = hubs->board,
			      .local = board_of(job),
			      .bytes = (size_t)job->size * (COLLECTIVE_HEADER_BYTES + hubs->bytes),
			      .imm = job_imm(job, IMM_COLLECTIVE, 1 + hubs->bytes) };

	TOKEN_HELD(job);
	for (int *p = &hubs->next; *p < job->size; ++*p) {
		t.remote = hubs->members[*p];
		if (!t.remote || job->peers[*p].state != PEER_ALIVE)
			continue;
		int rc = t.remote->endpoint->transport->ops->post(t.remote->endpoint, &t);
		*member_out = *p;
		if (rc && rc != SLUICE_EPEER) /* the loss of a peer is reported by another event */
			return rc;
	}
	hubs->put = hubs->begun;
	return 0;
}

int hubs_tell(sluice_job *job, int rank, uint8_t head[COLLECTIVE_HEADER_BYTES], int from)
{
	struct transfer t = { .kind = TRANSFER_PUT_NOTIFY,
			      .offset = head_offset(job, rank),
			      .local = head,
			      .bytes = HEAD_BYTES,
			      .imm = job_imm(job, IMM_COLLECTIVE, HEADS + (uint32_t)rank) };

	TOKEN_HELD(job);
	for (; from < job->size; from++) {
		t.remote = job->hubs->members[from];
		if (!t.remote || from == rank || job->peers[from].state != PEER_ALIVE)
			continue;
		if (t.remote->endpoint->transport->ops->post(t.remote->endpoint, &t) ==
		    SLUICE_EAGAIN)
			break;
	}
	return from;
}
