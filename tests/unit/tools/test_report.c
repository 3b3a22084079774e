/* SPDX-License-Identifier: BSD-3-Clause
 * The report of sluice-train on traffic: a job of one sends nothing over a network and reports the
 * bytes within its rank; other jobs report the bytes sent. The counters are those of simulated
 * jobs. */
#include "tools/train/report.h"
#include "cases.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 1000, STEPS = 3 };

static struct traffic seen[2]; /* by rank */

static int move_some(sluice_job *job, void *context)
{
	float params[COUNT] = { 0 }, grad[COUNT];
	sluice_model_attr attr = {
		.size = sizeof attr, .count = COUNT, .recipe = "up=all down=all", .shards = 1
	};
	sluice_model *model = NULL;
	int rc = sluice_model_open(job, &attr, params, &model);

	for (int i = 0; i < COUNT; i++)
		grad[i] = (float)i;
	for (int step = 0; step < STEPS && !rc; step++) {
		rc = sluice_push(model, grad);
		if (!rc)
			rc = sluice_pull(model, params);
	}
	if (!rc)
		rc = traffic_own(model, &seen[sluice_rank(job)]);
	sluice_model_close(&model);
	return rc;
}

/* Returns what report_epoch() writes to stderr. */
static void epoch_line(const struct traffic *total, char *text, size_t cap)
{
	static const struct options options = { .epochs = 1 };
	static const struct network network = { .loss = LOSS_CROSS_ENTROPY };
	const struct score test = { .loss = 1, .correct = 1, .rows = 2 };
	FILE *file = tmpfile();
	struct report report;
	int stderr_was = dup(STDERR_FILENO);

	assert_non_null(file);
	report_begin(&report, &options, 0, 0, STEPS, STEPS, 1);
	report.loss_steps = 1;
	fflush(stderr);
	dup2(fileno(file), STDERR_FILENO);
	report_epoch(&report, &network, 1, &test, total);
	fflush(stderr);
	dup2(stderr_was, STDERR_FILENO);
	close(stderr_was);
	rewind(file);
	text[fread(text, 1, cap - 1, file)] = '\0';
	fclose(file);
}

TEST(report_epoch__job_of_one__says_what_passes_within_the_rank)
{
	char text[512];

	assert_int_equal(sluice_simulate(NULL, 1, move_some, NULL), 0);
	assert_true(seen[0].pushed == 0 && seen[0].pulled == 0 && seen[0].dense == 0);
	assert_true(seen[0].own_pushed > 4 * COUNT * STEPS &&
		    seen[0].own_pushed < 5 * COUNT * STEPS);
	assert_true(seen[0].own_dense == seen[0].own_pushed + seen[0].own_pulled);
	epoch_line(&seen[0], text, sizeof text);
	assert_non_null(strstr(text,
			       "so far nothing over the network, within ranks up 12.3 kB down 12.3 "
			       "kB (dense 24.6 kB); "));
}

TEST(report_epoch__two_ranks__says_what_crossed_between_them)
{
	char text[512];

	assert_int_equal(sluice_simulate(NULL, 2, move_some, NULL), 0);
	assert_true(seen[0].pushed == 0 && seen[0].own_pushed > 0); /* this rank owns the only
								       shard */
	assert_true(seen[1].pushed == seen[0].own_pushed && seen[1].own_pushed == 0);
	assert_true(seen[1].pulled == seen[0].own_pulled && seen[1].own_pulled == 0);
	seen[1].own_pushed = seen[0].own_pushed; /* the sum over the workers */
	seen[1].own_pulled = seen[0].own_pulled;
	epoch_line(&seen[1], text, sizeof text);
	assert_non_null(strstr(text, "so far up 12.3 kB down 12.3 kB (dense 24.6 kB); "));
}

TEST(metrics_open__a_new_file_is_for_its_owner_only)
{
	const mode_t mask = umask(0);
	struct complaint complaint;
	struct metrics metrics;
	struct stat status;
	char path[] = "/tmp/sluice-metrics.XXXXXX";

	close(mkstemp(path));
	for (int append = 0; append < 2; append++) {
		assert_int_equal(unlink(path), 0);
		assert_int_equal(metrics_open(&metrics, path, append, &complaint), 0);
		assert_int_equal(fclose(metrics.file), 0);
		assert_int_equal(stat(path, &status), 0);
		assert_int_equal(status.st_mode & 0777, 0600);
	}
	umask(mask);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(metrics_open(&metrics, "/nowhere/metrics", 0, &complaint), -1);
	assert_string_equal(complaint.text, "cannot write metrics to /nowhere/metrics: No such "
					    "file or directory");
}

/* Writes the text, opens the file to append to it, and returns its size then, or -1. */
static off_t continue_after(const char *path, const char *text, struct metrics *metrics,
			    struct complaint *complaint)
{
	FILE *file = fopen(path, "w");
	struct stat status;

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	*metrics = (struct metrics){ 0 };
	if (metrics_open(metrics, path, 1, complaint))
		return -1;
	assert_int_equal(fclose(metrics->file), 0);
	assert_int_equal(stat(path, &status), 0);
	return status.st_size;
}

TEST(metrics_open__of_a_file_to_continue__takes_its_totals_and_drops_a_part_of_a_line)
{
	static const char line[] = "{\"step\":7,\"pushed_total\":10,\"pulled_total\":20,"
				   "\"dense_total\":400,\"seconds\":1.5}\n",
			  part[] = "{\"step\":8,\"pushed_to", no_totals[] = "{\"step\":7}\n";
	struct complaint complaint;
	struct metrics metrics;
	char path[] = "/tmp/sluice-metrics.XXXXXX", text[400];

	close(mkstemp(path));
	snprintf(text, sizeof(text), "%s%s%s", no_totals, line, part);
	assert_int_equal(continue_after(path, text, &metrics, &complaint),
			 strlen(text) - strlen(part));
	assert_true(metrics.before.pushed == 10 && metrics.before.pulled == 20);
	assert_true(metrics.before.dense == 400 && metrics.seconds_before == 1.5);
	assert_int_equal(continue_after(path, part, &metrics, &complaint), 0);
	assert_true(metrics.before.pushed == 0 && metrics.seconds_before == 0);
	assert_int_equal(continue_after(path, "", &metrics, &complaint), 0);

	const char *const wrong[] = { "lines of a log\n", "a log", no_totals, "\n\n" };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(continue_after(path, wrong[i], &metrics, &complaint), -1);
		assert_non_null(strstr(complaint.text, "name another file with --metrics"));
	}
	assert_int_equal(unlink(path), 0);
}
