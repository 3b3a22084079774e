/* SPDX-License-Identifier: BSD-3-Clause
 * The last error of a thread: a code (SLUICE_E*) and a sentence. Everyone calls fail(). */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H
#include "base/log.h"
#include <stdarg.h>
#include <stddef.h>

enum { ERROR_TEXT_BYTES = 768 };

/* Remembers the sentence for sluice_last_error() of this thread, logs it once at error level, and
 * returns code. Used where a failure is detected; callers above pass the code up in silence. */
int fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same without the log line: for a failure that was logged where it was detected. */
int fail_quietly(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The time of a call in which something may fail that is then dealt with (a transport that is not
 * needed, a full queue). Scopes lie on the stack, within each other, on one thread. */
struct error_scope {
	struct error_scope *outer;
	int kept;                    /* something failed: */
	char text[ERROR_TEXT_BYTES]; /* what sluice_last_error() said before that */
};
void error_begin(struct error_scope *scope);
/* rc 0: what failed in this scope leaves no trace in sluice_last_error(). Returns rc. */
int error_end(struct error_scope *scope, int rc);

/* The next error of this thread is remembered, but not logged before error_release(): a collective
 * call holds its own error back until it knows whether other ranks have the same one. Errors after
 * it are logged at once. */
void error_hold(void);
/* Ends that. The error that was held back, if there is one, is logged at this level, and is again
 * what sluice_last_error() says. */
void error_release(enum log_level level);

/* Of a sentence that another process wrote: control characters become blanks, because it is shown
 * on a terminal. */
void blank_controls(char *text);

/* "ENOENT (No such file or directory)" for errno values; static or thread-local text. */
const char *errno_text(int err);
#endif
