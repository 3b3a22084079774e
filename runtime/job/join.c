/* SPDX-License-Identifier: BSD-3-Clause
 * Joining a job, for sluice_init(): settings, transports, the exchange of records, and the keys of
 * the peers. connect.c then connects the ranks. */
#include "base/arguments.h"
#include "job/connect.h"
#include "job/findings.h"
#include "job/heart.h"
#include "job/hubs.h"
#include "job/join.h"
#include "job/members.h"
#include "job/page.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "job/sim_rank.h"
#include "job/key_file.h"
#include "job/pair_keys.h"
#include "job/reach.h"
#include "job/reporter.h"
#include "job/ways.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "rdma/auth.h"
#include "rdma/huge.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most unprocessed notifies of a peer: one push or notice per shard, and a few messages. */
enum { NOTIFY_QUEUE_DEPTH = 4096 };
/* The limit for a simulated rank, which all its peers share. A writer that finds the queue full
 * yields. */
enum { SIMULATED_QUEUE_DEPTH = 1024, SIMULATED_QUEUE_PER_PEER = 8 };

static int allowed(const struct settings *settings, const char *name)
{
	return env_lists(settings->transport, name) || !strcmp(name, "self");
}

/* Returns 1 if the user has named the transports to use. */
static int transports_named(void)
{
	return env_text("SLUICE_TRANSPORT") != NULL;
}

static struct transport *opened(const sluice_job *job, const struct transport_ops *ops)
{
	return connect_transport(job, ops, 0);
}

/* Opens a transport. If the user named it, a failure is an error. Other transports must open only
 * if they are needed. The reason why one did not open is therefore reported only if a rank cannot
 * be reached without it. */
static int open_transport(sluice_job *job, const struct transport_ops *ops, int card, int peers)
{
	struct transport_config config = {
		.rank = job->rank,
		.size = job->size,
		.queue_depth = NOTIFY_QUEUE_DEPTH,
		.control = lines_region(job),
		.control_line_bytes = LINE_BYTES,
		.device = job->settings.device,
		.gid_index = job->settings.verbs.gid_index,
		.gid_net = job->settings.verbs.gid_net,
		.memory_windows = job->settings.verbs.memory_windows,
		.traffic_class = job->settings.verbs.traffic_class,
		.service_level = job->settings.verbs.service_level,
		.relaxed_ordering = job->settings.verbs.relaxed_ordering,
		.provider = job->settings.provider,
		.interface = job->settings.interface,
		.ports = job->settings.ports,
		.beside = card ? opened(job, ops) : NULL,
		.card = card,
		.peers = peers,
		.expected = hubs_peers(job),
		.neighbours = job->sim_rank ? sim_rank_neighbours(job->sim_rank) : NULL,
		.lost_after_ms = job->settings.patience.lost_after_ms,
		.link_lost_after_ms = (int)(job->budget.link_lost_ns / NS_PER_MS),
	};
	if (job->sim_rank)
		config.queue_depth = SIMULATED_QUEUE_DEPTH +
				     SIMULATED_QUEUE_PER_PEER * (uint32_t)job->size;
	int rc = ops->open(&config, &job->transports.list[job->transports.n]);
	if (!rc) {
		job->transports.list[job->transports.n++]->card = card;
		return 0;
	}
	char why[ERROR_TEXT_BYTES];
	snprintf(why, sizeof why, "%s", sluice_last_error());
	if (card || transports_named() || !strcmp(ops->name, "self") || !strcmp(ops->name, "shm"))
		return fail(rc, "transport %s: %s", ops->name, why);
	size_t used = strlen(job->transports.unopened);
	snprintf(job->transports.unopened + used, sizeof job->transports.unopened - used,
		 " %s: %s;", ops->name, why);
	log_line(LOG_INFO, "runtime", "the transport %s is not available here: %s", ops->name, why);
	return 0;
}

/* Returns NULL, or why this build or this machine lacks what the transport always needs. */
static const char *transport_lacks(const struct transport_ops *ops)
{
	return ops->absent || !ops->admit ? ops->absent : auth_missing();
}

