/* SPDX-License-Identifier: BSD-3-Clause
 * The transport between processes of one machine. A peer's regions and its mailbox are memory files
 * opened through /proc/PID/fd and mapped here; a transfer is a copy, a notification is a word in
 * the peer's mailbox (mailbox.h), and a byte in the peer's pipe if it sleeps. One epoll instance
 * holds the own pipe and a pidfd per peer, so that a message, wake() and a peer's death all end a
 * sleep. This half opens, connects and closes; shm_move.c does the rest. */
#include "rdma/shm.h"
#include "base/log.h"
#include "rdma/mapping.h"
#include "rdma/shm_card.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { MIN_DONES = 64, MAX_DONES = 65536 };

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* ---- opening and closing --------------------------------------------------- */

static void peer_free(struct shm_peer *peer)
{
	struct shm *shm = shm_of(peer->endpoint.transport);

	/* By name: closing alone would leave it in the set while a forked child holds it. */
	if (peer->state == PEER_ALIVE && peer->pidfd >= 0)
		epoll_ctl(shm->epoll, EPOLL_CTL_DEL, peer->pidfd, NULL);
	if (peer->mailbox)
		mapping_close(peer->mailbox, peer->mailbox_bytes);
	close_fd(peer->wake_fd);
	close_fd(peer->pidfd);
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
	close_fd(shm->epoll);
	close_fd(shm->ticker);
	close_fd(shm->pipe_read);
	close_fd(shm->pipe_write);
	region_close(&shm->mailbox);
	free(shm);
	*t = NULL;
}

/* Gets finish at once and wait in a queue only until the next poll. */
static uint32_t done_capacity(uint32_t capacity, int size)
{
	uint64_t wanted = (uint64_t)capacity * (uint32_t)size;

	if (wanted < MIN_DONES)
		return MIN_DONES;
	return wanted > MAX_DONES ? MAX_DONES : (uint32_t)wanted;
}

static int open_descriptors(struct shm *shm)
{
	struct epoll_event wake = { .events = EPOLLIN, .data.u32 = SHM_WAKE_TAG };
	const char *call = "pipe2";
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		goto failed;
	shm->pipe_read = ends[0];
	shm->pipe_write = ends[1];
	call = "epoll_create1";
	shm->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (shm->epoll < 0)
		goto failed;
	call = "epoll_ctl";
	if (epoll_ctl(shm->epoll, EPOLL_CTL_ADD, shm->pipe_read, &wake) < 0)
		goto failed;
	return SLUICE_OK;

failed:
	if (errno == EMFILE || errno == ENFILE)
		return fail(SLUICE_ENOMEM, "shm: %s: %s; raise the limit on open files (ulimit -n)",
			    call, errno_text(errno));
	return fail(SLUICE_EDEVICE, "shm: %s: %s", call, errno_text(errno));
}

static int shm_open_transport(const struct transport_config *config, struct transport **out)
{
	struct transport *t;
	struct shm *shm;
	int rc;

	if (config->size < 1 || config->size > MAILBOX_MAX_SENDERS || config->rank < 0 ||
	    config->rank >= config->size || mailbox_capacity(config->queue_depth) == 0)
		return fail(SLUICE_EINVAL,
			    "shm: rank %d of %d with a queue of %u is not possible; at most %d "
			    "ranks and a queue of 1 to %d",
			    config->rank, config->size, config->queue_depth, MAILBOX_MAX_SENDERS,
			    MAILBOX_MAX_CAPACITY);
	shm = calloc(1, sizeof(*shm));
	if (!shm)
		return fail(SLUICE_ENOMEM, "shm: no memory for %zu bytes", sizeof(*shm));
	t = &shm->transport;
	t->ops = &shm_transport;
	shm->rank = config->rank;
	shm->size = config->size;
	shm->control = config->control;
	shm->capacity = mailbox_capacity(config->queue_depth);
	shm->pipe_read = shm->pipe_write = shm->epoll = shm->ticker = -1;
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
	rc = open_descriptors(shm);
	if (rc)
		goto err_close;
	*out = t;
	return SLUICE_OK;

err_close:
	shm_close(&t);
	return rc;
}

/* ---- meeting peers --------------------------------------------------------- */

static int shm_card_of(struct transport *t, uint8_t *bytes, size_t *len_out)
{
	struct shm *shm = shm_of(t);
	struct shm_card card = {
		.rank = shm->rank,
		.size = shm->size,
		.process = shm->process,
		.capacity = shm->capacity,
		.wake_fd = shm->pipe_write,
	};

	_Static_assert((int)SHM_CARD_BYTES <= (int)TRANSPORT_CARD_BYTES, "the card does not fit");
	descriptor_of(shm->mailbox, card.mailbox);
	if (shm->control)
		descriptor_of(shm->control, card.control);
	shm_card_encode(&card, bytes);
	*len_out = SHM_CARD_BYTES;
	return SLUICE_OK;
}

static int shm_reaches(struct transport *t, int peer, int boot_id_same, const char **why)
{
	if (peer == shm_of(t)->rank) {
		*why = "shm does not reach the own rank, self does";
		return 0;
	}
	if (!boot_id_same) {
		*why = "shm reaches ranks on the same machine only";
		return 0;
	}
	return 1;
}

