/* SPDX-License-Identifier: BSD-3-Clause
 * Joining and leaving a job: settings, bootstrap, one transport per peer, the progress thread; and the
 * one place that records a job's failure. */
#include "job.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Notifies that a peer may have outstanding here: a push or notice per shard and a few mails. */
enum { NOTIFY_QUEUE_DEPTH = 4096 };

const char *rank_text(const sluice_job *job, int rank)
{
	static _Thread_local char texts[4][NODE_NAME_BYTES + 32];
	static _Thread_local unsigned next;
	char *text = texts[next++ % 4];
	snprintf(text, sizeof texts[0], "rank %d (node %s)", rank, sluice_node(job, rank));
	return text;
}

int job_fail(sluice_job *job, int code, int culprit, const char *format, ...)
{
	if (job->failure.code)
		return job->failure.code;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(job->failure.text, sizeof job->failure.text, format, arguments);
	va_end(arguments);
	job->failure.code = code;
	job->failure.culprit = culprit;
	if (!job->finalizing)
		peers_announce(job, LINE_GAVE_UP, culprit, job->failure.text);
	return fail(code, "%s", job->failure.text); /* last: it is what sluice_last_error() says */
}

int job_failed(sluice_job *job)
{
	return fail_quietly(job->failure.code, "%s", job->failure.text);
}

int job_check(const sluice_job *job, const char *function)
{
	if (!job)
		return fail(SLUICE_EINVAL, "%s: the job is NULL", function);
	if (job->pid != getpid())
		return fail(SLUICE_EINVAL, "%s: called in a forked child; only process %d may use this job",
			    function, (int)job->pid);
	return 0;
}

static int allowed(const struct settings *settings, const char *name)
{
	size_t n = strlen(name);
	for (const char *at = settings->transport; *at; at += strcspn(at, ","), at += *at == ',')
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n]))
			return 1;
	return !strcmp(name, "self");
}

static int open_transports(sluice_job *job)
{
	struct transport_config config = { .rank = job->rank, .size = job->size,
					   .queue_depth = NOTIFY_QUEUE_DEPTH, .control = job->control };
	for (int i = 0; transports[i]; i++) {
		if (!allowed(&job->settings, transports[i]->name))
			continue;
		int rc = transports[i]->open(&config, &job->transports[job->n_transports]);
		if (rc)
			return rc;
		job->n_transports++;
	}
	return 0;
}

/* The card's payload: servers, then per transport its name (8 bytes), a length and its address. */
static int write_payload(sluice_job *job, uint8_t payload[CARD_PAYLOAD_BYTES], size_t *bytes_out)
{
	size_t at = 4;
	put_le32(payload, (uint32_t)job->servers);
	for (int t = 0; t < job->n_transports; t++) {
		const struct transport_ops *ops = job->transports[t]->ops;
		size_t bytes = 0;
		memset(payload + at, 0, 8);
		memcpy(payload + at, ops->name, strnlen(ops->name, 7));
		int rc = ops->card(job->transports[t], payload + at + 12, &bytes);
		if (rc)
			return rc;
		put_le32(payload + at + 8, (uint32_t)bytes);
		at += 12 + bytes;
	}
	*bytes_out = at;
	return 0;
}

static const uint8_t *find_address(const struct card *card, const char *name, size_t *bytes_out)
{
	for (size_t at = 4; at + 12 <= card->payload_bytes;) {
		size_t bytes = get_le32(card->payload + at + 8);
		if (bytes > card->payload_bytes - at - 12)
			return NULL;
		*bytes_out = bytes;
		if (!strncmp((const char *)card->payload + at, name, 7))
			return card->payload + at + 12;
		at += 12 + bytes;
	}
	return NULL;
}

