/* SPDX-License-Identifier: BSD-3-Clause
 * See openmetrics.h. Every name begins with "sluice_", and the names of counters end with "_total".
 * Times are in seconds and sizes in bytes. */
#include "metrics/openmetrics.h"
#include "metrics/metrics.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { NAME_BYTES = 64, STALENESS_ENTRIES = 8 };

/* The values of a rank. */
enum rank_fact { FACT_INFO, FACT_SIZE, FACT_UP, FACT_WAIT, FACT_LOST, FACT_LINES, FACT_STOPPED };

struct family {
	const char *name, *unit, *help;
	int counts;
};

static const struct {
	struct family family;
	enum rank_fact fact;
} rank_families[] = {
	{ { "rank_info", "", "version of Sluice and open transports; always 1", 0 }, FACT_INFO },
	{ { "ranks", "", "number of ranks of the job", 0 }, FACT_SIZE },
	{ { "up", "seconds", "time since sluice_init()", 0 }, FACT_UP },
	{ { "waiting", "seconds", "duration of the wait under way, or 0", 0 }, FACT_WAIT },
	{ { "lost_ranks", "", "ranks that this rank has lost", 0 }, FACT_LOST },
	{ { "log_lines", "", "errors and warnings that this process has logged", 1 }, FACT_LINES },
	{ { "stopped", "", "1 if a signal or a debugger has stopped the process, else 0", 0 },
	  FACT_STOPPED },
};

/* The values of a model that never change. */
enum model_fact { FACT_RECIPE, FACT_PARAMETERS, FACT_SHARDS };

static const struct {
	struct family family;
	enum model_fact fact;
} model_families[] = {
	{ { "model_info", "", "recipe of the model; always 1", 0 }, FACT_RECIPE },
	{ { "parameters", "", "parameters of the model", 0 }, FACT_PARAMETERS },
	{ { "shards", "", "shards of the model", 0 }, FACT_SHARDS },
};

/* ---- lines ---------------------------------------------------------------------------- */

static void begin_family(const struct family *family, char sample[NAME_BYTES], FILE *to)
{
	char name[NAME_BYTES];
	const size_t n = strlen(family->name), u = strlen(family->unit);
	const int has_unit = !u || (n > u && !strcmp(family->name + n - u, family->unit));

	snprintf(name, sizeof(name), "sluice_%s%s%s", family->name, has_unit ? "" : "_",
		 has_unit ? "" : family->unit);
	fprintf(to, "# HELP %s %s.\n# TYPE %s %s\n", name, family->help, name,
		family->counts ? "counter" : "gauge");
	if (u)
		fprintf(to, "# UNIT %s %s\n", name, family->unit);
	snprintf(sample, NAME_BYTES, "%.50s%s", name, family->counts ? "_total" : "");
}

