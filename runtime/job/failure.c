/* SPDX-License-Identifier: BSD-3-Clause
 * Records a job's failure and writes the status from which the peers learn of it. Also has the
 * names of ranks, and the check that this process may use the job. */
#include "job/failure.h"
#include "job/state.h"
#include "base/bytes.h"
#include "job/hubs.h"
#include <stdio.h>
#include <string.h>

const char *rank_text(const sluice_job *job, int rank)
{
	static _Thread_local char texts[4][NODE_NAME_BYTES + 96];
	static _Thread_local unsigned next;
	char *text = texts[next++ % 4];
	if (job_in_group(job))
		snprintf(text, sizeof texts[0], "rank %d of group %d (rank %d of the job, node %s)",
			 rank, group_color(job), group_root_rank(job, rank),
			 sluice_node(job, rank));
	else
		snprintf(text, sizeof texts[0], "rank %d (node %s)", rank, sluice_node(job, rank));
	return text;
}

int job_check(const sluice_job *job, const char *function)
{
	if (!job)
		return fail(SLUICE_EINVAL, "%s: the job is NULL", function);
	if (job_in_child(job))
		return fail(SLUICE_EINVAL,
			    "%s: called in a forked child; only process %d may use this job",
			    function, (int)job->process.pid);
	return 0;
}

int sluice_rank(const sluice_job *job)
{
	return job->rank;
}
int sluice_size(const sluice_job *job)
{
	return job->size;
}
int sluice_workers(const sluice_job *job)
{
	return job->workers;
}

const char *sluice_node(const sluice_job *job, int rank)
{
	return job && job->records && rank >= 0 && rank < job->size ? job->records[rank].node : "";
}

/* ---- failure --------------------------------------------------------------- */

void failure_post(sluice_job *job)
{
	if (!job->failure.due)
		return;
	uint8_t *status = outbox_at(job, LINE_STATUS);
	for (int p = 0; job->failure.due && p < job->size; p++) {
		if (!job->peers[p].due ||
		    lines_put(job, p, LINE_STATUS, status, 16 + get_le32(status + 12),
			      job_imm(job, IMM_STATUS, 0)) == SLUICE_EAGAIN)
			continue;
		job->peers[p].due = 0;
		job->failure.due--;
	}
}

/* Writes this rank's status into its line at every peer that has not left. A lost peer also gets
 * it: the peer may only have been stopped, and can then report why the others did not wait. A bye
 * also goes to peers that have already sent theirs, because they may still notice the end of this
 * process while they close. Peers do not answer. */
static void announce(sluice_job *job, enum line_state state, int culprit, const char *text)
{
	uint8_t *status = outbox_at(job, LINE_STATUS);
	size_t length = strnlen(text, STATUS_TEXT_BYTES - 1);
	TOKEN_HELD(job);
	put_le32(status, state);
	put_le32(status + 4, (uint32_t)culprit);
	put_le32(status + 12, (uint32_t)length);
	memcpy(status + 16, text, length);
	put_le32(status + 8, crc32c(crc32c(0, status, 8), status + 12, 4 + length));
	for (int p = 0; p < job->size; p++)
		if (p != job->rank && job->peers[p].control &&
		    (job->peers[p].state != PEER_LEFT || state == LINE_BYE)) {
			job->failure.due += !job->peers[p].due;
			job->peers[p].due = 1;
		}
	failure_post(job);
}

void failure_announce(sluice_job *job, int culprit, const char *text)
{
	announce(job, LINE_GAVE_UP, culprit, text);
}

int failure_record(sluice_job *job, int code, int culprit, const char *text, int reporter)
{
	struct failure *f = &job->failure;
	TOKEN_HELD(job);
	if (f->code) /* another thread has already recorded a failure */
		return job_failed(job);
	if (reporter < 0)
		snprintf(f->text, sizeof(f->text), "%s", text);
	else
		snprintf(f->text, sizeof(f->text), "%s (reported by rank %d)", text, reporter);
	f->code = code;
	f->culprit = culprit;
	/* The peers get the text without the reporter, because each of them appends the rank that
	 * reported to it. While all ranks finalize, each rank detects a loss by itself and needs no
	 * announcement. Only the members of a hub cannot detect it, so the hub announces it. */
	if (!f->finalizing || (job->hubs && hubs_are(job, job->rank)))
		announce(job, LINE_GAVE_UP, culprit, text);
	return fail(code, "%s", f->text); /* must be the last call, because it sets
					     sluice_last_error() */
}

int job_failed(sluice_job *job)
{
	return job->failure.code ? fail_quietly(job->failure.code, "%s", job->failure.text) : 0;
}

const char *failure_text(const sluice_job *job)
{
	return job->failure.text;
}

int failure_finalize(sluice_job *job)
{
	TOKEN_HELD(job);
	job->failure.finalizing = !job->failure.code;
	return job->failure.finalizing;
}

void failure_announce_end(sluice_job *job)
{
	job->failure.said_bye = 1;
	announce(job, LINE_BYE, job->rank, "");
}

int failure_finalizing(const sluice_job *job)
{
	return job->failure.finalizing;
}

int failure_said_bye(const sluice_job *job)
{
	return job->failure.said_bye;
}