/* Returns 1 if the transport waits to be opened until a pair of ranks needs it. */
static int is_put_off(const sluice_job *job, const struct transport_ops *ops)
{
	return ops->last_resort && !transport_lacks(ops) && !transports_named() &&
	       allowed(&job->settings, ops->name) && !opened(job, ops);
}

/* Handles a transport that is allowed, but that this build or this machine cannot have. */
static int miss_transport(sluice_job *job, const struct transport_ops *ops, const char *why)
{
	const char *where = ops->absent ? "this build" : "this machine";
	const size_t used = strlen(job->transports.unopened);
	if (transports_named())
		return fail(SLUICE_ENOSUPP, "SLUICE_TRANSPORT=%s: %s has no %s transport (%s)",
			    job->settings.transport, where, ops->name, why);
	snprintf(job->transports.unopened + used, sizeof job->transports.unopened - used,
		 " %s: %s has none (%s);", ops->name, where, why);
	return 0;
}

static int open_transports(sluice_job *job)
{
	if (job->sim_rank)
		return open_transport(job, &self_transport, 0, 0);
	for (int i = 0; transports[i]; i++) {
		const struct transport_ops *ops = transports[i];
		if (!allowed(&job->settings, ops->name) || is_put_off(job, ops))
			continue;
		const char *why = transport_lacks(ops);
		int rc = why ? miss_transport(job, ops, why) : open_transport(job, ops, 0, 0);
		if (rc)
			return rc;
	}
	return 0;
}

static const char proof_name[8] = "proof";

/* Returns the settings that all ranks must share, encoded as the first word of the payload. */
static uint32_t terms(const sluice_job *job)
{
	return (uint32_t)job->servers | (uint32_t)job_elastic(job) << 16 |
	       (uint32_t)hubs_wanted(job) << 17;
}

/* Writes the name and length of an entry before its bytes. Returns the length of the whole
 * entry. */
static size_t name_entry(uint8_t *entry, const char *name, size_t bytes)
{
	memset(entry, 0, 8);
	memcpy(entry, name, strnlen(name, 7));
	put_le32(entry + 8, (uint32_t)bytes);
	return 12 + bytes;
}

/* With SLUICE_KEY_FILE, appends an entry that proves the rest of the payload with the key. */
static int add_proof(const sluice_job *job, int first, uint8_t payload[RECORD_PAYLOAD_BYTES],
		     size_t *bytes)
{
	const struct key_context context = { (uint32_t)job->rank, (uint32_t)job->size,
					     (uint32_t)first };
	uint8_t *entry = payload + *bytes;
	if (!job->keys.file)
		return 0;
	if (*bytes + 12 + KEY_PROOF_BYTES > RECORD_PAYLOAD_BYTES)
		return fail(SLUICE_EINVAL,
			    "the addresses of the transports are too long: the record "
			    "has no room left for the proof of the key");
	int rc = key_file_prove(job->keys.file, &context, payload, *bytes, entry + 12);
	*bytes += name_entry(entry, proof_name, KEY_PROOF_BYTES);
	return rc;
}

/* Space for the last three entries: the public key, the addresses in the control network, and the
 * proof with the key file. */
enum { LAST_ENTRIES_BYTES = 384 };

/* Adds an entry to the payload: the name (7 bytes), a number, a length, and the bytes. */
static int add_record_entry(const char *name, int number, const uint8_t *bytes, size_t n,
			    uint8_t payload[RECORD_PAYLOAD_BYTES], size_t *at)
{
	uint8_t *entry = payload + *at;
	if (*at + 12 + n > RECORD_PAYLOAD_BYTES - LAST_ENTRIES_BYTES)
		return fail(SLUICE_EINVAL,
			    "the addresses of the transports are too long for the record of %d "
			    "bytes: let SLUICE_DEVICE allow fewer cards",
			    RECORD_PAYLOAD_BYTES);
	*at += name_entry(entry, name, n);
	entry[7] = (uint8_t)number;
	if (n)
		memcpy(entry + 12, bytes, n);
	return 0;
}

