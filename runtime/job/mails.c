/* SPDX-License-Identifier: BSD-3-Clause
 * Writes mails from the outbox and reads them from the lines; see mails.h. */
#include "job/mails.h"
#include "base/bytes.h"
#include "job/job.h"
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
int mails_put(sluice_job *job, int peer, uint64_t seq, uint32_t op, struct about about,
	      const uint8_t *bytes, size_t n)
{
	uint8_t *mail = outbox_mail(job, peer, (int)(seq & 1));
	put_le64(mail, seq);
	put_le32(mail + 8, op);
	put_le32(mail + 12, (uint32_t)n);
	put_le32(mail + 16, about.model);
	put_le64(mail + 20, about.steps);
	if (n)
		memcpy(mail + MAIL_HEADER_BYTES, bytes, n);
	put_le32(mail + MAIL_CRC, crc32c(crc32c(0, mail, MAIL_CRC), mail + MAIL_HEADER_BYTES, n));
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
	out->about = (struct about){ get_le32(out->copy + 16), get_le64(out->copy + 20) };
	return get_le64(out->copy) != seq || out->bytes > MAIL_BYTES ||
	       get_le32(out->copy + MAIL_CRC) != crc32c(crc32c(0, out->copy, MAIL_CRC),
							out->copy + MAIL_HEADER_BYTES, out->bytes);
}

uint32_t mails_op(const sluice_job *job, int peer, uint64_t seq)
{
	return get_le32(mail_from(job, peer, seq) + 8);
}

/* If this peer is in a collective about a model, the client hears of it. Whoever takes the mail
 * judges one that does not check. */
static void tell_about(sluice_job *job, int peer)
{
	struct mail mail;
	if (!mails_read(job, peer, mails_next(job), &mail) && mail.about.model != ABOUT_NO_MODEL)
		clients_told(&job->clients)
			->is_in(job, peer, mail.op, mail.about.model, mail.about.steps);
}

/* The notify of the mail may not be here yet: the checksum tells whether the mail is. */
int mails_closing_text(const sluice_job *job, int rank, char *text, size_t cap)
{
	struct mail mail;
	const int mine = rank == job->rank;
	*text = 0;
	if ((mine && !mails_claimed(job)) ||
	    mails_read(job, rank, mine ? job->mails.seq : mails_next(job), &mail) ||
	    mail.op != COLLECTIVE_CLOSE || mail.about.model == ABOUT_NO_MODEL)
		return 0;
	snprintf(text, cap, "it closed model %u after %llu steps", mail.about.model,
		 (unsigned long long)mail.about.steps);
	return 1;
}

void mails_arrived(sluice_job *job, int peer, int waits)
{
	TOKEN_HELD(job);
	if (++job->mails.came[peer] <= job->mails.seq)
		return;
	job->mails.ahead++;
	if (waits)
		tell_about(job, peer);
}

void mails_tell(sluice_job *job)
{
	for (int p = 0; job->mails.ahead && p < job->size; p++)
		if (job->mails.came[p] > job->mails.seq && job_living(job, p))
			tell_about(job, p);
}

void mails_ahead_text(const sluice_job *job, char *text, size_t cap)
{
	*text = 0;
	for (int p = 0; job->mails.ahead && p < job->size && !*text; p++)
		if (job->mails.came[p] > job->mails.seq && job_living(job, p))
			snprintf(text, cap, "; %s is in %s and waits for this rank",
				 rank_text(job, p),
				 collective_name(mails_op(job, p, mails_next(job))));
}
