/* SPDX-License-Identifier: BSD-3-Clause
 * launcher.h for a build without PMIx: there is no launcher, and the process is alone. bootstrap.c
 * explains this where a launcher would have been needed. */
#include "slurm/launcher.h"

#ifndef HAVE_PMIX
#include <stddef.h>

int launcher_supported(void)
{
	return 0;
}

int launcher_open(int timeout_ms, struct launcher **out)
{
	(void)timeout_ms;
	*out = NULL;
	return 0;
}

int launcher_rank(const struct launcher *l)
{
	(void)l;
	return 0;
}

int launcher_size(const struct launcher *l)
{
	(void)l;
	return 1;
}

const char *launcher_name(const struct launcher *l)
{
	(void)l;
	return "";
}

const char *launcher_node(const struct launcher *l)
{
	(void)l;
	return "";
}

int launcher_exchange(struct launcher *l, const uint8_t *mine, size_t n, launcher_take_fn take,
		      void *context)
{
	(void)l;
	return take(context, 0, mine, n);
}

void launcher_close(struct launcher **l)
{
	*l = NULL;
}
#endif
