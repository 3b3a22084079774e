/* SPDX-License-Identifier: BSD-3-Clause
 * The thread's last error, the names of the error codes, and the version string. Every failure in
 * the library passes through fail() at the place where it was detected. */
#include "base/error.h"
#include "base/log.h"
#include "base/wire_version.h"
#include "sluice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(token)       #token
#define TEXT_OF_VALUE(macro) TEXT_OF(macro)

static _Thread_local char last_error[ERROR_TEXT_BYTES];
static _Thread_local char held_error[ERROR_TEXT_BYTES]; /* the error that is held back; "" if
							   there is none */
static _Thread_local int holds_next;
static _Thread_local struct error_scope *innermost;

static void keep_in_scope(struct error_scope *scope, const char *text)
{
	if (!scope || scope->kept)
		return;
	scope->kept = 1;
	memcpy(scope->text, text, strlen(text) + 1);
}

static void __attribute__((format(printf, 1, 0))) remember(const char *format, va_list args)
{
	/* The text is formatted into a separate buffer, because the arguments may point into
	 * last_error. */
	char text[ERROR_TEXT_BYTES];
	int n = vsnprintf(text, sizeof(text), format, args);

	if (n < 0)
		snprintf(text, sizeof(text), "%s", "(the error message could not be formatted)");
	else if ((size_t)n >= sizeof(text))
		memcpy(text + sizeof(text) - 4, "...", 4);
	keep_in_scope(innermost, last_error);
	memcpy(last_error, text, strlen(text) + 1);
}

void error_begin(struct error_scope *scope)
{
	scope->outer = innermost;
	scope->kept = 0;
	innermost = scope;
}

int error_end(struct error_scope *scope, int rc)
{
	innermost = scope->outer;
	if (scope->kept && rc)
		keep_in_scope(innermost, scope->text);
	else if (scope->kept)
		memcpy(last_error, scope->text, strlen(scope->text) + 1);
	return rc;
}

int fail(int code, const char *format, ...)
{
	int saved_errno = errno;
	va_list args;

	va_start(args, format);
	remember(format, args);
	va_end(args);
	if (holds_next)
		memcpy(held_error, last_error, strlen(last_error) + 1);
	else
		log_line(LOG_ERROR, "runtime", "%s", last_error);
	holds_next = 0;
	errno = saved_errno;
	return code;
}

int fail_quietly(int code, const char *format, ...)
{
	int saved_errno = errno;
	va_list args;

	va_start(args, format);
	remember(format, args);
	va_end(args);
	holds_next = 0; /* this call's error is the one that is held back */
	errno = saved_errno;
	return code;
}

int refuse_bytes(const char **why, const char *text)
{
	if (why)
		*why = text;
	return SLUICE_EWIRE;
}

void error_hold(void)
{
	holds_next = 1;
}

void error_release(enum log_level level)
{
	holds_next = 0;
	if (!*held_error)
		return;
	memcpy(last_error, held_error, strlen(held_error) + 1);
	*held_error = '\0';
	log_line(level, "runtime", "%s", last_error);
}

void blank_controls(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
}

const char *errno_text(int err)
{
	static _Thread_local char text[128];
	const char *name = NULL;

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 32)
	name = strerrorname_np(err);
#endif
	char buffer[96];
	const char *meaning = strerror_r(err, buffer, sizeof(buffer));

	if (name)
		snprintf(text, sizeof(text), "%s (%s)", name, meaning);
	else
		snprintf(text, sizeof(text), "errno %d (%s)", err, meaning);
	return text;
}

const char *sluice_last_error(void)
{
	return last_error;
}

const char *sluice_strerror(int code)
{
	switch (code) {
	case SLUICE_OK: return "SLUICE_OK: success";
	case SLUICE_EINVAL:
		return "SLUICE_EINVAL: an argument, option, recipe or call order is wrong";
	case SLUICE_ENOMEM:
		return "SLUICE_ENOMEM: memory, descriptors or another local resource ran out";
	case SLUICE_ENOSUPP: return "SLUICE_ENOSUPP: not supported here";
	case SLUICE_EAGAIN: return "SLUICE_EAGAIN: a queue is full";
	case SLUICE_ETIMEDOUT: return "SLUICE_ETIMEDOUT: a wait ended without its event";
	case SLUICE_EDEVICE: return "SLUICE_EDEVICE: a transport or its device failed";
	case SLUICE_EBOOT: return "SLUICE_EBOOT: the launcher or PMIx failed";
	case SLUICE_EGPU: return "SLUICE_EGPU: CUDA failed";
	case SLUICE_EPEER:
		return "SLUICE_EPEER: another rank is lost, left early, or differs from this one";
	case SLUICE_EWIRE: return "SLUICE_EWIRE: bytes of a peer or of a checkpoint were refused";
	case SLUICE_ENUMERIC:
		return "SLUICE_ENUMERIC: a gradient holds NaN or infinity, or sums overflowed";
	case SLUICE_EIO: return "SLUICE_EIO: a file could not be read or written";
	}
	return "not a Sluice error code";
}

_Static_assert(__builtin_strcmp(PACKAGE_VERSION, SLUICE_VERSION) == 0,
	       "sluice.h and configure.ac have different versions");

/* Parses MAJOR.MINOR.PATCH into three numbers and returns 1. A space and any text may follow. */
static int read_version(const char *text, unsigned number[3])
{
	char end = '\0';
	int n = sscanf(text, "%u.%u.%u%c", &number[0], &number[1], &number[2], &end);

	return n == 3 || (n == 4 && end == ' ');
}

const char *sluice_version(const char *at_least)
{
	static const unsigned own[3] = { SLUICE_VERSION_MAJOR, SLUICE_VERSION_MINOR,
					 SLUICE_VERSION_PATCH };
	unsigned asked[3] = { 0 };
	int i = 0;

	if (at_least && !read_version(at_least, asked))
		return NULL;
	while (at_least && i < 2 && asked[i] == own[i])
		i++;
	return asked[i] > own[i] ? NULL :
				   SLUICE_VERSION " (wire " TEXT_OF_VALUE(SLUICE_WIRE_VERSION) ")";
}
