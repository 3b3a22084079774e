/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the modules of this installation. Because an installation can be moved as a whole, a module
 * is searched relative to the object that contains this code, and only then in the directory that
 * configure was given. Called by base/conf.c, base/device.c and tools/train/compute.c. */
#ifndef BASE_MODULE_H
#define BASE_MODULE_H
#include <stddef.h>

/* Writes the path of a module's file. Returns -1 if there is no such file, or if it could have been
 * changed by users other than root, the user of this process and the owner of the installation.
 * After -1, path holds part of a sentence: the directories that were searched, or why the file is
 * refused. */
int module_find(const char *file, char *path, size_t cap);
/* Writes the directory that configure has called `configured`, such as its sysconfdir, in this
 * installation. Returns -1 if this code does not lie in an installed directory. */
int module_beside(const char *configured, char *folder, size_t cap);
/* Returns -1 and the reason if a user other than those named above could have
 * changed the file at an absolute path without symbolic links. */
int module_check_owners(const char *path, char *why, size_t cap);
#endif
