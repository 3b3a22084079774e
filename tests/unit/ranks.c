/* SPDX-License-Identifier: BSD-3-Clause
 * See ranks.h. */
#include "ranks.h"
#include "base/error.h"
#include "compress/message.h"
#include "job/progress_token.h"
#include "slurm/bootstrap.h"
#include "thinned.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum { DEADLINE_MS = 180000, SILENCE_MS = 5000, LINES = 256, LINE_CHARACTERS = 512 };

/* ---- the bootstrap of these tests ------------------------------------------ */

struct meeting {
	int size;
	atomic_int arrived, left; /* totals over all joins of all ranks */
	struct rank_record cards[RANKS_MOST];
};

struct bootstrap {
	char node[NODE_NAME_BYTES];
};

static struct meeting *meeting;
static int my_rank;
static int joins; /* joins of this process */
int nodes_have_kernels;

void *shared_memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		abort();
	}
	return p;
}

int bootstrap_open(const sluice_bootstrap *callbacks, int timeout_ms, struct bootstrap **out)
{
	struct bootstrap *b = calloc(1, sizeof *b);
	if (!b)
		return fail_quietly(SLUICE_ENOMEM, "no memory");
	snprintf(b->node, sizeof b->node, "n%d", my_rank / 2 + 1);
	*out = b;
	return 0;
}

int bootstrap_rank(const struct bootstrap *b)
{
	return my_rank;
}

int bootstrap_size(const struct bootstrap *b)
{
	return meeting ? meeting->size : 1;
}

const char *bootstrap_node(const struct bootstrap *b)
{
	return b->node;
}

const char *bootstrap_origin(const struct bootstrap *b)
{
	return "a test";
}

static int wait_for(atomic_int *counter, int value, int timeout_ms)
{
	for (int waited = 0; atomic_load(counter) < value; waited++) {
		if (waited > timeout_ms)
			return fail_quietly(SLUICE_ETIMEDOUT,
					    "the other ranks of the test do not come");
		sleep_ms(1);
	}
	return 0;
}

int bootstrap_exchange(struct bootstrap *b, const uint8_t *payload, size_t payload_bytes,
		       struct rank_record **cards_out)
{
	int size = bootstrap_size(b);
	struct rank_record *cards = calloc((size_t)size, sizeof *cards);
	struct rank_record mine = { .wire_version = SLUICE_WIRE_VERSION,
				    .version = PACKAGE_VERSION,
				    .boot_id = "one kernel",
				    .payload_bytes = (uint32_t)payload_bytes };
	int rc = cards ? 0 : fail_quietly(SLUICE_ENOMEM, "no memory");
	if (rc)
		return rc;
	memcpy(mine.node, b->node, sizeof mine.node);
	if (nodes_have_kernels)
		snprintf((char *)mine.boot_id, sizeof mine.boot_id, "kernel of %.4s", b->node);
	memcpy(mine.payload, payload, payload_bytes);
	if (!meeting) {
		cards[0] = mine;
		*cards_out = cards;
		return 0;
	}
	/* A rank must not overwrite a record that another rank still reads. */
	rc = wait_for(&meeting->left, size * joins, DEADLINE_MS);
	meeting->cards[my_rank] = mine;
	joins++;
	atomic_fetch_add(&meeting->arrived, 1);
	if (!rc)
		rc = wait_for(&meeting->arrived, size * joins, DEADLINE_MS);
	memcpy(cards, meeting->cards, (size_t)size * sizeof *cards);
	atomic_fetch_add(&meeting->left, 1);
	if (rc)
		free(cards);
	else
		*cards_out = cards;
	return rc;
}

int bootstrap_leave(struct bootstrap *b)
{
	return 0;
}

void bootstrap_close(struct bootstrap **b)
{
	free(*b);
	*b = NULL;
}

/* ---- inside a rank --------------------------------------------------------- */

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static char log_lines[LINES][LINE_CHARACTERS];
static unsigned log_count;

