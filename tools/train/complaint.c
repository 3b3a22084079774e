/* SPDX-License-Identifier: BSD-3-Clause
 * See complaint.h. */
#include "tools/train/complaint.h"

#include <stdarg.h>
#include <stdio.h>

int complain(struct complaint *complaint, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(complaint->text, sizeof(complaint->text), format, arguments);
	va_end(arguments);
	return -1;
}

int complain_memory(struct complaint *complaint, const char *what)
{
	return complain(complaint, "out of memory for %s", what);
}
