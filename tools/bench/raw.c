/* SPDX-License-Identifier: BSD-3-Clause
 * See raw.h. */
#include "tools/bench/raw.h"
#include "base/clock.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The data by which the second rank finds the first rank's memory file. */
struct invitation {
	int64_t pid, fd;
	char boot_id[40];
	uint64_t inode;
};

static void invite(struct invitation *mine, int fd)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	struct stat st = { 0 };

	memset(mine, 0, sizeof(*mine));
	if (f) {
		if (!fgets(mine->boot_id, sizeof(mine->boot_id), f))
			mine->boot_id[0] = '\0';
		fclose(f);
	}
	mine->pid = getpid();
	mine->fd = fd;
	if (fd >= 0 && !fstat(fd, &st))
		mine->inode = st.st_ino;
}

/* Returns -1 if the memory cannot be reached. */
static int accept_invitation(const struct invitation *from, const struct invitation *mine)
{
	char path[64];
	struct stat st;
	int fd;

	if (from->fd < 0 || !mine->boot_id[0] || strcmp(from->boot_id, mine->boot_id))
		return -1;
	snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long)from->pid,
		 (long long)from->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) || st.st_ino != from->inode)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static uint8_t *map(int fd, size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int raw_open(struct raw *raw, struct pair *pair)
{
	int workers = sluice_workers(pair->job), fd = -1, rc;
	struct invitation mine, *all = calloc((size_t)workers, sizeof(*all));
	double mapped = 0;

	*raw = (struct raw){ .half = pair->half };
	if (pair->role == ROLE_FIRST) {
		fd = memfd_create("sluice-bench", MFD_CLOEXEC);
		if (fd >= 0 && ftruncate(fd, (off_t)(2 * raw->half))) {
			close(fd);
			fd = -1;
		}
	}
	invite(&mine, fd);
	rc = all ? sluice_gather(pair->job, &mine, sizeof(mine), all) : SLUICE_ENOMEM;
	if (!rc && pair->role == ROLE_SECOND)
		fd = accept_invitation(&all[pair->first], &mine);
	if (!rc && fd >= 0)
		raw->shared = map(fd, 2 * raw->half);
	/* The buffer is aligned like the shared memory. If their addresses differed by a few bytes
	 * modulo 4096, loads would wait for stores. */
	raw->private = pair->role == ROLE_BYSTANDER ? NULL : aligned_alloc(4096, raw->half);
	if (raw->shared && raw->private) {
		memset(raw->private, 1, raw->half);
		if (pair->role == ROLE_FIRST)
			memset(raw->shared, 1, 2 * raw->half);
		mapped = 1;
	}
	if (!rc)
		rc = sluice_sum(pair->job, &mapped, 1);
	if (raw->shared && mapped != 2) {
		munmap(raw->shared, 2 * raw->half);
		raw->shared = NULL;
	}
	if (fd >= 0)
		close(fd);
	free(all);
	/* Also fills the page tables of the second rank. */
	if (raw->shared && pair->role == ROLE_SECOND)
		raw_copy(raw, raw->half, 1, 1);
	return rc ? rc : sluice_barrier(pair->job);
}

void raw_close(struct raw *raw)
{
	if (raw->shared)
		munmap(raw->shared, 2 * raw->half);
	free(raw->private);
	*raw = (struct raw){ 0 };
}

int raw_ping_pong(struct raw *raw, struct pair *pair, size_t bytes, uint64_t rounds,
		  struct samples *us)
{
	int first = pair->role == ROLE_FIRST;
	uint8_t *mine = raw->shared + (first ? 0 : raw->half);
	uint8_t *theirs = raw->shared + (first ? raw->half : 0);
	int rc = 0;

	if (pair->role == ROLE_BYSTANDER)
		return 0;
	for (uint64_t round = 1; round <= rounds && !rc; round++) {
		uint64_t began = now_ns();

		if (first) {
			stamp_write(raw->private, bytes, round);
			memcpy(mine, raw->private, bytes);
		}
		rc = stamp_poll(pair, theirs, bytes, round);
		if (!rc && !first) {
			stamp_write(raw->private, bytes, round);
			memcpy(mine, raw->private, bytes);
		}
		samples_add(us, (double)(now_ns() - began) / 2000);
	}
	return rc;
}

double raw_copy(struct raw *raw, size_t bytes, uint64_t count, int out)
{
	uint64_t began = now_ns();

	for (uint64_t i = 0; i < count; i++) {
		memcpy(out ? raw->shared : raw->private, out ? raw->private : raw->shared, bytes);
		__asm__ volatile("" ::: "memory"); /* keeps the compiler from skipping a copy */
	}
	return (double)(now_ns() - began) * 1e-9;
}