/* Adds this rank's warnings, or logs them if the record has no room. Ends the gathering, because
 * nothing would log a line that is gathered from here on. */
static void add_warnings(const struct log_gathered *found, uint8_t payload[RECORD_PAYLOAD_BYTES],
			 size_t *at)
{
	char text[FINDING_BYTES];
	log_gather(NULL);
	const size_t n = findings_collect(found, text);
	if (n && *at + 12 + n <= RECORD_PAYLOAD_BYTES - LAST_ENTRIES_BYTES)
		add_record_entry(findings_warnings, 0, (const uint8_t *)text, n, payload, at);
	else if (n)
		log_line(LOG_WARN, "runtime", "%s", text);
}

static int add_record_address(struct transport *t, uint8_t payload[RECORD_PAYLOAD_BYTES],
			      size_t *at)
{
	uint8_t record[TRANSPORT_RECORD_BYTES];
	size_t n = 0;
	int rc = t->ops->record(t, record, &n);
	return rc ? rc : add_record_entry(t->ops->name, t->card, record, n, payload, at);
}

/* Writes the record's payload: the terms, then an entry with the address of each transport and
 * card. An entry without an address stands for a transport that is not open yet. The second record
 * also has the result of this rank's trials; `tried` is NULL for the first record. The entries for
 * the public key and the addresses in the control network follow. A rank that cannot take part
 * writes the reason instead. */
static int write_payload(sluice_job *job, const struct ways_tried *tried,
			 const struct log_gathered *found, uint8_t payload[RECORD_PAYLOAD_BYTES],
			 size_t *bytes_out)
{
	const int first = !tried;
	size_t at = 4;
	int rc = 0;
	put_le32(payload, terms(job));
	for (int i = 0; transports[i] && !rc; i++)
		if (!opened(job, transports[i]) && first && is_put_off(job, transports[i]))
			rc = add_record_entry(transports[i]->name, 0, NULL, 0, payload, &at);
	for (int i = 0; i < job->transports.n && !rc; i++)
		rc = add_record_address(job->transports.list[i], payload, &at);
	if (!rc && tried && tried->bytes)
		rc = add_record_entry(reach_trial_name, 0, tried->entry, tried->bytes, payload,
				      &at);
	if (rc)
		return rc;
	add_warnings(found, payload, &at);
	if (job->keys.pairs)
		pair_keys_write(job->keys.pairs, payload, &at);
	if (at + 12 + PROBE_RECORD_BYTES > RECORD_PAYLOAD_BYTES)
		return fail(SLUICE_EINVAL, "the addresses of the transports are too long: the "
					   "record has no room left for the control network's");
	size_t control = 0;
	if ((rc = heart_record(job, payload + at + 12, &control)))
		return rc;
	if (control)
		at += name_entry(payload + at, HEART_ENTRY, control);
	*bytes_out = at;
	return add_proof(job, first, payload, bytes_out);
}

static size_t write_reason(const sluice_job *job, const char *reason,
			   const struct log_gathered *found, uint8_t payload[RECORD_PAYLOAD_BYTES])
{
	size_t at = 4;
	put_le32(payload, terms(job));
	add_record_entry(findings_reason, 0, (const uint8_t *)reason,
			 strnlen(reason, FINDING_BYTES), payload, &at);
	add_warnings(found, payload, &at);
	return at;
}

/* Derives the keys of the peers, and passes them to the transports that use keys to prove who a
 * peer is. */
