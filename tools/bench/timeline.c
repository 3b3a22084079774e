/* SPDX-License-Identifier: BSD-3-Clause
 * See timeline.h. */
#include "tools/bench/timeline.h"
#include "metrics/trace.h"
#include "model/shown.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* STEPS: the number of last steps of which one is printed. CELLS: the number of equal parts into
 * which a step is divided to add up its times. */
enum { STEPS = 64, CELLS = 4096, COLUMNS = 64, THREADS = 256 };

struct step_time {
	uint64_t began_ns, ended_ns;
};

/* A slice of one worker, in nanoseconds since the barrier. */
struct slice {
	int32_t kind, thread;
	int64_t begin_ns, end_ns;
};

struct timeline {
	sluice_model *model;
	struct trace *trace;
	struct step_time steps[STEPS]; /* a ring */
	uint64_t n_steps;
};

struct timeline *timeline_open(sluice_model *model)
{
	struct timeline *t = calloc(1, sizeof(*t));

	if (t)
		t->trace = trace_open();
	if (!t || !t->trace) {
		free(t);
		return NULL;
	}
	t->model = model;
	shown_trace(model, t->trace);
	return t;
}

void timeline_close(struct timeline **timeline)
{
	struct timeline *t = *timeline;

	if (!t)
		return;
	shown_trace(t->model, NULL);
	trace_close(&t->trace);
	free(t);
	*timeline = NULL;
}

void timeline_step(struct timeline *timeline, uint64_t began_ns, uint64_t ended_ns)
{
	timeline->steps[timeline->n_steps++ % STEPS] = (struct step_time){ began_ns, ended_ns };
}

/* ---- one step of one worker --------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
	const struct step_time *x = *(const struct step_time *const *)a,
			       *y = *(const struct step_time *const *)b;
	const uint64_t ns_x = x->ended_ns - x->began_ns, ns_y = y->ended_ns - y->began_ns;

	return ns_x < ns_y ? -1 : ns_x > ns_y;
}

/* Returns the position in the ring of the step with the median time. */
static size_t median_step(const struct timeline *t)
{
	const size_t n = t->n_steps < STEPS ? (size_t)t->n_steps : STEPS;
	const struct step_time *sorted[STEPS];

	for (size_t i = 0; i < n; i++)
		sorted[i] = &t->steps[i];
	qsort(sorted, n, sizeof(sorted[0]), by_time);
	return (size_t)(sorted[n / 2] - t->steps);
}

/* Lists the slices that overlap the step. Returns their number, or 0 and no slices if there is no
 * memory. */
static size_t slices_of_step(const struct timeline *t, const struct step_time *step,
			     struct slice **out)
{
	struct trace_slice *all = malloc(TRACE_SLICES * sizeof(*all));
	uint64_t dropped;
	size_t n = 0, count;

