/* SPDX-License-Identifier: BSD-3-Clause
 * See compare.h. */
#include "calls/compare.h"
#include "base/bytes.h"
#include "job/collective.h"
#include "job/living.h"
#include "model/model.h"
#include "worker/state.h"
#include <stdlib.h>
#include <string.h>

/* The record about a model that ranks exchange. It has numbers of 8 bytes, then the recipe. */
enum {
	COMPARED_SCHEMA,
	COMPARED_ORDER,
	COMPARED_CHANNEL,
	COMPARED_UNEVEN,
	COMPARED_PARAM_TYPE,
	COMPARED_BATCH,  /* the number of models that the call opens */
	COMPARED_OTHERS, /* a digest of all of them but the first, with the first one */
	COMPARED_COUNT,
	COMPARED_SHARDS,
	COMPARED_TENSORS,
	COMPARED_WARMUP,
	COMPARED_NUMBERS
};
enum {
	COMPARED_TEXT = 8 * COMPARED_NUMBERS,
	COMPARED_TEXT_BYTES = 928,
	COMPARED_BYTES = COMPARED_TEXT + COMPARED_TEXT_BYTES,
	COMPARED_SAME = 8 * COMPARED_OTHERS /* equal models have equal bytes before this offset */
};

/* Describes the first difference between two records. */
static void describe_difference(const uint8_t *a, const uint8_t *b, char *text, size_t cap)
{
	static const struct {
		int which;
		const char *what;
	} numbers[] = {
		{ COMPARED_BATCH, "%llu and %llu of them in one call" },
		{ COMPARED_ORDER, "as number %llu and as number %llu" },
		{ COMPARED_CHANNEL, "after models of %llu and %llu shards" },
		{ COMPARED_UNEVEN, "with uneven=%llu and uneven=%llu in the attributes" },
		{ COMPARED_PARAM_TYPE,
		  "with param_type=%llu and param_type=%llu in the attributes" },
		{ COMPARED_COUNT, "of %llu and %llu parameters" },
		{ COMPARED_SHARDS, "of %llu and %llu shards" },
		{ COMPARED_TENSORS, "of %llu and %llu tensors" },
		{ COMPARED_WARMUP,
		  "with a warm-up of %llu and %llu steps (warmup=, steps_per_epoch)" },
	};
	const char *x_text = (const char *)a + COMPARED_TEXT;
	const char *y_text = (const char *)b + COMPARED_TEXT;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		uint64_t x = get_le64(a + 8 * numbers[i].which),
			 y = get_le64(b + 8 * numbers[i].which);
		if (x == y)
			continue;
		snprintf(text, cap, numbers[i].what, (unsigned long long)x, (unsigned long long)y);
		return;
	}
	size_t word = recipe_word_apart(x_text, y_text);
	if (!strcmp(x_text, y_text))
		snprintf(text, cap, "whose tensors have other names, lengths, columns or rules");
	else
		snprintf(text, cap, "with \"%.*s\" and \"%.*s\" in the recipe",
			 (int)strcspn(x_text + word, " "), x_text + word,
			 (int)strcspn(y_text + word, " "), y_text + word);
}

/* Writes the record of a model. A restored model may continue with other rates than before, but all
 * ranks must have the same rates. */
static void write_record(const sluice_model *model, size_t n, uint8_t out[COMPARED_BYTES])
{
	const uint64_t numbers[COMPARED_NUMBERS] = {
		[COMPARED_SCHEMA] = model->schema + tensors_rules_digest(model->tensors),
		[COMPARED_ORDER] = model->id,
		[COMPARED_CHANNEL] = model->channel,
		[COMPARED_UNEVEN] = (uint64_t)model->worker->uneven,
		[COMPARED_PARAM_TYPE] = (uint64_t)model->worker->param_type,
		[COMPARED_BATCH] = n,
		[COMPARED_COUNT] = model->layout.count,
		[COMPARED_SHARDS] = model->layout.n_shards,
		[COMPARED_TENSORS] = tensors_number(model->tensors),
		[COMPARED_WARMUP] = model->schedule.warmup_steps,
	};

	memset(out, 0, COMPARED_BYTES);
	for (size_t i = 0; i < COMPARED_NUMBERS; i++)
		put_le64(out + 8 * i, numbers[i]);
	memcpy(out + COMPARED_TEXT, model->recipe_text,
	       strnlen(model->recipe_text, COMPARED_TEXT_BYTES - 1));
}

static uint64_t digest_of_others(sluice_model *const *models, size_t n)
{
	uint8_t record[COMPARED_BYTES];
	uint64_t digests[2] = { 0 };

	for (size_t i = 1; i < n; i++) {
		write_record(models[i], n, record);
		digests[1] = digest64(record, COMPARED_SAME);
		digests[0] = digest64(digests, sizeof(digests));
	}
	return digests[0];
}

/* Finds the first difference between the records that all ranks have. All ranks read the same rows
 * and find the same difference. *others_out: 1 if the ranks' other models differ. */
static int compare_rows(const sluice_job *job, uint8_t *rows, int *others_out)
{
	const int first = round_leader(job);
	uint8_t *terms = rows + (size_t)first * COMPARED_BYTES;
	int rc = 0;

	terms[COMPARED_BYTES - 1] = 0;
	error_hold();
	for (int r = first + 1; r < job->size && !rc; r++) {
		uint8_t *row = rows + (size_t)r * COMPARED_BYTES;
		row[COMPARED_BYTES - 1] = 0; /* ends the text, because a peer wrote it */
		char difference[ERROR_TEXT_BYTES];
		if (!round_has(job, r))
			continue;
		*others_out |= get_le64(row + 8 * COMPARED_OTHERS) !=
			       get_le64(terms + 8 * COMPARED_OTHERS);
		if (!memcmp(row, terms, COMPARED_SAME))
			continue;
		describe_difference(terms, row, difference, sizeof difference);
		rc = fail(SLUICE_EPEER,
			  "%s and %s opened different models, %s: all ranks must open the same "
			  "ones, in the same order",
			  rank_text(job, first), rank_text(job, r), difference);
	}
	error_release(first == job->rank ? LOG_ERROR : LOG_INFO);
	return rc;
}

int models_compare(sluice_model *const *models, size_t n)
{
	sluice_job *job = models[0]->job;
	uint8_t mine[COMPARED_BYTES], *rows = malloc((size_t)job->size * COMPARED_BYTES);
	int others = 0, ignored, rc = 0;

	if (!rows)
		return fail(SLUICE_ENOMEM, "no memory to compare models");
	for (size_t i = 0; i < n && !rc && (!i || others); i++) {
		write_record(models[i], n, mine);
		put_le64(mine + 8 * COMPARED_OTHERS, i ? 0 : digest_of_others(models, n));
		rc = collective_run(job, COLLECTIVE_OPEN, mine, 0, COMPARED_BYTES, rows);
		if (!rc)
			rc = compare_rows(job, rows, i ? &ignored : &others);
	}
	free(rows);
	return rc;
}
