/* SPDX-License-Identifier: BSD-3-Clause
 * In a round, each rank sends the same message to all peers and receives one from each, if need be
 * through a hub. All ranks make the same decision, because they have the same rows. */
#include "checkpoint/checkpoint_rounds.h"
#include "base/bytes.h"
#include "job/collective.h"
#include "job/living.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "worker/push.h"
#include <stdio.h>
#include <stdlib.h>

/* The rows of meeting_share_sums(). */
enum { SUM_BYTES = 12, SUMS_AT_ONCE = ROW_BYTES / SUM_BYTES };

static void write_row(const struct word *w, uint8_t *row)
{
	put_le32(row, (uint32_t)w->status);
	put_le32(row + 4, w->model);
	put_le64(row + 8, w->step);
	put_le64(row + 16, w->digest);
	put_le64(row + 24, w->sum.bytes);
	put_le32(row + 32, w->sum.crc);
	put_le32(row + 36, w->generation);
	memcpy(row + ROW_TEXT, w->text, ROW_TEXT_BYTES);
}

void meeting_heard(const struct meeting *m, int rank, struct word *out)
{
	const uint8_t *row = m->heard + (size_t)rank * ROW_BYTES;
	out->status = (int32_t)get_le32(row);
	if (out->status > 0 || out->status < SLUICE_EIO)
		out->status = SLUICE_EWIRE; /* a peer sent a status that is not an error code */
	out->model = get_le32(row + 4);
	out->step = get_le64(row + 8);
	out->digest = get_le64(row + 16);
	out->sum.bytes = get_le64(row + 24);
	out->sum.crc = get_le32(row + 32);
	out->generation = get_le32(row + 36);
	memcpy(out->text, row + ROW_TEXT, ROW_TEXT_BYTES);
	out->text[ROW_TEXT_BYTES - 1] = '\0';
	if (out->status) /* text is then the reason for a failure; otherwise it is a directory */
		blank_controls(out->text);
}

/* Fails the job because rank `culprit` cannot or will not take part, so that the others do not wait
 * for it. */
static int refuse_to_meet(sluice_model *model, int culprit, const char *why)
{
	sluice_job *job = model->job;
	progress_take(job);
	int rc = job_fail(job, culprit == job->rank ? SLUICE_ENOMEM : SLUICE_EPEER, culprit,
			  "%s %s", rank_text(job, culprit), why);
	progress_release(job);
	return rc;
}

void meeting_close(struct meeting **m)
{
	if (*m) {
		checkpoint_unlock(&(*m)->lock);
		free((*m)->said);
		free((*m)->heard);
	}
	free(*m);
	*m = NULL;
}

int meeting_open(sluice_model *model, enum collective op, struct meeting **out)
{
	size_t size = (size_t)model->job->size;
	struct meeting *m = calloc(1, sizeof *m);
	if (m) {
		m->lock = -1;
		m->said = malloc(ROW_BYTES);
		m->heard = malloc(size * ROW_BYTES);
	}
	if (!m || !m->said || !m->heard) {
		meeting_close(&m);
		return refuse_to_meet(model, model->job->rank,
				      "has no memory for the rounds of a checkpoint");
	}
	m->model = model;
	m->op = op;
	m->leader = round_leader(model->job);
	m->complete = 1;
	for (int w = 0; w < model->job->workers; w++)
		m->complete &= round_has(model->job, w);
	*out = m;
	return 0;
}

/* Makes a round, in which all ranks send m->said. Fails only if the job has failed. */
static int exchange(struct meeting *m)
{
	const sluice_job *job = m->model->job;
	const struct about about = { m->model->id, step_pushed(m->model->worker) };
	int rc = collective_run_about(m->model->job, m->op, about, m->said, 0, ROW_BYTES, m->heard);
	for (int w = 0; !rc && m->op == COLLECTIVE_RESTORE && w < job->workers; w++)
		if (m->complete && !round_has(job, w))
			rc = refuse_to_meet(m->model, w, "was lost during a restore");
	m->lost = rc != 0;
	m->leader = rc ? 0 : round_leader(job);
	return rc;
}

