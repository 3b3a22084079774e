/* SPDX-License-Identifier: BSD-3-Clause
 * The hot path of the shm transport: copies and notifications out, events in, sleeping and waking.
 * No system call but to wake a sleeper, and one to ask for ended peers every few milliseconds. */
#include "base/clock.h"
#include "rdma/shm.h"
#include "rdma/transfer.h"
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* A polling rank asks the kernel for ended peers this often; a sleeping one is woken by it. */
enum { DEATH_CHECK_NS = 2000000, POLLS_PER_LOOK = 64 /* at the clock */ };

/* ---- moving bytes ---------------------------------------------------------- */

static void ring_bell(int pipe)
{
	int saved = errno; /* may be called from a signal handler */
	ssize_t ignored = write(pipe, "", 1);

	(void)ignored; /* EAGAIN: the pipe is full, so its reader will wake */
	errno = saved;
}

/* 1 if the peer's mailbox takes a word, else SLUICE_E*. */
static int room_for_notify(struct shm_peer *peer)
{
	switch (mailbox_room(&peer->out)) {
	case 0: return SLUICE_EAGAIN;
	case 1: return 1;
	default:
		return fail(SLUICE_EWIRE,
			    "the mailbox of rank %d (pid %d) holds an impossible position",
			    peer->endpoint.peer, (int)peer->process.pid);
	}
}

static void notify(struct shm_peer *peer, uint32_t imm)
{
	mailbox_write(&peer->out, imm);
	if (mailbox_claim_wake(peer->mailbox))
		ring_bell(peer->wake_fd);
}

/* A get, or a put that is to be reported, has ended. */
static void done(struct shm *shm, const struct shm_peer *peer, uint64_t cookie)
{
	event_queue_put(&shm->dones, &(struct event){ .kind = EVENT_DONE,
						      .peer = peer->endpoint.peer,
						      .cookie = cookie });
	if (shm->armed)
		ring_bell(shm->pipe_write);
}

/* A hint, some way ahead of a store: a line that a peer reads again and again comes while there are
 * other things to do. */
static inline void fetch_to_write(const void *line)
{
#if defined(__x86_64__)
	/* __builtin_prefetch() asks for a copy to read, unless the processor is named to the
	 * compiler. */
	__asm__ volatile("prefetchw (%0)" : : "r"(line));
#else
	__builtin_prefetch(line, 1);
#endif
}

static inline void fetch_what_is_written(const struct shm_peer *peer, const struct transfer *x)
{
	if (x->kind == TRANSFER_PUT_NOTIFY)
		fetch_to_write((const void *)peer->out.at.next);
	if (x->kind != TRANSFER_GET &&
	    x->remote) /* nothing is checked yet: a hint may point anywhere */
		fetch_to_write(
			(const void *)((uintptr_t)shm_remote_of(x->remote)->base + x->offset));
}

int shm_post(struct endpoint *e, const struct transfer *x)
{
	struct shm *shm = shm_of(e->transport);
	struct shm_peer *peer = peer_of(e);
	int rc, ends = transfer_ends(x);
	char *there;

	fetch_what_is_written(peer, x);
	if (peer->state == PEER_GONE)
		return shm_fail_gone(peer);
	if (!transfer_right(e, x))
		return transfer_check(e, x);
	if (x->kind == TRANSFER_PUT_NOTIFY && (rc = room_for_notify(peer)) < 0)
		return rc;
	if (ends && event_queue_full(&shm->dones))
		return SLUICE_EAGAIN;
	there = (char *)shm_remote_of(x->remote)->base + x->offset;
	if (x->bytes > 0 && x->kind == TRANSFER_GET)
		memcpy(x->local, there, x->bytes);
	else if (x->bytes > 0)
		memcpy(there, x->local, x->bytes);
	transfer_count(&shm->transport, x);
	if (x->kind == TRANSFER_PUT_NOTIFY)
		notify(peer, x->imm);
	if (ends)
		done(shm, peer, x->cookie);
	return SLUICE_OK;
}

/* ---- events ---------------------------------------------------------------- */

static void unwatch(struct shm *shm, struct shm_peer *peer, enum peer_state state)
{
	/* A pidfd stays readable for ever: left in the set, nobody could sleep again. */
	if (peer->pidfd >= 0)
		epoll_ctl(shm->epoll, EPOLL_CTL_DEL, peer->pidfd, NULL);
	peer->state = state;
}

