/* SPDX-License-Identifier: BSD-3-Clause
 * See reporter.h. The lowest rank of each machine finds the pages of the job's other ranks there as
 * sluice-top does. Every rank writes its own trace, because no rank knows which others end without
 * an error. */
#include "job/reporter.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "job/page.h"
#include "job/state.h"
#include "metrics/http.h"
#include "metrics/openmetrics.h"
#include "metrics/out_file.h"
#include "metrics/trace_text.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* The traces of a job with more ranks are not joined, because no viewer could load the result. */
enum { JOINED_MOST = 64 };
static const uint64_t metrics_period_ns = 5000000000, trace_first_ns = 10000000000,
		      trace_period_ns = 60000000000, joining_ns = 60000000000;

struct reporter {
	sluice_job *job;
	char step[2 * PAGE_NAME_BYTES]; /* "JOB.STEP" */
	char metrics[PATH_MAX];         /* "": this rank writes no file of metrics */
	char trace_file[PATH_MAX];      /* of all ranks; "": no trace, or a file for each rank */
	char own_trace[PATH_MAX];       /* of this rank */
	struct trace_origin origin;
	struct trace *trace; /* NULL: none */
	struct http *http;   /* NULL: no port */
	char *served;        /* the text that was last served on the port */
	size_t served_bytes;
	uint64_t served_ns;
	int metrics_failed, trace_failed; /* 1: the warning was logged */
	int metrics_written;
	uint64_t opened_ns;
	int compared; /* 1: the number of pages was already compared with the number of ranks */
	int flushed;
	int is_last; /* 1: exit() writes its files if sluice_finalize() does not */
	pthread_t thread;
	int started, ends; /* a descriptor that becomes readable when the thread must end */
};

/* The reporter of this process that must still write when the process ends without
 * sluice_finalize(). */
static _Atomic(struct reporter *) last;
/* `last` has this value from the beginning of exit() on. */
static char exit_mark;
#define EXITING ((struct reporter *)(void *)&exit_mark)

/* ---- names of files --------------------------------------------------------------------- */

/* Makes a path of a setting. Returns 1, or 0 after a warning. */
static int name_file(const struct reporter *r, const char *setting, const char *pattern,
		     char out[PATH_MAX])
{
	const struct out_words words = { .job = r->step,
					 .node = sluice_node(r->job, r->job->rank),
					 .rank = r->job->rank };
	const char *why = out_path(pattern, &words, out);
	if (!why)
		return 1;
	log_line(LOG_WARN, "runtime",
		 "%s=%s is ignored on rank %d (node %s): %s; the job continues without that file",
		 setting, pattern, r->job->rank, words.node, why);
	*out = '\0';
	return 0;
}

/* A trace whose name has %r is not joined. */
static void name_trace(struct reporter *r, const char *pattern)
{
	if (!name_file(r, "SLUICE_TRACE", pattern, r->own_trace) || strstr(pattern, "%r"))
		return;
	const size_t n = strlen(r->own_trace);
	if (n + 16 > sizeof(r->own_trace)) {
		r->own_trace[0] = '\0';
		log_line(LOG_WARN, "runtime",
			 "SLUICE_TRACE is ignored on rank %d (node %s): the path is too long; the "
			 "job "
			 "continues without a trace",
			 r->job->rank, sluice_node(r->job, r->job->rank));
		return;
	}
	memcpy(r->trace_file, r->own_trace, n + 1);
	snprintf(r->own_trace + n, sizeof(r->own_trace) - n, ".%d", r->job->rank);
}

/* ---- metrics ---------------------------------------------------------------------------- */

/* Finds the pages of this job. Two jobs can have the same Slurm number, so the ranks are also
 * compared by the number of their meeting. */
static int find_ranks(const struct reporter *r, struct seen *seen)
{
	const uint64_t meeting = r->origin.meeting;
	size_t n = 0;
	if (seen_find(NULL, seen))
		return -1;
	for (size_t i = 0; i < seen->n; i++) {
		const struct page_who *who = &seen->ranks[i].who;
		const int same = who->meeting == meeting && who->size == r->job->size &&
				 (who->size > 1 || who->pid == r->job->process.pid);
		if (same)
			seen->ranks[n++] = seen->ranks[i];
	}
	seen->n = n;
	return 0;
}

