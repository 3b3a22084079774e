/* SPDX-License-Identifier: BSD-3-Clause
 * See relay.h. The text comes from programs on other nodes, so the reader checks it as it checks a
 * page in memory: it builds the page and gives it to seen_copy(). */
#include "tools/top/relay.h"
#include "base/bytes.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = sizeof(struct rank_page) / sizeof(uint64_t), LINE_WORDS = 40, RANKS_MOST = 4096 };
_Static_assert(sizeof(struct rank_page) % sizeof(uint64_t) == 0, "a page has no whole words");
_Static_assert(LINE_WORDS * 17 + 32 < RELAY_LINE, "a line is too long");

int relay_print(const struct seen *seen, int nodes, FILE *to)
{
	uint64_t *words = malloc(sizeof(struct rank_page));

	for (size_t i = 0; words && i < seen->n; i++) {
		const struct seen_rank *r = &seen->ranks[i];

		if (r->busy)
			continue;
		seen_page(r, words);
		for (size_t at = 0; at < WORDS; at++) {
			if (!words[at])
				continue;
			fprintf(to, "w %zu", at);
			for (size_t n = 0; n < LINE_WORDS && at < WORDS && words[at]; n++)
				fprintf(to, " %" PRIx64, words[at++]);
			fputc('\n', to);
		}
		fprintf(to, "r %d %c %" PRIu64 " %" PRIu64 " %" PRIx32 "\n", (int)r->pid, r->state,
			(uint64_t)r->file, r->ns, crc32c(0, words, sizeof(struct rank_page)));
	}
	if (!words)
		return -1;
	free(words);
	fprintf(to, "n %d\n", nodes);
	return 0;
}

static int take_words(struct relay *r, const char *text)
{
	char *end;
	unsigned long at = strtoul(text, &end, 10);

	if (!r->words)
		r->words = calloc(WORDS, sizeof(*r->words));
	if (!r->words)
		return -1;
	if (end == text)
		return 1;
	for (text = end; *text == ' ' && at < WORDS; text = end, at++) {
		const uint64_t word = strtoull(text, &end, 16);

		if (end == text)
			return 1;
		r->words[at] = word;
	}
	return *text ? 1 : 0;
}

/* Adds a rank whose page has arrived. A page that is damaged or impossible is left out. */
static int take_rank(struct relay *r, const char *text)
{
	struct seen_rank *more;
	uint64_t file, ns;
	uint32_t crc;
	char state;
	int pid, found, ok;

	found = sscanf(text, " %d %c %" SCNu64 " %" SCNu64 " %" SCNx32, &pid, &state, &file, &ns,
		       &crc);
	if (found != 5 || !r->words || r->arrives.n == RANKS_MOST)
		return 1;
	more = realloc(r->arrives.ranks, (r->arrives.n + 1) * sizeof(*more));
	if (!more)
		return -1;
	r->arrives.ranks = more;
	more += r->arrives.n;
	ok = crc32c(0, r->words, sizeof(struct rank_page)) == crc &&
	     !seen_copy(r->words, sizeof(struct rank_page), more);
	free(r->words);
	r->words = NULL;
	if (!ok)
		return 1;
	more->pid = pid;
	more->state = state > ' ' && state <= '~' ? state : '?';
	more->file = (ino_t)file;
	more->ns = ns;
	r->arrives.n++;
	return 0;
}

static int take_end(struct relay *r, const char *text)
{
	int nodes;

	if (sscanf(text, " %d", &nodes) != 1 || nodes < 1)
		return 1;
	free(r->words);
	r->words = NULL;
	seen_free(&r->ranks);
	r->ranks = r->arrives;
	r->arrives = (struct seen){ 0 };
	r->nodes = nodes;
	return 0;
}

int relay_take(struct relay *r, const char *line)
{
	if (line[0] && line[1] == ' ')
		switch (line[0]) {
		case 'w': return take_words(r, line + 2);
		case 'r': return take_rank(r, line + 2);
		case 'n': return take_end(r, line + 2);
		}
	return 1;
}

void relay_free(struct relay *r)
{
	free(r->words);
	seen_free(&r->arrives);
	seen_free(&r->ranks);
	*r = (struct relay){ 0 };
}