/* Reading and writing: as a reader of the pipe this process gets no SIGPIPE when the peer ends. */
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
			    "file %d of rank %d (pid %d) is not the wake-up pipe its card promised",
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
	if (!rc)
		peer->mailbox_bytes = mailbox->bytes;
	return rc;
}

/* For peers that have no pidfd. Its ticks come while a caller sleeps: shm_arm() starts it. */
static int open_ticker(struct shm *shm)
{
	struct epoll_event tick = { .events = EPOLLIN, .data.u32 = SHM_WAKE_TAG };

	if (shm->ticker >= 0)
		return SLUICE_OK;
	shm->ticker = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (shm->ticker < 0 || epoll_ctl(shm->epoll, EPOLL_CTL_ADD, shm->ticker, &tick) < 0) {
		int err = errno;

		close_fd(shm->ticker);
		shm->ticker = -1;
		return fail(err == EMFILE || err == ENFILE ? SLUICE_ENOMEM : SLUICE_EDEVICE,
			    "shm: timer: %s", errno_text(err));
	}
	log_line(LOG_WARN, "rdma",
		 "shm: no pidfd_open (Linux 5.3) here: that a rank ended is noticed up to %d ms "
		 "late",
		 SHM_TICK_MS);
	return SLUICE_OK;
}

static int watch_peer(struct shm *shm, struct shm_peer *peer, const struct process *process)
{
	struct epoll_event death = { .events = EPOLLIN, .data.u32 = (uint32_t)peer->endpoint.peer };
	int rc;

	rc = process_watch(process, peer->endpoint.peer, &peer->pidfd);
	if (rc)
		return rc;
	if (peer->pidfd < 0)
		rc = open_ticker(shm);
	else if (epoll_ctl(shm->epoll, EPOLL_CTL_ADD, peer->pidfd, &death) < 0)
		return fail(SLUICE_EDEVICE, "shm: epoll_ctl for the process of rank %d: %s",
			    peer->endpoint.peer, errno_text(errno));
	peer->state = PEER_ALIVE;
	return rc;
}

static int shm_connect(struct transport *t, int rank, const uint8_t *bytes, size_t len,
		       struct endpoint **out)
{
	struct shm *shm = shm_of(t);
	struct descriptor mailbox;
	struct shm_card card;
	struct shm_peer *peer;
	int rc;

	if (rank < 0 || rank >= shm->size || rank == shm->rank || shm->by_rank[rank])
		return fail(SLUICE_EINVAL, "shm: rank %d cannot connect to rank %d of %d%s",
			    shm->rank, rank, shm->size,
			    rank >= 0 && rank < shm->size && rank != shm->rank ?
				    ": it is connected already" :
				    "");
	rc = shm_card_decode(bytes, len, rank, shm->size, &card, &mailbox);
	if (rc)
		return rc;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return fail(SLUICE_ENOMEM, "shm: no memory for %zu bytes", sizeof(*peer));
	peer->endpoint = (struct endpoint){ .transport = t, .peer = rank };
	peer->process = card.process;
	memcpy(peer->control, card.control, sizeof(peer->control));
	peer->pidfd = peer->wake_fd = -1;
	peer->state = PEER_GONE; /* not in the epoll set yet */
	/* The pidfd first: if it is readable later, all that was opened below belonged to it. */
	rc = watch_peer(shm, peer, &card.process);
	if (rc)
		goto err_free;
	rc = open_mailbox(peer, &mailbox);
	if (rc)
		goto err_free;
	rc = open_wake_pipe(peer, card.wake_fd);
	if (rc)
		goto err_free;
	mailbox_writer_init(&peer->out,
			    mailbox_ring(peer->mailbox, (uint32_t)shm->rank, card.capacity),
			    card.capacity);
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
	descriptor_of(region, descriptor);
	return SLUICE_OK;
}

static int shm_remote_open(struct endpoint *e, const uint8_t descriptor[REGION_DESCRIPTOR_BYTES],
			   struct remote **out)
{
	struct shm_peer *peer = peer_of(e);
	struct shm_remote *remote;
	struct descriptor d;
	int fd, rc;

	if (peer->state == PEER_GONE)
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
	rc = mapping_open(fd, e->peer, &d, &remote->base);
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
	mapping_close(remote->base, remote->remote.bytes);
	free(remote);
	*r = NULL;
}

static void *shm_address(struct remote *remote)
{
	return remote->access & REGION_WRITE ? shm_remote_of(remote)->base : NULL;
}

static const void *shm_readable(struct remote *remote)
{
	return remote->access & REGION_READ ? shm_remote_of(remote)->base : NULL;
}

const struct transport_ops shm_transport = {
	.name = "shm",
	.open = shm_open_transport,
	.close = shm_close,
	.card = shm_card_of,
	.reaches = shm_reaches,
	.connect = shm_connect,
	.control = shm_control,
	.describe = shm_describe,
	.remote_open = shm_remote_open,
	.remote_close = shm_remote_close,
	.post = shm_post,
	.poll = shm_poll,
	.arm = shm_arm,
	.disarm = shm_disarm,
	.cancel = shm_cancel,
	.fd = shm_fd,
	.wake = shm_wake,
	.address = shm_address,
	.readable = shm_readable,
	.copies_at_post = 1,
};
