/* SPDX-License-Identifier: BSD-3-Clause
 * The methods that take part in a worker's step, and the calls of their hooks. */
#include "worker/hooks.h"
#include "worker/agree.h"
#include "worker/async.h"
#include "worker/guard.h"
#include "worker/lazy.h"
#include "worker/local.h"
#include "worker/parts.h"
#include "worker/target.h"
#include "worker/worker_census.h"
#include "worker/worker_measure.h"

/* A step goes through them in this order. */
static const struct step_hooks *const rows[] = { &local_hooks,  &measure_hooks, &census_hooks,
						 &agree_hooks,  &lazy_hooks,    &async_hooks,
						 &target_hooks, &parts_hooks,   &guard_hooks };
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

int hooks_open(sluice_model *model)
{
	int rc = 0;

	for (int i = 0; i < ROWS && !rc; i++)
		rc = rows[i]->open ? rows[i]->open(model) : 0;
	return rc;
}

void hooks_close(sluice_model *model)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->close)
			rows[i]->close(model);
}

void hooks_restart(sluice_model *model)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->restart)
			rows[i]->restart(model);
}

void hooks_begin(sluice_model *model, const float *params)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->begin)
			rows[i]->begin(model, params);
}

uint64_t hooks_memory(const struct layout *l, const struct recipe *recipe)
{
	uint64_t bytes = 0;

	for (int i = 0; i < ROWS; i++)
		bytes += rows[i]->memory ? rows[i]->memory(l, recipe) : 0;
	return bytes;
}

void hooks_step_begins(sluice_model *model)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->step_begins)
			rows[i]->step_begins(model);
}

void hooks_folded(sluice_model *model, struct signal *signal)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->folded)
			rows[i]->folded(model, signal);
}

uint64_t hooks_count(const sluice_model *model, double density, uint64_t n)
{
	uint64_t count = 0;

	for (int i = 0; i < ROWS && !count; i++)
		count = rows[i]->count ? rows[i]->count(model, density, n) : 0;
	return count ? count : schedule_count(density, n);
}

void hooks_picked(sluice_model *model)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->picked)
			rows[i]->picked(model);
}

void hooks_emitted(sluice_model *model, const struct shard_layout *at, const struct pick *emitted)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->emitted)
			rows[i]->emitted(model, at, emitted);
}

uint32_t hooks_mark(const sluice_model *model)
{
	uint32_t mark = 0;

	for (int i = 0; i < ROWS && !mark; i++)
		mark = rows[i]->mark ? rows[i]->mark(model) : 0;
	return mark;
}

void hooks_sent(sluice_model *model, uint64_t elements)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->sent)
			rows[i]->sent(model, elements);
}

int hooks_note(sluice_model *model, uint32_t shard, const uint8_t *note, size_t n, const char **why)
{
	int rc = 0;

	for (int i = 0; i < ROWS && !rc; i++)
		rc = rows[i]->note ? rows[i]->note(model, shard, note, n, why) : 0;
	return rc;
}

int hooks_applied(sluice_model *model, uint32_t shard, const uint32_t *index,
		  const struct entries *got, const struct message *m)
{
	int rc = 0;

	for (int i = 0; i < ROWS && !rc; i++)
		rc = rows[i]->applied ? rows[i]->applied(model, shard, index, got, m) : 0;
	return rc;
}

void hooks_pulled(sluice_model *model)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i]->pulled)
			rows[i]->pulled(model);
}
