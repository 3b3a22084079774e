/* SPDX-License-Identifier: BSD-3-Clause
 * The last error of a thread: a code (SLUICE_E*) and a sentence. All files call fail(). */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H
#include "base/log.h"
#include <stdarg.h>
#include <stddef.h>

enum { ERROR_TEXT_BYTES = 768 };

/* Stores the sentence as this thread's sluice_last_error(), logs it once at error level, and
 * returns code. The function that detects a failure calls this; its callers only pass the code on,
 * without another message. */
int fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As fail(), but without the log line: for a failure that was already logged. */
int fail_quietly(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets *why, unless why is NULL, to the reason why bytes of another process are refused. Returns
 * SLUICE_EWIRE. */
int refuse_bytes(const char **why, const char *text);

/* A section of a call that handles its own failures, such as a full queue or a transport that is
 * not needed. Scopes are on the stack of one thread, and nest. */
struct error_scope {
	struct error_scope *outer;
	int kept;                    /* 1 after a failure in this scope */
	char text[ERROR_TEXT_BYTES]; /* the text of sluice_last_error() before the scope */
};
void error_begin(struct error_scope *scope);
/* Ends the scope and returns rc. If rc is 0, failures within the scope leave the text of
 * sluice_last_error() as it was before. */
int error_end(struct error_scope *scope, int rc);

/* Holds back the next error of this thread: it is stored, but not logged before error_release(). A
 * collective call uses this until it knows whether other ranks have the same error. Later errors
 * are logged at once. */
void error_hold(void);
/* Ends error_hold(). If an error was held back, logs it at this level and makes it the text of
 * sluice_last_error(). */
void error_release(enum log_level level);

/* Replaces control characters by spaces. For a text from another process, because the text will be
 * shown on a terminal. */
void blank_controls(char *text);

/* Returns for example "ENOENT (No such file or directory)" for an errno value. The text is static
 * or thread-local. */
const char *errno_text(int err);
#endif
