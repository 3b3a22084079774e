/* SPDX-License-Identifier: BSD-3-Clause
 * See page.h. Markdown: cells must not hold bars. */
#include "tests/reproduce/page.h"
#include "tests/reproduce/memory.h"
#include <stdarg.h>
#include <string.h>

static FILE *memory_stream(char **text, size_t *bytes)
{
	FILE *f = open_memstream(text, bytes);

	if (!f) {
		perror("open_memstream");
		exit(1);
	}
	return f;
}

void page_open(struct page *page, int section, const struct options *options)
{
	*page = (struct page){ .options = *options, .section = section };
	page->rows_out = memory_stream(&page->rows, &page->rows_bytes);
	page->runs_out = memory_stream(&page->runs, &page->runs_bytes);
	page->text_out = memory_stream(&page->text, &page->text_bytes);
}

void page_close(struct page *page)
{
	fclose(page->rows_out);
	fclose(page->runs_out);
	fclose(page->text_out);
}

static void cell(FILE *out, const char *text)
{
	fputs("| ", out);
	for (; *text; text++)
		fputs(*text == '|' ? "&#124;" : (char[]){ *text == '\n' ? ' ' : *text, '\0' }, out);
	fputc(' ', out);
}

static const char *verdict_words[] = {
	[VERDICT_HOLDS] = "holds",
	[VERDICT_FAILS] = "**fails**",
	[VERDICT_NO_DATA] = "not run: no data",
	[VERDICT_NOT_OFFERED] = "recipe not offered yet",
};

void page_row(struct page *page, const struct claim *claim, enum verdict verdict,
	      const char *observed, ...)
{
	char text[1024], section[16];
	va_list arguments;

	va_start(arguments, observed);
	vsnprintf(text, sizeof text, observed, arguments);
	va_end(arguments);
	snprintf(section, sizeof section, "%d", page->section);
	cell(page->rows_out, section);
	cell(page->rows_out, claim->method);
	cell(page->rows_out, claim->claim);
	cell(page->rows_out, claim->criterion);
	cell(page->rows_out, text);
	cell(page->rows_out, verdict_words[verdict]);
	fprintf(page->rows_out, "| %s | %s |\n", *page->recipe ? page->recipe : "-",
		*page->bytes ? page->bytes : "-");
	page->failed += verdict == VERDICT_FAILS;
	fprintf(stderr, "section %d, %s: %s (%s)\n", page->section, claim->method,
		verdict_words[verdict], text);
}

void page_row_without(struct page *page, const struct claim *claim, const struct outcome *out)
{
	if (out->offered)
		page_row(page, claim, VERDICT_FAILS, "the run ended: %s", out->why);
	else
		page_row(page, claim, VERDICT_NOT_OFFERED, "%s", out->why);
}

int page_a9a(struct page *page, struct rows *rows, const struct claim *claim)
{
	char why[512];

	if (!page->options.a9a) {
		page_row(page, claim, VERDICT_NO_DATA, "no a9a file was named (--a9a, A9A)");
		return 0;
	}
	if (a9a_rows(page->options.a9a, rows, why, sizeof why)) {
		page_row(page, claim, VERDICT_NO_DATA, "%s", why);
		return 0;
	}
	return 1;
}

void page_about(struct page *page, const char *recipe, const struct counters *sum)
{
	snprintf(page->recipe, sizeof page->recipe, "`%s`", recipe);
	if (!sum->up_bytes && !sum->down_bytes) {
		snprintf(page->bytes, sizeof page->bytes, "-");
		return;
	}
	snprintf(page->bytes, sizeof page->bytes, "%llu / %llu", (unsigned long long)sum->up_bytes,
		 (unsigned long long)sum->down_bytes);
}

void page_run(struct page *page, const struct run *run, const struct outcome *out)
{
	char text[640];
	page_about(page, run->recipe, &out->sum);
	const uint64_t steps = out->rc ? run->steps : out->steps;
	double calls = (double)steps * run->workers;

	snprintf(text, sizeof text, "%s: %s, W = %d, %llu steps, rate %g", run->label,
		 run->problem->name, run->workers, (unsigned long long)steps, (double)run->lr);
	if (run->decay > 0)
		snprintf(text + strlen(text), sizeof text - strlen(text), "/(1 + t/%g)",
			 run->decay);
	cell(page->runs_out, text);
	fprintf(page->runs_out, "| `%s` ", run->recipe);
	if (out->rc)
		fprintf(page->runs_out, "| - | - | - | - | - |\n");
	else
		fprintf(page->runs_out, "| %llu | %llu | %.4g | %.4g | %.1f |\n",
			(unsigned long long)out->sum.up_bytes,
			(unsigned long long)out->sum.down_bytes,
			(double)out->sum.up_elements / calls,
			(double)out->sum.down_elements / calls, out->seconds);
}

void page_curve(struct page *page, struct run *run, const char *figure, const char *name,
		uint64_t every)
{
	if (!page->options.figures || page->options.quick)
		return;
	size_t folder = (size_t)snprintf(page->curve, sizeof page->curve, "%s/",
					 page->options.figures);

	if (folder >= sizeof page->curve)
		return;
	snprintf(page->curve + folder, sizeof page->curve - folder, "%s+%s.jsonl", figure, name);
	for (char *c = page->curve + folder; *c; c++)
		*c = *c == '/' || *c == '=' ? ' ' :
					      *c; /* neither belongs in what becomes FILE=LABEL */
	run->curve = page->curve;
	run->curve_every = every;
}

/* figures.sh draws the figure, and finds the title in the page. */
void page_figure(struct page *page, const char *figure, const char *title)
{
	if (page->options.figures && !page->options.quick)
		page_text(page, "![%s](figures/%s.png)\n\n", title, figure);
}

void page_text(struct page *page, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(page->text_out, format, arguments);
	va_end(arguments);
}
