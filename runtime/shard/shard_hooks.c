/* SPDX-License-Identifier: BSD-3-Clause
 * The methods that take part in a shard's step, and the calls of their hooks. */
#include "shard/shard_hooks.h"
#include "recipe/schedule.h"
#include "shard/agreed.h"
#include "shard/lazy_sum.h"
#include "shard/median.h"
#include "shard/shard_async.h"
#include "shard/shard_bits.h"
#include "shard/shard_census.h"
#include "shard/shard_quorum.h"
#include "shard/state.h"

static const struct shard_hooks *const rows[SHARD_HOOKS] = {
	&lazy_sum_hooks,   &agreed_hooks,       &shard_census_hooks, &shard_async_hooks,
	&shard_bits_hooks, &shard_quorum_hooks, &median_hooks
};

int shard_hooks_open(struct shard *shard)
{
	const struct shard_hooks **list = shard->hooks;
	int rc = 0;

	for (int i = 0; i < SHARD_HOOKS && !rc; i++) {
		if (!rows[i]->used(shard))
			continue;
		*list++ = rows[i];
		rc = rows[i]->open ? rows[i]->open(shard) : 0;
	}
	return rc;
}

void shard_hooks_close(struct shard *shard)
{
	for (const struct shard_hooks *const *row = shard->hooks; *row; row++)
		if ((*row)->close)
			(*row)->close(shard);
}

void shard_hooks_restart(struct shard *shard)
{
	for (const struct shard_hooks *const *row = shard->hooks; *row; row++)
		if ((*row)->restart)
			(*row)->restart(shard);
}

const char *shard_hooks_note(struct shard *shard, uint64_t seq, const uint8_t *note, size_t room)
{
	const char *why = NULL;

	for (const struct shard_hooks *const *row = shard->hooks; *row && !why; row++)
		why = (*row)->note ? (*row)->note(shard, seq, note, room) : NULL;
	return why;
}

void shard_hooks_taken(struct shard *shard, int worker, const struct message *m)
{
	for (const struct shard_hooks *const *row = shard->hooks; *row; row++)
		if ((*row)->taken)
			(*row)->taken(shard, worker, m);
}

void shard_hooks_summed(struct shard *shard)
{
	for (const struct shard_hooks *const *row = shard->hooks; *row; row++)
		if ((*row)->summed)
			(*row)->summed(shard);
}

uint64_t shard_hooks_count(const struct shard *shard, double density, uint64_t n)
{
	uint64_t count = 0;

	for (const struct shard_hooks *const *row = shard->hooks; *row && !count; row++)
		count = (*row)->count ? (*row)->count(shard, density, n) : 0;
	return count ? count : schedule_count(density, n);
}

int shard_hooks_pick(struct shard *shard, float *vector, struct pick *out)
{
	int picks = 0;

	for (const struct shard_hooks *const *row = shard->hooks; *row && !picks; row++)
		picks = (*row)->pick ? (*row)->pick(shard, vector, out) : 0;
	return picks;
}

uint32_t shard_hooks_mark(const struct shard *shard)
{
	uint32_t mark = 0;

	for (const struct shard_hooks *const *row = shard->hooks; *row; row++)
		mark |= (*row)->mark ? (*row)->mark(shard) : 0;
	return mark;
}

size_t shard_hooks_delta_note(struct shard *shard, uint8_t *out)
{
	size_t bytes = 0;

	for (const struct shard_hooks *const *row = shard->hooks; *row; row++)
		if ((*row)->delta_note)
			bytes += (*row)->delta_note(shard, out + bytes);
	return bytes;
}

int shard_hooks_counts(const struct shard *shard, int worker)
{
	int counts = 1;

	for (const struct shard_hooks *const *row = shard->hooks; *row && counts; row++)
		counts = (*row)->counts ? (*row)->counts(shard, worker) : 1;
	return counts;
}

void shard_hooks_step_ends(struct shard *shard)
{
	for (const struct shard_hooks *const *row = shard->hooks; *row; row++)
		if ((*row)->step_ends)
			(*row)->step_ends(shard);
}