static int connect_peer(sluice_job *job, int peer)
{
	const struct card *card = &job->cards[peer];
	int same_kernel = !memcmp(card->boot_id, job->cards[job->rank].boot_id, sizeof card->boot_id);
	char reasons[256] = "";
	for (int t = 0; t < job->n_transports; t++) {
		struct transport *transport = job->transports[t];
		const char *why = "it offers no address for it";
		size_t bytes, used = strlen(reasons);
		const uint8_t *address = find_address(card, transport->ops->name, &bytes);
		if (!address || !transport->ops->reaches(transport, peer, same_kernel, &why)) {
			snprintf(reasons + used, sizeof reasons - used, " %s: %s;",
				 transport->ops->name, why);
			continue;
		}
		struct peer *p = &job->peers[peer];
		int rc = transport->ops->connect(transport, peer, address, bytes, &p->endpoint);
		if (!rc)
			rc = transport->ops->control(p->endpoint, &p->control);
		if (!rc && p->control->bytes < (uint64_t)job->size * LINE_BYTES)
			rc = fail(SLUICE_EWIRE, "%s gave a control region of %llu bytes: too small",
				  rank_text(job, peer), (unsigned long long)p->control->bytes);
		return rc;
	}
	return fail(SLUICE_ENOSUPP,
		    "no transport reaches %s from %s:%s allowed here: SLUICE_TRANSPORT=%s. This release "
		    "connects ranks on one machine only",
		    rank_text(job, peer), rank_text(job, job->rank), reasons, job->settings.transport);
}

static int check_servers(sluice_job *job)
{
	if (job->servers < 0 || job->servers >= job->size)
		return fail(SLUICE_EINVAL,
			    "servers=%d, but the job has %d rank%s and at least one must be a worker: start "
			    "more ranks (srun -n) or ask for fewer servers",
			    job->servers, job->size, job->size == 1 ? "" : "s");
	return 0;
}

/* The same rule on every rank, and again for what the others said. */
static int check_cards(sluice_job *job)
{
	for (int r = 0; r < job->size; r++) {
		const struct card *card = &job->cards[r];
		if (card->payload_bytes < 4 || (int)get_le32(card->payload) != job->servers)
			return fail(SLUICE_EPEER,
				    "%s has servers=%d, %s has servers=%d: give all ranks the same",
				    rank_text(job, job->rank), job->servers, rank_text(job, r),
				    card->payload_bytes < 4 ? -1 : (int)get_le32(card->payload));
	}
	return 0;
}

static int join(sluice_job *job, const sluice_job_attr *attr, struct bootstrap **boot)
{
	int rc = env_load(&job->settings);
	if (!rc)
		rc = log_configure(job->settings.log);
	if (rc)
		return rc;
	struct settings *s = &job->settings;
	if (attr && attr->size >= sizeof *attr) {
		s->servers = attr->servers ? attr->servers : s->servers;
		s->lost_after_ms = attr->lost_after_ms ? attr->lost_after_ms : s->lost_after_ms;
		s->warn_after_ms = attr->warn_after_ms ? attr->warn_after_ms : s->warn_after_ms;
		s->wait_timeout_ms = attr->wait_timeout_ms ? attr->wait_timeout_ms : s->wait_timeout_ms;
	}
	if (s->lost_after_ms < 0 || s->warn_after_ms < 0 || s->wait_timeout_ms < 0)
		return fail(SLUICE_EINVAL, "sluice_init: a negative time in the attributes");
	if ((rc = bootstrap_open(s->boot_timeout_ms, boot)))
		return rc;
	job->rank = bootstrap_rank(*boot);
	job->size = bootstrap_size(*boot);
	job->servers = s->servers;
	job->workers = job->size - job->servers;
	log_identify(job->rank, bootstrap_node(*boot));
	if ((rc = check_servers(job)))
		return rc;
	job->peers = calloc((size_t)job->size, sizeof *job->peers);
	if (!job->peers)
		return fail(SLUICE_ENOMEM, "no memory for %d peers", job->size);
	size_t mails = (size_t)job->size * 2 * (MAIL_HEADER_BYTES + MAIL_BYTES);
	uint8_t payload[CARD_PAYLOAD_BYTES];
	size_t payload_bytes;
	if ((rc = region_open((size_t)job->size * LINE_BYTES, REGION_WRITE, "control", &job->control)) ||
	    (rc = region_open(LINE_MAIL + mails, 0, "outbox", &job->outbox)) ||
	    (rc = open_transports(job)) || (rc = write_payload(job, payload, &payload_bytes)) ||
	    (rc = bootstrap_exchange(*boot, payload, payload_bytes, &job->cards)) ||
	    (rc = check_cards(job)))
		return rc;
	log_line(LOG_INFO, "runtime", "rank %d of %d on %s, %d workers, %d servers, %s", job->rank,
		 job->size, bootstrap_node(*boot), job->workers, job->servers, bootstrap_origin(*boot));
	for (int p = 0; p < job->size && !rc; p++)
		rc = connect_peer(job, p);
	uint64_t now = now_ns();
	for (int p = 0; p < job->size; p++)
		job->peers[p].heard_ns = now;
	if (!rc)
		rc = progress_start(job);
	/* Nobody goes on before all are connected. */
	return rc ? rc : collective_run(job, COLLECTIVE_OPEN, NULL, 0, 0, NULL);
}

