/* SPDX-License-Identifier: BSD-3-Clause
 * See siblings.h. Slurm's step daemon forks all tasks of a node before the first of them runs, and
 * each task has PMIX_NAMESPACE and PMIX_RANK in its initial environment. A rank has therefore ended
 * if the daemon has no living child with its number. A child that does not show its number may be
 * any rank, and then no rank is reported. */
#include "slurm/siblings.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ANCESTORS = 64 };

/* Reads /proc/PID/NAME and appends a NUL; the caller frees the text. Returns NULL if the file
 * cannot be read. */
static char *read_proc(pid_t pid, const char *name, size_t *bytes_out)
{
	char path[64], *text = NULL, *grown;
	size_t used = 0, room = 4096;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	do {
		room *= 2;
		grown = realloc(text, room);
		n = grown ? 0 : -1;
		text = grown ? grown : text;
		while (grown && used < room - 1 && (n = read(fd, text + used, room - 1 - used)) > 0)
			used += (size_t)n;
	} while (n > 0);
	close(fd);
	if (n < 0) {
		free(text);
		return NULL;
	}
	text[used] = '\0';
	*bytes_out = used;
	return text;
}

/* Reads a process's state and parent. Returns 0, or -1 if the process does not exist. */
static int look_at_process(pid_t pid, char *state, pid_t *parent)
{
	size_t bytes;
	char *text = read_proc(pid, "stat", &bytes);
	/* The name may contain spaces and parentheses, so the fields are counted from after the
	 * last ')'. */
	char *behind = text ? strrchr(text, ')') : NULL;
	int number, rc = behind && sscanf(behind + 1, " %c %d", state, &number) == 2 ? 0 : -1;

	if (!rc)
		*parent = (pid_t)number;
	free(text);
	return rc;
}

/* Returns the number that text contains, or -1 if text is not a number. */
static int parse_number(const char *text)
{
	char *end;
	long n;

	if (!isdigit((unsigned char)*text))
		return -1;
	n = strtol(text, &end, 10);
	return *end || n > INT_MAX ? -1 : (int)n;
}

/* Returns the rank that the launcher gave to the process, or -1 if its environment names no rank of
 * this namespace. */
static int rank_of(pid_t pid, const char *in_namespace)
{
	size_t bytes;
	char *text = read_proc(pid, "environ", &bytes);
	int rank = -1, ours = 0;

	for (char *at = text; text && at < text + bytes; at += strlen(at) + 1) {
		if (!strncmp(at, "PMIX_RANK=", 10))
			rank = parse_number(at + 10);
		if (!strncmp(at, "PMIX_NAMESPACE=", 15))
			ours = !strcmp(at + 15, in_namespace);
	}
	free(text);
	return ours ? rank : -1;
}

/* Finds the launcher's child process to which this process belongs: this process, or an ancestor if
 * a script started this process. Sets task and launcher. Returns 0 or -1. */
static int find_task(const char *in_namespace, int self, pid_t *task, pid_t *launcher)
{
	char state;

	*task = getpid();
	for (int i = 0; i < MOST_ANCESTORS; i++) {
		if (look_at_process(*task, &state, launcher) || *launcher <= 1)
			return -1;
		if (rank_of(*launcher, in_namespace) != self)
			return 0;
		*task = *launcher;
	}
	return -1;
}

/* Marks the ranks whose processes, children of the launcher, are alive. Returns -1 if one of them
 * shows no rank. */
static int mark_living(const char *in_namespace, pid_t launcher, pid_t task, char *living, int most)
{
	DIR *all = opendir("/proc");
	struct dirent *entry;
	int rc = all ? 0 : -1;

	while (!rc && (entry = readdir(all)) != NULL) {
		pid_t pid = (pid_t)parse_number(entry->d_name), parent;
		char state;
		int rank;

		if (pid <= 0 || pid == task || look_at_process(pid, &state, &parent) ||
		    parent != launcher || state == 'Z' || state == 'X')
			continue;
		rank = rank_of(pid, in_namespace);
		if (rank >= 0 && rank <= most)
			living[rank] = 1;
		else if (!look_at_process(pid, &state, &parent) && state != 'Z' && state != 'X')
			rc = -1;
	}
	if (all)
		closedir(all);
	return rc;
}

int siblings_ended(const char *in_namespace, const char *local, int self)
{
	pid_t task, launcher;
	int most = self, ended = -1;
	char *living, *list, *rest, *word;

	if (find_task(in_namespace, self, &task, &launcher))
		return -1;
	list = rest = strdup(local);
	while (rest && (word = strsep(&rest, ",")) != NULL)
		most = parse_number(word) > most ? parse_number(word) : most;
	free(list);
	living = calloc((size_t)most + 1, 1);
	list = rest = strdup(local);
	if (living && list && !mark_living(in_namespace, launcher, task, living, most)) {
		living[self] = 1;
		while ((word = strsep(&rest, ",")) != NULL) {
			int rank = parse_number(word);

			if (rank >= 0 && !living[rank] && (ended < 0 || rank < ended))
				ended = rank;
		}
	}
	free(living);
	free(list);
	return ended;
}
