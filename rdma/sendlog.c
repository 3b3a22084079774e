/* SPDX-License-Identifier: BSD-3-Clause
 * See sendlog.h. The log counts the entries of the send queue itself, because some devices do not
 * notice when it is full. */
#include "rdma/sendlog.h"
#include "base/clock.h"
#include "base/error.h"
#include "rdma/stream.h"
#include "rdma/transfer.h"
#include "sluice.h"
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PIECES = 256, CHAIN_MOST = 16 };

struct sent {
	uint64_t remote_address, bytes;
	uint64_t posted;  /* number of bytes in posted work requests */
	uint64_t done;    /* bytes of large pieces that have ended, which are never posted again */
	uint64_t last_wr; /* number of its last work request, once all are posted */
	uint64_t notify;  /* its number among the notifies to this peer; 0: it has none */
	uint64_t cookie;
	const uint8_t *local;
	uint32_t lkey, rkey, imm;
	uint32_t region, window; /* the region's number at the peer, in case its keys change */
	uint8_t kind, report;
	uint8_t part;     /* 1: more entries of the same transfer follow */
	uint8_t copied;   /* 1: `local` points into the log's memory */
	uint8_t started;  /* 1: at least one work request was posted */
	uint8_t in_place; /* 1: a new connection has shown that the peer has it, so it is not
			     posted again */
};

/* A work request in the queue pair. */
struct request {
	uint64_t entry;    /* for a large piece: the number of its entry in the log */
	uint64_t since_ns; /* when the large piece was posted */
	uint32_t large;    /* bytes of a large piece, otherwise 0 */
};

struct sendlog {
	int peer;
	struct queue_sizes sizes;
	struct event_queue *events;
	void (*broken)(void *owner, const char *why);
	void *owner;

	/* The log has entries [first, end). Those before next are in the queue pair. */
	struct sent *sent;
	uint64_t first, next, end;
	/* The last entries, which are posted only by sendlog_post(), and how many of them are
	 * READs. */
	uint32_t later, later_reads;
	uint8_t *memory; /* TRANSFER_INLINE_BYTES for each entry, then a slot's bytes */
	uint32_t lkey;

	struct ibv_qp *qp;
	int running;                             /* 1: transfers may be posted on qp */
	uint64_t wr_sent, wr_done, wr_signalled; /* numbers of work requests of qp */
	uint32_t reads, reads_max;
	struct request *requests; /* [number modulo the number of entries]: the requests of qp */
	/* Requests that have a number and are posted together by one call. */
	struct chained {
		struct ibv_send_wr wr;
		struct ibv_sge sge;
	} chain[CHAIN_MOST];
	int chaining;
	uint32_t chained;
	/* A heartbeat and the next notify have to wait for the pieces in the queue pair. This wait
	 * is longer than the progress thread dozes (runtime/job/progress.c), so the link stays busy
	 * while no thread polls. */
	struct stream_limits limits;
	struct stream large[2]; /* [0]: pieces of puts, [1]: of gets */
	uint64_t pieces;        /* number of large pieces that have ended */
	enum { NO_FLUSH, FLUSH_WAITS, FLUSH_POSTED } flush;

	const uint8_t *slot;
	struct notices {
		struct slot_address to;
		uint64_t sent, done;      /* number of notifies that were sent; of those whose
					     entry has left the log */
		uint64_t credit;          /* number of sent notifies that the peer has reported
					     as taken */
		uint64_t taken, reported; /* number of notifies taken here; number last reported
					     to the peer */
	} notices;
};

static struct sent *sent_at(const struct sendlog *log, uint64_t n)
{
	return &log->sent[n & (log->sizes.log_entries - 1)];
}

static struct request *request_at(const struct sendlog *log, uint64_t wr)
{
	return &log->requests[wr & (log->sizes.log_entries - 1)];
}

/* Returns 1 if the transfer needs an EVENT_DONE. */
static int reports(const struct sent *s)
{
	return !s->part && (s->kind == TRANSFER_GET || s->report);
}

