/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of worth.h. Candidates are compared by the fastest of their steps, because other
 * activity on a machine can only add time. */
#include "model/worth.h"
#include <stdio.h>
#include <string.h>

/* A sparser candidate may take at most this fraction of the time of the candidate that it
 * replaces. */
static const double quicker = 0.9;

unsigned worth_candidate(uint64_t steps, unsigned chosen)
{
	if (steps < WORTH_TRIAL)
		return (unsigned)(steps / WORTH_TRIES);
	return chosen ? chosen - 1 : WORTH_CANDIDATES - 1;
}

static uint64_t total_ns(const struct worth_step *s)
{
	return s->work_ns + s->wire_ns;
}

struct worth_step worth_since(struct worth *w, const struct worth_step *sums)
{
	const struct worth_step before = w->before;

	w->before = *sums;
	return (struct worth_step){ .work_ns = sums->work_ns - before.work_ns,
				    .wire_ns = sums->wire_ns - before.wire_ns,
				    .bytes = sums->bytes - before.bytes,
				    .dense_bytes = sums->dense_bytes - before.dense_bytes };
}

void worth_note(struct worth *w, uint64_t steps, unsigned candidate, const struct worth_step *step)
{
	struct worth_step *least = &w->least[candidate];

	if ((steps - 1) % WORTH_TRIES == 0)
		return; /* a candidate's first step includes its warm-up */
	if (!total_ns(least) || total_ns(step) < total_ns(least))
		*least = *step;
}

unsigned worth_choose(const struct worth *w)
{
	unsigned best = 0;

	for (unsigned i = 1; i < WORTH_CANDIDATES; i++)
		if ((double)total_ns(&w->least[i]) <= quicker * (double)total_ns(&w->least[best]))
			best = i;
	return best + 1;
}

static double ms(double ns)
{
	return ns * 1e-6;
}

void worth_words(unsigned budget, const enum code code[BUDGET_WAYS], char *text, size_t cap)
{
	static const char *const keys[BUDGET_WAYS] = { "up", "down" };
	size_t n = 0;

	for (enum budget_way way = 0; way < BUDGET_WAYS; way++) {
		const double density = budget_density(budget, way, code[way]);
		char selection[32] = "all";

		if (density < 1)
			snprintf(selection, sizeof(selection), "topk(%g)", density);
		n += (size_t)snprintf(text + n, cap - n, "%s%s=%s%s%s", way ? " " : "", keys[way],
				      selection, code[way] == CODE_F32 ? "" : ",",
				      code[way] == CODE_F32 ? "" : code_kinds[code[way]].name);
	}
}

void worth_explain(const struct worth *w, const struct auto_choice *choice, char *text, size_t cap)
{
	const unsigned chosen = choice->budget;
	char words[WORTH_WORDS_BYTES];
	size_t n;

	worth_words(chosen - 1, choice->code, words, sizeof(words));
	if (chosen == 1)
		snprintf(text, cap, "recipe auto continues with dense steps (up=all down=all): ");
	else
		snprintf(text, cap, "recipe auto continues with %s: ", words);
	for (unsigned i = 0; i < WORTH_CANDIDATES; i++) {
		const struct worth_step *s = &w->least[i];

		n = strlen(text);
		snprintf(text + n, cap - n, "%s %g took %.3f ms (%.3f work, %.3f exchange)",
			 i ? ", density" : "a step at density",
			 budget_density(i, BUDGET_UP, CODE_F32), ms((double)total_ns(s)),
			 ms((double)s->work_ns), ms((double)s->wire_ns));
	}
	n = strlen(text);
	if (chosen == 1)
		snprintf(text + n, cap - n, "; compression costs more than it saves here");
}

int worth_verdict(const struct worth *w, uint64_t parameters, char *text, size_t cap)
{
	/* For each parameter, a dense step writes 4 bytes into a message and reads 4 bytes of a
	 * delta. */
	double dense_work = 2 * 4 * (double)parameters * w->work_ns_per_byte;
	double dense_wire = (double)w->least[0].dense_bytes * w->wire_ns_per_byte;
	double work = (double)w->least[0].work_ns;
	double wire = (double)w->least[0].bytes * w->wire_ns_per_byte;

	if (w->wire_ns_per_byte <= 0 || !total_ns(&w->least[0]) ||
	    w->least[0].bytes >= w->least[0].dense_bytes)
		return 0;
	double saving = work + wire - dense_work - dense_wire;

	if (saving < WORTH_SAVING_NS || dense_work + dense_wire > quicker * (work + wire))
		return 0;
	snprintf(text, cap,
		 "compression costs more than it saves here: %.3f ms a step for selecting, coding "
		 "and adding, %.3f ms on the network (%.2f GB/s); up=all down=all would take about "
		 "%.3f ms and %.3f ms (SLUICE_ADVICE=no turns this warning off)",
		 ms(work), ms(wire), 1 / w->wire_ns_per_byte, ms(dense_work), ms(dense_wire));
	return 1;
}
