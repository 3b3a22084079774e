/* SPDX-License-Identifier: BSD-3-Clause
 * Prints the list of SLUICE_* variables as mdoc for sluice(7), or with the argument "conf" the
 * shorter list for sluice.conf(5). Runs at build time only. */
#include "base/env.h"

#include <string.h>

/* mdoc requires that each sentence begins on a new line, and that lines have at most 80 bytes. */
static void print_sentences(const char *text)
{
	size_t column = 0;

	for (const char *p = text; *p; p++) {
		size_t next_word = *p == ' ' ? strcspn(p + 1, " ") : 0;

		if (*p == ' ' && (p[-1] == '.' || column + next_word > 76)) {
			putchar('\n');
			column = 0;
		} else if (*p == '\\') {
			fputs("\\e", stdout);
			column += 2;
		} else {
			putchar(*p);
			column++;
		}
	}
	putchar('\n');
}

static void print_words(const char *opening, const char *words)
{
	size_t n;

	puts(opening);
	for (;; words += n + 1) {
		n = strcspn(words, "|");
		printf(".Ql %.*s%s\n", (int)n, words, words[n] ? " ," : " .");
		if (!words[n])
			return;
	}
}

static void print_entry(const struct env_entry *entry, int whole)
{
	printf(".It Ev %s\n", entry->name);
	if (whole)
		print_sentences(entry->help);
	else if (entry->kind == ENV_TEXT || entry->kind == ENV_PORTS)
		printf("Value:\n.Ql \"%s\" .\n", entry->range);
	if (entry->kind == ENV_CHOICE)
		print_words("One of", entry->range);
	else if (entry->kind == ENV_LIST)
		print_words("A comma-separated list of", entry->range);
	else if (entry->kind != ENV_TEXT && entry->kind != ENV_PORTS)
		printf("Range:\n.Ql \"%s\" .\n", entry->range);
	if (*entry->fallback)
		printf("Default:\n.Ql %s .\n", entry->fallback);
	else
		puts("Not set by default.");
}

int main(int argc, char **argv)
{
	const int whole = argc < 2 || strcmp(argv[1], "conf") != 0;

	puts(".Bl -tag -width Ds");
	for (size_t i = 0; i < env_table_size; i++)
		if (whole || !env_table[i].environment_only)
			print_entry(&env_table[i], whole);
	puts(".El");
	return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
