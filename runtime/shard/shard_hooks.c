/* SPDX-License-Identifier: BSD-3-Clause
 * The methods that take part in a shard's step, and the calls of their hooks. */
#include "shard/shard_hooks.h"
#include "shard/agreed.h"
#include "shard/lazy_sum.h"
#include "shard/shard_async.h"
#include "shard/shard_census.h"
#include "recipe/schedule.h"

static const struct shard_hooks *const rows[] = { &lazy_sum_hooks, &agreed_hooks,
						  &shard_census_hooks, &shard_async_hooks };
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

int shard_hooks_open(struct shard *shard)
{
	int rc = 0;

	for (int i = 0; i < ROWS && !rc; i++)
		rc = rows[i]->open ? rows[i]->open(shard) : 0;
	return rc;
}

void shard_hooks_close(struct shard *shard)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->close)
			rows[i]->close(shard);
}

void shard_hooks_restart(struct shard *shard)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->restart)
			rows[i]->restart(shard);
}

const char *shard_hooks_note(struct shard *shard, uint64_t seq, const uint8_t *note, size_t room)
{
	const char *why = NULL;

	for (int i = 0; i < ROWS && !why; i++)
		why = rows[i]->note ? rows[i]->note(shard, seq, note, room) : NULL;
	return why;
}

void shard_hooks_taken(struct shard *shard, int worker, const struct message *m)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->taken)
			rows[i]->taken(shard, worker, m);
}

void shard_hooks_summed(struct shard *shard)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->summed)
			rows[i]->summed(shard);
}

uint64_t shard_hooks_count(const struct shard *shard, double density, uint64_t n)
{
	uint64_t count = 0;

	for (int i = 0; i < ROWS && !count; i++)
		count = rows[i]->count ? rows[i]->count(shard, density, n) : 0;
	return count ? count : schedule_count(density, n);
}

int shard_hooks_pick(struct shard *shard, float *vector, struct pick *out)
{
	int picks = 0;

	for (int i = 0; i < ROWS && !picks; i++)
		picks = rows[i]->pick ? rows[i]->pick(shard, vector, out) : 0;
	return picks;
}

uint32_t shard_hooks_mark(const struct shard *shard)
{
	uint32_t mark = 0;

	for (int i = 0; i < ROWS; i++)
		mark |= rows[i]->mark ? rows[i]->mark(shard) : 0;
	return mark;
}

size_t shard_hooks_delta_note(struct shard *shard, uint8_t *out)
{
	size_t bytes = 0;

	for (int i = 0; i < ROWS; i++)
		if (rows[i]->delta_note)
			bytes += rows[i]->delta_note(shard, out + bytes);
	return bytes;
}

void shard_hooks_step_ends(struct shard *shard)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->step_ends)
			rows[i]->step_ends(shard);
}
