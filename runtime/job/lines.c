/* SPDX-License-Identifier: BSD-3-Clause
 * The regions of the control lines, and writing to a peer's line; see lines.h. */
#include "job/lines.h"
#include "job/state.h"
#include "rdma/transfer.h"

int lines_open(sluice_job *job)
{
	return region_open((size_t)job->size * LINE_BYTES, REGION_READ | REGION_WRITE, "control",
			   &job->lines.own);
}

int lines_open_outbox(sluice_job *job)
{
	size_t messages = (size_t)job->size * 2 * (COLLECTIVE_HEADER_BYTES + COLLECTIVE_BYTES);
	return region_open(LINE_COLLECTIVE + messages + MEMBERS_BLOCK_BYTES, 0, "outbox",
			   &job->lines.outbox);
}

void lines_close(struct lines *lines)
{
	region_close(&lines->own);
	region_close(&lines->outbox);
}

int lines_are_open(const sluice_job *job)
{
	return job->lines.own != NULL;
}

struct region *lines_region(const sluice_job *job)
{
	return job->lines.own;
}

uint8_t *line_of(const sluice_job *job, int peer)
{
	return (uint8_t *)job->lines.own->base + (size_t)peer * LINE_BYTES;
}

uint8_t *outbox_at(const sluice_job *job, size_t offset_in_line)
{
	return (uint8_t *)job->lines.outbox->base + offset_in_line;
}

uint8_t *outbox_collective(const sluice_job *job, int peer, int parity)
{
	return outbox_at(job,
			 LINE_COLLECTIVE + ((size_t)peer * 2 + (size_t)parity) *
						   (COLLECTIVE_HEADER_BYTES + COLLECTIVE_BYTES));
}

uint8_t *outbox_members(const sluice_job *job)
{
	return outbox_at(job, job->lines.outbox->bytes - MEMBERS_BLOCK_BYTES);
}

int lines_put(sluice_job *job, int peer, size_t offset_in_line, void *source, size_t bytes,
	      uint32_t imm)
{
	/* The transport must copy short sources, such as the last message of a group, because the
	 * group's lines may be closed before the message is sent. */
	struct transfer t = { .kind = TRANSFER_PUT_NOTIFY,
			      .remote = job->peers[peer].control,
			      .offset = (uint64_t)job->rank * LINE_BYTES + offset_in_line,
			      .local_region = bytes <= TRANSFER_INLINE_BYTES ? NULL :
									       job->lines.outbox,
			      .local = source,
			      .bytes = bytes,
			      .imm = imm };
	struct endpoint *e = job->peers[peer].endpoint;
	return e->transport->ops->post(e, &t);
}

int lines_offer(sluice_job *group, int peer, size_t bytes)
{
	const struct peer *p = &group->root->peers[group_root_rank(group, peer)];
	struct transfer t = { .kind = TRANSFER_PUT_NOTIFY,
			      .remote = p->control,
			      .offset = (uint64_t)group->root->rank * LINE_BYTES + LINE_OFFER,
			      .local_region = group->lines.outbox,
			      .local = outbox_collective(group, peer, 0),
			      .bytes = bytes,
			      .imm = job_imm(group, IMM_MEMBERS, 0) };
	return p->endpoint->transport->ops->post(p->endpoint, &t);
}
