/* SPDX-License-Identifier: BSD-3-Clause
 * The transport over libfabric on this machine's loopback: peers that end, stop or are strangers,
 * and the access that its keys permit. Transfers: test_shm_processes.c. Its proofs:
 * test_ofi_proof.c. */
#include "base/bytes.h"
#include "rdma/transport.h"
#include "rdma_pair.h"
#include "sluice.h"
#include "cases.h"
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 8192, LOST_MS = 1000 };

static const struct transport_ops *const ops = &ofi_transport;

/* Replaces the C library's function, also for libfabric. */
static int connects;

__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr *address,
						   socklen_t bytes)
{
	connects++;
	return (int)syscall(SYS_connect, fd, address, bytes);
}

static struct transfer get_of(struct remote *from, const struct region *local, size_t bytes)
{
	return (struct transfer){ .kind = TRANSFER_GET,
				  .remote = from,
				  .local_region = local,
				  .local = local->base,
				  .bytes = bytes,
				  .cookie = 77 };
}

/* ---- peers that end or stop ---------------------------------------------------------- */

/* Serves until the parent ends it or closes the socket. */
static int wait_for_the_end(struct side *side)
{
	struct region *log = new_region(BYTES, REGION_READ);
	struct remote *theirs = swap_regions(side, log);
	char byte;

	CHECK(read(side->socket, &byte, 1) == 0);
	ops->remote_close(&theirs);
	region_close(&log);
	return 0;
}

/* A get from a peer that does not answer ends with an error, and the peer is reported gone once. */
static void loses_it(struct side *side, struct remote *from)
{
	struct region *local = new_region(BYTES, 0);
	const struct transfer get = get_of(from, local, 64);
	struct event event;

	post_now(side->e, get);
	event = next_event(side->t);
	CHECK(event.kind == EVENT_DONE && event.cookie == 77 && event.status == SLUICE_EPEER);
	event = next_event(side->t);
	CHECK(event.kind == EVENT_GONE && event.peer == 1 && event.text && *event.text);
	CHECK(ops->post(side->e, &get) == SLUICE_EPEER);
	CHECK(ops->poll(side->t, &event, 1) == 0);
	region_close(&local);
}

static void ends_by(int signal)
{
	struct region *mine = new_region(BYTES, REGION_READ);
	struct remote *theirs;
	struct side side;
	pid_t child;

	pair_lost_after_ms = LOST_MS;
	child = pair_start(&side, 4, wait_for_the_end);
	theirs = swap_regions(&side, mine);
	kill(child, signal);
	if (signal == SIGKILL)
		child_status(child);
	else /* its threads may continue for a moment */
		CHECK(waitpid(child, NULL, WUNTRACED) == child);
	loses_it(&side, theirs);
	if (signal != SIGKILL) {
		kill(child, SIGKILL);
		child_status(child);
	}
	ops->remote_close(&theirs);
	region_close(&mine);
	side_close(&side);
	pair_lost_after_ms = DEADLINE_MS;
}

TEST(get__from_a_killed_process__fails_and_the_peer_is_gone)
{
	ends_by(SIGKILL);
}

TEST(get__from_a_stopped_process__fails_and_the_peer_is_gone)
{
	ends_by(SIGSTOP);
}

/* The child makes no call, so its transport's own thread must serve the get. */
TEST(get__from_a_rank_that_computes__is_served)
{
	struct region *mine = new_region(BYTES, REGION_READ), *local = new_region(BYTES, 0);
	struct remote *theirs;
	struct event event;
	struct side side;
	pid_t child = pair_start(&side, 4, wait_for_the_end);

	theirs = swap_regions(&side, mine);
	post_now(side.e, get_of(theirs, local, BYTES));
	event = next_event(side.t);
	CHECK(event.kind == EVENT_DONE && event.status == 0 && event.cookie == 77);
	ops->remote_close(&theirs);
	region_close(&mine);
	region_close(&local);
	pair_end(&side, child);
}

static int closes(struct side *side)
{
	struct region *inbox = new_region(BYTES, REGION_WRITE);
	struct remote *theirs = swap_regions(side, inbox);

	ops->remote_close(&theirs);
	region_close(&inbox);
	return 0;
}

TEST(close__after_the_peer_has_closed__does_not_connect_again_and_again)
{
	struct region *mine = new_region(BYTES, REGION_WRITE);
	struct remote *theirs;
	struct side side;
	pid_t child = pair_start(&side, 4, closes);

	theirs = swap_regions(&side, mine);
	CHECK(child_status(child) == 0);
	for (int i = 0; i < 100; i++) { /* libfabric notices the end of the connection late */
		struct event event;

		CHECK(ops->poll(side.t, &event, 1) == 0);
		usleep(100);
	}
	post_now(side.e, (struct transfer){ .kind = TRANSFER_PUT, .remote = theirs, .report = 1 });
	connects = 0;
	side_close(&side);
	CHECK(connects < 200);
	ops->remote_close(&theirs);
	region_close(&mine);
}

enum { LARGE_BYTES = 16 << 20 };

static int serves_a_large_region(struct side *side)
{
	struct region *mine = new_region(LARGE_BYTES, REGION_READ | REGION_WRITE);
	struct remote *theirs;
	char byte;

	memset(mine->base, 0xff, LARGE_BYTES);
	theirs = swap_regions(side, mine);
	CHECK(read(side->socket, &byte, 1) == 0);
	ops->remote_close(&theirs);
	region_close(&mine);
	return 0;
}

