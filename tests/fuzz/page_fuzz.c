/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for the pages that sluice-top reads. Input: bytes that replace the beginning of a
 * well-formed page, and the same bytes as lines from another node. A page that is accepted must
 * print without an access beyond its texts, and arrive elsewhere as it is. */
#include "fuzz.h"
#include "tools/top/relay.h"
#include "tools/top/show.h"

static struct rank_page *well_formed(void)
{
	struct rank_page *page = get_memory(sizeof(*page));
	const struct page_who who = { .rank = 1, .size = 4, .servers = 1, .pid = 2 };

	memset(page, 0, sizeof(*page));
	memcpy((void *)page->who.words, &who, sizeof(who));
	page->head = (struct page_head){ PAGE_MAGIC, PAGE_VERSION, sizeof(*page) };
	return page;
}

static void expect_printable(const struct seen_rank *rank)
{
	struct seen_rank copy = *rank;
	const struct seen seen = { .ranks = &copy, .n = 1 };
	struct view view = { .before = &seen, .width = 120, .color = 1, .rank = -1 };
	FILE *to = fopen("/dev/null", "we");

	require(to != NULL, "no /dev/null");
	require(rank->who.rank < rank->who.size && rank->losses.count <= (uint64_t)rank->who.size,
		"impossible numbers were accepted");
	show_json(&seen, to);
	show_screen(&seen, &view, to);
	view.rank = rank->who.rank;
	show_screen(&seen, &view, to);
	fclose(to);
}

static void take_lines(struct relay *relay, const char *text)
{
	char line[2 * RELAY_LINE];

	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		snprintf(line, sizeof(line), "%.*s", (int)(n < sizeof(line) ? n : sizeof(line) - 1),
			 text);
		require(relay_take(relay, line) >= 0, "no memory");
	}
}

static void expect_arrival(const struct seen_rank *rank)
{
	struct seen_rank copy = *rank;
	const struct seen seen = { .ranks = &copy, .n = 1 };
	struct relay relay = { 0 };
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	copy.pid = 2;
	require(to && !relay_print(&seen, 1, to) && !fclose(to), "no memory");
	take_lines(&relay, text);
	require(relay.nodes == 1 && relay.ranks.n == (size_t)!rank->busy, "no rank has arrived");
	require(!relay.ranks.n || !memcmp(relay.ranks.ranks, &copy, sizeof(copy)),
		"another page has arrived");
	relay_free(&relay);
	free(text);
}

static void take_input(const uint8_t *data, size_t size)
{
	struct relay relay = { 0 };
	char *text = get_memory(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	take_lines(&relay, text);
	for (size_t i = 0; i < relay.ranks.n; i++)
		expect_printable(&relay.ranks.ranks[i]);
	relay_free(&relay);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rank_page *page = well_formed();
	struct seen_rank *rank = get_memory(sizeof(*rank));
	const size_t n = size < sizeof(*page) ? size : sizeof(*page);
	void *cut = get_memory(n);

	if (n) {
		memcpy(cut, data, n);
		require(n == sizeof(*page) || seen_copy(cut, n, rank) != NULL,
			"a page that is too short was accepted");
		memcpy((void *)page, data, n);
	}
	if (!seen_copy(page, sizeof(*page), rank)) {
		expect_printable(rank);
		expect_arrival(rank);
	}
	if (size)
		take_input(data, size);
	free(cut);
	free(rank);
	free(page);
	return 0;
}
