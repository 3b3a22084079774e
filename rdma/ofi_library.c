/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_library.h. */
#include "rdma/ofi_library.h"
#include "base/error.h"
#include "sluice.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char file[] = "libfabric.so.1";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ofi_library library;
static int loaded;

/* C distinguishes pointers to objects from pointers to functions; systems with dlsym() do not. */
static int find_symbol(void *handle, const char *name, void *function_out)
{
	void *found = dlsym(handle, name);

	if (!found)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s has no function %s: it is damaged, or not libfabric", file,
				    name);
	memcpy(function_out, &found, sizeof(found));
	return SLUICE_OK;
}

static int find_all(void *handle, struct ofi_library *l)
{
	int rc = find_symbol(handle, "fi_version", &l->version);

	if (!rc)
		rc = find_symbol(handle, "fi_getinfo", &l->getinfo);
	if (!rc)
		rc = find_symbol(handle, "fi_freeinfo", &l->freeinfo);
	if (!rc)
		rc = find_symbol(handle, "fi_dupinfo", &l->dupinfo);
	if (!rc)
		rc = find_symbol(handle, "fi_fabric", &l->fabric);
	if (!rc)
		rc = find_symbol(handle, "fi_strerror", &l->strerror);
	return rc;
}

/* Turns on options that Sluice needs and that are off by default in libfabric. libfabric reads them
 * in the first fi_getinfo() of the process. Values that the user has set do not change. */
static void set_options(void)
{
	/* Lets puts of cxi announce themselves, since libfabric 2.5.0. */
	setenv("FI_CXI_ENABLE_WRITEDATA", "1", 0);
}

void ofi_library_ports(int low, int high)
{
	/* Before libfabric 1.18, the provider net is TCP. */
	static const char *const names[][2] = {
		{ "FI_TCP_PORT_LOW_RANGE", "FI_TCP_PORT_HIGH_RANGE" },
		{ "FI_NET_PORT_LOW_RANGE", "FI_NET_PORT_HIGH_RANGE" },
	};
	char text[16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(text, sizeof(text), "%d", low);
		setenv(names[i][0], text, 1);
		snprintf(text, sizeof(text), "%d", high);
		setenv(names[i][1], text, 1);
	}
	snprintf(text, sizeof(text), "%d:%d", low, high);
	setenv("PSM3_TCP_PORT_RANGE", text, 1);
}

static int load_library(void)
{
	void *handle;
	struct ofi_library l;
	uint32_t version;
	int rc;

	set_options();
	handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return fail_quietly(SLUICE_ENOSUPP,
				    "libfabric cannot be loaded (%s): install it (Debian: "
				    "libfabric1, RHEL: libfabric)",
				    dlerror());
	rc = find_all(handle, &l);
	if (rc)
		goto err_unload;
	version = l.version();
	if (FI_VERSION_LT(version, OFI_API)) {
		rc = fail_quietly(
			SLUICE_ENOSUPP, "libfabric %u.%u is too old: Sluice needs %u.%u or later",
			FI_MAJOR(version), FI_MINOR(version), FI_MAJOR(OFI_API), FI_MINOR(OFI_API));
		goto err_unload;
	}
	library = l;
	loaded = 1;
	return SLUICE_OK;

err_unload:
	dlclose(handle);
	return rc;
}

int ofi_library_load(const struct ofi_library **out)
{
	int rc = SLUICE_OK;

	pthread_mutex_lock(&lock);
	if (!loaded)
		rc = load_library();
	pthread_mutex_unlock(&lock);
	*out = &library;
	return rc;
}

/* Reads a value as libfabric does (src/var.c). */
int ofi_library_option(const char *name)
{
	static const char *const on[] = { "1", "yes", "true", "on" };
	const char *value = getenv(name);

	for (size_t i = 0; value && i < sizeof(on) / sizeof(on[0]); i++)
		if (!strcasecmp(value, on[i]))
			return 1;
	return 0;
}
