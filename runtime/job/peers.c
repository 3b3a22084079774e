/* SPDX-License-Identifier: BSD-3-Clause
 * Who is alive: the end of a process as its transport reports it, and the last words that a peer
 * wrote before it left. heart.c tells of those that are silent. */
#include "job/job.h"
#include "base/bytes.h"
#include "base/log.h"
#include <stdio.h>
#include <string.h>

static uint8_t *line_of(const sluice_job *job, int peer)
{
	return (uint8_t *)job->control->base + (size_t)peer * LINE_BYTES;
}

void peers_lost(sluice_job *job, int peer, const char *why)
{
	if (job->peers[peer].state != PEER_ALIVE || job->said_bye)
		return;
	job->peers[peer].state = PEER_LOST;
	if (!members_lost(job, peer, why))
		job_fail(job, SLUICE_EPEER, peer,
			 "%s is lost: %s; look for the cause in its own output",
			 rank_text(job, peer), why);
}

int job_blame(sluice_job *job, int code, int peer, const char *format, ...)
{
	char text[ERROR_TEXT_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (!job->members.elastic || peer >= job->workers)
		return job_fail(job, code, peer, "%s", text);
	peers_lost(job, peer, text);
	return code;
}

/* What a peer says of itself begins with its name; so do the sentences around it. */
static const char *without_name(const sluice_job *job, int peer, const char *text)
{
	const char *name = rank_text(job, peer);
	size_t n = strlen(name);
	return !strncmp(text, name, n) && text[n] == ' ' ? text + n + 1 : text;
}

/* Reads the peer's last words, if it wrote any. 1: it left properly or gave up (handled here). */
static int read_status(sluice_job *job, int peer)
{
	uint8_t copy[16 + STATUS_TEXT_BYTES];
	memcpy(copy, line_of(job, peer) + LINE_STATUS, sizeof copy);
	uint32_t state = get_le32(copy), culprit = get_le32(copy + 4), length = get_le32(copy + 12);
	if (state == LINE_ALIVE)
		return 0;
	if (length >= STATUS_TEXT_BYTES || culprit >= (uint32_t)job->size || state > LINE_GAVE_UP ||
	    get_le32(copy + 8) != crc32c(crc32c(0, copy, 8), copy + 12, 4 + length)) {
		log_line(LOG_WARN, "runtime", "%s left a status that does not check; ignored",
			 rank_text(job, peer));
		return 0;
	}
	copy[16 + length] = 0;
	blank_controls((char *)copy + 16);
	if (state == LINE_BYE && !job->finalizing)
		peers_lost(job, peer, "it left the job before this rank was done");
	const char *text = (const char *)copy + 16;
	if (state == LINE_GAVE_UP && job->members.elastic && peer < job->workers) {
		char why[STATUS_TEXT_BYTES + 32]; /* whoever it blames: a worker's end is its own */
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
		job_fail(job, SLUICE_EPEER, (int)culprit, "%s (reported by rank %d)", text, peer);
	return 1;
}

void peers_status(sluice_job *job, int peer)
{
	read_status(job, peer);
}

void peers_gone(sluice_job *job, int peer, const char *why)
{
	if (!read_status(job, peer))
		peers_lost(job, peer, why);
}

void peers_report(sluice_job *job, const char *text)
{
	uint8_t *report = (uint8_t *)job->outbox->base + LINE_REPORT;
	size_t length = strnlen(text, REPORT_TEXT_BYTES - 1);
	put_le32(report + 4, (uint32_t)length);
	memcpy(report + 8, text, length);
	put_le32(report, crc32c(0, report + 4, 4 + length));
	for (int p = 0; p < job->size; p++)
		if (p != job->rank && job->peers[p].state == PEER_ALIVE)
			peers_put(job, p, TRANSFER_PUT_NOTIFY, LINE_REPORT, report, 8 + length,
				  imm_make(IMM_REPORT, 0, 0));
}

void peers_reported(sluice_job *job, int peer)
{
	uint8_t copy[8 + REPORT_TEXT_BYTES];
	memcpy(copy, line_of(job, peer) + LINE_REPORT, sizeof copy);
	uint32_t length = get_le32(copy + 4);
	if (job->client->waits(job) || !job->waiting || length >= REPORT_TEXT_BYTES ||
	    get_le32(copy) != crc32c(0, copy + 4, 4 + length))
		return;
	for (uint8_t *c = copy + 8; c < copy + 8 + length; c++)
		if (*c < ' ' || *c > '~')
			*c = ' ';
	log_line(LOG_WARN, "runtime", "%s says: %.*s", rank_text(job, peer), (int)length,
		 (const char *)copy + 8);
}