/* ---- posting ---------------------------------------------------------------------- */

/* Unsignalled work requests save completions, but only completions free the queue. One request per
 * quarter of the queue is therefore signalled. */
static int time_to_signal(const struct sendlog *log)
{
	return log->wr_sent + 1 - log->wr_signalled >= log->sizes.log_entries / 4;
}

static void report_broken(struct sendlog *log, int err)
{
	char why[120];

	snprintf(why, sizeof(why), "posting to it failed: %s", errno_text(err));
	log->broken(log->owner, why);
}

/* Posts the chain with one doorbell. If the card refuses a request, the connection breaks, and all
 * requests of the chain are posted again on the next connection. */
static void post_chain(struct sendlog *log)
{
	struct ibv_send_wr *bad;
	int err;

	for (uint32_t i = 0; i + 1 < log->chained; i++)
		log->chain[i].wr.next = &log->chain[i + 1].wr;
	err = log->chained && log->qp ? ibv_post_send(log->qp, &log->chain[0].wr, &bad) : 0;
	log->chained = 0;
	if (err)
		report_broken(log, err);
}

static void add_to_chain(struct sendlog *log, const struct ibv_send_wr *wr)
{
	struct chained *at = &log->chain[log->chained++];

	at->wr = *wr;
	if (wr->num_sge > 0) {
		at->sge = wr->sg_list[0];
		at->wr.sg_list = &at->sge;
	}
	if (log->chained == CHAIN_MOST)
		post_chain(log);
}

/* Posts a request. Returns the same as sendlog_request(). */
static int post_wr(struct sendlog *log, struct ibv_send_wr *wr, int signalled, int *refused_out)
{
	struct ibv_send_wr *bad;
	int err;

	if (!log->qp)
		return fail_quietly(SLUICE_EPEER, "the connection to rank %d is broken", log->peer);
	if (log->wr_sent - log->wr_done >= log->sizes.log_entries)
		return SLUICE_EAGAIN;
	signalled = signalled || time_to_signal(log);
	wr->wr_id = log->wr_sent + 1;
	if (signalled)
		wr->send_flags |= IBV_SEND_SIGNALED;
	if (log->chaining)
		add_to_chain(log, wr);
	err = log->chaining ? 0 : ibv_post_send(log->qp, wr, &bad);
	if (err == ENOMEM)
		return SLUICE_EAGAIN;
	if (err) {
		*refused_out = err;
		return SLUICE_EDEVICE;
	}
	request_at(log, ++log->wr_sent)->large = 0;
	if (signalled)
		log->wr_signalled = log->wr_sent;
	return SLUICE_OK;
}

static int post_one(struct sendlog *log, struct ibv_send_wr *wr, int signalled)
{
	int err, rc = post_wr(log, wr, signalled, &err);

	if (rc != SLUICE_EDEVICE)
		return rc;
	report_broken(log, err);
	return fail_quietly(SLUICE_EPEER, "rank %d: posting to it failed: %s", log->peer,
			    errno_text(err));
}

