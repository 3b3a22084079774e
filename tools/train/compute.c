/* SPDX-License-Identifier: BSD-3-Clause
 * From the text of --device to a table of operations; loads the module for GPUs. */
#include "tools/train/compute.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const struct compute_ops *load(const char *path, char *text, size_t cap)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol;
	const struct compute_ops *ops;
	compute_module_fn *module;

	if (!handle) {
		snprintf(text, cap,
			 "--device cuda: this sluice-train has no module for GPUs (%s): build "
			 "Sluice with --with-cuda=yes, or name the module with --device cuda:FILE",
			 dlerror());
		return NULL;
	}
	symbol = dlsym(handle, COMPUTE_MODULE_SYMBOL);
	memcpy(&module, &symbol, sizeof(symbol));
	ops = symbol ? module() : NULL;
	if (ops && ops->size == sizeof(*ops))
		return ops; /* stays loaded: other simulated ranks use it too */
	snprintf(text, cap, "--device cuda: %s is no module of this build of sluice-train", path);
	dlclose(handle);
	return NULL;
}

int compute_open(const char *device, struct compute *out, char *text, size_t cap)
{
	char why[512];

	*out = (struct compute){ .ops = &compute_cpu };
	if (strcmp(device, "cpu")) {
		out->ops = load(device[4] == ':' ? device + 5 :
						   SLUICE_MODULE_DIR "/libsluice_train_cuda.so",
				text, cap);
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
