/* SPDX-License-Identifier: BSD-3-Clause
 * Writes one log line at a time, either to stderr, prefixed by rank, node and level, or to the
 * application's sink, which receives the level and the text without the prefix. Control characters
 * become spaces. SLUICE_LOG chooses levels, for example "warn" or "all+warn,rdma+debug". The
 * modules are runtime, rdma, slurm and compress. */
#ifndef BASE_LOG_H
#define BASE_LOG_H
#include "sluice.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum { LOG_LEVELS = 4, LOG_MODULES = 4 };
extern const char *const log_level_names[LOG_LEVELS]; /* by enum log_level */
extern const char *const log_module_names[LOG_MODULES];

void log_line(enum log_level level, const char *module, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int log_enabled(enum log_level level, const char *module);

/* Parses a SLUICE_LOG text and applies it. Modules that the text does not name are set to warn. On
 * a parse error, changes nothing and returns SLUICE_EINVAL with a message that names the most
 * similar known word. */
int log_configure(const char *text);
void log_set_levels(const int levels[LOG_MODULES]); /* indexed by module; each is an enum
						       log_level */
/* Makes the log prefix "sluice[3 n2]: ", from rank and node. Before the first call, and after a
 * call with rank -1, the prefix is "sluice: ". */
void log_identify(int rank, const char *node);
/* The error and warning lines of a thread while it gathers them: each begins with the digit of its
 * level and ends with a zero. */
enum { LOG_GATHERED_BYTES = 2048 };
struct log_gathered {
	size_t used;
	char lines[LOG_GATHERED_BYTES];
};
/* Until the next call, errors and warnings of this thread are added to *to instead of being
 * logged, if there is room. NULL: logs them again. */
void log_gather(struct log_gathered *to);
/* Passes every line that is logged to this function as well; NULL: to none. Any thread may call it,
 * and it must not log. */
void log_set_watch(void (*watch)(int level, const char *text));
void log_set_sink(sluice_log_fn sink, void *context);
#endif
