/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for sluice.conf. Input: the bytes of a file. Values of an accepted file have no
 * spaces around them, and lie within the file. */
#include "fuzz.h"
#include "base/conf.h"

static void expect_text(const char *text, const char *bytes, size_t n)
{
	const size_t length = strlen(text);

	require(text >= bytes && text + length <= bytes + n, "a text is outside the file");
	require(!length || (!strchr(" \t\r", text[0]) && !strchr(" \t\r", text[length - 1])),
		"spaces around a text");
	for (; *text; text++)
		require(((unsigned char)*text >= ' ' && *text != 0x7f) || *text == '\t' ||
				*text == '\r',
			"a control character was accepted");
}

static const char *given;
static size_t given_bytes;

static void check_unknown(const struct conf_value *name)
{
	require(name->line > 0, "an unknown name without its line");
	expect_text(name->text, given, given_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_value values[ENV_ENTRIES_MAX] = { 0 };
	char *bytes = get_memory(size + 1), why[CONF_WHY_BYTES];

	if (size)
		memcpy(bytes, data, size);
	bytes[size] = '\0';
	given = bytes;
	given_bytes = size;
	if (conf_parse(bytes, size, "file", values, check_unknown, why)) {
		require(*why, "refused without a reason");
		for (const char *p = why; *p; p++)
			require((unsigned char)*p >= ' ' && *p != 0x7f,
				"a control character is in the reason");
	} else {
		for (size_t i = 0; i < env_table_size; i++)
			if (values[i].text) {
				require(!env_table[i].environment_only, "a forbidden name");
				require(values[i].line > 0, "a value without its line");
				expect_text(values[i].text, bytes, size);
			}
	}
	free(bytes);
	return 0;
}
