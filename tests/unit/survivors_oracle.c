/* SPDX-License-Identifier: BSD-3-Clause
 * The oracle of survivors.h, and the verdict on a job that lost workers. */
#include "survivors.h"
#include "compress/select.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

/* ---- the oracle ------------------------------------------------------------ */

/* update=momentum(0.9) of the mean of the counted pushes, dense or top-k in both directions with
 * residuals. */
struct oracle {
	float params[COUNT], velocity[COUNT], residual[COUNT];
	float memory[WORKERS][COUNT];
	struct selector *up, *down;
};

static void replay_step(struct oracle *o, const struct plan *p, uint64_t step)
{
	enum { SPAN = COUNT / SHARDS };
	uint32_t index[COUNT];
	float sum[COUNT] = { 0 };
	struct span whole = { 0, COUNT, 0 }, part = { 0, SPAN, 0 };
	for (int w = 0; w < WORKERS; w++) {
		float *m = o->memory[w];
		size_t n = COUNT;
		for (uint32_t i = 0; i < COUNT; i++) {
			m[i] = (p->sparse ? m[i] : 0) + worker_gradient(step, (uint64_t)w, i);
			index[i] = i;
		}
		if (p->sparse)
			n = select_topk(o->up, m, &whole, 1, COUNT / 10, index);
		for (size_t j = 0; j < n; j++) {
			uint32_t i = index[j];
			if (p->counted[i / SPAN][step] >> w & 1)
				sum[i] += m[i];
			m[i] -= m[i];
		}
	}
	for (int s = 0; s < SHARDS; s++) {
		float share = 1.0f / (float)p->divisor[s][step];
		float *change = sum + s * SPAN, *velocity = o->velocity + s * SPAN;
		float *residual = o->residual + s * SPAN, *params = o->params + s * SPAN;
		for (int i = 0; i < SPAN; i++) {
			change[i] *= share;
			velocity[i] = 0.9f * velocity[i] + change[i];
			change[i] = -worker_rate(step) * velocity[i];
		}
		if (!p->sparse) {
			for (int i = 0; i < SPAN; i++)
				params[i] += change[i];
			continue;
		}
		for (int i = 0; i < SPAN; i++)
			residual[i] += change[i];
		size_t n = select_topk(o->down, residual, &part, 1, SPAN / 4, index);
		for (size_t j = 0; j < n; j++) {
			params[index[j]] += residual[index[j]];
			residual[index[j]] -= residual[index[j]];
		}
	}
}

static uint64_t replay(const struct plan *p)
{
	static struct oracle o;
	memset(&o, 0, sizeof o);
	assert_int_equal(selector_open(COUNT, &o.up), 0);
	assert_int_equal(selector_open(COUNT, &o.down), 0);
	for (uint64_t i = 0; i < COUNT; i++)
		o.params[i] = noise(3, 0, 0, i);
	for (uint64_t step = 1; step <= p->steps; step++)
		replay_step(&o, p, step);
	selector_close(&o.up);
	selector_close(&o.down);
	return sluice_digest(o.params, sizeof o.params);
}

/* ---- judging --------------------------------------------------------------- */

static int bits(unsigned set)
{
	return __builtin_popcount(set);
}

/* Checks that each shard counts a worker's pushes up to some step and none after it, and that the
 * divisors are the numbers of counted pushes. */
static void judge_counts(const struct plan *p)
{
	for (int s = 0; s < SHARDS; s++)
		for (uint64_t step = 1; step <= p->steps; step++) {
			unsigned counted = p->counted[s][step],
				 before = step > 1 ? p->counted[s][step - 1] : 15;
			if (p->divisor[s][step] != (uint32_t)bits(counted))
				fail_msg("shard %d step %llu: divisor %u, counted 0x%x", s,
					 (unsigned long long)step, p->divisor[s][step], counted);
			if (counted & ~before || ~counted & 15 & ~p->victims)
				fail_msg("shard %d step %llu: counted 0x%x after 0x%x, lost 0x%x",
					 s, (unsigned long long)step, counted, before, p->victims);
		}
	assert_int_equal(p->counted[0][1], 15);
	assert_int_equal(p->counted[0][p->steps], 15 & ~p->victims);
	assert_int_equal(p->counted[1][p->steps], 15 & ~p->victims);
}

void check_ends(const int *status, unsigned killed)
{
	for (int r = 0; r < RANKS; r++)
		if (killed >> r & 1 ? !WIFSIGNALED(status[r]) :
				      !WIFEXITED(status[r]) || WEXITSTATUS(status[r]))
			fail_msg("rank %d, killed 0x%x: status 0x%x", r, killed,
				 (unsigned)status[r]);
}

void survivors_judge(const struct plan *p, const int *status)
{
	uint64_t expected = replay(p), sums = 0;
	judge_counts(p);
	check_ends(status, p->stops ? 0 : p->victims);
	for (int r = 0; r < RANKS; r++) {
		if (p->victims >> r & 1)
			continue;
		if (r < WORKERS && p->digest[r] != expected)
			fail_msg("rank %d ends with digest %016llx, the oracle with %016llx", r,
				 (unsigned long long)p->digest[r], (unsigned long long)expected);
		assert_int_equal(p->named[r], (int)p->victims);
		assert_int_equal(p->living[r], WORKERS - bits(p->victims));
		assert_int_equal(p->lost[r], bits(p->victims));
		if (r < WORKERS && sums)
			assert_true(p->sums[r] == sums);
		if (r < WORKERS)
			sums = p->sums[r];
	}
	if (p->stops)
		assert_int_equal(atomic_load(&p->told), bits(p->victims));
}
