/* SPDX-License-Identifier: BSD-3-Clause
 * The screen of sluice-top: a table of all ranks, or one rank in detail. */
#include "metrics/metrics.h"
#include "tools/top/show.h"
#include "tools/top/waits.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { LINE_BYTES = 512, BAR_CELLS = 16, WIDE = 120, NOTES_SHOWN = 6 };
/* The column in which the state of a rank begins. */
enum { NARROW_STATE = 65, WIDE_STATE = 105 };
static const double shown_wait_s = 1, slow_times = 2;
static const char wait_color[] = "33", bad_color[] = "31", head_color[] = "1";
/* Indexed by enum step_part. The last entry is the rest of the step, in which the program
 * computes. */
static const char part_letters[STEP_PARTS + 1] = { 'C', 'P', 'W', 'R', 'A', '.' };
static const char *const part_colors[STEP_PARTS + 1] = { "44", "46", "43", "45", "42", "" };

/* Prints one line, cut at the width of the screen. */
__attribute__((format(printf, 4, 5))) static void line(const struct view *view, FILE *to,
						       const char *color, const char *format, ...)
{
	char text[LINE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (view->color && color)
		fprintf(to, "\033[%sm%.*s\033[0m\n", color, view->width, text);
	else
		fprintf(to, "%.*s\n", view->width, text);
}

static const char *bytes_text(double bytes, char text[16])
{
	static const char units[] = "BKMGTP";
	size_t unit = 0;

	while (bytes >= 999.5 && unit < sizeof(units) - 2) {
		bytes /= 1024;
		unit++;
	}
	if (!isfinite(bytes) || bytes < 0)
		snprintf(text, 16, "-");
	else
		snprintf(text, 16, bytes < 10 && unit ? "%.1f%c" : "%.0f%c", bytes, units[unit]);
	return text;
}

static const char *number_text(double number, char text[16])
{
	if (isfinite(number))
		snprintf(text, 16, "%.3g", number);
	else
		snprintf(text, 16, "-");
	return text;
}

/* Writes rates of up to seven digits without an exponent. */
static const char *rate_text(double rate, char text[16])
{
	if (isfinite(rate) && rate >= 999.5 && rate < 1e7)
		snprintf(text, 16, "%.0f", rate);
	else
		number_text(rate, text);
	return text;
}

static const char *time_text(double seconds, char text[24])
{
	const unsigned long s = seconds < 1e9 ? (unsigned long)seconds : 0;

	snprintf(text, 24, "%02lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
	return text;
}

/* ---- the split of a step --------------------------------------------------------- */

/* Gives each part of the time its cells of the bar; the rest are the program's. */
static void fill_bar(const struct pace *pace, char cells[BAR_CELLS + 1])
{
	double end = 0;
	int at = 0;

	for (int part = 0; part <= STEP_PARTS; part++) {
		end = part < STEP_PARTS ? end + pace->parts[part] / pace->seconds * BAR_CELLS :
					  BAR_CELLS;
		while (at < BAR_CELLS && at + 0.5 < end)
			cells[at++] = part_letters[part];
	}
	cells[at] = '\0';
}

static void print_bar(const struct view *view, const char *cells, FILE *to)
{
	const char *last = "";

	for (const char *c = cells; *c; c++) {
		const char *at = memchr(part_letters, *c, sizeof(part_letters));
		const char *color = at ? part_colors[at - part_letters] : "";

		if (view->color && strcmp(color, last))
			fprintf(to, "\033[0%s%sm", *color ? ";" : "", color);
		fputc(*c, to);
		last = color;
	}
	if (*last && view->color)
		fputs("\033[0m", to);
}

/* ---- the table ---------------------------------------------------------------------- */

static int first_model(const struct seen_rank *rank)
{
	for (int i = 0; i < PAGE_MODELS; i++)
		if (rank->models[i].count)
			return i;
	return -1;
}

/* Returns 1 if another rank of the step has lost this one, so that the job continues without it. */
static int is_lost(const struct seen *seen, const struct seen_rank *rank)
{
	for (size_t i = 0; i < seen->n; i++) {
		const struct page_losses *losses = &seen->ranks[i].losses;

		if (!seen_together(&seen->ranks[i], rank))
			continue;
		for (size_t l = 0; l < PAGE_LOSSES && l < losses->count; l++)
			if (losses->at[l].rank == rank->who.rank)
				return 1;
	}
	return 0;
}

/* Describes what is special about a rank, in a few words. */
static void state_text(const struct seen *seen, const struct view *view,
		       const struct seen_rank *rank, char *text, size_t cap)
{
	const double slow = rank_slowness(seen, view->before, rank);
	const double waits = rank->wait.since_ns ? seconds_since(rank, rank->wait.since_ns) : 0;
	const int awaited = awaited_rank(rank, 0), n = waiting_for(seen, rank, rank->who.rank);

	if (rank->state == 'T' || rank->state == 't')
		snprintf(text, cap, "STOPPED%s", is_lost(seen, rank) ? ", lost" : "");
	else if (is_lost(seen, rank))
		snprintf(text, cap, "lost");
	else if (slow > slow_times)
		snprintf(text, cap, "slow x%.1f", slow);
	else if (awaited >= 0 && waits >= shown_wait_s)
		snprintf(text, cap, "waits %.0fs: %d", waits, awaited);
	else if (rank->who.rank >= rank->who.size - rank->who.servers)
		snprintf(text, cap, "server");
	else
		snprintf(text, cap, "%s", first_model(rank) < 0 ? "no model" : "");
	if (n)
		snprintf(text + strlen(text), cap - strlen(text), "%s%d wait%s", *text ? ", " : "",
			 n, n == 1 ? "s for it" : " for it");
}

static void print_head(const struct view *view, FILE *to)
{
	const int wide = view->width >= WIDE;

	line(view, to, head_color, "%5s %-8s %8s %7s %-*s %s%7s %s%7s%s %s", "rank", "node",
	     "steps", "steps/s", BAR_CELLS, "split of a step", wide ? "   up " : "", "up/s",
	     wide ? " down " : "", "down/s", wide ? "  dens%  error   resid stale" : "", "state");
}

/* Prints what a line of the table has only on a wide screen. */
static void print_more(const sluice_model_stats *stats, FILE *to)
{
	const double norm = stats->residual_norm;
	char density[16], error[16], residual[16];

	fprintf(to, " %6s %6s %7s %5llu", number_text(100 * stats->density_up, density),
		number_text(stats->compression_error, error),
		number_text(norm > 0 ? norm : NAN, residual),
		(unsigned long long)stats->staleness_most % 100000);
}

static void print_row(const struct seen *seen, const struct view *view,
		      const struct seen_rank *rank, FILE *to)
{
	const struct seen_rank *before = view->before ? seen_before(view->before, rank) : NULL;
	const int m = first_model(rank), wide = view->width >= WIDE;
	const struct page_numbers none = { .stats.density_up = NAN,
					   .stats.compression_error = NAN };
	const struct page_numbers *now = m < 0 ? &none : &rank->numbers[m];
	char up[16], down[16], up_rate[16] = "-", down_rate[16] = "-", rate[16] = "-";
	char state[64], cells[BAR_CELLS + 1] = "";
	const int room = view->width - (wide ? WIDE_STATE : NARROW_STATE);
	struct pace pace;

	if (m >= 0 && !pace_of(rank, before, m, &pace)) {
		rate_text(pace.steps / pace.seconds, rate);
		bytes_text(pace.up / pace.seconds, up_rate);
		bytes_text(pace.down / pace.seconds, down_rate);
		if (rank->who.rank < rank->who.size - rank->who.servers)
			fill_bar(&pace, cells);
	}
	fprintf(to, "%5d %-8.8s %8llu %7s ", rank->who.rank, rank->who.node,
		(unsigned long long)now->version % 100000000, rate);
	print_bar(view, cells, to);
	fprintf(to, "%*s", (int)(BAR_CELLS - strlen(cells)), "");
	if (wide)
		fprintf(to, " %5s", bytes_text((double)now->stats.pushed_bytes, up));
	fprintf(to, " %7s", up_rate);
	if (wide)
		fprintf(to, " %5s", bytes_text((double)now->stats.pulled_bytes, down));
	fprintf(to, " %7s", down_rate);
	if (wide)
		print_more(&now->stats, to);
	state_text(seen, view, rank, state, sizeof(state));
	fprintf(to, view->color && *state ? " \033[%sm%.*s\033[0m\n" : "%.0s %.*s\n",
		strstr(state, "STOPPED") || strstr(state, "slow") ? bad_color : wait_color, room,
		state);
}

/* ---- what concerns the whole step ------------------------------------------------------ */

static void print_title(const struct seen *seen, size_t first, size_t end, const struct view *view,
			FILE *to)
{
	const struct seen_rank *r = &seen->ranks[first];
	char up[24];
	int nodes = 1, m = first_model(r);

	for (size_t i = first + 1; i < end; i++)
		nodes += strcmp(seen->ranks[i].who.node, seen->ranks[i - 1].who.node) != 0;
	line(view, to, head_color,
	     "job %s%s%s: %zu of %d ranks are %s, on %d node%s; %d server%s; %s; up %s",
	     *r->who.job ? r->who.job : "-", *r->who.step ? "." : "", r->who.step, end - first,
	     r->who.size, view->nodes ? "shown" : "here", nodes, nodes == 1 ? "" : "s",
	     r->who.servers, r->who.servers == 1 ? "" : "s", r->who.transports,
	     time_text(seconds_since(r, r->who.start_ns), up));
	if (m >= 0)
		line(view, to, NULL, "model %u: %llu parameters in %u shard%s, %s", r->models[m].id,
		     (unsigned long long)r->models[m].count, r->models[m].shards,
		     r->models[m].shards == 1 ? "" : "s", r->models[m].recipe);
}

static void print_legend(const struct view *view, FILE *to)
{
	static const char *const names[STEP_PARTS + 1] = { "compress", "push",  "wait",
							   "read",     "apply", "program" };

	for (int part = 0; part <= STEP_PARTS; part++) {
		const char cell[2] = { part_letters[part], '\0' };

		print_bar(view, cell, to);
		fprintf(to, " %s  ", names[part]);
	}
	fputc('\n', to);
}

static void print_waits(const struct seen *seen, size_t first, size_t end, const struct view *view,
			FILE *to)
{
	for (size_t i = first; i < end; i++) {
		const struct seen_rank *r = &seen->ranks[i];
		const double waits = seconds_since(r, r->wait.since_ns);

		if (awaited_rank(r, 0) >= 0 && waits >= shown_wait_s)
			line(view, to, wait_color, "rank %d waits %.1f s for %s", r->who.rank,
			     waits, r->wait.text);
	}
}

/* Prints each lost rank once, although all others report it. */
static void print_losses(const struct seen *seen, size_t first, size_t end, const struct view *view,
			 FILE *to)
{
	for (size_t i = first; i < end; i++) {
		const struct seen_rank *r = &seen->ranks[i];

		for (size_t l = 0; l < PAGE_LOSSES && l < r->losses.count; l++) {
			const struct page_loss *loss = &r->losses.at[l];
			int known = 0;

			for (size_t j = first; j < i && !known; j++)
				for (size_t k = 0;
				     k < PAGE_LOSSES && k < seen->ranks[j].losses.count; k++)
					known |= seen->ranks[j].losses.at[k].rank == loss->rank;
			if (!known)
				line(view, to, bad_color, "rank %d is lost, for %.0f s: %s",
				     loss->rank, seconds_since(r, loss->ns), loss->why);
		}
	}
}

/* Prints the last log line of each rank. If several ranks have the same line, prints it once. */
static void print_notes(const struct seen *seen, size_t first, size_t end, const struct view *view,
			FILE *to)
{
	int printed = 0;

	for (size_t i = first; i < end && printed < NOTES_SHOWN; i++) {
		const struct seen_rank *r = &seen->ranks[i];
		const struct page_note *note = &r->notes[PAGE_NOTES - 1];
		int known = 0;

		for (size_t j = first; j < i && !known; j++)
			known = !strcmp(seen->ranks[j].notes[PAGE_NOTES - 1].text, note->text);
		if (!note->number || known)
			continue;
		printed++;
		line(view, to, note->level ? NULL : bad_color, "%s of rank %d, %.0f s ago: %s",
		     note->level ? "warning" : "error", r->who.rank, seconds_since(r, note->ns),
		     note->text);
	}
}

/* Names the command that shows the ranks of another node. */
static void print_elsewhere(const struct seen *seen, size_t first, size_t end,
			    const struct view *view, FILE *to)
{
	const struct seen_rank *r = &seen->ranks[first];
	const uint64_t named = r->losses.count < PAGE_LOSSES ? r->losses.count : PAGE_LOSSES;
	size_t accounted = end - first + (size_t)(r->losses.count - named);

	/* A lost rank that is only stopped still has a page. */
	for (uint64_t i = 0; i < named; i++) {
		size_t j = first;

		while (j < end && seen->ranks[j].who.rank != r->losses.at[i].rank)
			j++;
		accounted += j == end;
	}
	if (*r->who.job && !view->nodes && accounted < (size_t)r->who.size)
		line(view, to, NULL, "ranks of all nodes: sluice-top --nodes --job %s", r->who.job);
}

static void show_step(const struct seen *seen, size_t first, size_t end, const struct view *view,
		      FILE *to)
{
	print_title(seen, first, end, view, to);
	print_head(view, to);
	for (size_t i = first; i < end; i++)
		print_row(seen, view, &seen->ranks[i], to);
	print_legend(view, to);
	print_elsewhere(seen, first, end, view, to);
	print_waits(seen, first, end, view, to);
	print_losses(seen, first, end, view, to);
	print_notes(seen, first, end, view, to);
}

/* ---- one rank ---------------------------------------------------------------------------- */

static void show_model(const struct seen_rank *r, const struct seen_rank *before, int i,
		       const struct view *view, FILE *to)
{
	const struct page_model *model = &r->models[i];

	line(view, to, head_color, "model %u: %llu parameters in %u shard%s, %s", model->id,
	     (unsigned long long)model->count, model->shards, model->shards == 1 ? "" : "s",
	     model->recipe);
	for (size_t m = 0; m < n_metrics; m++) {
		const double value = metric_value(&metrics[m], &r->numbers[i]);
		char rate[32] = "";

		if (!isfinite(value))
			continue;
		if (metrics[m].counts && before && before->numbers[i].ns && r->ns > before->ns)
			snprintf(rate, sizeof(rate), "%.5g/s",
				 (value - metric_value(&metrics[m], &before->numbers[i])) /
					 ((double)(r->ns - before->ns) / 1e9));
		line(view, to, NULL, "  %-18s %14.10g %-7s %12s  %s", metrics[m].name, value,
		     metrics[m].unit, rate, metrics[m].help);
	}
	fputs("  staleness         ", to);
	for (int s = 0; s < 8; s++)
		fprintf(to, " %llu", (unsigned long long)r->numbers[i].stats.staleness[s]);
	fputc('\n', to);
}

static void show_rank(const struct seen *seen, const struct seen_rank *r, const struct view *view,
		      FILE *to)
{
	const struct seen_rank *before = view->before ? seen_before(view->before, r) : NULL;
	char up[24], state[64];

	state_text(seen, view, r, state, sizeof(state));
	line(view, to, head_color, "rank %d of %d, job %s%s%s, node %s, process %d (%c), up %s, %s",
	     r->who.rank, r->who.size, *r->who.job ? r->who.job : "-", *r->who.step ? "." : "",
	     r->who.step, r->who.node, (int)r->pid, r->state,
	     time_text(seconds_since(r, r->who.start_ns), up), r->who.transports);
	if (*state)
		line(view, to, wait_color, "%s", state);
	if (r->wait.since_ns)
		line(view, to, wait_color, "waits %.1f s for %s",
		     seconds_since(r, r->wait.since_ns), r->wait.text);
	for (int i = 0; i < PAGE_MODELS; i++)
		if (r->models[i].count)
			show_model(r, before, i, view, to);
	for (size_t i = 0; i < PAGE_LOSSES && i < r->losses.count; i++)
		line(view, to, bad_color, "rank %d is lost: %s", r->losses.at[i].rank,
		     r->losses.at[i].why);
	for (int i = 0; i < PAGE_NOTES; i++)
		if (r->notes[i].number)
			line(view, to, NULL, "%s, %.0f s ago: %s",
			     r->notes[i].level ? "warning" : "error",
			     seconds_since(r, r->notes[i].ns), r->notes[i].text);
}

void show_screen(const struct seen *seen, const struct view *view, FILE *to)
{
	for (size_t first = 0, end; first < seen->n; first = end) {
		for (end = first + 1; end < seen->n; end++)
			if (!seen_together(&seen->ranks[first], &seen->ranks[end]))
				break;
		if (view->rank < 0)
			show_step(seen, first, end, view, to);
		for (size_t i = first; i < end && view->rank >= 0; i++)
			if (seen->ranks[i].who.rank == view->rank)
				show_rank(seen, &seen->ranks[i], view, to);
	}
}
