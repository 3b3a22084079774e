/* SPDX-License-Identifier: BSD-3-Clause
 * The transport between processes of one machine. A peer's regions and its mailbox are memory
 * files, opened through /proc/PID/fd and mapped here. A transfer is a copy. A notify is a word in
 * the peer's mailbox (mailbox.h), and a byte in the peer's pipe if it sleeps (wakeup.h). Posting
 * and polling make system calls only to wake a sleeper, and every few milliseconds to check for
 * ended peers. */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/event_queue.h"
#include "rdma/mailbox.h"
#include "rdma/mapping.h"
#include "rdma/process.h"
#include "rdma/shm_record.h"
#include "rdma/transfer.h"
#include "rdma/transport.h"
#include "rdma/wakeup.h"
#include "sluice.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MIN_DONES = 64, MAX_DONES = 65536, BLIND_TICK_NS = 100000000 };

enum shm_state {
	SHM_ALIVE,
	SHM_ENDED,  /* the process has ended; messages that it sent before are still delivered */
	SHM_BROKEN, /* the peer corrupted the mailbox; its messages are ignored */
	SHM_GONE    /* EVENT_GONE was delivered */
};

struct shm_peer {
	struct endpoint endpoint;
	enum shm_state state;
	int pidfd;              /* watched in state SHM_ALIVE; -1: there is none */
	int wake_fd;            /* the peer's pipe */
	struct mapping mailbox; /* the peer's */
	struct process process;
	/* descriptor of its control region; validated at open */
	uint8_t control[REGION_HEAD_BYTES];
	struct mailbox_writer out; /* this rank's ring in the peer's mailbox */
	struct mailbox_reader in;  /* the peer's ring in this rank's mailbox */
};

struct shm {
	struct transport transport;
	int rank, size;
	struct process process;
	uint32_t capacity; /* capacity of the rings of this rank's mailbox */
	struct region *mailbox;
	const struct region *control; /* the job's control region, which peers find in the record */
	struct wakeup wakeup;
	int blind; /* 1: some peer has no pidfd, so each tick checks whether it has ended */
	uint64_t next_check_ns; /* the time at which to check for ended peers; 0: now */
	unsigned polls;
	struct event_queue dones;
	int n_peers, first; /* first: the peer with which the next poll begins, for fairness */
	/* Memory for `size` peers. The first n_peers entries are in use, in the order of
	 * connection. */
	struct shm_peer **peers;
	struct shm_peer **by_rank; /* [size] */
};

struct shm_remote {
	struct remote remote;
	struct mapping there;
};

static struct shm *shm_of(struct transport *t)
{
	return (struct shm *)(void *)t; /* t is its first member, as in the two functions below */
}

static struct shm_peer *peer_of(struct endpoint *e)
{
	return (struct shm_peer *)(void *)e;
}

static struct shm_remote *shm_remote_of(struct remote *r)
{
	return (struct shm_remote *)(void *)r;
}

static int shm_fail_gone(const struct shm_peer *peer)
{
	return fail_quietly(SLUICE_EPEER, "rank %d (pid %d) is gone", peer->endpoint.peer,
			    (int)peer->process.pid);
}

/* A polling rank asks the kernel this often which peers have ended. The kernel itself wakes a
 * sleeping rank. */
enum {
	DEATH_CHECK_NS = 2000000,
	POLLS_PER_LOOK = 64 /* number of polls between two looks at the
			       clock */
};

/* ---- moving bytes ---------------------------------------------------------- */

/* Returns 1 if the peer's mailbox has room for a word, otherwise SLUICE_E*. */
static int room_for_notify(struct shm_peer *peer)
{
	switch (mailbox_room(&peer->out)) {
	case 0: return SLUICE_EAGAIN;
	case 1: return 1;
	default:
		return fail(SLUICE_EWIRE,
			    "the mailbox of rank %d (pid %d) holds an invalid position",
			    peer->endpoint.peer, (int)peer->process.pid);
	}
}

