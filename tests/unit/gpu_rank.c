/* SPDX-License-Identifier: BSD-3-Clause
 * See gpu_rank.h. */
#include "gpu_rank.h"
#include "ranks.h"
#include <dlfcn.h>
#include <string.h>

const struct device_ops *device(void)
{
	const char *why = "";
	setenv("SLUICE_GPU", EMULATED_MODULE, 0);
	const struct device_ops *ops = device_load(&why);
	if (!ops)
		fprintf(stderr, "%s\n", why);
	CHECK(ops != NULL);
	return ops;
}

float *device_floats(const struct device_ops *ops, struct memory *m, const float *from, size_t n)
{
	CHECK_OK(ops->alloc(MEMORY_DEVICE, n * sizeof *from, m));
	CHECK_OK(ops->copy(m->address, from, n * sizeof *from, NULL));
	CHECK_OK(ops->wait(NULL));
	return m->address;
}

void device_look_up(const char *name, void *function)
{
	device();
	void *module = dlopen(device_module_path(), RTLD_NOW | RTLD_NOLOAD), *symbol = NULL;
	if (module)
		symbol = dlsym(module, name);
	if (!symbol)
		fprintf(stderr, "no %s in %s\n", name, device_module_path());
	CHECK(symbol != NULL);
	memcpy(function, &symbol, sizeof symbol);
	dlclose(module); /* it stays: the library has it */
}

int device_is_real(void)
{
	const char *named = getenv("SLUICE_GPU");
	return named && strcmp(named, EMULATED_MODULE) != 0;
}
