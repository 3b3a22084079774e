/* SPDX-License-Identifier: BSD-3-Clause
 * Preloaded into a program that trains with vectors in host memory: gives the library copies of
 * them in GPU memory instead, and copies the parameters back after each pull. So any unchanged
 * training job becomes a test of gradients on the GPU: its digests must stay the same. One model at
 * a time. */
#include "base/device.h"
#include "sluice.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct device_ops *ops;
static struct memory params, grad;
static size_t bytes;

static void *next(const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	if (symbol)
		return symbol;
	fprintf(stderr, "preload: no %s: %s\n", name, dlerror());
	exit(3);
}

static void need(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "preload: %s: %s\n", what, ops ? ops->error() : dlerror());
	exit(3);
}

/* The library finds the same module by the same variable. */
static void load(void)
{
	const char *path = getenv("SLUICE_GPU");
	void *module = path ? dlopen(path, RTLD_NOW) : NULL, *symbol;
	device_module_fn *table;

	need(!module, "SLUICE_GPU must name the module");
	symbol = dlsym(module, DEVICE_MODULE_SYMBOL);
	need(!symbol, "no module");
	memcpy(&table, &symbol, sizeof symbol);
	ops = table();
}

static void copy(void *to, const void *from)
{
	need(ops->copy(to, from, bytes, NULL), "a copy");
	need(ops->wait(NULL), "a copy");
}

SLUICE_API int sluice_model_open(sluice_job *job, const sluice_model_attr *attr, void *host,
				 sluice_model **model_out)
{
	int (*open)(sluice_job *, const sluice_model_attr *, void *, sluice_model **);
	void *symbol = next("sluice_model_open");

	memcpy(&open, &symbol, sizeof symbol);
	if (!ops)
		load();
	bytes = attr->count * sizeof(float);
	need(ops->alloc(MEMORY_DEVICE, bytes, &params) || ops->alloc(MEMORY_DEVICE, bytes, &grad),
	     "vectors");
	copy(params.address, host);
	int rc = open(job, attr, params.address, model_out);
	copy(host, params.address);
	return rc;
}

SLUICE_API int sluice_push(sluice_model *model, const void *host)
{
	int (*push)(sluice_model *, const void *);
	void *symbol = next("sluice_push");

	memcpy(&push, &symbol, sizeof symbol);
	copy(grad.address, host);
	return push(model, grad.address);
}

SLUICE_API int sluice_pull(sluice_model *model, void *host)
{
	int (*pull)(sluice_model *, void *);
	void *symbol = next("sluice_pull");

	memcpy(&pull, &symbol, sizeof symbol);
	int rc = pull(model, params.address);
	copy(host, params.address);
	return rc;
}