static int hand_out_keys(sluice_job *job)
{
	const struct peer_keys *keys = NULL;
	char why[ERROR_TEXT_BYTES];
	int rank = 0, rc = 0;
	for (int t = 0; t < job->transports.n && !rc; t++) {
		struct transport *transport = job->transports.list[t];
		if (!transport->ops->admit)
			continue;
		if (!keys)
			rc = pair_keys_agree(job->keys.pairs, job->keys.file, job->records,
					     job->size, job->rank, &rank, &keys);
		if (rc) {
			snprintf(why, sizeof why, "%s", sluice_last_error());
			return fail(rc, "the key shared with %s: %s", rank_text(job, rank), why);
		}
		rc = transport->ops->admit(transport, keys);
	}
	return rc ? rc : heart_admit(job, keys);
}

/* Fails on all ranks if two of them cannot reach each other, because otherwise the ranks that can
 * would wait for those that cannot. A rank that cannot reach a peer names that peer. */
static int check_reachable(const sluice_job *job, const struct reach *reach)
{
	int a, b;
	return reach_cut(reach, job->rank, &a, &b) ? ways_unreachable(job, reach, a, b) : 0;
}

/* Logs the warnings of the transports in use, once per job. */
static void caution(const sluice_job *job, const struct reach *reach)
{
	for (int i = 0; transports[i]; i++) {
		const struct transport *t = opened(job, transports[i]);
		if (t && t->caution && reach_first_user(reach, i) == job->rank)
			log_line(LOG_WARN, "rdma", "%s", t->caution);
	}
}

static int check_servers(sluice_job *job)
{
	if (job->servers < 0 || job->servers >= job->size)
		return fail(SLUICE_EINVAL,
			    "servers=%d, but the job has %d rank%s and at least one must be a "
			    "worker: start more ranks (srun -n) or ask for fewer servers",
			    job->servers, job->size, job->size == 1 ? "" : "s");
	return 0;
}

/* If ranks cannot take part, the reason of the lowest of them ends the job on all ranks at once.
 * Rank 0 has logged it. */
static int check_reasons(sluice_job *job)
{
	for (int r = 0; r < job->size; r++) {
		size_t bytes = 0;
		const uint8_t *reason = record_find(&job->records[r], findings_reason, 0, &bytes);
		char text[FINDING_BYTES + 1];
		if (!reason || bytes > FINDING_BYTES)
			continue;
		memcpy(text, reason, bytes);
		text[bytes] = 0;
		for (size_t i = 0; i < bytes; i++)
			if (text[i] < ' ' || text[i] > '~')
				text[i] = ' ';
		return fail_quietly(SLUICE_EPEER, "%s cannot take part: %s", rank_text(job, r),
				    text);
	}
	return 0;
}

/* Checks the records. Every rank applies the same rules to all records. */
static int check_records(sluice_job *job)
{
	for (int r = 0; r < job->size; r++) {
		const struct rank_record *record = &job->records[r];
		uint32_t theirs = record->payload_bytes < 4 ? 0xffff : get_le32(record->payload);
		if ((theirs ^ terms(job)) == 1u << 17)
			return fail(SLUICE_EPEER,
				    "SLUICE_MESH is below the number of ranks on %s, but not on "
				    "%s: set it to the same value on all ranks",
				    rank_text(job, theirs >> 17 ? r : job->rank),
				    rank_text(job, theirs >> 17 ? job->rank : r));
		if (theirs != terms(job))
			return fail(SLUICE_EPEER,
				    "%s has servers=%d and on_failure=%s, but %s has servers=%d "
				    "and on_failure=%s: give all ranks the same values",
				    rank_text(job, job->rank), job->servers,
				    job->settings.on_failure, rank_text(job, r),
				    (int)(theirs & 0xffff),
				    theirs >> 16 & 1 ? "continue" : "abort");
	}
	return 0;
}