static void take_line(int level, const char *line, void *context)
{
	pthread_mutex_lock(&log_mutex);
	snprintf(log_lines[log_count++ % LINES], LINE_CHARACTERS, "%s", line);
	pthread_mutex_unlock(&log_mutex);
}

void log_capture(void)
{
	sluice_set_log(take_line, NULL);
}

int log_saw(const char *a, const char *b, const char *c, const char *d)
{
	const char *wanted[] = { a, b, c, d };
	int found = 0;
	pthread_mutex_lock(&log_mutex);
	for (unsigned i = 0; i < LINES && i < log_count && !found; i++) {
		found = 1;
		for (int w = 0; w < 4; w++)
			found &= !wanted[w] || strstr(log_lines[i], wanted[w]) != NULL;
	}
	pthread_mutex_unlock(&log_mutex);
	return found;
}

int error_says(const char *a, const char *b)
{
	const char *text = sluice_last_error();
	return (!a || strstr(text, a)) && (!b || strstr(text, b));
}

const char *check_of = "";

void check_at(int holds, const char *text, const char *file, int line)
{
	if (holds)
		return;
	fprintf(stderr, "rank %d: %s:%d: does not hold: %s\n  last error: %s\n%s\n", my_rank, file,
		line, text, sluice_last_error(), check_of);
	pthread_mutex_lock(&log_mutex);
	for (unsigned i = log_count > 8 ? log_count - 8 : 0; i < log_count; i++)
		fprintf(stderr, "  log: %s\n", log_lines[i % LINES]);
	pthread_mutex_unlock(&log_mutex);
	fflush(NULL);
	_exit(1);
}

/* libfabric does not report the end of a process, so a rank is lost when it has been silent for
 * this long. */
static int deaths_are_told(void)
{
	const char *named = getenv("SLUICE_TRANSPORT");

	return !named || !strstr(named, "ofi");
}

sluice_job *rank_join(const sluice_job_attr *attr)
{
	sluice_job *job = NULL;
	sluice_job_attr short_waits = { .size = sizeof short_waits };
	if (attr)
		short_waits = *attr;
	if (!short_waits.wait_timeout_ms)
		short_waits.wait_timeout_ms = DEADLINE_MS;
	if (!short_waits.lost_after_ms)
		short_waits.lost_after_ms = deaths_are_told() ? DEADLINE_MS :
								SILENCE_MS * slowness();
	CHECK_OK(sluice_init(&short_waits, &job));
	return job;
}

sluice_model *rank_open(sluice_job *job, void *params, sluice_model_attr attr)
{
	sluice_model *model = NULL;

	if (!attr.size)
		attr.size = sizeof attr;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	return model;
}

int try_step(sluice_model *model, const void *gradient, void *target)
{
	const int rc = sluice_push(model, gradient);

	return rc ? rc : sluice_pull(model, target);
}

void be_impatient(sluice_job *job, int ms)
{
	progress_take(job);
	job->budget.wait_timeout_ns = (uint64_t)ms * (uint64_t)slowness() * 1000000;
	progress_release(job);
}

uint64_t check_same(sluice_job *job, const void *bytes, size_t n)
{
	uint64_t mine = sluice_digest(bytes, n), all[RANKS_MOST];
	CHECK_OK(sluice_gather(job, &mine, sizeof mine, all));
	for (int r = 0; r < sluice_workers(job); r++)
		CHECK(all[r] == mine);
	return mine;
}

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

float noise(uint64_t seed, uint64_t step, uint64_t rank, uint64_t i)
{
	uint64_t bits = mix(mix(mix(mix(seed) + step) + rank) + i);
	return (float)((double)(bits >> 40) / (1 << 23) - 1);
}

/* ---- the parent ------------------------------------------------------------ */

int slowness(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 6;
#else
	return under_valgrind() ? 10 : 1;
#endif
}

void sleep_ms(int ms)
{
	struct timespec rest = { ms / 1000, ms % 1000 * 1000000L };
	while (nanosleep(&rest, &rest) && errno == EINTR)
		;
}

