/* SPDX-License-Identifier: BSD-3-Clause
 * See module.h. An installation that is moved as a whole keeps its relative paths, so a module is
 * searched at a path relative to the library or program, which configure has determined. A module
 * becomes a part of this process, so it is loaded only if no other user could have put it there. */
#include "base/module.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns the length of the path prefix that a and b share, counting whole components only. */
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

/* Sets self to the path of the object that contains this code, which is a library or the program
 * itself, and *home to the directory of modules that was configured for that object. Returns -1 if
 * the path cannot be determined; self is then "". */
static int find_this_library(char self[PATH_MAX], const char **home)
{
	const char *file;
	struct link_map *map;
	Dl_info info;

	*self = 0;
	*home = SLUICE_LIB_DIR;
	if (!dladdr1((const void *)(uintptr_t)find_this_library, &info, (void **)&map,
		     RTLD_DL_LINKMAP))
		return -1;
	file = map->l_name;
	if (!*file) { /* this is the program, whose recorded name may be relative to another
			 directory */
		*home = SLUICE_BIN_DIR;
		file = "/proc/self/exe";
	}
	if (realpath(file, self))
		return 0;
	*self = 0;
	return -1;
}

/* Writes the directory that configure has called `configured`, in the installation to which self
 * belongs. Returns -1 if self does not lie in an installed directory: any user could have created a
 * directory next to it. */
static int folder_beside(const char *self, const char *home, const char *configured, char *folder,
			 size_t cap)
{
	const size_t common = common_length(home, configured), tail = strlen(home + common);
	const char *slash = strrchr(self, '/');
	const size_t n = slash ? (size_t)(slash - self) : 0;

	if (!slash || n < tail || memcmp(self + n - tail, home + common, tail) != 0)
		return -1;
	return snprintf(folder, cap, "%.*s%s", (int)(n - tail), self, configured + common) <
			       (int)cap ?
		       0 :
		       -1;
}

int module_beside(const char *configured, char *folder, size_t cap)
{
	char self[PATH_MAX];
	const char *home;

	return find_this_library(self, &home) ? -1 :
						folder_beside(self, home, configured, folder, cap);
}

/* ---- the owner of a module ------------------------------------------------ */

/* The users who can change the code of this process anyway: root, the process's user, and the owner
 * of the object that contains this code. In a user namespace without root, the owner of "/" stands
 * for root. */
struct owners {
	uid_t of[4];
};

static struct owners find_owners(const char *self)
{
	struct owners owners = { { 0, geteuid(), 0, 0 } };
	struct stat status;

	if (!stat("/", &status))
		owners.of[2] = status.st_uid;
	if (*self && !stat(self, &status))
		owners.of[3] = status.st_uid;
	return owners;
}

static int is_owner(const struct owners *owners, uid_t user)
{
	for (size_t i = 0; i < sizeof(owners->of) / sizeof(owners->of[0]); i++)
		if (owners->of[i] == user)
			return 1;
	return 0;
}

/* Returns -1 and sets why if other users could change path. near_module is 1 for the module and its
 * directory. A directory further up may be like /tmp, where a user cannot replace the files of
 * others. A group whose number equals the owner's number is the owner's private group. */
static int check_owner(const char *path, int near_module, const struct owners *owners, char *why,
		       size_t cap)
{
	struct stat status;

	if (lstat(path, &status)) {
		snprintf(why, cap, "%s cannot be examined: %s", path, strerror(errno));
		return -1;
	}
	if (!is_owner(owners, status.st_uid)) {
		snprintf(
			why, cap,
			"%s belongs to user %u, and not to user %u, to root or to the owner of the "
			"installation",
			path, (unsigned)status.st_uid, (unsigned)geteuid());
		return -1;
	}
	if (!(status.st_mode & S_IWOTH) &&
	    (!(status.st_mode & S_IWGRP) || status.st_gid == status.st_uid))
		return 0;
	if (!near_module && S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX))
		return 0;
	snprintf(why, cap, "%s can be written by others (mode %04o)", path,
		 (unsigned)status.st_mode & 07777);
	return -1;
}

/* Checks an absolute path without symbolic links: the file, and each directory that leads to it. */
static int check_owners(const char *path, const struct owners *owners, char *why, size_t cap)
{
	const char *last = strrchr(path, '/');
	char part[PATH_MAX];

	for (const char *slash = path; slash; slash = slash[1] ? strchr(slash + 1, '/') : NULL) {
		const size_t n = slash == path ? 1 : (size_t)(slash - path);

		memcpy(part, path, n);
		part[n] = 0;
		if (check_owner(part, slash == last, owners, why, cap))
			return -1;
	}
	return check_owner(path, 1, owners, why, cap);
}

int module_check_owners(const char *path, char *why, size_t cap)
{
	char self[PATH_MAX];
	const char *home;

	find_this_library(self, &home);

	const struct owners owners = find_owners(self);

	return check_owners(path, &owners, why, cap);
}

/* Returns 1 and the path if the directory has the file, and 0 if it does not. Returns -1 and sets
 * why if the file must not be loaded. The path has no symbolic links, so the file that is loaded
 * later is the file that was checked. */
static int look_in(const char *folder, const char *file, const struct owners *owners, char *path,
		   size_t cap)
{
	char named[PATH_MAX], found[PATH_MAX], why[PATH_MAX + 128];

	if (snprintf(named, sizeof(named), "%s/%s", folder, file) >= (int)sizeof(named) ||
	    !realpath(named, found))
		return 0;
	if (check_owners(found, owners, why, sizeof(why))) {
		snprintf(path, cap, "%s is not loaded, because %s", named, why);
		return -1;
	}
	return snprintf(path, cap, "%s", found) < (int)cap;
}

int module_find(const char *file, char *path, size_t cap)
{
	char self[PATH_MAX], beside[PATH_MAX];
	const char *home;
	const int known = !find_this_library(self, &home),
		  installed = known &&
			      !folder_beside(self, home, SLUICE_MODULE_DIR, beside, sizeof(beside));
	const struct owners owners = find_owners(self);
	int found = installed ? look_in(beside, file, &owners, path, cap) : 0;

	if (!found)
		found = look_in(SLUICE_MODULE_DIR, file, &owners, path, cap);
	if (found)
		return found < 0 ? -1 : 0;
	if (installed && strcmp(beside, SLUICE_MODULE_DIR) != 0)
		snprintf(path, cap, "%s is neither in %s nor in %s", file, beside,
			 SLUICE_MODULE_DIR);
	else if (known && !installed)
		snprintf(path, cap,
			 "%s is not in %s, and %s is not in an installed directory, which would "
			 "end in %s",
			 file, SLUICE_MODULE_DIR, self,
			 home + common_length(home, SLUICE_MODULE_DIR));
	else
		snprintf(path, cap, "%s is not in %s", file, SLUICE_MODULE_DIR);
	return -1;
}
