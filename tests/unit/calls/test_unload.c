/* SPDX-License-Identifier: BSD-3-Clause
 * A program that loads the library at run time and unloads it while a job is open, as an
 * interpreter does after an exception: the progress thread still runs the library's code. It knows
 * only the library's file. */
#include "sluice.h"
#include "cases.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 30 };

static void find(void *library, const char *name, void *function, size_t bytes)
{
	void *symbol = dlsym(library, name);

	assert_non_null(symbol);
	memcpy(function, &symbol, bytes);
}

/* Returns how often the other threads of this process have gone to sleep. */
static long sleeps_of_others(void)
{
	char path[300], line[200], own[32];
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	long sum = 0, one;

	assert_non_null(tasks);
	snprintf(own, sizeof(own), "%ld", (long)getpid());
	while ((entry = readdir(tasks))) {
		FILE *status;

		if (*entry->d_name == '.' || !strcmp(entry->d_name, own))
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		status = fopen(path, "r");
		while (status && fgets(line, sizeof(line), status))
			if (sscanf(line, "voluntary_ctxt_switches: %ld", &one) == 1)
				sum += one;
		if (status)
			fclose(status);
	}
	closedir(tasks);
	return sum;
}

TEST(dlclose__with_an_open_job__the_progress_thread_goes_on)
{
	int (*init)(const sluice_job_attr *, sluice_job **);
	void (*finalize)(sluice_job **);
	void *library = dlopen(LIBRARY, RTLD_NOW);
	sluice_job *job = NULL;
	long before;
	time_t end;

	if (!library)
		fail_msg("%s", dlerror());
	find(library, "sluice_init", &init, sizeof(init));
	assert_int_equal(init(NULL, &job), 0);
	assert_int_equal(dlclose(library), 0);

	/* The thread wakes for its heartbeats, so this waits until it has slept, woken and slept
	 * again. */
	before = sleeps_of_others();
	end = time(NULL) + LIMIT_S;
	while (sleeps_of_others() < before + 2 && time(NULL) < end)
		usleep(10000);
	assert_true(sleeps_of_others() >= before + 2);

	/* dlopen() finds the same library, with its job. */
	library = dlopen(LIBRARY, RTLD_NOW);
	assert_non_null(library);
	find(library, "sluice_finalize", &finalize, sizeof(finalize));
	finalize(&job);
	assert_null(job);
	assert_int_equal(dlclose(library), 0);
}
