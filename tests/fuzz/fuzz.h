/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the fuzz targets: a check that ends the process, buffers of exact size, and a library
 * that logs nothing. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H
#include "base/error.h"
#include "sluice.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz: %s; last error: \"%s\"\n", what, sluice_last_error());
	abort();
}

/* Allocates exactly this number of bytes, so that a sanitizer detects an access beyond the end. */
static inline void *get_memory(size_t bytes)
{
	void *memory = malloc(bytes);

	require(memory || !bytes, "no memory");
	return memory;
}

static inline void drop_line(int level, const char *line, void *context)
{
	(void)level;
	(void)line;
	(void)context;
}

/* Called before each call that may be refused: removes log lines and the last error. */
static inline void begin(void)
{
	sluice_set_log(drop_line, NULL);
	fail_quietly(SLUICE_OK, "%s", "");
}

/* Called after a refusal: expects one of the two codes in the contract, and one log line with the
 * reason. */
static inline void expect_refusal(int rc, int code, int other_code)
{
	const char *why = sluice_last_error();

	require(rc == code || rc == other_code, "refused with a code that the contract lacks");
	require(*why, "refused without a reason");
	for (; *why; why++)
		require((unsigned char)*why >= 0x20 && *why != 0x7f,
			"a control byte of the input is in the reason");
}
#endif