/* Posts the next work request of one entry. Returns SLUICE_EAGAIN if it must wait. */
static int post_piece(struct sendlog *log, struct sent *s)
{
	const uint64_t left = s->bytes - s->posted;
	const uint32_t n = (uint32_t)(left < log->limits.piece_bytes ? left :
								       log->limits.piece_bytes);
	const int last = n == left, large = n > STREAM_SMALL_BYTES;
	struct stream *stream = &log->large[s->kind == TRANSFER_GET];
	int rc;
	struct ibv_sge sge = { .addr = (uintptr_t)s->local + s->posted,
			       .length = n,
			       .lkey = s->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = n > 0,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = s->remote_address + s->posted, .rkey = s->rkey },
	};

	if (large && stream_is_full(stream))
		return SLUICE_EAGAIN;
	if (s->kind == TRANSFER_GET) {
		wr.opcode = IBV_WR_RDMA_READ;
	} else {
		if (s->notify && last) {
			wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
			wr.imm_data = htobe32(s->imm);
		}
		if (s->copied && s->bytes <= log->sizes.inline_bytes)
			wr.send_flags = IBV_SEND_INLINE;
	}
	/* Each READ is signalled, because the next one may wait for it. */
	rc = post_one(log, &wr, large || (last && (s->kind == TRANSFER_GET || reports(s))));
	if (rc)
		return rc;
	if (large) {
		*request_at(log, log->wr_sent) = (struct request){ .entry = log->next,
								   .since_ns = now_ns(),
								   .large = n };
		stream_post(stream);
	}
	s->posted += n;
	s->started = 1;
	if (last)
		s->last_wr = log->wr_sent;
	return SLUICE_OK;
}

/* Chains entries as long as there is room. */
static void chain_entries(struct sendlog *log)
{
	while (log->next < log->end) {
		struct sent *s = sent_at(log, log->next);

		if (s->in_place) {
			s->last_wr = log->wr_sent;
			log->next++;
			continue;
		}
		if (s->kind == TRANSFER_GET && !s->started) {
			if (log->reads >= log->reads_max)
				return; /* this is part of a replay; new transfers were checked
					   before */
			log->reads++;
			s->started = 1;
		}
		if (post_piece(log, s)) {
			if (s->kind == TRANSFER_GET && !s->posted) {
				log->reads--;
				s->started = 0;
			}
			return;
		}
		log->next += s->posted == s->bytes;
	}
}

static void post_entries(struct sendlog *log)
{
	log->later = log->later_reads = 0;
	log->chaining = 1;
	chain_entries(log);
	log->chaining = 0;
	post_chain(log);
}

int sendlog_request(struct sendlog *log, struct ibv_send_wr *wr, int *refused_out)
{
	return post_wr(log, wr, 0, refused_out);
}

static int write_slot(struct sendlog *log, enum ibv_wr_opcode opcode, uint32_t imm, size_t at,
		      const void *bytes, size_t n, int signalled)
{
	uint8_t *scratch = log->memory + (size_t)log->sizes.log_entries * TRANSFER_INLINE_BYTES +
			   at;
	struct ibv_sge sge = { .addr = (uintptr_t)scratch,
			       .length = (uint32_t)n,
			       .lkey = log->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = n > 0,
		.opcode = opcode,
		.imm_data = htobe32(imm),
		.send_flags = n <= log->sizes.inline_bytes ? IBV_SEND_INLINE : 0,
		.wr.rdma = { .remote_addr = log->notices.to.address + at,
			     .rkey = log->notices.to.rkey },
	};

	if (n > 0)
		memcpy(scratch, bytes, n);
	return post_one(log, &wr, signalled);
}

int sendlog_write_slot(struct sendlog *log, size_t at, const void *bytes, size_t n)
{
	return write_slot(log, IBV_WR_RDMA_WRITE, 0, at, bytes, n, 0);
}

int sendlog_greet(struct sendlog *log, enum greeting greeting, const void *bytes, size_t n)
{
	return write_slot(log, IBV_WR_RDMA_WRITE_WITH_IMM, greeting, SLOT_GREETING, bytes, n, 1);
}

/* ---- transfers -------------------------------------------------------------------- */

/* Returns the number of notifies that the peer has taken. The peer writes that word, so its value
 * is bounded. */
static uint64_t credit(struct sendlog *log)
{
	const uint64_t *word = (const uint64_t *)(const void *)(log->slot + SLOT_CREDIT);
	const uint64_t taken = le64toh(__atomic_load_n(word, __ATOMIC_ACQUIRE));

	if (taken > log->notices.credit && taken <= log->notices.sent)
		log->notices.credit = taken;
	return log->notices.credit;
}

