/* SPDX-License-Identifier: BSD-3-Clause
 * For --json: prints the contents of all pages as one object. */
#include "tools/json.h"
#include "metrics/metrics.h"
#include "tools/top/show.h"
#include "tools/top/waits.h"

static void print_model(const struct seen_rank *r, int i, FILE *to)
{
	const struct page_model *model = &r->models[i];

	fprintf(to,
		"{\"id\": %u, \"group\": %d, \"parameters\": %llu, \"shards\": %u, \"recipe\": ",
		model->id, model->group, (unsigned long long)model->count, model->shards);
	json_text(to, model->recipe);
	for (size_t m = 0; m < n_metrics; m++) {
		const double value = metric_value(&metrics[m], &r->numbers[i]);

		fprintf(to, ", \"%s\": ", metrics[m].name);
		if (value >= 0 && value < 0x1p53 && value == floor(value)) /* a count */
			fprintf(to, "%.0f", value);
		else
			json_number(to, value);
	}
	fprintf(to, ", \"staleness\": [");
	for (int s = 0; s < 8; s++)
		fprintf(to, "%s%llu", s ? ", " : "",
			(unsigned long long)r->numbers[i].stats.staleness[s]);
	fputs("]}", to);
}

static void print_lists(const struct seen_rank *r, FILE *to)
{
	const char *separator = "";

	fputs(", \"lost\": [", to);
	for (size_t i = 0; i < PAGE_LOSSES && i < r->losses.count; i++) {
		fprintf(to, "%s{\"rank\": %d, \"seconds\": %.3f, \"why\": ", i ? ", " : "",
			r->losses.at[i].rank, seconds_since(r, r->losses.at[i].ns));
		json_text(to, r->losses.at[i].why);
		fputc('}', to);
	}
	fputs("], \"log\": [", to);
	for (int i = 0; i < PAGE_NOTES; i++) {
		if (!r->notes[i].number)
			continue;
		fprintf(to, "%s{\"level\": \"%s\", \"seconds\": %.3f, \"text\": ", separator,
			r->notes[i].level ? "warn" : "error", seconds_since(r, r->notes[i].ns));
		json_text(to, r->notes[i].text);
		fputc('}', to);
		separator = ", ";
	}
	fputs("]", to);
}

static void print_rank(const struct seen_rank *r, FILE *to)
{
	const char *separator = "";

	fprintf(to,
		"{\"rank\": %d, \"size\": %d, \"servers\": %d, \"pid\": %d, \"state\": \"%c\", ",
		r->who.rank, r->who.size, r->who.servers, (int)r->pid, r->state);
	fputs("\"job\": ", to);
	json_text(to, r->who.job);
	fputs(", \"step\": ", to);
	json_text(to, r->who.step);
	fputs(", \"node\": ", to);
	json_text(to, r->who.node);
	fputs(", \"transports\": ", to);
	json_text(to, r->who.transports);
	fputs(", \"library\": ", to);
	json_text(to, r->who.library);
	fprintf(to, ", \"seconds\": %.3f, \"waits\": ", seconds_since(r, r->who.start_ns));
	if (r->wait.since_ns) {
		fprintf(to, "{\"seconds\": %.3f, \"for\": [", seconds_since(r, r->wait.since_ns));
		for (int rank, i = 0; (rank = awaited_rank(r, i)) >= 0; i++)
			fprintf(to, "%s%d", i ? ", " : "", rank);
		fputs("], \"text\": ", to);
		json_text(to, r->wait.text);
		fputc('}', to);
	} else {
		fputs("null", to);
	}
	fputs(", \"models\": [", to);
	for (int i = 0; i < PAGE_MODELS; i++) {
		if (!r->models[i].count)
			continue;
		fputs(separator, to);
		print_model(r, i, to);
		separator = ", ";
	}
	fputc(']', to);
	print_lists(r, to);
	fputc('}', to);
}

void show_json(const struct seen *seen, FILE *to)
{
	fputs("{\"ranks\": [", to);
	for (size_t i = 0; i < seen->n; i++) {
		fputs(i ? ",\n" : "\n", to);
		print_rank(&seen->ranks[i], to);
	}
	fputs("\n]}\n", to);
}
