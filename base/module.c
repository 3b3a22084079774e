/* SPDX-License-Identifier: BSD-3-Clause
 * See module.h. An installation that is moved as a whole keeps its relative paths: the folder of
 * the library's modules is as far from the library as configure decided, and that of a program's
 * modules as far from the program. */
#include "base/module.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The length of the beginning that two paths share, in whole components. */
static size_t common_length(const char *a, const char *b)
{
	size_t common = 0;

	for (size_t i = 0;; i++) {
		if ((!a[i] || a[i] == '/') && (!b[i] || b[i] == '/'))
			common = i;
		if (!a[i] || a[i] != b[i])
			return common;
	}
}

/* Writes the folder of modules in the installation that the object with this code belongs to.
 * Returns -1 if the folder cannot be determined. */
static int folder_beside(char *folder, size_t cap)
{
	const char *home = SLUICE_LIB_DIR, *file;
	char self[PATH_MAX], *slash;
	struct link_map *map;
	size_t common;
	Dl_info info;

	if (!dladdr1((const void *)(uintptr_t)folder_beside, &info, (void **)&map, RTLD_DL_LINKMAP))
		return -1;
	file = map->l_name;
	if (!*file) { /* the object is the program itself, whose recorded name may be relative to
			 any folder */
		home = SLUICE_BIN_DIR;
		file = "/proc/self/exe";
	}
	if (!realpath(file, self))
		return -1;
	common = common_length(home, SLUICE_MODULE_DIR);
	for (const char *up = home + common;; up++) {
		if (*up && *up != '/')
			continue;
		slash = strrchr(self, '/'); /* cuts off the file's name first, then one folder for
					       each component of home */
		if (!slash)
			return -1;
		*slash = 0;
		if (!*up)
			break;
	}
	return snprintf(folder, cap, "%s%s", self, &SLUICE_MODULE_DIR[common]) < (int)cap ? 0 : -1;
}

int module_find(const char *file, char *path, size_t cap)
{
	char beside[PATH_MAX];
	int known = !folder_beside(beside, sizeof(beside));

	if (known) {
		snprintf(path, cap, "%s/%s", beside, file);
		if (!access(path, F_OK))
			return 0;
	}
	snprintf(path, cap, "%s/%s", SLUICE_MODULE_DIR, file);
	if (!access(path, F_OK))
		return 0;
	if (known && strcmp(beside, SLUICE_MODULE_DIR))
		snprintf(path, cap, "%s is neither in %s nor in %s", file, beside,
			 SLUICE_MODULE_DIR);
	else
		snprintf(path, cap, "%s is not in %s", file, SLUICE_MODULE_DIR);
	return -1;
}
