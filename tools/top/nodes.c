/* SPDX-License-Identifier: BSD-3-Clause
 * See nodes.h. */
#include "tools/top/nodes.h"
#include "base/clock.h"
#include "tools/top/relay.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES_MOST = 4096, PIPE_BYTES = 1 << 20, JOB_BYTES = 32, CHILD_FAILED = 127 };
static const uint64_t patience_ns = UINT64_C(3000000000); /* of nodes_end() with srun */

struct nodes {
	pid_t srun;
	int fd;
	struct relay *relays; /* by the label that srun gives their lines */
	int n;
	char line[2 * RELAY_LINE]; /* the beginning of a line whose end has not arrived */
	size_t used;
	char said[RELAY_LINE];
};

/* ---- srun ------------------------------------------------------------------------ */

/* Removes, in the child, variables that the shell of another step may have set for its own
 * tasks. */
static void forget_step(void)
{
	static const char *const names[] = {
		"SLURM_NTASKS",       "SLURM_NPROCS",        "SLURM_NTASKS_PER_NODE",
		"SLURM_NNODES",       "SLURM_JOB_NUM_NODES", "SLURM_CPUS_PER_TASK",
		"SLURM_DISTRIBUTION", "SLURM_HINT",          "SLURM_EXACT"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

/* Returns the number of nodes of a running job, or 0. Without it, srun starts a step on one node
 * only. */
static int count_nodes(const char *number)
{
	char command[64 + JOB_BYTES], line[JOB_BYTES] = "";
	FILE *from;

	snprintf(command, sizeof(command), "squeue -h -t R -j %s -o %%D", number);
	from = popen(command, "re");
	if (!from)
		return 0;
	if (!fgets(line, sizeof(line), from))
		*line = '\0';
	pclose(from);
	return (int)strtol(line, NULL, 10);
}

/* srun runs in its own session, so Ctrl-C ends only the viewer. If one reader fails, srun ends all:
 * a viewer that missed a node would look like a job that lost it. */
static void run_srun(const char *job, int interval_ms, int out, pid_t viewer)
{
	char number[JOB_BYTES], count[16], interval[32], program[PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	const int null = open("/dev/null", O_RDONLY);

	program[n > 0 ? n : 0] = '\0';
	snprintf(number, sizeof(number), "%.*s", (int)strspn(job, "0123456789"), job);
	snprintf(interval, sizeof(interval), "%d.%03d", interval_ms / 1000, interval_ms % 1000);
	setsid();
	signal(SIGPIPE, SIG_DFL);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != viewer || null < 0 ||
	    dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(out, STDERR_FILENO) < 0)
		_exit(CHILD_FAILED);
	forget_step();
	const int nodes = count_nodes(number);

	if (nodes < 1) {
		dprintf(STDERR_FILENO, "squeue: job %s does not run\n", number);
		_exit(CHILD_FAILED);
	}
	snprintf(count, sizeof(count), "%d", nodes);
	execlp("srun", "srun", "--jobid", number, "--nodes", count, "--overlap", "--mpi=none",
	       "--ntasks-per-node=1", "--kill-on-bad-exit=1", "--label", program, "--relay",
	       "--job", job, "--interval", interval, (char *)NULL);
	dprintf(STDERR_FILENO, "srun: %s\n", strerror(errno));
	_exit(CHILD_FAILED);
}

struct nodes *nodes_begin(const char *job, int interval_ms)
{
	struct nodes *nodes = calloc(1, sizeof(*nodes));
	const pid_t viewer = getpid();
	int ends[2];

	if (!nodes)
		return NULL;
	if (pipe2(ends, O_CLOEXEC)) {
		free(nodes);
		return NULL;
	}
	/* A larger pipe only spares wakeups. */
	fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
	fflush(stdout);
	nodes->srun = fork();
	if (!nodes->srun)
		run_srun(job, interval_ms, ends[1], viewer);
	close(ends[1]);
	nodes->fd = ends[0];
	if (nodes->srun < 0 || fcntl(nodes->fd, F_SETFL, O_NONBLOCK)) {
		nodes_end(nodes);
		return NULL;
	}
	return nodes;
}

void nodes_end(struct nodes *nodes)
{
	const uint64_t until = now_ns() + patience_ns;

	close(nodes->fd);
	if (nodes->srun > 0) {
		kill(nodes->srun, SIGTERM);
		while (!waitpid(nodes->srun, NULL, WNOHANG)) {
			if (now_ns() > until)
				kill(nodes->srun, SIGKILL);
			usleep(10000);
		}
	}
	for (int i = 0; i < nodes->n; i++)
		relay_free(&nodes->relays[i]);
	free(nodes->relays);
	free(nodes);
}

/* ---- what arrives ------------------------------------------------------------------ */

static struct relay *relay_of(struct nodes *nodes, unsigned long label)
{
	const int n = (int)label + 1;

	if (n > nodes->n) {
		struct relay *more = realloc(nodes->relays, (size_t)n * sizeof(*more));

		if (!more)
			return NULL;
		memset(more + nodes->n, 0, (size_t)(n - nodes->n) * sizeof(*more));
		nodes->relays = more;
		nodes->n = n;
	}
	return &nodes->relays[label];
}

/* A line of a relay begins with its label. All others are srun's, or errors. */
static int take_line(struct nodes *nodes, const char *line)
{
	char *end = NULL;
	const char *digits = line + strspn(line, " ");
	const unsigned long label = isdigit((unsigned char)*digits) ? strtoul(digits, &end, 10) : 0;
	int rc = 1;

	if (end && !strncmp(end, ": ", 2) && label < NODES_MOST) {
		struct relay *relay = relay_of(nodes, label);

		rc = relay ? relay_take(relay, end + 2) : -1;
	}
	if (rc > 0)
		snprintf(nodes->said, sizeof(nodes->said), "%.*s", (int)sizeof(nodes->said) - 1,
			 line);
	return rc < 0 ? -1 : 0;
}

static int take_lines(struct nodes *nodes)
{
	char *at = nodes->line, *newline;
	int rc = 0;

	nodes->line[nodes->used] = '\0';
	while (!rc && (newline = strchr(at, '\n')) != NULL) {
		*newline = '\0';
		rc = take_line(nodes, at);
		at = newline + 1;
	}
	nodes->used = strlen(at);
	memmove(nodes->line, at, nodes->used + 1);
	/* A line that is too long is cut. */
	if (nodes->used == sizeof(nodes->line) - 1)
		nodes->used = 0;
	return rc;
}

int nodes_read(struct nodes *nodes)
{
	for (;;) {
		const ssize_t n = read(nodes->fd, nodes->line + nodes->used,
				       sizeof(nodes->line) - 1 - nodes->used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno == EAGAIN ? 0 : -1;
		nodes->used += (size_t)n;
		if (take_lines(nodes))
			return -1;
	}
}

int nodes_fd(const struct nodes *nodes)
{
	return nodes->fd;
}

const char *nodes_said(const struct nodes *nodes)
{
	return nodes->said;
}

int nodes_heard(const struct nodes *nodes, int *of)
{
	int heard = 0;

	*of = 0;
	for (int i = 0; i < nodes->n; i++) {
		heard += nodes->relays[i].nodes != 0;
		if (nodes->relays[i].nodes)
			*of = nodes->relays[i].nodes;
	}
	return heard;
}

static int is_same(const struct seen_rank *a, const struct seen_rank *b)
{
	return a->who.rank == b->who.rank && seen_together(a, b);
}

/* Nodes that share a process table see the same ranks. */
static void drop_copies(struct seen *seen)
{
	size_t n = 0;

	for (size_t i = 0; i < seen->n; i++)
		if (!n || !is_same(&seen->ranks[n - 1], &seen->ranks[i]))
			seen->ranks[n++] = seen->ranks[i];
	seen->n = n;
}

int nodes_look(const struct nodes *nodes, struct seen *out)
{
	size_t most = 0;

	*out = (struct seen){ 0 };
	for (int i = 0; i < nodes->n; i++)
		most += nodes->relays[i].ranks.n;
	out->ranks = malloc((most ? most : 1) * sizeof(*out->ranks));
	if (!out->ranks)
		return -1;
	for (int i = 0; i < nodes->n; i++) {
		const struct seen *ranks = &nodes->relays[i].ranks;

		if (ranks->n)
			memcpy(out->ranks + out->n, ranks->ranks, ranks->n * sizeof(*out->ranks));
		out->n += ranks->n;
	}
	seen_sort(out);
	drop_copies(out);
	return 0;
}
