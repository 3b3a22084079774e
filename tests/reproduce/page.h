/* SPDX-License-Identifier: BSD-3-Clause
 * The page of results: a row per criterion, a line per run with its recipe and counters, and text.
 * Each section writes its part in its own process; main.c joins the parts. */
#ifndef REPRODUCE_PAGE_H
#define REPRODUCE_PAGE_H
#include "tests/reproduce/harness.h"
#include <stdio.h>

enum verdict { VERDICT_HOLDS, VERDICT_FAILS, VERDICT_NO_DATA, VERDICT_NOT_OFFERED };

struct claim {
	const char *method, *claim, *criterion;
};

struct options {
	const char *a9a;     /* a file, or NULL */
	const char *text;    /* the same */
	const char *figures; /* directory for the runs that are drawn, or NULL */
	int quick;
	int jobs; /* sections, or runs of a section, at a time */
};

struct page {
	struct options options;
	char *rows, *runs, *text; /* the texts so far; valid after page_close() */
	size_t rows_bytes, runs_bytes, text_bytes;
	FILE *rows_out, *runs_out, *text_out;
	int section, failed;
	char curve[1024];            /* path of the last page_curve() */
	char recipe[256], bytes[64]; /* recipe and bytes of the run in the last page_about() */
};

void page_open(struct page *page, int section, const struct options *options);
/* Ends the texts, which the caller frees. */
void page_close(struct page *page);

/* Writes a row, which also has the recipe and bytes of one run: that of the last page_run() or
 * page_about(). */
void page_row(struct page *page, const struct claim *claim, enum verdict verdict,
	      const char *observed, ...) __attribute__((format(printf, 4, 5)));
/* Writes a row for runs that could not be made: the recipe is not offered, or they failed for a
 * reason. */
void page_row_without(struct page *page, const struct claim *claim, const struct outcome *out);
/* Reads the a9a set that the options name. Without it, writes a row "no data" and returns 0. */
int page_a9a(struct page *page, struct rows *rows, const struct claim *claim);
void page_about(struct page *page, const char *recipe, const struct counters *sum);
void page_run(struct page *page, const struct run *run, const struct outcome *out);
/* Draws the run as a curve of this name in the section's figure, measured at this interval of
 * steps. */
void page_curve(struct page *page, struct run *run, const char *figure, const char *name,
		uint64_t every);
void page_figure(struct page *page, const char *figure, const char *title);
void page_text(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A section: its number in the specification of the methods, and the function that writes it. */
struct section {
	int number;
	const char *title;
	void (*write)(struct page *page);
};
extern const struct section sections[];
extern const size_t n_sections;
#endif
