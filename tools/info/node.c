/* SPDX-License-Identifier: BSD-3-Clause
 * See node.h. */
#include "tools/info/node.h"
#include "base/clock.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t ask_ns = 5000000000;
enum { NOT_IN_PATH = 127 };

void node_path(const struct node *node, const char *path, char out[LINE_BYTES])
{
	snprintf(out, LINE_BYTES, "%s%s", node->root, path);
}

static void path_of(const struct node *node, char out[LINE_BYTES], const char *format,
		    va_list arguments)
{
	size_t used = (size_t)snprintf(out, LINE_BYTES, "%s", node->root);

	if (used < LINE_BYTES)
		vsnprintf(out + used, LINE_BYTES - used, format, arguments);
}

static void trim(char *line)
{
	size_t n = strlen(line);

	while (n && isspace((unsigned char)line[n - 1]))
		line[--n] = '\0';
}

int node_line(const struct node *node, char line[LINE_BYTES], const char *format, ...)
{
	char path[LINE_BYTES], text[LINE_BYTES] = "";
	va_list arguments;
	FILE *file;

	va_start(arguments, format);
	path_of(node, path, format, arguments);
	va_end(arguments);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	trim(text);
	if (!text[0])
		return -1;
	memcpy(line, text, sizeof(text));
	return 0;
}

int node_field(const struct node *node, const char *path, const char *key, char value[LINE_BYTES])
{
	char whole[LINE_BYTES], line[LINE_BYTES];
	size_t n = strlen(key);
	int rc = -1;
	FILE *file;

	node_path(node, path, whole);
	file = fopen(whole, "re");
	if (!file)
		return -1;
	while (rc && fgets(line, sizeof(line), file)) {
		const char *at = line;

		while (isspace((unsigned char)*at))
			at++;
		if (strncasecmp(at, key, n))
			continue;
		at += n;
		at += strspn(at, " \t:=");
		snprintf(value, LINE_BYTES, "%s", at);
		trim(value);
		rc = 0;
	}
	fclose(file);
	return rc;
}

int node_exists(const struct node *node, const char *format, ...)
{
	char path[LINE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	path_of(node, path, format, arguments);
	va_end(arguments);
	return access(path, F_OK) == 0;
}

int node_may_open(const struct node *node, const char *path)
{
	char whole[LINE_BYTES];

	node_path(node, path, whole);
	return access(whole, R_OK | W_OK) == 0;
}

/* Sorts "mlx5_2" before "mlx5_10", and "2" before "10". */
static int by_name(const void *a, const void *b)
{
	return strverscmp(a, b);
}

void node_list(const struct node *node, struct names *names, const char *format, ...)
{
	char path[LINE_BYTES];
	struct dirent *entry;
	va_list arguments;
	DIR *dir;

	names->n = 0;
	va_start(arguments, format);
	path_of(node, path, format, arguments);
	va_end(arguments);
	dir = opendir(path);
	if (!dir)
		return;
	while (names->n < NAMES_MAX && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			snprintf(names->name[names->n++], sizeof(names->name[0]), "%.63s",
				 entry->d_name);
	closedir(dir);
	qsort(names->name, names->n, sizeof(names->name[0]), by_name);
}

/* Reads until the end of the stream or the deadline. */
static int read_until(int fd, char *out, size_t capacity, uint64_t deadline)
{
	size_t used = 0;

	for (;;) {
		uint64_t now = now_ns();
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		char drain[256];
		ssize_t n;

		if (now >= deadline)
			return -1;
		if (poll(&ready, 1, (int)((deadline - now) / 1000000 + 1)) <= 0)
			continue;
		n = used + 1 < capacity ? read(fd, out + used, capacity - used - 1) :
					  read(fd, drain, sizeof(drain));
		if (n <= 0)
			return n == 0 ? 0 : -1;
		if (used + 1 < capacity)
			used += (size_t)n;
		out[used] = '\0';
	}
}

enum asked node_ask(const struct node *node, const char *const *arguments, char *out,
		    size_t capacity)
{
	int ends[2], status = -1, rc;
	pid_t child;

	out[0] = '\0';
	if (*node->root)
		return ASKED_ABSENT;
	if (pipe2(ends, O_CLOEXEC))
		return ASKED_SILENT;
	child = fork();
	if (child == 0) {
		int null = open("/dev/null", O_RDONLY);

		dup2(null, STDIN_FILENO);
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		execvp(arguments[0],
		       (char *const *)(uintptr_t)arguments); /* execvp() does not write to them */
		_exit(NOT_IN_PATH);
	}
	close(ends[1]);
	rc = child < 0 ? -1 : read_until(ends[0], out, capacity, now_ns() + ask_ns);
	close(ends[0]);
	if (child < 0)
		return ASKED_SILENT;
	if (rc)
		kill(child, SIGKILL);
	waitpid(child, &status, 0);
	if (rc || !WIFEXITED(status))
		return ASKED_SILENT;
	if (WEXITSTATUS(status) == NOT_IN_PATH && !*out)
		return ASKED_ABSENT;
	return WEXITSTATUS(status) == 0 ? ASKED_ANSWERED : ASKED_FAILED;
}

const char *node_name(void)
{
	static char name[HOST_NAME_MAX + 1];
	const char *slurm = getenv("SLURMD_NODENAME");

	if (slurm && *slurm)
		snprintf(name, sizeof(name), "%s", slurm);
	else if (gethostname(name, sizeof(name) - 1))
		snprintf(name, sizeof(name), "?");
	return name;
}
