/* SPDX-License-Identifier: BSD-3-Clause
 * The shm transport when the process at the other end is killed, leaves, or was never there: its
 * last messages come first, its end is reported once, sleeping ranks wake, and no other rank
 * dies. */
#include "base/clock.h"
#include "rdma/process.h"
#include "rdma/transport.h"
#include "rdma/wakeup.h"
#include "rdma_pair.h"
#include "sluice.h"
#include "cases.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct transport_ops *const ops = &shm_transport;

enum { LAST_WORDS = 6 };

static void wait_for_killer(struct side *side)
{
	meet(side);
	for (;;)
		pause();
}

static int speaks_then_is_killed(struct side *side)
{
	struct region *inbox = new_region(4096, REGION_WRITE), *local = new_region(4096, 0);
	struct remote *to = swap_regions(side, inbox);
	struct transfer x = transfer_of(TRANSFER_PUT_NOTIFY, to, 0, local, 4096);
	uint32_t i;

	fill(local->base, 4096, 5);
	for (i = 0; i < LAST_WORDS; i++) {
		x.imm = i;
		post_now(side->e, x);
	}
	wait_for_killer(side);
	return 1;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	CHECK(WTERMSIG(child_status(child)) == SIGKILL);
}

static int gone_within(struct side *side, int milliseconds)
{
	uint64_t until = now_ns() + (uint64_t)milliseconds * 1000000;
	struct event event;
	int n = 0;

	while (now_ns() < until)
		n += ops->poll(side->t, &event, 1);
	return n;
}

TEST(peer__killed__last_words_come_first_then_gone_once)
{
	struct region *inbox, *local;
	struct remote *to;
	struct transfer x;
	struct event event;
	struct side side;
	uint32_t i;
	pid_t child;

	quiet_log();
	child = pair_start(&side, 8, speaks_then_is_killed);
	inbox = new_region(4096, REGION_WRITE);
	local = new_region(4096, 0);
	to = swap_regions(&side, inbox);
	meet(&side);
	end_child(child);
	for (i = 0; i < LAST_WORDS; i++)
		next_imm(&side, i);
	CHECK(filled(inbox->base, 4096, 5));
	event = next_event(side.t);
	CHECK(event.kind == EVENT_GONE);
	CHECK(event.peer == 1);
	CHECK(strcmp(event.text, "its process ended") == 0);
	CHECK(gone_within(&side, 30) == 0);
	/* After a peer's death, the fd must not stay readable and the peer must not be used. */
	CHECK(ops->sleep.arm(side.t) == 0);
	CHECK(!readable(ops->sleep.fd(side.t), 0));
	ops->sleep.disarm(side.t);
	x = transfer_of(TRANSFER_PUT_NOTIFY, to, 0, local, 8);
	CHECK(ops->post(side.e, &x) == SLUICE_EPEER);
	CHECK(((volatile uint8_t *)local->base)[0] == 0);
	ops->remote_close(&to);
	region_close(&inbox);
	region_close(&local);
	side_close(&side);
	CHECK(mappings_of("memfd:sluice-") == 0);
}

static int is_killed_later(struct side *side)
{
	meet(side);
	usleep(50000);
	raise(SIGKILL);
	return 1;
}

TEST(peer__killed_while_we_sleep__wakes)
{
	struct event event;
	struct side side;
	pid_t child;

	child = pair_start(&side, 8, is_killed_later);
	meet(&side);
	do { /* without a pidfd the sleep may end before the peer */
		CHECK(ops->sleep.arm(side.t) == 0);
		CHECK(readable(ops->sleep.fd(side.t), DEADLINE_MS));
		ops->sleep.disarm(side.t);
	} while (ops->poll(side.t, &event, 1) == 0); /* polls once, as disarm() requires */
	CHECK(event.kind == EVENT_GONE);
	CHECK(ops->poll(side.t, &event, 1) == 0);
	CHECK(WTERMSIG(child_status(child)) == SIGKILL);
	side_close(&side);
}