/* Asks the kernel which peers ended. */
static void check_deaths(struct shm *shm)
{
	struct epoll_event ready[16];
	int n, i;

	do {
		n = epoll_wait(shm->epoll, ready, 16, 0);
		for (i = 0; i < n; i++)
			if (ready[i].data.u32 != SHM_WAKE_TAG)
				unwatch(shm, shm->by_rank[ready[i].data.u32], PEER_ENDED);
	} while (n == 16);
	if (shm->ticker < 0)
		return;
	for (i = 0; i < shm->n_peers; i++) {
		struct shm_peer *peer = shm->peers[i];

		if (peer->pidfd < 0 && peer->state == PEER_ALIVE && process_ended(&peer->process))
			unwatch(shm, peer, PEER_ENDED);
	}
}

/* Whether take_from() would find anything. */
static inline int has_news(const struct shm_peer *peer)
{
	return peer->state == PEER_ALIVE ? mailbox_waiting(&peer->in) : peer->state != PEER_GONE;
}

/* What one peer sent, and after the last of it that it is gone. That a process ended is known
 * before its ring is looked at here, so its last words are never missed. */
static int take_from(struct shm *shm, struct shm_peer *peer, struct event *events, int n)
{
	int taken = 0;

	while (taken < n && peer->state != PEER_GONE) {
		struct event *event = &events[taken];
		uint32_t imm = 0;
		int got = peer->state == PEER_BROKEN ? 0 : mailbox_take(&peer->in, &imm);

		if (got > 0) {
			*event = (struct event){ .kind = EVENT_IMM,
						 .peer = peer->endpoint.peer,
						 .imm = imm };
			taken++;
			continue;
		}
		if (got < 0 && peer->state == PEER_ALIVE)
			unwatch(shm, peer, PEER_BROKEN);
		if (got == 0 && peer->state == PEER_ALIVE)
			break;
		*event = (struct event){
			.kind = EVENT_GONE,
			.peer = peer->endpoint.peer,
			.status = SLUICE_EPEER,
			.text = peer->state == PEER_ENDED ?
					"its process ended" :
					"it wrote an impossible position into this rank's mailbox",
		};
		taken++;
		peer->state = PEER_GONE;
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

/* Most often there is nothing, and who waits learns of what comes next the sooner the sooner this
 * returns. */
int shm_poll(struct transport *t, struct event *events, int n)
{
	struct shm *shm = shm_of(t);
	int taken = event_queue_take(&shm->dones, events, n), at = shm->first, left;

	if (taken < n && (shm->next_check_ns == 0 || ++shm->polls % POLLS_PER_LOOK == 0))
		look_for_ended(shm);
	/* In turns, each time from another peer on. No division: it takes as long as a line from
	 * another core. */
	for (left = shm->n_peers; left > 0 && taken < n; left--) {
		struct shm_peer *peer = shm->peers[at];

		at = at + 1 < shm->n_peers ? at + 1 : 0;
		if (has_news(peer))
			taken += take_from(shm, peer, events + taken, n - taken);
	}
	if (taken > 0)
		shm->first = at;
	return taken;
}

/* Ticks, or with 0 no more of them; a tick that came is forgotten. */
static void tick_every(const struct shm *shm, int milliseconds)
{
	struct timespec interval = { .tv_nsec = milliseconds * 1000000L };
	struct itimerspec spec = { .it_interval = interval, .it_value = interval };

	if (shm->ticker >= 0)
		timerfd_settime(shm->ticker, 0, &spec, NULL);
}

static int anything_waiting(struct shm *shm)
{
	int i;

	if (!event_queue_empty(&shm->dones))
		return 1;
	for (i = 0; i < shm->n_peers; i++)
		if (has_news(shm->peers[i]))
			return 1;
	return 0;
}

int shm_arm(struct transport *t)
{
	struct shm *shm = shm_of(t);

	mailbox_sleep(shm->mailbox->base);
	shm->armed = 1;
	if (!anything_waiting(shm)) {
		tick_every(shm, SHM_TICK_MS);
		return 0;
	}
	mailbox_awake(shm->mailbox->base);
	shm->armed = 0;
	return 1;
}

void shm_disarm(struct transport *t)
{
	struct shm *shm = shm_of(t);
	char bytes[512];
	int rounds;

	mailbox_awake(shm->mailbox->base);
	shm->armed = 0;
	tick_every(shm, 0);
	shm->next_check_ns = 0; /* it may have been a death that woke us */
	/* Bounded: a pipe holds 64 KiB, and a peer gone mad may write on and on. */
	for (rounds = 0; rounds < 128; rounds++)
		if (read(shm->pipe_read, bytes, sizeof(bytes)) < (ssize_t)sizeof(bytes))
			break;
}

void shm_cancel(struct transport *t)
{
	struct shm *shm = shm_of(t);

	mailbox_awake(shm->mailbox->base);
	shm->armed = 0;
}

int shm_fd(struct transport *t)
{
	return shm_of(t)->epoll;
}

void shm_wake(struct transport *t)
{
	ring_bell(shm_of(t)->pipe_write);
}
