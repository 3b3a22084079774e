/* SPDX-License-Identifier: BSD-3-Clause
 * See report.h. */
#include "tools/info/report.h"
#include "tools/json.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = { "info", "ok", "warn", "FAIL" };

static void one_line(char *text)
{
	for (; *text; text++)
		if (*text == '\n' || *text == '\r' || *text == '\t')
			*text = ' ';
}

void report_add(struct report *r, enum verdict verdict, const char *section, const char *name,
		const char *remedy, const char *format, ...)
{
	struct finding *f;
	va_list arguments;

	if (r->n == r->capacity) {
		size_t capacity = r->capacity ? 2 * r->capacity : 64;
		struct finding *list = realloc(r->list, capacity * sizeof(*list));

		if (!list) {
			r->incomplete = 1;
			return;
		}
		r->list = list;
		r->capacity = capacity;
	}
	f = &r->list[r->n++];
	f->verdict = verdict;
	f->section = section;
	snprintf(f->name, sizeof(f->name), "%s", name);
	snprintf(f->remedy, sizeof(f->remedy), "%s", remedy ? remedy : "");
	va_start(arguments, format);
	vsnprintf(f->text, sizeof(f->text), format, arguments);
	va_end(arguments);
	one_line(f->text);
	one_line(f->remedy);
}

void report_free(struct report *r)
{
	free(r->list);
	*r = (struct report){ 0 };
}

enum verdict report_verdict(const struct report *r)
{
	enum verdict worst = VERDICT_OK;

	for (size_t i = 0; i < r->n; i++)
		if (r->list[i].verdict > worst)
			worst = r->list[i].verdict;
	return r->incomplete ? VERDICT_FAIL : worst;
}

const struct finding *report_find(const struct report *r, const char *name)
{
	for (size_t i = 0; i < r->n; i++)
		if (!strcmp(r->list[i].name, name))
			return &r->list[i];
	return NULL;
}

void report_print_text(const struct report *r, FILE *to)
{
	const char *section = "";

	for (size_t i = 0; i < r->n; i++) {
		const struct finding *f = &r->list[i];

		if (strcmp(section, f->section)) {
			fprintf(to, "%s%s\n", *section ? "\n" : "", f->section);
			section = f->section;
		}
		fprintf(to, "  %-4s %-22s %s\n",
			f->verdict == VERDICT_INFO ? "" : words[f->verdict], f->name, f->text);
		if (*f->remedy)
			fprintf(to, "  %-4s %-22s -> %s\n", "", "", f->remedy);
	}
}

void report_print_check(const struct report *r, enum verdict least, const char *prefix, FILE *to)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct finding *f = &r->list[i];

		if (f->verdict != VERDICT_INFO && f->verdict >= least)
			fprintf(to, "%s%s %s: %s%s%s\n", prefix, words[f->verdict], f->name,
				f->text, *f->remedy ? "; " : "", f->remedy);
	}
}

void report_print_json(const struct report *r, const char *version, FILE *to)
{
	fputs("{\"tool\":\"sluice-info\",\"version\":", to);
	json_text(to, version);
	fprintf(to, ",\"verdict\":\"%s\",\"findings\":[", words[report_verdict(r)]);
	for (size_t i = 0; i < r->n; i++) {
		const struct finding *f = &r->list[i];

		fprintf(to, "%s\n{\"section\":", i ? "," : "");
		json_text(to, f->section);
		fputs(",\"name\":", to);
		json_text(to, f->name);
		fprintf(to, ",\"verdict\":\"%s\",\"finding\":", words[f->verdict]);
		json_text(to, f->text);
		if (*f->remedy) {
			fputs(",\"remedy\":", to);
			json_text(to, f->remedy);
		}
		fputc('}', to);
	}
	fputs("\n]}\n", to);
}
