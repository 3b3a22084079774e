/* SPDX-License-Identifier: BSD-3-Clause
 * Writes mails from the outbox and reads them from the lines; see mails.h. */
#include "job/mails.h"
#include "base/bytes.h"
#include "job/job.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t mail_offset(uint64_t seq)
{
	return LINE_MAIL + (seq & 1) * (MAIL_HEADER_BYTES + MAIL_BYTES);
}

static const uint8_t *mail_from(const sluice_job *job, int peer, uint64_t seq)
{
	return line_of(job, peer) + mail_offset(seq);
}

int mails_open(sluice_job *job)
{
	job->mails.came = calloc((size_t)job->size, sizeof(*job->mails.came));
	return job->mails.came ? 0 : fail(SLUICE_ENOMEM, "no memory for %d peers", job->size);
}

void mails_close(struct mails *mails)
{
	free(mails->came);
	mails->came = NULL;
}

uint64_t mails_next(const sluice_job *job)
{
	return job->mails.seq + 1;
}

uint64_t mails_begin(sluice_job *job)
{
	job->mails.ahead = 0; /* no rank can be in the round after this one yet */
	return ++job->mails.seq;
}

int mails_claimed(const sluice_job *job)
{
	return job->mails.busy;
}

void mails_claim(sluice_job *job)
{
	job->mails.busy = 1;
}

void mails_free(sluice_job *job)
{
	job->mails.busy = 0;
}

/* The mail stays in the outbox, unchanged, until round seq + 2. */
int mails_put(sluice_job *job, int peer, uint64_t seq, uint32_t op, const uint8_t *bytes, size_t n)
{
	uint8_t *mail = outbox_mail(job, peer, (int)(seq & 1));
	memset(mail, 0, MAIL_HEADER_BYTES);
	put_le64(mail, seq);
	put_le32(mail + 8, op);
	put_le32(mail + 12, (uint32_t)n);
	if (n)
		memcpy(mail + MAIL_HEADER_BYTES, bytes, n);
	put_le32(mail + 16, crc32c(crc32c(0, mail, 16), mail + MAIL_HEADER_BYTES, n));
	return lines_put(job, peer, mail_offset(seq), mail, MAIL_HEADER_BYTES + n,
			 job_imm(job, IMM_MAIL, 0));
}

int mails_has(const sluice_job *job, int peer, uint64_t seq)
{
	return job->mails.came[peer] >= seq;
}

int mails_read(const sluice_job *job, int peer, uint64_t seq, struct mail *out)
{
	memcpy(out->copy, mail_from(job, peer, seq), sizeof(out->copy));
	out->op = get_le32(out->copy + 8);
	out->bytes = get_le32(out->copy + 12);
	return get_le64(out->copy) != seq || out->bytes > MAIL_BYTES ||
	       get_le32(out->copy + 16) !=
		       crc32c(crc32c(0, out->copy, 16), out->copy + MAIL_HEADER_BYTES, out->bytes);
}

uint32_t mails_op(const sluice_job *job, int peer, uint64_t seq)
{
	return get_le32(mail_from(job, peer, seq) + 8);
}

/* Whether the rank wrote in this round that it closes a model, and what it said. */
static int says_closing(const sluice_job *job, int rank, uint64_t seq, uint32_t *model,
			uint64_t *steps)
{
	struct mail mail;
	if (mails_read(job, rank, seq, &mail) || mail.op != COLLECTIVE_CLOSE ||
	    mail.bytes != CLOSING_BYTES)
		return 0; /* whoever takes it judges it */
	*model = get_le32(mail.copy + MAIL_HEADER_BYTES);
	*steps = get_le64(mail.copy + MAIL_HEADER_BYTES + 4);
	return 1;
}

/* If what this peer waits for is that all close a model, the client hears of it. */
static void tell_closing(sluice_job *job, int peer)
{
	uint32_t model;
	uint64_t steps;
	if (says_closing(job, peer, mails_next(job), &model, &steps))
		clients_told(&job->clients)->closed(job, model, peer, steps);
}

/* The notify of the mail may not be here yet: the checksum tells whether the mail is. */
int mails_closing_text(const sluice_job *job, int rank, char *text, size_t cap)
{
	uint32_t model;
	uint64_t steps;
	const int mine = rank == job->rank;
	*text = 0;
	if ((mine && !mails_claimed(job)) ||
	    !says_closing(job, rank, mine ? job->mails.seq : mails_next(job), &model, &steps))
		return 0;
	snprintf(text, cap, "it closed model %u after %llu steps", model,
		 (unsigned long long)steps);
	return 1;
}

void mails_arrived(sluice_job *job, int peer, int waits)
{
	TOKEN_HELD(job);
	if (++job->mails.came[peer] <= job->mails.seq)
		return;
	job->mails.ahead++;
	if (waits)
		tell_closing(job, peer);
}

void mails_closings(sluice_job *job)
{
	for (int p = 0; job->mails.ahead && p < job->size; p++)
		if (job->mails.came[p] > job->mails.seq && job_living(job, p))
			tell_closing(job, p);
}
