/* SPDX-License-Identifier: BSD-3-Clause
 * Reads SLUICE_LOG. This is not part of log.c, because it reports errors, and reporting an error
 * needs log.c. */
#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"

#include <string.h>

static int refuse_log_word(const char *what, const char *word, const char *const *known,
			   size_t n_known, const char *list)
{
	const char *near = nearest_word(word, known, n_known);

	return fail(SLUICE_EINVAL,
		    "SLUICE_LOG: unknown %s \"%.60s\"%s%s%s: %ss are %s; give LEVEL or "
		    "MODULE+LEVEL[,MODULE+LEVEL...], for example \"all+warn,rdma+debug\"",
		    what, word, near ? ", did you mean \"" : "", near ? near : "",
		    near ? "\"?" : "", what, list);
}

/* Applies one "LEVEL" or "MODULE+LEVEL" of the list. Overwrites the separators in item. */
static int configure_item(char *item, int levels[LOG_MODULES])
{
	enum { ALL = LOG_MODULES }; /* "all" is a word of SLUICE_LOG, but not a module */
	const char *modules[ALL + 1];
	char *plus = strchr(item, '+');
	const char *module = plus ? item : "all";
	const char *level = plus ? plus + 1 : item;

	memcpy(modules, log_module_names, sizeof(log_module_names));
	modules[ALL] = "all";
	if (plus)
		*plus = '\0';

	int m = word_index(module, modules, ALL + 1);
	int l = word_index(level, log_level_names, LOG_LEVELS);

	if (m < 0)
		return refuse_log_word("module", module, modules, ALL + 1,
				       "all, runtime, rdma, slurm and compress");
	if (l < 0)
		return refuse_log_word("level", level, log_level_names, LOG_LEVELS,
				       "error, warn, info and debug");
	for (int i = 0; i < LOG_MODULES; i++)
		if (m == ALL || m == i)
			levels[i] = l;
	return SLUICE_OK;
}

int log_configure(const char *text)
{
	char list[128];
	int levels[LOG_MODULES];

	if (strlen(text) >= sizeof(list))
		return fail(SLUICE_EINVAL, "SLUICE_LOG: \"%.40s...\" is longer than %zu characters",
			    text, sizeof(list) - 1);
	memcpy(list, text, strlen(text) + 1);
	for (int m = 0; m < LOG_MODULES; m++)
		levels[m] = LOG_WARN; /* the default for modules that the text does not name */

	char *rest = list;
	char *item;

	while ((item = strsep(&rest, ",")) != NULL) {
		int rc = configure_item(item, levels);

		if (rc)
			return rc;
	}
	log_set_levels(levels);
	return SLUICE_OK;
}
