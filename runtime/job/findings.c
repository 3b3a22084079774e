/* SPDX-License-Identifier: BSD-3-Clause
 * See findings.h. */
#include "job/findings.h"
#include "job/reach.h"
#include "job/state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job with more kinds of findings than this has a problem that the first ones show. */
enum { KINDS_MOST = 8, RANKS_TEXT = 96 };

const char findings_reason[8] = "failed", findings_warnings[8] = "warned";

/* ---- this rank's ------------------------------------------------------------- */

/* Calls a function with each gathered line of a level. */
static void each_line(const struct log_gathered *g, enum log_level level,
		      void (*call)(enum log_level level, const char *line, void *context),
		      void *context)
{
	for (const char *line = g->lines; line < g->lines + g->used; line += strlen(line) + 1)
		if (line[0] == '0' + (int)level)
			call(level, line + 1, context);
}

static void log_unless(enum log_level level, const char *line, void *context)
{
	if (!context || strcmp(line, context) != 0)
		log_line(level, "runtime", "%s", line);
}

void findings_log_errors(const struct log_gathered *gathered, const char *except)
{
	/* A log line is not cut where an error is, so only the common part is compared. */
	each_line(gathered, LOG_ERROR, log_unless, (void *)(uintptr_t)except);
}

void findings_log_warnings(const struct log_gathered *gathered)
{
	each_line(gathered, LOG_WARN, log_unless, NULL);
}

void findings_log(const struct log_gathered *gathered)
{
	findings_log_errors(gathered, NULL);
	findings_log_warnings(gathered);
}

static void append_line(enum log_level level, const char *line, void *context)
{
	char *text = context;
	const size_t used = strlen(text);

	if (used + strlen(line) + 2 > FINDING_BYTES)
		log_line(level, "runtime", "%s", line);
	else
		snprintf(text + used, FINDING_BYTES - used, "%s%s", used ? "\n" : "", line);
}

size_t findings_collect(const struct log_gathered *gathered, char text[FINDING_BYTES])
{
	*text = 0;
	each_line(gathered, LOG_WARN, append_line, text);
	return strlen(text);
}

/* ---- all ranks' -------------------------------------------------------------- */

/* A finding of some ranks: the bytes of an entry, which are hostile. */
struct kind {
	const uint8_t *bytes;
	size_t n;
};

static struct kind finding_of(const sluice_job *job, const char *name, int rank)
{
	struct kind kind = { NULL, 0 };

	kind.bytes = record_find(&job->records[rank], name, 0, &kind.n);
	if (!kind.bytes || kind.n > FINDING_BYTES)
		kind = (struct kind){ NULL, 0 };
	return kind;
}

static int equal(struct kind a, struct kind b)
{
	return a.bytes && b.bytes && a.n == b.n && !memcmp(a.bytes, b.bytes, a.n);
}

/* Writes "0-3,7" for the ranks that have this finding. Returns their number. */
static int ranks_with(const sluice_job *job, const char *name, struct kind kind,
		      char text[RANKS_TEXT])
{
	int n = 0, first = -1;

	*text = 0;
	for (int r = 0; r <= job->size; r++) {
		const int has = r < job->size && equal(finding_of(job, name, r), kind);
		const size_t used = strlen(text);

		n += has;
		if (has && first < 0)
			first = r;
		if (has || first < 0)
			continue;
		if (used + 32 > RANKS_TEXT) {
			if (text[used - 1] != '.')
				snprintf(text + used, RANKS_TEXT - used, ",...");
		} else if (first == r - 1) {
			snprintf(text + used, RANKS_TEXT - used, "%s%d", used ? "," : "", first);
		} else {
			snprintf(text + used, RANKS_TEXT - used, "%s%d-%d", used ? "," : "", first,
				 r - 1);
		}
		first = -1;
	}
	return n;
}

static void log_one(const sluice_job *job, enum log_level level, int rank, int n, const char *ranks,
		    const char *line)
{
	if (n > 1)
		log_line(level, "runtime", "%s (on %d ranks: %s)", line, n, ranks);
	else if (rank == job->rank)
		log_line(level, "runtime", "%s", line);
	else
		log_line(level, "runtime", "%s%s: %s", rank_text(job, rank),
			 level == LOG_ERROR ? " cannot take part" : "", line);
}

static void log_kinds(const sluice_job *job, const char *name, enum log_level level)
{
	struct kind logged[KINDS_MOST];
	int n_logged = 0, more = 0;

	for (int r = 0; r < job->size; r++) {
		const struct kind kind = finding_of(job, name, r);
		char text[FINDING_BYTES + 1], ranks[RANKS_TEXT];
		int known = !kind.bytes;

		for (int k = 0; k < n_logged && !known; k++)
			known = equal(logged[k], kind);
		if (known)
			continue;
		if (n_logged == KINDS_MOST) {
			more++;
			continue;
		}
		logged[n_logged++] = kind;
		memcpy(text, kind.bytes, kind.n);
		text[kind.n] = 0;
		const int n = ranks_with(job, name, kind, ranks);
		for (char *line = text, *next; line; line = next) {
			next = strchr(line, '\n');
			if (next)
				*next++ = 0;
			blank_controls(line);
			log_one(job, level, r, n, ranks, line);
		}
	}
	if (more)
		log_line(level, "runtime", "%d more ranks have other messages of this kind", more);
}

void findings_log_records(const sluice_job *job)
{
	if (job->rank != 0)
		return;
	log_kinds(job, findings_reason, LOG_ERROR);
	log_kinds(job, findings_warnings, LOG_WARN);
}
