/* SPDX-License-Identifier: BSD-3-Clause
 * Writes messages from the outbox and reads them from the lines; see messages.h. */
#include "job/messages.h"
#include "base/bytes.h"
#include "job/hubs.h"
#include "job/living.h"
#include "job/state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_names[] = {
	[COLLECTIVE_BARRIER] = "sluice_barrier",
	[COLLECTIVE_SUM] = "sluice_sum",
	[COLLECTIVE_GATHER] = "sluice_gather",
	[COLLECTIVE_OPEN] = "opening a model or region",
	[COLLECTIVE_EXCHANGE] = "opening a model or region",
	[COLLECTIVE_CHECKPOINT] = "sluice_checkpoint",
	[COLLECTIVE_RESTORE] = "sluice_restore",
	[COLLECTIVE_CLOSE] = "closing a model or region",
	[COLLECTIVE_FINALIZE] = "sluice_finalize",
	[COLLECTIVE_BROADCAST] = "sluice_broadcast",
	[COLLECTIVE_SPLIT] = "sluice_split",
};

const char *collective_name(uint32_t op)
{
	return op && op < sizeof op_names / sizeof *op_names ? op_names[op] :
							       "an unknown collective";
}

static size_t message_offset(uint64_t seq)
{
	return LINE_COLLECTIVE + (seq & 1) * (COLLECTIVE_HEADER_BYTES + COLLECTIVE_BYTES);
}

static const uint8_t *message_from(const sluice_job *job, int peer, uint64_t seq)
{
	return messages_are_direct(job, peer, seq) ? line_of(job, peer) + message_offset(seq) :
						     hubs_row(job, peer);
}

int messages_open(sluice_job *job)
{
	struct collective_messages *m = &job->messages;
	m->came = calloc((size_t)job->size, sizeof(*m->came));
	m->direct_from = calloc((size_t)job->size, sizeof(*m->direct_from));
	return m->came && m->direct_from ? 0 :
					   fail(SLUICE_ENOMEM, "no memory for %d peers", job->size);
}

void messages_close(struct collective_messages *messages)
{
	free(messages->came);
	free(messages->direct_from);
	messages->came = messages->direct_from = NULL;
}

void messages_connect(sluice_job *job, int peer, uint64_t from)
{
	TOKEN_HELD(job);
	job->messages.direct_from[peer] = from;
	job->messages.came[peer] = from - 1;
}

int messages_meet(const sluice_job *job, int peer)
{
	return !job->hubs || job->messages.direct_from[peer];
}

int messages_are_direct(const sluice_job *job, int peer, uint64_t seq)
{
	const uint64_t from = job->messages.direct_from[peer];
	return !job->hubs || hubs_are(job, job->rank) || (from && seq >= from);
}

uint64_t messages_next(const sluice_job *job)
{
	return job->messages.seq + 1;
}

uint64_t messages_begin(sluice_job *job)
{
	job->messages.ahead = 0; /* the next round begins only now, so no rank is ahead */
	job->messages.busy = 2;
	return ++job->messages.seq;
}

uint64_t messages_completed(const sluice_job *job)
{
	return job->messages.seq - (job->messages.busy == 2);
}

int messages_claimed(const sluice_job *job)
{
	return job->messages.busy != 0;
}

int messages_joins(const sluice_job *job)
{
	return job->messages.busy == 1;
}

void messages_claim(sluice_job *job)
{
	job->messages.busy = 1;
}

void messages_free(sluice_job *job)
{
	job->messages.busy = 0;
}