static void reap(const pid_t *pids, int size, int deadline_ms, int *status)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	int64_t end_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000 + deadline_ms;
	int ended[RANKS_MOST] = { 0 }, left = size, hung = 0;
	char names[256] = "";
	while (left) {
		for (int r = 0; r < size; r++)
			if (!ended[r] && waitpid(pids[r], &status[r], WNOHANG) == pids[r]) {
				ended[r] = 1;
				left--;
			}
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (left && now.tv_sec * 1000 + now.tv_nsec / 1000000 > end_ms)
			break;
		if (left)
			sleep_ms(1);
	}
	for (int r = 0; r < size; r++)
		if (!ended[r]) {
			size_t used = strlen(names);
			snprintf(names + used, sizeof names - used, " %d", r);
			kill(pids[r], SIGKILL);
			waitpid(pids[r], &status[r], 0);
			hung = 1;
		}
	if (hung)
		fail_msg("after %d ms these ranks had not ended:%s", deadline_ms, names);
}

/* Valgrind translates code when it first runs in a process. Ranks inherit the code that the parent
 * has translated, and otherwise spend most of their time on that. So the parent makes two steps of
 * its own job before its first fork. */
static void run_what_all_ranks_run(void)
{
	enum { N = 1000 };
	static int done;
	if (done || !under_valgrind())
		return;
	done = 1;
	float *params = calloc(N, sizeof *params), *grad = calloc(N, sizeof *grad);
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = N,
				   .recipe = "up=topk(0.1) down=topk(0.1)",
				   .shards = 2,
				   .lr = 0.1f };
	sluice_job *job = rank_join(NULL);
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	for (int step = 0; step < 2; step++) {
		for (uint64_t i = 0; i < N; i++)
			grad[i] = noise(1, 0, 0, i);
		CHECK_OK(sluice_push(model, grad));
		CHECK_OK(sluice_pull(model, params));
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	free(params);
	free(grad);
}

void run_ranks_status(int size, rank_function function, void *argument, rank_supervisor supervise,
		      int deadline_ms, int *status)
{
	pid_t pids[RANKS_MOST];
	if (size > RANKS_MOST)
		fail_msg("%d ranks, at most %d", size, RANKS_MOST);
	run_what_all_ranks_run();
	meeting = shared_memory(sizeof *meeting);
	meeting->size = size;
	fflush(NULL);
	for (my_rank = 0; my_rank < size; my_rank++) {
		pids[my_rank] = fork();
		if (pids[my_rank] < 0)
			fail_msg("fork: %s", strerror(errno));
		if (!pids[my_rank]) {
			int rc = function(my_rank, argument);
			fflush(NULL);
			exit(rc);
		}
	}
	if (supervise)
		supervise(pids, argument);
	reap(pids, size, deadline_ms * slowness(), status);
	munmap(meeting, sizeof *meeting);
	meeting = NULL;
	my_rank = 0;
}

void run_ranks(int size, rank_function function, void *argument)
{
	int status[RANKS_MOST];
	run_ranks_status(size, function, argument, NULL, DEADLINE_MS, status);
	for (int r = 0; r < size; r++)
		if (!WIFEXITED(status[r]) || WEXITSTATUS(status[r]))
			fail_msg("rank %d of %d: %s %d", r, size,
				 WIFSIGNALED(status[r]) ? "signal" : "exit status",
				 WIFSIGNALED(status[r]) ? WTERMSIG(status[r]) :
							  WEXITSTATUS(status[r]));
}

struct in_job {
	job_function function;
	void *argument;
};

static int join_and_leave(int rank, void *argument)
{
	const struct in_job *in = argument;
	sluice_job *job = rank_join(NULL);

	in->function(job, rank, in->argument);
	sluice_finalize(&job);
	return 0;
}

void run_in_job(int size, job_function function, void *argument)
{
	run_ranks(size, join_and_leave, &(struct in_job){ function, argument });
}
