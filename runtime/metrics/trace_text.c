/* SPDX-License-Identifier: BSD-3-Clause
 * See trace_text.h. */
#include "metrics/trace_text.h"
#include "base/clock.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A model's steps are in row STEPS_ROW plus the model's number. Its READs, which continue while
 * threads work, are in row READS_ROW plus that number. */
enum {
	CALLS_ROW = 1,
	MODELS = 1 << 16,
	STEPS_ROW = 1024,
	READS_ROW = STEPS_ROW + MODELS,
	ROWS = READS_ROW + MODELS,
	LEAST_GAP_NS = 1000,
	LINE_BYTES = 1024
};
static const uint64_t epoch_s = 1767225600; /* 2026-01-01: a double holds times since then to the
					       nanosecond */

static const char first_line[] = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":"
				 "\"Sluice\",\"meeting\":\"%016" PRIx64 "\"},\"traceEvents\":[";
static const char last_line[] = "]}";

/* ---- printing ----------------------------------------------------------------------------- */

/* The state of printing one trace. */
struct print {
	FILE *to;
	int rank;
	int64_t offset_ns; /* from the monotonic clock to the time since epoch_s */
	const char *separator;
};

static int64_t clock_offset(void)
{
	struct timespec wall;
	const uint64_t now = now_ns();

	clock_gettime(CLOCK_REALTIME, &wall);
	return ((int64_t)wall.tv_sec - (int64_t)epoch_s) * 1000000000 + wall.tv_nsec - (int64_t)now;
}

static void print_text(const char *text, FILE *to)
{
	fputc('"', to);
	for (const unsigned char *c = (const unsigned char *)text; *c; c++)
		if (*c < 0x20 || *c > 0x7e || *c == '"' || *c == '\\')
			fputc('?', to);
		else
			fputc(*c, to);
	fputc('"', to);
}

static void begin_event(struct print *p, const char *phase, int row)
{
	fprintf(p->to, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,", p->separator, phase, p->rank,
		row);
	p->separator = ",\n";
}

static void name_row(struct print *p, const char *what, int row, const char *name)
{
	begin_event(p, "M", row);
	fprintf(p->to, "\"name\":\"%s\",\"args\":{\"%s\":", what,
		strcmp(what, "process_labels") ? "name" : "labels");
	print_text(name, p->to);
	fputs("}}", p->to);
}

static void print_time(struct print *p, const char *name, int64_t ns)
{
	fprintf(p->to, "\"%s\":%s%" PRId64 ".%03d,", name, ns < 0 ? "-" : "",
		ns < 0 ? -(ns / 1000) : ns / 1000, (int)(ns < 0 ? -(ns % 1000) : ns % 1000));
}

static void print_slice(struct print *p, const char *name, int row, uint64_t begin_ns,
			uint64_t end_ns, uint32_t model)
{
	begin_event(p, "X", row);
	print_time(p, "ts", (int64_t)begin_ns + p->offset_ns);
	print_time(p, "dur", end_ns > begin_ns ? (int64_t)(end_ns - begin_ns) : 0);
	fprintf(p->to, "\"cat\":\"sluice\",\"name\":\"%s\",\"args\":{\"model\":%u}}", name, model);
}

/* ---- the ring ------------------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b)
{
	const struct trace_slice *x = a, *y = b;

	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns;
}

static int row_of_slice(const struct trace_slice *s)
{
	return s->kind == TRACE_STEP ? STEPS_ROW + (int)s->model :
	       s->kind == TRACE_READ ? READS_ROW + (int)s->model :
				       (int)s->thread;
}

/* Names the rows that have slices. */
static void print_rows(struct print *p, const struct trace_slice *slices, size_t n)
{
	uint8_t seen[ROWS / 8] = { 0 };
	char name[64];

	for (size_t i = 0; i < n; i++) {
		const int row = row_of_slice(&slices[i]);

		if (seen[row / 8] & 1 << row % 8)
			continue;
		seen[row / 8] = (uint8_t)(seen[row / 8] | 1 << row % 8);
		if (row >= READS_ROW)
			snprintf(name, sizeof(name), "reads of model %d", row - READS_ROW);
		else if (row >= STEPS_ROW)
			snprintf(name, sizeof(name), "steps of model %d", row - STEPS_ROW);
		else if (row == CALLS_ROW)
			snprintf(name, sizeof(name), "calls");
		else
			snprintf(name, sizeof(name), "thread %d", row);
		name_row(p, "thread_name", row, name);
	}
}

static void print_slices(struct print *p, const struct trace_slice *slices, size_t n)
{
	uint64_t calls_end = 0;
	char name[64];

	for (size_t i = 0; i < n; i++) {
		const struct trace_slice *s = &slices[i];
		const int row = row_of_slice(s);

		if (s->kind == TRACE_STEP) {
			snprintf(name, sizeof(name), "step %" PRIu64, s->step);
			print_slice(p, name, row, s->begin_ns, s->end_ns, s->model);
			continue;
		}
		/* Between two calls, the program computes. */
		if (row == CALLS_ROW && calls_end && s->begin_ns > calls_end + LEAST_GAP_NS)
			print_slice(p, "program", CALLS_ROW, calls_end, s->begin_ns, s->model);
		if (row == CALLS_ROW && s->end_ns > calls_end)
			calls_end = s->end_ns;
		print_slice(p, trace_kind_name(s->kind), row, s->begin_ns, s->end_ns, s->model);
	}
}

