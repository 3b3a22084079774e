/* SPDX-License-Identifier: BSD-3-Clause
 * Memory that libfabric never frees, for a build with a sanitizer. Included once by a program that
 * loads it. */
#ifndef TESTS_LIBFABRIC_LEAKS_H
#define TESTS_LIBFABRIC_LEAKS_H

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libfabric.so";
}
#endif
