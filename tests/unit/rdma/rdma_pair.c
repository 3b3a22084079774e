/* SPDX-License-Identifier: BSD-3-Clause
 * See rdma_pair.h. */
#include "rdma_pair.h"
#include "base/clock.h"
#include "base/log.h"
#include "libfabric_leaks.h"
#include "rdma/auth.h"
#include "sluice.h"
#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
/* last: its macro fail() hides base/error.h's */
#include <cmocka.h>

const struct transport_ops *pair_ops = &shm_transport;
int pair_lost_after_ms = DEADLINE_MS;

static pid_t main_pid; /* of the test program; it forks all other processes */

static void __attribute__((constructor)) remember_main(void)
{
	main_pid = getpid();
}

void check_at(int holds, const char *text, const char *file, int line)
{
	if (holds)
		return;
	fprintf(stderr, "%s:%d: pid %d: does not hold: %s (last error: %s)\n", file, line,
		(int)getpid(), text, sluice_last_error());
	if (getpid() != main_pid)
		_exit(99);
	_fail(file, line);
}

static void wait_until_ready(const struct side *side)
{
	uint64_t deadline = now_ns() + (uint64_t)DEADLINE_MS * 1000000;
	struct event event;
	int rc = 0;

	while (pair_ops->ready && (rc = pair_ops->ready(side->e)) == 0) {
		CHECK(pair_ops->poll(side->t, &event, 1) == 0);
		CHECK(now_ns() < deadline);
	}
	CHECK(rc >= 0);
}

static void side_open(struct side *side, uint32_t queue_depth)
{
	struct transport_config config = { .rank = side->rank,
					   .size = 2,
					   .queue_depth = queue_depth,
					   .interface = "lo",
					   .lost_after_ms = pair_lost_after_ms };
	static const uint8_t key[2][AUTH_KEY_BYTES] = { { 1, 2, 3 }, { 1, 2, 3 } };
	const struct peer_keys keys = { .rank = side->rank, .size = 2, .key = key };
	struct {
		uint8_t bytes[TRANSPORT_RECORD_BYTES];
		size_t len;
	} mine = { { 0 }, 0 }, theirs;
	const struct transport_ops *ops = pair_ops;

	CHECK(ops->open(&config, &side->t) == 0);
	CHECK(ops->record(side->t, mine.bytes, &mine.len) == 0);
	swap_bytes(side, &mine, &theirs, sizeof(mine));
	if (ops->admit)
		CHECK(ops->admit(side->t, &keys) == 0);
	CHECK(ops->connect(side->t, 1 - side->rank, theirs.bytes, theirs.len, &side->e) == 0);
	wait_until_ready(side);
	meet(side);
}

void side_close(struct side *side)
{
	pair_ops->close(&side->t);
	close(side->socket);
	side->e = NULL;
}

pid_t pair_start(struct side *side, uint32_t queue_depth, int (*body)(struct side *))
{
	int sockets[2], rc;
	pid_t child;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
	fflush(NULL);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		*side = (struct side){ .rank = 1, .socket = sockets[1] };
		close(sockets[0]);
		alarm(2 * DEADLINE_MS / 1000); /* must not outlive a parent that failed */
		side_open(side, queue_depth);
		rc = body(side);
		if (side->t != NULL)
			side_close(side);
		_exit(rc);
	}
	*side = (struct side){ .rank = 0, .socket = sockets[0] };
	close(sockets[1]);
	side_open(side, queue_depth);
	return child;
}

int child_status(pid_t child)
{
	uint64_t deadline = now_ns() + (uint64_t)DEADLINE_MS * 1000000;
	int status = -1;
	pid_t got;

	while ((got = waitpid(child, &status, WNOHANG)) == 0 && now_ns() < deadline)
		usleep(1000);
	if (got == 0) {
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
	}
	CHECK(got == child); /* the child ended in time */
	return status;
}

void pair_end(struct side *side, pid_t child)
{
	side_close(side);
	CHECK(child_status(child) == 0);
}

int readable(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, timeout_ms) == 1;
}

void swap_bytes(const struct side *side, const void *mine, void *theirs, size_t n)
{
	size_t got = 0;
	ssize_t r;

	CHECK(send(side->socket, mine, n, MSG_NOSIGNAL) == (ssize_t)n);
	while (got < n) {
		CHECK(readable(side->socket, DEADLINE_MS));
		r = read(side->socket, (char *)theirs + got, n - got);
		CHECK(r > 0);
		got += (size_t)r;
	}
}

void meet(const struct side *side)
{
	char mine = 'm', theirs;

	swap_bytes(side, &mine, &theirs, 1);
}

struct remote *swap_regions(const struct side *side, const struct region *mine)
{
	uint8_t bytes[REGION_DESCRIPTOR_BYTES], theirs[REGION_DESCRIPTOR_BYTES];
	struct remote *remote = NULL;

	CHECK(pair_ops->describe(side->e, mine, bytes) == 0);
	swap_bytes(side, bytes, theirs, sizeof(bytes));
	CHECK(pair_ops->remote_open(side->e, theirs, &remote) == 0);
	meet(side);
	return remote;
}

struct event next_event(struct transport *t)
{
	uint64_t deadline = now_ns() + (uint64_t)DEADLINE_MS * 1000000;
	struct event event;
	int spins = 0;

	for (;;) {
		if (t->ops->poll(t, &event, 1) == 1)
			return event;
		CHECK(now_ns() < deadline);
		if (++spins < 200)
			continue;
		if (!t->ops->sleep.arm(t))
			readable(t->ops->sleep.fd(t), 1000);
		t->ops->sleep.disarm(t);
		spins = 0;
	}
}

void post_now(struct endpoint *e, struct transfer transfer)
{
	CHECK(e->transport->ops->post(e, &transfer) == 0);
}

int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	CHECK(dir != NULL);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

int mappings_of(const char *text)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];
	int n = 0;

	CHECK(maps != NULL);
	while (fgets(line, sizeof(line), maps) != NULL)
		n += strstr(line, text) != NULL;
	fclose(maps);
	return n;
}

uint64_t scramble(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

void fill(uint8_t *bytes, size_t n, uint64_t seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		bytes[i] = (uint8_t)scramble(seed + i / 8) + (uint8_t)i;
}

int filled(const uint8_t *bytes, size_t n, uint64_t seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (bytes[i] != (uint8_t)((uint8_t)scramble(seed + i / 8) + (uint8_t)i))
			return 0;
	return 1;
}

static void count_line(int level, const char *line, void *context)
{
	(void)level;
	(void)line;
	++*(int *)context;
}

int quiet_log(void)
{
	static int lines;
	int n = lines;

	lines = 0;
	log_set_sink(count_line, &lines);
	return n;
}

struct region *new_region(size_t bytes, unsigned access)
{
	struct region *region = NULL;

	CHECK(region_open(bytes, access, "test", &region) == 0);
	return region;
}

struct transfer transfer_of(enum transfer_kind kind, struct remote *remote, uint64_t offset,
			    const struct region *local, size_t bytes)
{
	return (struct transfer){ .kind = kind,
				  .remote = remote,
				  .offset = offset,
				  .local_region = local,
				  .local = local->base,
				  .bytes = bytes };
}

struct event next_imm(struct side *side, uint32_t imm)
{
	struct event event = next_event(side->t);

	CHECK(event.kind == EVENT_IMM);
	CHECK(event.peer == 1 - side->rank);
	CHECK(event.imm == imm);
	return event;
}
