/* SPDX-License-Identifier: BSD-3-Clause
 * The findings of sluice-info: a list that the probes fill and main.c prints. */
#ifndef INFO_REPORT_H
#define INFO_REPORT_H
#include <stddef.h>
#include <stdio.h>

enum verdict {
	VERDICT_INFO,
	VERDICT_OK,
	VERDICT_WARN,
	VERDICT_FAIL
}; /* INFO: a fact without a verdict */

enum { FINDING_BYTES = 480, REMEDY_BYTES = 480, NAME_BYTES = 48 };

struct finding {
	enum verdict verdict;
	const char *section; /* static */
	char name[NAME_BYTES];
	char text[FINDING_BYTES];
	char remedy[REMEDY_BYTES]; /* "" if no remedy is needed */
};

struct report {
	struct finding *list;
	size_t n, capacity;
	int incomplete; /* 1 after there was no memory for a finding */
};

/* Adds a finding. remedy may be NULL. Line breaks in a text become spaces. */
void report_add(struct report *r, enum verdict verdict, const char *section, const char *name,
		const char *remedy, const char *format, ...) __attribute__((format(printf, 6, 7)));
void report_free(struct report *r);
/* Returns the worst verdict of all findings. An incomplete report is a failure. */
enum verdict report_verdict(const struct report *r);
const struct finding *report_find(const struct report *r, const char *name);

void report_print_text(const struct report *r, FILE *to);
/* Prints one finding per line after the prefix. least is the mildest verdict that is printed. */
void report_print_check(const struct report *r, enum verdict least, const char *prefix, FILE *to);
void report_print_json(const struct report *r, const char *version, FILE *to);
#endif
