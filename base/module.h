/* SPDX-License-Identifier: BSD-3-Clause
 * Where the modules of this installation are. An installation can be moved as a whole: a module is
 * looked for beside the object that contains this code, and only then where configure was told.
 * Called by base/device.c and tools/train/compute.c. */
#ifndef BASE_MODULE_H
#define BASE_MODULE_H
#include <stddef.h>

/* Writes the path of a module's file. -1: there is no such file, and path is instead a sentence's
 * part that names each folder in which it was looked for. */
int module_find(const char *file, char *path, size_t cap);
#endif
