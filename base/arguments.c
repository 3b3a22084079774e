/* SPDX-License-Identifier: BSD-3-Clause
 * See arguments.h. Called wherever vectors and attributes enter the library. */
#include "base/arguments.h"
#include "base/error.h"
#include "sluice.h"
#include <stdint.h>

int argument_aligned(const void *address, size_t bytes, const char *argument, const char *function)
{
	if ((uintptr_t)address % bytes == 0)
		return 0;
	return fail(SLUICE_EINVAL,
		    "%s: %s at %p is not aligned to its elements of %zu bytes: copy it to memory "
		    "from malloc(), or pass the address of an element",
		    function, argument, address, bytes);
}

int argument_size(size_t size, size_t least, size_t alignment, const char *type,
		  const char *function)
{
	if (size >= least && size % alignment == 0)
		return 0;
	return fail(SLUICE_EINVAL,
		    "%s: the size of %s is set to %zu, which no version of sluice.h has: set it to "
		    "sizeof(%s)",
		    function, type, size, type);
}
