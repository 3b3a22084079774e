/* SPDX-License-Identifier: BSD-3-Clause
 * Real illegal accesses through the real transport (test_rights.sh). Three processes are ranks of
 * a job: rank 0 owns an inbox for rank 1, one for rank 2 and a published delta; ranks 1 and 2 are
 * workers. One of them changes a legal work request on its way to the device (hook.c), as a
 * program with an error, or with evil in mind, would. Wanted: a remote access error there, rank
 * 0's memory unchanged, rank 0 and the other worker as alive as before.
 *
 *   illegal CASE        nothing, inbox, delta, past, before, dropped (another's key, its process
 *                       killed), revoked (the own key, after rank 0 dropped this worker, which
 *                       still runs)
 *
 * ILLEGAL_DEVICES="A B": the devices of rank 0 and of the workers. ILLEGAL_WINDOWS: yes, no (how
 * rights are kept). Status: 0 as wanted, 1 not. */
#include "base/clock.h"
#include "hook.h"
#include "rdma/auth.h"
#include "rdma/transport.h"
#include "sluice.h"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, DEADLINE_MS = 30000, INBOX_BYTES = 5000, DELTA_BYTES = 8192, GIVEN_BYTES = 8 };

/* The target of a worker's legal request. */
struct place {
	uint64_t address;
	uint32_t rkey;
};

struct side {
	int rank, sockets[RANKS]; /* rank 0 has one to each worker, and a worker has one to rank
				     0 */
	struct transport *t;
	struct endpoint *peers[RANKS];
	struct region *control, *inbox[RANKS], *delta;
	int notified[RANKS], gone[RANKS], done, done_status;
};

static struct place last_write, last_read;
static struct {
	int armed, shift;
	struct place place;
} change;
static int access_errors, other_errors;