/* Makes a round, in which all ranks send m->mine. After a failure, a rank also sends its thread's
 * last error. */
static int speak(struct meeting *m)
{
	m->mine.model = m->model->id;
	if (m->mine.status)
		snprintf(m->mine.text, sizeof m->mine.text, "%s", sluice_last_error());
	write_row(&m->mine, m->said);
	return exchange(m);
}

static int verdict(const struct meeting *m)
{
	const sluice_job *job = m->model->job;
	for (int r = 0; r < job->size; r++) {
		struct word w;
		meeting_heard(m, r, &w);
		if (!w.status)
			continue;
		if (m->mine.status)
			return w.status;
		return fail_quietly(w.status, "%s: %.*s", rank_text(job, r), ERROR_TEXT_BYTES,
				    w.text);
	}
	return 0;
}

int meeting_judge(struct meeting *m)
{
	const int rc = speak(m);

	return rc ? rc : verdict(m);
}

/* Compares the rows. Every rank has the same rows, so it gets the same result. */
static int compare_terms(struct meeting *m, const char *function)
{
	const sluice_job *job = m->model->job;
	for (int r = m->leader + 1; r < job->size; r++) {
		struct word w;
		if (!round_has(job, r))
			continue;
		meeting_heard(m, r, &w);
		if (w.model != m->terms.model)
			return fail(SLUICE_EINVAL,
				    "%s: %s calls it for model %u, but %s for model %u", function,
				    rank_text(job, m->leader), m->terms.model, rank_text(job, r),
				    w.model);
		if (r >= job->workers)
			continue;
		if (w.digest != m->terms.digest)
			return fail(SLUICE_EINVAL, "%s: %s and %s were given different directories",
				    function, rank_text(job, m->leader), rank_text(job, r));
		if (m->op == COLLECTIVE_CHECKPOINT && w.step != m->terms.step)
			return fail(SLUICE_EINVAL,
				    "%s: %s is at step %llu, but %s is at step %llu: call it after "
				    "the same step on all workers",
				    function, rank_text(job, m->leader),
				    (unsigned long long)m->terms.step, rank_text(job, r),
				    (unsigned long long)w.step);
	}
	return 0;
}

int meeting_agree(struct meeting *m, const char *function, int *again_out)
{
	int rc = speak(m);
	if (rc)
		return rc;
	meeting_heard(m, m->leader, &m->terms);
	*again_out = !m->terms.text[0];
	if ((rc = verdict(m)) || (rc = compare_terms(m, function)))
		return rc;
	m->place.step = m->terms.step;
	m->place.generation = m->terms.generation;
	snprintf(m->place.dir, sizeof m->place.dir, "%.*s", CHECKPOINT_DIR_BYTES - 1,
		 m->terms.text);
	return 0;
}

int meeting_share_sums(struct meeting *m, const struct checkpoint_sum *sums,
		       struct checkpoint_sum *own_out)
{
	const int leader = m->leader, size = m->model->job->size, own = m->model->job->rank;
	int rc = 0;
	for (int from = 0; from < size && !rc; from += SUMS_AT_ONCE) {
		memset(m->said, 0, ROW_BYTES);
		for (int i = 0; sums && i < SUMS_AT_ONCE && from + i < size; i++) {
			put_le64(m->said + i * SUM_BYTES, sums[from + i].bytes);
			put_le32(m->said + i * SUM_BYTES + 8, sums[from + i].crc);
		}
		rc = exchange(m);
		if (rc || own < from || own >= from + SUMS_AT_ONCE)
			continue;
		const uint8_t *at = m->heard + (size_t)leader * ROW_BYTES +
				    (size_t)(own - from) * SUM_BYTES;
		*own_out = (struct checkpoint_sum){ get_le64(at), get_le32(at + 8) };
	}
	return rc;
}