static void compare_number(struct reporter *r, const struct seen *seen)
{
	const int ranks = job_machine(r->job).count;
	/* Other ranks may still be joining. */
	if (r->compared || now_ns() - r->opened_ns < joining_ns)
		return;
	r->compared = 1;
	if (seen->n && seen->ranks[0].losses.count)
		return;
	if ((int)seen->n < ranks)
		log_line(LOG_WARN, "runtime",
			 "the metrics of rank %d (node %s) lack %d of the %d ranks of its machine: "
			 "their pages cannot be read from here, as in another container, or with "
			 "SLUICE_TOP=no",
			 r->job->rank, sluice_node(r->job, r->job->rank), ranks - (int)seen->n,
			 ranks);
}

/* Returns the text, or NULL if there is no memory or no /proc. */
static char *metrics_text(void *context, size_t *bytes)
{
	struct reporter *r = context;
	struct seen seen;
	char *text = NULL;
	FILE *to = NULL;
	if (!find_ranks(r, &seen) && (to = open_memstream(&text, bytes))) {
		compare_number(r, &seen);
		openmetrics_print(&seen, to);
	}
	seen_free(&seen);
	if (to && fclose(to)) {
		free(text);
		text = NULL;
	}
	return text;
}

/* The page of the port. Any user of the machine can ask for it, and finding all pages takes long,
 * so a text is served for a second. */
static char *served_text(void *context, size_t *bytes)
{
	struct reporter *r = context;
	const uint64_t now = now_ns();
	if (!r->served || now - r->served_ns > 1000000000) {
		free(r->served);
		r->served = metrics_text(r, &r->served_bytes);
		r->served_ns = now;
	}
	char *copy = r->served ? malloc(r->served_bytes + 1) : NULL;
	if (copy)
		memcpy(copy, r->served, r->served_bytes + 1);
	*bytes = r->served_bytes;
	return copy;
}

/* Warns about the first of several failures. Returns its `failed` argument. */
static int warn_first(const struct reporter *r, int failed, int warned, const char *setting,
		      const char *path)
{
	const int err = errno;
	if (failed && !warned)
		log_line(LOG_WARN, "runtime",
			 "rank %d (node %s) cannot write %s (%s): %s; the job continues, and it "
			 "tries again",
			 r->job->rank, sluice_node(r->job, r->job->rank), path, setting,
			 errno_text(err));
	return failed;
}

static void write_metrics(struct reporter *r)
{
	struct out_file file;
	size_t bytes = 0;
	char *text = metrics_text(r, &bytes);
	int failed = !text;
	if (text && (failed = out_begin(&file, r->metrics, 1)) == 0) {
		fwrite(text, 1, bytes, file.to);
		failed = out_end(&file, 1);
		r->metrics_written |= !failed;
	}
	free(text);
	r->metrics_failed = warn_first(r, failed != 0, r->metrics_failed, "SLUICE_METRICS",
				       r->metrics);
}

/* ---- traces ----------------------------------------------------------------------------- */

static void write_trace(struct reporter *r)
{
	struct out_file file;
	int failed = out_begin(&file, r->own_trace, 0);
	if (!failed) {
		const int no_memory = trace_print(r->trace, &r->origin, file.to);
		failed = out_end(&file, !no_memory);
		if (no_memory) {
			failed = -1;
			errno = ENOMEM;
		}
	}
	r->trace_failed = warn_first(r, failed != 0, r->trace_failed, "SLUICE_TRACE", r->own_trace);
}

/* Opens the trace of another rank. In a shared directory, another user could have put something
 * under this name on which opening or reading blocks. Returns NULL with the reason in errno. */
static FILE *open_part(const char *path)
{
	const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	struct stat status;
	FILE *from = NULL;
	int err = fd < 0 || fstat(fd, &status)                           ? errno :
		  !S_ISREG(status.st_mode) || status.st_uid != geteuid() ? EPERM :
									   0;
	if (!err && !(from = fdopen(fd, "r")))
		err = errno;
	if (err && fd >= 0)
		close(fd);
	errno = err;
	return from;
}

static void part_path(const struct reporter *r, int rank, char out[PATH_MAX])
{
	snprintf(out, PATH_MAX, "%.*s.%d", PATH_MAX - 16, r->trace_file, rank);
}

