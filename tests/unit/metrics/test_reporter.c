/* SPDX-License-Identifier: BSD-3-Clause
 * SLUICE_METRICS, SLUICE_METRICS_PORT and SLUICE_TRACE in jobs: the files appear, are replaced and
 * removed, and a failure to write is a warning. */
#include "job/reporter.h"
#include "ranks.h"
#include "cases.h"
#include "../scratch.h"
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIES_MOST = 6000, STEPS = 5 };
static const char recipe[] = "up=topk(0.1) down=topk(0.1)";
static float params[1000], gradient[1000];
static char dir[SCRATCH_PATH];
static uint8_t text[SCRATCH_FILE + 1];

static const char *path_of(const char *name)
{
	static char path[SCRATCH_PATH + 32];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int make_dir(void **state)
{
	unsetenv("SLURM_JOB_ID");
	unsetenv("SLURM_STEP_ID");
	return scratch_make(dir);
}

static int remove_dir(void **state)
{
	scratch_remove(dir);
	return 0;
}

#define TEST_IN_DIR(name, size)                                                                    \
	static int name##_in_rank(int rank, void *argument);                                       \
	TEST_WITH(name, make_dir, remove_dir)                                                      \
	{                                                                                          \
		run_ranks(size, name##_in_rank, NULL);                                             \
	}                                                                                          \
	static int name##_in_rank(int rank, void *argument)

/* Reads a file into `text`. Returns 1 if it exists. */
static int reads(const char *name)
{
	const long n = scratch_read(path_of(name), text);

	text[n > 0 ? n : 0] = '\0';
	return n >= 0;
}

static int says(const char *what)
{
	return strstr((char *)text, what) != NULL;
}

static void wait_for_text(const char *name, const char *a, const char *b)
{
	for (int tries = 0; tries < TRIES_MOST * slowness(); tries++) {
		if (reads(name) && says(a) && says(b))
			return;
		sleep_ms(10);
	}
	fprintf(stderr, "no %s and %s in: %s\n", a, b, text);
	CHECK(0);
}

static void make_steps(sluice_job *job)
{
	sluice_model *model = OPEN(job, params, .count = 1000, .recipe = recipe, .lr = 0.1f);

	for (int i = 0; i < STEPS; i++) {
		gradient[i] = 1;
		CHECK_STEP(model, gradient, params);
	}
	sluice_model_close(&model);
}

TEST_IN_DIR(metrics__of_all_ranks__are_in_one_file_while_the_job_runs, 3)
{
	setenv("SLUICE_METRICS", path_of("%j-%n.prom"), 1);
	sluice_job *job = rank_join(NULL);
	sluice_model *model = OPEN(job, params, .count = 1000, .recipe = recipe, .lr = 0.1f);

	for (int i = 0; i < STEPS; i++) {
		gradient[i] = 1;
		CHECK_STEP(model, gradient, params);
	}
	/* rank 0 replaces the file, and a rank appears in it when its model is open */
	wait_for_text("none-n1.prom", "node=\"n1\",rank=\"0\",model=", "# EOF\n");
	wait_for_text("none-n1.prom", "node=\"n1\",rank=\"1\",model=", "# EOF\n");
	wait_for_text("none-n1.prom", "node=\"n2\",rank=\"2\",model=", "# EOF\n");
	CHECK(!reads("none-n2.prom"));
	CHECK_OK(sluice_barrier(job));
	sluice_model_close(&model);
	sluice_finalize(&job);
	CHECK(rank || !reads("none-n1.prom"));
	return 0;
}

TEST_IN_DIR(metrics__that_cannot_be_written__are_a_warning, 1)
{
	log_capture();
	setenv("SLUICE_METRICS", path_of("none/x.prom"), 1);
	setenv("SLUICE_TRACE", path_of("none/x.json"), 1);
	sluice_job *job = rank_join(NULL);

	make_steps(job);
	for (int tries = 0; tries < TRIES_MOST * slowness(); tries++) {
		if (log_saw("rank 0 (node n1) cannot write", "none/x.prom", "SLUICE_METRICS",
			    "ENOENT"))
			break;
		sleep_ms(10);
	}
	sluice_finalize(&job);
	CHECK(log_saw("rank 0 (node n1) cannot write", "none/x.prom", "SLUICE_METRICS", "ENOENT"));
	CHECK(log_saw("rank 0 (node n1) cannot write", "none/x.json.0", "SLUICE_TRACE", "ENOENT"));
	return 0;
}

TEST_IN_DIR(settings__that_name_no_file__are_a_warning, 1)
{
	log_capture();
	setenv("SLUICE_METRICS", "/tmp/%q", 1);
	setenv("SLUICE_TRACE", "/tmp/", 1);
	sluice_job *job = rank_join(NULL);

	CHECK(log_saw("SLUICE_METRICS=/tmp/%q is ignored", "%j, %n, %r", NULL, NULL));
	CHECK(log_saw("SLUICE_TRACE=/tmp/ is ignored", "names a directory", NULL, NULL));
	make_steps(job);
	sluice_finalize(&job);
	return 0;
}

TEST_IN_DIR(metrics__without_a_page__are_a_warning, 1)
{
	log_capture();
	setenv("SLUICE_TOP", "no", 1);
	setenv("SLUICE_METRICS", path_of("x.prom"), 1);
	sluice_job *job = rank_join(NULL);

	CHECK(log_saw("writes no metrics", "SLUICE_TOP", NULL, NULL));
	sluice_finalize(&job);
	CHECK(!reads("x.prom"));
	return 0;
}

/* ---- the port ------------------------------------------------------------------------- */

/* Opens a socket at a port that no other program has. */
static int take_port(int *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(at);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && !bind(fd, (const struct sockaddr *)&at, n) && !listen(fd, 1));
	CHECK(!getsockname(fd, (struct sockaddr *)&at, &n));
	*port = ntohs(at.sin_port);
	return fd;
}

static void ask(int port)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons((uint16_t)port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t used = 0;
	ssize_t n;

	CHECK(fd >= 0 && !connect(fd, (const struct sockaddr *)&at, sizeof(at)));
	CHECK(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) == (ssize_t)sizeof(request) - 1);
	while ((n = recv(fd, text + used, SCRATCH_FILE - used, 0)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	close(fd);
}

/* The port was free a moment ago. If another program takes it, the warning says so. */
TEST_IN_DIR(port__of_a_job__serves_its_ranks, 1)
{
	char number[16];
	int port, fd = take_port(&port);

	log_capture();
	close(fd);
	snprintf(number, sizeof(number), "%d", port);
	setenv("SLUICE_METRICS_PORT", number, 1);
	sluice_job *job = rank_join(NULL);

	make_steps(job);
	if (!log_saw("cannot open port", NULL, NULL, NULL)) {
		ask(port);
		CHECK(says("HTTP/1.1 200 OK\r\n") && says("sluice_ranks{") && says("# EOF\n"));
	}
	sluice_finalize(&job);
	return 0;
}

TEST_IN_DIR(port__in_use__is_a_warning, 1)
{
	char number[16];
	int port, fd = take_port(&port);

	log_capture();
	snprintf(number, sizeof(number), "%d", port);
	setenv("SLUICE_METRICS_PORT", number, 1);
	sluice_job *job = rank_join(NULL);

	CHECK(log_saw("rank 0 (node n1) cannot open port", number, "EADDRINUSE", "choose a port"));
	make_steps(job);
	sluice_finalize(&job);
	close(fd);
	return 0;
}

/* ---- traces ----------------------------------------------------------------------------- */

TEST_IN_DIR(trace__of_all_ranks__is_joined_at_the_end, 3)
{
	setenv("SLUICE_TRACE", path_of("trace.json"), 1);
	sluice_job *job = rank_join(NULL);

	make_steps(job);
	sluice_finalize(&job);
	if (rank)
		return 0;
	CHECK(reads("trace.json"));
	CHECK(says("\"rank 0 on n1, job none\"") && says("\"rank 1 on n1") &&
	      says("\"rank 2 on n2"));
	CHECK(says("\"name\":\"step 5\"") && says("\"name\":\"compress\"") &&
	      says("\"name\":\"push\"") && says("\"name\":\"wait\"") &&
	      says("\"name\":\"apply\"") && says("\"name\":\"program\"") && says("\n]}\n"));
	CHECK(scratch_count(dir).files == 1);
	return 0;
}

TEST_IN_DIR(trace__with_the_rank_in_its_name__is_not_joined, 2)
{
	setenv("SLUICE_TRACE", path_of("trace-%r.json"), 1);
	sluice_job *job = rank_join(NULL);

	make_steps(job);
	sluice_finalize(&job);
	CHECK(reads(rank ? "trace-1.json" : "trace-0.json") && says("\"name\":\"step 5\""));
	CHECK(!reads("trace.json"));
	return 0;
}

/* A program that exits without sluice_finalize(), and a forked child that exits. */
TEST_WITH(trace__without_finalize__is_written_at_exit, make_dir, remove_dir)
{
	int status;
	const pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		alarm(300 * (unsigned)slowness());
		setenv("SLUICE_TRACE", path_of("trace.json"), 1);
		setenv("SLUICE_METRICS", path_of("x.prom"), 1);
		sluice_job *job = rank_join(NULL);

		make_steps(job);
		wait_for_text("x.prom", "# EOF\n", "");
		if (!fork())
			exit(0);
		while (wait(NULL) < 0 && errno == EINTR)
			;
		CHECK(reads("x.prom"));
		exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(reads("trace.json.0") && says("\"name\":\"step 5\""));
	assert_false(reads("x.prom"));
}
