/* SPDX-License-Identifier: BSD-3-Clause
 * launcher.h for a build without PMIx: no launcher started the process, which is alone unless it
 * brings callbacks. bootstrap.c explains this where a launcher would have been needed. */
#include "slurm/launcher.h"

#ifndef HAVE_PMIX
int pmix_supported(void)
{
	return 0;
}

int pmix_open(int timeout_ms, const char *node, struct launcher **out)
{
	(void)timeout_ms;
	(void)node;
	*out = NULL;
	return 0;
}
#endif