TEST(peer__killed_while_we_poll__is_noticed)
{
	struct event event;
	struct side side;
	pid_t child;
	uint64_t deadline;

	child = pair_start(&side, 8, is_killed_later);
	meet(&side);
	deadline = now_ns() + (uint64_t)DEADLINE_MS * 1000000;
	while (ops->poll(side.t, &event, 1) == 0)
		CHECK(now_ns() < deadline);
	CHECK(event.kind == EVENT_GONE);
	CHECK(WTERMSIG(child_status(child)) == SIGKILL);
	side_close(&side);
}

enum { NO_SECCOMP = 77 };

/* Makes pidfd_open(2) fail with ENOSYS, as on an older kernel. */
static void forbid_pidfd_open(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 434, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(NO_SECCOMP);
	CHECK(syscall(434, getpid(), 0) == -1 && errno == ENOSYS);
}

TEST(peer__killed_and_no_pidfd_open__is_noticed_asleep_and_polling)
{
	pid_t sandboxed = fork();
	int status;

	if (sandboxed == 0) {
		quiet_log();
		forbid_pidfd_open();
		peer__killed_while_we_sleep__wakes(state);
		peer__killed_while_we_poll__is_noticed(state);
		CHECK(quiet_log() == 2); /* the user was told once for each transport */
		_exit(0);
	}
	status = child_status(sandboxed);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SECCOMP) {
		print_message("skipped: this kernel installs no seccomp filter\n");
		skip();
	}
	CHECK(status == 0);
}

static int sleeps_then_is_killed(struct side *side)
{
	struct region *inbox = new_region(4096, REGION_WRITE);
	struct remote *to = swap_regions(side, inbox);

	CHECK(to != NULL);
	CHECK(ops->sleep.arm(side->t) == 0);
	wait_for_killer(side);
	return 1;
}

TEST(notify__receiver_died_asleep__gives_no_SIGPIPE)
{
	struct region *local;
	struct remote *to;
	struct side side;
	pid_t child;

	CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	child = pair_start(&side, 8, sleeps_then_is_killed);
	local = new_region(4096, REGION_WRITE);
	to = swap_regions(&side, local);
	meet(&side);
	end_child(child);
	/* The death was not polled yet, and the dead peer's flag still says that it sleeps: this
	 * post writes to its pipe. */
	post_now(side.e, transfer_of(TRANSFER_PUT_NOTIFY, to, 0, local, 4096));
	post_now(side.e, transfer_of(TRANSFER_PUT_NOTIFY, to, 0, local, 4096));
	CHECK(next_event(side.t).kind == EVENT_GONE);
	ops->remote_close(&to);
	region_close(&local);
	side_close(&side);
}

static int leaves(struct side *side)
{
	static struct region *mine; /* static, because it stays open */
	struct remote *theirs;

	mine = new_region(4096, REGION_READ);
	theirs = swap_regions(side, mine);
	fill(mine->base, 4096, 3);
	ops->remote_close(&theirs);
	meet(side);
	meet(side);
	return 0; /* the region is open: exit must clean up */
}

TEST(peer__ended__its_memory_stays_until_closed)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES] = { 0 };
	struct region *mine;
	struct remote *theirs, *late = NULL;
	struct transfer x;
	struct event event;
	struct side side;
	pid_t child;

	quiet_log();
	child = pair_start(&side, 8, leaves);
	mine = new_region(4096, REGION_WRITE);
	theirs = swap_regions(&side, mine);
	meet(&side);
	meet(&side);
	CHECK(child_status(child) == 0);
	x = transfer_of(TRANSFER_GET, theirs, 0, mine, 4096);
	CHECK(ops->post(side.e, &x) == 0);
	CHECK(filled(mine->base, 4096, 3));
	CHECK(ops->poll(side.t, &event, 1) == 1 && event.kind == EVENT_DONE);
	CHECK(next_event(side.t).kind == EVENT_GONE);
	CHECK(ops->post(side.e, &x) == SLUICE_EPEER);
	CHECK(ops->remote_open(side.e, descriptor, &late) == SLUICE_EPEER);
	ops->remote_close(&theirs);
	region_close(&mine);
	side_close(&side);
	CHECK(mappings_of("memfd:sluice-") == 0);
}

struct dead_record {
	uint8_t bytes[TRANSPORT_RECORD_BYTES];
	size_t len;
};

