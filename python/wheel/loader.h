/* SPDX-License-Identifier: BSD-3-Clause
 * The libsluice of a wheel is not linked with the libraries that a machine may lack. It has
 * functions with the names of theirs, which loaders.awk writes. The first of them to be called
 * loads its library. If the library is missing, or lacks one of the functions, they all fail, and
 * errno is ELIBACC. */
#ifndef WHEEL_LOADER_H
#define WHEEL_LOADER_H

struct loader {
	const char *file; /* such as "libhwloc.so.15" */
	const char *const
		*names; /* the functions of the library that libsluice calls; ends with NULL */
	void **found;   /* their addresses, in the same order */
	int state;      /* 0: not tried yet, 1: loaded, -1: missing; protected by a lock */
};

/* Returns the address of names[at], or NULL and sets errno. */
void *loader_find(struct loader *loader, int at);
#endif