/* A notify without bytes may point to the end of the region, where no window begins. */
static uint32_t window_at(const struct sendlog_target *target, uint64_t offset)
{
	const uint64_t at = target->window ? offset / target->window : 0;

	return (uint32_t)(at < target->keys ? at : target->keys - 1);
}

uint64_t sendlog_entries(const struct transfer *x, const struct sendlog_target *target)
{
	const uint64_t last = x->bytes ? x->offset + x->bytes - 1 : x->offset;

	return window_at(target, last) - window_at(target, x->offset) + 1;
}

int sendlog_room(struct sendlog *log, const struct transfer *x, uint64_t entries)
{
	if (log->end - log->first + entries > log->sizes.log_entries)
		return 0;
	if (x->kind == TRANSFER_GET)
		return log->reads + log->later_reads < log->reads_max &&
		       log->next + log->later == log->end && log->running;
	if (x->kind == TRANSFER_PUT_NOTIFY &&
	    log->notices.sent - log->notices.credit >= log->notices.to.credits)
		return log->notices.sent - credit(log) < log->notices.to.credits;
	return 1;
}

int sendlog_copies(const struct transfer *x)
{
	return x->kind != TRANSFER_GET && x->bytes <= TRANSFER_INLINE_BYTES &&
	       !(x->local_region && x->local_region->device);
}

/* Appends bytes [from, from + n) of x, which lie in one window. */
static void append_entry(struct sendlog *log, const struct transfer *x, uint32_t lkey,
			 const struct sendlog_target *target, uint64_t from, uint64_t n)
{
	struct sent *s = sent_at(log, log->end);
	const uint32_t window = window_at(target, x->offset + from);
	const int last = from + n == x->bytes;

	*s = (struct sent){
		.remote_address = target->address + x->offset + from,
		.bytes = n,
		.notify = last && x->kind == TRANSFER_PUT_NOTIFY ? ++log->notices.sent : 0,
		.cookie = x->cookie,
		.local = x->bytes ? (const uint8_t *)x->local + from : x->local,
		.lkey = lkey,
		.rkey = target->rkey[window],
		.region = target->id,
		.window = window,
		.imm = x->imm,
		.kind = (uint8_t)x->kind,
		.report = x->report != 0,
		.part = (uint8_t)!last,
		.copied = (uint8_t)sendlog_copies(x),
	};
	if (s->copied && n > 0) {
		uint8_t *own = log->memory +
			       (log->end & (log->sizes.log_entries - 1)) * TRANSFER_INLINE_BYTES;

		memcpy(own, s->local, n);
		s->local = own;
		s->lkey = log->lkey;
	}
	log->end++;
}

void sendlog_append(struct sendlog *log, const struct transfer *x, uint32_t lkey,
		    const struct sendlog_target *target, int later)
{
	const int at_once = log->running && log->next + log->later == log->end;
	const uint64_t begin = log->end;
	uint64_t from = 0;

	do {
		uint64_t n = x->bytes - from;

		if (target->window && n > target->window - (x->offset + from) % target->window)
			n = target->window - (x->offset + from) % target->window;
		append_entry(log, x, lkey, target, from, n);
		from += n;
	} while (from < x->bytes);
	if (!at_once)
		return; /* earlier entries wait for room or for the connection */
	if (!later || (x->kind == TRANSFER_GET && x->bytes > STREAM_SMALL_BYTES)) {
		post_entries(log);
		return;
	}
	log->later += (uint32_t)(log->end - begin);
	if (x->kind == TRANSFER_GET)
		log->later_reads += (uint32_t)(log->end - begin);
}

void sendlog_post(struct sendlog *log)
{
	if (log->running && log->next < log->end)
		post_entries(log);
}

/* ---- what completes --------------------------------------------------------------- */

/* A large piece that has ended is never posted again. A transfer of any length therefore completes,
 * even over a connection that breaks repeatedly. */