static void print_label(const char *name, const char *value, const char *separator, FILE *to)
{
	fprintf(to, "%s%s=\"", separator, name);
	for (const char *c = value; *c; c++)
		if (*c == '\n')
			fputs("\\n", to);
		else
			fprintf(to, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
	fputc('"', to);
}

/* Prints the name of a sample and the labels of its rank. Prometheus adds a label "job", which
 * means another thing, so Slurm's job has a longer name. Without Slurm, jobs of one node differ in
 * the number of their meeting only. */
static void begin_sample(const char *sample, const struct seen_rank *r, FILE *to)
{
	fprintf(to, "%s{", sample);
	print_label("slurm_job", *r->who.job ? r->who.job : "none", "", to);
	print_label("slurm_step", r->who.step, ",", to);
	if (!*r->who.job)
		fprintf(to, ",meeting=\"%016" PRIx64 "\"", r->who.meeting);
	print_label("node", r->who.node, ",", to);
	fprintf(to, ",rank=\"%d\"", r->who.rank);
}

static void end_sample(double value, FILE *to)
{
	fprintf(to, "} %.15g\n", value);
}

/* Two models have the same number if they belong to different groups. Groups can share a color, so
 * the entry distinguishes the rest. */
static void print_model_labels(const struct seen_rank *r, int i, FILE *to)
{
	int same = 0;

	fprintf(to, ",model=\"%u\"", r->models[i].id);
	if (r->models[i].group >= 0)
		fprintf(to, ",group=\"%d\"", r->models[i].group);
	for (int other = 0; other < i; other++)
		same |= r->models[other].count && r->models[other].id == r->models[i].id &&
			r->models[other].group == r->models[i].group;
	if (same)
		fprintf(to, ",entry=\"%d\"", i);
}

/* ---- ranks ---------------------------------------------------------------------------- */

static double rank_value(const struct seen_rank *r, enum rank_fact fact)
{
	switch (fact) {
	case FACT_SIZE: return r->who.size;
	case FACT_UP: return r->who.start_ns ? seconds_since(r, r->who.start_ns) : 0;
	case FACT_WAIT: return r->wait.since_ns ? seconds_since(r, r->wait.since_ns) : 0;
	case FACT_LOST: return (double)r->losses.count;
	case FACT_LINES: return (double)r->notes[PAGE_NOTES - 1].number;
	case FACT_STOPPED: return r->state == 'T' || r->state == 't';
	case FACT_INFO: break;
	}
	return 1;
}

static void print_ranks(const struct seen *seen, FILE *to)
{
	char sample[NAME_BYTES];

	for (size_t f = 0; f < sizeof(rank_families) / sizeof(rank_families[0]); f++) {
		begin_family(&rank_families[f].family, sample, to);
		for (size_t i = 0; i < seen->n; i++) {
			const struct seen_rank *r = &seen->ranks[i];

			begin_sample(sample, r, to);
			if (rank_families[f].fact == FACT_INFO) {
				print_label("version", r->who.library, ",", to);
				print_label("transports", r->who.transports, ",", to);
			}
			end_sample(rank_value(r, rank_families[f].fact), to);
		}
	}
}

/* ---- models --------------------------------------------------------------------------- */

static double model_value(const struct page_model *model, enum model_fact fact)
{
	return fact == FACT_PARAMETERS ? (double)model->count :
	       fact == FACT_SHARDS     ? (double)model->shards :
					 1;
}

static void print_models(const struct seen *seen, FILE *to)
{
	char sample[NAME_BYTES];

	for (size_t f = 0; f < sizeof(model_families) / sizeof(model_families[0]); f++) {
		begin_family(&model_families[f].family, sample, to);
		for (size_t i = 0; i < seen->n * PAGE_MODELS; i++) {
			const struct seen_rank *r = &seen->ranks[i / PAGE_MODELS];
			const struct page_model *model = &r->models[i % PAGE_MODELS];

			if (!model->count)
				continue;
			begin_sample(sample, r, to);
			print_model_labels(r, (int)(i % PAGE_MODELS), to);
			if (model_families[f].fact == FACT_RECIPE)
				print_label("recipe", model->recipe, ",", to);
			end_sample(model_value(model, model_families[f].fact), to);
		}
	}
}

/* Returns 1 if the entry has a model whose numbers have been written. */
static int has_numbers(const struct seen_rank *r, size_t entry)
{
	return r->models[entry].count && r->numbers[entry].ns;
}

static void print_numbers(const struct seen *seen, FILE *to)
{
	char sample[NAME_BYTES];

	for (size_t m = 0; m < n_metrics; m++) {
		const struct family family = { metrics[m].name, metrics[m].unit, metrics[m].help,
					       metrics[m].counts };

		begin_family(&family, sample, to);
		for (size_t i = 0; i < seen->n * PAGE_MODELS; i++) {
			const struct seen_rank *r = &seen->ranks[i / PAGE_MODELS];
			const size_t entry = i % PAGE_MODELS;
			const double value = metric_value(&metrics[m], &r->numbers[entry]);

			if (!has_numbers(r, entry) || !isfinite(value))
				continue;
			begin_sample(sample, r, to);
			print_model_labels(r, (int)entry, to);
			end_sample(value, to);
		}
	}
}

static void print_staleness(const struct seen *seen, FILE *to)
{
	static const struct family family = {
		"stale_pushes", "",
		"counted pushes that were this many versions behind; 7: 7 or more", 1
	};
	char sample[NAME_BYTES];

	begin_family(&family, sample, to);
	for (size_t i = 0; i < seen->n * PAGE_MODELS; i++) {
		const struct seen_rank *r = &seen->ranks[i / PAGE_MODELS];
		const size_t entry = i % PAGE_MODELS;

		for (int s = 0; has_numbers(r, entry) && s < STALENESS_ENTRIES; s++) {
			begin_sample(sample, r, to);
			print_model_labels(r, (int)entry, to);
			fprintf(to, ",versions=\"%d\"", s);
			end_sample((double)r->numbers[entry].stats.staleness[s], to);
		}
	}
}

void openmetrics_print(const struct seen *seen, FILE *to)
{
	print_ranks(seen, to);
	print_models(seen, to);
	print_numbers(seen, to);
	print_staleness(seen, to);
	fputs("# EOF\n", to);
}
