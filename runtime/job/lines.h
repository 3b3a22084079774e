/* SPDX-License-Identifier: BSD-3-Clause
 * Control lines. Each rank has a region with one line for each peer, which only that peer writes,
 * and an outbox, from which it writes to its own lines at the peers. This file defines the layout
 * of a line, and lines.c owns both regions. failure.c, members.c, peers.c, messages.c and heart.c
 * know what the parts of a line mean. */
#ifndef RUNTIME_LINES_H
#define RUNTIME_LINES_H
#include "rdma/transport.h"
#include "sluice.h"
#include <stdint.h>

/* The 32 bits of a notify hold a kind and an index: the channel (client.h) of a shard, the number
 * of a region, or 0 for other kinds. */
enum imm_kind {
	IMM_COLLECTIVE = 1,
	IMM_STATUS,
	IMM_PUSH,
	IMM_NOTICE,
	IMM_REGION,
	IMM_REPORT,
	IMM_MEMBERS, /* in a group: the descriptor of the sender's lines */
};
enum { IMM_KIND_SHIFT = 28, IMM_INDEX_MOST = (1 << IMM_KIND_SHIFT) - 1 };
static inline uint32_t imm_make(enum imm_kind kind, uint32_t index)
{
	return (uint32_t)kind << IMM_KIND_SHIFT | index;
}
/* A notify within a group (group.h) has its highest bit set. The upper eight bits of its index are
 * then the group's number. */
enum { GROUPS_MAX = 256, IMM_GROUP_SHIFT = 20, GROUP_INDEX_MOST = (1 << IMM_GROUP_SHIFT) - 1 };
static inline uint32_t imm_of_group(uint32_t number)
{
	return number ? 1u << 31 | number << IMM_GROUP_SHIFT : 0;
}

/* The cookie of a GET names its owner: 8 bits for the kind, 8 for the group, 16 for the model or
 * region, and 32 for an index. */
enum cookie_kind { COOKIE_MODEL = 1, COOKIE_REGION, COOKIE_PULSE };
static inline uint64_t cookie_make(enum cookie_kind kind, uint32_t id, uint32_t index)
{
	return (uint64_t)kind << 56 | (uint64_t)id << 32 | index;
}
static inline uint64_t cookie_of_group(uint32_t number)
{
	return (uint64_t)number << 48;
}

enum {
	COLLECTIVE_BYTES = 1024,
	/* seq u64, op u32, length u32, model u32, steps u64, crc u32 of these and the bytes */
	COLLECTIVE_HEADER_BYTES = 32,
	COLLECTIVE_CRC = 28,
	/* The pulse (heart.c). Each rank writes it into its own lines, and the peer of a line reads
	 * it. */
	LINE_BEATS = 0,     /* u64 */
	LINE_PROGRESS = 8,  /* u64 */
	LINE_RECEIVED = 16, /* u64: notifies from that peer */
	LINE_CHECK = 24,    /* u64: CRC32C of progress and received */
	PULSE_BYTES = 32,
	LINE_STATUS = 64, /* state u32, culprit u32, crc u32, length u32, text */
	STATUS_TEXT_BYTES = 432,
	LINE_REPORT = 512, /* crc u32, length u32, text that names the rank for which a shard of the
			      writer waits */
	REPORT_TEXT_BYTES = 376,
	LINE_COLLECTIVE = 896,
	/* epoch u32, CRC32C of the rest u32, round u64, zeros; then two bitmaps (members.c) */
	LINE_MEMBERS = LINE_COLLECTIVE + 2 * (COLLECTIVE_HEADER_BYTES + COLLECTIVE_BYTES),
	MEMBERS_MAX = 4096, /* most workers with on_failure=continue */
	MEMBERS_BYTES = MEMBERS_MAX / 8,
	MEMBERS_HEADER_BYTES = 64,
	MEMBERS_BLOCK_BYTES = MEMBERS_HEADER_BYTES + 2 * MEMBERS_BYTES,
	/* In a job that has groups, which cannot continue without a rank, the same place has the
	 * descriptor of the writer's lines in a group: group u32, CRC32C of the rest u32,
	 * descriptor (hubs.c). */
	LINE_OFFER = LINE_MEMBERS,
	LINE_BYTES = LINE_MEMBERS + MEMBERS_BLOCK_BYTES
};
enum line_state { LINE_ALIVE = 0, LINE_BYE = 1, LINE_GAVE_UP = 2 };

struct lines {
	struct region *own;    /* `size` lines; the peers write all of them except the pulse */
	struct region *outbox; /* has status, report, two messages for each peer and membership */
};

int lines_open(sluice_job *job);
int lines_open_outbox(sluice_job *job);
/* Closes the regions that are open. */
void lines_close(struct lines *lines);
/* Returns 0 before lines_open(). */
int lines_are_open(const sluice_job *job);
/* Returns the region that holds the lines. Each peer can access one line of it through the
 * transports. */
struct region *lines_region(const sluice_job *job);

/* Returns this rank's line that the peer writes. Its bytes may be hostile. */
uint8_t *line_of(const sluice_job *job, int peer);
/* Returns the address in the outbox of bytes that this rank writes to its lines at the peers. There
 * they have the same offset. */
uint8_t *outbox_at(const sluice_job *job, size_t offset_in_line);
uint8_t *outbox_collective(const sluice_job *job, int peer, int parity);
uint8_t *outbox_members(const sluice_job *job);

/* Writes bytes of the outbox to this rank's line at a peer. Returns the result of the transport's
 * post(). The token must be held. */
int lines_put(sluice_job *job, int peer, size_t offset_in_line, void *source, size_t bytes,
	      uint32_t imm);
/* Writes the first bytes of outbox_collective(group, peer, 0) to LINE_OFFER of this rank's line in
 * the root at the peer, with IMM_MEMBERS. Token held. */
int lines_offer(sluice_job *group, int peer, size_t bytes);
#endif