static void free_job(sluice_job *job)
{
	progress_stop(job);
	for (int p = 0; job->peers && p < job->size; p++)
		if (job->peers[p].control)
			job->peers[p].endpoint->transport->ops->remote_close(&job->peers[p].control);
	for (int t = 0; t < job->n_transports; t++)
		job->transports[t]->ops->close(&job->transports[t]);
	region_close(&job->control);
	region_close(&job->outbox);
	pthread_mutex_destroy(&job->token);
	free(job->peers);
	free(job->cards);
	free(job);
}

int sluice_init(const sluice_job_attr *attr, sluice_job **job_out)
{
	if (!job_out)
		return fail(SLUICE_EINVAL, "sluice_init: job_out is NULL");
	sluice_job *job = calloc(1, sizeof *job);
	if (!job)
		return fail(SLUICE_ENOMEM, "sluice_init: no memory for the job");
	job->pid = getpid();
	job->epoll_fd = -1;
	job->membership_epoch = 1;
	pthread_mutex_init(&job->token, NULL);
	struct bootstrap *boot = NULL;
	int rc = join(job, attr, &boot);
	bootstrap_close(&boot);
	if (rc) {
		/* Peers that are connected already learn why from our last words. */
		if (!job->failure.code && job->thread_started) {
			progress_take(job);
			peers_announce(job, LINE_GAVE_UP, job->rank, sluice_last_error());
			progress_release(job);
		}
		free_job(job);
		return rc;
	}
	if (log_enabled(LOG_DEBUG, "runtime"))
		env_dump(&job->settings, stderr);
	*job_out = job;
	return 0;
}

void sluice_finalize(sluice_job **job_pointer)
{
	sluice_job *job = job_pointer ? *job_pointer : NULL;
	if (!job)
		return;
	*job_pointer = NULL;
	if (job->pid != getpid()) {
		/* The parent's job goes on; here it only stays reachable for leak checkers. */
		static sluice_job *volatile parents __attribute__((unused));
		parents = job;
		return;
	}
	int open = 0;
	for (int m = 0; m < JOB_MODELS; m++)
		open |= job->models[m] != NULL;
	progress_take(job);
	if (open && !job->failure.code)
		job_fail(job, SLUICE_EINVAL, job->rank, "sluice_finalize with a model still open");
	job->finalizing = !job->failure.code;
	progress_release(job);
	if (job->finalizing && !collective_run(job, COLLECTIVE_FINALIZE, NULL, 0, 0, NULL)) {
		progress_take(job);
		job->said_bye = 1;
		peers_announce(job, LINE_BYE, job->rank, "");
		progress_release(job);
	}
	if (open) /* their regions are still in use by the model: leaked with a warning, not unmapped */
		progress_stop(job);
	else
		free_job(job);
}

int sluice_rank(const sluice_job *job) { return job->rank; }
int sluice_size(const sluice_job *job) { return job->size; }
int sluice_workers(const sluice_job *job) { return job->workers; }
int sluice_is_worker(const sluice_job *job) { return job->rank < job->workers; }

const char *sluice_node(const sluice_job *job, int rank)
{
	return job && job->cards && rank >= 0 && rank < job->size ? job->cards[rank].node : "";
}
