/* SPDX-License-Identifier: BSD-3-Clause
 * See retry.h. */
#include "rdma/retry.h"

enum {
	REFUSALS_MAX = 5, /* wrong proofs before a peer is given up */
	NOBODY_MAX = 3,   /* "nobody listens" before that, if it was never connected */
	BREAKS_MAX = 8,   /* breaks in a row, without a transfer in between */
	DOUBLINGS_MAX = 4,
	TRY_LEAST_MS = 200,
	WAIT_LEAST_MS = 20,
	NS_PER_MS = 1000000
};

static unsigned doublings(const struct retry *p)
{
	return p->tries < DOUBLINGS_MAX ? p->tries : DOUBLINGS_MAX;
}

struct retry retry_begin(int lost_after_ms, int client, uint64_t now)
{
	struct retry p = { .lost_after_ms = lost_after_ms, .client = client };

	retry_sleep(&p, now, client ? 0 : 2 * RETRY_PROBE_MS);
	return p;
}

/* Each try may take longer than the one before, because a busy peer answers late. While
 * reconnecting it stays short, because time is limited and nobody repeats a lost request for
 * seconds. */
int retry_try_ms(const struct retry *p)
{
	int longest = p->lost_after_ms / 2, ms = p->lost_after_ms / 10;

	if (!p->give_up_ns)
		ms <<= doublings(p);
	if (ms < TRY_LEAST_MS)
		ms = TRY_LEAST_MS;
	return ms < longest ? ms : longest;
}

void retry_await(struct retry *p, uint64_t now)
{
	retry_sleep(p, now, (uint32_t)retry_try_ms(p));
}

void retry_sleep(struct retry *p, uint64_t now, uint32_t ms)
{
	p->timer_ns = now + (uint64_t)ms * NS_PER_MS;
}

void retry_rest(struct retry *p)
{
	p->timer_ns = 0;
}

int retry_is_due(const struct retry *p, uint64_t now)
{
	return p->timer_ns && now >= p->timer_ns;
}

int retry_is_over(const struct retry *p, uint64_t now)
{
	return p->give_up_ns && now >= p->give_up_ns;
}

unsigned retry_failed(struct retry *p, uint64_t now)
{
	retry_sleep(p, now, p->client ? (uint32_t)WAIT_LEAST_MS << doublings(p) : RETRY_PROBE_MS);
	return ++p->tries;
}

int retry_refused(struct retry *p)
{
	return ++p->refusals >= REFUSALS_MAX;
}

int retry_alone(const struct retry *p)
{
	return p->was_up || p->tries >= NOBODY_MAX;
}

void retry_succeeded(struct retry *p)
{
	p->was_up = 1;
	p->tries = p->refusals = 0;
	p->timer_ns = p->give_up_ns = 0;
}

int retry_was_up(const struct retry *p)
{
	return p->was_up;
}

int retry_hurry(struct retry *p, uint64_t now)
{
	if (!p->was_up || p->give_up_ns)
		return 0;
	p->give_up_ns = now + (uint64_t)p->lost_after_ms / 2 * NS_PER_MS;
	return 1;
}

int retry_lost(struct retry *p, uint64_t now, uint64_t moved)
{
	if (moved != p->moved)
		p->breaks = 0;
	p->moved = moved;
	retry_hurry(p, now);
	p->timer_ns = now;
	return ++p->breaks > BREAKS_MAX;
}
