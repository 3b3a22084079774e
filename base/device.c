/* SPDX-License-Identifier: BSD-3-Clause
 * Finds and loads the GPU module that gpu/ builds. Without the driver's library there is no device
 * memory, so in a process without CUDA each call compares the number of loaded libraries and looks
 * up SLUICE_GPU, without a lock of Sluice and without a system call. */
#include "base/device.h"
#include "base/env.h"
#include "base/error.h"
#include "base/module.h"
#include "sluice.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_MODULE                                                                                  \
	"there is no GPU module (%s): build Sluice with --with-cuda=yes, or name the module with " \
	"SLUICE_GPU"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct device_ops *_Atomic loaded;
static void *module_handle; /* handle of the loaded module; set before `loaded`, and never closed */
static char module_file[PATH_MAX]; /* the file that load_module() opened or tried to open; protected
				      by lock */
static char reason[PATH_MAX + 256]; /* why loading failed; it is tried only once; protected by
				       lock */

/* Sets module_file. If there is no module, returns -1 and writes the cause to `reason`. */
static int choose_file(void)
{
	const char *named = env_text("SLUICE_GPU");

	if (named && !strcmp(named, "off")) {
		snprintf(reason, sizeof(reason), "the GPU module is switched off (SLUICE_GPU=off)");
		return -1;
	}
	if (named && *named && strcmp(named, "auto")) {
		snprintf(module_file, sizeof(module_file), "%s", named);
		return 0;
	}
	if (!module_find("libsluice_cuda.so", module_file, sizeof(module_file)))
		return 0;
	snprintf(reason, sizeof(reason), NO_MODULE, module_file);
	*module_file = 0;
	return -1;
}

static const struct device_ops *load_module(void)
{
	const struct device_ops *ops;
	device_module_fn *module;
	void *handle, *symbol;

	if (choose_file())
		return NULL;
	handle = dlopen(module_file, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		snprintf(reason, sizeof(reason), NO_MODULE, dlerror());
		return NULL;
	}
	symbol = dlsym(handle, DEVICE_MODULE_SYMBOL);
	memcpy(&module, &symbol, sizeof(symbol));
	ops = symbol ? module() : NULL;
	if (ops && ops->size == sizeof(*ops)) {
		module_handle = handle;
		return ops;
	}
	snprintf(reason, sizeof(reason), "%s is not a GPU module of this build of Sluice",
		 module_file);
	dlclose(handle);
	return NULL;
}

const struct device_ops *device_load(const char **why)
{
	const struct device_ops *ops = loaded;

	if (ops)
		return ops;
	pthread_mutex_lock(&lock);
	ops = loaded;
	if (!ops && !*reason)
		loaded = ops = load_module();
	*why = reason;
	pthread_mutex_unlock(&lock);
	return ops;
}

void *device_symbol(const char *name)
{
	return loaded ? dlsym(module_handle, name) : NULL;
}

const char *device_module_path(void)
{
	const char *why;

	device_load(&why);
	return module_file;
}

/* Asks the driver that the process has loaded already. Used when the module is unavailable. This
 * relies on the driver's ABI: cuPointerGetAttribute(void *, CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
 * CUdeviceptr), where the result 2 means device memory. */
static int driver_says_device(void *driver, const void *p)
{
	int (*get)(void *, int, unsigned long long);
	void *symbol = dlsym(driver, "cuPointerGetAttribute");
	int type = 0;

	memcpy(&get, &symbol, sizeof(symbol));
	return symbol && !get(&type, 2, (unsigned long long)(uintptr_t)p) && type == 2;
}

/* A callback of dl_iterate_phdr() that sees only the first object, because returning 1 ends the
 * iteration. Each entry holds the number of objects that were ever loaded. */
static int count_loaded(struct dl_phdr_info *info, size_t size, void *context)
{
	if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof(info->dlpi_adds))
		*(unsigned long long *)context = info->dlpi_adds;
	return 1;
}

/* Returns a handle of the driver's library, which the caller closes, or NULL if the process has not
 * loaded it. The search is slow, because dlopen() also looks at files, and every push and pull
 * calls this function. It therefore searches only if a library was loaded since the last search. */
static void *driver_in_process(void)
{
	/* The number of objects that had ever been loaded when a search last found no driver. */
	static _Atomic unsigned long long without;
	unsigned long long now = 0;
	void *driver;

	dl_iterate_phdr(count_loaded, &now);
	if (now && now == without)
		return NULL;
	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!driver)
		without = now;
	return driver;
}

int device_of(const void *p, const struct device_ops **ops_out)
{
	const struct device_ops *ops = loaded;
	const char *why = "", *named;
	void *driver = NULL;
	int device, found;

	*ops_out = NULL;
	if (!ops) {
		/* A module that SLUICE_GPU names is always asked, because it may bring its own
		 * driver. */
		driver = driver_in_process();
		named = env_text("SLUICE_GPU");
		if (!driver && !(named && strchr(named, '/')))
			return 0;
		ops = device_load(&why);
	}
	found = ops ? ops->find(p, &device) : driver ? driver_says_device(driver, p) : 0;
	if (driver)
		dlclose(driver);
	if (!ops && found)
		return fail(SLUICE_EGPU, "%p is GPU memory, but %s", p, why);
	if (found < 0)
		return device_fail(ops, "determining the device of a pointer");
	*ops_out = found ? ops : NULL;
	return 0;
}

void device_scope_begin(const void *p, void *stream, struct device_scope *scope)
{
	const struct device_ops *ops = loaded;
	const char *why;

	scope->ops = NULL;
	if (!stream || !p)
		return;
	if (!ops) /* a stream exists only where CUDA is in use, so a missing module is an error */
		ops = device_load(&why);
	if (ops && ops->enter(p, &scope->before))
		scope->ops = ops;
}

int device_scope_end(const struct device_scope *scope, int rc)
{
	if (scope->ops)
		scope->ops->leave(scope->before);
	return rc;
}

/* Launchers set these variables in a process to which they assign GPUs. */
static int was_given_gpus(void)
{
	static const char *const names[] = { "CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS",
					     "SLURM_JOB_GPUS" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value && strcmp(value, "-1") && strcmp(value, "NoDevFiles"))
			return 1;
	}
	return 0;
}

int device_bus_id(char *text, size_t cap)
{
	const struct device_ops *ops;
	const char *why, *named = env_text("SLUICE_GPU");
	void *driver = driver_in_process();

	if (driver)
		dlclose(driver);
	if (!driver && !was_given_gpus() && !(named && strchr(named, '/')))
		return -1;
	ops = device_load(&why);
	return ops && !ops->bus_id(text, cap) ? 0 : -1;
}

int device_fail(const struct device_ops *ops, const char *function)
{
	return fail(SLUICE_EGPU, "%s: %s", function, ops->error());
}