static void notify_peer(struct shm_peer *peer, uint32_t imm)
{
	mailbox_write(&peer->out, imm);
	if (mailbox_claim_wake(peer->mailbox.base))
		wakeup_write(peer->wake_fd);
}

/* Reports the end of a get, or of a put that requests a report. */
static void done(struct shm *shm, const struct shm_peer *peer, uint64_t cookie)
{
	event_queue_put(&shm->dones, &(struct event){ .kind = EVENT_DONE,
						      .peer = peer->endpoint.peer,
						      .cookie = cookie });
	wakeup_if_armed(&shm->wakeup);
}

/* Prefetches a line before it is written, because a peer reads the line repeatedly. */
static inline void fetch_to_write(const void *line)
{
#if defined(__x86_64__)
	/* __builtin_prefetch() fetches for writing only if the compiler knows the processor. */
	__asm__ volatile("prefetchw (%0)" : : "r"(line));
#else
	__builtin_prefetch(line, 1);
#endif
}

static inline void fetch_what_is_written(const struct shm_peer *peer, const struct transfer *x)
{
	if (x->kind == TRANSFER_PUT_NOTIFY)
		fetch_to_write((const void *)peer->out.at.next);
	/* x is not validated yet, but a prefetch from a wrong address does no harm. */
	if (x->kind != TRANSFER_GET && x->remote)
		fetch_to_write((const void *)((uintptr_t)shm_remote_of(x->remote)->there.base +
					      x->offset));
}

static int shm_post(struct endpoint *e, const struct transfer *x)
{
	struct shm *shm = shm_of(e->transport);
	struct shm_peer *peer = peer_of(e);
	int rc, ends = transfer_ends(x);
	char *there;

	fetch_what_is_written(peer, x);
	if (peer->state == SHM_GONE)
		return shm_fail_gone(peer);
	if (!transfer_right(e, x))
		return transfer_check(e, x);
	if (x->kind == TRANSFER_PUT_NOTIFY && (rc = room_for_notify(peer)) < 0)
		return rc;
	if (ends && event_queue_full(&shm->dones))
		return SLUICE_EAGAIN;
	there = (char *)shm_remote_of(x->remote)->there.base + x->offset;
	if (x->bytes > 0 && x->kind == TRANSFER_GET)
		memcpy(x->local, there, x->bytes);
	else if (x->bytes > 0)
		memcpy(there, x->local, x->bytes);
	transfer_count(e, x);
	if (x->kind == TRANSFER_PUT_NOTIFY)
		notify_peer(peer, x->imm);
	if (ends)
		done(shm, peer, x->cookie);
	return SLUICE_OK;
}

/* ---- events ---------------------------------------------------------------- */

static void unwatch(struct shm *shm, struct shm_peer *peer, enum shm_state state)
{
	if (peer->pidfd >= 0)
		wakeup_unwatch(&shm->wakeup, peer->pidfd);
	peer->state = state;
}

/* Asks the kernel which peers have ended. */
static void check_deaths(struct shm *shm)
{
	int ranks[WAKEUP_BATCH], n, i;

	while ((n = wakeup_ready(&shm->wakeup, ranks)) > 0)
		for (i = 0; i < n; i++)
			unwatch(shm, shm->by_rank[ranks[i]], SHM_ENDED);
	if (!shm->blind)
		return;
	for (i = 0; i < shm->n_peers; i++) {
		struct shm_peer *peer = shm->peers[i];

		if (peer->pidfd < 0 && peer->state == SHM_ALIVE && process_ended(&peer->process))
			unwatch(shm, peer, SHM_ENDED);
	}
}

/* Returns 1 if take_from() would find an event. */
static inline int peer_has_news(const struct shm_peer *peer)
{
	return peer->state == SHM_ALIVE ? mailbox_waiting(&peer->in) : peer->state != SHM_GONE;
}