TEST(connect__process_ended_since__is_EPEER)
{
	struct transport_config config = { .rank = 0, .size = 2, .queue_depth = 1 };
	struct transport *t = NULL;
	struct endpoint *e = NULL;
	struct dead_record record = { .len = 0 };
	int ends[2], files = open_files();
	pid_t child;

	quiet_log();
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	child = fork();
	if (child == 0) {
		config.rank = 1;
		if (ops->open(&config, &t) < 0 || ops->record(t, record.bytes, &record.len) < 0 ||
		    write(ends[1], &record, sizeof(record)) != (ssize_t)sizeof(record))
			_exit(1);
		_exit(0);
	}
	CHECK(child_status(child) == 0);
	CHECK(read(ends[0], &record, sizeof(record)) == (ssize_t)sizeof(record));
	close(ends[0]);
	close(ends[1]);
	CHECK(ops->open(&config, &t) == 0);
	CHECK(ops->connect(t, 1, record.bytes, record.len, &e) == SLUICE_EPEER);
	CHECK(strstr(sluice_last_error(), "ended") != NULL);
	ops->close(&t);
	CHECK(open_files() == files);
}

TEST(watch__other_start_time__is_a_later_process)
{
	struct process me;
	int pidfd = -1;

	quiet_log();
	CHECK(process_identify(&me) == 0);
	me.start_time++;
	CHECK(process_watch(&me, 1, &pidfd) == SLUICE_EPEER);
	CHECK(strstr(sluice_last_error(), "its pid belongs to another one now") != NULL);
}

TEST(watch__descriptor_that_epoll_refuses__rank_is_named)
{
	struct wakeup w;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	quiet_log();
	CHECK(fd >= 0 && wakeup_open(&w, WAKEUP_EVENT, "shm") == 0);
	CHECK(wakeup_watch(&w, fd, 3, 0) == SLUICE_EDEVICE);
	CHECK(strstr(sluice_last_error(), "shm: epoll_ctl for rank 3: ") != NULL);
	CHECK(wakeup_watch(&w, fd, WAKEUP_NO_ID, 0) == SLUICE_EDEVICE);
	CHECK(strstr(sluice_last_error(), "shm: epoll_ctl: ") != NULL);
	wakeup_close(&w);
	close(fd);
}

/* Starts a process whose boot-time clock is 1000 s ahead; *who receives its identity. Returns 0 if
 * that is not permitted here. */
static int start_in_other_time(struct process *who, pid_t *child, int *hold)
{
	int ends[2], held[2];

	CHECK(pipe2(ends, O_CLOEXEC) == 0 && pipe2(held, O_CLOEXEC) == 0);
	*child = fork();
	if (*child == 0) {
		static const char ahead[] = "boottime 1000 0";
		char end;
		close(held[1]);
		if (unshare(CLONE_NEWTIME) && unshare(CLONE_NEWUSER | CLONE_NEWTIME))
			_exit(0);
		const int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, ahead, strlen(ahead)) < 0)
			_exit(0);
		close(fd);
		const pid_t other = fork(); /* children are in the new time namespace */
		if (other == 0) {
			const int told = !process_identify(who) &&
					 write(ends[1], who, sizeof *who) > 0;
			_exit(told && read(held[0], &end, 1) < 0); /* waits for the end of the
								      test */
		}
		waitpid(other, NULL, 0);
		_exit(0);
	}
	close(ends[1]);
	close(held[0]);
	*hold = held[1];
	const ssize_t got = read(ends[0], who, sizeof *who);
	close(ends[0]);
	return got == (ssize_t)sizeof *who;
}

TEST(watch__process_in_another_time_namespace__is_not_called_dead)
{
	struct process other;
	pid_t child;
	int pidfd = -1, hold, rc = 0, started;

	quiet_log();
	started = start_in_other_time(&other, &child, &hold);
	if (started)
		rc = process_watch(&other, 1, &pidfd);
	close(hold);
	CHECK(child_status(child) == 0);
	if (!started) {
		print_message("skipped: time namespaces are not permitted here\n");
		skip();
	}
	CHECK(rc == SLUICE_ENOSUPP);
	CHECK(strstr(sluice_last_error(), "runs in another time namespace") != NULL);
}
