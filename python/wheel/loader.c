/* SPDX-License-Identifier: BSD-3-Clause
 * See loader.h. */
#include "python/wheel/loader.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int load(const struct loader *loader)
{
	void *handle = dlopen(loader->file, RTLD_NOW | RTLD_LOCAL);
	int i = 0;

	if (!handle)
		return -1;
	while (loader->names[i] && (loader->found[i] = dlsym(handle, loader->names[i])) != NULL)
		i++;
	if (!loader->names[i])
		return 1;
	dlclose(handle);
	return -1;
}

void *loader_find(struct loader *loader, int at)
{
	int state = __atomic_load_n(&loader->state, __ATOMIC_ACQUIRE);

	if (!state) {
		pthread_mutex_lock(&lock);
		if (!loader->state)
			__atomic_store_n(&loader->state, load(loader), __ATOMIC_RELEASE);
		state = loader->state;
		pthread_mutex_unlock(&lock);
	}
	if (state > 0)
		return loader->found[at];
	errno = ELIBACC;
	return NULL;
}
