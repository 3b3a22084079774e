/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of the hooks. Each goes through the rows that worker_setup.c has listed for the
 * model. */
#include "worker/hooks.h"
#include "worker/state.h"

void hooks_close(struct worker *w)
{
	for (const struct step_hooks *const *row = w->hooks; *row; row++)
		if ((*row)->close)
			(*row)->close(w);
}

void hooks_restart(struct worker *w)
{
	for (const struct step_hooks *const *row = w->hooks; *row; row++)
		if ((*row)->restart)
			(*row)->restart(w);
}

void hooks_begin(struct worker *w, const float *params)
{
	for (const struct step_hooks *const *row = w->hooks; *row; row++)
		if ((*row)->begin)
			(*row)->begin(w, params);
}

void hooks_step_begins(struct worker *w)
{
	for (const struct step_hooks *const *row = w->hooks; *row; row++)
		if ((*row)->step_begins)
			(*row)->step_begins(w);
}

void hooks_folded(struct worker *w, struct signal *signal)
{
	for (const struct step_hooks *const *row = w->hooks; *row; row++)
		if ((*row)->folded)
			(*row)->folded(w, signal);
}

uint64_t hooks_count(const struct worker *w, double density, uint64_t n)
{
	uint64_t count = 0;

	for (const struct step_hooks *const *row = w->hooks; *row && !count; row++)
		count = (*row)->count ? (*row)->count(w, density, n) : 0;
	return count ? count : schedule_count(density, n);
}

void hooks_picked(struct worker *w)
{
	for (const struct step_hooks *const *row = w->hooks; *row; row++)
		if ((*row)->picked)
			(*row)->picked(w);
}

void hooks_emitted(struct worker *w, const struct shard_layout *at, const struct pick *emitted)
{
	for (const struct step_hooks *const *row = w->hooks; *row; row++)
		if ((*row)->emitted)
			(*row)->emitted(w, at, emitted);
}

uint32_t hooks_mark(const struct worker *w)
{
	uint32_t mark = 0;

	for (const struct step_hooks *const *row = w->hooks; *row && !mark; row++)
		mark = (*row)->mark ? (*row)->mark(w) : 0;
	return mark;
}

void hooks_sent(struct worker *w, uint64_t elements)
{
	for (const struct step_hooks *const *row = w->hooks; *row; row++)
		if ((*row)->sent)
			(*row)->sent(w, elements);
}

int hooks_note(struct worker *w, uint32_t shard, const uint8_t *note, size_t n, const char **why)
{
	int rc = 0;

	for (const struct step_hooks *const *row = w->hooks; *row && !rc; row++)
		rc = (*row)->note ? (*row)->note(w, shard, note, n, why) : 0;
	return rc;
}

int hooks_applied(struct worker *w, uint32_t shard, const uint32_t *index,
		  const struct entries *got, const struct message *m)
{
	int rc = 0;

	for (const struct step_hooks *const *row = w->hooks; *row && !rc; row++)
		rc = (*row)->applied ? (*row)->applied(w, shard, index, got, m) : 0;
	return rc;
}

void hooks_pulled(struct worker *w)
{
	for (const struct step_hooks *const *row = w->hooks; *row; row++)
		if ((*row)->pulled)
			(*row)->pulled(w);
}
