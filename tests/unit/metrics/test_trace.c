/* SPDX-License-Identifier: BSD-3-Clause
 * The ring of slices, its text, and joining the texts of ranks. */
#include "metrics/trace_text.h"
#include "cases.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(struct trace *trace, enum trace_kind kind, uint64_t step, uint64_t begin,
		uint64_t end)
{
	trace_add(
		trace,
		&(struct trace_slice){
			.kind = kind, .model = 1, .step = step, .begin_ns = begin, .end_ns = end });
}

static char *print(const struct trace *trace, int rank, uint64_t meeting)
{
	const struct trace_origin origin = {
		.rank = rank, .node = "n\"1\\", .job = "4711.0", .meeting = meeting
	};
	size_t bytes;
	char *text = NULL;
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	assert_int_equal(trace_print(trace, &origin, to), 0);
	assert_int_equal(fclose(to), 0);
	return text;
}

static int count(const char *text, const char *what)
{
	int n = 0;

	while ((text = strstr(text, what)) != NULL) {
		n++;
		text++;
	}
	return n;
}

TEST(ring__that_overflows__keeps_the_last_slices)
{
	struct trace_slice *slices = calloc(TRACE_SLICES, sizeof(*slices));
	struct trace *trace = trace_open();
	uint64_t dropped;
	char *text;

	assert_non_null(trace);
	assert_non_null(slices);
	assert_int_equal(trace_copy(trace, slices, &dropped), 0);
	assert_int_equal(dropped, 0);
	for (uint64_t i = 0; i < TRACE_SLICES + 10; i++)
		add(trace, TRACE_STEP, i + 1, i * 10, i * 10 + 5);
	assert_int_equal(trace_copy(trace, slices, &dropped), TRACE_SLICES);
	assert_int_equal(dropped, 10);
	assert_int_equal(slices[0].step, 11);
	assert_int_equal(slices[TRACE_SLICES - 1].step, TRACE_SLICES + 10);
	assert_int_equal(slices[0].begin_ns, 100);
	assert_int_equal(slices[0].thread, 1);
	text = print(trace, 0, 1);
	assert_non_null(strstr(text, "10 earlier slices and 10 earlier steps were dropped"));
	free(text);
	free(slices);
	trace_close(&trace);
	assert_null(trace);
}

static void *fill(void *trace)
{
	for (uint64_t i = 0; i < 3 * TRACE_SLICES; i++)
		add(trace, TRACE_WAIT, 0, i, i + 7);
	return NULL;
}

/* Readers of a ring that threads write see whole slices. */
TEST(ring__written_while_it_is_read__has_no_torn_slice)
{
	struct trace_slice *slices = calloc(TRACE_SLICES, sizeof(*slices));
	struct trace *trace = trace_open();
	pthread_t threads[2];
	uint64_t dropped;

	assert_non_null(trace);
	assert_non_null(slices);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fill, trace), 0);
	do {
		const size_t n = trace_copy(trace, slices, &dropped);

		for (size_t i = 0; i < n; i++)
			assert_true(slices[i].end_ns == slices[i].begin_ns + 7 &&
				    slices[i].kind == TRACE_WAIT && slices[i].thread > 1);
	} while (dropped < 5 * TRACE_SLICES);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	free(slices);
	trace_close(&trace);
}

