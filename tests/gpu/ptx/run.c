/* SPDX-License-Identifier: BSD-3-Clause
 * Passes kernels from the emulation to the machine: see emulated_run_ptx() in runtime.h. */
#include "machine.h"
#include "tests/gpu/emulation/runtime.h"
#include <glob.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *folder;

static void read_all(void)
{
	char pattern[4096];
	glob_t files;

	folder = getenv("EMULATED_PTX");
	if (!folder)
		return;
	snprintf(pattern, sizeof pattern, "%s/*.ptx", folder);
	if (glob(pattern, 0, NULL, &files)) {
		fprintf(stderr, "EMULATED_PTX=%s: there are no .ptx files\n", folder);
		abort();
	}
	for (size_t i = 0; i < files.gl_pathc; i++)
		ptx_read(files.gl_pathv[i]);
	globfree(&files);
	/* Every launch allocates and frees some megabytes for registers. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

int emulated_run_ptx(const void *kernel, unsigned grid, unsigned threads, const void *args,
		     unsigned at_once)
{
	const struct ptx_kernel *k;
	const char *name;
	size_t bytes;

	pthread_once(&once, read_all);
	if (!folder)
		return 0;
	name = emulated_name(kernel, &bytes);
	k = ptx_find(name);
	if (!k || k->params != bytes) {
		fprintf(stderr, "kernel %s: %s\n", name,
			k ? "its arguments are of another size as nvcc sees them" :
			    "it is not in the files of EMULATED_PTX");
		abort();
	}
	const struct ptx_counts done = ptx_run(k, grid, threads, args, at_once == grid,
					       emulated_allocation);
	if (getenv("EMULATED_PTX_LOG"))
		fprintf(stderr,
			"%s: %u blocks, %llu instructions, %llu of the longest thread, "
			"%llu bytes of the device's memory\n",
			name, grid, (unsigned long long)done.instructions,
			(unsigned long long)done.longest, (unsigned long long)done.global_bytes);
	return 1;
}
