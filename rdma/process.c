/* SPDX-License-Identifier: BSD-3-Clause
 * Processes of this machine through /proc and pidfd_open(2); see process.h. */
#include "rdma/process.h"
#include "base/error.h"
#include "sluice.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* the same number on every architecture */
#endif

/* Fields 3 (state) and 22 (start time) of /proc/PID/stat. The name in field 2 may contain spaces
 * and parentheses, so the fields are counted from the last ')'. Returns 0 or a negative errno.
 */
static int read_stat(pid_t pid, char *state_out, uint64_t *start_out)
{
	char path[48], text[1024], *field, *end;
	ssize_t n;
	int fd, i;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return n < 0 ? -errno : -ESRCH;
	text[n] = '\0';
	field = strrchr(text, ')');
	if (!field || field[1] != ' ')
		return -EPROTO;
	*state_out = field[2];
	for (i = 2; field && i < 22; i++)
		field = strchr(field + 1, ' ');
	if (!field)
		return -EPROTO;
	*start_out = strtoull(field + 1, &end, 10);
	return end == field + 1 ? -EPROTO : 0;
}

int process_identify(struct process *out)
{
	struct process me = { .pid = getpid(), .uid = (uint32_t)geteuid() };
	struct stat st;
	char state;
	int rc;

	rc = read_stat(me.pid, &state, &me.start_time);
	if (rc < 0)
		return fail(
			SLUICE_ENOSUPP,
			"cannot read /proc/%d/stat: %s; the ranks of one machine find each other "
			"through /proc: mount it",
			(int)me.pid, errno_text(-rc));
	if (stat("/proc/self/ns/pid", &st) == 0)
		me.pid_namespace = (uint64_t)st.st_ino;
	*out = me;
	return SLUICE_OK;
}

static int fail_ended(int rank, pid_t pid)
{
	return fail(SLUICE_EPEER, "rank %d's process (pid %d) has ended", rank, (int)pid);
}

static int fail_to_watch(int rank, pid_t pid, int err)
{
	switch (err) {
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return fail(SLUICE_ENOMEM,
			    "cannot watch rank %d's process (pid %d): pidfd_open: %s; raise the "
			    "limit on open files (ulimit -n)",
			    rank, (int)pid, errno_text(err));
	default: return fail_ended(rank, pid);
	}
}

/* Returns 1 if the process is in another time namespace, where its start time looks different.
 * Returns 0 if it is not, or if that is unknown. */
static int in_other_time(pid_t pid)
{
	struct stat mine, theirs;
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/ns/time", (int)pid);
	return !stat("/proc/self/ns/time", &mine) && !stat(path, &theirs) &&
	       mine.st_ino != theirs.st_ino;
}

/* Fails because the process is another one, or has ended. stat_rc is the result of read_stat(); 0
 * means that the start time differs. */
static int fail_other(const struct process *process, int rank, int stat_rc)
{
	const int pid = (int)process->pid;

	if (stat_rc < 0 && stat_rc != -ENOENT && stat_rc != -ESRCH)
		return fail(SLUICE_EDEVICE, "cannot read /proc/%d/stat of rank %d: %s", pid, rank,
			    errno_text(-stat_rc));
	if (!stat_rc && in_other_time(process->pid))
		return fail(SLUICE_ENOSUPP,
			    "rank %d (pid %d) runs in another time namespace of this machine, "
			    "where clocks differ; start the ranks of a node in one container, or "
			    "share its time namespace",
			    rank, pid);
	return fail(SLUICE_EPEER, "rank %d's process (pid %d) has ended%s", rank, pid,
		    stat_rc < 0 ? ", or /proc hides it (mount option hidepid)" :
				  " and its pid belongs to another one now");
}

int process_watch(const struct process *process, int rank, int *pidfd_out)
{
	struct process me;
	uint64_t start;
	char state;
	int pidfd, rc;

	rc = process_identify(&me);
	if (rc < 0)
		return rc;
	if (me.pid_namespace != 0 && process->pid_namespace != 0 &&
	    me.pid_namespace != process->pid_namespace)
		return fail(
			SLUICE_ENOSUPP,
			"rank %d (pid %d there) runs in another pid namespace of this machine; "
			"start the ranks of a node in one container, or share its pid namespace",
			rank, (int)process->pid);
	pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	if (pidfd < 0 && errno != ENOSYS && errno != EPERM) /* old sandboxes return EPERM */
		return fail_to_watch(rank, process->pid, errno);
	/* This must follow pidfd_open(). If the start time matches now, the pidfd belongs to that
	 * process. */
	rc = read_stat(process->pid, &state, &start);
	if (rc < 0 || start != process->start_time) {
		if (pidfd >= 0)
			close(pidfd);
		return fail_other(process, rank, rc);
	}
	*pidfd_out = pidfd;
	return SLUICE_OK;
}

int process_ended(const struct process *process)
{
	uint64_t start;
	char state;
	int rc = read_stat(process->pid, &state, &start);

	if (rc < 0)
		return rc == -ENOENT || rc == -ESRCH;
	return start != process->start_time || state == 'Z' || state == 'X';
}

int process_open_file(pid_t pid, int rank, int fd, int flags, const char *what, int *fd_out)
{
	char path[64];
	int opened, err;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	/* The peer chose the number, which may name any file. The file is therefore opened
	 * non-blocking, and never as a controlling terminal. */
	opened = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (opened >= 0) {
		*fd_out = opened;
		return SLUICE_OK;
	}
	err = errno;
	switch (err) {
	case ENOENT:
	case ESRCH:
		return fail(SLUICE_EPEER,
			    "cannot open the %s of rank %d (%s): %s; its process has ended or "
			    "closed it, or runs in another pid namespace (container)",
			    what, rank, path, errno_text(err));
	case EACCES:
	case EPERM:
		return fail(SLUICE_EDEVICE,
			    "cannot open the %s of rank %d (%s): %s; all ranks of a node must run "
			    "as one user, in one user namespace (container), and not set-user-id",
			    what, rank, path, errno_text(err));
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return fail(SLUICE_ENOMEM,
			    "cannot open the %s of rank %d (%s): %s; raise the limit on open files "
			    "(ulimit -n)",
			    what, rank, path, errno_text(err));
	default:
		return fail(SLUICE_EDEVICE, "cannot open the %s of rank %d (%s): %s", what, rank,
			    path, errno_text(err));
	}
}