/* This happens after a failure, when a job closes its regions although peers still answer. */
TEST(close__a_region_that_a_get_still_fills__does_no_harm)
{
	struct region *small = new_region(BYTES, REGION_READ), *local = new_region(LARGE_BYTES, 0);
	const volatile uint8_t *first = local->base;
	struct remote *theirs;
	struct side side;
	pid_t child = pair_start(&side, 4, serves_a_large_region);

	theirs = swap_regions(&side, small);
	post_now(side.e, get_of(theirs, local, LARGE_BYTES));
	while (!*first) {
		struct event event;

		CHECK(ops->poll(side.t, &event, 1) == 0);
	}
	region_close(&local);
	CHECK(next_event(side.t).status == 0);
	ops->remote_close(&theirs);
	region_close(&small);
	pair_end(&side, child);
}

/* In some releases of libfabric the descriptor stays readable after an event has arrived. */
TEST(arm__after_something_came__fd_is_not_readable_for_nothing)
{
	enum { TRIES = 1000 };
	struct region *mine = new_region(BYTES, REGION_READ), *local = new_region(BYTES, 0);
	struct remote *theirs;
	struct side side;
	int quiet = 0;
	pid_t child = pair_start(&side, 4, wait_for_the_end);

	theirs = swap_regions(&side, mine);
	post_now(side.e, get_of(theirs, local, BYTES));
	CHECK(next_event(side.t).kind == EVENT_DONE);
	for (int i = 0; i < TRIES && !quiet; i++) {
		struct event event;

		CHECK(ops->poll(side.t, &event, 1) == 0);
		quiet = !ops->sleep.arm(side.t) && !readable(ops->sleep.fd(side.t), 0);
		ops->sleep.disarm(side.t);
	}
	CHECK(quiet);
	ops->remote_close(&theirs);
	region_close(&mine);
	region_close(&local);
	pair_end(&side, child);
}

/* ---- what keys permit ------------------------------------------------------------------ */

/* The parent tries to write without permission: nothing must arrive. */
static int offers_an_inbox(struct side *side)
{
	struct region *inbox = new_region(BYTES, REGION_WRITE),
		      *log = new_region(BYTES, REGION_READ);
	struct remote *to_inbox = swap_regions(side, inbox), *to_log = swap_regions(side, log);
	char byte;

	CHECK(read(side->socket, &byte, 1) == 1);
	for (int i = 0; i < BYTES; i++)
		CHECK(((uint8_t *)log->base)[i] == 0 && ((uint8_t *)inbox->base)[i] == 0);
	ops->remote_close(&to_inbox);
	ops->remote_close(&to_log);
	region_close(&inbox);
	region_close(&log);
	return 0;
}

/* Simulates a peer that violates the description of a region: it changes the descriptor. */
static struct remote *forge(struct side *side, const struct region *mine, size_t at, uint32_t value)
{
	uint8_t bytes[REGION_DESCRIPTOR_BYTES], theirs[REGION_DESCRIPTOR_BYTES];
	struct remote *remote = NULL;

	CHECK(ops->describe(side->e, mine, bytes) == 0);
	swap_bytes(side, bytes, theirs, sizeof(bytes));
	put_le32(theirs + at, value);
	put_le32(theirs + REGION_HEAD_BYTES - 4, crc32c(0, theirs, REGION_HEAD_BYTES - 4));
	CHECK(ops->remote_open(side->e, theirs, &remote) == 0);
	meet(side);
	return remote;
}

/* at: the offset of the forged value in the descriptor. Returns the result of the put, which the
 * other side must refuse. */
static int forged_put(size_t at, uint32_t value, uint64_t offset, int second)
{
	struct region *mine = new_region(BYTES, REGION_READ | REGION_WRITE);
	struct region *local = new_region(BYTES, 0);
	struct remote *first, *last;
	struct event event;
	struct side side;
	pid_t child = pair_start(&side, 4, offers_an_inbox);

	first = second ? swap_regions(&side, mine) : forge(&side, mine, at, value);
	last = second ? forge(&side, mine, at, value) : swap_regions(&side, mine);
	memset(local->base, 0xee, BYTES);
	post_now(side.e, (struct transfer){ .kind = TRANSFER_PUT,
					    .remote = second ? last : first,
					    .offset = offset,
					    .local_region = local,
					    .local = local->base,
					    .bytes = 512,
					    .report = 1 });
	event = next_event(side.t);
	CHECK(event.kind == EVENT_DONE);
	CHECK(write(side.socket, "x", 1) == 1);
	ops->remote_close(&first);
	ops->remote_close(&last);
	region_close(&mine);
	region_close(&local);
	pair_end(&side, child);
	return event.status;
}

TEST(put__with_a_guessed_key__is_refused_by_the_peer)
{
	CHECK(forged_put(24, 0x12345678, 0, 0) == SLUICE_EPEER);
}

TEST(put__beyond_the_region__is_refused_by_the_peer)
{
	CHECK(forged_put(8, 2 * BYTES, BYTES - 8, 0) == SLUICE_EPEER);
}

TEST(put__into_a_region_for_reading__is_refused_by_the_peer)
{
	CHECK(forged_put(4, REGION_READ | REGION_WRITE, 0, 1) == SLUICE_EPEER);
}

int main(void)
{
	struct transport_config config = {
		.rank = 0, .size = 2, .queue_depth = 4, .interface = "lo", .lost_after_ms = 1000
	};
	struct transport *t = NULL;

	pair_ops = ops;
	if (ops->open(&config, &t)) {
		print_message("skipped: %s\n", sluice_last_error());
		return 77;
	}
	ops->close(&t);
	return run_cases(NULL, NULL);
}
