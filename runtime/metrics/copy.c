/* SPDX-License-Identifier: BSD-3-Clause
 * Copies a page while its rank writes it, and checks the copy. */
#include "base/clock.h"
#include "metrics/seen.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A block is written in less than a microsecond, but its writer can be suspended meanwhile. */
enum { TRIES = 100, QUICK_TRIES = 20, REST_NS = 100000, RANKS_MOST = 1 << 20 };

/* Returns 0, or -1 if the block was being written at each try. */
static int read_sequenced(const _Atomic uint64_t *sequence, const _Atomic uint64_t *words,
			  void *out, size_t bytes)
{
	const struct timespec rest = { 0, REST_NS };

	for (int tries = 0; tries < TRIES; tries++) {
		const uint64_t before = atomic_load_explicit(sequence, memory_order_acquire);

		if (tries > QUICK_TRIES)
			nanosleep(&rest, NULL);
		for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
			const uint64_t word = atomic_load_explicit(&words[i], memory_order_acquire);

			memcpy((char *)out + i * sizeof(word), &word, sizeof(word));
		}
		if (!(before & 1) && atomic_load_explicit(sequence, memory_order_relaxed) == before)
			return 0;
	}
	memset(out, 0, bytes);
	return -1;
}
#define GET(block, out) read_sequenced(&(block)->sequence, (block)->words, out, sizeof(*(out)))

/* Returns 0, or -1 if the text does not end. */
static int clean(char *text, size_t bytes)
{
	const size_t n = strnlen(text, bytes);

	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	return n < bytes ? 0 : -1;
}
#define CLEAN(text) clean(text, sizeof(text))

static int by_number(const void *a, const void *b)
{
	const uint64_t x = ((const struct page_note *)a)->number,
		       y = ((const struct page_note *)b)->number;

	return x < y ? -1 : x > y;
}

static void only_between(double *value, double least, double most)
{
	if (!(*value >= least && *value <= most))
		*value = NAN;
}

static const char *check_who(struct page_who *who)
{
	if (CLEAN(who->job) || CLEAN(who->step) || CLEAN(who->node) || CLEAN(who->transports) ||
	    CLEAN(who->library))
		return "a text about the rank does not end";
	if (who->size < 1 || who->size > RANKS_MOST || who->rank < 0 || who->rank >= who->size ||
	    who->servers < 0 || who->servers >= who->size || who->pid < 1)
		return "the numbers of the rank are impossible";
	return NULL;
}

static const char *check_losses(struct seen_rank *r)
{
	if (r->losses.count > (uint64_t)r->who.size)
		return "more ranks are lost than exist";
	for (size_t i = 0; i < PAGE_LOSSES && i < r->losses.count; i++) {
		struct page_loss *loss = &r->losses.at[i];

		if (CLEAN(loss->why))
			return "the reason of a loss does not end";
		if (loss->rank < 0 || loss->rank >= r->who.size)
			return "a lost rank does not exist";
	}
	return NULL;
}

static const char *check_models(struct seen_rank *r)
{
	for (int i = 0; i < PAGE_MODELS; i++) {
		sluice_model_stats *stats = &r->numbers[i].stats;

		if (CLEAN(r->models[i].recipe))
			return "a recipe does not end";
		if (r->models[i].count > UINT32_MAX)
			return "a model has too many parameters";
		only_between(&stats->density_up, 0, 1);
		only_between(&stats->density_down, 0, 1);
		only_between(&stats->residual_norm, 0, HUGE_VAL);
		only_between(&stats->shard_residual_norm, 0, HUGE_VAL);
		only_between(&stats->compression_error, 0, HUGE_VAL);
		only_between(&stats->compression_error_down, 0, HUGE_VAL);
		only_between(&stats->threshold_up, 0, HUGE_VAL);
		only_between(&stats->threshold_down, 0, HUGE_VAL);
	}
	return NULL;
}

static const char *check_texts(struct seen_rank *r)
{
	if (CLEAN(r->wait.text))
		return "the text of a wait does not end";
	for (int i = 0; i < PAGE_NOTES; i++)
		if (CLEAN(r->notes[i].text))
			return "a line of the log does not end";
	return NULL;
}

const char *seen_copy(const void *bytes_of_page, size_t bytes, struct seen_rank *out)
{
	const struct rank_page *page = bytes_of_page;
	const char *why;

	memset(out, 0, sizeof(*out));
	out->state = '?';
	if (bytes < sizeof(page->head) || page->head.magic != PAGE_MAGIC)
		return "it is not a page of Sluice";
	if (page->head.version != PAGE_VERSION || page->head.bytes != sizeof(*page))
		return "another version of Sluice wrote it: use that version's sluice-top";
	if (bytes != sizeof(*page))
		return "it is too short or too long";
	if (GET(&page->who, &out->who))
		return "its first block is being written";
	out->busy -= GET(&page->wait, &out->wait);
	out->busy -= GET(&page->losses, &out->losses);
	for (int i = 0; i < PAGE_NOTES; i++)
		out->busy -= GET(&page->notes[i], &out->notes[i]);
	for (int i = 0; i < PAGE_MODELS; i++) {
		out->busy -= GET(&page->models[i], &out->models[i]);
		out->busy -= GET(&page->numbers[i], &out->numbers[i]);
	}
	qsort(out->notes, PAGE_NOTES, sizeof(out->notes[0]), by_number);
	out->ns = now_ns();
	why = check_who(&out->who);
	if (!why)
		why = check_losses(out);
	if (!why)
		why = check_models(out);
	return why ? why : check_texts(out);
}

/* ---- the other way --------------------------------------------------------------- */

static void put_words(_Atomic uint64_t *words, const void *contents, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
		uint64_t word;

		memcpy(&word, (const char *)contents + i * sizeof(word), sizeof(word));
		atomic_store_explicit(&words[i], word, memory_order_relaxed);
	}
}
#define SET(block, contents) put_words((block).words, contents, sizeof(*(contents)))

void seen_page(const struct seen_rank *rank, void *bytes_of_page)
{
	struct rank_page *page = bytes_of_page;

	memset(bytes_of_page, 0, sizeof(*page));
	page->head = (struct page_head){ PAGE_MAGIC, PAGE_VERSION, sizeof(*page) };
	SET(page->who, &rank->who);
	SET(page->wait, &rank->wait);
	SET(page->losses, &rank->losses);
	for (int i = 0; i < PAGE_NOTES; i++)
		SET(page->notes[i], &rank->notes[i]);
	for (int i = 0; i < PAGE_MODELS; i++) {
		SET(page->models[i], &rank->models[i]);
		SET(page->numbers[i], &rank->numbers[i]);
	}
}
