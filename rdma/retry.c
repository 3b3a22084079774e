/* SPDX-License-Identifier: BSD-3-Clause
 * See retry.h. */
#include "rdma/retry.h"
#include "base/clock.h"

enum {
	REFUSALS_MAX = 5, /* number of wrong proofs before the peer is given up */
	NOBODY_MAX = 3,   /* number of tries that find nobody listening, before a peer that was
			     never connected is given up */
	BREAKS_MAX = 8,   /* number of breaks in a row, without a transfer in between */
	DOUBLINGS_MAX = 4,
	LENGTHS = 3, /* number of different time limits for tries to reconnect */
	TRY_LEAST_MS = 200,
	WAIT_LEAST_MS = 20
};

static unsigned doublings(const struct retry *retry)
{
	return retry->tries < DOUBLINGS_MAX ? retry->tries : DOUBLINGS_MAX;
}

struct retry retry_begin(int lost_after_ms, int link_lost_after_ms, int client, uint64_t now)
{
	struct retry retry = { .lost_after_ms = lost_after_ms,
			       .link_lost_after_ms = link_lost_after_ms,
			       .client = client };

	retry_sleep(&retry, now, client ? 0 : (uint32_t)lost_after_ms / 2);
	return retry;
}

/* A try may take longer than the one before, because a busy peer answers late. The first tries take
 * longest, because all ranks then connect at the same time. While reconnecting, every third try is
 * short. Without that, nobody would repeat a lost request for seconds, and a link should be used
 * soon after it works again. */
int retry_try_ms(const struct retry *retry)
{
	int longest = retry->lost_after_ms / 2, ms = retry->lost_after_ms / 10;

	if (!retry->was_up)
		ms *= 2;
	ms <<= retry->give_up_ns ? retry->tries % LENGTHS : doublings(retry);
	if (ms < TRY_LEAST_MS)
		ms = TRY_LEAST_MS;
	return ms < longest ? ms : longest;
}

void retry_await(struct retry *retry, uint64_t now)
{
	retry_sleep(retry, now, (uint32_t)retry_try_ms(retry));
}

void retry_sleep(struct retry *retry, uint64_t now, uint32_t ms)
{
	retry->timer_ns = now + (uint64_t)ms * NS_PER_MS;
}

void retry_rest(struct retry *retry)
{
	retry->timer_ns = 0;
}

int retry_is_due(const struct retry *retry, uint64_t now)
{
	return retry->timer_ns && now >= retry->timer_ns;
}

int retry_is_over(const struct retry *retry, uint64_t now)
{
	return retry->give_up_ns && now >= retry->give_up_ns;
}

unsigned retry_failed(struct retry *retry, uint64_t now)
{
	retry_sleep(retry, now,
		    retry->client ? (uint32_t)WAIT_LEAST_MS << doublings(retry) : RETRY_PROBE_MS);
	return ++retry->tries;
}

int retry_refused(struct retry *retry)
{
	return ++retry->refusals >= REFUSALS_MAX;
}

int retry_alone(const struct retry *retry)
{
	return retry->was_up || retry->tries >= NOBODY_MAX;
}

void retry_succeeded(struct retry *retry)
{
	retry->was_up = 1;
	retry->tries = retry->refusals = 0;
	retry->timer_ns = retry->give_up_ns = 0;
}

int retry_was_up(const struct retry *retry)
{
	return retry->was_up;
}

int retry_hurry(struct retry *retry, uint64_t now)
{
	if (!retry->was_up || retry->give_up_ns)
		return 0;
	retry->give_up_ns = now + (uint64_t)retry->link_lost_after_ms * NS_PER_MS;
	return 1;
}

int retry_lost(struct retry *retry, uint64_t now, uint64_t moved)
{
	if (moved != retry->moved)
		retry->breaks = 0;
	retry->moved = moved;
	retry_hurry(retry, now);
	retry->timer_ns = now;
	return ++retry->breaks > BREAKS_MAX;
}
