/* SPDX-License-Identifier: BSD-3-Clause
 * Log lines are formatted on the caller's stack and written by one write(2). Therefore the lines of
 * threads and ranks that share a stderr do not mix, and no lock is needed. */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Writes to a pipe are atomic up to PIPE_BUF (4096) bytes, so a line stays below that. */
enum { NODE_BYTES = 64, TEXT_BYTES = 1024, LINE_BYTES = 1280 };

const char *const log_level_names[LOG_LEVELS] = { "error", "warn", "info", "debug" };
const char *const log_module_names[LOG_MODULES] = { "runtime", "rdma", "slurm", "compress" };
static _Atomic int thresholds[LOG_MODULES] = { LOG_WARN, LOG_WARN, LOG_WARN, LOG_WARN };

/* The destination of log lines. There are two copies: a change fills the one that is not in use and
 * then publishes it, so log_line() can read without a lock. If a reader is suspended during two
 * changes, it could read a copy that is being changed. Changes therefore happen only before the
 * progress thread starts or after it has ended. */
struct output {
	sluice_log_fn sink;
	void *context;
	char prefix[NODE_BYTES + 32];
};
static struct output outputs[2] = { { NULL, NULL, "sluice: " }, { NULL, NULL, "sluice: " } };
static struct output *_Atomic current_output = &outputs[0];
static _Thread_local struct log_gathered *gathering;
static void (*_Atomic watching)(int level, const char *text);
static pthread_mutex_t change_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t module_index(const char *module)
{
	for (size_t m = 0; m < LOG_MODULES; m++)
		if (strcmp(log_module_names[m], module) == 0)
			return m;
	return 0;
}

int log_enabled(enum log_level level, const char *module)
{
	int threshold = atomic_load_explicit(&thresholds[module_index(module)],
					     memory_order_relaxed);

	return (int)level <= threshold;
}

/* Replaces control bytes, so that a message stays on one line even if it quotes a file name or a
 * peer's text. */
static void replace_control_bytes(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = ' ';
}

static void write_line(const char *line, size_t n)
{
	ssize_t written;

	do {
		written = write(STDERR_FILENO, line, n);
	} while (written < 0 && errno == EINTR);
}

/* Returns 1 if the line was gathered. */
static int gather_line(enum log_level level, const char *text)
{
	struct log_gathered *g = gathering;
	const size_t n = strlen(text) + 2;

	if (!g || level > LOG_WARN || g->used + n > sizeof(g->lines))
		return 0;
	snprintf(g->lines + g->used, n, "%d%s", (int)level, text);
	g->used += n;
	return 1;
}

void log_line(enum log_level level, const char *module, const char *format, ...)
{
	if (!log_enabled(level, module))
		return;

	int saved_errno = errno;
	char text[TEXT_BYTES];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n < 0)
		snprintf(text, sizeof(text), "%s", "(a log line could not be formatted)");
	else if ((size_t)n >= sizeof(text))
		memcpy(text + sizeof(text) - 4, "...", 4);
	replace_control_bytes(text);
	if (gather_line(level, text)) {
		errno = saved_errno;
		return;
	}

	void (*watch)(int, const char *) = atomic_load_explicit(&watching, memory_order_acquire);
	if (watch)
		watch((int)level, text);
	const struct output *output = atomic_load_explicit(&current_output, memory_order_acquire);

	if (output->sink) {
		output->sink((int)level, text, output->context);
	} else {
		char line[LINE_BYTES];
		int length = snprintf(line, sizeof(line), "%s%s: %s\n", output->prefix,
				      log_level_names[level], text);

		if (length > 0)
			write_line(line, (size_t)length);
	}
	errno = saved_errno;
}

void log_gather(struct log_gathered *to)
{
	gathering = to;
}

/* Locks change_lock and returns the unused copy; end_change() publishes it and unlocks. */
static struct output *begin_change(void)
{
	pthread_mutex_lock(&change_lock);
	struct output *now = atomic_load(&current_output);
	struct output *next = now == &outputs[0] ? &outputs[1] : &outputs[0];

	*next = *now;
	return next;
}

static void end_change(struct output *next)
{
	atomic_store_explicit(&current_output, next, memory_order_release);
	pthread_mutex_unlock(&change_lock);
}

void log_identify(int rank, const char *node)
{
	struct output *next = begin_change();

	if (rank < 0)
		snprintf(next->prefix, sizeof(next->prefix), "sluice: ");
	else
		snprintf(next->prefix, sizeof(next->prefix), "sluice[%d %.*s]: ", rank, NODE_BYTES,
			 node ? node : "?");
	replace_control_bytes(next->prefix);
	end_change(next);
}

void log_set_sink(sluice_log_fn sink, void *context)
{
	struct output *next = begin_change();

	next->sink = sink;
	next->context = context;
	end_change(next);
}

void log_set_watch(void (*watch)(int level, const char *text))
{
	atomic_store_explicit(&watching, watch, memory_order_release);
}

void sluice_set_log(sluice_log_fn sink, void *context)
{
	log_set_sink(sink, context);
}

void log_set_levels(const int levels[LOG_MODULES])
{
	for (int m = 0; m < LOG_MODULES; m++)
		atomic_store_explicit(&thresholds[m], levels[m], memory_order_relaxed);
}