/* Adds the traces of all ranks. Returns the number of those that are missing. */
static int join_parts(const struct reporter *r, struct trace_merge *merge)
{
	char path[PATH_MAX];
	int missing = 0;
	for (int rank = 0; rank < r->job->size; rank++) {
		part_path(r, rank, path);
		FILE *from = open_part(path);
		const char *why = from ? trace_merge_add(merge, from) : errno_text(errno);
		if (from)
			fclose(from);
		if (why && !missing++)
			log_line(LOG_WARN, "runtime",
				 "%s lacks rank %d (node %s) and maybe others: its trace %s cannot "
				 "be read on node %s: %s; sluice-top --merge can join the files",
				 r->trace_file, rank, sluice_node(r->job, rank), path,
				 sluice_node(r->job, r->job->rank), why);
	}
	return missing;
}

void reporter_join_traces(sluice_job *job)
{
	struct reporter *r = job->reporter;
	struct out_file file;
	struct trace_merge merge;
	char path[PATH_MAX];
	if (!r || !r->trace || !*r->trace_file || job->rank)
		return;
	if (job->size > JOINED_MOST) {
		log_line(
			LOG_WARN, "runtime",
			"the traces of %d ranks stay in %s.RANK: sluice-top --merge joins those of "
			"the ranks that you name",
			job->size, r->trace_file);
		return;
	}
	int failed = out_begin(&file, r->trace_file, 0), missing = 0;
	if (!failed) {
		trace_merge_begin(&merge, file.to);
		missing = join_parts(r, &merge);
		trace_merge_end(&merge);
		failed = out_end(&file, 1);
	}
	warn_first(r, failed != 0, 0, "SLUICE_TRACE", r->trace_file);
	for (int rank = 0; !failed && !missing && rank < job->size; rank++) {
		part_path(r, rank, path);
		unlink(path);
	}
}

/* ---- the thread --------------------------------------------------------------------------- */

static void *report_often(void *argument)
{
	struct reporter *r = argument;
	uint64_t metrics_ns = now_ns(), trace_ns = metrics_ns + trace_first_ns;
	struct pollfd fds[1 + HTTP_FDS] = { { .fd = r->ends, .events = POLLIN } };
	while (!fds[0].revents) {
		uint64_t now = now_ns(), next = UINT64_MAX;
		if (*r->metrics && now >= metrics_ns) {
			write_metrics(r);
			metrics_ns = now + metrics_period_ns;
		}
		if (r->trace && now >= trace_ns) {
			write_trace(r);
			trace_ns = now + trace_period_ns;
		}
		if (*r->metrics)
			next = metrics_ns;
		if (r->trace && trace_ns < next)
			next = trace_ns;
		now = now_ns();
		int ms = next == UINT64_MAX ? -1 : ms_until(next, now);
		const int http_ms = r->http ? http_poll(r->http, fds + 1, now) : -1;
		if (http_ms >= 0 && (ms < 0 || http_ms < ms))
			ms = http_ms;
		if (poll(fds, r->http ? 1 + HTTP_FDS : 1, ms) >= 0 && r->http)
			http_serve(r->http, fds + 1, now_ns(), served_text, r);
	}
	return NULL;
}

static void start_writing(struct reporter *r)
{
	r->ends = eventfd(0, EFD_CLOEXEC);
	int err = r->ends < 0 ? errno : thread_start(&r->thread, report_often, r);
	r->started = !err;
	if (err)
		log_line(
			LOG_WARN, "runtime",
			"rank %d (node %s) cannot start the thread that writes metrics and traces: "
			"%s; the job continues without it",
			r->job->rank, sluice_node(r->job, r->job->rank), errno_text(err));
}

static void open_port(struct reporter *r, int port)
{
	const int err = http_open(port, &r->http);
	if (err)
		log_line(LOG_WARN, "runtime",
			 "rank %d (node %s) cannot open port %d of 127.0.0.1 for metrics "
			 "(SLUICE_METRICS_PORT): %s; the job continues without it%s",
			 r->job->rank, sluice_node(r->job, r->job->rank), port, errno_text(err),
			 err == EADDRINUSE ? ": choose a port that no other program uses" : "");
}

/* ---- opening and closing -------------------------------------------------------------------- */

