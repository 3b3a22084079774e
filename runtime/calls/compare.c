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
	TOLD_SCHEMA,
	TOLD_ORDER,
	TOLD_CHANNEL,
	TOLD_UNEVEN,
	TOLD_PARAM_TYPE,
	TOLD_BATCH,  /* the number of models that the call opens */
	TOLD_OTHERS, /* a digest of all of them but the first, with the first one */
	TOLD_COUNT,
	TOLD_SHARDS,
	TOLD_TENSORS,
	TOLD_WARMUP,
	TOLD_NUMBERS
};
enum {
	TOLD_TEXT = 8 * TOLD_NUMBERS,
	TOLD_TEXT_BYTES = 928,
	TOLD_BYTES = TOLD_TEXT + TOLD_TEXT_BYTES,
	TOLD_SAME = 8 * TOLD_OTHERS /* equal models have equal bytes before this offset */
};

/* Describes the first difference between two records. */
static void tell_difference(const uint8_t *a, const uint8_t *b, char *text, size_t cap)
{
	static const struct {
		int which;
		const char *what;
	} numbers[] = {
		{ TOLD_BATCH, "%llu and %llu of them in one call" },
		{ TOLD_ORDER, "as number %llu and as number %llu" },
		{ TOLD_CHANNEL, "after models of %llu and %llu shards" },
		{ TOLD_UNEVEN, "with uneven=%llu and uneven=%llu in the attributes" },
		{ TOLD_PARAM_TYPE, "with param_type=%llu and param_type=%llu in the attributes" },
		{ TOLD_COUNT, "of %llu and %llu parameters" },
		{ TOLD_SHARDS, "of %llu and %llu shards" },
		{ TOLD_TENSORS, "of %llu and %llu tensors" },
		{ TOLD_WARMUP, "with a warm-up of %llu and %llu steps (warmup=, steps_per_epoch)" },
	};
	const char *x_text = (const char *)a + TOLD_TEXT, *y_text = (const char *)b + TOLD_TEXT;
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
static void write_record(const sluice_model *model, size_t n, uint8_t out[TOLD_BYTES])
{
	const uint64_t numbers[TOLD_NUMBERS] = {
		[TOLD_SCHEMA] = model->schema + tensors_rules_digest(model->tensors),
		[TOLD_ORDER] = model->id,
		[TOLD_CHANNEL] = model->channel,
		[TOLD_UNEVEN] = (uint64_t)model->worker->uneven,
		[TOLD_PARAM_TYPE] = (uint64_t)model->worker->param_type,
		[TOLD_BATCH] = n,
		[TOLD_COUNT] = model->layout.count,
		[TOLD_SHARDS] = model->layout.n_shards,
		[TOLD_TENSORS] = tensors_number(model->tensors),
		[TOLD_WARMUP] = model->schedule.warmup_steps,
	};

	memset(out, 0, TOLD_BYTES);
	for (size_t i = 0; i < TOLD_NUMBERS; i++)
		put_le64(out + 8 * i, numbers[i]);
	memcpy(out + TOLD_TEXT, model->recipe_text,
	       strnlen(model->recipe_text, TOLD_TEXT_BYTES - 1));
}

static uint64_t digest_of_others(sluice_model *const *models, size_t n)
{
	uint8_t record[TOLD_BYTES];
	uint64_t digests[2] = { 0 };

	for (size_t i = 1; i < n; i++) {
		write_record(models[i], n, record);
		digests[1] = digest64(record, TOLD_SAME);
		digests[0] = digest64(digests, sizeof(digests));
	}
	return digests[0];
}

/* Finds the first difference between the records that all ranks have. All ranks read the same rows
 * and find the same difference. *others_out: 1 if the ranks' other models differ. */
static int compare_rows(const sluice_job *job, uint8_t *rows, int *others_out)
{
	const int first = round_leader(job);
	uint8_t *terms = rows + (size_t)first * TOLD_BYTES;
	int rc = 0;

	terms[TOLD_BYTES - 1] = 0;
	error_hold();
	for (int r = first + 1; r < job->size && !rc; r++) {
		uint8_t *row = rows + (size_t)r * TOLD_BYTES;
		row[TOLD_BYTES - 1] = 0; /* ends the text, because a peer wrote it */
		char difference[ERROR_TEXT_BYTES];
		if (!round_has(job, r))
			continue;
		*others_out |= get_le64(row + 8 * TOLD_OTHERS) != get_le64(terms + 8 * TOLD_OTHERS);
		if (!memcmp(row, terms, TOLD_SAME))
			continue;
		tell_difference(terms, row, difference, sizeof difference);
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
	uint8_t mine[TOLD_BYTES], *rows = malloc((size_t)job->size * TOLD_BYTES);
	int others = 0, ignored, rc = 0;

	if (!rows)
		return fail(SLUICE_ENOMEM, "no memory to compare models");
	for (size_t i = 0; i < n && !rc && (!i || others); i++) {
		write_record(models[i], n, mine);
		put_le64(mine + 8 * TOLD_OTHERS, i ? 0 : digest_of_others(models, n));
		rc = collective_run(job, COLLECTIVE_OPEN, mine, 0, TOLD_BYTES, rows);
		if (!rc)
			rc = compare_rows(job, rows, i ? &ignored : &others);
	}
	free(rows);
	return rc;
}