static void end_piece(struct sendlog *log, const struct request *r)
{
	struct sent *s = sent_at(log, r->entry);
	const uint64_t now = now_ns();

	s->done += r->large;
	log->pieces++;
	stream_end(&log->large[s->kind == TRANSFER_GET], r->large, now - r->since_ns, now);
}

static void post_flush(struct sendlog *log)
{
	if (log->flush == FLUSH_WAITS && log->next == log->end &&
	    !write_slot(log, IBV_WR_RDMA_WRITE, 0, SLOT_CREDIT, NULL, 0, 1))
		log->flush = FLUSH_POSTED;
}

void sendlog_completed(struct sendlog *log, uint64_t wr)
{
	while (log->wr_done < wr)
		if (request_at(log, ++log->wr_done)->large)
			end_piece(log, request_at(log, log->wr_done));
	for (; log->first < log->next; log->first++) {
		const struct sent *s = sent_at(log, log->first);

		if (s->last_wr > log->wr_done)
			break;
		if (s->kind == TRANSFER_GET)
			log->reads--;
		if (s->notify)
			log->notices.done = s->notify;
		if (reports(s))
			event_queue_put(log->events, &(struct event){ .kind = EVENT_DONE,
								      .peer = log->peer,
								      .cookie = s->cookie });
	}
	if (log->next < log->end && log->running)
		post_entries(log);
	post_flush(log);
}

int sendlog_received(struct sendlog *log, uint32_t imm)
{
	log->notices.taken++;
	event_queue_put(log->events,
			&(struct event){ .kind = EVENT_IMM, .peer = log->peer, .imm = imm });
	return sendlog_credit_due(log);
}

int sendlog_credit_due(const struct sendlog *log)
{
	return log->notices.taken - log->notices.reported >= log->sizes.credits / 2;
}

int sendlog_give_credit(struct sendlog *log)
{
	const uint64_t word = htole64(log->notices.taken);
	int rc = sendlog_write_slot(log, SLOT_CREDIT, &word, sizeof(word));

	if (!rc)
		log->notices.reported = log->notices.taken;
	return rc;
}

/* ---- the life of a connection ----------------------------------------------------- */

void sendlog_attach(struct sendlog *log, struct ibv_qp *qp)
{
	log->qp = qp;
	log->wr_sent = log->wr_done = log->wr_signalled = 0;
	stream_break(&log->large[0]);
	stream_break(&log->large[1]);
}

void sendlog_detach(struct sendlog *log)
{
	log->qp = NULL;
	log->running = 0;
}

uint64_t sendlog_report_received(struct sendlog *log)
{
	log->notices.reported = log->notices.taken;
	return log->notices.taken;
}

/* Bytes arrive in order. Everything that was posted before a notify which the peer has received is
 * therefore in place, except gets. */
static void rewind_entries(struct sendlog *log, uint64_t received)
{
	uint64_t known = log->first;

	for (uint64_t n = log->first; n < log->end; n++)
		if (sent_at(log, n)->notify && sent_at(log, n)->notify <= received)
			known = n + 1;
	for (uint64_t n = log->first; n < log->end; n++) {
		struct sent *s = sent_at(log, n);

		s->posted = s->done;
		s->last_wr = 0;
		s->started = 0;
		s->in_place |= n < known && s->kind != TRANSFER_GET;
	}
	log->next = log->first;
	log->reads = 0;
}

int sendlog_replay(struct sendlog *log, uint64_t received, char why[200])
{
	if (received < log->notices.done || received > log->notices.sent) {
		snprintf(why, 200,
			 "it reports %llu received notifies, which is not within %llu to %llu",
			 (unsigned long long)received, (unsigned long long)log->notices.done,
			 (unsigned long long)log->notices.sent);
		return -1;
	}
	rewind_entries(log, received);
	if (received > log->notices.credit)
		log->notices.credit = received;
	return 0;
}

int sendlog_peer_slot(struct sendlog *log, const struct slot_address *slot)
{
	if (!slot->credits || slot->address + SLOT_BYTES < slot->address)
		return -1;
	log->notices.to = *slot;
	return 0;
}