static void open_outputs(struct reporter *r)
{
	const struct monitoring *s = &r->job->settings.monitoring;
	const int leads = job_machine(r->job).lowest == r->job->rank;
	if ((*s->metrics || s->metrics_port) && leads && !r->job->page.page)
		log_line(LOG_WARN, "runtime",
			 "rank %d (node %s) writes no metrics, because it has no page for "
			 "sluice-top (SLUICE_TOP=no, or an earlier warning gives the reason)",
			 r->job->rank, sluice_node(r->job, r->job->rank));
	else if (leads && *s->metrics)
		name_file(r, "SLUICE_METRICS", s->metrics, r->metrics);
	if (leads && s->metrics_port && r->job->page.page)
		open_port(r, s->metrics_port);
	if (*s->trace)
		name_trace(r, s->trace);
	if (*r->own_trace && !(r->trace = trace_open()))
		log_line(
			LOG_WARN, "runtime",
			"rank %d (node %s) has no memory for a trace; the job continues without it",
			r->job->rank, sluice_node(r->job, r->job->rank));
}

void reporter_open(sluice_job *job)
{
	const struct monitoring *s = &job->settings.monitoring;
	const char *id = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
	struct reporter *r, *none = NULL;
	if (job->sim_rank || (!*s->metrics && !s->metrics_port && !*s->trace))
		return;
	r = calloc(1, sizeof(*r));
	if (!r) {
		log_line(LOG_WARN, "runtime", "rank %d has no memory for metrics and a trace",
			 job->rank);
		return;
	}
	r->job = job;
	r->opened_ns = now_ns();
	r->ends = -1;
	if (id)
		snprintf(r->step, sizeof(r->step), "%.60s%s%.60s", id, step ? "." : "",
			 step ? step : "");
	else
		snprintf(r->step, sizeof(r->step), "none");
	r->origin = (struct trace_origin){ .rank = job->rank,
					   .node = sluice_node(job, job->rank),
					   .job = r->step,
					   .meeting = job_meeting(job) };
	job->reporter = r;
	open_outputs(r);
	if (*r->metrics || r->http || r->trace)
		start_writing(r);
	r->is_last = atomic_compare_exchange_strong(&last, &none, r);
}

struct trace *reporter_trace(const sluice_job *job)
{
	return job->root->reporter ? job->root->reporter->trace : NULL;
}

static void write_last(struct reporter *r)
{
	reporter_stop(r->job);
	if (r->trace && !r->flushed)
		write_trace(r);
	r->flushed = 1;
}

/* Returns 1 if this thread, and not exit() in another one, has the reporter. */
static int take_from_exit(struct reporter *r)
{
	struct reporter *own = r;
	if (r->is_last && !atomic_compare_exchange_strong(&last, &own, NULL) && own == EXITING)
		return 0;
	r->is_last = 0;
	return 1;
}

void reporter_flush(sluice_job *job)
{
	if (job->reporter && take_from_exit(job->reporter))
		write_last(job->reporter);
}

void reporter_stop(sluice_job *job)
{
	struct reporter *r = job->reporter;
	if (!r || !r->started)
		return;
	eventfd_write(r->ends, 1);
	pthread_join(r->thread, NULL);
	r->started = 0;
	http_close(&r->http);
	if (r->metrics_written)
		unlink(r->metrics);
	r->metrics[0] = '\0';
}

void reporter_close(sluice_job *job)
{
	struct reporter *r = job->reporter;
	if (!r || !take_from_exit(r))
		return;
	write_last(r);
	http_close(&r->http);
	if (r->ends >= 0)
		close(r->ends);
	trace_close(&r->trace);
	free(r->served);
	free(r);
	job->reporter = NULL;
}

/* Keeps leak checkers from reporting a job that was never finalized. */
static struct reporter *volatile leaked __attribute__((unused));

/* If a program exits without sluice_finalize(), its trace is kept. Its file of metrics is removed,
 * because Prometheus would otherwise read the last values for ever. */
__attribute__((destructor)) static void report_at_exit(void)
{
	struct reporter *r = atomic_exchange(&last, EXITING);
	if (!r || r->job->process.pid != getpid())
		return;
	log_set_sink(NULL, NULL); /* the program's sink may not exist any more */
	write_last(r);
	leaked = r;
}
