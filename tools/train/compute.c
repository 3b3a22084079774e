/* SPDX-License-Identifier: BSD-3-Clause
 * Turns the text of --device into a table of operations; loads the module for GPUs. */
#include "tools/train/compute.h"
#include "base/module.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* named: the file of the module; NULL: the installed module. */
static const struct compute_ops *load(const char *named, char *text, size_t cap)
{
	const char *path = named;
	char installed[PATH_MAX];
	const struct compute_ops *ops;
	compute_module_fn *module;
	void *handle = NULL, *symbol;
	int absent = 0;

	if (!named) {
		absent = module_find("libsluice_train_cuda.so", installed, sizeof(installed));
		path = installed;
	}
	if (!absent)
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		snprintf(text, cap,
			 "--device cuda: this sluice-train has no module for GPUs (%s): build "
			 "Sluice with --with-cuda=yes, or name the module with --device cuda:FILE",
			 absent ? installed : dlerror());
		return NULL;
	}
	symbol = dlsym(handle, COMPUTE_MODULE_SYMBOL);
	memcpy(&module, &symbol, sizeof(symbol));
	ops = symbol ? module() : NULL;
	if (ops && ops->size == sizeof(*ops))
		return ops; /* stays loaded, because other simulated ranks also use it */
	snprintf(text, cap, "--device cuda: %s is not a module of this build of sluice-train",
		 path);
	dlclose(handle);
	return NULL;
}

int compute_open(const char *device, struct compute *out, char *text, size_t cap)
{
	char why[512];

	*out = (struct compute){ .ops = &compute_cpu };
	if (strcmp(device, "cpu")) {
		out->ops = load(device[4] == ':' ? device + 5 : NULL, text, cap);
		if (!out->ops)
			return -1;
	}
	if (!out->ops->open(&out->state, text, cap))
		return 0;
	snprintf(why, sizeof(why), "%s", out->ops->error());
	snprintf(text, cap, "--device cuda: %s", why);
	*out = (struct compute){ 0 };
	return -1;
}

void compute_close(struct compute *compute)
{
	if (compute->ops)
		compute->ops->close(compute->state);
	*compute = (struct compute){ 0 };
}
