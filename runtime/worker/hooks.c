/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of the hooks. Each goes through the rows that worker_setup.c has listed for the
 * model. */
#include "worker/hooks.h"
#include "worker/state.h"

void hooks_close(sluice_model *model)
{
	for (const struct step_hooks *const *row = model->worker->hooks; *row; row++)
		if ((*row)->close)
			(*row)->close(model);
}

void hooks_restart(sluice_model *model)
{
	for (const struct step_hooks *const *row = model->worker->hooks; *row; row++)
		if ((*row)->restart)
			(*row)->restart(model);
}

void hooks_begin(sluice_model *model, const float *params)
{
	for (const struct step_hooks *const *row = model->worker->hooks; *row; row++)
		if ((*row)->begin)
			(*row)->begin(model, params);
}

void hooks_step_begins(sluice_model *model)
{
	for (const struct step_hooks *const *row = model->worker->hooks; *row; row++)
		if ((*row)->step_begins)
			(*row)->step_begins(model);
}

void hooks_folded(sluice_model *model, struct signal *signal)
{
	for (const struct step_hooks *const *row = model->worker->hooks; *row; row++)
		if ((*row)->folded)
			(*row)->folded(model, signal);
}

uint64_t hooks_count(const sluice_model *model, double density, uint64_t n)
{
	uint64_t count = 0;

	for (const struct step_hooks *const *row = model->worker->hooks; *row && !count; row++)
		count = (*row)->count ? (*row)->count(model, density, n) : 0;
	return count ? count : schedule_count(density, n);
}

void hooks_picked(sluice_model *model)
{
	for (const struct step_hooks *const *row = model->worker->hooks; *row; row++)
		if ((*row)->picked)
			(*row)->picked(model);
}

void hooks_emitted(sluice_model *model, const struct shard_layout *at, const struct pick *emitted)
{
	for (const struct step_hooks *const *row = model->worker->hooks; *row; row++)
		if ((*row)->emitted)
			(*row)->emitted(model, at, emitted);
}

uint32_t hooks_mark(const sluice_model *model)
{
	uint32_t mark = 0;

	for (const struct step_hooks *const *row = model->worker->hooks; *row && !mark; row++)
		mark = (*row)->mark ? (*row)->mark(model) : 0;
	return mark;
}

void hooks_sent(sluice_model *model, uint64_t elements)
{
	for (const struct step_hooks *const *row = model->worker->hooks; *row; row++)
		if ((*row)->sent)
			(*row)->sent(model, elements);
}

int hooks_note(sluice_model *model, uint32_t shard, const uint8_t *note, size_t n, const char **why)
{
	int rc = 0;

	for (const struct step_hooks *const *row = model->worker->hooks; *row && !rc; row++)
		rc = (*row)->note ? (*row)->note(model, shard, note, n, why) : 0;
	return rc;
}

int hooks_applied(sluice_model *model, uint32_t shard, const uint32_t *index,
		  const struct entries *got, const struct message *m)
{
	int rc = 0;

	for (const struct step_hooks *const *row = model->worker->hooks; *row && !rc; row++)
		rc = (*row)->applied ? (*row)->applied(model, shard, index, got, m) : 0;
	return rc;
}

void hooks_pulled(sluice_model *model)
{
	for (const struct step_hooks *const *row = model->worker->hooks; *row; row++)
		if ((*row)->pulled)
			(*row)->pulled(model);
}
