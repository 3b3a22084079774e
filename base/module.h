/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the modules of this installation. Because an installation can be moved as a whole, a module
 * is searched relative to the object that contains this code, and only then in the directory that
 * configure was given. Called by base/device.c and tools/train/compute.c. */
#ifndef BASE_MODULE_H
#define BASE_MODULE_H
#include <stddef.h>

/* Writes the path of a module's file. Returns -1 if there is no such file, or if it could have been
 * changed by users other than root, the user of this process and the owner of the installation.
 * After -1, path holds part of a sentence: the directories that were searched, or why the file is
 * refused. */
int module_find(const char *file, char *path, size_t cap);
#endif