	*out = malloc(TRACE_SLICES * sizeof(**out));
	count = all && *out ? trace_copy(t->trace, all, &dropped) : 0;
	for (size_t i = 0; i < count; i++)
		if (all[i].kind != TRACE_STEP && all[i].end_ns > step->began_ns &&
		    all[i].begin_ns < step->ended_ns)
			(*out)[n++] = (struct slice){
				.kind = (int32_t)all[i].kind,
				.thread = (int32_t)all[i].thread,
				.begin_ns = (int64_t)(all[i].begin_ns - step->began_ns),
				.end_ns = (int64_t)(all[i].end_ns - step->began_ns),
			};
	free(all);
	return n;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* A slice may contain slices of kinds earlier in this list. Their time does not count for it. */
static const enum trace_kind innermost_first[] = {
	TRACE_SUM,      TRACE_PUBLISH, TRACE_APPLY, TRACE_PUSH, TRACE_PULL,
	TRACE_COMPRESS, TRACE_DEVICE,  TRACE_WAIT,  TRACE_READ, /* in no thread */
};
enum { KINDS = sizeof(innermost_first) / sizeof(innermost_first[0]) };

struct row {
	uint64_t cells[CELLS / 64]; /* a bit for each cell in which this is under way */
	int n;                      /* slices */
	int64_t begin_ns, end_ns;
};

static void mark(uint64_t *cells, const struct slice *s, int64_t length_ns)
{
	const int64_t from = s->begin_ns < 0 ? 0 : s->begin_ns * CELLS / length_ns,
		      to = s->end_ns * CELLS / length_ns;

	for (int64_t c = from; c <= to && c < CELLS; c++)
		cells[c / 64] |= 1ull << c % 64;
}

/* Fills the row of one kind. busy: the cells of each thread in which an inner kind is under way. */
static void fill_row(struct row *row, enum trace_kind kind, const struct slice *slices, size_t n,
		     int64_t length_ns, uint64_t busy[THREADS][CELLS / 64])
{
	*row = (struct row){ .begin_ns = INT64_MAX };
	for (size_t i = 0; i < n; i++) {
		const struct slice *s = &slices[i];
		uint64_t *inside = busy[s->thread], mine[CELLS / 64] = { 0 };

		if (s->kind != (int32_t)kind)
			continue;
		mark(mine, s, length_ns);
		for (int w = 0; w < CELLS / 64; w++) {
			row->cells[w] |= kind == TRACE_READ ? mine[w] : mine[w] & ~inside[w];
			inside[w] |= kind == TRACE_READ ? 0 : mine[w];
		}
		row->n++;
		row->begin_ns = s->begin_ns < row->begin_ns ? s->begin_ns : row->begin_ns;
		row->end_ns = s->end_ns > row->end_ns ? s->end_ns : row->end_ns;
	}
}

static void print_row(const struct row *row, int rank, enum trace_kind kind, double length_ms)
{
	const int width = CELLS / COLUMNS;
	int busy = 0, column = 0;
	char bar[COLUMNS + 1] = "";

	for (int c = 0; c < CELLS; c++) {
		const int on = (int)(row->cells[c / 64] >> c % 64 & 1);

		busy += on;
		column += on;
		if ((c + 1) % width)
			continue;
		bar[c / width] = column * 2 > width ? '#' : column ? '.' : ' ';
		column = 0;
	}
	printf("%4d  %-9s %9.3f %9.3f %9.3f %5d  |%s|\n", rank, trace_kind_name(kind),
	       (double)(row->begin_ns < 0 ? 0 : row->begin_ns) * 1e-6, (double)row->end_ns * 1e-6,
	       length_ms * busy / CELLS, row->n, bar);
}

static int print_text(const struct slice *slices, size_t n, int rank, int64_t length_ns)
{
	uint64_t(*busy)[CELLS / 64] = calloc(THREADS, sizeof(*busy));
	struct row row;

	if (!busy)
		return SLUICE_ENOMEM;
	for (int k = 0; k < KINDS; k++) {
		fill_row(&row, innermost_first[k], slices, n, length_ns, busy);
		if (row.n)
			print_row(&row, rank, innermost_first[k], (double)length_ns * 1e-6);
	}
	free(busy);
	return 0;
}

/* Prints one worker's element of the array "workers", and ends the array after the last one. */
static void print_json(const struct slice *slices, size_t n, int rank, int last)
{
	printf("%s{\"rank\":%d,\"slices\":[", rank ? "," : "", rank);
	for (size_t i = 0; i < n; i++)
		printf("%s{\"thread\":%d,\"kind\":\"%s\",\"begin_ms\":%.6f,\"end_ms\":%.6f}",
		       i ? ",\n" : "", slices[i].thread,
		       trace_kind_name((enum trace_kind)slices[i].kind),
		       (double)slices[i].begin_ns * 1e-6, (double)slices[i].end_ns * 1e-6);
	printf("]}%s", last ? "]}" : "");
}

/* ---- all workers ---------------------------------------------------------------------------- */

static int is_valid(const struct slice *s)
{
	return s->kind >= 0 && s->kind < TRACE_KINDS && s->thread >= 0 && s->thread < THREADS &&
	       s->begin_ns <= s->end_ns && s->end_ns > 0;
}

/* Copies the slices of one worker to all others. */
static int share(sluice_job *job, int rank, struct slice **slices, size_t *n)
{
	double count = sluice_rank(job) == rank ? (double)*n : 0, lacking;
	int rc = sluice_sum(job, &count, 1);

	if (rc || count > TRACE_SLICES)
		return rc ? rc : SLUICE_EWIRE;
	*n = (size_t)count;
	if (sluice_rank(job) != rank)
		*slices = malloc(*n * sizeof(**slices) + 1);
	lacking = !*slices;
	rc = sluice_sum(job, &lacking, 1);
	if (!rc && lacking > 0)
		rc = SLUICE_ENOMEM;
	if (!rc && *n)
		rc = sluice_broadcast(job, *slices, *n * sizeof(**slices), rank);
	for (size_t i = 0; i < *n && !rc; i++)
		rc = is_valid(&(*slices)[i]) ? 0 : SLUICE_EWIRE;
	return rc;
}

static void print_head(const struct timeline *t, size_t step, int64_t length_ns, int json)
{
	const uint64_t kept = t->n_steps < STEPS ? t->n_steps : STEPS;
	const double median_ms = (double)(t->steps[step].ended_ns - t->steps[step].began_ns) * 1e-6;

	if (json) {
		printf(",\"timeline\":{\"ms\":%.6f,\"workers\":[", median_ms);
		return;
	}
	printf("time line of a step that took the median time of the last %llu on rank 0, %.3f ms; "
	       "in ms since the barrier before it, up to %.3f:\n",
	       (unsigned long long)kept, median_ms, (double)length_ns * 1e-6);
	printf("rank  what          begin       end      busy times\n");
}

int timeline_print(struct timeline *t, sluice_job *job, int json)
{
	const int me = sluice_rank(job);
	double chosen[2] = { me == 0 ? (double)median_step(t) : 0, 0 };
	int rc = sluice_sum(job, chosen, 1);
	const struct step_time *step = &t->steps[(size_t)chosen[0]];
	double lengths = 0;

	/* the time line ends when the last worker has ended the step */
	for (int r = 0; r < sluice_workers(job) && !rc; r++) {
		double ns = r == me ? (double)(step->ended_ns - step->began_ns) : 0;

		rc = sluice_sum(job, &ns, 1);
		lengths = fmax(lengths, ns);
	}
	if (!rc && me == 0)
		print_head(t, (size_t)chosen[0], (int64_t)lengths, json);
	for (int r = 0; r < sluice_workers(job) && !rc; r++) {
		struct slice *slices = NULL;
		size_t n = r == me ? slices_of_step(t, step, &slices) : 0;

		rc = share(job, r, &slices, &n);
		if (!rc && me == 0 && json)
			print_json(slices, n, r, r + 1 == sluice_workers(job));
		else if (!rc && me == 0)
			rc = print_text(slices, n, r, (int64_t)lengths);
		free(slices);
	}
	return rc;
}
