/* SPDX-License-Identifier: BSD-3-Clause
 * A sink for log lines that nobody reads: for tests of refusals. */
#ifndef TESTS_QUIET_H
#define TESTS_QUIET_H

static inline void swallow_line(int level, const char *line, void *context)
{
	(void)level;
	(void)line;
	(void)context;
}
#endif
