/* SPDX-License-Identifier: BSD-3-Clause
 * Tests what shared memory between ranks of one machine needs: memory files, and the right to open
 * those of another process. */
#include "base/env.h"
#include "tools/info/probes.h"
#include "rdma/huge.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char section[] = "Shared memory";

/* Runs in a child process: makes a memory file and sends its number through a pipe. The child ends
 * when the parent closes its end of a second pipe. */
static void be_a_peer(int tell, int stay)
{
	int fd = memfd_create("sluice-info", MFD_CLOEXEC);
	ssize_t ignored = write(tell, &fd, sizeof(fd));

	ignored = read(stay, &fd, sizeof(fd));
	(void)ignored;
	_exit(0);
}

/* Returns 0, or the errno of opening a memory file that another process of this user has made. */
static int open_of_peer(void)
{
	int tell[2], stay[2], number = -1, fd, err = EIO;
	char path[64];
	struct pollfd ready;
	pid_t child;

	if (pipe2(tell, O_CLOEXEC))
		return errno;
	if (pipe2(stay, O_CLOEXEC)) {
		err = errno;
		close(tell[0]);
		close(tell[1]);
		return err;
	}
	child = fork();
	if (child == 0) {
		close(stay[1]);
		be_a_peer(tell[1], stay[0]);
	}
	close(stay[0]);
	ready = (struct pollfd){ .fd = tell[0], .events = POLLIN };
	if (child > 0 && poll(&ready, 1, 5000) == 1 &&
	    read(tell[0], &number, sizeof(number)) == (ssize_t)sizeof(number) && number >= 0) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)child, number);
		fd = open(path, O_RDWR | O_CLOEXEC);
		err = fd < 0 ? errno : 0;
		if (fd >= 0)
			close(fd);
	}
	close(stay[1]);
	close(tell[0]);
	close(tell[1]);
	if (child > 0)
		waitpid(child, NULL, 0);
	return child < 0 ? EAGAIN : err;
}

static void name_namespace(struct report *r, const char *kind)
{
	char path[64], target[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return;
	target[n] = '\0';
	report_add(r, VERDICT_INFO, section, "namespace", NULL,
		   "%s (ranks of one machine must be in the same)", target);
}

static void name_huge_pages(struct report *r)
{
	const char *wanted = env_text("SLUICE_HUGE_PAGES");
	const int reserved = wanted && strcmp(wanted, "reserved") == 0;
	struct huge_facts facts;

	huge_look(&facts);
	if (facts.total < 0)
		report_add(r, reserved ? VERDICT_FAIL : VERDICT_INFO, section, "huge-pages",
			   reserved ? "set SLUICE_HUGE_PAGES=no" : NULL,
			   "the kernel has no huge pages of 2 MiB");
	else
		report_add(r, reserved && !facts.free ? VERDICT_FAIL : VERDICT_INFO, section,
			   "huge-pages",
			   reserved && !facts.free ?
				   "reserve some (sysctl vm.nr_hugepages), or set "
				   "SLUICE_HUGE_PAGES to transparent or no" :
				   NULL,
			   "%ld huge pages of 2 MiB are reserved, and %ld of them are free; "
			   "transparent ones for memory files: %s",
			   facts.total, facts.free,
			   facts.shmem_enabled[0] ? facts.shmem_enabled : "none");
}

void probe_shm(const struct node *node, struct report *r)
{
	int fd = memfd_create("sluice-info", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	(void)node;
	if (fd < 0) {
		report_add(r, VERDICT_FAIL, section, "shm-memory",
			   "Linux 5.3 or later is needed; allow memfd_create "
			   "in the container's seccomp profile",
			   "memfd_create: %s", strerror(errno));
		return;
	}
	close(fd);
	err = open_of_peer();
	if (err)
		report_add(r, VERDICT_FAIL, section, "shm-memory",
			   "run all ranks as one user and in one PID namespace (--pid=host for "
			   "Docker), with /proc mounted",
			   "the memory of another process of this user cannot be opened through "
			   "/proc: %s",
			   strerror(err));
	else
		report_add(r, VERDICT_OK, section, "shm-memory", NULL,
			   "memory files of other processes of this user can be opened");
	fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (fd >= 0)
		close(fd);
	report_add(r, fd >= 0 ? VERDICT_OK : VERDICT_WARN, section, "shm-death",
		   fd >= 0 ? NULL :
			     "Linux 5.3 or later is needed; allow pidfd_open in the container's "
			     "seccomp profile",
		   fd >= 0 ? "the kernel reports the end of another process (pidfd)" :
			     "pidfd_open is missing, so ranks notice the end of another rank by "
			     "polling, a little late");
	name_huge_pages(r);
	name_namespace(r, "pid");
	name_namespace(r, "user");
}
