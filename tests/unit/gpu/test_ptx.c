/* SPDX-License-Identifier: BSD-3-Clause
 * The machine that executes nvcc's translation of the kernels (tests/gpu/ptx): it executes what a
 * GPU would execute, and ends the process with an explanation where a GPU would fault. */

#include "tests/gpu/ptx/machine.h"
#include "cases.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 256 };
static _Alignas(16) uint32_t words[WORDS];

static int known(const void *p, const char **base, size_t *bytes)
{
	*base = (const char *)words;
	*bytes = sizeof words;
	return (const char *)p >= *base && (const char *)p < *base + *bytes;
}

static int read_kernels(void **state)
{
	ptx_read(FAULTS);
	return 0;
}

static struct ptx_counts run(const char *name, int together)
{
	uint32_t *params = words;
	const struct ptx_kernel *k = ptx_find(name);

	assert_non_null(k);
	return ptx_run(k, 2, WORDS, &params, together, known);
}

TEST(kernel__that_is_right__computes_and_is_counted)
{
	for (int together = 0; together < 2; together++) {
		memset(words, 0xff, sizeof words);
		const struct ptx_counts done = run("right", together);
		for (uint32_t i = 0; i < WORDS; i++)
			assert_int_equal(words[i], (i + 32) % WORDS + (i ^ 1));
		assert_int_equal(done.global_bytes, 2 * sizeof words);
		assert_int_equal(done.instructions, 2 * WORDS * 19);
		assert_int_equal(done.longest, 19);
	}
}

/* Expects that the process ends with this message. */
static void ends_saying(const char *name, const char *why)
{
	char said[4096] = "";
	int pipe_ends[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t child;

	assert_int_equal(pipe(pipe_ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		dup2(pipe_ends[1], STDERR_FILENO);
		close(pipe_ends[0]);
		close(pipe_ends[1]);
		signal(SIGABRT, SIG_DFL);
		run(name, 0);
		_exit(0);
	}
	close(pipe_ends[1]);
	while ((got = read(pipe_ends[0], said + n, sizeof said - 1 - n)) > 0)
		n += (size_t)got;
	close(pipe_ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(said, why) ||
	    !strstr(said, name))
		fail_msg("%s: status %x, said: %s", name, (unsigned)status, said);
}

TEST(kernel__that_a_gpu_would_fault_on__is_named_with_the_reason)
{
	static const struct {
		const char *name, *why;
	} faults[] = {
		{ "misaligned", "is not a multiple of 16" },
		{ "beyond", "are not memory of the device" },
		{ "race_of_warps", "with no barrier in between" },
		{ "race_of_lanes", "with no barrier in between" },
		{ "unwritten", "nobody has written this shared memory" },
		{ "lanes_apart", "wait for each other at different places" },
		{ "block_apart", "ended before this barrier" },
		{ "shared_beyond", "are beyond the 1020 bytes of shared memory" },
	};

	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		ends_saying(faults[i].name, faults[i].why);
}

int main(void)
{
	return run_cases(read_kernels, NULL);
}
