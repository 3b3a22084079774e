/* SPDX-License-Identifier: BSD-3-Clause
 * See recipe_text.h. */
#include "recipe_text.h"
#include "base/log.h"
#include "sluice.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

int warnings;
char last_warning[1024];

static void keep_warning(int level, const char *line, void *context)
{
	(void)context;
	if (level != LOG_WARN)
		return;
	warnings++;
	snprintf(last_warning, sizeof(last_warning), "%s", line);
}

int swallow_log(void **state)
{
	(void)state;
	sluice_set_log(keep_warning, NULL);
	return 0;
}

struct recipe parsed(const char *text)
{
	struct recipe r;

	if (recipe_parse(text, &r))
		fail_msg("\"%s\": %s", text, sluice_last_error());
	return r;
}

void expect_print(const char *text, const char *wanted)
{
	struct recipe r = parsed(text);
	char printed[RECIPE_TEXT_BYTES];

	recipe_print(&r, printed);
	assert_string_equal(printed, wanted);
}

void expect_refused(const char *text, const char *phrases)
{
	struct recipe r, before;
	char list[512];

	memset(&r, 0x5a, sizeof(r));
	memcpy(&before, &r, sizeof(r));
	if (recipe_parse(text, &r) != SLUICE_EINVAL)
		fail_msg("\"%s\" is not refused", text);
	assert_memory_equal(&r, &before, sizeof(r));
	assert_memory_equal(sluice_last_error(), "recipe: ", 8);
	snprintf(list, sizeof(list), "%s", phrases);
	for (char *phrase = strtok(list, "|"); phrase; phrase = strtok(NULL, "|"))
		if (!strstr(sluice_last_error(), phrase))
			fail_msg("\"%s\" is answered with \"%s\", without \"%s\"", text,
				 sluice_last_error(), phrase);
}
