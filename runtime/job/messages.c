/* SPDX-License-Identifier: BSD-3-Clause
 * Writes messages from the outbox and reads them from the lines; see messages.h. */
#include "job/messages.h"
#include "base/bytes.h"
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
	return line_of(job, peer) + message_offset(seq);
}

int messages_open(sluice_job *job)
{
	job->messages.came = calloc((size_t)job->size, sizeof(*job->messages.came));
	return job->messages.came ? 0 : fail(SLUICE_ENOMEM, "no memory for %d peers", job->size);
}

void messages_close(struct collective_messages *messages)
{
	free(messages->came);
	messages->came = NULL;
}

uint64_t messages_next(const sluice_job *job)
{
	return job->messages.seq + 1;
}

uint64_t messages_begin(sluice_job *job)
{
	job->messages.ahead = 0; /* no rank can be in the next round yet */
	return ++job->messages.seq;
}

int messages_claimed(const sluice_job *job)
{
	return job->messages.busy;
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
	return job->messages.came[peer] >= seq;
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

uint32_t messages_op(const sluice_job *job, int peer, uint64_t seq)
{
	return get_le32(message_from(job, peer, seq) + 8);
}

/* Reports a peer that is in a collective about a model to the client. The message is validated only
 * when it is taken. */
static void report_model(sluice_job *job, int peer)
{
	struct collective_message message;
	if (!messages_read(job, peer, messages_next(job), &message) &&
	    message.about.model != ABOUT_NO_MODEL)
		clients_handler(&job->clients)
			->is_in(job, peer, message.op, message.about.model, message.about.steps);
}

/* The message may arrive before its notify, and its checksum shows whether it has. */
int messages_closing_text(const sluice_job *job, int rank, char *text, size_t cap)
{
	struct collective_message message;
	const int mine = rank == job->rank;
	*text = 0;
	if ((mine && !messages_claimed(job)) ||
	    messages_read(job, rank, mine ? job->messages.seq : messages_next(job), &message) ||
	    message.op != COLLECTIVE_CLOSE || message.about.model == ABOUT_NO_MODEL)
		return 0;
	snprintf(text, cap, "it closed model %u after %llu steps", message.about.model,
		 (unsigned long long)message.about.steps);
	return 1;
}

void messages_arrived(sluice_job *job, int peer, int waits)
{
	TOKEN_HELD(job);
	if (++job->messages.came[peer] <= job->messages.seq)
		return;
	job->messages.ahead++;
	if (waits)
		report_model(job, peer);
}

void messages_report(sluice_job *job)
{
	for (int p = 0; job->messages.ahead && p < job->size; p++)
		if (job->messages.came[p] > job->messages.seq && job_living(job, p))
			report_model(job, p);
}

void messages_ahead_text(const sluice_job *job, char *text, size_t cap)
{
	*text = 0;
	for (int p = 0; job->messages.ahead && p < job->size && !*text; p++)
		if (job->messages.came[p] > job->messages.seq && job_living(job, p))
			snprintf(text, cap, "; %s is in %s and waits for this rank",
				 rank_text(job, p),
				 collective_name(messages_op(job, p, messages_next(job))));
}