TEST(text__of_a_step__has_its_parts_and_the_program)
{
	struct trace *trace = trace_open();
	char *text;

	assert_non_null(trace);
	add(trace, TRACE_PUSH, 0, 2000, 4000); /* ends before the compression around it */
	add(trace, TRACE_COMPRESS, 0, 1000, 5000);
	add(trace, TRACE_PULL, 0, 9000, 9500);
	add(trace, TRACE_WAIT, 0, 8000, 10000);
	add(trace, TRACE_PUBLISH, 0, 8500, 8600);
	add(trace, TRACE_READ, 0, 4500, 9900); /* goes on while the program computes */
	add(trace, TRACE_STEP, 1, 0, 10000);
	text = print(trace, 3, 1);
	assert_int_equal(count(text, "\"ph\":\"X\""), 8);
	assert_int_equal(count(text, "\"args\":{\"name\":\"reads of model 1\"}"), 1);
	assert_int_equal(count(text, "\"dur\":0.100,\"cat\":\"sluice\",\"name\":\"publish\""), 1);
	assert_int_equal(count(text, "\"name\":\"program\""), 1);
	assert_int_equal(count(text, "\"dur\":3.000,\"cat\":\"sluice\",\"name\":\"program\""), 1);
	assert_int_equal(count(text, "\"dur\":10.000,\"cat\":\"sluice\",\"name\":\"step 1\""), 1);
	assert_int_equal(count(text, "rank 3 on n?1?, job 4711.0"), 1);
	assert_int_equal(count(text, "\"pid\":3"), count(text, "\"pid\""));
	assert_true(strstr(text, "\"compress\"") < strstr(text, "\"push\""));
	free(text);
	trace_close(&trace);
}

/* Joins texts. Returns the result. why: of the last one. */
static char *join(char **texts, int n, const char **why)
{
	struct trace_merge merge;
	size_t bytes;
	char *joined = NULL;
	FILE *to = open_memstream(&joined, &bytes);

	assert_non_null(to);
	trace_merge_begin(&merge, to);
	for (int i = 0; i < n; i++) {
		FILE *from = fmemopen(texts[i], strlen(texts[i]), "r");

		assert_non_null(from);
		*why = trace_merge_add(&merge, from);
		fclose(from);
	}
	trace_merge_end(&merge);
	assert_int_equal(fclose(to), 0);
	return joined;
}

TEST(texts__of_two_ranks__are_joined)
{
	struct trace *trace = trace_open();
	char *texts[3], *joined, *again;
	const char *why;

	assert_non_null(trace);
	add(trace, TRACE_WAIT, 0, 1000, 2000);
	texts[0] = print(trace, 0, 5);
	texts[1] = print(trace, 1, 5);
	texts[2] = print(trace, 2, 6);
	joined = join(texts, 2, &why);
	assert_null(why);
	assert_int_equal(count(joined, "\"ph\""), count(texts[0], "\"ph\"") * 2);
	assert_int_equal(count(joined, "traceEvents"), 1);
	again = join(&joined, 1, &why);
	assert_null(why);
	assert_string_equal(again, joined);
	free(again);
	free(joined);
	free(join(texts, 3, &why));
	assert_non_null(why);
	assert_non_null(strstr(why, "another job"));
	for (int i = 0; i < 3; i++)
		free(texts[i]);
	trace_close(&trace);
}

/* Lines that are no events, and texts whose end is cut off, are refused. */
TEST(text__that_is_damaged__is_refused)
{
	static const char *const bad[] = { "{\"a\":\"x\\\"y\"}",
					   "{\"a\":}",
					   "{}",
					   "{\"a\":1e5}",
					   "{\"a\":1}x",
					   "{\"a\":1},,",
					   "{\"a\":[1]}",
					   "{\"a\":{\"b\":{\"c\":1}}}",
					   "",
					   "{\"a\":01}",
					   "{\"a\":true}" };
	struct trace *trace = trace_open();
	char *good, *line, *text;
	const char *why;

	assert_non_null(trace);
	good = print(trace, 0, 5);
	line = strchr(good, '\n') + 1;
	text = malloc(strlen(good) + 64);
	assert_non_null(text);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		sprintf(text, "%.*s%s\n]}\n", (int)(line - good), good, bad[i]);
		free(join(&text, 1, &why));
		if (!why)
			fail_msg("accepted: %s", bad[i]);
	}
	for (size_t n = 1; n < strlen(good) - 3; n++) {
		sprintf(text, "%.*s", (int)n, good);
		free(join(&text, 1, &why));
		assert_non_null(why);
	}
	free(text);
	free(good);
	trace_close(&trace);
}