/* Refuses ranks that do not hold the key of this rank's SLUICE_KEY_FILE. */
static int check_proofs(sluice_job *job, int first)
{
	const char *own = job->keys.file ? "a key" : "none";
	for (int r = 0; r < job->size; r++) {
		const struct rank_record *record = &job->records[r];
		const struct key_context context = { (uint32_t)r, (uint32_t)job->size,
						     (uint32_t)first };
		size_t bytes = 0;
		const uint8_t *proof = record_find(record, proof_name, 0, &bytes);
		if (!proof != !job->keys.file)
			return fail(
				SLUICE_EPEER,
				"%s has %s, but %s has %s: set SLUICE_KEY_FILE on all ranks, to "
				"files of the same bytes, or on none",
				rank_text(job, r), proof ? "a key" : "no key",
				rank_text(job, job->rank), own);
		if (proof && (bytes != KEY_PROOF_BYTES ||
			      proof + bytes != record->payload + record->payload_bytes ||
			      !key_file_check(job->keys.file, &context, record->payload,
					      (size_t)(proof - 12 - record->payload), proof)))
			return fail(
				SLUICE_EPEER,
				"%s holds another key than %s, or its record was changed on the "
				"way: set SLUICE_KEY_FILE to the same file on all ranks, and "
				"check who can write to the store of the bootstrap",
				rank_text(job, r), rank_text(job, job->rank));
	}
	return 0;
}

/* Returns 1 if a transport that is open, or may be opened later, needs keys. */
static int needs_keys(const sluice_job *job)
{
	int needed = 0;
	for (int i = 0; transports[i] && !job->sim_rank; i++)
		if (transports[i]->admit)
			needed |= opened(job, transports[i]) || is_put_off(job, transports[i]);
	return needed;
}

/* Opens the transports and sockets that this rank needs for its record, and writes the record's
 * payload. */
static int prepare_record(sluice_job *job, const struct log_gathered *found,
			  uint8_t payload[RECORD_PAYLOAD_BYTES], size_t *payload_bytes)
{
	int rc;
	if ((rc = check_servers(job)) || (rc = members_open(job)))
		return rc;
	if (job->rank == 0)
		budget_print(&job->budget);
	job->peers = calloc((size_t)job->size, sizeof *job->peers);
	if (!job->peers)
		return fail(SLUICE_ENOMEM, "no memory for %d peers", job->size);
	if ((rc = hubs_open(job)) || (rc = messages_open(job)) || (rc = lines_open(job)) ||
	    (!job->sim_rank && (rc = heart_open(job))) || (rc = lines_open_outbox(job)) ||
	    (rc = open_transports(job)) ||
	    (needs_keys(job) && (rc = pair_keys_open(&job->keys.pairs))))
		return rc;
	return write_payload(job, NULL, found, payload, payload_bytes);
}

/* Sends this rank's record to all ranks, and replaces the earlier records by the new ones. A rank
 * that failed with rc also calls this, because the others would otherwise wait for its record until
 * they time out. */
static int exchange_records(sluice_job *job, struct bootstrap *boot, int rc, int first,
			    const struct log_gathered *found, uint8_t payload[RECORD_PAYLOAD_BYTES],
			    size_t bytes)
{
	char reason[ERROR_TEXT_BYTES] = "";
	if (rc) {
		snprintf(reason, sizeof reason, "%s", sluice_last_error());
		blank_controls(reason);
		bytes = write_reason(job, reason, found, payload);
	}
	log_gather(NULL);
	findings_log_errors(found, reason);
	free(job->records);
	job->records = NULL;
	int err = job->sim_rank ? sim_rank_exchange(job->sim_rank, payload, bytes, &job->records) :
				  bootstrap_exchange(boot, payload, bytes, &job->records);
	if (err)
		findings_log_warnings(found);
	else
		findings_log_records(job);
	if (rc) {
		if (err)
			log_line(LOG_ERROR, "runtime", "%s", reason);
		return fail_quietly(rc, "%s", reason);
	}
	if (!err)
		err = check_reasons(job);
	if (!err)
		err = check_proofs(job, first);
	if (!err)
		err = check_records(job);
	return err;
}

/* Opens the cards, other than the first, through which this rank reaches peers. If a card does not
 * open, the rank cannot take part. */
static int open_cards(sluice_job *job, const struct reach *reach)
{
	int peers[NETWORKS_MOST], rc = 0;
	reach_cards(reach, job->rank, peers);
	for (int card = 1; card < NETWORKS_MOST && !rc; card++)
		if (peers[card])
			rc = open_transport(job, transports[reach_networked()], card, peers[card]);
	return rc;
}