/* Takes the messages of one peer, and then reports its end. The ring is read again after the
 * process has ended, so that the last messages are not missed. */
static int take_from(struct shm *shm, struct shm_peer *peer, struct event *events, int n)
{
	int taken = 0;

	while (taken < n && peer->state != SHM_GONE) {
		struct event *event = &events[taken];
		uint32_t imm = 0;
		int got = peer->state == SHM_BROKEN ? 0 : mailbox_take(&peer->in, &imm);

		if (got > 0) {
			*event = (struct event){ .kind = EVENT_IMM,
						 .peer = peer->endpoint.peer,
						 .imm = imm };
			taken++;
			continue;
		}
		if (got < 0 && peer->state == SHM_ALIVE)
			unwatch(shm, peer, SHM_BROKEN);
		if (got == 0 && peer->state == SHM_ALIVE)
			break;
		*event = (struct event){
			.kind = EVENT_GONE,
			.peer = peer->endpoint.peer,
			.status = SLUICE_EPEER,
			.text = peer->state == SHM_ENDED ?
					"its process ended" :
					"it wrote an invalid position into this rank's mailbox",
		};
		taken++;
		peer->state = SHM_GONE;
	}
	return taken;
}

static __attribute__((noinline)) void look_for_ended(struct shm *shm)
{
	uint64_t now = now_ns();

	if (now < shm->next_check_ns)
		return;
	check_deaths(shm);
	shm->next_check_ns = now + DEATH_CHECK_NS;
}

/* Usually there is no event. A fast return lets a waiting caller poll again soon. */
static int shm_poll(struct transport *t, struct event *events, int n)
{
	struct shm *shm = shm_of(t);
	int taken = event_queue_take(&shm->dones, events, n), at = shm->first, left;

	if (taken < n && (shm->next_check_ns == 0 || ++shm->polls % POLLS_PER_LOOK == 0))
		look_for_ended(shm);
	/* If the events fill the array, the next poll begins with the peer after the last one
	 * polled. The index wraps by comparison, because % would take as long as fetching a cache
	 * line from another core. */
	for (left = shm->n_peers; left > 0 && taken < n; left--) {
		struct shm_peer *peer = shm->peers[at];

		at = at + 1 < shm->n_peers ? at + 1 : 0;
		if (peer_has_news(peer))
			taken += take_from(shm, peer, events + taken, n - taken);
	}
	if (taken > 0)
		shm->first = at;
	return taken;
}

static int anything_waiting(struct shm *shm)
{
	int i;

	if (!event_queue_empty(&shm->dones))
		return 1;
	for (i = 0; i < shm->n_peers; i++)
		if (peer_has_news(shm->peers[i]))
			return 1;
	return 0;
}

static int shm_arm(struct transport *t)
{
	struct shm *shm = shm_of(t);

	mailbox_sleep(shm->mailbox->base);
	if (anything_waiting(shm)) {
		mailbox_awake(shm->mailbox->base);
		return 1;
	}
	wakeup_arm(&shm->wakeup, shm->blind ? BLIND_TICK_NS : 0);
	return 0;
}

static void shm_disarm(struct transport *t)
{
	struct shm *shm = shm_of(t);

	mailbox_awake(shm->mailbox->base);
	wakeup_disarm(&shm->wakeup);
	shm->next_check_ns = 0; /* this rank may have been woken by the end of a peer */
}

static void shm_cancel(struct transport *t)
{
	struct shm *shm = shm_of(t);

	mailbox_awake(shm->mailbox->base);
	wakeup_cancel(&shm->wakeup);
}

static int shm_fd(struct transport *t)
{
	return wakeup_fd(&shm_of(t)->wakeup);
}

static void shm_wake(struct transport *t)
{
	wakeup_wake(&shm_of(t)->wakeup);
}