/* The message must stay unchanged in the outbox until round seq + 2. */
int messages_put(sluice_job *job, int peer, uint64_t seq, uint32_t op, struct about about,
		 const uint8_t *bytes, size_t n)
{
	uint8_t *message = outbox_collective(job, peer, (int)(seq & 1));
	put_le64(message, seq);
	put_le32(message + 8, op);
	put_le32(message + 12, (uint32_t)n);
	put_le32(message + 16, about.model);
	put_le64(message + 20, about.steps);
	if (n)
		memcpy(message + COLLECTIVE_HEADER_BYTES, bytes, n);
	put_le32(message + COLLECTIVE_CRC,
		 crc32c(crc32c(0, message, COLLECTIVE_CRC), message + COLLECTIVE_HEADER_BYTES, n));
	return lines_put(job, peer, message_offset(seq), message, COLLECTIVE_HEADER_BYTES + n,
			 job_imm(job, IMM_COLLECTIVE, 0));
}

int messages_has(const sluice_job *job, int peer, uint64_t seq)
{
	return messages_are_direct(job, peer, seq) ? job->messages.came[peer] >= seq :
						     hubs_have(job, seq);
}

int messages_read(const sluice_job *job, int peer, uint64_t seq, struct collective_message *out)
{
	memcpy(out->copy, message_from(job, peer, seq), sizeof(out->copy));
	out->op = get_le32(out->copy + 8);
	out->bytes = get_le32(out->copy + 12);
	out->about = (struct about){ get_le32(out->copy + 16), get_le64(out->copy + 20) };
	return get_le64(out->copy) != seq || out->bytes > COLLECTIVE_BYTES ||
	       get_le32(out->copy + COLLECTIVE_CRC) != crc32c(crc32c(0, out->copy, COLLECTIVE_CRC),
							      out->copy + COLLECTIVE_HEADER_BYTES,
							      out->bytes);
}

/* Writes the messages of all ranks to the places from which the members get them. */
static void place_messages(sluice_job *job, uint64_t seq, uint32_t most)
{
	uint32_t longest = 0;
	if (hubs_begun(job, seq))
		return;
	for (int p = 0; p < job->size; p++)
		if (messages_has(job, p, seq)) {
			const uint32_t bytes = get_le32(message_from(job, p, seq) + 12);
			longest = bytes > longest ? bytes : longest;
		}
	if (longest > most)
		longest = most;
	hubs_begin(job, seq, longest);
	for (int p = 0; p < job->size; p++) {
		const size_t bytes = COLLECTIVE_HEADER_BYTES + longest;
		if (messages_has(job, p, seq))
			memcpy(hubs_place(job, p), message_from(job, p, seq), bytes);
		else
			memset(hubs_place(job, p), 0, bytes); /* a lost worker */
	}
}

int messages_forward(sluice_job *job, uint64_t seq, uint32_t most, int *member_out)
{
	if (!hubs_owe(job, seq))
		return 0;
	place_messages(job, seq, most);
	return hubs_put(job, member_out);
}

void messages_stop(sluice_job *job)
{
	job->messages.told.seq = 0;
	hubs_stop(job);
}

uint32_t messages_op(const sluice_job *job, int peer, uint64_t seq)
{
	return get_le32(message_from(job, peer, seq) + 8);
}

uint32_t messages_about(const sluice_job *job, int peer, uint64_t seq)
{
	return get_le32(message_from(job, peer, seq) + 16);
}

/* Reads a peer's message of the round that this rank will begin next, or the head that a hub wrote
 * of it. Returns 0 if it is valid. */
static int read_early(const sluice_job *job, int peer, struct collective_message *out)
{
	const uint64_t next = messages_next(job);
	if (messages_are_direct(job, peer, next))
		return messages_read(job, peer, next, out);
	memcpy(out->copy, hubs_head(job, peer), COLLECTIVE_HEADER_BYTES);
	out->op = get_le32(out->copy + 8);
	out->bytes = 0;
	out->about = (struct about){ get_le32(out->copy + 16), get_le64(out->copy + 20) };
	return get_le64(out->copy) != next ||
	       get_le32(out->copy + COLLECTIVE_CRC) != crc32c(0, out->copy, COLLECTIVE_CRC);
}

/* If a peer is in a collective about a model, informs the client. The rest of the message is
 * validated when it is taken. */
