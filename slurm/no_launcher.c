/* SPDX-License-Identifier: BSD-3-Clause
 * launcher.h for a build without PMIx: the process runs alone unless the program passes callbacks.
 * If a launcher is needed, bootstrap.c reports the error. */
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