void sendlog_renew_keys(struct sendlog *log,
			int (*key_of)(const void *table, uint32_t id, uint32_t window,
				      uint32_t *rkey),
			const void *table)
{
	for (uint64_t n = log->first; n < log->end; n++) {
		struct sent *s = sent_at(log, n);

		/* This may find no key: a region that its owner has closed is not used. */
		key_of(table, s->region, s->window, &s->rkey);
	}
}

void sendlog_start(struct sendlog *log, uint32_t reads)
{
	log->reads_max = reads;
	log->running = 1;
	post_entries(log);
	sendlog_completed(log, 0); /* ends the entries that are in place */
}

void sendlog_abandon(struct sendlog *log)
{
	log->running = 0;
	for (; log->first < log->end; log->first++) {
		const struct sent *s = sent_at(log, log->first);

		if (reports(s) && !event_queue_full(log->events))
			event_queue_put(log->events, &(struct event){ .kind = EVENT_DONE,
								      .peer = log->peer,
								      .cookie = s->cookie,
								      .status = SLUICE_EPEER });
	}
	log->next = log->first;
}

/* ---- questions -------------------------------------------------------------------- */

uint64_t sendlog_moved(const struct sendlog *log)
{
	return log->first + log->notices.taken + log->pieces;
}

uint64_t sendlog_waiting(const struct sendlog *log)
{
	return log->end - log->first;
}

void sendlog_flush(struct sendlog *log)
{
	log->flush = FLUSH_WAITS;
	post_flush(log);
}

int sendlog_flushed(const struct sendlog *log)
{
	return !log->qp || (log->flush == FLUSH_POSTED && log->wr_done >= log->wr_signalled);
}

/* ---- opening and closing ---------------------------------------------------------- */

size_t sendlog_memory(const struct queue_sizes *sizes)
{
	return (size_t)sizes->log_entries * TRANSFER_INLINE_BYTES + SLOT_BYTES;
}

/* Large pieces leave half of the queue pair to other requests. */
static struct stream_limits limits_of(const struct queue_sizes *sizes)
{
	const int most = (int)sizes->log_entries / 2;
	struct stream_limits limits = { .piece_bytes = 1 << 20,
					.begin = 4,
					.least = 2,
					.most = most < MOST_PIECES ? most : MOST_PIECES,
					.wait_ns = 20000000 };

	if (limits.piece_bytes > sizes->max_message)
		limits.piece_bytes = sizes->max_message;
	limits.begin_bytes = limits.least_bytes = limits.piece_bytes; /* so no piece is long */
	return limits;
}

int sendlog_open(const struct sendlog_config *config, struct sendlog **out)
{
	struct sendlog *log = calloc(1, sizeof(*log));

	if (!log)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*log));
	*log = (struct sendlog){ .peer = config->peer,
				 .sizes = *config->sizes,
				 .events = config->events,
				 .memory = config->memory,
				 .lkey = config->lkey,
				 .slot = config->slot };
	log->limits = limits_of(config->sizes);
	log->large[0] = log->large[1] = stream_new(&log->limits);
	log->sent = calloc(log->sizes.log_entries, sizeof(*log->sent));
	log->requests = calloc(log->sizes.log_entries, sizeof(*log->requests));
	if (!log->sent || !log->requests) {
		sendlog_close(&log);
		return fail(SLUICE_ENOMEM, "verbs: no memory for a log of %u transfers",
			    config->sizes->log_entries);
	}
	*out = log;
	return SLUICE_OK;
}

void sendlog_watch(struct sendlog *log, void (*broken)(void *owner, const char *why), void *owner)
{
	log->broken = broken;
	log->owner = owner;
}

void sendlog_close(struct sendlog **log)
{
	if (!*log)
		return;
	free((*log)->sent);
	free((*log)->requests);
	free(*log);
	*log = NULL;
}