static void close_file(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* ---- opening and closing --------------------------------------------------- */

static void peer_free(struct shm_peer *peer)
{
	struct shm *shm = shm_of(peer->endpoint.transport);

	/* Removes the descriptor from the epoll set. Closing alone would leave it there while a
	 * forked child has it open. */
	if (peer->state == SHM_ALIVE)
		unwatch(shm, peer, SHM_GONE);
	if (peer->mailbox.base)
		mapping_close(&peer->mailbox);
	close_file(peer->wake_fd);
	close_file(peer->pidfd);
	free(peer);
}

static void shm_close(struct transport **t)
{
	struct shm *shm;
	int i;

	if (!t || !*t)
		return;
	shm = shm_of(*t);
	for (i = 0; i < shm->n_peers; i++)
		peer_free(shm->peers[i]);
	free(shm->peers);
	free(shm->by_rank);
	event_queue_close(&shm->dones);
	wakeup_close(&shm->wakeup);
	region_close(&shm->mailbox);
	free(shm);
	*t = NULL;
}

/* Returns the room for events of gets. Gets finish at once, so their events wait only until the
 * next poll. */
static uint32_t done_capacity(uint32_t capacity, int size)
{
	uint64_t wanted = (uint64_t)capacity * (uint32_t)size;

	if (wanted < MIN_DONES)
		return MIN_DONES;
	return wanted > MAX_DONES ? MAX_DONES : (uint32_t)wanted;
}

static int shm_open_transport(const struct transport_config *config, struct transport **out)
{
	struct transport *t;
	struct shm *shm;
	int rc;

	if (config->size < 1 || config->size > MAILBOX_MAX_SENDERS || config->rank < 0 ||
	    config->rank >= config->size || mailbox_capacity(config->queue_depth) == 0)
		return fail(SLUICE_EINVAL,
			    "shm: rank %d of %d and a queue of %u transfers are not valid; at most "
			    "%d ranks and a queue of 1 to %d",
			    config->rank, config->size, config->queue_depth, MAILBOX_MAX_SENDERS,
			    MAILBOX_MAX_CAPACITY);
	shm = calloc(1, sizeof(*shm));
	if (!shm)
		return fail(SLUICE_ENOMEM, "shm: no memory for %zu bytes", sizeof(*shm));
	t = &shm->transport;
	t->ops = &shm_transport;
	shm->wakeup = WAKEUP_NONE;
	shm->rank = config->rank;
	shm->size = config->size;
	shm->control = config->control;
	shm->capacity = mailbox_capacity(config->queue_depth);
	shm->peers = calloc((size_t)shm->size, sizeof(struct shm_peer *));
	shm->by_rank = calloc((size_t)shm->size, sizeof(struct shm_peer *));
	if (!shm->peers || !shm->by_rank) {
		rc = fail(SLUICE_ENOMEM, "shm: no memory for a table of %d peers", shm->size);
		goto err_close;
	}
	rc = process_identify(&shm->process);
	if (rc)
		goto err_close;
	rc = event_queue_open(&shm->dones, done_capacity(shm->capacity, shm->size));
	if (rc)
		goto err_close;
	rc = region_open(mailbox_bytes((uint32_t)shm->size, shm->capacity), REGION_WRITE, "mailbox",
			 &shm->mailbox);
	if (rc)
		goto err_close;
	rc = wakeup_open(&shm->wakeup, WAKEUP_PIPE, "shm");
	if (rc)
		goto err_close;
	*out = t;
	return SLUICE_OK;

err_close:
	shm_close(&t);
	return rc;
}

/* ---- meeting peers --------------------------------------------------------- */

static int shm_record_of(struct transport *t, uint8_t *bytes, size_t *len_out)
{
	struct shm *shm = shm_of(t);
	struct shm_record record = {
		.rank = shm->rank,
		.size = shm->size,
		.process = shm->process,
		.capacity = shm->capacity,
		.wake_fd = wakeup_pipe(&shm->wakeup),
	};

	_Static_assert((int)SHM_RECORD_BYTES <= (int)TRANSPORT_RECORD_BYTES,
		       "the record does not fit");
	descriptor_of(shm->mailbox, record.mailbox);
	if (shm->control)
		descriptor_of(shm->control, record.control);
	shm_record_encode(&record, bytes);
	*len_out = SHM_RECORD_BYTES;
	return SLUICE_OK;
}

/* Opens the pipe for reading too, because a process that reads it gets no SIGPIPE when the peer
 * ends. */
static int open_wake_pipe(struct shm_peer *peer, int number)
{
	struct stat st;
	int rc;

	rc = process_open_file(peer->process.pid, peer->endpoint.peer, number, O_RDWR,
			       "wake-up pipe", &peer->wake_fd);
	if (rc)
		return rc;
	if (fstat(peer->wake_fd, &st) < 0 || !S_ISFIFO(st.st_mode))
		return fail(SLUICE_EPEER,
			    "file %d of rank %d (pid %d) is not the wake-up pipe that its record "
			    "promised",
			    number, peer->endpoint.peer, (int)peer->process.pid);
	return SLUICE_OK;
}

static int open_mailbox(struct shm_peer *peer, const struct descriptor *mailbox)
{
	int fd, rc;

	rc = process_open_file(peer->process.pid, peer->endpoint.peer, mailbox->fd, O_RDWR,
			       "mailbox", &fd);
	if (rc)
		return rc;
	rc = mapping_open(fd, peer->endpoint.peer, mailbox, &peer->mailbox);
	close(fd);
	return rc;
}

static int tick_for_peers(struct shm *shm)
{
	int rc = wakeup_open_timer(&shm->wakeup);

	if (!rc && !shm->blind)
		log_line(LOG_WARN, "rdma",
			 "shm: this kernel lacks pidfd_open (Linux 5.3 has it), so this rank "
			 "notices the end of another one up to %d ms late",
			 BLIND_TICK_NS / 1000000);
	shm->blind |= !rc;
	return rc;
}

static int watch_peer(struct shm *shm, struct shm_peer *peer, const struct process *process)
{
	int rc;

	rc = process_watch(process, peer->endpoint.peer, &peer->pidfd);
	if (rc)
		return rc;
	rc = peer->pidfd < 0 ? tick_for_peers(shm) :
			       wakeup_watch(&shm->wakeup, peer->pidfd, peer->endpoint.peer, 0);
	if (rc)
		return rc;
	peer->state = SHM_ALIVE;
	return SLUICE_OK;
}

static int shm_connect(struct transport *t, int rank, const uint8_t *bytes, size_t len,
		       struct endpoint **out)
{
	struct shm *shm = shm_of(t);
	struct descriptor mailbox;
	struct shm_record record;
	struct shm_peer *peer;
	int rc;

	if (rank < 0 || rank >= shm->size || rank == shm->rank || shm->by_rank[rank])
		return fail(SLUICE_EINVAL, "shm: rank %d cannot connect to rank %d of %d%s",
			    shm->rank, rank, shm->size,
			    rank >= 0 && rank < shm->size && rank != shm->rank ?
				    ": it is connected already" :
				    "");
	rc = shm_record_decode(bytes, len, rank, shm->size, &record, &mailbox);
	if (rc)
		return rc;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return fail(SLUICE_ENOMEM, "shm: no memory for %zu bytes", sizeof(*peer));
	peer->endpoint = (struct endpoint){ .transport = t, .peer = rank };
	peer->process = record.process;
	memcpy(peer->control, record.control, sizeof(peer->control));
	peer->pidfd = peer->wake_fd = -1;
	peer->state = SHM_GONE; /* not watched yet */
	/* The pidfd is opened first. If it is not readable at the end, all files that are opened
	 * below belong to this peer. */
	rc = watch_peer(shm, peer, &record.process);
	if (rc)
		goto err_free;
	rc = open_mailbox(peer, &mailbox);
	if (rc)
		goto err_free;
	rc = open_wake_pipe(peer, record.wake_fd);
	if (rc)
		goto err_free;
	mailbox_writer_init(&peer->out,
			    mailbox_ring(peer->mailbox.base, (uint32_t)shm->rank, record.capacity),
			    record.capacity);
	mailbox_reader_init(&peer->in,
			    mailbox_ring(shm->mailbox->base, (uint32_t)rank, shm->capacity),
			    shm->capacity);
	shm->by_rank[rank] = peer;
	shm->peers[shm->n_peers++] = peer;
	log_line(LOG_DEBUG, "rdma", "shm: connected to rank %d, pid %d", rank,
		 (int)peer->process.pid);
	*out = &peer->endpoint;
	return SLUICE_OK;

err_free:
	peer_free(peer);
	return rc;
}

static int shm_describe(struct endpoint *e, const struct region *region,
			uint8_t descriptor[REGION_DESCRIPTOR_BYTES])
{
	if (region->access == 0)
		return fail(SLUICE_EINVAL, "a region for local use cannot be described to rank %d",
			    e->peer);
	memset(descriptor, 0, REGION_DESCRIPTOR_BYTES);
	descriptor_of(region, descriptor);
	return SLUICE_OK;
}

static int shm_remote_open(struct endpoint *e, const uint8_t descriptor[REGION_HEAD_BYTES],
			   struct remote **out)
{
	struct shm_peer *peer = peer_of(e);
	struct shm_remote *remote;
	struct descriptor d;
	int fd, rc;

	if (peer->state == SHM_GONE)
		return shm_fail_gone(peer);
	rc = descriptor_decode(descriptor, e->peer, &d);
	if (rc)
		return rc;
	if (d.pid != peer->process.pid)
		return fail(SLUICE_EWIRE, "rank %d is pid %d, but described a region of pid %d",
			    e->peer, (int)peer->process.pid, (int)d.pid);
	remote = calloc(1, sizeof(*remote));
	if (!remote)
		return fail(SLUICE_ENOMEM, "shm: no memory for %zu bytes", sizeof(*remote));
	remote->remote = (struct remote){ .endpoint = e, .bytes = d.bytes, .access = d.access };
	rc = process_open_file(d.pid, e->peer, d.fd, d.access & REGION_WRITE ? O_RDWR : O_RDONLY,
			       "region", &fd);
	if (rc)
		goto err_free;
	rc = mapping_open(fd, e->peer, &d, &remote->there);
	close(fd);
	if (rc)
		goto err_free;
	*out = &remote->remote;
	return SLUICE_OK;

err_free:
	free(remote);
	return rc;
}

static int shm_control(struct endpoint *e, struct remote **out)
{
	return shm_remote_open(e, peer_of(e)->control, out);
}

static void shm_remote_close(struct remote **r)
{
	struct shm_remote *remote;

	if (!r || !*r)
		return;
	remote = shm_remote_of(*r);
	mapping_close(&remote->there);
	free(remote);
	*r = NULL;
}

static void *shm_address(struct remote *remote)
{
	return remote->access & REGION_WRITE ? shm_remote_of(remote)->there.base : NULL;
}

static const void *shm_readable(struct remote *remote)
{
	return remote->access & REGION_READ ? shm_remote_of(remote)->there.base : NULL;
}

const struct transport_ops shm_transport = {
	.name = "shm",
	.farthest = DISTANCE_KERNEL,
	.open = shm_open_transport,
	.close = shm_close,
	.record = shm_record_of,
	.connect = shm_connect,
	.control = shm_control,
	.describe = shm_describe,
	.remote_open = shm_remote_open,
	.remote_close = shm_remote_close,
	.post = shm_post,
	.poll = shm_poll,
	.sleep.arm = shm_arm,
	.sleep.disarm = shm_disarm,
	.sleep.cancel = shm_cancel,
	.sleep.fd = shm_fd,
	.sleep.wake = shm_wake,
	.address = shm_address,
	.readable = shm_readable,
	.copies_at_post = 1,
};