static void report_model(sluice_job *job, int peer)
{
	struct collective_message message;
	if (!read_early(job, peer, &message) && about_is_model(message.about.model))
		clients_handler(&job->clients)
			->is_in(job, peer, message.op, message.about.model, message.about.steps);
}

/* The message may arrive before its notify. Its checksum shows whether it has arrived. */
int messages_closing_text(const sluice_job *job, int rank, char *text, size_t cap)
{
	struct collective_message message;
	const int mine = rank == job->rank;
	*text = 0;
	if ((mine && !messages_claimed(job)) ||
	    (mine ? messages_read(job, rank, job->messages.seq, &message) :
		    read_early(job, rank, &message)) ||
	    message.op != COLLECTIVE_CLOSE || !about_is_model(message.about.model))
		return 0;
	snprintf(text, cap, "it closed model %u after %llu steps", message.about.model,
		 (unsigned long long)message.about.steps);
	return 1;
}

/* On a hub: a rank that waits for a peer's push must learn that the peer is in a collective about
 * the model, even before the round is complete. It is enough to name the peer with the fewest
 * steps. */
static void tell_members(sluice_job *job, int peer)
{
	struct told *told = &job->messages.told;
	const uint64_t seq = job->messages.came[peer];
	struct collective_message m;
	if (!job->hubs || !hubs_are(job, job->rank) ||
	    !about_is_model(messages_about(job, peer, seq)) || messages_read(job, peer, seq, &m) ||
	    (told->seq == seq && told->model == m.about.model && told->steps <= m.about.steps &&
	     job_living(job, told->rank)))
		return;
	*told = (struct told){
		.seq = seq, .steps = m.about.steps, .model = m.about.model, .rank = peer
	};
	memcpy(told->head, m.copy, sizeof(told->head));
	put_le32(told->head + COLLECTIVE_CRC, crc32c(0, told->head, COLLECTIVE_CRC));
	messages_tell(job);
}

void messages_tell(sluice_job *job)
{
	struct told *told = &job->messages.told;
	const uint64_t seq = told->seq;
	if (!seq)
		return;
	if (!job_living(job, told->rank)) { /* another rank of the round replaces it */
		told->seq = 0;
		for (int p = 0; p < job->size; p++)
			if (job_living(job, p) && job->messages.came[p] == seq)
				tell_members(job, p);
		return;
	}
	if (told->next < job->size)
		told->next = hubs_tell(job, told->rank, told->head, told->next);
}

int messages_forwarded(sluice_job *job, int peer, uint32_t index, int waits)
{
	const int rank = hubs_arrived(job, peer, index);
	if (rank < 0)
		return -1;
	if (rank == job->rank)
		return 0;
	job->messages.ahead++;
	if (waits && job_living(job, rank))
		report_model(job, rank);
	return 0;
}

void messages_arrived(sluice_job *job, int peer, int waits)
{
	TOKEN_HELD(job);
	job->messages.came[peer]++;
	tell_members(job, peer);
	if (job->messages.came[peer] <= job->messages.seq)
		return;
	job->messages.ahead++;
	if (waits)
		report_model(job, peer);
}

/* Returns 1 if the peer's message of the next round, which this rank has not begun, has arrived. */
static int is_ahead(const sluice_job *job, int peer)
{
	const uint64_t next = messages_next(job);
	return job->messages.ahead && job->messages.came[peer] >= next &&
	       messages_are_direct(job, peer, next) && job_living(job, peer);
}

void messages_report(sluice_job *job)
{
	for (int p = 0; job->messages.ahead && p < job->size; p++)
		if (is_ahead(job, p) ||
		    (!messages_are_direct(job, p, messages_next(job)) && job_living(job, p)))
			report_model(job, p);
}

void messages_ahead_text(const sluice_job *job, char *text, size_t cap)
{
	*text = 0;
	for (int p = 0; job->messages.ahead && p < job->size && !*text; p++)
		if (is_ahead(job, p))
			snprintf(text, cap, "; %s is in %s and waits for this rank",
				 rank_text(job, p),
				 collective_name(messages_op(job, p, messages_next(job))));
}