/* Returns the number of the first step in the ring, or 0. */
static uint64_t first_step(const struct trace_slice *slices, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (slices[i].kind == TRACE_STEP)
			return slices[i].step;
	return 0;
}

int trace_print(const struct trace *trace, const struct trace_origin *origin, FILE *to)
{
	struct trace_slice *slices = malloc(TRACE_SLICES * sizeof(*slices));
	struct print p = {
		.to = to, .rank = origin->rank, .offset_ns = clock_offset(), .separator = "\n"
	};
	char text[160];
	uint64_t dropped;
	size_t n;

	if (!slices)
		return -1;
	n = trace_copy(trace, slices, &dropped);
	qsort(slices, n, sizeof(*slices), by_begin);
	fprintf(to, first_line, origin->meeting);
	snprintf(text, sizeof(text), "rank %d on %.60s, job %.60s", origin->rank, origin->node,
		 *origin->job ? origin->job : "none");
	name_row(&p, "process_name", 0, text);
	if (dropped) {
		const uint64_t first = first_step(slices, n);

		snprintf(text, sizeof(text),
			 "%" PRIu64 " earlier slices and %" PRIu64 " earlier steps were dropped",
			 dropped, first ? first - 1 : 0);
		name_row(&p, "process_labels", 0, text);
	}
	print_rows(&p, slices, n);
	print_slices(&p, slices, n);
	fprintf(to, "\n%s\n", last_line);
	free(slices);
	return 0;
}

/* ---- merging ------------------------------------------------------------------------------ */

/* Skips a text in quotes. Returns the end, or NULL. print_text() writes no backslash. */
static const char *skip_text(const char *at)
{
	if (*at++ != '"')
		return NULL;
	while (*at >= ' ' && *at <= '~' && *at != '"' && *at != '\\')
		at++;
	return *at == '"' ? at + 1 : NULL;
}

static const char *skip_number(const char *at)
{
	size_t digits;

	at += *at == '-';
	digits = strspn(at, "0123456789");
	if (!digits || digits > 19 || (*at == '0' && digits > 1))
		return NULL;
	at += digits;
	if (*at != '.')
		return at;
	digits = strspn(at + 1, "0123456789");
	return digits ? at + 1 + digits : NULL;
}

static const char *skip_object(const char *at, int depth)
{
	if (*at++ != '{')
		return NULL;
	do {
		at = skip_text(at);
		if (!at || *at++ != ':')
			return NULL;
		at = *at == '"'              ? skip_text(at) :
		     *at == '{' && depth > 0 ? skip_object(at, depth - 1) :
					       skip_number(at);
	} while (at && *at++ == ',');
	return at && at[-1] == '}' ? at : NULL;
}

void trace_merge_begin(struct trace_merge *merge, FILE *to)
{
	*merge = (struct trace_merge){ .to = to };
}

/* Copies the event in the line, without its comma. Returns 1, 0 at the last line, or -1. */
static int merge_line(struct trace_merge *merge, char *line)
{
	const char *end;

	if (!strcmp(line, last_line))
		return 0;
	end = skip_object(line, 1);
	if (!end || (*end && strcmp(end, ",") != 0))
		return -1;
	fprintf(merge->to, "%s%.*s", merge->events++ ? ",\n" : "\n", (int)(end - line), line);
	return 1;
}

const char *trace_merge_add(struct trace_merge *merge, FILE *from)
{
	char line[LINE_BYTES], expected[LINE_BYTES];
	uint64_t meeting = 0;
	const char *at;
	int rc = 1;

	for (int first = 1; rc > 0; first = 0) {
		if (!fgets(line, sizeof(line), from))
			return first ? "it is empty" : "it ends too early";
		line[strcspn(line, "\n")] = '\0';
		if (!first) {
			rc = merge_line(merge, line);
			continue;
		}
		at = strstr(line, "\"meeting\":\"");
		if (!at || sscanf(at, "\"meeting\":\"%16" SCNx64, &meeting) != 1)
			return "it is not a trace of Sluice";
		snprintf(expected, sizeof(expected), first_line, meeting);
		if (strcmp(line, expected) != 0)
			return "it is not a trace of Sluice, or of another version";
		if (merge->files && meeting != merge->meeting)
			return "it is the trace of another job";
		if (!merge->files++)
			fprintf(merge->to, first_line, meeting);
		merge->meeting = meeting;
	}
	return rc < 0 ? "a line is not an event of Sluice" : NULL;
}

void trace_merge_end(struct trace_merge *merge)
{
	if (!merge->files)
		fprintf(merge->to, first_line, merge->meeting);
	fprintf(merge->to, "\n%s\n", last_line);
}
