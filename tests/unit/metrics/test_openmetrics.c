/* SPDX-License-Identifier: BSD-3-Clause
 * The OpenMetrics text by the rules of its format, the dashboard that uses its names, and the files
 * that the library replaces. */
#include "metrics/openmetrics.h"
#include "metrics/metrics.h"
#include "metrics/out_file.h"
#include "cases.h"
#include "../scratch.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the text ---------------------------------------------------------------------------- */

static struct seen_rank *make_ranks(int n)
{
	struct seen_rank *ranks = calloc((size_t)n, sizeof(*ranks));

	assert_non_null(ranks);
	for (int i = 0; i < n; i++) {
		struct seen_rank *r = &ranks[i];

		r->who = (struct page_who){ .rank = i,
					    .size = n,
					    .pid = 7,
					    .job = "4711",
					    .step = "0",
					    .node = "n1",
					    .library = "0.1.0",
					    .transports = "self,shm",
					    .start_ns = 1 };
		r->ns = 2500000001;
		r->state = i ? 'S' : 'T';
		r->wait.since_ns = i ? 0 : 1500000001;
		r->models[0] = (struct page_model){
			.count = 100, .id = 1, .group = -1, .recipe = "up=all \"x\\y\""
		};
		r->numbers[0] = (struct page_numbers){ .ns = 1,
						       .stats = { .steps = 12345678901,
								  .wait_ns = 1500000000,
								  .density_up = 0.25,
								  .density_down = (double)NAN } };
	}
	return ranks;
}

static char *print(struct seen_rank *ranks, int n)
{
	const struct seen seen = { .ranks = ranks, .n = (size_t)n };
	size_t bytes;
	char *text = NULL;
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	openmetrics_print(&seen, to);
	assert_int_equal(fclose(to), 0);
	return text;
}

static void has(const char *text, const char *line)
{
	if (!strstr(text, line))
		fail_msg("no \"%s\" in:\n%s", line, text);
}

static const char *skip_name(const char *at)
{
	assert_true(isalpha((unsigned char)*at) || *at == '_');
	while (isalnum((unsigned char)*at) || *at == '_')
		at++;
	return at;
}

/* Checks "NAME{LABELS} VALUE". suffix: of the family's samples. */
static void check_sample(const char *line, const char *family, const char *suffix)
{
	const char *at = skip_name(line);
	char *end;

	assert_int_equal(strncmp(line, family, strlen(family)), 0);
	assert_int_equal(strncmp(line + strlen(family), suffix, strlen(suffix)), 0);
	assert_int_equal(at - line, strlen(family) + strlen(suffix));
	assert_int_equal(*at, '{');
	do {
		at = skip_name(at + 1);
		assert_int_equal(strncmp(at, "=\"", 2), 0);
		for (at += 2; *at != '"'; at++) {
			assert_true(*at >= ' ');
			if (*at == '\\')
				assert_non_null(strchr("\\\"n", *++at));
		}
	} while (*++at == ',');
	assert_int_equal(strncmp(at, "} ", 2), 0);
	assert_true(isfinite(strtod(at + 2, &end)));
	assert_int_equal(*end, '\0');
}

/* Every family has HELP, TYPE and perhaps UNIT in this order, once, and then its samples. A unit is
 * the end of the name. The last line is EOF. */
static void check_format(char *text)
{
	char family[128] = "", type[32] = "", unit[32], name[128], *next, *seen = strdup("\n");
	int ended = 0;

	for (char *line = text; *line; line = next) {
		next = strchr(line, '\n');
		assert_non_null(next);
		*next++ = '\0';
		assert_false(ended);
		if (sscanf(line, "# HELP %127s", family) == 1) {
			char *more = malloc(strlen(seen) + strlen(family) + 3);

			snprintf(name, sizeof(name), "\n%.120s\n", family);
			assert_null(strstr(seen, name));
			sprintf(more, "%s%s\n", seen, family);
			free(seen);
			seen = more;
			type[0] = '\0';
		} else if (sscanf(line, "# TYPE %127s %31s", name, type) == 2) {
			assert_string_equal(name, family);
			assert_true(!strcmp(type, "counter") || !strcmp(type, "gauge"));
		} else if (sscanf(line, "# UNIT %127s %31s", name, unit) == 2) {
			assert_string_equal(name, family);
			assert_string_equal(name + strlen(name) - strlen(unit), unit);
			assert_int_equal(name[strlen(name) - strlen(unit) - 1], '_');
		} else if (!strcmp(line, "# EOF")) {
			ended = 1;
		} else {
			check_sample(line, family, strcmp(type, "counter") ? "" : "_total");
		}
	}
	assert_true(ended);
	free(seen);
}

TEST(text__of_two_ranks__keeps_the_format)
{
	struct seen_rank *ranks = make_ranks(2);
	char *text = print(ranks, 2);

	has(text, "# TYPE sluice_steps counter\n");
	has(text, "\nsluice_steps_total{slurm_job=\"4711\",slurm_step=\"0\",node=\"n1\",rank=\"1\","
		  "model=\"1\"} 12345678901\n");
	has(text, "# UNIT sluice_wait_seconds seconds\n");
	has(text, "rank=\"0\",model=\"1\"} 1.5\n");
	has(text, "# UNIT sluice_pushed_bytes bytes\n");
	has(text, "recipe=\"up=all \\\"x\\\\y\\\"\"} 1\n");
	has(text, "sluice_waiting_seconds{slurm_job=\"4711\",slurm_step=\"0\",node=\"n1\","
		  "rank=\"0\"} 1\n");
	has(text, "\nsluice_stopped{slurm_job=\"4711\",slurm_step=\"0\",node=\"n1\",rank=\"0\"} 1");
	assert_null(strstr(text, "sluice_density_down{"));
	assert_null(strstr(text, "nan"));
	check_format(text);
	free(text);
	free(ranks);
}