/* Opens the last-resort transports that this rank needs. If one does not open, the rank cannot take
 * part. */
static int open_what_is_missing(sluice_job *job, const struct reach *reach)
{
	int rc = 0;
	for (int i = 0; transports[i] && !rc; i++)
		if (reach_wants(reach, job->rank, i))
			rc = open_transport(job, transports[i], 0, 0);
	for (int p = 0; p < job->size && !rc; p++) {
		const int missing = reach_missing(reach, job->rank, p);
		if (missing >= 0 && !opened(job, transports[missing]))
			rc = ways_unreachable(job, reach, job->rank, p);
	}
	return rc;
}

/* Called if some ranks can reach each other only by a last-resort transport. All ranks exchange
 * records again. */
static int meet_again(sluice_job *job, struct bootstrap *boot, struct reach *reach)
{
	uint8_t payload[RECORD_PAYLOAD_BYTES];
	struct log_gathered found = { 0 };
	struct ways_tried tried = { 0 };
	const int networked = reach_networked();
	struct transport *t = networked < 0 ? NULL : opened(job, transports[networked]);
	size_t bytes = 0;
	log_gather(&found);
	int rc = open_what_is_missing(job, reach);
	if (!rc && t)
		rc = open_cards(job, reach);
	if (!rc && t)
		rc = ways_try(job, reach, t, &tried);
	if (!rc)
		rc = write_payload(job, &tried, &found, payload, &bytes);
	rc = exchange_records(job, boot, rc, 0, &found, payload, bytes);
	if (rc)
		return rc;
	reach_fill(reach, job->records);
	return check_reachable(job, reach);
}

/* Determines the transport for each pair of ranks, and sets the keys that prove the ranks'
 * identity. A rank whose settings are wrong (rc) also calls this, to inform the others. found: what
 * it has found so far. */
static int meet_peers(sluice_job *job, struct bootstrap *boot, int rc, struct log_gathered *found)
{
	uint8_t payload[RECORD_PAYLOAD_BYTES];
	size_t bytes = 0;
	int left = 0;
	log_gather(found);
	if (!rc)
		rc = reach_open(job->size, job->sim_rank != NULL, &job->reach);
	struct reach *reach = job->reach;
	if (!rc)
		rc = key_file_open(job->settings.key_file, &job->keys.file);
	if (!rc)
		rc = prepare_record(job, found, payload, &bytes);
	rc = exchange_records(job, boot, rc, 1, found, payload, bytes);
	if (!rc) { /* all ranks have the same records, so they decide alike */
		reach_fill(reach, job->records);
		rc = check_reachable(job, reach);
	}
	if (!rc && reach_is_incomplete(reach))
		rc = meet_again(job, boot, reach);
	if (!job->sim_rank)
		left = bootstrap_leave(boot);
	if (!rc)
		rc = left ? left : hand_out_keys(job);
	key_file_close(&job->keys.file);
	return rc;
}

/* Tests whether the program's version of the attributes includes this field. */
#define ATTR_HAS(attr, field)                                                                      \
	((attr) && (attr)->size >= offsetof(sluice_job_attr, field) + sizeof((attr)->field))

/* Determines rank and size from the program, the launcher, or the simulation of this thread. */
static int find_place(sluice_job *job, const sluice_bootstrap *callbacks, struct bootstrap **boot)
{
	job->sim_rank = sim_rank_of_thread();
	if (job->sim_rank && callbacks)
		return fail(SLUICE_EINVAL, "sluice_init: the attributes name a bootstrap, but "
					   "sluice_simulate() sets the number of a simulated rank");
	if (job->sim_rank)
		return sim_rank_claim(job->sim_rank, &job->rank, &job->size);
	int rc = bootstrap_open(callbacks, job->settings.patience.boot_timeout_ms, boot);
	if (rc)
		return rc;
	job->rank = bootstrap_rank(*boot);
	job->size = bootstrap_size(*boot);
	log_identify(job->rank, bootstrap_node(*boot));
	return 0;
}

