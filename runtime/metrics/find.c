/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the pages: open files of this user's processes, by their name. The kernel lets only the
 * user of a process, and root, look at its files. */
#include "metrics/seen.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 64, LINE_BYTES = 256, PAGES_MOST = 4096 };
static const char file_name[] = "/memfd:" PAGE_FILE ":";

/* Finds the line of /proc/PID/status that begins with this name. Returns NULL, or the text after
 * it. */
static const char *status_line(pid_t pid, const char *name, char line[LINE_BYTES])
{
	char path[PATH_BYTES];
	FILE *file;
	const char *found = NULL;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return NULL;
	while (!found && fgets(line, LINE_BYTES, file))
		if (!strncmp(line, name, strlen(name)))
			found = line + strlen(name);
	fclose(file);
	return found;
}

/* Returns the number of a process in its own namespace, where it differs in a container. */
static int own_pid(pid_t pid)
{
	char line[LINE_BYTES];
	const char *numbers = status_line(pid, "NSpid:", line), *last;

	if (!numbers)
		return (int)pid;
	last = strrchr(numbers, '\t');
	return (int)strtol(last ? last : numbers, NULL, 10);
}

static char state_of(pid_t pid)
{
	char line[LINE_BYTES];
	const char *state = status_line(pid, "State:", line);

	if (state)
		state += strspn(state, " \t");
	return state && isalpha((unsigned char)*state) ? *state : '?';
}

/* A file that cannot shrink can be mapped without the danger of SIGBUS. */
static const char *copy_file(int fd, struct seen_rank *out)
{
	struct stat status;
	const int seals = fcntl(fd, F_GET_SEALS);
	const char *why;
	void *page;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &status) ||
	    status.st_size < (off_t)sizeof(struct page_head) || status.st_size > 1 << 24)
		return "its file is not sealed, or has an impossible size";
	page = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return "it cannot be mapped";
	why = seen_copy(page, (size_t)status.st_size, out);
	munmap(page, (size_t)status.st_size);
	out->file = status.st_ino;
	return why;
}

static int is_wanted(const struct page_who *who, const char *job)
{
	const size_t n = strlen(who->job);

	return !job || !strcmp(job, *who->job ? who->job : "-") ||
	       (n && !strncmp(job, who->job, n) && job[n] == '.' &&
		!strcmp(job + n + 1, who->step));
}

/* Adds the page in this file of a process. Returns 0, or -1 if there is no memory. */
static int add_page(pid_t pid, const char *path, const char *job, struct seen *seen)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const char *why;
	struct seen_rank *more;

	if (fd < 0)
		return 0;
	more = realloc(seen->ranks, (seen->n + 1) * sizeof(*more));
	if (!more) {
		close(fd);
		return -1;
	}
	seen->ranks = more;
	more += seen->n;
	why = copy_file(fd, more);
	close(fd);
	if (why) {
		seen->refused++;
		seen->why = why;
		return 0;
	}
	/* A forked child of the rank also holds the file, even after the rank has ended. */
	if (more->who.pid != own_pid(pid) || !is_wanted(&more->who, job))
		return 0;
	more->pid = pid;
	more->state = state_of(pid);
	seen->n++;
	return 0;
}

static int look_at(pid_t pid, const char *job, struct seen *seen)
{
	char path[PATH_BYTES], target[LINE_BYTES];
	struct dirent *entry;
	DIR *files;
	int rc = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	files = opendir(path);
	if (!files)
		return 0;
	while (!rc && seen->n < PAGES_MOST && (entry = readdir(files)) != NULL) {
		ssize_t n = readlinkat(dirfd(files), entry->d_name, target, sizeof(target) - 1);

		if (n <= 0)
			continue;
		target[n] = '\0';
		if (strncmp(target, file_name, sizeof(file_name) - 1))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", (int)pid, entry->d_name);
		rc = add_page(pid, path, job, seen);
	}
	closedir(files);
	return rc;
}

static int by_place(const void *a, const void *b)
{
	const struct page_who *x = &((const struct seen_rank *)a)->who,
			      *y = &((const struct seen_rank *)b)->who;
	int order = strverscmp(x->job, y->job);

	if (!order)
		order = strverscmp(x->step, y->step);
	if (!order) /* jobs without Slurm have no other name */
		order = (x->meeting > y->meeting) - (x->meeting < y->meeting);
	if (!order)
		order = strverscmp(x->node, y->node);
	return order ? order : x->rank - y->rank;
}

void seen_sort(struct seen *seen)
{
	if (seen->n)
		qsort(seen->ranks, seen->n, sizeof(*seen->ranks), by_place);
}

int seen_find(const char *job, struct seen *out)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	int rc = 0;

	*out = (struct seen){ 0 };
	if (!processes)
		return -1;
	while (!rc && (entry = readdir(processes)) != NULL) {
		struct stat status;

		if (!isdigit((unsigned char)entry->d_name[0]) ||
		    fstatat(dirfd(processes), entry->d_name, &status, 0) ||
		    status.st_uid != geteuid())
			continue;
		rc = look_at((pid_t)strtol(entry->d_name, NULL, 10), job, out);
	}
	closedir(processes);
	seen_sort(out);
	return rc;
}

void seen_free(struct seen *seen)
{
	free(seen->ranks);
	*seen = (struct seen){ 0 };
}

int seen_together(const struct seen_rank *a, const struct seen_rank *b)
{
	return !strcmp(a->who.job, b->who.job) && !strcmp(a->who.step, b->who.step) &&
	       a->who.meeting == b->who.meeting;
}

const struct seen_rank *seen_before(const struct seen *seen, const struct seen_rank *rank)
{
	for (size_t i = 0; i < seen->n; i++)
		if (seen->ranks[i].pid == rank->pid && seen->ranks[i].file == rank->file &&
		    !strcmp(seen->ranks[i].who.node, rank->who.node))
			return &seen->ranks[i];
	return NULL;
}
