/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for traces that sluice-top joins. Input: the bytes of a file. What is joined from any
 * bytes is a trace that can be joined again without a change. */
#include "fuzz.h"
#include "metrics/trace_text.h"

/* Returns the joined text, and why the bytes were refused or NULL. */
static char *join(const char *bytes, size_t n, size_t *joined_bytes, const char **why)
{
	char *joined = NULL;
	struct trace_merge merge;
	FILE *from = fmemopen((void *)(uintptr_t)bytes, n, "r");
	FILE *to = open_memstream(&joined, joined_bytes);

	require(from && to, "no memory");
	trace_merge_begin(&merge, to);
	*why = trace_merge_add(&merge, from);
	trace_merge_end(&merge);
	fclose(from);
	fclose(to);
	return joined;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *why;
	char *once, *twice;
	size_t n, m;

	if (!size)
		return 0;
	once = join((const char *)data, size, &n, &why);
	twice = join(once, n, &m, &why);
	require(!why, "a joined trace is refused");
	require(n == m && !memcmp(once, twice, n), "a joined trace changes");
	free(once);
	free(twice);
	return 0;
}