static void set_if_given(int *setting, int given)
{
	if (given)
		*setting = given;
}

/* Reads the settings from the environment and the attributes, whose size is valid. */
static int read_settings(sluice_job *job, const sluice_job_attr *attr)
{
	int rc = env_load(&job->settings);
	if (!rc)
		rc = log_configure(job->settings.log);
	if (rc)
		return rc;
	huge_request(job->settings.huge_pages);
	struct settings *s = &job->settings;
	if (attr) {
		set_if_given(&s->servers, attr->servers);
		set_if_given(&s->patience.lost_after_ms, attr->lost_after_ms);
		set_if_given(&s->patience.warn_after_ms, attr->warn_after_ms);
		set_if_given(&s->patience.wait_timeout_ms, attr->wait_timeout_ms);
	}
	if (ATTR_HAS(attr, on_failure) && attr->on_failure) {
		if (attr->on_failure != SLUICE_ABORT && attr->on_failure != SLUICE_CONTINUE)
			return fail(SLUICE_EINVAL,
				    "sluice_init: on_failure=%d is neither SLUICE_ABORT nor "
				    "SLUICE_CONTINUE",
				    attr->on_failure);
		snprintf(s->on_failure, sizeof s->on_failure, "%s",
			 attr->on_failure == SLUICE_CONTINUE ? "continue" : "abort");
	}
	if (s->patience.lost_after_ms < 0 || s->patience.warn_after_ms < 0 ||
	    s->patience.wait_timeout_ms < 0)
		return fail(SLUICE_EINVAL, "sluice_init: a time in the attributes is negative; 0 "
					   "stands for the value of the SLUICE_* variable");
	budget_make(&s->patience, &job->budget);
	return 0;
}

/* The time limit of the exchange for a rank whose settings are wrong. This is the default of
 * SLUICE_BOOT_TIMEOUT. */
enum { BOOT_TIMEOUT_MS = 60000 };

int job_join(sluice_job *job, const sluice_job_attr *attr, struct bootstrap **boot)
{
	struct log_gathered found = { 0 };
	int rc = attr ? argument_size(attr->size, offsetof(sluice_job_attr, on_failure),
				      _Alignof(sluice_job_attr), "sluice_job_attr", "sluice_init") :
			0;
	if (rc)
		return rc;
	log_gather(&found);
	const int wrong = read_settings(job, attr);
	char reason[ERROR_TEXT_BYTES];
	snprintf(reason, sizeof reason, "%s", sluice_last_error());
	log_gather(NULL);
	if (wrong)
		job->settings.patience.boot_timeout_ms = BOOT_TIMEOUT_MS;
	if ((rc = find_place(job, ATTR_HAS(attr, bootstrap) ? attr->bootstrap : NULL, boot))) {
		findings_log(&found);
		return rc;
	}
	job->servers = wrong ? 0 : job->settings.servers;
	job->workers = job->size - job->servers;
	if (wrong)
		fail_quietly(wrong, "%s", reason);
	if ((rc = meet_peers(job, *boot, wrong, &found)))
		return rc;
	log_line(LOG_INFO, "runtime", "rank %d of %d on %s, %d workers, %d servers, %s", job->rank,
		 job->size, sluice_node(job, job->rank), job->workers, job->servers,
		 *boot ? bootstrap_origin(*boot) : "simulated");
	caution(job, job->reach);
	ways_log(job, job->reach);
	if (job->hubs && job->rank == 0)
		log_line(LOG_INFO, "runtime",
			 "%d ranks forward control messages, and other ranks connect with each "
			 "other when they need it (SLUICE_MESH=%d)",
			 hubs_count(job), job->settings.mesh);
	rank_page_open(job);
	rc = connect_all(job);
	if (!rc)
		reporter_open(job);
	return rc;
}
