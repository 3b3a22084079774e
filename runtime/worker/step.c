/* SPDX-License-Identifier: BSD-3-Clause
 * See step.h. */
#include "worker/step.h"
#include "sluice.h"

static void first_phase(struct step *s, int encoded)
{
	s->phase = 0;
	s->encoded = encoded;
	s->shards_done = 0;
}

void step_restart(struct step *s, uint64_t number, uint32_t fragment, const struct step_rule *rule)
{
	s->number = number;
	s->fragment = fragment;
	s->chosen = s->proposed = 0;
	s->rule = *rule;
	s->state = STEP_DONE;
	s->skipped = 0;
	s->left_out = 0;
	s->phase = 0;
	s->due = 0;
	s->behind = 0;
	s->arriving = 0;
}

void step_resume(struct step *s, uint64_t done)
{
	s->done = done;
}

void step_set_rate(struct step *s, float lr)
{
	s->next_lr = lr;
	if (s->state == STEP_DONE)
		s->lr = lr;
}

/* ---- a push ------------------------------------------------------------------ */

void step_begin(struct step *s, uint64_t number, uint32_t fragment, const struct step_rule *rule)
{
	s->number = number;
	s->fragment = fragment;
	s->rule = *rule;
	first_phase(s, 0);
	s->asked = 0;
}

void step_become(struct step *s, enum step_state state)
{
	s->state = state;
}

void step_leave_out(struct step *s, int left_out)
{
	s->left_out = left_out;
}

void step_skip(struct step *s, unsigned raised)
{
	s->skipped = 1;
	s->raised = raised;
	s->state = STEP_PUSHED;
}

void step_unskip(struct step *s)
{
	s->skipped = 0;
}

void step_set_range(struct step *s, float range)
{
	s->range = range;
}

void step_set_norm(struct step *s, float norm)
{
	s->norm = norm;
}

int step_fail(struct step *s, uint64_t coordinate)
{
	s->overflowed = coordinate;
	return SLUICE_ENUMERIC;
}

void step_encoded(struct step *s)
{
	s->encoded = 1;
}

void step_sent(struct step *s)
{
	s->raise = 0;
	s->state = STEP_PUSHED;
}

/* ---- the phases -------------------------------------------------------------- */

void step_unpushed(struct step *s)
{
	first_phase(s, 1);
}

void step_pull_alone(struct step *s, int on)
{
	s->unpushed = on;
}

void step_phase_ends(struct step *s)
{
	s->phase++;
	s->encoded = 0;
	s->shards_done = 0;
}

void step_shard_ends(struct step *s, unsigned raised)
{
	*(s->due ? &s->arriving : &s->raised) |= raised;
	s->shards_done++;
}

/* ---- a pull ------------------------------------------------------------------ */

void step_set_asked(struct step *s, int asked)
{
	s->asked = asked;
}

void step_set_pull(struct step *s, enum pull_kind kind)
{
	s->pull = kind;
}

void step_pull(struct step *s)
{
	s->raised = 0;
}

void step_end(struct step *s)
{
	s->state = STEP_DONE;
	s->lr = s->next_lr;
}

void step_complete(struct step *s)
{
	s->done++;
	step_end(s);
}

/* ---- an exchange that is applied late ---------------------------------------- */

void step_go_behind(struct step *s, uint64_t due)
{
	s->due = due;
	s->behind = 1;
	s->arriving = 0;
}

void step_arrive(struct step *s)
{
	s->behind = 0;
}

void step_apply_late(struct step *s)
{
	s->due = 0;
	s->raised = s->arriving;
}

void step_resume_late(struct step *s, uint64_t due)
{
	s->due = due;
}

/* ---- flags and choices ------------------------------------------------------- */

void step_raise(struct step *s, unsigned flags)
{
	s->raise |= flags;
}

void step_propose(struct step *s, unsigned choice)
{
	s->proposed = choice;
}

void step_adopt(struct step *s, unsigned choice)
{
	s->chosen = s->proposed = choice;
}

void step_restore(struct step *s, unsigned chosen, unsigned proposed, const struct step_rule *rule)
{
	s->chosen = chosen;
	s->proposed = proposed;
	s->rule = *rule;
}
