/* SPDX-License-Identifier: BSD-3-Clause
 * See pool.h. A process writes its result to a pipe, which has room for it. */
#include "tests/reproduce/pool.h"
#include "tests/reproduce/memory.h"
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
	pid_t pid; /* 0: not running */
	int from;  /* the reading end of its pipe */
};

/* A result is below PIPE_BUF, so it is written whole. */
static void write_result(const struct run *run, int to)
{
	struct result result;

	result.value = objective_after(run, &result.out);
	fprintf(stderr, "%s, seed %u: %.4f in %.0f s\n", run->label, run->seed, result.value,
		result.out.seconds);
	_exit(write(to, &result, sizeof result) != sizeof result);
}

static int start(const struct run *run, struct child *child)
{
	int ends[2];

	if (pipe(ends))
		return -1;
	fflush(NULL);
	child->pid = fork();
	if (!child->pid)
		write_result(run, ends[1]);
	close(ends[1]);
	child->from = ends[0];
	if (child->pid < 0)
		close(ends[0]);
	return child->pid < 0 ? -1 : 0;
}

static void fail_run(struct result *result, const char *why, int number)
{
	*result = (struct result){ .out = { .rc = -1, .offered = 1 }, .value = NAN };
	snprintf(result->out.why, sizeof result->out.why, "%s %d", why, number);
}

/* Waits for one of the processes, and reads its result. */
static void end(struct child *children, struct result *results, size_t n)
{
	int status = 0;
	const pid_t pid = wait(&status);

	for (size_t i = 0; i < n; i++) {
		if (children[i].pid <= 0 || (pid > 0 && children[i].pid != pid))
			continue;
		if (pid < 0 ||
		    read(children[i].from, &results[i], sizeof *results) != sizeof *results)
			fail_run(&results[i],
				 WIFSIGNALED(status) ? "its process ended by signal" :
						       "its process ended with status",
				 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		close(children[i].from);
		children[i].pid = 0;
		return;
	}
}

void pool_run(const struct run *const *runs, struct result *results, size_t n, int jobs)
{
	struct child *children = zeroed(n, sizeof *children);
	size_t running = 0;

	for (size_t i = 0; i < n; i++) {
		if (running == (size_t)jobs) {
			end(children, results, i);
			running--;
		}
		if (start(runs[i], &children[i])) {
			fail_run(&results[i], "its process could not be started: process", (int)i);
			children[i].pid = 0;
		} else {
			running++;
		}
	}
	for (; running; running--)
		end(children, results, n);
	free(children);
}
