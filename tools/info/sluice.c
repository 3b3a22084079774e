/* SPDX-License-Identifier: BSD-3-Clause
 * Reports on Sluice itself: version, build, transports, the effective settings and their errors. */
#include "base/env.h"
#include "compress/index_kernels.h"
#include "compress/random_kernels.h"
#include "compress/select_kernels.h"
#include "compress/value_kernels.h"
#include "recipe/recipe.h"
#include "rdma/transport.h"
#include "sluice.h"
#include "tools/info/probes.h"
#include <stdlib.h>
#include <string.h>

static const char section[] = "Sluice";

#ifdef __clang__
#define COMPILER __VERSION__ /* this text includes the name of the compiler */
#else
#define COMPILER "GCC " __VERSION__
#endif

int transport_built(const char *name)
{
	for (int i = 0; transports[i]; i++)
		if (!strcmp(transports[i]->name, name))
			return !transports[i]->absent;
	return 0;
}

static int listed_as_transport(const char *name)
{
	char list[256];

	return sluice_setting("SLUICE_TRANSPORT", list, sizeof(list)) > 0 && env_lists(list, name);
}

int transport_allowed(const char *name)
{
	return transport_built(name) && (!strcmp(name, "self") || listed_as_transport(name));
}

int transport_named(const struct node *node, const char *name)
{
	const char *text = env_text("SLUICE_TRANSPORT");

	return (node->needs_verbs && !strcmp(name, "verbs")) || (text && env_lists(text, name));
}

const char *bytes_text(uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	static char texts[4][32];
	static unsigned next;
	char *text = texts[next++ % 4];
	int unit = 0;

	while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, sizeof(texts[0]), "%llu %s", (unsigned long long)bytes, units[unit]);
	return text;
}

static void take_log_line(int level, const char *line, void *context)
{
	report_add(context, level == 0 ? VERDICT_FAIL : VERDICT_WARN, section, "environment",
		   "correct or remove it", "%s", line);
}

/* Drops a line that reports the same fact as the finding. The finding names the variable, too. */
static void drop_log_line(int level, const char *line, void *context)
{
	(void)level;
	(void)line;
	(void)context;
}

/* Reports the kernels that SLUICE_KERNELS selects on this processor. With auto they depend on the
 * machine. Some kernels lack a version for some instruction sets. */
static void kernels(struct report *r)
{
	const struct select_kernels *selection = select_best();

	if (!selection)
		report_add(r, VERDICT_FAIL, section, "kernels",
			   "choose auto, avx512, avx2 or portable",
			   "SLUICE_KERNELS=%.40s: this processor has no such instructions",
			   getenv("SLUICE_KERNELS"));
	else
		report_add(r, VERDICT_INFO, section, "kernels", NULL,
			   "selection %s, positions %s, values %s, random numbers %s",
			   selection->name, index_kernels()->name, value_kernels()->name,
			   random_kernels()->name);
}

static void settings(struct report *r)
{
	struct settings effective;
	struct recipe recipe;
	char *text = NULL, *line, *rest;
	size_t bytes, before = r->n;
	FILE *memory;

	sluice_set_log(take_log_line, r);
	int rc = env_load(&effective);
	sluice_set_log(drop_log_line, NULL);
	if (!rc && recipe_parse(effective.recipe, &recipe))
		report_add(r, VERDICT_FAIL, section, "environment", "correct or remove it",
			   "SLUICE_RECIPE=\"%.120s\": %s", effective.recipe, sluice_last_error());
	sluice_set_log(NULL, NULL);
	if (r->n == before)
		report_add(r, VERDICT_OK, section, "environment", NULL,
			   "every setting is known and valid");
	if (rc || !(memory = open_memstream(&text, &bytes)))
		return;
	env_dump(&effective, memory);
	fclose(memory);
	for (rest = text; (line = strsep(&rest, "\n")) != NULL;)
		if (*line) {
			char *equals = strchr(line, '=');

			if (equals)
				*equals = '\0';
			report_add(r, VERDICT_INFO, section, line, NULL, "%s%s",
				   equals && equals[1] == ' ' ? "not set" : "",
				   equals ? equals + 1 : "");
		}
	free(text);
	kernels(r);
}

void probe_sluice(const struct node *node, struct report *r)
{
	char built[128] = "", allowed[128] = "";
	const struct transport_ops *missing = NULL; /* the first missing transport that was named */

	report_add(r, VERDICT_INFO, section, "node", NULL, "%s", node_name());
	report_add(r, VERDICT_INFO, section, "version", NULL, "%s, compiled by %s",
		   sluice_version(NULL), COMPILER);
	for (int i = 0; transports[i]; i++) {
		const char *name = transports[i]->name;

		if (transports[i]->absent) {
			if (!missing && transport_named(node, name))
				missing = transports[i];
			continue;
		}
		snprintf(built + strlen(built), sizeof(built) - strlen(built), " %s", name);
		if (transport_allowed(name))
			snprintf(allowed + strlen(allowed), sizeof(allowed) - strlen(allowed),
				 " %s", name);
	}
	if (missing)
		report_add(r, VERDICT_FAIL, section, "transports", missing->absent,
			   "%s is requested, but this build has only:%s", missing->name, built);
	else
		report_add(r, VERDICT_OK, section, "transports", NULL,
			   "allowed, best first:%s (built:%s); no other one is ever used", allowed,
			   built);
	settings(r);
}
