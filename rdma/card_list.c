/* SPDX-License-Identifier: BSD-3-Clause
 * See card_list.h. Called by verbs_device.c and ofi_provider.c. */
#include "rdma/card_list.h"
#include "base/error.h"
#include "sluice.h"
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRY_BYTES = 128, PORT_MOST = 255 };

/* Copies the next entry, without the spaces around it. Returns the position at which the following
 * entry begins, or NULL after the last one. */
static const char *next_entry(const char *at, char entry[ENTRY_BYTES])
{
	const char *end;
	size_t n;

	if (!*at)
		return NULL;
	at += strspn(at, " ");
	end = strchrnul(at, ',');
	for (n = (size_t)(end - at); n && at[n - 1] == ' '; n--)
		;
	snprintf(entry, ENTRY_BYTES, "%.*s", (int)(n < ENTRY_BYTES ? n : ENTRY_BYTES - 1), at);
	return *end ? end + 1 : end;
}

/* Cuts ":port" off the entry. Returns the port, 0 if the entry names no port, or -1 if the text is
 * not a port. */
static int cut_port(char *entry)
{
	char *colon = strrchr(entry, ':'), *end;
	long port;

	if (!colon)
		return 0;
	*colon = '\0';
	port = strtol(colon + 1, &end, 10);
	return end == colon + 1 || *end || port < 1 || port > PORT_MOST ? -1 : (int)port;
}

static int matches(const char *pattern, const char *name)
{
	const char *bracket = strchr(pattern, '[');
	unsigned low, high;
	int taken = 0;

	if (!bracket || sscanf(bracket, "[%u-%u]%n", &low, &high, &taken) != 2 || !taken)
		return fnmatch(pattern, name, 0) == 0;
	const size_t prefix = (size_t)(bracket - pattern);
	char *rest;

	if (strncmp(pattern, name, prefix) || name[prefix] < '0' || name[prefix] > '9')
		return 0;
	const unsigned long number = strtoul(name + prefix, &rest, 10);
	return number >= low && number <= high && fnmatch(bracket + taken, rest, 0) == 0;
}

int card_list_check(const char *variable, const char *list, int ports)
{
	char entry[ENTRY_BYTES];

	for (const char *at = list ? list : ""; (at = next_entry(at, entry)) != NULL;) {
		const char *name = entry + (*entry == '^');

		if (!*name || strlen(entry) == ENTRY_BYTES - 1 || (ports && cut_port(entry) < 0) ||
		    !*name)
			return fail_quietly(SLUICE_EINVAL,
					    "%s=\"%.80s\" is not a list of names, such as "
					    "mlx5_0,mlx5_[4-7],^mlx5_5%s",
					    variable, list,
					    ports ? ", or mlx5_1:2 for port 2" : "");
	}
	return 0;
}

int card_list_is_open(const char *list)
{
	return !list || !*list || list[strspn(list, " ")] == '^';
}

int card_list_allows(const char *list, const char *name, const char *alias, unsigned *port)
{
	const int excludes_all = list && *list && card_list_is_open(list);
	int allowed = card_list_is_open(list), of_port = 0;
	char entry[ENTRY_BYTES];

	if (port)
		*port = 0;
	for (const char *at = list ? list : ""; (at = next_entry(at, entry)) != NULL;) {
		const int excludes = excludes_all || *entry == '^';

		if (port)
			of_port = cut_port(entry);
		const char *pattern = entry + (*entry == '^');
		if (!matches(pattern, name) && !(alias && matches(pattern, alias)))
			continue;
		if (excludes)
			return 0;
		allowed = 1;
		if (port)
			*port = of_port > 0 ? (unsigned)of_port : 0;
	}
	return allowed;
}
