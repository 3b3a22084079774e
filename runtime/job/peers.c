/* SPDX-License-Identifier: BSD-3-Clause
 * Decides who is alive, and who is to blame for a loss. It learns of losses when a transport
 * reports the end of a process, from the status that a peer wrote before it left, from other ranks,
 * and from violations of the rules. heart.c reports silent peers. failure.c records the failure of
 * the job, and members.c handles the loss if the job continues. */
#include "job/peers.h"
#include "job/state.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "job/members.h"
#include "job/page.h"
#include "job/progress_token.h"
#include "rdma/transport.h"
#include <stdio.h>
#include <string.h>

int job_fail(sluice_job *job, int code, int culprit, const char *format, ...)
{
	char text[ERROR_TEXT_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (code == SLUICE_EWIRE)
		members_overtaken(job);
	return failure_record(job, code, culprit, text, -1);
}

int job_fail_here(sluice_job *job, int held, int code, const char *format, ...)
{
	char text[ERROR_TEXT_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (!held)
		progress_take(job);
	const int rc = job_fail(job, code, job->rank, "%s", text);
	if (!held)
		progress_release(job);
	return rc;
}

int peers_open_region(sluice_job *job, int peer, const uint8_t *descriptor, struct remote **out)
{
	struct endpoint *e = job->peers[peer].endpoint;
	const struct transport_ops *ops = e->transport->ops;
	const int rc = descriptor ? ops->remote_open(e, descriptor, out) : ops->control(e, out);
	char why[ERROR_TEXT_BYTES];

	if (rc != SLUICE_EPEER)
		return rc;
	snprintf(why, sizeof why, "%s", sluice_last_error());
	return fail(rc, "%s is lost: %s", rank_text(job, peer), why);
}

static void lost_here(sluice_job *job, int peer, const char *why)
{
	TOKEN_HELD(job);
	if (job->peers[peer].state != PEER_ALIVE || failure_said_bye(job))
		return;
	job->peers[peer].state = PEER_LOST;
	page_show_loss(job, peer, why);
	if (!members_lost(job, peer, why))
		job_fail(job, SLUICE_EPEER, peer,
			 "%s is lost: %s; look for the cause in its own output, or "
			 "in other errors of this job",
			 rank_text(job, peer), why);
}

void peers_lost(sluice_job *job, int peer, const char *why)
{
	uint32_t at = 0;
	for (sluice_job *held; (held = groups_next(job, &at));)
		if (group_rank_of(held, peer) >= 0)
			lost_here(held, group_rank_of(held, peer), why);
}

int job_blame(sluice_job *job, int code, int peer, const char *format, ...)
{
	char text[ERROR_TEXT_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (!job_can_lose(job, peer))
		return job_fail(job, code, peer, "%s", text);
	peers_lost(job, peer, text);
	return code;
}

/* Skips the name at the start of a peer's sentence about itself, because the sentence that quotes
 * it already names the peer. */
static const char *without_name(const sluice_job *job, int peer, const char *text)
{
	const char *name = rank_text(job, peer);
	size_t n = strlen(name);
	return !strncmp(text, name, n) && text[n] == ' ' ? text + n + 1 : text;
}

/* Reads the status that the peer may have written. Returns 1 if the peer left properly or gave up,
 * and handles both. */
static int read_status(sluice_job *job, int peer)
{
	uint8_t copy[16 + STATUS_TEXT_BYTES];
	memcpy(copy, line_of(job, peer) + LINE_STATUS, sizeof copy);
	uint32_t state = get_le32(copy), culprit = get_le32(copy + 4), length = get_le32(copy + 12);
	if (state == LINE_ALIVE)
		return 0;
	if (length >= STATUS_TEXT_BYTES || culprit >= (uint32_t)job->size || state > LINE_GAVE_UP ||
	    get_le32(copy + 8) != crc32c(crc32c(0, copy, 8), copy + 12, 4 + length)) {
		log_line(LOG_WARN, "runtime",
			 "%s wrote a status with a wrong checksum, which is ignored",
			 rank_text(job, peer));
		return 0;
	}
	copy[16 + length] = 0;
	blank_controls((char *)copy + 16);
	if (state == LINE_BYE && !failure_finalizing(job))
		peers_lost(job, peer, "it left the job before this rank was done");
	const char *text = (const char *)copy + 16;
	if (state == LINE_GAVE_UP && job_can_lose(job, peer)) {
		/* A worker that gave up is dropped, even if it blames another rank. */
		char why[STATUS_TEXT_BYTES + 32];
		snprintf(why, sizeof why, "it gave up: %s", without_name(job, peer, text));
		peers_lost(job, peer, why);
		return 1;
	}
	if (job->peers[peer].state == PEER_ALIVE)
		job->peers[peer].state = PEER_LEFT;
	if (state == LINE_BYE)
		return 1;
	if ((int)culprit == peer)
		job_fail(job, SLUICE_EPEER, peer, "%s gave up: %s", rank_text(job, peer),
			 without_name(job, peer, text));
	else if ((int)culprit == job->rank)
		job_fail(job, SLUICE_EPEER, job->rank, "%s dropped this rank: %s",
			 rank_text(job, peer), text);
	else
		failure_record(job, SLUICE_EPEER, (int)culprit, text, peer);
	return 1;
}

void peers_status(sluice_job *job, int peer)
{
	read_status(job, peer);
}

static void gone_here(sluice_job *job, int peer, const char *why)
{
	if (!read_status(job, peer))
		lost_here(job, peer, why);
}

void peers_gone(sluice_job *job, int peer, const char *why)
{
	uint32_t at = 0;
	for (sluice_job *held; (held = groups_next(job, &at));)
		if (group_rank_of(held, peer) >= 0)
			gone_here(held, group_rank_of(held, peer), why);
}

int peers_matter(sluice_job *job, int peer)
{
	uint32_t at = 0;
	for (const sluice_job *held; (held = groups_next(job, &at));) {
		int rank = group_rank_of(held, peer);
		if (rank >= 0 && held->peers[rank].state == PEER_ALIVE)
			return 1;
	}
	return 0;
}

void peers_report(sluice_job *job, const char *text)
{
	uint8_t *report = outbox_at(job, LINE_REPORT);
	size_t length = strnlen(text, REPORT_TEXT_BYTES - 1);
	put_le32(report + 4, (uint32_t)length);
	memcpy(report + 8, text, length);
	put_le32(report, crc32c(0, report + 4, 4 + length));
	for (int p = 0; p < job->size; p++)
		if (p != job->rank && job->peers[p].control && job->peers[p].state == PEER_ALIVE)
			lines_put(job, p, LINE_REPORT, report, 8 + length,
				  job_imm(job, IMM_REPORT, 0));
}

enum { REPORTS_A_MINUTE = 10 };
static const uint64_t minute_ns = 60000000000;

int reports_pass(struct report_limit *limit, uint64_t now, unsigned *suppressed_out)
{
	*suppressed_out = 0;
	if (!limit->since_ns || now - limit->since_ns >= minute_ns) {
		*suppressed_out = limit->suppressed;
		*limit = (struct report_limit){ .since_ns = now };
	}
	if (limit->passed == REPORTS_A_MINUTE) {
		limit->suppressed++;
		return 0;
	}
	limit->passed++;
	return 1;
}

void peers_reported(sluice_job *job, int peer, int waits)
{
	unsigned suppressed;
	uint8_t copy[8 + REPORT_TEXT_BYTES];
	memcpy(copy, line_of(job, peer) + LINE_REPORT, sizeof copy);
	uint32_t length = get_le32(copy + 4);
	if (clients_handler(&job->clients)->waits(job) || !waits || length >= REPORT_TEXT_BYTES ||
	    get_le32(copy) != crc32c(0, copy + 4, 4 + length))
		return;
	for (uint8_t *c = copy + 8; c < copy + 8 + length; c++)
		if (*c < ' ' || *c > '~')
			*c = ' ';
	if (!reports_pass(&job->root->reports, now_ns(), &suppressed))
		return;
	if (suppressed)
		log_line(LOG_WARN, "runtime",
			 "%u more reports of other ranks were not logged: the limit is %d a "
			 "minute",
			 suppressed, REPORTS_A_MINUTE);
	log_line(LOG_WARN, "runtime", "%s says: %.*s", rank_text(job, peer), (int)length,
		 (const char *)copy + 8);
}

void peers_members(sluice_job *job, int peer)
{
	uint8_t block[MEMBERS_BLOCK_BYTES];
	if (!members_may_write(job, peer)) {
		job_blame(job, SLUICE_EWIRE, peer,
			  "%s sent a notify of membership, which only the rank that "
			  "announces losses may send",
			  rank_text(job, peer));
		return;
	}
	if (!members_arrived(job, peer, block))
		return;
	for (int w = 0; w < job->workers && !job->failure.code; w++) {
		char why[384], closed[96];
		if (!members_unheard(job, peer, block, w))
			continue;
		const int closing = messages_closing_text(job, w, closed, sizeof(closed));
		snprintf(why, sizeof(why), "%s%s%s reported it, and its log says why", closed,
			 closing ? ", and " : "", rank_text(job, peer));
		peers_lost(job, w, why);
	}
	members_taken(job);
}
