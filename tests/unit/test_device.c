/* SPDX-License-Identifier: BSD-3-Clause
 * Finding the GPU module: with and without it, with and without a driver. Each case is a process,
 * because the module is looked for once. */
#include "base/error.h"
#include "base/device.h"
#include "sluice.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { YES, NO };

/* Runs `holds` in a child with SLUICE_GPU set (NULL: not). */
static void expect(int (*holds)(void), const char *gpu)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		if (gpu)
			setenv("SLUICE_GPU", gpu, 1);
		else
			unsetenv("SLUICE_GPU");
		_exit(holds());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), YES);
}

static int host_memory_is_host_memory(void)
{
	const struct device_ops *ops = (const void *)1;
	int here = 0;

	return !device_of(&here, &ops) && !ops ? YES : NO;
}

static void device_of__host_memory_without_driver_or_module(void **state)
{
	(void)state;
	expect(host_memory_is_host_memory, NULL);
	expect(host_memory_is_host_memory, "off");
	expect(host_memory_is_host_memory, "/nowhere/libsluice_cuda.so");
	expect(host_memory_is_host_memory, EMULATED_MODULE);
}

static int load_says(const char *first, const char *second)
{
	const char *why = "";

	if (device_load(&why) || !strstr(why, first) || !strstr(why, second)) {
		fprintf(stderr, "said: %s\n", why);
		return NO;
	}
	return device_load(&why) ? NO : YES;
}

static int absent(void)
{
	return load_says("there is no GPU module (/nowhere/libsluice_cuda.so: ", "--with-cuda=yes");
}

static int switched_off(void)
{
	return load_says("switched off", "SLUICE_GPU=off");
}

static int stranger(void)
{
	return load_says("libm.so.6 is no GPU module of this build", "");
}

static void device_load__what_is_missing_is_said(void **state)
{
	(void)state;
	expect(absent, "/nowhere/libsluice_cuda.so");
	expect(switched_off, "off");
	expect(stranger, "libm.so.6");
}

static int device_memory_is_found(void)
{
	const char *why = "";
	const struct device_ops *ops = device_load(&why), *found = NULL;
	struct memory memory;

	if (!ops || ops->alloc(MEMORY_DEVICE, 100, &memory) ||
	    device_of((char *)memory.address + 99, &found) || found != ops)
		return NO;
	ops->release(&memory);
	return memory.address ? NO : YES;
}

static void device_of__device_memory_gives_the_table(void **state)
{
	(void)state;
	expect(device_memory_is_found, EMULATED_MODULE);
}

static int another_device_is_refused(void)
{
	void *module = dlopen(EMULATED_MODULE, RTLD_NOW),
	     *symbol = dlsym(module, "emulated_device");
	const char *why = "";
	const struct device_ops *ops = device_load(&why), *found = NULL;
	void (*present)(int);
	struct memory memory;
	char text[200];

	memcpy(&present, &symbol, sizeof(symbol));
	present(2);
	setenv("SLURM_LOCALID", "1", 1);
	if (!ops || ops->choose(text, sizeof(text)) || ops->alloc(MEMORY_DEVICE, 100, &memory) ||
	    device_of(memory.address, &found))
		return NO;
	setenv("SLURM_LOCALID", "0", 1);
	sluice_set_log(NULL, NULL);
	if (ops->choose(text, sizeof(text)) || device_of(memory.address, &found) != SLUICE_EGPU)
		return NO;
	ops->release(&memory);
	return strstr(sluice_last_error(), "it is on GPU 1, but the calling thread uses GPU 0") ?
		       YES :
		       NO;
}

static void device_of__memory_of_another_device_than_the_current_one__is_refused(void **state)
{
	(void)state;
	expect(another_device_is_refused, EMULATED_MODULE);
}

static int no_driver_is_said(void)
{
	void *module = dlopen(EMULATED_MODULE, RTLD_NOW),
	     *symbol = dlsym(module, "emulated_device");
	const char *why = "";
	const struct device_ops *ops = device_load(&why);
	void (*present)(int);
	char text[200];

	memcpy(&present, &symbol, sizeof(symbol));
	present(0);
	if (!ops->describe(text, sizeof(text)) ||
	    !strstr(ops->error(),
		    "this node has no CUDA driver (libcuda.so.1), or one older than CUDA 13.0"))
		return NO;
	return host_memory_is_host_memory();
}

static void describe__without_a_driver_says_so(void **state)
{
	(void)state;
	expect(no_driver_is_said, EMULATED_MODULE);
}

/* The driver is in the process, and says that everything is its memory. */
static int refused_without_module(void)
{
	const struct device_ops *ops;
	int here = 0;

	if (!dlopen(FAKE_DRIVER, RTLD_NOW))
		return NO;
	sluice_set_log(NULL, NULL);
	if (device_of(&here, &ops) != SLUICE_EGPU)
		return NO;
	return strstr(sluice_last_error(), "is GPU memory, but there is no GPU module (/nowhere/") ?
		       YES :
		       NO;
}

static void device_of__device_memory_without_module_is_refused(void **state)
{
	(void)state;
	expect(refused_without_module, "/nowhere/libsluice_cuda.so");
}

/* The application loads the driver when it has pushed from host memory already; and other libraries
 * before it. */
static int driver_that_comes_late_is_noticed(void)
{
	const struct device_ops *ops;
	int here = 0;

	if (device_of(&here, &ops) || ops || device_of(&here, &ops) || ops)
		return NO;
	if (!dlopen(EMULATED_MODULE, RTLD_NOW) || device_of(&here, &ops) || ops)
		return NO;
	return refused_without_module();
}

static void device_of__driver_loaded_between_two_calls_is_noticed(void **state)
{
	(void)state;
	expect(driver_that_comes_late_is_noticed, "/nowhere/libsluice_cuda.so");
}

#ifdef REAL_MODULE
/* The module that was built loads anywhere; where there is no driver it says so. */
static int real_module_loads(void)
{
	const char *why = "";
	const struct device_ops *ops = device_load(&why);
	char text[512];

	if (!ops) {
		fprintf(stderr, "%s\n", why);
		return NO;
	}
	if (ops->describe(text, sizeof(text)) && !strstr(ops->error(), "CUDA driver"))
		return NO;
	return host_memory_is_host_memory();
}
#endif

static void device_load__the_module_that_was_built_loads_without_a_driver(void **state)
{
	(void)state;
#ifdef REAL_MODULE
	expect(real_module_loads, REAL_MODULE);
#else
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_of__host_memory_without_driver_or_module),
		cmocka_unit_test(device_load__what_is_missing_is_said),
		cmocka_unit_test(device_of__device_memory_gives_the_table),
		cmocka_unit_test(
			device_of__memory_of_another_device_than_the_current_one__is_refused),
		cmocka_unit_test(describe__without_a_driver_says_so),
		cmocka_unit_test(device_of__device_memory_without_module_is_refused),
		cmocka_unit_test(device_of__driver_loaded_between_two_calls_is_noticed),
		cmocka_unit_test(device_load__the_module_that_was_built_loads_without_a_driver),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