void hook_before_post(struct ibv_qp *qp, struct ibv_send_wr *chain)
{
	(void)qp;
	for (struct ibv_send_wr *request = chain; request; request = request->next) {
		struct place place = { request->wr.rdma.remote_addr, request->wr.rdma.rkey };
		int given = request->num_sge == 1 && request->sg_list[0].length == GIVEN_BYTES;

		if (request->opcode == IBV_WR_RDMA_READ)
			last_read = place;
		if (request->opcode != IBV_WR_RDMA_WRITE &&
		    request->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
			continue;
		/* heartbeats and credits must not be changed; the test's puts have a mark */
		if (!given || !request->sg_list[0].addr ||
		    memcmp((void *)(uintptr_t)request->sg_list[0].addr, "ILLEGAL!", GIVEN_BYTES) !=
			    0)
			continue;
		if (change.armed) {
			if (change.place.rkey || change.place.address) {
				request->wr.rdma.remote_addr = change.place.address;
				request->wr.rdma.rkey = change.place.rkey;
			}
			request->wr.rdma.remote_addr += (uint64_t)(int64_t)change.shift;
			change.armed = 0;
		} else {
			last_write = place;
		}
	}
}

void hook_posted(struct ibv_qp *qp, const struct ibv_send_wr *request)
{
	(void)qp;
	(void)request;
}

void hook_completed(const struct ibv_wc *completion)
{
	if (completion->status == IBV_WC_REM_ACCESS_ERR)
		access_errors++;
	else if (completion->status != IBV_WC_SUCCESS && completion->status != IBV_WC_WR_FLUSH_ERR)
		other_errors++;
}

static void want_at(int holds, const char *text, int rank, int line)
{
	if (holds)
		return;
	printf("rank %d, line %d: does not hold: %s (%s)\n", rank, line, text, sluice_last_error());
	fflush(stdout);
	_exit(1);
}
#define WANT(side, condition) want_at((condition) != 0, #condition, (side)->rank, __LINE__)

/* ---- the three processes --------------------------------------------------- */

static void turn(struct side *side)
{
	struct event events[16];
	int n = side->t->ops->poll(side->t, events, 16);

	for (int i = 0; i < n; i++) {
		if (events[i].kind == EVENT_IMM)
			side->notified[events[i].peer]++;
		if (events[i].kind == EVENT_DONE) {
			side->done++;
			side->done_status = events[i].status;
		}
		if (events[i].kind == EVENT_GONE) {
			side->gone[events[i].peer]++;
			printf("rank %d: rank %d is gone: %s\n", side->rank, events[i].peer,
			       events[i].text);
		}
	}
	if (n == 0)
		usleep(500);
}

/* Sends bytes to another process, and polls the transport meanwhile. */
static void give(struct side *side, int peer, const void *bytes, size_t n)
{
	WANT(side, send(side->sockets[peer], bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
}

static void take(struct side *side, int peer, void *bytes, size_t n)
{
	uint64_t deadline = now_ns() + (uint64_t)DEADLINE_MS * 1000000;
	size_t got = 0;

	while (got < n && now_ns() < deadline) {
		struct pollfd p = { .fd = side->sockets[peer], .events = POLLIN };
		ssize_t r;

		if (side->t)
			turn(side);
		if (poll(&p, 1, 0) != 1)
			continue;
		r = read(side->sockets[peer], (char *)bytes + got, n - got);
		WANT(side, r > 0);
		got += (size_t)r;
	}
	WANT(side, got == n);
}

static void meet(struct side *side, int peer)
{
	char byte = 'm';

	give(side, peer, &byte, 1);
	take(side, peer, &byte, 1);
}

/* Polls until the counter has at least this value. */
static int reached(struct side *side, const int *counter, int least)
{
	uint64_t deadline = now_ns() + (uint64_t)DEADLINE_MS * 1000000;

	while (*counter < least && now_ns() < deadline)
		turn(side);
	return *counter >= least;
}

static void start(struct side *side)
{
	struct rank_record {
		uint8_t bytes[TRANSPORT_RECORD_BYTES];
		size_t n;
	} cards[RANKS] = { 0 };
	static const uint8_t key[RANKS][AUTH_KEY_BYTES]; /* the same for all */
	const struct peer_keys keys = {
		.rank = side->rank, .size = RANKS, .wire_version = 1, .key = key
	};
	struct transport_config config = { .rank = side->rank,
					   .size = RANKS,
					   .queue_depth = 16,
					   .lost_after_ms = 10000,
					   .memory_windows = getenv("ILLEGAL_WINDOWS") };
	const struct transport_ops *ops = &verbs_transport;

	WANT(side, region_open(4096, REGION_WRITE, "control", &side->control) == 0);
	config.control = side->control;
	WANT(side, ops->open(&config, &side->t) == 0);
	access_errors = 0; /* from proving that windows refuse */
	WANT(side, ops->record(side->t, cards[side->rank].bytes, &cards[side->rank].n) == 0);
	if (side->rank == 0) {
		for (int i = 1; i < RANKS; i++)
			take(side, i, &cards[i], sizeof(cards[i]));
		for (int i = 1; i < RANKS; i++)
			give(side, i, cards, sizeof(cards));
	} else {
		give(side, 0, &cards[side->rank], sizeof(cards[0]));
		take(side, 0, cards, sizeof(cards));
	}
	WANT(side, ops->admit(side->t, &keys) == 0);
	for (int i = 0; i < RANKS; i++)
		if (i != side->rank && (i == 0 || side->rank == 0))
			WANT(side, ops->connect(side->t, i, cards[i].bytes, cards[i].n,
						&side->peers[i]) == 0);
	for (int i = 0; i < RANKS; i++) {
		uint64_t deadline = now_ns() + (uint64_t)DEADLINE_MS * 1000000;
		int ready = 1;

		while (side->peers[i] && (ready = ops->ready(side->peers[i])) == 0 &&
		       now_ns() < deadline)
			turn(side);
		WANT(side, ready == 1);
	}
}

static void put(struct side *side, struct remote *remote, uint64_t offset, int report)
{
	static char mark[GIVEN_BYTES + 1] = "ILLEGAL!";
	struct transfer t = { .kind = TRANSFER_PUT_NOTIFY,
			      .remote = remote,
			      .offset = offset,
			      .local = mark,
			      .bytes = GIVEN_BYTES,
			      .report = report };

	WANT(side, side->t->ops->post(side->peers[0], &t) == 0);
}

/* ---- a worker -------------------------------------------------------------- */

enum { OFFENDER = 2 };

/* Makes the legal requests of a worker: a put into its inbox and a get of the delta. */
static void legal(struct side *side, struct remote *inbox, struct remote *delta)
{
	struct region *buffer;
	struct transfer get = { .kind = TRANSFER_GET, .remote = delta, .bytes = DELTA_BYTES };
	int done = side->done;

	WANT(side, region_open(DELTA_BYTES, 0, "buffer", &buffer) == 0);
	get.local_region = buffer;
	get.local = buffer->base;
	put(side, inbox, 0, 0);
	WANT(side, side->t->ops->post(side->peers[0], &get) == 0);
	WANT(side, reached(side, &side->done, done + 1));
	WANT(side, side->done_status == 0);
	for (int i = 0; i < DELTA_BYTES; i++)
		WANT(side, ((unsigned char *)buffer->base)[i] == 0xDE);
	region_close(&buffer);
}

static int worker(struct side *side, const char *what)
{
	uint8_t descriptors[2][REGION_DESCRIPTOR_BYTES];
	struct place places[RANKS][2] = { 0 };
	struct remote *inbox, *delta;

	start(side);
	take(side, 0, descriptors, sizeof(descriptors));
	WANT(side, side->t->ops->remote_open(side->peers[0], descriptors[0], &inbox) == 0);
	WANT(side, side->t->ops->remote_open(side->peers[0], descriptors[1], &delta) == 0);
	legal(side, inbox, delta);
	WANT(side, last_write.address != 0 && last_read.address != 0);
	places[side->rank][0] = last_write;
	places[side->rank][1] = last_read;
	give(side, 0, places[side->rank], sizeof(places[0]));
	take(side, 0, places, sizeof(places));

	if (side->rank == OFFENDER && strcmp(what, "nothing") != 0) {
		change.armed = 1;
		if (!strcmp(what, "inbox") || !strcmp(what, "dropped"))
			change.place = places[1][0];
		else if (!strcmp(what, "delta"))
			change.place = places[side->rank][1];
		else if (!strcmp(what, "past"))
			change.shift = INBOX_BYTES - GIVEN_BYTES + 1;
		else if (!strcmp(what, "before"))
			change.shift = -1;
		put(side, inbox, 0, 1);
		WANT(side, change.armed == 0);
		WANT(side, reached(side, &side->gone[0], 1) || access_errors > 0);
		printf("rank %d, %s: %d remote access errors, %d others\n", side->rank, what,
		       access_errors, other_errors);
		fflush(stdout);
		WANT(side, access_errors == 1 && other_errors == 0);
		WANT(side, side->gone[0] == 1);
		meet(side, 0);
		side->t->ops->close(&side->t);
		return 0;
	}
	if (!strcmp(what, "dropped"))
		for (;;)
			turn(side);            /* until killed */
	take(side, 0, places, sizeof(places)); /* the illegal request was made */
	legal(side, inbox, delta);
	meet(side, 0);
	meet(side, 0);
	side->t->ops->close(&side->t);
	return 0;
}

/* ---- rank 0 ---------------------------------------------------------------- */

static int unchanged(const struct side *side)
{
	for (int w = 1; w < RANKS; w++)
		for (int i = 0; i < INBOX_BYTES; i++)
			if (((unsigned char *)side->inbox[w]->base)[i] !=
			    (unsigned char)(w == 1 ? 0xA1 : 0xA2))
				return 0;
	for (int i = 0; i < DELTA_BYTES; i++)
		if (((unsigned char *)side->delta->base)[i] != 0xDE)
			return 0;
	return 1;
}

static void fill(struct side *side)
{
	memset(side->inbox[1]->base, 0xA1, INBOX_BYTES);
	memset(side->inbox[2]->base, 0xA2, INBOX_BYTES);
}

/* Waits until the offender has its error. The device of this rank reports the illegal request to
 * both ranks, and this rank then ends the connection. On a busy machine, the end can arrive first,
 * and the offender never gets its error. So this rank looks at nothing meanwhile. */
static void wait_for_report(struct side *side, int offender)
{
	struct pollfd p = { .fd = side->sockets[offender], .events = POLLIN };

	WANT(side, poll(&p, 1, DEADLINE_MS) == 1);
	meet(side, offender);
}

static void owner(struct side *side, const char *what, const pid_t workers[RANKS])
{
	uint8_t descriptors[2][REGION_DESCRIPTOR_BYTES];
	struct place places[RANKS][2] = { 0 };
	int crime = strcmp(what, "nothing") != 0, dropped = !strcmp(what, "dropped");
	uint64_t until;

	start(side);
	WANT(side, region_open(DELTA_BYTES, REGION_READ, "delta", &side->delta) == 0);
	memset(side->delta->base, 0xDE, DELTA_BYTES);
	for (int w = 1; w < RANKS; w++) {
		WANT(side, region_open(INBOX_BYTES, REGION_WRITE, "inbox", &side->inbox[w]) == 0);
		WANT(side,
		     side->t->ops->describe(side->peers[w], side->inbox[w], descriptors[0]) == 0);
		WANT(side,
		     side->t->ops->describe(side->peers[w], side->delta, descriptors[1]) == 0);
		give(side, w, descriptors, sizeof(descriptors));
	}
	for (int w = 1; w < RANKS; w++) {
		take(side, w, places[w], sizeof(places[w]));
		WANT(side, reached(side, &side->notified[w], 1));
		WANT(side, memcmp(side->inbox[w]->base, "ILLEGAL!", GIVEN_BYTES) == 0);
	}
	fill(side);
	if (dropped) {
		kill(workers[1], SIGKILL);
		WANT(side, reached(side, &side->gone[1], 1));
	}
	if (!strcmp(what, "revoked"))
		side->t->ops->revoke(side->peers[OFFENDER]);
	for (int w = dropped ? 2 : 1; w < RANKS; w++)
		give(side, w, places, sizeof(places));
	if (crime)
		wait_for_report(side, OFFENDER);
	for (until = now_ns() + 300000000; now_ns() < until;)
		turn(side);
	if (crime) {
		WANT(side, side->notified[OFFENDER] == 1);
		WANT(side, unchanged(side));
	}
	if (!dropped)
		WANT(side, side->gone[1] == 0);
	for (int w = 1; w < RANKS; w++) {
		if ((w == 1 && dropped) || (w == OFFENDER && crime))
			continue;
		give(side, w, places, sizeof(places));
		meet(side, w);
		WANT(side, reached(side, &side->notified[w], 2));
		WANT(side, memcmp(side->inbox[w]->base, "ILLEGAL!", GIVEN_BYTES) == 0);
		fill(side);
		meet(side, w);
	}
	WANT(side, unchanged(side));
	printf("rank 0: memory unchanged%s\n", dropped ? "" : ", rank 1 served as before");
	side->t->ops->close(&side->t);
}

static void choose_gpu(int rank)
{
	char first[64] = "", second[64] = "";

	if (getenv("ILLEGAL_DEVICES") &&
	    sscanf(getenv("ILLEGAL_DEVICES"), "%63s %63s", first, second) == 2)
		setenv("SLUICE_DEVICE", rank == 0 ? first : second, 1);
}

int main(int argc, char **argv)
{
	struct side side = { .rank = 0 };
	pid_t workers[RANKS] = { 0 };
	int status, failed = 0;

	if (argc != 2)
		return 2;
	for (int w = 1; w < RANKS; w++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
			return 2;
		fflush(NULL);
		workers[w] = fork();
		if (workers[w] < 0)
			return 2;
		if (workers[w] == 0) {
			struct side mine = { .rank = w, .sockets = { pair[1] } };

			alarm(3 * DEADLINE_MS / 1000);
			choose_gpu(w);
			status = worker(&mine, argv[1]);
			fflush(stdout);
			_exit(status);
		}
		close(pair[1]);
		side.sockets[w] = pair[0];
	}
	choose_gpu(0);
	alarm(3 * DEADLINE_MS / 1000);
	owner(&side, argv[1], workers);
	for (int w = 1; w < RANKS; w++) {
		if (waitpid(workers[w], &status, 0) != workers[w])
			status = -1;
		if (w == 1 && !strcmp(argv[1], "dropped"))
			continue;
		failed |= status != 0;
	}
	printf("%s: %s\n", argv[1], failed ? "NOT AS WANTED" : "as wanted");
	return failed;
}
