/* SPDX-License-Identifier: BSD-3-Clause
 * Discards log lines, for programs that make many refusals. */
#ifndef TESTS_QUIET_H
#define TESTS_QUIET_H
#include "cases.h"
#include "sluice.h"

static void swallow_line(int level, const char *line, void *context)
{
}

__attribute__((constructor)) static void be_quiet(void)
{
	sluice_set_log(swallow_line, NULL);
}
#endif