TEST(text__of_no_rank__has_families_only)
{
	char *text = print(NULL, 0);

	assert_null(strchr(text, '{'));
	check_format(text);
	free(text);
}

/* Two entries with one number: samples must differ in a label. */
TEST(text__of_models_with_one_number__tells_them_apart)
{
	struct seen_rank *ranks = make_ranks(1);
	char *text;

	ranks->models[3] = ranks->models[0];
	ranks->models[4] = ranks->models[0];
	ranks->models[4].group = 2;
	ranks->numbers[3] = ranks->numbers[4] = ranks->numbers[0];
	text = print(ranks, 1);
	has(text, "model=\"1\"} 0.25\n");
	has(text, "model=\"1\",entry=\"3\"} 0.25\n");
	has(text, "model=\"1\",group=\"2\"} 0.25\n");
	check_format(text);
	free(text);
	free(ranks);
}

TEST(text__of_two_jobs_without_slurm__tells_them_apart)
{
	struct seen_rank *ranks = make_ranks(2);
	char *text;

	for (int i = 0; i < 2; i++) {
		ranks[i].who.job[0] = ranks[i].who.step[0] = '\0';
		ranks[i].who.rank = 0;
		ranks[i].who.meeting = (uint64_t)i + 10;
	}
	text = print(ranks, 2);
	has(text, "{slurm_job=\"none\",slurm_step=\"\",meeting=\"000000000000000a\","
		  "node=\"n1\",rank=\"0\"} ");
	has(text, "meeting=\"000000000000000b\",node=\"n1\",rank=\"0\"} ");
	check_format(text);
	free(text);
	free(ranks);
}

/* ---- the dashboard -------------------------------------------------------------------- */

TEST(dashboard__names__are_those_of_the_text)
{
	static const char name[] = "sluice_";
	struct seen_rank *ranks = make_ranks(1);
	uint8_t *bytes = calloc(1, SCRATCH_FILE + 1);
	int n = 0;
	char *text;

	for (size_t m = 0; m < n_metrics; m++)
		if (metrics[m].kind == METRIC_REAL || metrics[m].kind == METRIC_NORM)
			memcpy((char *)&ranks->numbers[0] + metrics[m].offset, &(double){ 1 }, 8);
	text = print(ranks, 1);
	assert_non_null(bytes);
	assert_true(scratch_read(SOURCE "/doc/grafana.json", bytes) > 0);
	for (const char *at = (char *)bytes; (at = strstr(at, name)) != NULL; n++) {
		const char *end = skip_name(at);
		char sample[128];

		snprintf(sample, sizeof(sample), "\n%.*s{", (int)(end - at), at);
		has(text, sample);
		at = end;
	}
	assert_true(n > 10);
	free(bytes);
	free(text);
	free(ranks);
}

/* ---- files ---------------------------------------------------------------------------- */

TEST(path__patterns__are_replaced_or_refused)
{
	const struct out_words words = { .job = "47/11.0", .node = "n1", .rank = 3 };
	char path[PATH_MAX], here[PATH_MAX], long_name[PATH_MAX + 1];

	assert_null(out_path("/a/%j-%n-%r%%.prom", &words, path));
	assert_string_equal(path, "/a/47_11.0-n1-3%.prom");
	assert_null(out_path("x", &words, path));
	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(strncmp(path, here, strlen(here)), 0);
	assert_string_equal(path + strlen(here), "/x");
	assert_non_null(out_path("/a/%x", &words, path));
	assert_non_null(out_path("/a/%", &words, path));
	assert_non_null(out_path("/a/", &words, path));
	memset(long_name, 'x', sizeof(long_name));
	long_name[0] = '/';
	long_name[PATH_MAX] = '\0';
	assert_non_null(out_path(long_name, &words, path));
	memcpy(long_name + PATH_MAX - 5, "%j", 3);
	assert_non_null(out_path(long_name, &words, path));
}

static void put(const char *path, const char *text, int keep)
{
	struct out_file file;

	assert_int_equal(out_begin(&file, path, 1), 0);
	fputs(text, file.to);
	assert_int_equal(out_end(&file, keep), 0);
}

static void expect_file(const char *path, const char *text)
{
	static uint8_t bytes[SCRATCH_FILE];

	assert_int_equal(scratch_read(path, bytes), strlen(text));
	assert_memory_equal(bytes, text, strlen(text));
}

TEST(file__that_is_replaced__is_never_partial)
{
	char dir[SCRATCH_PATH], path[SCRATCH_PATH + 8], other[SCRATCH_PATH + 8];
	struct out_file file;
	struct stat status;

	assert_int_equal(scratch_make(dir), 0);
	snprintf(path, sizeof(path), "%s/a", dir);
	snprintf(other, sizeof(other), "%s/b", dir);
	umask(077);
	put(path, "one", 1);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0644);
	assert_int_equal(out_begin(&file, path, 1), 0);
	fputs("two", file.to);
	fflush(file.to);
	expect_file(path, "one");
	assert_int_equal(out_end(&file, 1), 0);
	expect_file(path, "two");
	put(path, "three", 0);
	expect_file(path, "two");
	/* a link is replaced, and its target is not written */
	assert_int_equal(symlink(path, other), 0);
	put(other, "four", 1);
	expect_file(path, "two");
	expect_file(other, "four");
	assert_int_equal(scratch_count(dir).partial, 0);
	scratch_remove(dir);
	assert_int_equal(out_begin(&file, path, 1), -1);
	assert_int_equal(errno, ENOENT);
}
